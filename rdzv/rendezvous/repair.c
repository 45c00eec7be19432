/* Puts a live node that was taken for dead back into its round, or onto the wait list. */
#include "rdzv/rendezvous/policy_internal.h"

enum place { PLACE_NONE, PLACE_TAKEN, PLACE_FOUND };

/* The place of a node that was presumed dead. If its round goes on, the node is in it, with its old
 * rank. If another round has begun, or an operator had taken the node out, it waits: so all nodes
 * meet again. If the round is full, another node has taken the place. */
static enum place find_place(const struct run *run, const struct agent *a, struct torch_node *back)
{
    const struct run_view *v = &run->view;
    const struct torch_node *then;

    if (a->nodes == 0 || run_keeps_out(run, &a->node))
        return PLACE_NONE;
    if (v->state.complete && v->state.round == a->round && a->has_left != v->completions) {
        then = torch_state_find(&v->last_completed, &a->node);
        if (then == NULL || !then->participant)
            return PLACE_NONE;
        back->participant = true;
        back->rank = then->rank;
        return PLACE_FOUND;
    }
    if (v->state.complete && run->fill != FILL_BELOW_MAX && v->participants >= a->nodes)
        return PLACE_TAKEN;
    back->waiting = true;
    return PLACE_FOUND;
}

static void put_back(struct step *s, struct agent *a, const struct torch_node *back)
{
    struct torch_state *next = step_edit(s);
    struct torch_node *at;
    struct slice addr;
    struct note *note;

    if (next == NULL || !torch_state_insert(next, back, &at))
        return;
    addr = at->addr;
    *at = *back;
    at->addr = addr;
    if (back->participant)
        loss_take_back(s->run, next);
    if (!step_put_edited(s, 0))
        return;
    agent_set_line(a, back->waiting ? LINE_PUT : LINE_NONE);
    steering_check(s); /* before its request may be held for a meeting */
    s->out->counters.runs_repaired++;
    note = explain_note(s, NOTE_NODE_REPAIRED, 0, "other nodes presumed it dead, and it lives");
    note->agent = a;
    note->node = explain_node(s, &a->node);
    note->round = a->round;
    note->action = back->participant ? "is a participant again" : "waits to be admitted";
}

bool repair_restore(struct step *s, struct agent *a)
{
    struct torch_node back = {.addr = a->node.addr,
                              .pid = a->node.pid,
                              .local_id = a->node.local_id,
                              .has_heartbeat = true,
                              .heartbeat_us = s->now->wall_ns / 1000};
    enum place place;

    if (!step_is_open(s) || !agent_has_node(a) ||
        torch_state_find(&s->run->view.state, &a->node) != NULL)
        return true;
    place = find_place(s->run, a, &back);
    if (place == PLACE_FOUND)
        put_back(s, a, &back);
    else if (place == PLACE_TAKEN)
        step_close(s, a, "presumed dead and replaced while it was away; start it again",
                   a->node.addr);
    return place != PLACE_TAKEN;
}
