/* One step of the policy: which part answers which event, and what a compare-and-set of the state
 * becomes. See policy.h.
 *
 * Merging changes what a compare-and-set means: the store then holds a state that no agent sent. It
 * is done where nothing depends on it: a heartbeat goes into the newest state, whatever else has
 * changed; and heartbeats of others do not spoil the write of the agent that holds the write slot.
 * The agent is answered the state that came of it, takes that for a refusal, and finds all that it
 * wanted done. */
#include "rdzv/rendezvous/policy.h"

#include <stdlib.h>

#include "proto/torch/torch_merge.h"
#include "rdzv/rendezvous/explain.h"

/* --- What a state that was just written tells. --- */

/* By how much the clock of the agent that wrote this time, just now, is ahead of ours. */
static void compare_clocks(const struct step *s, struct agent *a, int64_t heartbeat_us)
{
    if (__builtin_sub_overflow(heartbeat_us, s->now->wall_ns / 1000, &a->clock_ahead_us))
        a->clock_ahead_us = 0;
}

/* All who are in the round that has just been completed have the same workers from now on. */
static void begin_round(struct run *run)
{
    const struct torch_state *state = &run->view.state;
    uint64_t nodes = torch_state_participants(state);

    for (size_t i = 0; i < state->count; i++) {
        struct agent *a = run_agent_of(run, &state->nodes[i]);

        if (a == NULL || !state->nodes[i].participant)
            continue;
        a->nodes = nodes;
        a->round = state->round;
    }
}

/* Torch completes a round when MAX nodes have come, or when the last call after MIN is over. MAX is
 * in no message; that the deadline had passed tells that it was not reached. */
static bool reached_max(const struct step *s, const struct agent *by)
{
    const struct torch_state *before = &s->run->view.before;
    int64_t now_us;

    return !before->has_deadline ||
           (step_agent_time(s, by, &now_us) && now_us < before->deadline_us);
}

static void complete_round(struct step *s, struct agent *a)
{
    s->out->counters.rounds_completed++;
    s->run->reached_max = reached_max(s, a);
    begin_round(s->run);
    worker_store_on_completed(s, a);
}

/* The agent has written the state. */
static void on_written(struct step *s, struct agent *a)
{
    struct run *run = s->run;
    const struct torch_state *before = &run->view.before, *state = &run->view.state;
    const struct torch_node *node = torch_merge_writer(before, state);

    if (!run->view.is_state)
        return;
    if (node != NULL && (!a->has_node || torch_node_compare(node, &a->node) != 0))
        run_remember_node(run, a, node);
    if (node != NULL)
        compare_clocks(s, a, node->heartbeat_us);
    node = a->has_node ? torch_state_find(state, &a->node) : NULL;
    if (node == NULL || !node->participant || !state->complete)
        a->nodes = 0;
    explain_change(s, a);
    if (state->closed) {
        s->out->counters.runs_closed += !before->closed;
        cas_queue_release(s);
    }
    if (state->complete && !(before->complete && before->round == state->round))
        complete_round(s, a);
}

/* --- Compare-and-set. --- */

/* What the agent wants to write, and what it is answered if that is not the same. */
struct wish {
    struct slice desired;
    struct slice answer; /* ptr NULL: the value that is there then */
};

static bool others_are_in(const struct run *run, const struct agent *a)
{
    const struct agent *b;

    TAILQ_FOREACH(b, &run->agents, entry) {
        if (b != a && b->nodes != 0 && !b->closes)
            return true;
    }
    return false;
}

/* With close_needs_all: while others are still in the run, all but the mark is written. The agent
 * is answered what it takes for success; its next look says more. */
static void keep_open(struct step *s, struct wish *wish)
{
    struct agent *a = s->event->agent;
    struct torch_state *desired;
    uint8_t *text;
    size_t len;

    if (!s->run->settings->close_needs_all || !step_is_open(s))
        return;
    desired = step_desired(s);
    if (desired == NULL)
        return;
    a->closes = a->closes || desired->closed;
    if (!desired->closed || !others_are_in(s->run, a))
        return;
    desired->closed = false;
    if (!torch_state_write(desired, &text, &len)) {
        desired->closed = true;
        return;
    }
    step_own(s, text);
    *wish = (struct wish){{text, len}, s->event->desired};
}

static void note_ignored(struct step *s, const struct agent *a)
{
    struct note *note = explain_note(s, NOTE_CLOSE_IGNORED);

    note->agent = a;
    note->node = explain_node(s, &a->node);
    note->reason = "other nodes are still in the run, see --close-needs-all";
}

