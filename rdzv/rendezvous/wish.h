/* What an agent wants with a compare-and-set of its run's state, beside the bytes that it sends. */
#pragma once

#include "rdzv/rendezvous/step.h"

struct wish {
    struct slice expected, desired; /* the texts */
    struct slice answer;            /* what it is told when they are put; ptr NULL: `desired` */

    /* The two texts as states, or neither: `from` is NULL then. Valid until the run's state
     * changes, which may be the expected one. */
    const struct torch_state *from;
    struct torch_state to;

    /* All that leads from the one to the other is a heartbeat of this node of the run's state, at
     * this time. NULL: more, or nothing. Valid as long. */
    struct torch_node *beat;
    int64_t beat_us;

    struct torch_state memory; /* private: of `from` */
};

/* Reads the compare-and-set of that agent. What the settings make of it is in the wish already: see
 * close_needs_all. */
void wish_read(struct step *s, struct agent *a, struct slice expected, struct slice desired,
               struct wish *out);

void wish_free(struct wish *wish);
