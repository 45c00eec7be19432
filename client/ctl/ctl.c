/* What all of rdzvctl's commands share: how they complain, their time, their memory. See ctl.h. */
#include "client/ctl/ctl.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

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
        return 1; /* libraries take 0 for no timeout, or for their own */
    return ctl->timeout_ms > 0 ? ctl->timeout_ms : otherwise_ms;
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
