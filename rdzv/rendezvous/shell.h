/* What connects the policy to the daemon: runs, agents and worker stores as the shell keeps them.
 * shell.c keeps the runs and takes their steps, carry_out.c carries out what comes of one. What
 * happens comes from sessions.c, rendezvous.c and ticks.c. */
#pragma once

#include "rdzv/c10d/session.h"
#include "rdzv/http/reply.h"
#include "rdzv/rendezvous/etcd_runs.h"
#include "rdzv/rendezvous/policy.h"
#include "store/tree/expiry.h"

struct probe;
struct rendezvous_space;
struct worker_use;

TAILQ_HEAD(rendezvous_space_list, rendezvous_space);
TAILQ_HEAD(live_run_list, live_run);

struct rendezvous {
    const struct config *config;
    struct engine *engine;
    struct net *net;
    struct policy_settings settings;
    struct rendezvous_space_list spaces;
    struct expiry due;    /* all runs, by when a tick may find something to do; monotonic */
    uint64_t ticked_ms;   /* the last tick is for runs that were due then */
    uint64_t restored_ms; /* when the store had come from a data directory, as engine_lived_ms() */
    struct key_gate gate; /* of requests over etcd's API */
    struct event ticker;  /* that tick goes on in the next iteration, and so does what is behind */
    uint64_t still_ms;    /* for so long in all no agent could write */
    struct live_run_list
        sweeping;            /* runs whose keys are being deleted, before they are forgotten */
    uint32_t sweeps;         /* so many have begun */
    struct live_run *behind; /* the first run that may not have been given all of that time, pinned;
                                NULL: all have */
};

struct live_run {
    struct run run; /* the first member; its key's bytes follow this struct */
    struct rendezvous_space *home;
    struct expiry_node due;          /* in rdzv->due */
    struct probe *probe;             /* asks whether agent 0 hosts a store */
    struct listener *port;           /* of its own; NULL: none */
    struct worker_use *worker_store; /* for new sessions; NULL: none */
    struct history history;
    uint64_t still_ms;       /* so much of rdzv->still_ms it has been given, or began behind */
    uint64_t keys_forgotten; /* by the last POLICY_FORGET_RUN */
    TAILQ_ENTRY(live_run) sweeping;
    bool is_sweeping;        /* it is in rdzv->sweeping */
    uint32_t sweep;          /* the number of that which goes on, see shell_sweep(); 0: none */
    uint64_t sweep_since_ms; /* it is of a run that has been idle since then */
    bool stale;              /* a command has failed, so the view is not what its key says */
    unsigned steps;          /* open ones: it is not freed before they end */
    unsigned pins;           /* the same: whoever goes through all runs will come to it */
};

/* A connection of an agent. */
struct conn_agent {
    struct agent agent; /* the first member */
    struct live_run *run;
    struct conn *conn;
    int64_t joined_us; /* its node has, since 1970; 0: not seen */
};

/* A worker store that is open, and who uses it. */
struct worker_use {
    struct table_node node; /* the first member; its key is `id` as bytes */
    uint8_t key[sizeof(uint64_t)];
    uint64_t id;
    uint64_t sessions;
    bool ended;  /* it is for no new sessions, and goes with the last one */
    bool missed; /* the store took no changes when it was to go: it is in worker_stores_missed */
    TAILQ_ENTRY(worker_use) entry;
};

TAILQ_HEAD(worker_use_list, worker_use);

struct rendezvous_space {
    TAILQ_ENTRY(rendezvous_space) entry;
    struct rendezvous *rdzv;
    struct engine_space *space;
    struct run_views runs;      /* each the view of a live_run */
    struct etcd_runs etcd_runs; /* over etcd's API */
    struct live_run *shared;    /* whose workers use the agents' port; NULL: no run's */
    struct table worker_stores; /* of worker_use */
    struct worker_use_list worker_stores_missed;
    bool forgets; /* the keys of a run are being deleted: they are no changes to notice */
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

/* The value of its key, borrowed until the next command; NULL: none. */
struct blob *live_run_value(const struct live_run *run);

/* What the outputs of a step say about the request that caused it. */
struct verdict {
    bool holds;   /* POLICY_HOLD */
    bool passes;  /* POLICY_PASS */
    bool answers; /* POLICY_ANSWER_… */
};

/* What the rendezvous keeps of that space, made when it is asked for first. */
struct rendezvous_space *shell_space_of(struct rendezvous *r, struct engine_space *space);

/* The run of that key, made when there is none. NULL: no memory. */
struct live_run *shell_need_run(struct rendezvous_space *home, struct slice key);

/* It must not be in a step, nor pinned. */
void shell_free_run(struct live_run *run);

/* When the tick comes to the run next, by how it stands now. */
void shell_update_due(struct live_run *run);

/* Its keys are not being deleted any more. */
void shell_end_sweep(struct live_run *run);

/* The worker store is one of those that the space has; see struct worker_use. NULL: no memory. */
struct worker_use *worker_use_restore(struct rendezvous_space *home, uint64_t id);

/* NULL: it is not known. */
struct worker_use *worker_use_find(const struct rendezvous_space *home, uint64_t id);

/* No run names it any more: it goes with its last session. */
void worker_use_end(struct rendezvous_space *home, struct worker_use *use);

/* One step of the policy, from the event to the last of its outputs. The run may be freed when this
 * returns, if nothing is left of it. */
struct verdict shell_step(struct live_run *run, struct policy_event event);

/* The same event for each run of the space. */
void shell_step_space(struct rendezvous_space *home, struct policy_event event);

/* Gives the run what it has not been given of the time in which no agent could write. It may be
 * freed as by a step. */
void shell_give_time(struct live_run *run);

/* What the policy is told of the time, the store and the run. Its slices are borrowed until the
 * next command. */
struct policy_now shell_now(const struct live_run *run);

/* For rdzv->ticker; `arg` is the struct rendezvous. */
void shell_on_ticker(evutil_socket_t fd, short what, void *arg);

/* Deletes some of the keys of the rounds of a run that is about to be forgotten. True: those that
 * it had when this began are gone. */
bool shell_sweep(struct live_run *run);

/* Carries out the outputs of a step, except those that may cause another step. */
struct verdict carry_out(struct live_run *run, const struct policy_out *out);

/* Opens a port for the workers of the run; `by` and `preferred` as for POLICY_OPEN_PORT. 0: none.
 */
uint16_t carry_out_open_port(struct live_run *run, const struct agent *by, uint16_t preferred);

/* A session of that worker store ends. */
void worker_use_leave(struct rendezvous_space *home, uint64_t id);

/* Drops those that the store took no changes for; for the tick. */
void worker_uses_retry(struct rendezvous_space *home);
void worker_uses_fini(struct rendezvous_space *home);
