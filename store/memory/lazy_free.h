/* Frees memory in many slices after the store has cut it off in one step, so that no client waits
 * while a million keys are freed. Nothing here is part of the store's state.
 *
 * The problem: free() of a million keys stalls every other client, since the server has one thread.
 * Deleting the keys themselves in slices is wrong: between two slices, clients would see half of
 * the keys. So the change cuts off the whole list, tree or value in one step, and passes it to
 * lazy_free_add(). The invariant: no command finds listed memory, so clients cannot observe when it
 * is freed. Where a live list or table still has it (links of ended waiters, removed nodes of a
 * tree), each reader recognizes and skips it. The module that lists the memory keeps this. Listed
 * bytes count in the account until they are freed; transport.c frees a slice in each iteration. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "proto/queue.h"
#include "store/memory/account.h"

struct lazy_free;

/* Memory that is freed in slices. The owner embeds this struct and sets free_some(). */
struct lazy {
    TAILQ_ENTRY(lazy) entry;
    /* Frees at least one piece, and returns the number of pieces, `count` at most. It subtracts
     * their bytes with lazy_free_count(), and calls lazy_free_remove() before the last one goes. */
    size_t (*free_some)(struct lazy_free *f, struct lazy *l, size_t count);
    size_t bytes; /* about the size of the rest; 0: it is not listed */
};

struct lazy_free {
    TAILQ_HEAD(, lazy) list;
    size_t bytes; /* of all that is listed; 0: nothing is */
};

void lazy_free_init(struct lazy_free *f);

static inline bool lazy_free_is_empty(const struct lazy_free *f)
{
    return f->bytes == 0;
}

static inline bool lazy_is_listed(const struct lazy *l)
{
    return l->bytes != 0;
}

/* Lists `l` last, with about `bytes` bytes; if `l` is listed already, adds `bytes` to it. With `f`
 * NULL, frees it at once. */
void lazy_free_add(struct lazy_free *f, struct lazy *l, size_t bytes);

/* The same, but lists `l` first: clients wait for its end. */
void lazy_free_add_first(struct lazy_free *f, struct lazy *l, size_t bytes);

/* So many bytes of it are freed. */
void lazy_free_count(struct lazy_free *f, struct lazy *l, size_t bytes);

/* Takes it off the list, if it is listed. */
void lazy_free_remove(struct lazy_free *f, struct lazy *l);

/* Takes over pages of account_request_pages(). */
void lazy_free_pages(struct lazy_free *f, enum account_kind kind, void *p, size_t len);

/* Frees at most so many pieces, and not many more than so many bytes, which the kernel needs time
 * to take back. SIZE_MAX: everything. */
#define LAZY_FREE_BYTES_MOST (8u << 20)
void lazy_free_run(struct lazy_free *f, size_t count);
