/* What all of rdzvctl's commands share: how they complain, their time, their memory, their files
 * for TLS, and the store for commands about keys. See ctl.h. */
#include "client/ctl/ctl.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "proto/tls/tls.h"

enum ctl_exit ctl_say(enum ctl_exit code, const char *format, ...)
{
    va_list args;

    fflush(stdout);
    fputs("rdzvctl: ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    return code;
}

int64_t ctl_timeout(const struct ctl *ctl, int64_t otherwise_ms)
{
    if (ctl->timeout_ms == 0)
        return 1; /* for libraries, 0 means no timeout, or their default */
    return ctl->timeout_ms > 0 ? ctl->timeout_ms : otherwise_ms;
}

double ctl_now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

void ctl_pause(int64_t ms)
{
    const struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

    nanosleep(&t, NULL);
}

void *ctl_memory(void *p)
{
    if (p != NULL)
        return p;
    fputs("rdzvctl: out of memory\n", stderr);
    exit(CTL_FAILED);
}

/* `text` is "FILE: its fault", or names no file of the options. */
static void describe_tls_files(const struct ctl *ctl, const char *text, char why[CTL_TLS_WHY_MAX])
{
    const struct {
        const char *option, *file, *wanted;
    } given[] = {
        {"--cacert", ctl->tls_with.ca, "the certificates of CAs, in PEM"},
        {"--cert", ctl->tls_with.cert, "a certificate in PEM"},
        {"--key", ctl->tls_with.key,
         "the key of the certificate in --cert, in PEM and without a password"},
    };

    for (size_t i = 0; i < sizeof given / sizeof *given; i++) {
        size_t len = given[i].file == NULL ? 0 : strlen(given[i].file);

        if (len > 0 && strncmp(text, given[i].file, len) == 0 && text[len] == ':') {
            snprintf(why, CTL_TLS_WHY_MAX, "%s: %s; give a file that has %s", given[i].option, text,
                     given[i].wanted);
            return;
        }
    }
    snprintf(why, CTL_TLS_WHY_MAX, "%s", text);
}

bool ctl_check_tls_files(const struct ctl *ctl, char why[CTL_TLS_WHY_MAX])
{
    const struct tls_files files = {
        .cert = ctl->tls_with.cert, .key = ctl->tls_with.key, .ca = ctl->tls_with.ca};
    char text[TLS_WHY_MAX];
    SSL_CTX *context;

    if (!ctl->tls)
        return true;
    context = tls_client_context(&files, NULL, text);
    if (context == NULL)
        describe_tls_files(ctl, text, why);
    SSL_CTX_free(context);
    return context != NULL;
}

/* --- The store, for commands about keys. --- */

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
