/* The clocks of the system. See clock.h for the contract. */
#include "rdzv/engine/clock.h"

#include <sys/random.h>
#include <time.h>

static int64_t system_wall_ns(void *)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static uint64_t system_monotonic_ns(void *)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

const struct clock clock_system = {.wall_ns = system_wall_ns, .monotonic_ns = system_monotonic_ns};

uint64_t random_number(void)
{
    uint64_t n = 0;

    if (getrandom(&n, sizeof n, 0) != (ssize_t)sizeof n)
        n = (uint64_t)clock_wall_ns(&clock_system);
    return n;
}
