/* A value: immutable bytes that many may hold. The store, an output queue and an event can share
 * one; the last to let go frees it. Not for use by several threads. */
#pragma once

#include <stddef.h>
#include <stdlib.h>

#include "proto/bytes.h"

struct blob {
    uint32_t refs;
    uint32_t spare; /* bytes there is room for behind `len` */
    size_t len;
    uint8_t bytes[];
};

/* A blob of one reference with room for `cap` bytes and none in use; NULL when memory is short. */
static inline struct blob *blob_alloc(size_t cap)
{
    struct blob *b = cap > SIZE_MAX - sizeof *b ? NULL : malloc(sizeof *b + cap);

    if (b != NULL)
        *b = (struct blob){.refs = 1};
    return b;
}

/* A copy of `s` with one reference; NULL when memory is short. */
static inline struct blob *blob_new(struct slice s)
{
    struct blob *b = blob_alloc(s.len);

    if (b != NULL && s.len != 0)
        memcpy(b->bytes, s.ptr, s.len);
    if (b != NULL)
        b->len = s.len;
    return b;
}

/* One more holder; takes and gives NULL. */
static inline struct blob *blob_ref(struct blob *b)
{
    if (b != NULL)
        b->refs++;
    return b;
}

static inline void blob_unref(struct blob *b)
{
    if (b != NULL && --b->refs == 0)
        free(b);
}

/* The length in eight bytes, and then the bytes: what c10d sends of a value. `len` is where it has
 * to be for that, and a blob that has several holders does not change. */
static inline struct slice blob_counted(const struct blob *b)
{
    _Static_assert(
        __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ && sizeof b->len == 8 &&
            offsetof(struct blob, bytes) == offsetof(struct blob, len) + 8,
        "numbers of c10d are little-endian and of 64 bits, as are those of this machine");
    return (struct slice){(const uint8_t *)b + offsetof(struct blob, len), 8 + b->len};
}

/* The bytes, for as long as the caller keeps a reference; empty for NULL. */
static inline struct slice blob_slice(const struct blob *b)
{
    return b == NULL ? (struct slice){0} : (struct slice){b->bytes, b->len};
}
