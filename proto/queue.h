/* Loops over lists: those of sys/queue.h, which glibc has without the loop whose body may take
 * items off, and arrays. */
#pragma once

#include <stdbool.h>
#include <sys/queue.h>

#ifndef TAILQ_FOREACH_SAFE
#define TAILQ_FOREACH_SAFE(item, list, entry, next)                                              \
    for ((item) = TAILQ_FIRST(list); (item) != NULL && ((next) = TAILQ_NEXT(item, entry), true); \
         (item) = (next))
#endif

/* As the two above, which leave it to the caller to declare the items. */
#define TAILQ_EACH(type, item, list, entry) \
    for (type *item = TAILQ_FIRST(list); item != NULL; item = TAILQ_NEXT(item, entry))
#define TAILQ_EACH_SAFE(type, item, list, entry)       \
    for (type *item = TAILQ_FIRST(list), *item##_next; \
         item != NULL && (item##_next = TAILQ_NEXT(item, entry), true); item = item##_next)

/* Loops over the items of an array, and of an array of pointers. An empty one may be NULL. */
#define FOREACH(type, item, list, count)                                          \
    for (type *item = (list), *item##_end = (count) == 0 ? item : item + (count); \
         item != item##_end; item++)
#define FOREACH_POINTER(type, item, list, count)                                                 \
    for (type *const *item##_at = (list),                                                        \
                     *const *item##_end = (count) == 0 ? item##_at : item##_at + (count), *item; \
         item##_at != item##_end && (item = *item##_at) != NULL; item##_at++)

/* Whether a loop, such as FOREACH(type, item, list, count), comes to an item for which the
 * condition holds; and the first such item, or NULL. */
#define ANY(loop, condition) (FIND("", loop, condition) != NULL)
#define FIND(item, loop, condition)    \
    ({                                 \
        const void *find_found = NULL; \
        loop if (condition)            \
        {                              \
            find_found = (item);       \
            break;                     \
        }                              \
        find_found;                    \
    })
