/* Lists as of sys/queue.h, which glibc has without the loop whose body may take items off. */
#pragma once

#include <stdbool.h>
#include <sys/queue.h>

#ifndef TAILQ_FOREACH_SAFE
#define TAILQ_FOREACH_SAFE(item, list, entry, next)                                              \
    for ((item) = TAILQ_FIRST(list); (item) != NULL && ((next) = TAILQ_NEXT(item, entry), true); \
         (item) = (next))
#endif
