/* Events of a run, which the policy answers, and the outputs of the policy. */
#pragma once

#include "rdzv/engine/stats.h"
#include "rdzv/rendezvous/run.h"

/* --- Events. --- */

enum policy_event_kind {
    AGENT_CONNECTED,    /* it has named a key of the run, the first that it names */
    AGENT_DISCONNECTED, /* once; then the agent is the caller's again */
    AGENT_AWAY,         /* its relay has lost its store, or is itself lost */
    AGENT_GONE, /* after AGENT_AWAY: the agent is taken for dead, if a disconnected agent is */
    AGENT_BACK, /* it is there again, after AGENT_AWAY or AGENT_GONE */
    AGENT_COMPARE_SET,   /* of the run's key, `expected` and `desired` */
    AGENT_POLLED,        /* GET or WAIT of the run's key; a GET may be answered */
    AGENT_ASKED,         /* any other request, but the next three */
    AGENT_GET_ROUND_KEY, /* GET of `round_key`, a key of one of the run's rounds, with a value */
    AGENT_SET_ROUND_KEY, /* SET of `round_key`, a key of one of the run's rounds, to `desired` */
    AGENT_ADD_ROUND_KEY, /* ADD to such a key */
    RUN_RESTORED,        /* the daemon has just started, `away_ms` after the one before it had
                            ended, and the run is in its keys */
    RUN_RETURNED,        /* some time later: the time for agents to come back is over */
    RUN_CHANGED,         /* something else has changed the run's key, or deleted it */
    RUN_READ,            /* a client that is no agent is about to read the run's key */
    RUN_PROBED,          /* the answer to POLICY_PROBE */
    RUN_PORT_OPENED,     /* the answer to POLICY_OPEN_PORT; `port` 0: it failed */
    RUN_TICK,            /* once a second */
    RUN_FORGET,          /* forget it now, on request */
    RUN_ORDERED,         /* an operator wants `order`, and run.orders has it */
};

enum run_order {
    RUN_ORDER_RESTART,  /* the nodes of the complete round meet again */
    RUN_ORDER_CLOSE,    /* its agents end */
    RUN_ORDER_KEEP_OUT, /* run.orders.cordons, or a hold, has changed */
};

/* Which run of a space uses the agents' port for its workers. */
enum port_share {
    PORT_IS_FREE,  /* none that keeps it: run_keeps_port() */
    PORT_IS_OURS,  /* this one */
    PORT_IS_TAKEN, /* another one */
};

struct policy_event {
    enum policy_event_kind kind;
    struct agent *agent;
    struct slice expected, desired; /* borrowed for the step */
    struct slice round_key;         /* the name behind the round: "MASTER_ADDR"; AGENT_ASKED: if it
                                       is one, ptr NULL else */
    int64_t round;
    bool exists;        /* AGENT_SET_ROUND_KEY, AGENT_ADD_ROUND_KEY: the key has a value */
    bool waits;         /* AGENT_POLLED, AGENT_ASKED: it is a WAIT, whose reply may take long */
    bool daemon_drains; /* AGENT_DISCONNECTED: rdzvd itself ends, so the node is not missed */
    bool agents_return; /* RUN_RESTORED: agents behind relays will come back */
    struct slice memo;  /* AGENT_CONNECTED: of the last POLICY_KEEP_MEMO before a start */
    bool refused;       /* RUN_PROBED: no process listens there; false: or no clear answer came */
    enum run_order order;
    const char *evicts; /* RUN_ORDER_KEEP_OUT: nodes with such hosts leave their rounds, in which
                           the others meet again; NULL: none */
    bool ends;          /* the same: and their agents end */
    uint16_t port;
    uint64_t away_ms;
};

/* How things stand when an event comes: the clocks, and what the store and the space say. */
struct policy_now {
    uint64_t ms;                /* monotonic */
    uint64_t lived_ms;          /* the same, by a clock that stands while no agent can write: for
                                   the silence of agents, and for the last call */
    int64_t wall_ns;            /* since 1970 */
    struct slice value;         /* of the run's key; ptr NULL: it has none */
    size_t room;                /* bytes that the space can still take; SIZE_MAX: no limit */
    size_t key_cost;            /* what a new key takes at most beside its bytes and its
                                   value's */
    uint64_t next_worker_store; /* the number that the next worker store gets */
    struct slice ended_hosts;   /* AGENT_COMPARE_SET, no node has joined, and the last job of this
                                   id has ended well of late: hosts that must not begin it again,
                                   as items of a JSON list; len 0: none */
    enum port_share share;
    bool own_port_in_use; /* connections have come by the run's own port, and are open */
    bool refuses;         /* the store takes no changes at present: what can wait does */
};

/* --- Outputs. --- */

enum policy_output_kind {
    /* Commands. */
    POLICY_PUT,               /* key, value */
    POLICY_PUT_IF_ABSENT,     /* the same, unless the key has a value */
    POLICY_PUT_RECORD,        /* record */
    POLICY_PUT_RANKS,         /* value: what is kept of the run's ranks */
    POLICY_FORGET_RUN,        /* its key, the keys of its rounds, its record, its ranks */
    POLICY_DELETE_RECORD,     /* and its ranks; its keys are gone already */
    POLICY_OPEN_WORKER_STORE, /* worker_store */
    POLICY_DROP_WORKER_STORE, /* worker_store, once no session uses it: it is for no new ones */

    /* Exactly one of these for AGENT_COMPARE_SET, unless the agent is closed. */
    POLICY_ANSWER_CURRENT, /* the value of the run's key, after the commands before */
    POLICY_ANSWER_VALUE,   /* value */
    POLICY_NO_ROOM,        /* the space is full */
    POLICY_HOLD, /* not now: the request is shown again after POLICY_RESUME. The write itself may be
                    done already, so that only the answer waits. Also for AGENT_POLLED, but for a
                    WAIT */

    /* Exactly one of these for AGENT_SET_ROUND_KEY; they name no agent. */
    POLICY_PASS,    /* it is carried out as it is */
    POLICY_SWALLOW, /* nothing is set */

    POLICY_RESUME,    /* agent: the held request comes again as an event of its own */
    POLICY_CLOSE,     /* agent: its connection ends, for `reason`, about `value` */
    POLICY_KEEP_MEMO, /* agent, which is relayed: `value` is given back when it connects again after
                         a start of the daemon; up to SESSION_HINT_MAX bytes */
    POLICY_PROBE,     /* does a process listen on `port` of the host of `agent`? */
    POLICY_CANCEL_PROBE,
    POLICY_SHARE_PORT, /* the workers of this run use the agents' port from now on */
    POLICY_OPEN_PORT,  /* a port of its own, beside the one that `agent` has come to: `port` if it
                          is free; 0, or not free: any of --worker-ports */
    POLICY_CLOSE_PORT, /* neither of these two any more */
    POLICY_NOTE,       /* for the log, see explain.h */
};

struct note;

struct policy_output {
    enum policy_output_kind kind;
    struct agent *agent;
    struct slice key, value; /* borrowed: from the output's memory, the event, or the run */
    struct view_record record;
    uint64_t worker_store;
    uint16_t port;
    const char *reason;
    const struct note *note;
};

/* Filled by policy_step(), emptied by policy_out_clear(). Begins as {0}. */
struct policy_out {
    struct policy_output *items;
    size_t count, cap;
    struct policy_counters counters;
    struct policy_text *texts; /* private: what the items point into */
    bool failed;               /* there was no memory for one of them */
    struct policy_output lost; /* private: the one */
};

void policy_out_clear(struct policy_out *out);
