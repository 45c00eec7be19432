/* event_add(), checked: it fails for want of memory, or of the kernel's epoll watches. */
#pragma once

#include <event2/event.h>
#include <stdbool.h>

/* As event_add(). False, with errno, after it logged why: the caller ends what needs the event, or
 * tries again later. */
bool events_add(struct event *event, const struct timeval *after);
