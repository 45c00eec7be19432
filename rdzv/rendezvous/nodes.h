/* Nodes of a run, as its states tell of them. */
#pragma once

#include "proto/torch/torch_state.h"

#define NODE_TEXT_MAX 320

/* "host/pid/local id": how torch tells nodes apart. Returns `text`. */
const char *node_text(const struct torch_node *node, char text[NODE_TEXT_MAX]);
/* "host (pid N)" of that, for people. Returns `words`. */
const char *node_words(const char *node, char words[NODE_TEXT_MAX]);

/* Where a node of a state is; NULL: it is in none. */
const char *node_role(const struct torch_node *node);
/* "participant", "waiting", "spare", "none". */
const char *node_role_text(const struct torch_node *node);

/* --- The nodes without which a run goes on: nodes of a complete round that a later complete round
 * lacks. A function of three states; why and when a node was lost is in the history. --- */

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

/* A round was completed as `now`: it becomes *last, and *gone follows from them. `had`: *last was a
 * completed round. False: no memory, nothing has changed. */
bool nodes_keep_completed(const struct torch_state *now, bool had, struct torch_state *last,
                          struct torch_state *gone);
