/* What an agent writes, relative to what it was shown (shown.c): a heartbeat, that it leaves, that
 * it waits, or that it closes the run. Nothing of its text is ever put: what it means is done to
 * the state. When it means anything else, or what it was shown has passed, such as to an agent that
 * was frozen, it is refused with the state itself, as if another agent had written first. */
#include "proto/torch/torch_state.h"
#include "rdzv/rendezvous/explain.h"
#include "rdzv/rendezvous/parts.h"
#include "rdzv/rendezvous/wish.h"

enum meaning {
    MEANS_UNKNOWN,
    MEANS_HEARTBEAT,
    MEANS_LEAVE, /* the round, or the wait list */
    MEANS_WAIT,
    MEANS_CLOSE,
};

/* The two texts, and the agent's own node in them; NULL: it is not there. */
struct rewrite {
    struct torch_state from, to;
    const struct torch_node *was, *is;
};

static bool same_round(const struct torch_state *a, const struct torch_state *b)
{
    return a->round == b->round && a->complete == b->complete;
}

static bool same_deadline(const struct torch_state *a, const struct torch_state *b)
{
    return a->has_deadline == b->has_deadline &&
           (!a->has_deadline || a->deadline_us == b->deadline_us);
}

static bool same_places(const struct torch_node *a, const struct torch_node *b)
{
    if (a == NULL || b == NULL)
        return a == b;
    return a->participant == b->participant && a->waiting == b->waiting &&
           a->redundant == b->redundant && (!a->participant || a->rank == b->rank);
}

static bool same_beats(const struct torch_node *a, const struct torch_node *b)
{
    return a->has_heartbeat == b->has_heartbeat &&
           (!a->has_heartbeat || a->heartbeat_us == b->heartbeat_us);
}

/* The other nodes that it was shown, if any, are as they were, and there is none more. */
static bool same_others(const struct rewrite *c)
{
    size_t others = c->from.count - (c->was != NULL);

    if (c->to.count - (c->is != NULL) != others)
        return false;
    for (size_t i = 0; i < c->from.count; i++) {
        const struct torch_node *node = &c->from.nodes[i];
        const struct torch_node *then = torch_state_find(&c->to, node);

        if (node == c->was)
            continue;
        if (then == NULL || !same_places(node, then) || !same_beats(node, then))
            return false;
    }
    return true;
}

static bool is_newer(const struct torch_node *is, const struct torch_node *was)
{
    return is->has_heartbeat &&
           (was == NULL || !was->has_heartbeat || is->heartbeat_us >= was->heartbeat_us);
}

/* Of torch's epilogue the agent has seen a part: it was shown no other participant, so to its mind
 * the round is over when it leaves. */
static bool leaves(const struct rewrite *c)
{
    if (c->was == NULL || c->is != NULL || c->to.closed != c->from.closed)
        return false;
    if (c->was->waiting || !c->from.complete)
        return same_round(&c->from, &c->to);
    return !c->to.complete && c->from.round < INT64_MAX && c->to.round == c->from.round + 1;
}

static enum meaning meaning_of(const struct rewrite *c)
{
    if (!same_others(c))
        return MEANS_UNKNOWN;
    if (leaves(c))
        return MEANS_LEAVE;
    if (!same_round(&c->from, &c->to) || !same_deadline(&c->from, &c->to) ||
        (c->from.closed && !c->to.closed))
        return MEANS_UNKNOWN;
    if (c->was == NULL)
        return c->is != NULL && c->is->waiting && !c->is->participant && !c->is->redundant &&
                       c->is->has_heartbeat && !c->to.closed
                   ? MEANS_WAIT
                   : MEANS_UNKNOWN;
    if (!same_places(c->was, c->is))
        return MEANS_UNKNOWN;
    if (c->to.closed && !c->from.closed)
        return MEANS_CLOSE;
    return is_newer(c->is, c->was) ? MEANS_HEARTBEAT : MEANS_UNKNOWN;
}

/* False: one of them is no state, or there is no memory. */
static bool read_both(const struct agent *a, const struct policy_event *event, struct rewrite *c)
{
    if (torch_state_read(event->expected, &c->from) != TORCH_STATE_OK ||
        torch_state_read(event->desired, &c->to) != TORCH_STATE_OK)
        return false;
    c->was = torch_state_find(&c->from, &a->node);
    c->is = torch_state_find(&c->to, &a->node);
    return true;
}

