/* The store: spaces, each a complete and separate world of c10d keys, queues and etcd nodes, and
 * the one door through which they change. Deterministic: no sockets, no clock, no threads, no
 * callbacks into the server. Those whom a change wakes are taken off the ready list with
 * store_next_ready(). */
#pragma once

#include "store/auth.h"
#include "store/command.h"
#include "store/keymap.h"
#include "store/run.h"
#include "store/tree.h"

struct space {
    TAILQ_ENTRY(space) entry;
    char *name;
    struct keymap keys;
    struct worlds worlds; /* the keys of workers, beside those */
    struct runs runs;
    struct tree tree;
    struct auth auth;
};

TAILQ_HEAD(space_list, space);

/* Where changes are written down: called once for each command that changed something, in order,
 * while its slices are valid. */
struct command_sink {
    void (*add)(void *to, const struct space *space, const struct command *command);
    void *to;
};

struct store_options {
    uint64_t seed;            /* for the hash tables; unguessable where peers are not trusted */
    size_t space_bytes_max;   /* of the keys and values of one space, in each of its two worlds; 0:
                                 no limit */
    struct command_sink sink; /* add NULL: nothing is written down */
    bool knows_runs;          /* looks into the values of torch's rendezvous, see run.h */
};

struct store {
    struct store_options options;
    struct space_list spaces;
    struct ready_list ready;
};

/* What a command came to. `keys` is valid for c10d commands, `tree` for etcd ones. */
struct store_result {
    enum store_status status;
    int64_t number;     /* KEY_ADD: the sum */
    struct blob *value; /* KEY_COMPARE_SET, STORE_MISMATCH: what there is, borrowed until the
                           next command. QUEUE_POP: the element, a reference of the caller's */
    struct run *run;    /* KEY_…: the run whose state this has changed; NULL: of none */
    uint64_t count;     /* QUEUE_POP: the length before; TREE_EXPIRE, SPACE_…: what went */
    bool open;          /* BARRIER: this arrival passes */
    struct tree_result tree;
    enum auth_status auth; /* AUTH_… */
};

void store_init(struct store *s, const struct store_options *options);

/* All waiters and watches are ended by now. */
void store_fini(struct store *s);

/* The space of that name, made when there is none. Spaces live as long as the store. */
struct space *store_space(struct store *s, const char *name);
struct space *store_find_space(const struct store *s, struct slice name);

/* Carries out one command. Changes nothing when it fails; the statuses and codes say why.
 *
 * Those of runs (STORE_ABSENT: there is no such run, or no such world):
 * RUN_WORLD     opens a world for the latest completed round, and with RUN_HERE writes the round's
 *               MASTER_ADDR and MASTER_PORT. The run's older world goes on for its sessions alone.
 * RUN_OFFER     keeps, of a run that is undecided, what agent 0 has set MASTER_ADDR or MASTER_PORT
 *               to; nobody is told.
 * RUN_WORKERS   decides. RUN_HERE: the workers' store is here, at this address and port.
 *               RUN_OWN_STORE: it is where agent 0 said. The latest round's two keys are written.
 * RUN_FORGET    the run and its keys are gone, as if it had never been. */
void store_apply(struct store *s, struct space *space, const struct command *command,
                 struct store_result *out);

/* The c10d keys of a world of workers, or with 0 the space's own. The world exists. */
static inline struct keymap *space_keys(struct space *space, uint64_t world)
{
    return world == 0 ? &space->keys : &worlds_find(&space->worlds, world)->keys;
}

/* What a space holds, its own keys and those of its worlds; bytes count etcd's tree too. */
struct space_usage {
    uint64_t keys, queues, bytes, waiters;
};

struct space_usage store_usage(const struct space *space);

/* The next one who was woken, in order of waking, taken off the list; NULL when there is none. */
struct wake *store_next_ready(struct store *s);
