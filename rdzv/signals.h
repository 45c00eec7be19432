/* The signals that a daemon may get. They are blocked and read from a descriptor, so that one that
 * comes between two servers, of which the second begins anew, waits for that one. */
#pragma once

#include <event2/event_struct.h>
#include <stdbool.h>

struct signals {
    struct event event;
    int fd;
    void (*tell)(void *arg, int number);
    void *arg;
};

/* From here on the process gets SIGTERM, SIGINT, SIGHUP, SIGUSR1 and SIGUSR2 through `struct
 * signals` alone, and keeps those that come while there is none. (Threads block all signals, see
 * thread.h.) tell() is called for each; once, if the same signal comes twice before that. False,
 * with a line in the log, when there is no descriptor or no event. Ended with signals_close()
 * either way.
 */
bool signals_open(struct signals *s, struct event_base *base, void (*tell)(void *arg, int number),
                  void *arg);

/* Also accepts a struct that is all zeros or was never opened. */
void signals_close(struct signals *s);
