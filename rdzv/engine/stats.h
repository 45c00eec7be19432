/* What the daemon counts about itself: plain numbers, which /readyz?verbose and /metrics read. */
#pragma once

#include <stdint.h>

struct stats {
    uint64_t accepted;
    uint64_t refused; /* over the limit of connections */
    uint64_t closed;
    uint64_t cut; /* of those: by us, for what the peer did or did not do */
    uint64_t c10d_requests;
    uint64_t http_requests;
    uint64_t turns;
    uint64_t writes_merged;   /* of torch's agents, see elastic_state.c */
    uint64_t rounds_complete; /* of torch's runs, all of them */
    uint64_t runs_closed;
    uint64_t runs_repaired;      /* lines `repaired` in the log */
    uint64_t nodes_disconnected; /* agents that went while their run was open */
};
