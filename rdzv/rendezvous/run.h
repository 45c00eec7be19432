/* Runs: what is known of each torch rendezvous in a space. A run R is seen through the value of its
 * key /torch.rendezvous.R, which every agent rewrites; this is the one place that reads it. */
#pragma once

#include "proto/torch/torch_state.h"
#include "store/store.h"

#define RUN_PREFIX "/torch.rendezvous." /* of the keys that torch's agents use; R follows */

enum { RUN_ADDR, RUN_PORT, RUN_PLACES }; /* MASTER_ADDR, MASTER_PORT */

struct run {
    struct table_node node; /* the key, with its '/'; the bytes follow the struct */
    TAILQ_ENTRY(run) order;
    struct slice id; /* R, part of the key */

    bool known; /* `state` is what the key's value says; false: nobody has joined, or not torch's */
    struct torch_state state;
    struct torch_state before;     /* as it was before the latest change; empty at first */
    bool completed;                /* a round has been complete, and `world_then` is it */
    struct torch_state world_then; /* the latest completed round, as it was completed */

    enum worker_store_placement workers;
    uint64_t worker_store; /* of the latest completed round; 0: none, or workers not here */
    struct blob *place[RUN_PLACES];   /* WORKER_STORE_RDZVD: what workers are told */
    struct blob *offered[RUN_PLACES]; /* WORKER_STORE_UNKNOWN: what agent 0 said */
};

TAILQ_HEAD(run_list, run);

struct runs {
    struct table table;
    struct run_list list; /* in order of creation */
};

void runs_init(struct runs *r, uint64_t seed);
void runs_fini(struct runs *r);

/* NULL when the key is not that of a run. */
struct run *runs_find(const struct runs *r, struct slice key);

/* The run that a round's key such as /torch.rendezvous.R.3/MASTER_ADDR belongs to; *rest is what
 * stands behind the round's '/'. NULL when there is none. */
struct run *runs_find_round(const struct runs *r, struct slice key, int64_t *round,
                            struct slice *rest);

/* True for every key that torch's agents use: workers never do. */
bool run_is_agents_key(struct slice key);

/* Whether a worker store is that of the latest round of a run. */
bool runs_use(const struct runs *r, uint64_t worker_store);

/* The value of a key has changed (NULL: it is gone). Makes, updates or ends the run that it
 * describes. True: the key is that of a run, and its state is another than before. */
bool runs_observe(struct runs *r, struct slice key, const struct blob *value);

/* The run whose keys `key` is one of, be it that of the run or that of a round; NULL: none. */
struct run *runs_owner(const struct runs *r, struct slice key);

/* Forgets all; their keys are the caller's matter. */
void runs_clear(struct runs *r);

/* Writes "/torch.rendezvous.R.<round>/<name>" into `out`, which has RUN_KEY_ROOM bytes more than
 * the run's key; returns its length. */
#define RUN_KEY_ROOM 64
size_t run_round_key(const struct run *run, int64_t round, const char *name, uint8_t *out);
