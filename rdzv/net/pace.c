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

void pace_count_long(struct stats *s, uint64_t took_ns)
{
    int at = 1;

    while (at < ITERATION_BOUNDS && took_ns > pace_bounds_ns[at])
        at++;
    s->iterations[at]++;
}
