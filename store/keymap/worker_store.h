/* Worker stores: the keys of workers, apart for each round. All the ranks of one completed round of
 * torch must find empty keys, whatever those of the round before left behind. So each round gets a
 * worker store: a keymap beside that of the space, named by a number that is never used again. */
#pragma once

#include "store/keymap/keymap.h"

struct worker_store {
    uint64_t id;       /* from 1 on, in order of creation within the space */
    uint64_t sessions; /* that are bound to it; see session.h */
    uint64_t users;    /* the daemon's own: its clients that use it now */
    bool ended;        /* the same: for no new clients; it goes with the last one */
    struct keymap keys;
};

/* Those of one space, ordered by id. */
struct worker_stores {
    struct worker_store **items;
    size_t count;
    size_t room; /* of `items` */
    uint64_t last_id;
    struct ready_list *ready; /* the store's, as is the reserve */
    struct reserve *reserve;
    struct forgotten_keys *forgotten; /* see struct keymap */
    uint64_t seed;
    struct quota *quota; /* of the space */
    size_t bytes;        /* of the stores themselves */
};

void worker_stores_init(struct worker_stores *w, struct ready_list *ready, struct reserve *reserve,
                        uint64_t seed, struct quota *quota);

/* All waiters in them must have ended before. */
void worker_stores_fini(struct worker_stores *w);

/* NULL if no worker store has this number. */
struct worker_store *worker_stores_find(const struct worker_stores *w, uint64_t id);

/* The keys of a worker store, or with 0 `own`, those of the space itself. NULL: there is none of
 * that number. */
static inline struct keymap *worker_stores_keys(const struct worker_stores *w, struct keymap *own,
                                                uint64_t id)
{
    struct worker_store *store = id == 0 ? NULL : worker_stores_find(w, id);

    if (id == 0)
        return own;
    return store == NULL ? NULL : &store->keys;
}

/* --- Changes; for space.c only. --- */

/* What each costs by itself. */
#define WORKER_STORE_COST sizeof(struct worker_store)

/* What worker_stores_open() takes of the reserve at most. */
size_t worker_stores_memory(const struct worker_stores *w);

/* A new, empty one. The id is larger than all before. */
struct worker_store *worker_stores_open(struct worker_stores *w, uint64_t id);

/* Frees one in which no client waits. */
void worker_stores_drop(struct worker_stores *w, uint64_t id);

/* Empties all worker stores; connected clients then find no keys. Returns the number of deleted
 * keys and queues. */
uint64_t worker_stores_clear(struct worker_stores *w);
