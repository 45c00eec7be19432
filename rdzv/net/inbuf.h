/* The memory for the start of a request that has not arrived completely. A large request gets pages
 * of its own, which growing never copies. */
#pragma once

#include "store/memory/lazy_free.h"

/* Received bytes that are still needed: the start of a request, or requests that must wait. */
struct input {
    size_t start; /* of what is not done with yet */
    size_t len;   /* of that */
    size_t cap;   /* of all of `bytes` */
    size_t need;  /* bytes that the request here needs at least */
    uint8_t bytes[];
};

/* Of one with so much room. */
static inline size_t inbuf_size(size_t cap)
{
    return sizeof(struct input) + cap;
}

/* Moves the bytes into a buffer with room for at least `cap` bytes; `start` becomes 0. False, with
 * the buffer unchanged, if memory is short. */
bool inbuf_resize(struct input **in, struct lazy_free *g, enum account_class class, size_t cap);

/* Frees it, unless it is NULL; then *in is NULL. */
void inbuf_free(struct input **in, struct lazy_free *g);
