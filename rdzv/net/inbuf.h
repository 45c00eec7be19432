/* The memory in which half a request waits for the rest of it. A large one has pages of its own,
 * which are never copied, however it grows. */
#pragma once

#include "store/memory/lazy_free.h"

/* What has come and is not done with: half a request, or requests that have to wait. */
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

void inbuf_free(struct input *in, struct lazy_free *g);
