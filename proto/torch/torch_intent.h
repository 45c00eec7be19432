/* What an agent of torch wants with a compare-and-set of its run's state.
 *
 * Torch writes the whole state to change one thing in it (dynamic_rendezvous.py, 1.13 to 2.14, the
 * actions of _DistributedRendezvousOpExecutor). An intent is that one thing, as the difference of
 * the two texts tells it, whatever text the agent was shown. rdzvd does it to the newest state
 * (rdzv/rendezvous/compare_set.c), so the intents of two nodes never conflict, and no text of an
 * agent is ever put. */
#pragma once

#include "proto/torch/torch_state.h"

enum intent_kind {
    INTENT_UNKNOWN, /* the text wants something else, or is not torch's */
    INTENT_HEARTBEAT,
    INTENT_JOIN,  /* the open round, as participant `number` */
    INTENT_WAIT,  /* for the next round */
    INTENT_SPARE, /* the same, of a complete round that has MAX nodes */
    INTENT_LEAVE, /* the round, or the list on which the node waits */
    INTENT_CLOSE,
    INTENT_COMPLETE, /* the last call is over */
};

struct intent {
    enum intent_kind kind;
    struct torch_node own;             /* the agent's node, in the memory of `from` or `to` */
    const struct torch_node *was, *is; /* the same in the two states; NULL: in no list */
    struct torch_state from, to;       /* the state that the agent was shown, and the one it wants;
                                          without the others that a front of both texts names */
    size_t shown;                      /* participants in the first text */
    uint64_t number;                   /* INTENT_JOIN */
    size_t wanted_len;                 /* bytes of the second text */
};

/* Reads the two texts of an agent. If both begin with the first `others` nodes of `front`, reads
 * only the rest; NULL: there is no front. `known`: the agent's node, or NULL. `shown` may be
 * torch's text for "no state yet". *out ends with intent_free(). */
void intent_read(const struct torch_front *front, size_t others, const struct torch_node *known,
                 struct slice shown, struct slice wanted, struct intent *out);
void intent_free(struct intent *intent);

/* The node whose heartbeat differs between `from` and `to`: the writer's own, since an agent writes
 * no other heartbeat. NULL: there is none, or more than one. */
const struct torch_node *intent_writer(const struct torch_state *from,
                                       const struct torch_state *to);

/* Both nodes have the same place in the round or on a list; NULL: in none. */
bool intent_same_place(const struct torch_node *a, const struct torch_node *b);
