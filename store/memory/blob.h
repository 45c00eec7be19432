/* A value: immutable bytes that many may hold. The store, an output queue and an event can share
 * one; the last to let go frees it. Not for use by several threads. */
#pragma once

#include <stddef.h>

#include "proto/bytes.h"
#include "store/memory/account.h"

struct blob {
    uint32_t refs;
    uint32_t spare : 28; /* bytes there is room for behind `len` */
    uint32_t kind : 4;   /* enum account_kind: whom it is held for */
    size_t len;
    uint8_t bytes[];
};

#define BLOB_SPARE_MAX 0xfffffffu
_Static_assert(ACCOUNT_KINDS <= 16, "a kind has four bits");

/* Makes a blob with one reference of allocated memory; the caller then writes the bytes. */
static inline struct blob *blob_begin(struct blob *b, enum account_kind kind, size_t len)
{
    *b = (struct blob){.refs = 1, .kind = (unsigned)kind & 15u, .len = len};
    return b;
}

/* Marks the last `spare` bytes of the blob as unused so far. */
static inline void blob_leave_spare(struct blob *b, size_t spare)
{
    b->len = b->len + b->spare - spare;
    b->spare = spare & BLOB_SPARE_MAX;
}

/* What was allocated. */
static inline size_t blob_size(const struct blob *b)
{
    return sizeof *b + b->len + b->spare;
}

/* A blob of that length with one reference; the caller writes its bytes. NULL: memory is short. */
static inline struct blob *blob_alloc(enum account_kind kind, size_t len)
{
    struct blob *b = len > SIZE_MAX - sizeof *b
                         ? NULL
                         : account_request(kind, account_class_of(len), sizeof *b + len);

    return b == NULL ? NULL : blob_begin(b, kind, len);
}

/* A copy of `s` with one reference; NULL when memory is short. */
static inline struct blob *blob_new(enum account_kind kind, struct slice s)
{
    struct blob *b = blob_alloc(kind, s.len);

    if (b != NULL)
        slice_copy(b->bytes, s);
    return b;
}

/* One more holder; takes and gives NULL. */
static inline struct blob *blob_ref(struct blob *b)
{
    if (b != NULL)
        b->refs++;
    return b;
}

/* For blob_unref(). */
static inline void blob_free(struct blob *b)
{
    account_free((enum account_kind)b->kind, b, blob_size(b));
}

static inline void blob_unref(struct blob *b)
{
    if (b != NULL && --b->refs == 0)
        blob_free(b);
}

/* Accounts the blob for `kind` from now on. */
static inline struct blob *blob_hold(struct blob *b, enum account_kind kind)
{
    account_move((enum account_kind)b->kind, kind, blob_size(b));
    b->kind = (unsigned)kind & 15u;
    return b;
}

/* Drops a reference; if other holders remain, the blob's bytes count as `kind` from now on. */
static inline void blob_leave(struct blob *b, enum account_kind kind)
{
    if (b != NULL && b->refs > 1 && b->kind != (unsigned)kind)
        blob_hold(b, kind);
    blob_unref(b);
}

/* The value as c10d sends it: its length in eight bytes, then its bytes. `len` lies directly before
 * the bytes, and a blob with several holders does not change. */
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
