/* What connects the policy to the daemon: runs, agents and worker stores as the driver keeps them.
 * driver.c keeps the runs and takes their steps, effects.c carries out what comes of one. What
 * happens comes from sessions.c, rendezvous.c and ticks.c. */
#pragma once

#include "rdzv/c10d/session.h"
#include "rdzv/http/reply.h"
#include "rdzv/rendezvous/history.h"
#include "rdzv/rendezvous/policy.h"
#include "store/tree/expiry.h"

/* After so long without an agent, a run is reported as left: containers start again sooner. */
#define RUN_LEFT_MS 60000

struct probe;
struct rendezvous_space;
struct live_run;

TAILQ_HEAD(rendezvous_space_list, rendezvous_space);

struct rendezvous {
    const struct config *config;
    struct engine *engine;
    struct net *net;
    struct policy_settings settings;
    struct rendezvous_space_list spaces;
    struct expiry due;    /* all runs, by the time of their next tick; monotonic */
    uint64_t ticked_ms;   /* time of the last tick: runs due by then are ticked */
    uint64_t restored_ms; /* when the store had come from a data directory, as engine_lived_ms() */
    struct event ticker;  /* that tick goes on in the next iteration */
    uint64_t refused_ms;  /* total time in which the store refused changes */
    uint64_t refuses_since_ms; /* begin of the present refusal, as engine_lived_ms(); 0: the store
                                  takes changes */
    uint32_t sweeps;           /* so many have begun: keys of runs are deleted in pieces */
    /* What admin/ does: before the tick of a run. */
    void (*before_tick)(struct live_run *run);
    /* When a run has ended, before its keys and its memory go. */
    void (*ended)(struct live_run *run, const struct note *note, int64_t at_us);
    /* When a failure has ended a round: sets history.stop and history.cordon. */
    void (*judge)(struct live_run *run, int64_t now_us);
    /* When the connection of a worker ends; when a SET or an ADD was carried out. */
    void (*worker_ended)(struct rendezvous_space *home, struct conn *c);
    void (*key_set)(struct rendezvous_space *home, const struct command *command);
};

struct live_run {
    struct run run; /* the first member; its key's bytes follow this struct */
    struct rendezvous_space *home;
    struct expiry_node due; /* in rdzv->due */
    struct event waker;     /* while polls are held for less than a tick: see leave() */
    struct probe *probe;    /* asks whether agent 0 hosts a store */
    struct listener *port;  /* of its own; NULL: none */
    bool has_rules;         /* of its own: run.rules */
    struct history history;
    uint64_t keys_forgotten; /* by the last POLICY_FORGET_RUN */
    uint32_t sweep; /* the number of that which goes on, see effects_sweep_keys(); 0: none */
    uint64_t sweep_since_ms;  /* the run has been idle since then */
    uint64_t waits_logged_of; /* admin/: the worker store of the round whose wait was logged, */
    char awaited[128];        /* and the key of that wait, if it is shorter */
    int64_t left_us;          /* since then no agent is connected; 0: one is, or not known */
    bool left_reported;       /* that it is left */
    unsigned steps;           /* open ones: it is not freed before they end */
};

/* A connection of an agent. */
struct conn_agent {
    struct agent agent; /* the first member */
    struct live_run *run;
    struct conn *conn;
    int64_t joined_us; /* its node has, since 1970; 0: not seen */
};

struct rendezvous_space {
    TAILQ_ENTRY(rendezvous_space) entry;
    struct rendezvous *rdzv;
    struct engine_space *space;
    struct run_views runs;   /* each the view of a live_run */
    struct live_run *shared; /* whose workers use the agents' port; NULL: no run's */
    bool misses_drops;       /* the store took no changes when worker stores were to go */
    bool forgets;           /* the keys of a run are being deleted: they are no changes to notice */
    struct cordons cordons; /* one allocation; see operator.c */
    struct cordons drains;  /* those that are open drains; in the order in which they came */
    int64_t drain_id;       /* the newest of them, as its key and the confirmation have it */
    int64_t drain_due_us;   /* since 1970: all of them become evictions; 0: at once */
    size_t ticks;           /* of operator_tick() */
    char order[512];        /* ": REASON (BY)", during the steps of an order; else empty */
};

static inline struct live_run *live_run_of(struct run_view *v)
{
    return (struct live_run *)(void *)v; /* the first member of the first member */
}

static inline struct conn_agent *conn_agent_of(const struct agent *a)
{
    return (struct conn_agent *)(uintptr_t)a; /* its first member */
}

static inline struct conn *conn_of(const struct agent *a)
{
    return conn_agent_of(a)->conn;
}

/* policy_now.lived_ms: it stands while the process is paused, or the store takes no changes. */
uint64_t driver_lived_ms(const struct rendezvous *r);

/* The value of its key, borrowed until the next command; NULL: none. */
struct blob *live_run_value(const struct live_run *run);

/* For new sessions of its workers; NULL: none. */
struct worker_store *live_run_worker_store(const struct live_run *run);