/* All that leads from the expected state to the desired one is a heartbeat: puts it into the state
 * that there is, in our own text, which differs from the one before in a few bytes alone. */
static bool put_heartbeat(struct step *s, const struct torch_state *expected,
                          const struct torch_state *desired)
{
    struct torch_state next;
    struct torch_node *node;
    int64_t heartbeat_us;
    bool ok = false;

    if (!torch_merge_heartbeat(expected, desired, &s->run->view.state, &node, &heartbeat_us) ||
        !step_read_state(s, &next))
        return false;
    node = torch_state_find(&next, node);
    if (node != NULL) {
        node->heartbeat_us = heartbeat_us;
        ok = step_put_state(s, &next);
    }
    torch_state_free(&next);
    return ok;
}

/* Puts a heartbeat, whether the value is the one that the agent expects or not; or what the holder
 * of the write slot wants, if others have only sent heartbeats since. */
static bool merge(struct step *s, bool matches)
{
    const struct torch_state *expected;
    struct torch_state *desired;

    if (!s->run->settings->merge_heartbeats || !s->run->view.is_state)
        return false;
    expected = step_expected(s);
    desired = step_desired(s);
    if (expected == NULL || desired == NULL)
        return false;
    if (put_heartbeat(s, expected, desired))
        return true;
    return !matches && s->run->slot.holder == s->event->agent &&
           torch_merge_rebase(expected, desired, &s->run->view.state) && step_put_state(s, desired);
}

/* The agent learns the newest state, and holds the write slot if it is free. Of a closed run no
 * agent writes anything any more. */
static void refuse(struct step *s)
{
    struct write_slot *slot = &s->run->slot;
    struct agent *a = s->event->agent;

    step_answer(s, POLICY_ANSWER_CURRENT);
    if (s->run->view.is_state && s->run->view.state.closed)
        cas_queue_release(s);
    else if (s->event->expected.len != 0 && (slot->holder == NULL || slot->holder == a))
        cas_queue_grant(s, a);
}

static void answer(struct step *s, enum policy_output_kind kind, struct slice value)
{
    struct policy_output *o = step_emit(s, kind);

    o->agent = s->event->agent;
    o->value = value;
}

/* As torch's store does it, and with merging. */
static void write(struct step *s, const struct wish *wish)
{
    struct agent *a = s->event->agent;
    bool absent = s->value.ptr == NULL;
    bool matches = absent ? s->event->expected.len == 0 : slice_equal(s->value, s->event->expected);
    bool merged = !absent && merge(s, matches);

    if (absent && !matches) {
        answer(s, POLICY_ANSWER_VALUE, s->event->expected); /* torch's store wants it so */
    } else if (!matches && !merged) {
        refuse(s);
        return;
    } else if (!merged && !step_put_value(s, wish->desired)) {
        answer(s, POLICY_NO_ROOM, (struct slice){0});
        return;
    } else {
        s->out->counters.writes_merged += merged && !matches;
        on_written(s, a);
        if (wish->answer.ptr == NULL) {
            answer(s, POLICY_ANSWER_CURRENT, (struct slice){0});
        } else {
            answer(s, POLICY_ANSWER_VALUE, wish->answer);
            note_ignored(s, a);
        }
    }
    if (s->run->slot.holder == a)
        cas_queue_pass(s);
}

static void compare_set(struct step *s)
{
    struct wish wish = {.desired = s->event->desired};

    if (rejoin_should_defer(s) || cas_queue_should_defer(s)) {
        step_answer(s, POLICY_HOLD);
        return;
    }
    if (!repair_restore(s, s->event->agent))
        return;
    keep_open(s, &wish);
    write(s, &wish);
}

/* --- Other events. --- */

static void on_request(struct step *s, struct agent *a)
{
    if (s->run->slot.holder == a)
        cas_queue_pass(s); /* it looks again before it writes */
}

static void disconnect(struct step *s, struct agent *a)
{
    if (!s->event->daemon_drains)
        explain_disconnect(s, a);
    cas_queue_leave(s, a);
    rejoin_leave(s, a);
    run_forget_node(s->run, a);
}

static void on_changed(struct step *s)
{
    struct run_view *v = &s->run->view;

    if (s->event->value.ptr == NULL) {
        if (run_view_has_record(v))
            step_emit(s, POLICY_DELETE_RECORD);
        step_end_run(s);
        return;
    }
    run_view_update(v, s->event->value);
    if (!v->exists)
        step_end_run(s);
    else if (!v->state.closed)
        rejoin_release_waiting(s);
}

