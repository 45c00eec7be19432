/* One step of the policy: which part answers which event. See policy.h. */
#include "rdzv/rendezvous/policy.h"

#include "rdzv/rendezvous/policy_internal.h"

/* --- Agents. --- */

/* The agent's held request does not come again. */
static void drop_request(struct run *run, struct agent *a)
{
    numbers_drop(run, a);
    agent_drop_held(run, a);
}

/* The same, and the run waits for nothing else of the agent. */
static void let_go(struct run *run, struct agent *a)
{
    drop_request(run, a);
    if (run->completer.agent == a)
        run->completer.agent = NULL;
    if (run->looks.agent == a)
        run->looks = (struct looks){0};
    if (run->endpoint.asked == a)
        run->endpoint.asked = NULL;
}

/* A node that was in the round most likely has workers, also if it was presumed dead since. */
static void recall_round(struct run *run, struct agent *a)
{
    const struct run_view *v = &run->view;

    if (!v->has_completed || !agent_has_node(a) ||
        !torch_state_takes_part(&v->last_completed, &a->node))
        return;
    a->nodes = v->completed_participants;
    a->round = a->workers_round = v->last_completed.round;
    admit_note_room(run, a, a->nodes);
}

static void connected(struct step *s, const struct policy_event *event)
{
    struct agent *a = event->agent;
    int64_t finished_round;

    a->workers_round = a->finished_round = ROUND_NONE;
    a->joins_since_ms = s->now->ms;
    presence_heard(s, a, false);
    finished_round = resume_hint_take(s->run, a, event->memo);
    recall_round(s->run, a);
    if (finished_round >= 0)
        closing_recall_finished(s->run, a, finished_round);
    rejoin_enter(s, a);
}

static void disconnected(struct step *s, const struct policy_event *event)
{
    struct agent *a = event->agent;

    bool stays = loss_node_stays(s->run, a);

    if (!event->daemon_drains && a->link != LINK_GONE)
        explain_disconnect(s, a, stays);
    let_go(s->run, a);
    rejoin_leave(s, a);
    if (!event->daemon_drains && !stays)
        loss_on_disconnect(s, a);
    run_forget_node(s->run, a);
    if (!event->daemon_drains)
        round_end_last_call(s, NULL);
}

/* When the agent is back, its relay sends the pending request again. */
static void away(struct step *s, const struct policy_event *event)
{
    struct agent *a = event->agent;

    presence_heard(s, a, a->waits);
    agent_set_link(a, LINK_AWAY);
    a->has_seen = 0; /* the answer may be lost that has shown it the round */
    drop_request(s->run, a);
}

/* As disconnected(), except that rdzvd keeps the agent's node: the agent may be back. */
static void gone(struct step *s, const struct policy_event *event)
{
    struct agent *a = event->agent;
    bool stays = loss_node_stays(s->run, a);

    if (!s->run->settings->drop_disconnected)
        return;
    let_go(s->run, a);
    rejoin_set_aside(s, a);
    explain_disconnect(s, a, stays);
    if (!stays)
        loss_on_disconnect(s, a);
    run_unlist(s->run, a);
    round_end_last_call(s, NULL);
}

/* Its predecessor, which ended without a word, was taken for another connection of the node. */
static void list_again(struct step *s, struct agent *a)
{
    struct agent *other = agent_has_node(a) ? run_agent_of(s->run, &a->node) : NULL;

    if (other != NULL && presence_silent_ms(s, &a->node) >= TORCH_DEAD_MS)
        run_list_again(s->run, other, a);
    else
        run_list(s->run, a);
}

/* If the agent was taken for dead, its next request puts its node back: see repair.c. */
static void back(struct step *s, const struct policy_event *event)
{
    struct agent *a = event->agent;

    presence_heard(s, a, a->waits);
    s->run->meeting.next = TAILQ_FIRST(&s->run->agents); /* it passed this agent meanwhile */
    pace_note_back(a);
    if (a->link == LINK_GONE) {
        rejoin_take_back(s, a);
        list_again(s, a);
    }
    agent_set_link(a, LINK_HERE);
}