/* The rendezvous part of that space, made at the first call. */
struct rendezvous_space *driver_space_of(struct rendezvous *r, struct engine_space *space);

/* Finds the run of that key, or makes it. NULL: no memory. */
struct live_run *driver_need_run(struct rendezvous_space *home, struct slice key);

/* It must not be in a step, nor pinned. */
void driver_free_run(struct live_run *run);

/* Frees the run if it has no key and no agent, and no step and no walk needs the run. */
bool driver_free_if_unused(struct live_run *run);

/* The record of the space that is named so behind that prefix; NULL: none. */
const struct run_record *driver_find_record(const struct rendezvous_space *home, const char *prefix,
                                            struct slice name);
/* Carries out a COMMAND_RUN_… about that record, without a key. */
enum store_status driver_apply_record(const struct rendezvous_space *home, const char *prefix,
                                      struct slice name, struct command command);

#define RUN_ID_MAX 256 /* bytes of an id, of which ends are kept */

/* If the last job of that id has ended well of late, the hosts that must not begin it again, as
 * policy_now.ended_hosts; borrowed until the next command. */
struct slice driver_ended_hosts(const struct rendezvous_space *home, struct slice id);
/* Keeps these hosts since then; len 0: no host any more. False: there are none, or no room. */
bool driver_keep_hosts(const struct rendezvous_space *home, struct slice id, struct slice hosts,
                       int64_t at_us);

/* If the run is open, reports that it ends then. */
void driver_end_run(struct live_run *run, const char *end, const char *why, int64_t at_us);

/* Takes the orders of operators from the records of the store, which have changed: of the space,
 * and of the run. Those about a run end with it. False: without memory, the patterns stay. */
bool operator_restore(struct rendezvous_space *home);
void operator_restore_run(struct live_run *run);
void operator_forget_run(struct live_run *run);
/* Does what a rule wants, by history.stop and history.cordon, as an operator would. */
void operator_obey_rules(struct live_run *run);
/* The policy has ended the hold of the run. */
void operator_end_hold(struct live_run *run);

#define OPERATOR_NODE_KEY  RUN_ORDER_KEY "node/" /* a pattern of hosts follows */
#define OPERATOR_ORDER_MAX 1024                  /* bytes of an order in JSON, the record's value */

/* The reason of that order as JSON, and the bracket behind it. */
struct slice operator_reason(const struct run_record *record);
/* Once a second: takes back an eviction whose nodes have gone, and a cordon whose time is over. */
void operator_tick(struct rendezvous_space *home);
/* All drains of the space become evictions. */
void operator_evict_drained(struct rendezvous_space *home);

/* Orders have changed: workers find their key, or find it no more. */
void drain_update_keys(struct rendezvous_space *home);
/* A client has set the key. Cheap if there is no drain. */
void drain_note_set(struct rendezvous_space *home, struct slice key, struct slice value);
/* Once a second, and after driver_tick_soon(). */
void drain_tick(struct rendezvous_space *home);

/* The next tick of the run is at that time, by the monotonic clock. */
void driver_set_due(struct live_run *run, uint64_t ms);

/* One step of the policy, from the event to the last of its outputs. Returns the verdict about the
 * request that is the event. Frees the run if nothing is left of it. */
enum c10d_verdict driver_step(struct live_run *run, struct policy_event event);

/* The same event for each run of the space. */
void driver_step_space(struct rendezvous_space *home, struct policy_event event);

/* The time and the store as the policy sees them. Slices are borrowed until the next command. */
struct policy_now driver_now(const struct live_run *run);

/* In the next iteration, or else at the next tick, due runs are ticked and drains are looked at. */
void driver_tick_soon(struct rendezvous *r);
/* For rdzv->ticker; `arg` is the struct rendezvous. */
void driver_on_ticker(evutil_socket_t fd, short what, void *arg);

/* Deletes some round keys of a run that is about to be forgotten. True: no older key is left. */
bool effects_sweep_keys(struct live_run *run);

/* Carries out the outputs of a step, except those that may cause another step. */
enum c10d_verdict effects_apply(struct live_run *run, const struct policy_out *out);

/* Opens a port for the workers of the run, as POLICY_OPEN_PORT says. 0: none is free. */
uint16_t effects_open_port(struct live_run *run, const struct agent *by, uint16_t preferred);

/* The run, other than `but`, whose workers come through the relay that serves this session: it has
 * an agent there. `count`: so many runs have; NULL: none has. */
struct live_run *effects_run_at_relay(const struct rendezvous_space *home, const struct conn *c,
                                      const struct live_run *but, size_t *count);

/* False: workers of the run do not find their store at the address that this agent has come to. */
bool effects_reaches_workers(const struct conn_agent *a);

/* Drops the worker store if it has ended and no client uses it; or all of the space that are so.
 * While the store takes no changes, home->misses_drops is set. */
void effects_drop_if_unused(struct rendezvous_space *home, const struct worker_store *w);
void effects_drop_unused(struct rendezvous_space *home);
