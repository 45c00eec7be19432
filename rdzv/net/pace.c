/* How long iterations take. See pace.h for the contract. */
#include "rdzv/net/pace.h"

/* An iteration is to take 10 ms at most, and others are to wait 20 ms at most. */
const uint64_t pace_bounds_ns[ITERATION_BOUNDS] = {
    PACE_SHORT_NS, 2000000, 5000000, 10000000, 20000000, 50000000, 200000000, 1000000000,
};

void pace_begin(struct pace *p)
{
    p->began_ns = clock_monotonic_ns(p->clock);
}

#define SAMPLES 8

/* All iterations that took any time are looked at while there are samples. Else those that are not
 * among the shortest, and before there was one of these, the longest. */
static void set_limit(struct pace *p)
{
    uint64_t longest = p->stats->longest_iteration_ns;

    p->look_at_ns = p->samples > 0 ? 0 : longest < PACE_SHORT_NS ? longest : PACE_SHORT_NS;
}

/* How many requests there have been since the last look. */
static uint64_t take_new(uint64_t *seen, uint64_t now)
{
    uint64_t count = now - *seen;

    *seen = now;
    return count;
}

static void count_requests(struct pace *p, uint64_t took_ns)
{
    struct stats *s = p->stats;

    durations_add(&s->c10d_durations, REQUEST_FIRST_NS, took_ns,
                  take_new(&p->c10d_requests, stats_c10d_requests(s)));
    durations_add(&s->http_durations, REQUEST_FIRST_NS, took_ns,
                  take_new(&p->http_requests, s->http_requests));
}

void pace_sample(struct pace *p)
{
    p->c10d_requests = stats_c10d_requests(p->stats);
    p->http_requests = p->stats->http_requests;
    p->samples = SAMPLES;
    set_limit(p);
}

void pace_look(struct pace *p, uint64_t took_ns)
{
    struct stats *s = p->stats;
    int at = 0;

    while (at < ITERATION_BOUNDS && took_ns > pace_bounds_ns[at])
        at++;
    s->iterations[at]++;
    if (took_ns > s->longest_iteration_ns)
        s->longest_iteration_ns = took_ns;
    if (p->samples > 0) {
        count_requests(p, took_ns);
        p->samples--;
    }
    set_limit(p);
}
