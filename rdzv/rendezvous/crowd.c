/* The state for an agent to which the other nodes are but a number. It is in proportion to that
 * number, but a quarter of the state's size, and none of it is of use to anybody but this agent:
 *
 *   one that is about to join a round that is not complete: a participant in place of each that
 *     there is; itself, if it waits
 *   one that looks for its rank in the complete round: the same, and itself with its rank; one node
 *     that waits, if any does
 *
 * That is all that torch does with the others then (dynamic_rendezvous.py, 1.13 to 2.14): it counts
 * them, whatever ranks they have. With MIN nodes the one that joins sets the deadline, with MAX it
 * completes the round, and it alone knows these numbers. So its write is taken for what it says:
 * that it has joined as the k-th, and perhaps one of these. If it is not the k-th, it is refused,
 * as by torch's own store, and has the write slot next. Nodes that stand for others have no
 * heartbeats, so no clock is in the way, and none is presumed dead: while one is silent, shown.c
 * shows the state itself. */
#include "proto/torch/torch_state.h"
#include "rdzv/rendezvous/explain.h"
#include "rdzv/rendezvous/parts.h"

#define CROWD_ADDR "rdzvd.a-node"

static bool is_of_crowd(const struct torch_node *node)
{
    return slice_is(node->addr, CROWD_ADDR);
}

/* --- What is shown. --- */

/* In the order of a state. */
static void add(struct torch_state *state, const struct torch_node *node)
{
    size_t at = state->count++;

    for (; at > 0 && torch_node_compare(node, &state->nodes[at - 1]) < 0; at--)
        state->nodes[at] = state->nodes[at - 1];
    state->nodes[at] = *node;
}

/* `own`, if it is not NULL, and `waiting`, among `others` participants. */
static bool write_crowd(struct step *s, size_t others, const struct torch_node *own,
                        const struct torch_node *waiting, struct slice *text)
{
    struct torch_state state = s->run->view.state;
    size_t size = (others + 2) * sizeof *state.nodes;
    bool ok;

    state.nodes = account_request(ACCOUNT_RUNS, account_class_of(size), size);
    if (state.nodes == NULL)
        return false;
    state.count = others;
    state.has_deadline = state.shares_times = false;
    for (size_t i = 0; i < others; i++)
        state.nodes[i] = (struct torch_node){
            .addr = slice_str(CROWD_ADDR), .pid = (int64_t)i, .participant = true};
    if (own != NULL)
        add(&state, own);
    if (waiting != NULL)
        add(&state, &(struct torch_node){.addr = waiting->addr,
                                         .pid = waiting->pid,
                                         .local_id = waiting->local_id,
                                         .waiting = true});
    ok = step_write_state(s, &state, TORCH_STATE_GROWTH(s->value.len), text);
    account_free(ACCOUNT_RUNS, state.nodes, size);
    return ok;
}

/* --- One text for all who are about to join, until another one has. --- */

void crowd_fini(struct crowd_text *crowd)
{
    account_heap_free(ACCOUNT_RUNS, (void *)(uintptr_t)crowd->text.ptr);
    *crowd = (struct crowd_text){0};
}

void crowd_drop(struct run *run)
{
    crowd_fini(&run->crowd);
}

void crowd_forget(struct run *run, const struct agent *a)
{
    if (run->crowd.agent == a)
        crowd_drop(run);
}

static bool is_kept(const struct crowd_text *kept, const struct crowd_text *wanted)
{
    return kept->text.ptr != NULL && kept->changes == wanted->changes &&
           kept->agent == wanted->agent && kept->heartbeat_us == wanted->heartbeat_us;
}

/* Without memory it is made again for the next one. */
static void keep(struct run *run, struct crowd_text made)
{
    uint8_t *copy =
        account_heap_request(ACCOUNT_RUNS, account_class_of(made.text.len), made.text.len);

    crowd_drop(run);
    if (copy == NULL)
        return;
    memcpy(copy, made.text.ptr, made.text.len);
    made.text.ptr = copy;
    run->crowd = made;
}

bool crowd_show_joining(struct step *s, const struct agent *a, const struct torch_node *own,
                        struct slice *text)
{
    struct run *run = s->run;
    struct crowd_text wanted = {.changes = run->view.changes};

