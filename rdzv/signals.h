/* The signals that a daemon handles. They are blocked and read from a descriptor, so a signal that
 * arrives between two servers, at a restart, waits for the second one. */
#pragma once

#include <event2/event_struct.h>
#include <stdbool.h>

struct signals {
    struct event event;
    int fd;
    void (*tell)(void *arg, int number);
    void *arg;
};

/* From here on, SIGTERM, SIGINT, SIGHUP, SIGUSR1 and SIGUSR2 come only through `struct signals`,
 * and wait while none is open. (Threads block all signals, see thread.h.) tell() is called for
 * each; a signal that arrives twice before that counts once. False, with a line in the log, if a
 * descriptor or an event is missing. The caller must call signals_close() in both cases. */
bool signals_open(struct signals *s, struct event_base *base, void (*tell)(void *arg, int number),
                  void *arg);

/* Also accepts a struct of zeros, which was never opened. */
void signals_close(struct signals *s);
