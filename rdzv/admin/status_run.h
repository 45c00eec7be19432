/* One run of /rdzv/v1/status as JSON; README.md says what each member means. */
#pragma once

#include "rdzv/rendezvous/run_status.h"

/* A run with more nodes lists those that are no plain participants, and has a letter for each node:
 * p: participant, w: waiting, r: spare, s: silent. */
#define STATUS_NODES_LISTED 512

struct status_form {
    bool streamed; /* what changes by itself from one second to the next is left out */
    size_t rounds; /* the last ones */
};

/* All but the closing brace: more members may follow. */
void status_run_write(struct writer *w, const struct run_facts *f, const struct status_form *form);
