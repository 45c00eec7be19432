/* How long the iterations of the loop take, from the first thing that libevent calls to the end.
 * What it waits for events is no part of that.
 *
 * And how long requests take: those of some iterations each second, each as long as its iteration.
 * Nothing that came with it can have waited for longer, but for what it waits for by its meaning,
 * and for the journal. So no request is measured by itself, and nothing is added to an iteration
 * that is not among the samples. */
#pragma once

#include <stdbool.h>

#include "rdzv/engine/clock.h"
#include "rdzv/engine/stats.h"

struct pace {
    const struct clock *clock;
    struct stats *stats;
    uint64_t began_ns;   /* 0: nothing has been called in this iteration */
    uint64_t look_at_ns; /* pace_end() looks closer at an iteration that took longer */
    unsigned samples;    /* so many more iterations are among those whose requests are counted */
    uint64_t c10d_requests, http_requests; /* that there had been before; while there are samples */
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

/* The next iterations, from this one on, are among the samples; to be called once a second. */
void pace_sample(struct pace *p);

/* For pace_end(). */
void pace_look(struct pace *p, uint64_t took_ns);

/* The iteration is over, at that time. `goes_on`: the next one begins now, since there is more to
 * do; else it begins with the next pace_note(). */
static inline void pace_end(struct pace *p, uint64_t now_ns, bool goes_on)
{
    uint64_t took_ns = p->began_ns != 0 && now_ns > p->began_ns ? now_ns - p->began_ns : 0;

    p->began_ns = goes_on ? now_ns : 0;
    p->stats->iterations_ns += took_ns;
    if (took_ns > p->look_at_ns)
        pace_look(p, took_ns);
    else
        p->stats->iterations[0]++;
}
