/* The time of an iteration. See iteration.h for the contract. */
#include "rdzv/net/iteration.h"

/* --- How much of an iteration is left. --- */

/* The first reading of a part counts the estimates as the spent time, so that an iteration with a
 * few fast requests reads no clock. */
static void budget_note_time(struct budget *b, uint64_t now_ns)
{
    if (b->began_ns == 0)
        b->began_ns = now_ns > b->spent ? now_ns - b->spent : 1;
    b->spent = 0;
    b->over = b->over || (now_ns > b->began_ns && now_ns - b->began_ns >= b->limit_ns);
}

void budget_read_clock(struct budget *b)
{
    budget_note_time(b, clock_monotonic_ns(b->clock));
}

void budget_measure(struct budget *b)
{
    b->measure_ns = clock_monotonic_ns(b->clock);
    budget_note_time(b, b->measure_ns);
}

uint64_t budget_measured(struct budget *b)
{
    uint64_t now_ns = clock_monotonic_ns(b->clock);
    uint64_t took = now_ns > b->measure_ns ? now_ns - b->measure_ns : 0;

    b->slow_ns += took;
    budget_note_time(b, now_ns);
    return took;
}

/* --- How long iterations and requests take. --- */

/* An iteration must take 10 ms at most, so that no request waits for more than 20 ms. */
const uint64_t latency_bounds_ns[ITERATION_BOUNDS] = {
    LATENCY_SHORT_NS, 2000000, 5000000, 10000000, 20000000, 50000000, 200000000, 1000000000,
};

#define LATENCY_SAMPLES 8

/* While samples are wanted, every iteration is measured. Otherwise only iterations longer than
 * LATENCY_SHORT_NS are, or longer than the longest so far, if that is shorter. */
static void latency_set_limit(struct latency *l)
{
    uint64_t longest = l->stats->longest_iteration_ns;

    l->count_above_ns = l->samples > 0               ? 0
                        : longest < LATENCY_SHORT_NS ? longest
                                                     : LATENCY_SHORT_NS;
}

/* How many requests there have been since the last look. */
static uint64_t take_new(uint64_t *seen, uint64_t now)
{
    uint64_t count = now - *seen;

    *seen = now;
    return count;
}

void latency_sample(struct latency *l)
{
    l->c10d_requests = stats_c10d_requests(l->stats);
    l->http_requests = l->stats->http_requests;
    l->samples = LATENCY_SAMPLES;
    latency_set_limit(l);
}

void latency_count(struct latency *l, uint64_t took_ns)
{
    struct stats *s = l->stats;
    int at = 0;

    while (at < ITERATION_BOUNDS && took_ns > latency_bounds_ns[at])
        at++;
    s->iterations[at]++;
    if (took_ns > s->longest_iteration_ns)
        s->longest_iteration_ns = took_ns;
    if (l->samples > 0) {
        durations_add(&s->c10d_durations, REQUEST_FIRST_NS, took_ns,
                      take_new(&l->c10d_requests, stats_c10d_requests(s)));
        durations_add(&s->http_durations, REQUEST_FIRST_NS, took_ns,
                      take_new(&l->http_requests, s->http_requests));
        l->samples--;
    }
    latency_set_limit(l);
}
