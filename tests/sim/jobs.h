/* Jobs whose agents are models, the places where these run, and the daemon that they meet at, in
 * simulated time: what the parts of sim_rendezvous share. Time, chance and all faults follow from
 * the seed. */
#pragma once

#include <inttypes.h>

#include "tests/sim/model_agent.h"
#include "tests/sim/model_space.h"

#define PODS           6 /* of one run, at most */
#define FIRST_MS       1000000
#define WRONG_CLOCK_MS 120000 /* by so much some clocks are wrong */
#define SESSION_MS     45000 /* for how long the daemon keeps the session of a relay that is away */
#define RETURN_MS      3000 /* the same, and takes its agent for alive, if it has closed its link */
#define ORPHANS_MAX    64
#define BUDGET_MAX     2 /* of failures, by a rule */

/* Of the one request that an agent has at a time. */
enum net { NET_IDLE, NET_SENT, NET_HELD, NET_ANSWERED };

/* A place where an agent runs, and what is between it and the daemon. */
struct pod {
    struct model_agent agent;
    struct model_settings settings; /* of its agent: its job's, perhaps with another interval */
    struct model_link *link;
    struct job *job;
    char name[8];
    bool wanted;            /* it is started again when it fails */
    bool is_known;          /* the daemon has served its agent */
    struct model_memo memo; /* the resume hint that the previous daemon kept of the agent */
    uint64_t restart_ms;
    uint64_t frozen_until_ms, cut_until_ms;
    uint64_t away_since_ms, away_until_ms; /* its relay has no daemon; 0: it has */
    uint64_t started_ms;
    uint64_t reachable_since_ms;
    uint64_t give_up_ms; /* its relay has closed the link, and it is taken for dead then; 0: it has
                            not, or it is already */

    enum net net;
    uint64_t due_ms;
    uint64_t asked_ms;
    uint8_t *answer;
    size_t answer_len;
    bool answer_absent;

    bool training;
    uint64_t world;         /* the incarnation of the run and the round; 0: none yet */
    uint64_t worker_store;  /* the store of its workers; 0: not connected yet, or their own store */
    uint64_t break_ms;      /* its workers fail then; 0: never */
    bool break_is_real;     /* the cause of that is a fault that was injected, and no meeting */
    uint64_t break_due_ms;  /* since then that meeting was due */
    bool hangs;             /* its workers wait forever for workers of lost nodes */
    uint64_t done_ms;       /* its workers end well then; 0: they train on */
    uint64_t failures_seen; /* of agent.failures */
};

/* The workers of a node when others of their world are gone. */
enum worker_kind {
    WORKERS_GLOO, /* fail within milliseconds, as a connection ends */
    WORKERS_LATE, /* fail after some seconds */
    WORKERS_NCCL, /* hang in their collective */
    WORKER_KINDS,
};

struct job {
    struct model_run *run;
    struct model_settings settings;
    enum worker_kind workers;
    struct pod pods[PODS];
    size_t pod_count;
    bool has_relays;    /* one at each pod */
    bool relays_return; /* relays and their agents outlive the daemon */
    uint64_t split_since_ms;
    uint64_t completions;  /* rounds of which check_completed() has seen that they are complete */
    uint64_t incarnation;  /* of the run, in the last one of them */
    int64_t ranks[PODS];   /* of the pods there, -1: not a participant */
    uint64_t completed_ms; /* it was completed then */
    uint64_t max_known;    /* MAX, as rdzvd knows it; 0: not */
    size_t nodes_known;    /* the same of the last complete round */
    uint64_t completed_faults;             /* so many faults were before */
    uint64_t completed_at[BUDGET_MAX + 1]; /* the same of the last ones, the newest first */
    int vain;                              /* so many meetings for more nodes had no more nodes */
    bool grows, shrinks;   /* since then: a node waits, and none was lost; one was lost first */
    uint64_t told_changes; /* of the view, by tell_change() */
    uint64_t due_ms;       /* since then a meeting is due, or the last one was */
    bool is_due;

    /* The last worlds that a node has left: by a fault, or to meet. */
    uint64_t broken_world, left_world;