static void asked_to_compare(struct step *s, const struct policy_event *event)
{
    struct agent *a = event->agent;
    enum agent_held was;

    presence_heard(s, a, false);
    was = agent_note_asked(s->run, a, true, s->now->ms);
    if (was == HELD_NONE)
        pace_note_write(s->run, a, s->now->ms);
    if (!agent_is_held(a))
        compare_set(s, event, was == HELD_RELEASED_ANSWER);
    if (agent_is_held(a))
        step_agent(s, POLICY_HOLD, a);
}

/* After any other request, an agent polls again before it writes. */
static void asked(struct step *s, const struct policy_event *event)
{
    presence_heard(s, event->agent, event->waits);
    agent_note_asked(s->run, event->agent, false, s->now->ms);
    size_end_looks(s, event->agent); /* a look is answered by a write */
    if (event->round_key.ptr != NULL)
        agent_view_note_asked(s, event->agent, event->round);
}

static void polled(struct step *s, const struct policy_event *event)
{
    struct agent *a = event->agent;
    bool is_new = a->held == HELD_NONE;

    asked(s, event);
    if (s->value.ptr == NULL && agent_is_introduced(a) && !agent_has_node(a))
        step_put_value(s, slice_str(TORCH_RUN_SENTINEL)); /* its run is gone: it begins another */
    if (!repair_restore(s, a) || event->waits)
        return;
    if (agent_is_held(a) || rejoin_should_hold(s, a) ||
        (is_new && (long_poll_should_hold(s, a, HELD_LONG) || meeting_should_hold(s, a) ||
                    pace_should_hold(s, a) ||
                    (agent_view_is_joining(s, a) && numbers_should_hold_poll(s, a)))))
        step_agent(s, POLICY_HOLD, a);
    else
        agent_view_poll(s, a);
}

static void uses_round_key(struct step *s, const struct policy_event *event)
{
    asked(s, event);
    closing_note_key(s, event);
    if (event->kind == AGENT_SET_ROUND_KEY)
        worker_store_intercept_set(s, event);
}

/* --- The run. --- */

static void restored(struct step *s, const struct policy_event *event)
{
    struct run_view *v = &s->run->view;

    run_view_update(v, s->value);
    if (event->agents_return && step_is_open(s)) {
        s->run->max_nodes = ranks_recall(v->ranks, v->has_completed ? NULL : &v->last_completed);
        v->completed_participants = torch_state_participants(&v->last_completed);
        v->last_completed.round = v->state.round - !v->has_completed;
    }
    s->run->idle_since_ms = s->now->ms;
    s->run->met_ms = s->now->lived_ms;
    s->run->start = event->agents_return ? START_AWAITED : START_OVER;
    loss_on_start(s, event->agents_return);
    if (!event->agents_return)
        loss_on_restore(s);
    last_call_put_off(s, event->away_ms);
    worker_store_on_restore(s);
}

/* In a round, an agent without a memo writes a heartbeat each 5 s, or each keep_alive_interval. */
#define SAYS_MS 60000

static void drop_absent(struct step *s)
{
    if (clock_elapsed_ms(s->run->unnamed_since_ms, s->now->lived_ms) < SAYS_MS &&
        ANY(AGENTS_FOREACH(a, &s->run->agents), a->origin == ORIGIN_UNNAMED))
        return;
    s->run->start = START_OVER;
    if (!closing_settle(s))
        loss_on_restore(s);
    worker_store_on_returned(s);
}

static void returned(struct step *s, const struct policy_event *)
{
    s->run->start = START_UNNAMED;
    s->run->unnamed_since_ms = s->now->lived_ms;
    drop_absent(s);
}

