/* One run of /rdzv/v1/status as JSON; README.md says what each member means. */
#pragma once

#include "rdzv/rendezvous/run_status.h"

/* A run with more nodes lists those that are no plain participants, and has a letter for each node,
 * in the order of ranks: p: participant, w: waiting, r: spare, s: silent. */
#define STATUS_NODES_LISTED 512

struct status_form {
    bool streamed; /* what changes by itself from one second to the next is left out */
    size_t rounds; /* the last ones */
    size_t nodes;  /* are listed, up to STATUS_NODES_LISTED */
};

/* All but the closing brace: more members may follow. Returns how many nodes are listed. */
uint64_t status_run_write(struct writer *w, const struct run_facts *f,
                          const struct status_form *form);
