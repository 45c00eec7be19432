/* The buckets of the histogram; see hist.h. */
#include "tests/bench/hist.h"

#include <stddef.h>

#define STEP_BITS 7 /* log2(HIST_STEPS) */

static size_t bucket_of(uint64_t ns)
{
    unsigned power;
    size_t at;

    if (ns < HIST_STEPS)
        return (size_t)ns;
    power = 63u - (unsigned)__builtin_clzll(ns);
    at = (size_t)(power - STEP_BITS + 1) * HIST_STEPS;
    at += (size_t)(ns >> (power - STEP_BITS)) & (HIST_STEPS - 1);
    return at < HIST_POWERS * HIST_STEPS ? at : HIST_POWERS * HIST_STEPS - 1;
}

static uint64_t bucket_end(size_t at)
{
    size_t row = at / HIST_STEPS;
    size_t step = at % HIST_STEPS;

    if (row == 0)
        return step;
    return ((uint64_t)(HIST_STEPS + step + 1) << (row - 1)) - 1;
}

void hist_add(struct hist *h, uint64_t ns)
{
    h->count++;
    h->bucket[bucket_of(ns)]++;
    if (ns > h->max_ns)
        h->max_ns = ns;
}

uint64_t hist_percentile(const struct hist *h, double part)
{
    uint64_t rank = (uint64_t)((double)h->count * part);
    uint64_t seen = 0;

    if (rank >= h->count)
        return h->max_ns;
    for (size_t at = 0; at < HIST_POWERS * HIST_STEPS; at++) {
        seen += h->bucket[at];
        if (seen > rank)
            return bucket_end(at) < h->max_ns ? bucket_end(at) : h->max_ns;
    }
    return h->max_ns;
}
