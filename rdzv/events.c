/* Events that libevent may refuse. See events.h for the contract. */
#include "rdzv/events.h"

#include <errno.h>

#include "rdzv/log.h"

bool events_add(struct event *event, const struct timeval *after)
{
    int error;

    if (event_add(event, after) == 0)
        return true;
    error = errno;
    log_limited(LOG_ERROR, "event_failed", log_errno("error", error),
                log_str("remedy", error == ENOSPC ? "raise fs.epoll.max_user_watches (sysctl)"
                                                  : "give the process more memory"));
    errno = error;
    return false;
}
