/* The two clocks, injected: the system's, or one that a test moves by hand. */
#pragma once

#include <stdint.h>

struct clock {
    int64_t (*wall_ns)(void *arg);       /* since 1970: TTLs, heartbeats and the log; may be set */
    uint64_t (*monotonic_ns)(void *arg); /* intervals: never goes back */
    void *arg;
};

/* Those of the system. */
extern const struct clock clock_system;

/* The time, if the kernel has none. */
uint64_t random_number(void);

static inline int64_t clock_wall_ns(const struct clock *c)
{
    return c->wall_ns(c->arg);
}

static inline uint64_t clock_monotonic_ns(const struct clock *c)
{
    return c->monotonic_ns(c->arg);
}

/* The same in milliseconds, never 0. */
static inline uint64_t clock_ms_of(uint64_t monotonic_ns)
{
    return monotonic_ns / 1000000 + 1;
}

static inline uint64_t clock_monotonic_ms(const struct clock *c)
{
    return clock_ms_of(clock_monotonic_ns(c));
}

/* Milliseconds from `then` to `now`; 0 when `then` is later. Every interval is computed here, since
 * a difference of unsigned times that wraps is an interval of ages. */
static inline uint64_t clock_elapsed_ms(uint64_t then, uint64_t now)
{
    return now > then ? now - then : 0;
}