/* --- Doing it. --- */

static bool beat(struct step *s, struct agent *a, const struct rewrite *c)
{
    const struct torch_node *node = torch_state_find(&s->run->view.state, &a->node);

    if (node == NULL || !node->has_heartbeat)
        return false;
    a->is_back = false;
    skew_learn(s, a, c->is->heartbeat_us);
    if (c->is->heartbeat_us > node->heartbeat_us)
        step_note_beat(s, node, c->is->heartbeat_us);
    return true;
}

static bool put(struct step *s, struct agent *a, struct torch_state *next, size_t sent)
{
    if (!step_put_state(s, next, sent))
        return false;
    compare_set_written(s, a);
    return true;
}

static bool leave(struct step *s, struct agent *a, struct torch_state *next)
{
    struct torch_node *node = torch_state_find(next, &a->node);
    uint64_t round = s->run->view.completions;
    bool was_in;

    if (node == NULL)
        return false;
    was_in = node->participant;
    loss_take_out(next, node);
    if (!put(s, a, next, 0))
        return false;
    if (was_in)
        a->has_left = round;
    return true;
}

static bool wait_for_next(struct step *s, struct agent *a, struct torch_state *next,
                          const struct rewrite *c)
{
    struct torch_node *node;

    if (!torch_state_insert(next, &a->node, &node))
        return false;
    node->participant = node->redundant = false;
    node->waiting = node->has_heartbeat = true;
    node->heartbeat_us = c->is->heartbeat_us;
    skew_learn(s, a, node->heartbeat_us);
    return put(s, a, next, 0);
}

static bool close_run(struct step *s, struct agent *a, struct torch_state *next)
{
    next->closed = true;
    return put(s, a, next, 0);
}

static bool change_state(struct step *s, struct agent *a, enum meaning meaning,
                         const struct rewrite *c)
{
    struct torch_state next;
    bool ok;

    if (!step_read_state(s, &next))
        return false;
    ok = meaning == MEANS_LEAVE  ? leave(s, a, &next)
         : meaning == MEANS_WAIT ? wait_for_next(s, a, &next, c)
                                 : close_run(s, a, &next);
    torch_state_free(&next);
    return ok;
}

/* What it was shown still holds but for those who wait, and whether the run is closed. For a
 * heartbeat and a close it is enough that the agent is where it was: a round as it was completed is
 * shown once. */
static bool is_current(struct step *s, struct agent *a, const struct rewrite *c,
                       enum meaning meaning)
{
    const struct run_view *v = &s->run->view;
    const struct torch_node *own = torch_state_find(&v->state, &a->node);

    return same_round(&c->from, &v->state) &&
           (meaning == MEANS_HEARTBEAT || meaning == MEANS_CLOSE || shown_make(s, a).ptr != NULL) &&
           same_places(c->was, own != NULL && explain_role(own) == NULL ? NULL : own);
}

/* False: it is refused. */
static bool carry_out(struct step *s, const struct policy_event *event, const struct rewrite *c)
{
    struct agent *a = event->agent;
    enum meaning meaning = meaning_of(c);

    if (meaning == MEANS_UNKNOWN || !is_current(s, a, c, meaning))
        return false;
    if (meaning == MEANS_CLOSE && !s->run->view.state.closed && !wish_to_close(s, a)) {
        step_agent(s, POLICY_ANSWER_VALUE, a)->value = event->desired;
        explain_close_ignored(s, a);
        return true;
    }
    if (meaning == MEANS_HEARTBEAT ? !beat(s, a, c) : !change_state(s, a, meaning, c))
        return false;
    s->out->counters.writes_merged++;
    if (!long_look_hold_answer(s, a))
        shown_answer(s, a);
    return true;
}

bool shown_write(struct step *s, const struct policy_event *event)
{
    struct agent *a = event->agent;
    struct rewrite c = {0};
    bool is_value = slice_equal(event->expected, s->value) && !s->run->view.has_beats;

    if (a->shown.ptr == NULL || is_value || !slice_equal(event->expected, a->shown))
        return false;
    if (read_both(a, event, &c) && carry_out(s, event, &c)) {
        cas_queue_yield(s, a);
    } else {
        shown_drop(a);
        step_put_beats(s);
        compare_set_refuse(s, a, false);
    }
    torch_state_free(&c.from);
    torch_state_free(&c.to);
    return true;
}
