/* What all of rdzvctl's commands share: how they complain, their time, their memory, their files
 * for TLS. See ctl.h. */
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
