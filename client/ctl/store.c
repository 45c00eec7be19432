/* Opening the store for commands about keys; see store.h. */
#include "client/ctl/store.h"

#include <string.h>

#define TIMEOUT_MS 10000

enum rdzv_status store_new(const struct ctl *ctl, int64_t timeout_ms, struct rdzv_client **out)
{
    const struct rdzv_tls tls = {.ca_file = ctl->tls_with.ca,
                                 .cert_file = ctl->tls_with.cert,
                                 .key_file = ctl->tls_with.key,
                                 .server_name = ctl->tls_with.name};
    const struct rdzv_options options = {
        .timeout_ms = timeout_ms, .key_prefix = "", .tls = ctl->tls ? &tls : NULL};

    return rdzv_client_new(ctl->server, &options, out);
}

enum ctl_exit store_run(const struct ctl *ctl,
                        enum ctl_exit (*run)(const struct ctl *ctl, struct rdzv_client *c))
{
    struct rdzv_client *c = NULL;
    enum rdzv_status status;
    enum ctl_exit code;
    char why[CTL_TLS_WHY_MAX];

    if (ctl->unix_path != NULL || ctl->space != NULL)
        return ctl_say(CTL_USAGE,
                       "keys go over c10d, in the space of the listener: use -s HOST:PORT "
                       "of a listener of that space, without --space");
    if (!ctl_check_tls_files(ctl, why))
        return ctl_say(CTL_USAGE, "%s", why);
    status = store_new(ctl, ctl_timeout(ctl, TIMEOUT_MS), &c);
    if (status != RDZV_OK)
        return ctl_say(CTL_FAILED, "%s: %s", ctl->server, rdzv_status_name(status));
    code = run(ctl, c);
    rdzv_client_free(c);
    return code;
}

static enum ctl_exit store_code(enum rdzv_status status)
{
    switch (status) {
    case RDZV_OK:
        return CTL_FINE;
    case RDZV_ABSENT:
        return CTL_MISSING;
    case RDZV_TIMEOUT:
    case RDZV_UNREACHABLE:
    case RDZV_LOST:
    case RDZV_PROTOCOL:
    case RDZV_TLS:
        return CTL_UNREACHABLE;
    default:
        return CTL_FAILED;
    }
}

enum ctl_exit store_failed(struct rdzv_client *c, enum rdzv_status status)
{
    const char *message = rdzv_client_message(c);
    enum ctl_exit code = store_code(status);

    if (status == RDZV_OK)
        return code;
    return ctl_say(code, "%s%s", message,
                   status == RDZV_UNREACHABLE && strstr(message, "/readyz") != NULL
                       ? " `rdzvctl health --ready` says so. Use -s HOST:PORT"
                   : status == RDZV_UNREACHABLE ? " Use -s HOST:PORT"
                   : status == RDZV_TLS         ? STORE_TLS_OPTIONS
                                                : "");
}
