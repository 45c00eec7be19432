/* A histogram of durations whose bounds double: for what happens far less often than requests. */
#pragma once

#include <stdint.h>

#define DURATIONS_BOUNDS 14

struct durations {
    uint64_t counts[DURATIONS_BOUNDS + 1]; /* the i-th: up to first_ns << i; the last: longer */
    uint64_t sum_ns;
};

/* `times` durations, each so long; `first_ns` is the smallest bound of this histogram. */
static inline void durations_add(struct durations *d, uint64_t first_ns, uint64_t took_ns,
                                 uint64_t times)
{
    int at = 0;

    while (at < DURATIONS_BOUNDS && took_ns > first_ns << at)
        at++;
    d->counts[at] += times;
    d->sum_ns += took_ns * times;
}
