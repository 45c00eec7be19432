/* The time of an iteration. See budget.h for the contract. */
#include "rdzv/net/budget.h"

/* The first look of a part takes it that what was estimated before is what was spent, so that an
 * iteration with a few cheap requests reads no clock. */
static void look_at(struct budget *b, uint64_t now_ns)
{
    if (b->began_ns == 0)
        b->began_ns = now_ns > b->spent ? now_ns - b->spent : 1;
    b->spent = 0;
    b->over = b->over || (now_ns > b->began_ns && now_ns - b->began_ns >= b->limit_ns);
}

void budget_look(struct budget *b)
{
    look_at(b, clock_monotonic_ns(b->clock));
}

void budget_measure(struct budget *b)
{
    b->measure_ns = clock_monotonic_ns(b->clock);
    look_at(b, b->measure_ns);
}

uint64_t budget_measured(struct budget *b)
{
    uint64_t now_ns = clock_monotonic_ns(b->clock);
    uint64_t took = now_ns > b->measure_ns ? now_ns - b->measure_ns : 0;

    b->costly_ns += took;
    look_at(b, now_ns);
    return took;
}
