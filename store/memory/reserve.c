/* Memory that is held back for changes. See reserve.h for the contract. */
#include "store/memory/reserve.h"

#include <stdlib.h>

void reserve_init(struct reserve *r)
{
    *r = (struct reserve){0};
    reserve_grow(r, RESERVE_STANDING); /* or later */
}

void reserve_fini(struct reserve *r)
{
    free(r->block);
    *r = (struct reserve){0};
}

/* A new block, also in place of a larger one, which would keep pages of its own: the standing block
 * is a piece of the heap, so small blocks can take its place. */
static bool reserve_take(struct reserve *r, size_t size)
{
    void *block = malloc(size);

    if (block == NULL)
        return false;
    free(r->block);
    *r = (struct reserve){block, size};
    return true;
}

bool reserve_grow(struct reserve *r, size_t need)
{
    return reserve_take(r, need < RESERVE_STANDING ? RESERVE_STANDING : need);
}

bool reserve_grow_little(struct reserve *r, size_t need)
{
    return reserve_take(r, need + RESERVE_SLACK);
}

void *reserve_give(struct reserve *r, enum account_kind kind, void *old, size_t old_len, size_t len)
{
    void *p = NULL;

    if (r->size != 0) {
        reserve_fini(r);
        p = account_realloc(kind, old, old_len, len);
    }
    if (p == NULL)
        abort();
    return p;
}

void *reserve_realloc(struct reserve *r, enum account_kind kind, void *old, size_t old_len,
                      size_t len)
{
    void *p = account_realloc(kind, old, old_len, len);

    return p != NULL ? p : reserve_give(r, kind, old, old_len, len);
}

struct blob *reserve_blob(struct reserve *r, enum account_kind kind, struct slice bytes)
{
    struct blob *b = reserve_blob_alloc(r, kind, bytes.len);

    slice_copy(b->bytes, bytes);
    return b;
}
