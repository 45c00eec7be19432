/* Reads what an agent wants from what it writes. See torch_intent.h for the contract. */
#include "proto/torch/torch_intent.h"

#include "proto/torch/torch_keys.h"

static bool same_beat(const struct torch_node *a, const struct torch_node *b)
{
    return a->has_heartbeat == b->has_heartbeat &&
           (!a->has_heartbeat || a->heartbeat_us == b->heartbeat_us);
}

const struct torch_node *intent_writer(const struct torch_state *from, const struct torch_state *to)
{
    struct node_pairs pairs = {.before = from, .now = to};
    const struct torch_node *old, *node, *writer = NULL;

    while (node_pairs_next(&pairs, &old, &node)) {
        if (node == NULL || !node->has_heartbeat || (old != NULL && same_beat(old, node)))
            continue;
        if (writer != NULL)
            return NULL;
        writer = node;
    }
    return writer;
}

/* --- The differences of the two states. --- */

bool intent_same_place(const struct torch_node *a, const struct torch_node *b)
{
    if (a == NULL || b == NULL)
        return a == b;
    return a->participant == b->participant && a->waiting == b->waiting &&
           a->redundant == b->redundant;
}

/* NULL: in no list, as a node is that has left the redundancy list. */
static const struct torch_node *listed(const struct torch_state *state,
                                       const struct torch_node *node)
{
    const struct torch_node *found = torch_state_find(state, node);

    return node_role(found) == NULL ? NULL : found;
}

/* All nodes except the agent's own are as they were. A round that is completed gives them ranks. */
static bool same_others(const struct intent *in)
{
    struct node_pairs pairs = {.before = &in->from, .now = &in->to};
    const struct torch_node *before, *now;

    if (in->from.unnamed != in->to.unnamed)
        return false;
    while (node_pairs_next(&pairs, &before, &now)) {
        if (torch_node_compare(before != NULL ? before : now, &in->own) == 0)
            continue;
        if (!intent_same_place(before, now) || !same_beat(before, now))
            return false;
    }
    return true;
}

static bool same_round(const struct intent *in)
{
    return in->from.round == in->to.round && in->from.complete == in->to.complete;
}

static bool is_only(const struct torch_node *node, bool in_its_list)
{
    return in_its_list && node->participant + node->waiting + node->redundant == 1;
}

/* The agent takes its own node out. Torch counts the participants that it has been shown: an agent
 * that sees no other participant ends the round when it leaves. */
static bool leaves(const struct intent *in)
{
    if (in->was == NULL || in->is != NULL)
        return false;
    return same_round(in) || (in->from.complete && in->was->participant && !in->to.complete &&
                              in->from.round < INT64_MAX && in->to.round == in->from.round + 1);
}

static bool joins(const struct intent *in)
{
    return !in->from.complete && in->from.round == in->to.round && in->is != NULL &&
           is_only(in->is, in->is->participant) && in->is->has_heartbeat &&
           (in->was == NULL || !in->was->participant);
}

static bool completes(const struct intent *in)
{
    return !in->from.complete && in->to.complete && in->from.round == in->to.round &&
           in->was != NULL && in->is != NULL && in->was->participant && in->is->participant;
}

/* With the same write, an agent takes out the nodes that it takes for dead: others, and itself. A
 * complete round that has lost its last participant by that is over. */
static bool closes(const struct intent *in)
{
    bool ends_round = in->from.complete && !in->to.complete && in->from.round < INT64_MAX &&
                      in->to.round == in->from.round + 1 && torch_state_participants(&in->to) == 0;

    if (in->from.closed || !in->to.closed)
        return false;
    NODES_FOREACH(node, &in->to) {
        const struct torch_node *old = torch_state_find(&in->from, node);

        if (old == NULL || !intent_same_place(node, old) ||
            (node != in->is && !same_beat(node, old)))
            return false;
    }
    return same_round(in) || leaves(in) || ends_round;
}

static enum intent_kind kind_of(const struct intent *in)
{
    if (closes(in))
        return INTENT_CLOSE;
    if (!same_others(in) || in->from.closed != in->to.closed)
        return INTENT_UNKNOWN;
    if (leaves(in))
        return INTENT_LEAVE;
    if (joins(in))
        return INTENT_JOIN;
    if (completes(in))
        return INTENT_COMPLETE;
    if (!same_round(in))
        return INTENT_UNKNOWN;
    if (in->was == NULL && in->is != NULL && in->is->has_heartbeat &&
        (is_only(in->is, in->is->waiting) || is_only(in->is, in->is->redundant)))
        return in->is->waiting ? INTENT_WAIT : INTENT_SPARE;
    return in->was != NULL && intent_same_place(in->was, in->is) && in->is->has_heartbeat
               ? INTENT_HEARTBEAT
               : INTENT_UNKNOWN;
}

/* An agent stays its node. An agent whose node is not known yet shows it by its heartbeat. */
static bool find_own(const struct torch_node *known, struct intent *in)
{
    const struct torch_node *own = known != NULL ? torch_state_find(&in->to, known) : NULL;

    if (own == NULL && known != NULL)
        own = torch_state_find(&in->from, known);
    if (own == NULL)
        own = intent_writer(&in->from, &in->to);
    if (own == NULL)
        return false;
    in->own = *own;
    in->was = listed(&in->from, &in->own);
    in->is = listed(&in->to, &in->own);
    return true;
}

/* Both texts begin with the same others, as the agent was shown them. */
static bool read_behind_front(const struct torch_front *front, size_t others, struct slice shown,
                              struct slice wanted, struct intent *in)
{
    if (front == NULL || torch_front_read(front, others, shown, &in->from) != TORCH_STATE_OK)
        return false;
    if (torch_front_read(front, others, wanted, &in->to) == TORCH_STATE_OK)
        return true;
    torch_state_free(&in->from);
    return false;
}

static bool read_whole(struct slice shown, struct slice wanted, struct intent *in)
{
    return (slice_is(shown, TORCH_RUN_SENTINEL) ||
            torch_state_read_view(shown, &in->from) == TORCH_STATE_OK) &&
           torch_state_read_view(wanted, &in->to) == TORCH_STATE_OK;
}

void intent_read(const struct torch_front *front, size_t others, const struct torch_node *known,
                 struct slice shown, struct slice wanted, struct intent *out)
{
    *out = (struct intent){.wanted_len = wanted.len};
    if (!read_behind_front(front, others, shown, wanted, out)) {
        others = 0;
        if (!read_whole(shown, wanted, out))
            return;
    }
    out->shown = torch_state_participants(&out->from) + others;
    if (find_own(known, out))
        out->kind = kind_of(out);
    else if (closes(out))
        out->kind = INTENT_CLOSE;
    if (out->kind == INTENT_JOIN)
        out->number = torch_state_participants(&out->to) + others;
}

void intent_free(struct intent *in)
{
    torch_state_free(&in->from);
    torch_state_free(&in->to);
}
