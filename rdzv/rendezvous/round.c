/* The consequences of a state that was just written: for the agents of its round, for what is known
 * of MIN and MAX, for the end of the run, and for the last call. See policy_internal.h. */
#include "rdzv/rendezvous/policy_internal.h"

/* Its node is in the complete round. */
static void enter_round(struct run *run, struct agent *a)
{
    a->nodes = run->view.completed_participants;
    a->round = run->view.state.round;
    admit_note_room(run, a, a->nodes);
}

/* All agents of the round that has just been completed have the same workers from now on. */
static void begin_round(struct run *run)
{
    AGENTS_FOREACH(a, &run->agents) {
        const struct torch_node *node = run_node_of(run, a);

        if (node != NULL && node->participant)
            enter_round(run, a);
        if (node == NULL || !node->waiting)
            agent_set_line(a, LINE_NONE);
    }
}

static bool was_participant(const struct step *s, const struct agent *a)
{
    return agent_has_node(a) && torch_state_takes_part(&s->run->view.before, &a->node);
}

/* It has taken participants out of the complete round, and not only left that by itself: silent
 * ones, or its own predecessor, whose end is not known here. */
static bool has_taken_out(const struct step *s, const struct agent *by)
{
    const struct torch_state *before = &s->run->view.before, *state = &s->run->view.state;
    bool leaves = was_participant(s, by) && node_role(run_node_of(s->run, by)) == NULL;

    return before->complete && state->complete && before->round == state->round &&
           s->run->view.participants < torch_state_participants(before) && !leaves;
}

/* Torch completes a round with the write by which the MAX-th node joins, or, when the last call
 * after MIN is over, with one by which none joins. Where MAX is unknown, a replaced node that comes
 * back waits for the next round, which then tells MAX. */
static void note_size(struct run *run, enum round_way way)
{
    uint64_t nodes = run->view.participants, joined; /* some of these are spares, by a rule */

    if (way == ROUND_ADMITS) {
        run->fill = run->max_nodes == nodes ? FILL_MAX_ADMITTED : FILL_BELOW_MAX;
        return;
    }
    if (way == ROUND_HAS_MAX && run->max_nodes < nodes)
        run->max_nodes = nodes;
    joined = way == ROUND_HAS_MAX ? run->max_nodes : torch_state_participants(&run->view.before);
    if (run->enough == 0 || joined < run->enough)
        run->enough = joined;
    run->fill = way == ROUND_HAS_MAX && run->max_nodes == nodes ? FILL_MAX : FILL_BELOW_MAX;
}

static void completed(struct step *s, struct agent *by, enum round_way way)
{
    struct run_view *v = &s->run->view;

    s->out->counters.rounds_completed++;
    s->run->was_meeting = s->run->must_meet = s->run->meets_on_order = false;
    note_size(s->run, way);
    s->run->completed_ms = s->run->met_ms = s->now->lived_ms;
    if (s->run->settings->rank_order == RANKS_KEEP &&
        ranks_keep(&v->ranks, &v->state, s->run->max_nodes))
        step_emit(s, POLICY_PUT_RANKS)->value = v->ranks;
    begin_round(s->run);
    s->run->close_kept = CLOSE_NOT_KEPT; /* it has gone on */
    worker_store_on_completed(s, by);
}

void round_end_last_call(struct step *s, struct agent *by)
{
    steering_note_groups(s, false);
    if (s->run->lacks_groups)
        loss_set_aside(s, false);
    if (!last_call_end(s))
        return;
    if (by == NULL)
        by = TAILQ_FIRST(&s->run->agents);
    explain_change(s, by);
    completed(s, by, ROUND_ADMITS);
}

/* A node that rdzvd has put on the wait list still trains in its last round. */
static void note_round(struct run *run, struct agent *a)
{
    const struct torch_state *state = &run->view.state;
    const struct torch_node *node = run_node_of(run, a);

    if (node != NULL && node->waiting && a->line == LINE_PUT)
        return;
    if (node == NULL || !node->participant || !state->complete)
        a->nodes = 0;
    else if (a->nodes == 0)
        enter_round(run, a);
}

void round_written(struct step *s, struct agent *a)
{
    const struct torch_state *before = &s->run->view.before, *state = &s->run->view.state;

    agent_note_wrote(a);
    if (!s->run->view.is_state)
        return;
    note_round(s->run, a);
    admit_note_wait(s, a);
    closing_note_failed(s, a);
    explain_change(s, a);
    if (has_taken_out(s, a))
        placeholder_keys_put(s);
    if (state->closed)
        s->out->counters.runs_closed += !before->closed;
    if (state->complete && !(before->complete && before->round == state->round))
        completed(s, a, was_participant(s, a) ? ROUND_CALL_OVER : ROUND_HAS_MAX);
    else
        last_call_begun(s);
    if (s->run->failed && !before->closed)
        loss_end_run(s);
    else if (!s->run->failed && (!s->run->view.state.complete || s->run->view.state.closed))
        loss_clear_mark(s);
    round_end_last_call(s, a);
}
