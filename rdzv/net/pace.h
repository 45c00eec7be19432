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

/* The upper bounds of stats.iterations, in nanoseconds; those that took longer are in the last. The
 * first one is that of nearly all. */
#define PACE_SHORT_NS 1000000u
extern const uint64_t pace_bounds_ns[ITERATION_BOUNDS];

/* For pace_end(): one that took longer than the first of these. */
void pace_count_long(struct stats *s, uint64_t took_ns);

/* The iteration is over, at that time. `goes_on`: the next one begins now, since there is more to
 * do; else it begins with the next pace_note(). */
static inline void pace_end(struct pace *p, uint64_t now_ns, bool goes_on)
{
    uint64_t took_ns = p->began_ns != 0 && now_ns > p->began_ns ? now_ns - p->began_ns : 0;

    p->began_ns = goes_on ? now_ns : 0;
    p->stats->iterations_ns += took_ns;
    if (took_ns > p->stats->longest_iteration_ns)
        p->stats->longest_iteration_ns = took_ns;
    if (took_ns > PACE_SHORT_NS)
        pace_count_long(p->stats, took_ns);
    else
        p->stats->iterations[0]++;
}
