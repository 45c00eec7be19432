/* What malloc() holds beyond what is asked of it. Values of all lengths that come and go leave
 * holes, and a heap gives back what is at its end alone: the process would stay several times as
 * large as what it keeps, and grow beyond --memory-limit, which counts what is kept. So the pages
 * of the holes are given back to the kernel from time to time.
 *
 * malloc() offers that for the whole heap at once. It takes some 0.1 ms for each MiB that goes, so
 * it is done whenever some MiB are to be had; and it looks at each hole, so when it has found
 * little, it is not tried again before a thousand times as long as it took. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rdzv/engine/clock.h"
#include "store/account.h"

struct heap {
    const struct clock *clock;
    int statm;        /* /proc/self/statm, -1: there is none, and nothing is ever given back */
    size_t page;      /* bytes */
    size_t own;       /* resident bytes that the account knows nothing of */
    size_t total;     /* of the account, at the last look */
    uint64_t next_ns; /* not before that time */
};

void heap_init(struct heap *h, const struct clock *clock);
void heap_fini(struct heap *h);

/* How many bytes are resident; 0 when that is not known. */
size_t heap_resident(const struct heap *h);

/* For heap_look(). */
void heap_trim(struct heap *h, uint64_t now_ns);

/* True when so much was freed since the last look that the next one should not wait: what is given
 * back at once takes its time. */
#define HEAP_FREED_MOST (32u << 20)
static inline bool heap_has_shrunk(const struct heap *h)
{
    return h->total > account.total && h->total - account.total > HEAP_FREED_MOST;
}

/* From time to time, at the end of an iteration. */
static inline void heap_look(struct heap *h, uint64_t now_ns)
{
    if (now_ns >= h->next_ns || heap_has_shrunk(h))
        heap_trim(h, now_ns);
}
