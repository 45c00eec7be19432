/* A run of torch's rendezvous, as the keys of a space tell of it. All of it follows from the value
 * of the run's key and from the small record that the store keeps of each run, so it is made anew
 * from these after a restart. The policy (policy.h) decides what the value means for the daemon. */
#pragma once

#include "proto/queue.h"
#include "proto/torch/torch_keys.h"
#include "proto/torch/torch_state.h"
#include "store/change/command.h"
#include "store/keymap/keymap.h"

enum run_backend {
    BACKEND_C10D,
    BACKEND_ETCD_V2, /* the same state, in a key of etcd's tree: rdzv/etcd_runs/ */
};

/* What the store keeps of a run beside its keys. */
struct view_record {
    enum worker_store_placement placement;
    struct slice address;  /* WORKER_STORE_RDZVD: what the workers connect to */
    uint16_t port;         /* the same */
    uint64_t worker_store; /* the number of the worker store that is open for the run; 0: none */
    int64_t round;         /* the completed round that it was opened for */
};

struct run_view {
    struct table_node node; /* the key, with its '/'; borrowed */
    TAILQ_ENTRY(run_view) order;
    struct slice id; /* R, part of the key */
    enum run_backend backend;
    unsigned pins; /* the run stays while it is pinned: a walk through all runs comes to it */

    bool unread;   /* there was no memory to read the value: all that follows is as it was before */
    bool exists;   /* the key has a value, and it is that of a run */
    bool is_state; /* `state` is what the value says; false: no node has joined, or not torch's */
    struct torch_state state;
    struct torch_state before; /* the same before the last change, or the part that has changed */
    bool has_completed;        /* `last_completed` is a round */
    struct torch_state last_completed; /* the last complete round, at its completion; else the nodes
                                          of the last one before a start, if they are known */
    size_t completed_participants;     /* of that; 0: there is none */
    struct torch_state absent; /* nodes without which it was completed, see absent_nodes_next() */

    bool is_ahead;  /* `state` is newer than the value */
    bool is_ours;   /* the value is a text of torch_state_write() */
    unsigned late;  /* so many changes of nodes are newer, beside heartbeats: step.h */
    size_t waiting; /* the first node of `state` that waits is the one before; 0: none does */
    size_t participants;
    uint64_t changes;     /* how often the value has changed */
    uint32_t completions; /* how often a round has been completed */

    struct view_record record; /* its address is owned */
    struct slice ranks;        /* what is kept of the ranks: run.h; owned; ptr NULL: nothing */
};

TAILQ_HEAD(run_view_list, run_view);

/* `key` lives as long as the view. */
void run_view_init(struct run_view *v, struct slice key);
void run_view_fini(struct run_view *v);

/* The run's key has another value than before; ptr NULL: it is gone, and the record with it. */
void run_view_update(struct run_view *v, struct slice value);

/* The same, of a value that torch_state_write() has made of that state, which becomes the view's
 * instead of being read again, or stays the caller's. */
void run_view_adopt(struct run_view *v, struct slice value, struct torch_state *state);

/* The node of `before`, a part, and the deadline have changed in the state: its value follows.
 * False: at once, since its text would lose fields. */
bool run_view_advance(struct run_view *v);

/* Copies the record. False: no memory, nothing has changed. */
bool run_view_set_record(struct run_view *v, const struct view_record *record);

/* Makes *kept, owned, of ACCOUNT_RUNS, a copy of these bytes. False: no memory, no change. */
bool run_view_keep(struct slice *kept, struct slice bytes);
/* Frees these bytes. */
void run_view_drop(struct slice *kept);

/* The record says something: the store keeps it. */
bool run_view_has_record(const struct run_view *v);

/* --- All runs of a space. --- */

struct run_views {
    struct table table;
    struct run_view_list list; /* in order of creation */
};

/* `seed`: that of the keymap whose keys are looked for. */
void run_views_init(struct run_views *views, uint64_t seed);
/* The views are the caller's, who has removed all of them. */
void run_views_fini(struct run_views *views);
void run_views_add(struct run_views *views, struct run_view *v);
void run_views_remove(struct run_views *views, struct run_view *v);

/* By the fronts of a key, for struct engine_options. */
extern const struct key_groups run_key_groups;

/* The view of that key, or NULL. The run may not exist yet. */
struct run_view *run_views_find(const struct run_views *views, struct slice key);

/* The existing run that a round's key such as /torch.rendezvous.R.3/MASTER_ADDR belongs to; *rest
 * is what stands behind the round's '/'. NULL when there is none. */
struct run_view *run_views_find_round(const struct run_views *views, struct slice key,
                                      int64_t *round, struct slice *rest);

/* The existing run whose own key this is, or else the key of one of its rounds. */
struct run_view *run_views_owner(const struct run_views *views, struct slice key);

/* The same two, of an entry of that keymap, whose key may be long: its hashes are known. */
struct run_view *run_views_find_entry(const struct run_views *views, const struct entry *e);
struct run_view *run_views_entry_owner(const struct run_views *views, const struct entry *e);

/* Whether the key goes with that run when it is forgotten: its own, or of one of its rounds. */
bool run_views_owns(const struct run_views *views, struct run_view *v, struct slice key);

/* The key of the run that an agent works for, told by the first key that it names. `compared`: by a
 * compare-and-set, which is about a state and never about a round. */
struct slice run_key_of(const struct run_views *views, struct slice key, bool compared);
