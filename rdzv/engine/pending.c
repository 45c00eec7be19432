/* Batches that are not kept yet. See pending.h for the contract. */
#include "rdzv/engine/pending.h"

#include "store/memory/account.h"

/* Larger batches give up their buffer instead of being copied. */
#define COPY_MAX ((size_t)32 << 10)

/* The bytes stand behind it. Takes NULL, and returns it. */
static struct pending *pending_copy(struct pending *p, uint64_t number, struct slice bytes)
{
    if (p == NULL)
        return NULL;
    *p = (struct pending){.number = number, .bytes = slice_copy(p + 1, bytes)};
    return p;
}

struct pending *pending_request(struct slice bytes)
{
    struct pending *p = account_request(ACCOUNT_JOURNAL, ACCOUNT_ORDINARY, sizeof *p + bytes.len);

    return pending_copy(p, 0, bytes);
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
    struct pending *p = NULL;

    if (batch->len <= COPY_MAX)
        p = pending_copy(account_alloc(ACCOUNT_JOURNAL, sizeof *p + batch->len), batch->number,
                         batch_bytes(batch));
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

void pending_free_all(struct pending_list *list)
{
    struct pending *p;

    while ((p = TAILQ_FIRST(list)) != NULL) {
        TAILQ_REMOVE(list, p, entry);
        pending_free(p);
    }
}

void pending_keep_spare(struct pending **spare)
{
    if (*spare == NULL)
        *spare = account_alloc(ACCOUNT_JOURNAL, sizeof **spare);
}
