/* The settings of runs, as --help names them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* When the nodes of a complete round are told to meet again because one of them is lost. */
enum restart_on_loss {
    RESTART_NEVER,
    RESTART_WHEN_CLOSED, /* its agent's connection has ended */
    RESTART_WHEN_SILENT, /* the same, or nothing has come of it for silent_restart_ms */
};

struct policy_settings {
    bool close_needs_all;    /* one agent alone does not close the run for the others */
    bool close_from_members; /* a node whose workers are not in the newest round does not */
    bool end_failed_runs;    /* when an agent has closed it whose workers failed, all others end */
    bool drop_disconnected;  /* a node whose agent's connection ended is taken out at once */
    bool end_last_call;      /* the last call ends when no node is missing */
    uint64_t silent_node_ms; /* a node whose agent is silent for so long is taken out; 0: after
                                torch's 15 s, if a node waits or the round is open */
    enum restart_on_loss restart_on_loss;
    uint64_t silent_restart_ms;
    uint64_t regroup_wait_ms;    /* the last call of later rounds is not longer; 0: as long as the
                                    agents say */
    uint64_t expected_nodes;     /* of the run's first round; 0: unknown */
    bool own_worker_ports;       /* --worker-ports: no run shares the port of the agents */
    uint64_t closed_run_ttl_ms;  /* a closed run without agents is forgotten after this */
    uint64_t closed_run_wait_ms; /* how long an agent that comes for a closed run is held; 0: not */
    uint64_t idle_run_ttl_ms;    /* an open run without agents is forgotten after this; 0: never */
    const char *advertise_host;  /* what workers connect to; NULL: a guess, from the agents */
    uint16_t advertise_port;     /* 0: the port that the agents connect to */
};
