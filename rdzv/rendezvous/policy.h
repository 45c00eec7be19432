/* What rdzvd does for a run of torch's rendezvous, beyond keeping its keys: a function of the run,
 * of what happens, and of the time, that answers with commands for the store and with effects. It
 * knows no socket, no clock, no loop and no log, so tests drive it with a clock in hand.
 *
 * An unmodified torchrun then survives what default torch does not:
 *  - workers of torch 2.5 and later find their store at rdzvd, with fresh keys in each round
 *    (worker_store.c; torch keeps the address of the first round and the keys of all rounds);
 *  - agents write the state one after the other (cas_queue.c), and heartbeats merge (policy.c);
 *  - heartbeats are shifted over a time in which rdzvd stood still, and a node that the others
 *    presumed dead and that comes back is put where it belongs (repair.c);
 *  - a closed run that all its agents have left is forgotten (policy.c), and an agent that comes
 * too early for the next one is held until then (rejoin.c);
 *  - notes tell what happened to which node (explain.c).
 *
 * The order of a caller: fill an event, call policy_step(), carry out its outputs in their order.
 * Every command succeeds, since the policy has seen how much room there is. */
#pragma once

#include "rdzv/engine/clock.h"
#include "rdzv/rendezvous/view.h"

struct policy_settings {
    bool merge_heartbeats;
    bool close_needs_all;        /* one agent alone does not close the run for the others */
    bool own_worker_ports;       /* --worker-ports: no run shares the port of the agents */
    uint64_t closed_run_ttl_ms;  /* a closed run without agents is forgotten after this */
    uint64_t closed_run_wait_ms; /* how long an agent that comes for a closed run is held; 0: not */
    uint64_t idle_run_ttl_ms;    /* an open run without agents is forgotten after this; 0: never */
    const char *advertise_host;  /* what workers connect to; NULL: a guess, from the agents */
    uint16_t advertise_port;     /* 0: the port that the agents connect to */
};

#define AGENT_HOST_MAX 46

/* A connection of an agent. The caller makes it, zero but for the first three members, and keeps it
 * from AGENT_CONNECTED until AGENT_DISCONNECTED. */
struct agent {
    bool pings;                      /* torch 2.5 or later */
    char local_host[AGENT_HOST_MAX]; /* the address by which it has reached rdzvd; "": unknown */
    uint16_t local_port;             /* the same; 0: unknown */

    /* The policy's own. */
    TAILQ_ENTRY(agent) entry;  /* in run.agents or run.rejoining */
    TAILQ_ENTRY(agent) queue;  /* in run.writers.queue while `queued` */
    struct table_node by_node; /* in run.by_node while `is_listed` */
    bool queued;
    bool rejoining; /* the run was closed when it came: see rejoin.c */
    bool waiting;   /* its first request is held until that run is forgotten */
    bool rejected;  /* it has waited for too long, and learns that the run is closed */
    uint64_t waiting_since_ms;
    bool has_node; /* it has written the state at least once, as `node` */
    bool is_listed;
    bool closes;            /* it has asked to close the run, see close_needs_all */
    struct torch_node node; /* its address points into by_node.key, which is owned */
    uint64_t nodes;         /* how many nodes are in the completed round it is in; 0: in none */
    int64_t round;          /* that round */
    int64_t clock_ahead_us; /* its clock, compared with ours */
};

TAILQ_HEAD(agent_list, agent);

/* Who may write the state: see cas_queue.c. */
struct write_slot {
    struct agent *holder; /* knows the newest state and is about to write; NULL: no agent */
    struct agent_list queue;
    uint64_t granted_ms;
    uint64_t deadline_ms;  /* the holder loses the slot then */
    uint64_t usual_us;     /* what agents of this run need */
    uint64_t refreshed_ms; /* when the heartbeats of queued agents were last looked at */
};

/* Where the workers of the run find their store: see worker_store.c. */
struct worker_endpoint {
    struct slice proposed[2]; /* MASTER_ADDR and MASTER_PORT as agent 0 says; owned; NULL: unsaid */
    bool probing;             /* the host of agent 0 is being asked */
    bool opening_port;        /* a port of the run's own has been asked for */
    uint16_t own_port;        /* 0: none */
    uint16_t agents_port;     /* the one that agent 0 connects to */
    enum worker_store_placement pending; /* decided while the space had no room for it */
    const char *pending_reason;
    bool pending_open; /* the same: a worker store for the newest round */
};

struct run {
    struct run_view view; /* the first member */
    const struct policy_settings *settings;
    struct agent_list agents;
    struct agent_list rejoining; /* came when it was closed: they are not counted */
    size_t agent_count;
    size_t waiting_count; /* of those in `rejoining` */
    struct table by_node; /* agents that have a node; of two with one node, the later */
    bool idle;            /* no agent is connected, since `idle_since_ms` */
    uint64_t idle_since_ms;
    bool ending;      /* it is being forgotten on request: no node is missed */
    bool reached_max; /* the last round was completed by the node that made it MAX, as far as known
                       */
    struct write_slot slot;
    struct worker_endpoint endpoint;
};

/* `key`, the settings and what `run` is in live as long as the run. */
void run_init(struct run *run, struct slice key, const struct policy_settings *settings,
              uint64_t seed, uint64_t now_ms);
/* All its agents have disconnected. */
void run_fini(struct run *run);

/* Nothing is left of it: no key and no agent. */
bool run_is_unused(const struct run *run);

