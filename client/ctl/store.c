/* Opening the store for commands about keys; see store.h. */
#include "client/ctl/store.h"

#include <string.h>

#define TIMEOUT_MS 10000

struct rdzv_client *store_open(const struct ctl *ctl, enum ctl_exit *code)
{
    const struct rdzv_options options = {.timeout_ms = ctl_timeout(ctl, TIMEOUT_MS),
                                         .key_prefix = ""};
    struct rdzv_client *c = NULL;
    enum rdzv_status status;

    if (ctl->unix_path != NULL || ctl->space != NULL) {
        *code =
            ctl_say(CTL_USAGE, "keys go over c10d, in the space of the listener: use -s HOST:PORT "
                               "of a listener of that space, without --space");
        return NULL;
    }
    status = rdzv_client_new(ctl->server, &options, &c);
    if (status != RDZV_OK)
        *code = ctl_say(CTL_FAILED, "%s: %s", ctl->server, rdzv_status_name(status));
    return c;
}

enum ctl_exit store_code(enum rdzv_status status)
{
    switch (status) {
    case RDZV_OK:
        return CTL_FINE;
    case RDZV_ABSENT:
    case RDZV_TIMEOUT:
        return CTL_MISSING;
    case RDZV_UNREACHABLE:
    case RDZV_LOST:
    case RDZV_PROTOCOL:
        return CTL_UNREACHABLE;
    default:
        return CTL_FAILED;
    }
}

enum ctl_exit store_say(enum rdzv_status status, const char *message)
{
    enum ctl_exit code = store_code(status);

    if (status == RDZV_OK)
        return code;
    return ctl_say(code, "%s%s", message, status == RDZV_UNREACHABLE ? " Use -s HOST:PORT" : "");
}

enum ctl_exit store_failed(struct rdzv_client *c, enum rdzv_status status)
{
    return store_say(status, rdzv_client_message(c));
}

struct rdzv_bytes store_text(const char *text)
{
    return (struct rdzv_bytes){text, strlen(text)};
}