    if (own != NULL) {
        wanted.agent = a;
        wanted.heartbeat_us = own->heartbeat_us;
    }
    if (is_kept(&run->crowd, &wanted)) {
        *text = run->crowd.text;
        return true;
    }
    if (!write_crowd(s, run->view.participants, own, NULL, text))
        return false;
    wanted.text = *text;
    keep(run, wanted);
    return true;
}

bool crowd_show_ranked(struct step *s, const struct torch_node *own, struct slice *text)
{
    const struct run_view *v = &s->run->view;

    return write_crowd(s, v->participants - 1, own,
                       meeting_is_open(s->run) ? meeting_waiting(s) : NULL, text);
}

/* --- What is written. --- */

/* The agent's node in what it writes, if all that it says is that this one has joined as the next
 * of the crowd; NULL: it says something else. */
static const struct torch_node *joining_node(const struct step *s, const struct torch_state *to)
{
    const struct run_view *v = &s->run->view;
    const struct torch_node *own = NULL;

    if (to->round != v->state.round || to->closed || to->count != v->participants + 1)
        return NULL;
    for (size_t i = 0; i < to->count; i++) {
        const struct torch_node *node = &to->nodes[i];

        if (!node->participant || node->waiting || node->redundant)
            return NULL;
        if (is_of_crowd(node) && !node->has_heartbeat)
            continue;
        if (own != NULL || is_of_crowd(node) || !node->has_heartbeat)
            return NULL;
        own = node;
    }
    return own;
}

/* False: the space is full, or there is no memory. */
static bool join(struct step *s, const struct torch_node *own, const struct torch_state *to,
                 size_t sent, struct torch_state *next)
{
    struct torch_node *node;
    struct slice addr;

    if (!torch_state_insert(next, own, &node))
        return false;
    addr = node->addr;
    *node = *own;
    node->addr = addr;
    node->rank = 0;
    if (to->has_deadline) {
        next->has_deadline = true;
        next->deadline_us = to->deadline_us;
    }
    if (to->complete)
        torch_state_complete(next);
    return step_put_state(s, next, sent);
}

/* The agent says which node it is: one that waits, if it was shown that. False: that one is in the
 * state already, of its predecessor, and so it is one of those that it has counted. */
static bool is_new(struct step *s, struct agent *a, const struct torch_node *own)
{
    const struct torch_node *was = torch_state_find(&s->run->view.state, own);
    bool is_known = a->has_node && torch_node_compare(&a->node, own) == 0;

    skew_learn(s, a, own->heartbeat_us);
    if (!is_known) {
        run_remember_node(s->run, a, own);
        memo_keep(s, a);
    }
    return is_known || explain_role(was) == NULL;
}

/* To complete a round, all others have to live now, and not only a second ago. */
static bool may_complete(const struct step *s, const struct torch_state *to)
{
    return !to->complete || !presence_is_one_silent(s);
}

static bool carry_out(struct step *s, const struct policy_event *event)
{
    const struct torch_node *own;
    struct torch_state to, next;
    bool ok = false;

    if (torch_state_read(event->desired, &to) != TORCH_STATE_OK)
        return false;
    own = joining_node(s, &to);
    if (own != NULL && may_complete(s, &to) && is_new(s, event->agent, own) &&
        step_read_state(s, &next)) {
        ok = join(s, own, &to, event->desired.len, &next);
        torch_state_free(&next);
    }
    torch_state_free(&to);
    return ok;
}

bool crowd_write(struct step *s, const struct policy_event *event)
{
    struct agent *a = event->agent;
    struct slice text;

    if (!a->sees_crowd || event->expected.len == 0)
        return false;
    if (cas_queue_should_hold(s, a)) {
        step_hold(s, a);
        return true;
    }
    if (!shown_joining(s, a, &text) || !slice_equal(event->expected, text)) {
        compare_set_refuse(s, a, false);
        return true;
    }
    if (!carry_out(s, event)) {
        a->sees_crowd = false;
        shown_answer_newest(s, a);
        cas_queue_grant(s, a);
        return true;
    }
    s->out->counters.writes_merged++;
    compare_set_written(s, a);
    if (!long_look_hold_answer(s, a))
        shown_answer(s, a);
    cas_queue_yield(s, a);
    return true;
}
