/* The settings of elastic jobs, as --help names them. The policy of rendezvous/ goes by them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* When the nodes of a complete round must meet again because one of them is lost. */
enum restart_on_loss {
    RESTART_NEVER,
    RESTART_WHEN_CLOSED, /* its agent's connection has ended */
    RESTART_WHEN_SILENT, /* the same, or nothing has come of it for silent_restart_ms */
};

/* Which rank a node of a round gets: rdzv/rendezvous/ranks.c. */
enum rank_order {
    RANKS_TORCH,   /* as torch does it: by the bytes of the names */
    RANKS_NATURAL, /* by name, digits as numbers */
    RANKS_KEEP,    /* the rank that it had in this run; new nodes: as RANKS_TABLE */
    RANKS_TABLE,   /* by the table of domains, then by name */
};

extern const char *const rank_order_names[]; /* as the setting has them */

/* So many events in so long a time; ms 0: there is no such rule. */
struct rule_limit {
    uint64_t count, ms;
};

/* Rules of a run about its nodes: steering.c of rdzv/rendezvous/, run_rules.c of rdzv/admin/. Each
 * 0: there is none. */
struct run_rules {
    uint64_t nodes_multiple;   /* a round has a multiple of so many nodes */
    uint64_t grow_interval_ms; /* so long after a meeting, nodes do not meet for more nodes */
    uint64_t group; /* nodes whose domains begin with the same so many names take part together */
    struct rule_limit restart_budget; /* after more failures, the run is closed */
    struct rule_limit cordon_after;   /* so many failures of one node cordon it */
    uint64_t cordon_ms;               /* for so long; 0: until an order */
    struct rule_limit no_progress;    /* so many failures in a row close the run, if no round took
                                         so long or made progress */
};

/* Reads "nodes-multiple=4,grow-interval=30m" into *out; other rules stay. `rank_zero`: that of the
 * settings, which is replaced; NULL: rank-zero=NAME is a fault. Returns NULL, or the fault, and
 * *out is as it was. */
const char *run_rules_read(const char *text, struct run_rules *out, char **rank_zero);

struct topology;

struct policy_settings {
    bool fixes; /* repair what torch breaks in elastic jobs; false: a plain store, as torch's */
    bool close_needs_all;    /* one agent alone does not close the run for the others */
    bool close_from_members; /* ignore a close by a node whose workers are not in the newest
                                round */
    bool end_failed_runs;    /* after a close by an agent whose workers failed, all other agents
                                end */
    bool drop_disconnected;  /* a node whose agent's connection ended is taken out at once */
    bool end_last_call;      /* the last call ends when no node is missing */
    uint64_t silent_node_ms; /* a node whose agent is silent for so long is taken out; 0: after
                                torch's 15 s, if a node waits or the round is open */
    enum restart_on_loss restart_on_loss;
    uint64_t silent_restart_ms;
    uint64_t regroup_wait_ms; /* the last call of later rounds is not longer; 0: as long as the
                                 agents say */
    struct run_rules rules;   /* of runs that have none of their own */
    enum rank_order rank_order;
    char *rules_text;    /* as given, with commas between; NULL: none */
    char *rank_zero;     /* of these: name or pattern of the node that gets rank 0; owned;
                            NULL: any */
    char *topology_file; /* NULL: none */
    const struct topology *topology; /* its table; NULL: none. The store's role owns it */
    uint32_t expected_nodes;         /* of the run's first round; 0: unknown */
    size_t crowd;                /* from so many agents on, they join with short texts (numbers.c),
                                    and see only how many others there are (agent_view.c) */
    size_t late_text;            /* a state whose text has so many bytes may be ahead of it:
                                    step.h of rdzv/rendezvous/; 0: none may */
    uint64_t closed_run_ttl_ms;  /* a closed run without agents is forgotten after this */
    uint64_t closed_run_wait_ms; /* how long an agent that comes for a closed run is held; 0: not */
    uint64_t ended_job_ttl_ms;   /* after a job has ended well, for so long, its other hosts do not
                                    begin it again; 0: they may */
    uint64_t idle_run_ttl_ms;    /* an open run without agents is forgotten after this; 0: never */
    char *advertise;             /* as given; NULL: guess from the agents' connections */
    const char *advertise_host;  /* of that: what workers connect to, without brackets; owned */
    uint16_t advertise_port;     /* 0: the port that the agents connect to */
    char *worker_ports;          /* as given; NULL: workers share the agents' port */
    uint16_t worker_port_low;    /* 0: none; else no run shares the port of the agents */
    uint16_t worker_port_high;
};
