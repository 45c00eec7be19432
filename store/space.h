/* A space: one tenant's keys, worker stores, run records and etcd tree, with nothing shared
 * between spaces. Reads go straight to its members; changes come only through store_apply(). */
#pragma once

#include "store/keymap/keymap.h"
#include "store/keymap/worker_store.h"
#include "store/run_record.h"
#include "store/session/session.h"
#include "store/tree/tree.h"

#define SPACE_NAME_MAX 253 /* bytes */

static inline bool space_is_name(struct slice s)
{
    return s.len != 0 && s.len <= SPACE_NAME_MAX && memchr(s.ptr, 0, s.len) == NULL;
}

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
struct space *space_new(struct slice name, struct ready_list *ready, struct reserve *reserve,
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

/* --- For store.c, which has the table of parts, and for space.c, which has their functions: one
 * look-up leads from a command to its code. --- */

/* A part gets the commands and changes that command_part() and change_part() give to it. */
struct part {
    /* Decides about a command, see store_check(); the outcome is a change of the same part. *out
     * and change->worker_store are zero at the call. NULL: this part has no commands. */
    bool (*decide)(struct space *space, const struct command *command, struct change *change,
                   struct store_result *out);

    /* For decoded changes: true if the space is in the state that the change assumes. */
    bool (*can_apply)(struct space *space, const struct change *change);

    /* What apply() takes of the reserve at most. */
    size_t (*memory)(struct space *space, const struct change *change);

    /* Carries out a change for which the memory is held. */
    void (*apply)(struct space *space, const struct change *change, struct store_result *out);
};

extern const struct part part_keys;
extern const struct part part_tree;
extern const struct part part_space;
extern const struct part part_session;
