/* What of a state its writer writes once and refers to from then on: nodes, addresses and times
 * that are equal, whatever objects they were. Without this, one string that a hostile or odd text
 * refers to a thousand times would be written a thousand times. */
#pragma once

#include "proto/torch/torch_state.h"

#define TORCH_UNWRITTEN UINT32_MAX

struct torch_once_node {
    uint32_t number;
    uint32_t addr;  /* of the address; valid in the first node that has it */
    uint32_t first; /* which node that is */
};

struct torch_once_time {
    int64_t us;
    uint32_t number;
};

/* Numbers are those of the pickle's memo; what has none yet is TORCH_UNWRITTEN. */
struct torch_once {
    struct torch_once_node *nodes; /* one for each node of the state */
    struct torch_once_time *times; /* in order; NULL: each time is written anew */
    size_t time_count;
    size_t addr_bytes; /* of all addresses that differ */
};

/* Valid while the state stays as it is; ends with torch_once_fini(). False: no memory, and there is
 * nothing to end. Takes n log n steps when the state shares times, else n. */
bool torch_once_init(struct torch_once *o, const struct torch_state *s);
void torch_once_fini(struct torch_once *o);

/* Where the number of a node's address is. */
static inline uint32_t *torch_once_addr(struct torch_once *o, size_t node)
{
    return &o->nodes[o->nodes[node].first].addr;
}

/* Where the number of a time of the state is; NULL: it gets none. */
uint32_t *torch_once_time(struct torch_once *o, int64_t us);
