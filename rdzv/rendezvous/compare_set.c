/* What a compare-and-set of the run's state becomes. See parts.h.
 *
 * Merging changes what a compare-and-set means: the store then holds a state that no agent sent. It
 * is done where nothing depends on it: a heartbeat goes into the newest state, whatever else has
 * changed; and heartbeats of others do not spoil the write of the agent that holds the write slot.
 * The agent is answered the state that came of it, takes that for a refusal, and finds all that it
 * wanted done. */
#include <assert.h>

#include "proto/torch/torch_merge.h"
#include "rdzv/rendezvous/explain.h"
#include "rdzv/rendezvous/parts.h"
#include "rdzv/rendezvous/wish.h"

/* --- What a state that was just written tells. --- */

/* Its node is in the complete round. */
static void enter_round(struct run *run, struct agent *a)
{
    a->nodes = torch_state_participants(&run->view.last_completed);
    a->round = run->view.state.round;
    let_in_note_room(run, a, a->nodes);
}

/* All who are in the round that has just been completed have the same workers from now on. */
static void begin_round(struct run *run)
{
    const struct torch_state *state = &run->view.state;

    for (size_t i = 0; i < state->count; i++) {
        struct agent *a = run_agent_of(run, &state->nodes[i]);

        if (a != NULL && state->nodes[i].participant)
            enter_round(run, a);
    }
}

static bool was_participant(const struct step *s, const struct agent *a)
{
    const struct torch_node *node =
        a->has_node ? torch_state_find(&s->run->view.before, &a->node) : NULL;

    return node != NULL && node->participant;
}

/* It has taken participants out of the complete round, and not only left that by itself: silent
 * ones, or its own predecessor, of which nobody knows that it is gone. */
static bool has_taken_out(const struct step *s, const struct agent *by)
{
    const struct torch_state *before = &s->run->view.before, *state = &s->run->view.state;
    bool leaves = was_participant(s, by) && explain_role(run_node_of(s->run, by)) == NULL;

    return before->complete && state->complete && before->round == state->round &&
           s->run->view.participants < torch_state_participants(before) && !leaves;
}

/* MIN and MAX are in no message. Torch completes a round with the write by which the MAX-th node
 * joins, or, when the last call after MIN is over, with one by which none joins. Where MAX is
 * unknown, a node that was replaced while it was away, and comes back, is let wait for the next
 * round, which then tells MAX. */
static void note_limits(struct step *s, const struct agent *by)
{
    struct run *run = s->run;
    uint64_t nodes = run->view.participants;

    if (run->completed_by_us) {
        run->reached_max = run->max_nodes == nodes;
        return;
    }
    run->enough = nodes;
    run->reached_max = !was_participant(s, by);
    if (run->reached_max)
        run->max_nodes = nodes;
}

void compare_set_completed(struct step *s, struct agent *a, bool by_us)
{
    s->out->counters.rounds_completed++;
    s->run->completed_by_us = by_us;
    s->run->was_told = false;
    note_limits(s, a);
    spares_make(s);
    s->run->completed_ms = s->now->ms;
    begin_round(s->run);
    closing_forget(s->run); /* it has gone on */
    crowd_drop(s->run);
    worker_store_on_completed(s, a);
}

/* Which node the agent is, and what time it is there: told by what it has made of what it had read.
 * What was put of that may have heartbeats of other nodes in it, which came meanwhile. What is not
 * read is put as it is. */
static void learn_node(struct step *s, struct agent *a, const struct wish *wish)
{
    const struct run_view *v = &s->run->view;
    const struct torch_node *node =
        wish->from != NULL ? wish->writer : wish_writer(a, &v->before, &v->state);

    if (node == NULL)
        return;
    skew_learn(s, a, node->heartbeat_us);
    if (!a->has_node || torch_node_compare(node, &a->node) != 0) {
        run_remember_node(s->run, a, node);
        memo_keep(s, a);
    }
}

