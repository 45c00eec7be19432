/* Copies of exactly the right size, so that ASan sees a read of one byte too many. */
#pragma once

#include <stdlib.h>

#include "proto/bytes.h"

/* The caller frees `ptr`. */
static inline struct slice exact(const void *bytes, size_t len)
{
    uint8_t *copy;

    if (len == 0)
        return (struct slice){0};
    copy = malloc(len);
    if (copy == NULL)
        abort();
    memcpy(copy, bytes, len);
    return (struct slice){copy, len};
}

static inline void exact_free(struct slice s)
{
    free((void *)(uintptr_t)s.ptr);
}
