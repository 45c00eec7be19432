/* The nodes without which a run goes on: they were in a round that was complete, and a later one
 * was completed without them. A function of three states; why and when a node was lost is in the
 * history. */
#pragma once

#include "proto/torch/torch_state.h"

/* A round was completed as `now`, and the one before as `then`; `gone` are those who were gone
 * until now. Makes *out those who are gone now, with their last rank, in the order of nodes:
 *
 * - Who is in `now` is not gone.
 * - Each node of `now` that was in neither of the others makes up for one: for one of the same
 * address, or else for one of another, and there for those first who were gone before.
 *
 * So never more are gone than `now` has nodes less than the largest round had. False: no memory,
 * *out is untouched. */
bool gone_next(const struct torch_state *gone, const struct torch_state *then,
               const struct torch_state *now, struct torch_state *out);
