/* Batches that are not kept yet. See pending.h for the contract. */
#include "rdzv/engine/pending.h"

#include "store/memory/account.h"

/* Larger batches give up their buffer instead of being copied. */
#define COPY_MAX ((size_t)32 << 10)

static struct pending *new_copy(const struct batch *batch)
{
    struct slice bytes = batch_bytes(batch);
    struct pending *p = account_alloc(ACCOUNT_JOURNAL, sizeof *p + bytes.len);

    if (p == NULL)
        return NULL;
    *p = (struct pending){.number = batch->number, .bytes = {(uint8_t *)(p + 1), bytes.len}};
    memcpy(p + 1, bytes.ptr, bytes.len);
    return p;
}

/* Takes the buffer into *p. */
static struct pending *take_buffer(struct pending *p, struct batch *batch)
{
    struct slice bytes = batch_bytes(batch);

    if (p == NULL)
        abort(); /* neither this nor the spare: a hundred bytes, twice */
    *p = (struct pending){.number = batch->number, .bytes = bytes};
    batch_take(batch, &p->given_up);
    account_taken(ACCOUNT_JOURNAL, (void *)(uintptr_t)bytes.ptr, p->given_up);
    return p;
}

struct pending *pending_new(struct pending **spare, struct batch *batch)
{
    struct pending *p = batch->len <= COPY_MAX ? new_copy(batch) : NULL;

    if (p != NULL)
        return p;
    p = account_alloc(ACCOUNT_JOURNAL, sizeof *p);
    if (p == NULL) {
        p = *spare;
        *spare = NULL;
    }
    return take_buffer(p, batch);
}

void pending_free(struct pending *p)
{
    if (p->given_up != 0)
        account_free(ACCOUNT_JOURNAL, (void *)(uintptr_t)p->bytes.ptr, p->given_up);
    account_free(ACCOUNT_JOURNAL, p, sizeof *p + (p->given_up != 0 ? 0 : p->bytes.len));
}

void pending_keep_spare(struct pending **spare)
{
    if (*spare == NULL)
        *spare = account_alloc(ACCOUNT_JOURNAL, sizeof **spare);
}
