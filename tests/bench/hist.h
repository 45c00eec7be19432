/* A histogram of durations: percentiles of millions of them in fixed memory. */
#pragma once

#include <stdint.h>

/* Within each power of two, this many equal steps: a percentile is off by at most 1/128. */
#define HIST_STEPS  128
#define HIST_POWERS 40

struct hist {
    uint64_t count;
    uint64_t max_ns;
    uint64_t bucket[HIST_POWERS * HIST_STEPS];
};

void hist_add(struct hist *h, uint64_t ns);

/* The duration that `part` (0 to 1) of all stay at or below, as the upper end of its bucket; 0
 * when nothing was added. */
uint64_t hist_percentile(const struct hist *h, double part);
