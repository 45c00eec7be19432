/* A clock that shows more at each reading: how much an iteration does follows from it. */
#pragma once

#include "rdzv/engine/clock.h"

static uint64_t now_ns, step_ns; /* what it shows; and the more of each reading */

static int64_t stepping_wall(void *arg)
{
    return clock_system.wall_ns(arg);
}

static uint64_t stepping_monotonic(void *arg)
{
    (void)arg;
    now_ns += step_ns;
    return now_ns;
}

static const struct clock stepping = {.wall_ns = stepping_wall, .monotonic_ns = stepping_monotonic};
