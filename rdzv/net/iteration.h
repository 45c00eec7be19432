/* The time of an iteration of the loop: how much of it is left (budget), and how long iterations
 * and their requests took (latency). */
#pragma once

#include <stdbool.h>

#include "rdzv/engine/clock.h"
#include "rdzv/engine/stats.h"

/* --- How much of an iteration is left. ---
 *
 * An iteration has parts (reading, deferred requests, waking and sending), each of a millisecond or
 * less, so that no client waits longer than for all parts. An iteration costs some microseconds
 * beside its parts: short parts cost little more, and let clients with small requests come in
 * between more often.
 *
 * Fast requests are estimated: budget_spend() adds up costs, and reads the clock only if the sum
 * could exceed the limit. Slow requests are measured with budget_measure() and budget_measured();
 * all measured time of one iteration has one limit, BUDGET_SLOW_NS. */

#define BUDGET_READ_NS     1000000u /* requests that have just come */
#define BUDGET_DEFERRED_NS 500000u  /* requests that earlier iterations deferred */
#define BUDGET_SLOW_NS     500000u  /* slow requests in the two parts above */
#define BUDGET_END_NS      1000000u /* waking and sending */
#define BUDGET_LATE_NS     500000u  /* the same, for notices and bulk output */
#define BUDGET_SMALL_NS    500000u  /* each of the rest: closing, freeing */

struct budget {
    const struct clock *clock;
    uint64_t limit_ns;   /* of the present part */
    uint64_t began_ns;   /* its begin; 0: the clock has not been read since */
    uint64_t spent;      /* estimated nanoseconds since the clock was read */
    uint64_t slow_ns;    /* measured in this iteration */
    uint64_t measure_ns; /* when the present measurement began */
    bool over;           /* the part has had its time */
};

/* The next part begins, with that many nanoseconds. */
static inline void budget_begin_part(struct budget *b, uint64_t limit_ns)
{
    b->limit_ns = limit_ns;
    b->began_ns = b->spent = 0;
    b->over = false;
}

/* Begins an iteration with its first part. `behind`: the previous iteration had no time for all
 * woken clients, so this one executes at most one slow request, because each may wake more
 * clients. */
static inline void budget_begin_iteration(struct budget *b, bool behind)
{
    b->slow_ns = behind ? BUDGET_SLOW_NS - 1 : 0;
    budget_begin_part(b, BUDGET_READ_NS);
}

/* For budget_spend(). */
void budget_read_clock(struct budget *b);

/* Work of about that many nanoseconds is done. */
#define BUDGET_CLOCK_NS 50000u
static inline void budget_spend(struct budget *b, uint64_t ns)
{
    b->spent += ns;
    if (b->spent >= BUDGET_CLOCK_NS)
        budget_read_clock(b);
}

/* Work that may be long begins, ends. Returns how long it took. */
void budget_measure(struct budget *b);
uint64_t budget_measured(struct budget *b);

static inline bool budget_slow_is_over(const struct budget *b)
{
    return b->over || b->slow_ns >= BUDGET_SLOW_NS;
}

/* --- How long iterations and requests take. ---
 *
 * An iteration is measured from the first call by libevent to the end: the wait for events does not
 * count.
 *
 * Requests are not measured one by one. Each request of some sampled iterations per second counts
 * as long as its iteration: no request of an iteration has waited longer, except in a WAIT or other
 * blocking request, and for the journal. Unsampled iterations cost nothing more. */

struct latency {
    const struct clock *clock;
    struct stats *stats;
    uint64_t began_ns;       /* 0: nothing has been called in this iteration */
    uint64_t count_above_ns; /* latency_end() looks closer at an iteration that took longer */
    unsigned samples;        /* number of further iterations whose requests are counted */
    uint64_t c10d_requests, http_requests; /* that there had been before; while there are samples */
};

/* Something is called by libevent. */
static inline void latency_note(struct latency *l)
{
    if (l->began_ns == 0)
        l->began_ns = clock_monotonic_ns(l->clock);
}

/* The upper bounds of stats.iterations, in nanoseconds; longer ones are counted in the last. Nearly
 * all iterations are below the first. */
#define LATENCY_SHORT_NS 1000000u
extern const uint64_t latency_bounds_ns[ITERATION_BOUNDS];

/* Samples the next iterations, from this one on; called once a second. */
void latency_sample(struct latency *l);

/* For latency_end(). */
void latency_count(struct latency *l, uint64_t took_ns);

/* Ends the iteration at that time. `goes_on`: more work is waiting, so the next iteration begins
 * now; else it begins with the next latency_note(). */
static inline void latency_end(struct latency *l, uint64_t now_ns, bool goes_on)
{
    uint64_t took_ns = l->began_ns != 0 && now_ns > l->began_ns ? now_ns - l->began_ns : 0;

    l->began_ns = goes_on ? now_ns : 0;
    l->stats->iterations_ns += took_ns;
    if (took_ns > l->count_above_ns)
        latency_count(l, took_ns);
    else
        l->stats->iterations[0]++;
}
