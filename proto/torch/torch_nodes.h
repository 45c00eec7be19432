/* Nodes of a run, from its states. */
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

/* The participant of that rank; NULL: none. */
const struct torch_node *node_of_rank(const struct torch_state *round, int64_t rank);

/* The nodes of two states, in their order. */
struct node_pairs {
    const struct torch_state *before, *now;
    size_t before_at, now_at;
};

/* The next node, as the two states have it; NULL: that state does not. False: there are no more. */
bool node_pairs_next(struct node_pairs *p, const struct torch_node **before,
                     const struct torch_node **now);

/* --- The nodes without which a run goes on: nodes of a complete round that a later complete round
 * lacks. A function of three states; why and when a node was lost is in the history. --- */

/* A round was completed as `now`, and the round before as `then`; `gone` are the nodes absent until
 * now. Makes *out the nodes absent from now on, with their last rank, in the order of nodes:
 *
 * - A participant of `now` is not absent.
 * - Each newcomer, a participant of `now` that is in neither `then` nor `gone`, makes up for one
 * absent node: for a node of the same address, or else of another address, nodes of `gone` first.
 *
 * So the number of absent nodes never exceeds the number that `now` lacks against the largest
 * round. False: no memory, *out is untouched. */
bool absent_nodes_next(const struct torch_state *gone, const struct torch_state *then,
                       const struct torch_state *now, struct torch_state *out);

/* A round was completed as `now`: it becomes *last, and *gone follows from them. `had`: *last was a
 * completed round. False: no memory, nothing has changed. */
bool absent_nodes_keep(const struct torch_state *now, bool had, struct torch_state *last,
                       struct torch_state *gone);
