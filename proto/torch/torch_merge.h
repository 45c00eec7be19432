/* What two agents' changes of one rendezvous state have to do with each other. An agent writes the
 * whole state, changed from the one it last saw; when somebody else has written in between, its
 * compare-and-set fails, although a heartbeat touches nothing that anyone else depends on. */
#pragma once

#include "proto/torch/torch_state.h"

/* True when all that leads from `expected` to `desired` is one node's newer heartbeat (and nodes
 * taken out as dead that are not in `now` either), and that node is still in `now`. *node is that
 * node in `now`, *heartbeat_us its new time; nothing is changed. */
bool torch_merge_heartbeat(const struct torch_state *expected, const struct torch_state *desired,
                           struct torch_state *now, struct torch_node **node,
                           int64_t *heartbeat_us);

/* True when all that leads from `expected` to `now` is newer heartbeats: `desired`, which was made
 * of `expected`, has been given them and stands for both. False, with some of them given already,
 * when more has changed, or when `desired` does without a node that has shown that it lives. */
bool torch_merge_rebase(const struct torch_state *expected, struct torch_state *desired,
                        const struct torch_state *now);

/* The one node that has another heartbeat in `desired` than in `expected`, of which that was made:
 * the writer's, since an agent writes no heartbeat but its own. That may be an older one than its
 * predecessor of the same name has left. NULL when there is none, or more than one. */
const struct torch_node *torch_merge_writer(const struct torch_state *expected,
                                            const struct torch_state *desired);
