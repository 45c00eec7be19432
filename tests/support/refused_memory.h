/* Memory that is refused: an allocation of the whole program fails when a test says so. For one
 * file of a program that is linked with -Wl,--wrap=malloc, calloc and realloc. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "tests/support/wrapped_memory.h"

static struct {
    long countdown; /* the allocation that is refused: 1 is the next one; 0: none is */
    bool paused;    /* nothing is counted or refused */
    bool all;       /* every allocation is refused */
    bool reached;   /* the countdown has refused an allocation since the test set this to false */
} refusal;

static inline bool allocation_is_refused(void)
{
    if (refusal.paused)
        return false;
    if (refusal.countdown == 0 || --refusal.countdown != 0)
        return refusal.all;
    refusal.reached = true;
    return true;
}

void *__wrap_malloc(size_t size)
{
    return allocation_is_refused() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return allocation_is_refused() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return allocation_is_refused() ? NULL : __real_realloc(old, size);
}