    /* Its good end. */
    uint64_t done_world;       /* the last world in which workers have ended well */
    size_t done_count;         /* of so many nodes */
    bool finishes;             /* the workers of a world end well, one node after the other */
    uint64_t finishing_faults; /* as many faults were injected before */
    bool finishes_alone;       /* no node is outside that world, and no meeting was due */
    uint64_t
        all_lost_ms;   /* since then, all nodes outside the exit barrier are lost; 0: some live */
    uint64_t again_ms; /* the job is done, and begins again then */

    /* Its bad end: an agent of the newest round has closed the run, whose workers had failed, or by
     * an error of its own. 0: no agent has. */
    uint64_t failed_ms;

    /* Closes that the daemon is to judge later, for it has just begun. */
    bool close_waits; /* there is one */
    bool may_close;   /* and it is of an agent that may */
    bool is_closed;   /* its run is, as of the last event */
    int64_t asked_in; /* the round of the run then */
    size_t asked_of;  /* and how many nodes were in it: if one is presumed dead before the close is
                         judged, it may be the one that has asked, and may not any more */
};

/* Connections whose peer is gone, until the daemon notices. */
struct orphan {
    struct model_link *link;
    uint64_t until_ms;
    uint64_t give_up_ms; /* as in a pod */
};

struct sim {
    struct model_space space;
    struct job jobs[MODEL_RUNS];
    size_t job_count;
    struct orphan orphans[ORPHANS_MAX];
    size_t orphan_count;
    uint64_t seed, random;
    bool verbose;
    const struct policy_settings *fixed; /* instead of those of the seed; NULL: none */
    int fixed_workers;                   /* the same of job.workers; -1: none */
    const char *options;                 /* to repeat the sequence */
    bool has_operator;                   /* who gives orders */
    bool has_verbs;                      /* and others: cordons, drains, rules at run time */
    bool has_rules;                      /* the runs: drawn, by the seed */

    /* The daemon. */
    uint64_t tick_ms;
    uint64_t stalled_since_ms, stalled_until_ms;
    bool has_ended;       /* it does not stand still: it begins again then */
    bool agents_return;   /* after its restart the daemon knows the relays' sessions */
    bool sessions_lost;   /* with their relays, before it began */
    uint64_t returned_ms; /* those sessions are here or lost then; 0: they are */

    /* Orders. */
    char *cordons[PODS]; /* the patterns of those that hold */
    uint64_t ordered_ms; /* the last one came then */
    bool orders_end;     /* they are taken back as soon as the daemon is there */

    /* Faults. */
    int faults_left;
    uint64_t fault_count;
    bool has_faults; /* of them, one is no order */
    uint64_t fault_ms, last_fault_ms;
    bool was_at_rest;         /* before the last one, which is the daemon's: no round is to end */
    uint64_t rounds_before;   /* completed before that */
    uint64_t closes_before;   /* runs closed before that */
    uint64_t steady_since_ms; /* all nodes have settled since then; 0: not all have */
};

extern struct sim sim;

/* --- Time, chance, and telling. --- */

/* Monotonic, in ms. */
static inline uint64_t sim_now(void)
{
    return sim.space.now.ms;
}

/* Since 1970, by the daemon's clock. */
static inline int64_t sim_wall_us(void)
{
    return sim.space.now.wall_ns / 1000;
}

/* So many nodes take part in a round, if so many are there. */
uint64_t job_size(const struct job *job, uint64_t nodes);

/* Less than n. */
uint64_t sim_draw(uint64_t n);

/* With --verbose. */
__attribute__((format(printf, 1, 2))) void sim_tell(const char *format, ...);

/* Ends the program, and says how this comes again. */
__attribute__((format(printf, 1, 2), noreturn)) void sim_fail(const char *format, ...);

static inline uint64_t latest(uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t most = a > b ? a : b;

    return most > c ? most : c;
}

/* *next becomes `at`, if that is earlier; 0: never. */
static inline void earlier(uint64_t *next, uint64_t at)
{
    if (at != 0 && at < *next)
        *next = at;
}
