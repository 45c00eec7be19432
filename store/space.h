/* A space: one tenant's keys, worker stores, run records and etcd tree, with nothing shared
 * between spaces. Reads go straight to its members; changes come only through store_apply(). */
#pragma once

#include "store/keymap/keymap.h"
#include "store/keymap/worker_store.h"
#include "store/run_record.h"
#include "store/session/session.h"
#include "store/tree/tree.h"

#define SPACE_NAME_MAX 253 /* bytes */

struct space {
    TAILQ_ENTRY(space) entry;
    char *name;
    struct quota quota; /* of all below */
    struct keymap keys;
    struct worker_stores worker_stores; /* the keys of workers, beside those */
    struct run_records runs;
    struct tree tree;
    struct sessions sessions; /* of relays */
};

TAILQ_HEAD(space_list, space);

/* For store.c alone. `ready`, `reserve` and `forgotten` are the store's, as are the seed of the
 * hash tables and the limit; see struct store_options. */
struct space *space_new(const char *name, struct ready_list *ready, struct reserve *reserve,
                        struct forgotten_keys *forgotten, uint64_t seed, size_t bytes_max);

/* All waiters and watches must have ended before. */
void space_free(struct space *space);

/* The c10d keys of a worker store, or with 0 the space's own. NULL when there is none. */
static inline struct keymap *space_keys(struct space *space, uint64_t worker_store)
{
    return worker_stores_keys(&space->worker_stores, &space->keys, worker_store);
}

/* A replay has ended: lets go of what only one needs. */
void space_end_replay(struct space *space);

/* Contents of a space: its own keys, and those of its worker stores; the bytes include etcd's tree
 * and the waiters. */
struct space_usage {
    uint64_t keys, queues, bytes, waiters;
};

struct space_usage space_usage(const struct space *space);