/* --- Runs that are forgotten. --- */

static void forget(struct step *s, const char *reason)
{
    struct run *run = s->run;
    bool closed = run->view.state.closed;
    struct note *note;

    step_emit(s, POLICY_FORGET_RUN)->key = run->view.node.key;
    note = explain_note(s, NOTE_RUN_FORGOTTEN);
    note->closed = closed;
    note->reason = reason;
    step_end_run(s);
}

/* Torch's agents would wait for the run's keys for a minute, and end then. */
static void end_agents(struct step *s)
{
    struct agent *a;

    s->run->ending = true;
    TAILQ_FOREACH(a, &s->run->agents, entry) {
        struct policy_output *close = step_emit(s, POLICY_CLOSE);

        close->agent = a;
        close->reason = "its run is forgotten on request; start it again";
        close->value = s->run->view.id;
    }
}

static void forget_on_request(struct step *s)
{
    if (!s->run->view.exists)
        return;
    end_agents(s);
    forget(s, "on request");
}

/* Whether all agents have left a run for long enough; NULL: no. */
static const char *why_forget(const struct step *s)
{
    const struct run *run = s->run;
    const struct policy_settings *settings = run->settings;
    uint64_t idle_ms = clock_elapsed_ms(run->idle_since_ms, s->now->ms);

    if (!run->idle || !run->view.exists)
        return NULL;
    if (run->view.state.closed && idle_ms >= settings->closed_run_ttl_ms)
        return "it is closed, and no agent was connected for --closed-run-ttl";
    if (settings->idle_run_ttl_ms != 0 && idle_ms >= settings->idle_run_ttl_ms)
        return "no agent was connected for --idle-run-ttl";
    return NULL;
}

static bool slot_is_overdue(const struct step *s)
{
    uint64_t deadline_ms = s->run->slot.deadline_ms;

    return deadline_ms != 0 && s->now->ms >= deadline_ms;
}

static void gc(struct step *s)
{
    const char *reason = why_forget(s);

    if (reason != NULL) {
        forget(s, reason);
        return;
    }
    rejoin_reject_overdue(s);
    worker_store_retry(s);
    if (slot_is_overdue(s))
        cas_queue_pass(s); /* its timer could not be set */
}

static void restored(struct step *s)
{
    run_view_update(&s->run->view, s->event->value);
    s->run->idle_since_ms = s->now->ms;
}

static void on_timer(struct step *s)
{
    uint64_t deadline_ms = s->run->slot.deadline_ms;

    if (slot_is_overdue(s))
        cas_queue_pass(s);
    else if (deadline_ms != 0)
        step_emit(s, POLICY_TIMER)->deadline_ms = deadline_ms; /* it came early */
}

static void dispatch(struct step *s)
{
    struct agent *a = s->event->agent;

    switch (s->event->kind) {
    case AGENT_CONNECTED:
        s->run->ending = false;
        rejoin_enter(s, a);
        break;
    case AGENT_DISCONNECTED:
        disconnect(s, a);
        break;
    case AGENT_COMPARE_SET:
        compare_set(s);
        break;
    case AGENT_LOOKED:
        on_request(s, a);
        repair_restore(s, a);
        break;
    case AGENT_ASKED:
        on_request(s, a);
        break;
    case AGENT_SET_ROUND_KEY:
        on_request(s, a);
        worker_store_intercept_set(s);
        break;
    case RUN_RESTORED:
        restored(s);
        break;
    case RUN_CHANGED:
        on_changed(s);
        break;
    case RUN_PROBED:
        worker_store_on_probed(s);
        break;
    case RUN_PORT_OPENED:
        worker_store_on_port_opened(s);
        break;
    case RUN_TIMER:
        on_timer(s);
        break;
    case RUN_TICK:
        gc(s);
        break;
    case RUN_STALLED:
        repair_shift_heartbeats(s, s->event->stalled_ms);
        break;
    case RUN_FORGET:
        forget_on_request(s);
        break;
    }
}

void policy_step(struct run *run, const struct policy_event *event, const struct policy_now *now,
                 struct policy_out *out)
{
    struct step s = {.run = run,
                     .event = event,
                     .now = now,
                     .out = out,
                     .value = event->value,
                     .room = event->room};

    dispatch(&s);
    torch_state_free(&s.expected);
    torch_state_free(&s.desired);
}