/* Whether its node is in the complete round. A node that rdzvd has put on the wait list still
 * trains in its last one. */
static void note_round(struct run *run, struct agent *a)
{
    const struct torch_state *state = &run->view.state;
    const struct torch_node *node = run_node_of(run, a);

    if (node != NULL && node->waiting && a->was_put_in_line)
        return;
    if (node == NULL || !node->participant || !state->complete)
        a->nodes = 0;
    else if (a->nodes == 0)
        enter_round(run, a);
}

void compare_set_written(struct step *s, struct agent *a)
{
    const struct torch_state *before = &s->run->view.before, *state = &s->run->view.state;

    a->is_back = false;
    if (!s->run->view.is_state)
        return;
    note_round(s->run, a);
    let_in_note_wait(s, a);
    closing_note_failed(s, a);
    explain_change(s, a);
    if (has_taken_out(s, a))
        owed_keys_put(s);
    if (state->closed) {
        s->out->counters.runs_closed += !before->closed;
        cas_queue_release(s);
    }
    if (state->complete && !(before->complete && before->round == state->round))
        compare_set_completed(s, a, false);
    else
        last_call_begun(s, a);
    if (s->run->failed && !before->closed)
        loss_end_run(s);
    else if (!s->run->failed && (!s->run->view.state.complete || s->run->view.state.closed))
        loss_clear_mark(s);
    last_call_end(s, a);
}

/* --- Compare-and-set. --- */

/* What torch's first compare-and-set puts there. */
#define NOBODY_YET "Y2FuaW1hZGFt"

/* Puts the heartbeat into the state that there is, in our own text, which differs from the one
 * before in a few bytes alone. */
static bool put_heartbeat(struct step *s, const struct wish *wish)
{
    size_t at = (size_t)(wish->beat - s->run->view.state.nodes);
    int64_t beat_us = wish->beat_us;
    struct torch_state next;
    bool ok;

    if (!step_read_state(s, &next))
        return false;
    assert(at < next.count);
    next.nodes[at].heartbeat_us = beat_us;
    ok = step_put_state(s, &next, wish->desired.len);
    torch_state_free(&next);
    return ok;
}

/* Puts a heartbeat, whether the value is the one that the agent expects or not; or what the holder
 * of the write slot wants, if others have only sent heartbeats since. */
static bool merge(struct step *s, struct wish *wish, bool matches, bool holds_slot)
{
    if (wish->beat != NULL && put_heartbeat(s, wish))
        return true;
    return !matches && holds_slot && wish->from != NULL &&
           torch_merge_rebase(wish->from, &wish->to, &s->run->view.state) &&
           step_put_state(s, &wish->to, wish->desired.len);
}

/* The agent has written what it made of the whole state: if it waits now, there was room for it. */
static void written_whole(struct step *s, struct agent *a)
{
    bool asked_in = a->asks_in;

    compare_set_written(s, a);
    if (a->asks_in && !asked_in && s->run->view.state.complete)
        let_in_note_room(s->run, a, s->run->view.participants + 1);
}

/* Of a closed run no agent writes anything any more. */
void compare_set_refuse(struct step *s, struct agent *a, bool expects_nothing)
{
    const struct write_slot *slot = &s->run->slot;
    struct slice text;

    if (expects_nothing) /* torch's agents do not look at this one */
        step_agent(s, POLICY_ANSWER_CURRENT, a);
    else if (shown_joining(s, a, &text))
        step_agent(s, POLICY_ANSWER_VALUE, a)->value = text;
    else
        shown_answer_newest(s, a);
    if (s->run->view.is_state && s->run->view.state.closed)
        cas_queue_release(s);
    else if (!expects_nothing && (slot->holder == NULL || slot->holder == a))
        cas_queue_grant(s, a);
}

/* `is_news`: there is more in what was put than the agent knows, or it has completed the round and
 * is about to read its rank. */
