/* How long the iterations of the loop take, from the first thing that libevent calls to the end.
 * What it waits for events is no part of that. */
#pragma once

#include <stdbool.h>

#include "rdzv/engine/clock.h"
#include "rdzv/engine/stats.h"

struct pace {
    const struct clock *clock;
    struct stats *stats;
    uint64_t began_ns; /* 0: nothing has been called in this iteration */
};

/* For pace_note(). */
void pace_begin(struct pace *p);

/* Something is called by libevent. */
static inline void pace_note(struct pace *p)
{
    if (p->began_ns == 0)
        pace_begin(p);
}

/* The iteration is over, at that time. `goes_on`: the next one begins now, since there is more to
 * do; else it begins with the next pace_note(). */
void pace_end(struct pace *p, uint64_t now_ns, bool goes_on);

/* The upper bounds of stats.iterations, in nanoseconds; those that took longer are in the last. */
extern const uint64_t pace_bounds_ns[ITERATION_BOUNDS];
