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
    uint64_t writes_merged; /* of torch's agents, see elastic_state.c */
};
