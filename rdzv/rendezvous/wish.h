/* What an agent wants with a compare-and-set of its run's state, beside the bytes that it sends. */
#pragma once

#include "rdzv/rendezvous/step.h"

struct wish {
    struct slice expected, desired; /* the texts; the second may be ours, see close_needs_all */
    struct slice answer; /* what the agent is told when it is put; ptr NULL: the value then */

    /* The two texts as states. NULL: one of them is none, the run has none, or no setting needs to
     * know. `from` may be the view's own state: valid until the next put. */
    const struct torch_state *from;
    struct torch_state to;

    /* All that leads from the one to the other is a heartbeat of this node of the view's state, at
     * this time, and perhaps nodes taken out that are gone already. NULL: more, or nothing, or
     * heartbeats are not merged. Valid until the next put. */
    const struct torch_node *beat;
    int64_t beat_us;

    const struct torch_node *writer; /* the agent's own, as `to` tells; NULL: it does not */

    struct torch_state memory; /* private: of `from` */
};

/* Reads the compare-and-set of that agent, and notes whether it wants to close the run. With
 * close_needs_all, what it may not write is left out of `desired`. To be called after
 * repair_restore(); *out ends with wish_free(). */
void wish_read(struct step *s, struct agent *a, struct slice expected, struct slice desired,
               struct wish *out);

/* The agent's node, as a state tells that it has made of another one: the writer, but an agent
 * stays the node that it is, as long as that is there. NULL: it is not told. */
const struct torch_node *wish_writer(const struct agent *a, const struct torch_state *expected,
                                     const struct torch_state *desired);

void wish_free(struct wish *wish);

/* The agent asks to close the run. False: it may not, for the sake of the others. */
bool wish_to_close(struct step *s, struct agent *a);
