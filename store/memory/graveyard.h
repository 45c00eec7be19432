/* What was cut off from the store in one step, and is freed in many: so that forgetting a million
 * keys keeps nobody waiting. Nothing here is part of the store's state. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>

#include "store/memory/account.h"

struct entry;
struct key_list;
struct key_picks;
struct queue;
struct snapshot;
struct tree;
struct waiter;
struct wake;

TAILQ_HEAD(entry_list, entry);
TAILQ_HEAD(queue_list, queue);
TAILQ_HEAD(tree_list, tree);
TAILQ_HEAD(key_lists, key_list);
TAILQ_HEAD(buried_picks, key_picks);
TAILQ_HEAD(buried_waiters, wake);

SLIST_HEAD(buried_pages, buried_mapping);

struct graveyard {
    struct entry_list entries;
    struct queue_list queues;
    struct key_lists lists;        /* what LIST_KEYS answered, and nobody asks for any more */
    struct buried_waiters waiters; /* whose clients have gone */
    struct buried_picks picks;     /* what requests with many keys held */
    struct snapshot *snapshots;    /* that have ended; the next one of each is its own business */
    struct tree_list trees;        /* that have nodes to free, see tree_free_dead() */
    struct buried_pages pages;     /* of large requests */
    size_t bytes;                  /* about what all of that takes; 0: there is nothing */
};

void graveyard_init(struct graveyard *g);

/* Takes over entries for which no client waits, and queues; the lists are empty then. `bytes` is
 * what they counted for. */
void graveyard_add(struct graveyard *g, struct entry_list *entries, struct queue_list *queues,
                   size_t bytes);

static inline bool graveyard_is_empty(const struct graveyard *g)
{
    return g->bytes == 0;
}

/* Takes over a list. */
void graveyard_add_list(struct graveyard *g, struct key_list *l);

/* Takes over a waiter that was ended; its keymap ends, and takes it back. */
void graveyard_add_waiter(struct graveyard *g, struct waiter *w);
void graveyard_forget_waiter(struct graveyard *g, struct waiter *w);

/* Takes over picks; their keymap ends, and takes them back. */
void graveyard_add_picks(struct graveyard *g, struct key_picks *p);
void graveyard_forget_picks(struct graveyard *g, struct key_picks *p);

/* Takes over a snapshot that has ended, which keeps about so many bytes. */
void graveyard_add_snapshot(struct graveyard *g, struct snapshot *s, size_t bytes);

/* The tree has nodes to free, which counted for so many bytes. */
void graveyard_add_tree(struct graveyard *g, struct tree *t, size_t bytes);

/* The tree ends, and has freed its nodes itself, which counted for so many bytes. */
void graveyard_forget_tree(struct graveyard *g, struct tree *t, size_t bytes);

/* Takes over pages of account_request_pages(). */
void graveyard_add_pages(struct graveyard *g, enum account_kind kind, void *p, size_t len);

/* Frees at most so many of them, and not many more than so many bytes, which takes the kernel its
 * time, too. SIZE_MAX: all. */
#define GRAVEYARD_BYTES_MOST (8u << 20)
void graveyard_free(struct graveyard *g, size_t count);