static void answer(struct step *s, struct agent *a, const struct wish *wish, bool is_news)
{
    if (wish->answer.ptr != NULL) {
        step_agent(s, POLICY_ANSWER_VALUE, a)->value = wish->answer;
        explain_close_ignored(s, a);
    } else if (long_look_hold_answer(s, a)) {
        return;
    } else if (is_news) {
        shown_answer_newest(s, a);
    } else {
        shown_answer_whole(s, a);
    }
}

/* A participant sends a heartbeat of a complete round only when it has read its rank there, also
 * where it reads no key for that (TORCH_ELASTIC_WORKER_IDENTICAL). */
static void note_beat(const struct run *run, struct agent *a, const struct wish *wish)
{
    const struct torch_state *state = &run->view.state;

    if (wish->beat != NULL && wish->beat->participant && wish->from->complete &&
        wish->from->round == state->round && a->has_seen == run->view.completions)
        a->has_ranks_of = run->view.completions;
}

/* As torch's store does it, and with merging:
 *
 *   key       expected value   the agent is answered                  write slot
 *   absent    not empty        what it expected: torch wants it so    passed on
 *                              an agent of a run that was forgotten
 *                              since: no node has joined. It would ask
 *                              again for ever.
 *   absent    empty            what it wanted, which is put           passed on
 *   there     the same         what it wanted, which is put           passed on
 *   there     another, merged  the merged state                       passed on
 *   there     another          the newest state: it is refused        granted, if it is free
 *   no room                    nothing: its connection ends           passed on with its end
 */
static void put_or_refuse(struct step *s, struct agent *a, struct wish *wish)
{
    bool absent = s->value.ptr == NULL, expects_nothing = wish->expected.len == 0;
    bool matches = absent ? expects_nothing : slice_equal(s->value, wish->expected);
    bool was_complete = s->run->view.state.complete;
    bool merged = !absent && merge(s, wish, matches, s->run->slot.holder == a);

    if (absent && !matches && a->is_introduced && step_put_value(s, slice_str(NOBODY_YET))) {
        step_agent(s, POLICY_ANSWER_CURRENT, a);
    } else if (absent && !matches) {
        step_agent(s, POLICY_ANSWER_VALUE, a)->value =
            wish->expected; /* torch's store wants it so */
    } else if (!matches && !merged) {
        compare_set_refuse(s, a, expects_nothing);
        return;
    } else if (!merged && !step_put_value(s, wish->desired)) {
        step_agent(s, POLICY_NO_ROOM, a);
        return;
    } else {
        s->out->counters.writes_merged += merged && !matches;
        learn_node(s, a, wish);
        note_beat(s->run, a, wish);
        written_whole(s, a);
        answer(s, a, wish, merged || (!was_complete && s->run->view.state.complete));
    }
    cas_queue_yield(s, a);
}

/* The compare-and-set that makes the key expects nothing, and its failure makes no agent try again;
 * a heartbeat can be merged, so neither needs the slot. */
static bool needs_slot(const struct wish *wish)
{
    return wish->expected.len != 0 && wish->beat == NULL;
}

void compare_set(struct step *s, const struct policy_event *event)
{
    struct agent *a = event->agent;
    struct wish wish;

    /* With one that expects nothing every agent of every release introduces itself. */
    a->is_introduced = a->is_introduced || event->expected.len == 0;
    if (event->expected.len == 0 && rejoin_should_hold(s, a)) {
        step_hold(s, a);
        return;
    }
    if (!repair_restore(s, a) || long_look_answer(s, a))
        return;
    if (shown_write(s, event) || crowd_write(s, event))
        return;
    step_put_beats(s);
    shown_drop(a);
    wish_read(s, a, event->expected, event->desired, &wish);
    skew_learn_from(s, a, &wish);
    if (needs_slot(&wish) && cas_queue_should_hold(s, a))
        step_hold(s, a);
    else if (!skew_restore(s, a, &wish))
        compare_set_refuse(s, a, false);
    else
        put_or_refuse(s, a, &wish);
    wish_free(&wish);
}