static void changed(struct step *s, const struct policy_event *)
{
    struct run_view *v = &s->run->view;

    if (s->value.ptr == NULL) {
        if (run_view_has_record(v) || v->ranks.ptr != NULL)
            step_emit(s, POLICY_DELETE_RECORD);
        forget_end_run(s);
        return;
    }
    run_view_update(v, s->value);
    if (v->unread)
        return;
    if (!v->exists)
        forget_end_run(s);
    else if (!v->state.closed)
        rejoin_release_waiting(s);
    if (!v->state.closed)
        s->run->failed = false;
}

static void run_read(struct step *s, const struct policy_event *)
{
    step_catch_up(s);
}

/* A crowd trains: no text has names of others, and the state before is over. */
static void rest(struct run *run)
{
    const struct run_view *v = &run->view;

    if (!v->is_state || !v->state.complete || v->state.closed || v->waiting != 0 ||
        v->participants < run->settings->crowd)
        return;
    torch_state_free(&run->view.before);
    torch_front_free(run->front);
    run->front = NULL;
}

static void tick(struct step *s, const struct policy_event *)
{
    if (forget_if_left(s))
        return;
    rejoin_reject_overdue(s);
    worker_store_on_tick(s);
    if (s->run->start == START_UNNAMED)
        drop_absent(s);
    loss_drop_silent(s);
    long_poll_on_tick(s);
    meeting_release(s);
    pace_on_tick(s);
    numbers_on_tick(s);
    closing_on_tick(s);
    rest(s->run);
    if (s->run->view.late != 0 ||
        clock_elapsed_ms(s->run->beats_since_ms, s->now->ms) >= HEARTBEATS_MS)
        step_catch_up(s);
    if (s->run->view.late != 0) /* there is no room or memory for the text: the value counts */
        s->run->view.unread = true;
}

static void (*const answers[])(struct step *, const struct policy_event *) = {
    [AGENT_CONNECTED] = connected,
    [AGENT_DISCONNECTED] = disconnected,
    [AGENT_AWAY] = away,
    [AGENT_GONE] = gone,
    [AGENT_BACK] = back,
    [AGENT_COMPARE_SET] = asked_to_compare,
    [AGENT_POLLED] = polled,
    [AGENT_ASKED] = asked,
    [AGENT_GET_ROUND_KEY] = uses_round_key,
    [AGENT_SET_ROUND_KEY] = uses_round_key,
    [AGENT_ADD_ROUND_KEY] = uses_round_key,
    [RUN_RESTORED] = restored,
    [RUN_RETURNED] = returned,
    [RUN_CHANGED] = changed,
    [RUN_READ] = run_read,
    [RUN_PROBED] = worker_store_on_probed,
    [RUN_PORT_OPENED] = worker_store_on_port_opened,
    [RUN_TICK] = tick,
    [RUN_FORGET] = forget_on_request,
    [RUN_ORDERED] = steering_on_order,
};

_Static_assert(sizeof answers / sizeof answers[0] == RUN_ORDERED + 1, "an event has no answer");

void policy_step(struct run *run, const struct policy_event *event, const struct policy_now *now,
                 struct policy_out *out)
{
    struct step s = {.run = run, .now = now, .out = out, .value = now->value, .room = now->room};

    if (run->still_ms != now->ms - now->lived_ms)
        pace_forget_shifts(run);
    run->still_ms = now->ms - now->lived_ms;
    if (event->kind < RUN_RESTORED) /* else the view may be out of date */
        steering_check(&s);
    answers[event->kind](&s, event);
    if (event->kind >= RUN_RESTORED)
        steering_note_groups(&s, event->kind >= RUN_TICK);
    steering_check(&s);
    last_call_note(&s);
    long_poll_check(&s);
    meeting_check(&s);
    numbers_check(&s);
    rejoin_check(&s);
    if (run->view.late == 0) /* the texts of these writes are put by now */
        agent_release_all(&s, HELD_LATE, SIZE_MAX);
    torch_state_free(&s.edited);
}
