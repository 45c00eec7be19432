/* How long iterations take. See pace.h for the contract. */
#include "rdzv/net/pace.h"

/* An iteration is to take 10 ms at most, and others are to wait 20 ms at most. */
const uint64_t pace_bounds_ns[ITERATION_BOUNDS] = {
    1000000, 2000000, 5000000, 10000000, 20000000, 50000000, 200000000, 1000000000,
};

void pace_begin(struct pace *p)
{
    p->began_ns = clock_monotonic_ns(p->clock);
}

static void record(struct stats *s, uint64_t took_ns)
{
    int at = 0;

    while (at < ITERATION_BOUNDS && took_ns > pace_bounds_ns[at])
        at++;
    s->iterations[at]++;
    s->iterations_ns += took_ns;
    if (took_ns > s->longest_iteration_ns)
        s->longest_iteration_ns = took_ns;
}

void pace_end(struct pace *p, uint64_t now_ns, bool goes_on)
{
    if (p->began_ns == 0)
        record(p->stats, 0);
    else
        record(p->stats, now_ns > p->began_ns ? now_ns - p->began_ns : 0);
    p->began_ns = goes_on ? now_ns : 0;
}
