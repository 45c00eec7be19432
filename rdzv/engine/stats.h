/* What the daemon counts about itself: plain numbers, which /metrics reads. */
#pragma once

#include <stdint.h>

struct stats {
    uint64_t accepted;
    uint64_t rejected; /* over --connection-limit */
    uint64_t closed;
    uint64_t dropped; /* of those: by the daemon, for what the peer did or did not do */
    uint64_t c10d_requests;
    uint64_t http_requests;
    uint64_t loop_iterations;
    uint64_t writes_merged;    /* compare-and-sets of agents, see rendezvous/ */
    uint64_t rounds_completed; /* of all runs */
    uint64_t runs_closed;
    uint64_t runs_repaired;      /* lines `repaired` in the log */
    uint64_t nodes_disconnected; /* agents that went while their run was open */
};