/* The agent of that node, or NULL. */
struct agent *run_agent_of(const struct run *run, const struct torch_node *node);

/* --- Events. --- */

enum policy_event_kind {
    AGENT_CONNECTED,     /* it has named a key of the run, the first that it names */
    AGENT_DISCONNECTED,  /* once; then the agent is the caller's again */
    AGENT_COMPARE_SET,   /* of the run's key, `expected` and `desired` */
    AGENT_LOOKED,        /* GET or WAIT of the run's key */
    AGENT_ASKED,         /* any other request, but AGENT_SET_ROUND_KEY */
    AGENT_SET_ROUND_KEY, /* SET of `round_key`, a key of one of the run's rounds, to `desired` */
    RUN_RESTORED,        /* the daemon has just started, and the run is in its keys */
    RUN_CHANGED,         /* something else has changed the run's key, or deleted it */
    RUN_PROBED,          /* the answer to POLICY_PROBE */
    RUN_PORT_OPENED,     /* the answer to POLICY_OPEN_PORT; `port` 0: it failed */
    RUN_TIMER,           /* POLICY_TIMER has come */
    RUN_TICK,            /* once a second */
    RUN_STALLED,         /* the process stood still for `stalled_ms` */
    RUN_FORGET,          /* forget it now, on request */
};

enum probe_result {
    PROBED_REFUSED, /* no process listens there */
    PROBED_UNKNOWN, /* one listens, or there was no answer that tells */
};

/* Which run of a space uses the agents' port for its workers. */
enum port_share {
    PORT_IS_FREE,  /* none that lives */
    PORT_IS_OURS,  /* this one */
    PORT_IS_TAKEN, /* another one */
};

struct policy_event {
    enum policy_event_kind kind;
    struct agent *agent;
    struct slice expected, desired;
    struct slice round_key; /* the name behind the round: "MASTER_ADDR" */
    int64_t round;
    bool daemon_drains; /* AGENT_DISCONNECTED: rdzvd itself ends, so the node is not missed */
    enum probe_result probed;
    uint16_t port;
    uint64_t stalled_ms;

    /* What the store and the space say, just before. */
    struct slice value;         /* of the run's key; ptr NULL: it has none */
    size_t room;                /* bytes that the space can still take; SIZE_MAX: no limit */
    size_t key_cost;            /* what a new key takes beside its bytes and its value's */
    uint64_t next_worker_store; /* the number that the next worker store gets */
    enum port_share share;
};

struct policy_now {
    uint64_t ms;     /* monotonic */
    int64_t wall_ns; /* since 1970 */
};

/* --- Outputs. --- */

enum policy_output_kind {
    /* Commands. */
    POLICY_PUT,               /* key, value */
    POLICY_PUT_RECORD,        /* record */
    POLICY_FORGET_RUN,        /* its key, the keys of its rounds, its record */
    POLICY_DELETE_RECORD,     /* its keys are gone already */
    POLICY_OPEN_WORKER_STORE, /* worker_store */
    POLICY_DROP_WORKER_STORE, /* worker_store, once no session uses it: it is for no new ones */

    /* Exactly one of these for AGENT_COMPARE_SET, unless the agent is closed. */
    POLICY_ANSWER_CURRENT, /* the value of the run's key, after the commands before */
    POLICY_ANSWER_VALUE,   /* value */
    POLICY_NO_ROOM,        /* the space is full */
    POLICY_HOLD,           /* not now: the request is shown again after POLICY_RESUME */

    /* Exactly one of these for AGENT_SET_ROUND_KEY. */
    POLICY_PASS,    /* it is carried out as it is */
    POLICY_SWALLOW, /* nothing is set */

    POLICY_RESUME, /* agent: its held request is shown again, as an event of its own */
    POLICY_CLOSE,  /* agent: its connection ends, for `reason`, about `value` */
    POLICY_PROBE,  /* does a process listen on `port` of the host of `agent`? */
    POLICY_CANCEL_PROBE,
    POLICY_SHARE_PORT, /* the workers of this run use the agents' port from now on */
    POLICY_OPEN_PORT,  /* a port of its own, beside the one that `agent` has come to */
    POLICY_CLOSE_PORT, /* neither of these two any more */
    POLICY_TIMER,      /* RUN_TIMER is due at `deadline_ms`, and not before; 0: it is not */
    POLICY_NOTE,       /* for the log, see explain.h */
};

struct note;

struct policy_output {
    enum policy_output_kind kind;
    struct agent *agent;
    struct slice key, value; /* borrowed: from the output's memory, the event, or the run */
    struct view_record record;
    uint64_t worker_store;
    uint64_t deadline_ms;
    uint16_t port;
    const char *reason;
    const struct note *note;
};

struct policy_counters {
    uint64_t writes_merged;
    uint64_t rounds_completed;
    uint64_t runs_closed;
    uint64_t runs_repaired;
    uint64_t nodes_disconnected;
};

/* Filled by policy_step(), emptied by policy_out_clear(). Begins as {0}. */
struct policy_out {
    struct policy_output *items;
    size_t count, cap;
    struct policy_counters counters;
    struct policy_text *texts; /* private: what the items point into */
};

void policy_out_clear(struct policy_out *out);

/* The one way in. The view of the run is up to date when this returns, as if the caller had updated
 * it after each command. */
void policy_step(struct run *run, const struct policy_event *event, const struct policy_now *now,
                 struct policy_out *out);
