/* Memory that is held back so that applying a change cannot fail: before a change is let through,
 * reserve_hold() makes sure of as much as the change can take at most; when malloc() has none left
 * while the change is applied, reserve_alloc() gives back the block that is held and takes from
 * that. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "store/memory/blob.h"

/* What is held all the time: small changes find it there and allocate nothing. */
#define RESERVE_STANDING (64u << 10)

struct reserve {
    void *block;
    size_t size; /* for changes of that cost; 0: given back, since malloc() has no memory left */
};

/* Takes the standing block, if there is memory. */
void reserve_init(struct reserve *r);
void reserve_fini(struct reserve *r);

/* The most that one allocation of `len` bytes takes, malloc()'s header included. */
static inline size_t reserve_cost(size_t len)
{
    return len + 64;
}

static inline size_t reserve_blob_cost(size_t cap)
{
    return reserve_cost(sizeof(struct blob) + cap);
}

/* For reserve_hold() and reserve_settle(): it has as much, or its standing size. */
bool reserve_grow(struct reserve *r, size_t need);

/* reserve_grow_little() adds only the change's own cost and this, for fragmentation: a change that
 * frees memory may need it when malloc() lacks the standing block. */
#define RESERVE_SLACK (4u << 10)
bool reserve_grow_little(struct reserve *r, size_t need);

/* True: reserve_alloc() of `need` bytes in all will succeed, until reserve_settle(). */
static inline bool reserve_hold(struct reserve *r, size_t need)
{
    return need <= r->size || reserve_grow(r, need);
}

/* The change is applied: the reserve returns to its standing size, if memory is available. */
static inline void reserve_settle(struct reserve *r)
{
    if (r->size != RESERVE_STANDING)
        reserve_grow(r, RESERVE_STANDING);
}

/* True while optional allocations, which are not part of the change, may take memory. Once malloc()
 * has no memory left, the block serves only the change. */
static inline bool reserve_has_spare(const struct reserve *r)
{
    return r->size != 0;
}

/* For reserve_alloc(): malloc() has no memory left, so the held block goes back to it. */
void *reserve_give(struct reserve *r, enum account_kind kind, void *old, size_t old_len,
                   size_t len);

/* As account_alloc(), account_realloc() and blob_alloc(), out of the reserve. They abort if the
 * caller needs more than it reserved and malloc() refuses: then the caller reckoned the cost
 * wrongly. */
static inline void *reserve_alloc(struct reserve *r, enum account_kind kind, size_t len)
{
    void *p = account_alloc(kind, len);

    return p != NULL ? p : reserve_give(r, kind, NULL, 0, len);
}

void *reserve_realloc(struct reserve *r, enum account_kind kind, void *old, size_t old_len,
                      size_t len);

static inline struct blob *reserve_blob_alloc(struct reserve *r, enum account_kind kind, size_t cap)
{
    return blob_begin((struct blob *)reserve_alloc(r, kind, sizeof(struct blob) + cap), kind, cap);
}

struct blob *reserve_blob(struct reserve *r, enum account_kind kind, struct slice bytes);
