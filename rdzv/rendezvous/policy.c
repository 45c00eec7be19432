/* One step of the policy: which part answers which event. See policy.h. */
#include "rdzv/rendezvous/policy.h"

#include "proto/torch/torch_timing.h"
#include "rdzv/rendezvous/explain.h"
#include "rdzv/rendezvous/parts.h"

/* --- Agents. --- */

static void look_leave(struct run *run, struct agent *a)
{
    long_look_leave(run, a);
    meeting_leave(run, a);
    pace_leave(run, a);
    numbers_leave(run, a);
}

static void connected(struct step *s, const struct policy_event *event)
{
    presence_heard(s, event->agent, false);
    memo_recall(s, event->agent, event->memo);
    rejoin_enter(s, event->agent);
}

static void disconnected(struct step *s, const struct policy_event *event)
{
    struct agent *a = event->agent;

    if (!event->daemon_drains && !a->gone)
        explain_disconnect(s, a);
    look_leave(s->run, a);
    rejoin_leave(s, a);
    worker_store_leave(s, a);
    if (!event->daemon_drains)
        loss_on_disconnect(s, a);
    agent_view_forget(s, a);
    run_forget_node(s->run, a);
    if (!event->daemon_drains)
        last_call_end(s, NULL);
}

/* It was there until now. What it waits for it waits for again when it is back. */
static void away(struct step *s, const struct policy_event *event)
{
    presence_heard(s, event->agent, event->agent->waits);
    event->agent->away = true;
    event->agent->has_seen = 0; /* the answer may be lost that has shown it the round */
    look_leave(s->run, event->agent);
    rejoin_drop_request(s, event->agent);
}

/* As disconnected(), but that it is kept who it is: it may be back. */
static void gone(struct step *s, const struct policy_event *event)
{
    struct agent *a = event->agent;

    if (!s->run->settings->drop_disconnected)
        return;
    look_leave(s->run, a);
    rejoin_set_aside(s, a);
    explain_disconnect(s, a);
    worker_store_leave(s, a);
    loss_on_disconnect(s, a);
    run_unlist(s->run, a);
    agent_view_forget(s, a);
    last_call_end(s, NULL);
}

/* Its predecessor, which ended without a word, was taken for another connection of the node. */
static void list_again(struct step *s, struct agent *a)
{
    struct agent *other = a->has_node ? run_agent_of(s->run, &a->node) : NULL;

    if (other != NULL && presence_silent_ms(s, &a->node) >= TORCH_DEAD_MS)
        run_list_again(s->run, other, a);
    else
        run_list(s->run, a);
}

/* If it was taken for dead, it is put where it belongs when it asks: see repair.c. */
static void back(struct step *s, const struct policy_event *event)
{
    struct agent *a = event->agent;

    presence_heard(s, a, a->waits);
    meeting_note_back(s->run);
    a->away = false;
    if (!a->gone)
        return;
    rejoin_take_back(s, a);
    list_again(s, a);
}

static void asked_to_compare(struct step *s, const struct policy_event *event)
{
    presence_heard(s, event->agent, false);
    agent_note_asked(event->agent, s->now->ms);
    pace_note_write(s->run, event->agent, s->now->ms);
    compare_set(s, event);
}

/* Whatever else an agent asks for, it looks again before it writes. */
static void asked(struct step *s, const struct policy_event *event)
{
    presence_heard(s, event->agent, event->waits);
    agent_note_asked(event->agent, s->now->ms);
    if (event->round_key.ptr != NULL)
        agent_view_note_asked(s, event->agent, event->round);
}

static void looked(struct step *s, const struct policy_event *event)
{
    struct agent *a = event->agent;
    bool is_again = a->look == LOOK_RELEASED;

    asked(s, event);
    if (!repair_restore(s, a) || event->waits)
        return;
    if (is_again)
        a->look = LOOK_FREE;
    if (!is_again &&
        (long_look_should_hold(s, a) || meeting_should_hold(s, a) || pace_should_hold(s, a) ||
         (agent_view_is_joining(s, a) && numbers_should_hold_look(s, a))))
        step_hold(s, a);
    else
        agent_view_look(s, a);
}

static void set_round_key(struct step *s, const struct policy_event *event)
{
    asked(s, event);
    closing_note_set(s, event->agent, event->round, event->round_key, event->exists);
    closing_note_finished(s, event->agent, event->round, event->round_key);
    worker_store_intercept_set(s, event);
}

static void get_round_key(struct step *s, const struct policy_event *event)
{
    asked(s, event);
    closing_note_read(event->agent, event->round, event->round_key);
}

static void add_round_key(struct step *s, const struct policy_event *event)
{
    asked(s, event);
    closing_note_finished(s, event->agent, event->round, event->round_key);
}

/* --- The run. --- */

static void restored(struct step *s, const struct policy_event *event)
{
    run_view_update(&s->run->view, s->value);
    s->run->idle_since_ms = s->now->ms;
    s->run->awaits_agents = event->agents_return;
    loss_on_start(s, event->agents_return);
    if (!event->agents_return)
        loss_on_restore(s);
    repair_shift_heartbeats(s, event->still_ms);
    worker_store_on_restore(s);
}

/* An agent of which no memo was kept writes a heartbeat each 5 s, or as keep_alive_interval says
 * (2.7 and later), if it is in a round. */
#define SAYS_MS 60000

static bool is_any_unnamed(const struct step *s)
{
    const struct agent *a;

    if (clock_elapsed_ms(s->run->unnamed_since_ms, s->now->ms) >= SAYS_MS)
        return false;
    TAILQ_FOREACH(a, &s->run->agents, entry) {
        if (agent_is_unnamed(a))
            return true;
    }
    return false;
}

static void drop_absent(struct step *s)
{
    if (is_any_unnamed(s))
        return;
    s->run->unnamed_since_ms = 0;
    if (!closing_settle(s))
        loss_on_restore(s);
    worker_store_on_returned(s);
}

static void returned(struct step *s, const struct policy_event *event)
{
    (void)event;
    s->run->awaits_agents = false;
    s->run->unnamed_since_ms = s->now->ms;
    drop_absent(s);
}

static void changed(struct step *s, const struct policy_event *event)
{
    struct run_view *v = &s->run->view;

    (void)event;
    if (s->value.ptr == NULL) {
        if (run_view_has_record(v))
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

static void run_looked(struct step *s, const struct policy_event *event)
{
    (void)event;
    step_put_beats(s);
}

static void put_beats(struct step *s)
{
    if (s->run->view.has_beats &&
        clock_elapsed_ms(s->run->beats_since_ms, s->now->ms) >= HEARTBEATS_MS)
        step_put_beats(s);
}

static void tick(struct step *s, const struct policy_event *event)
{
    (void)event;
    if (forget_if_left(s))
        return;
    rejoin_reject_overdue(s);
    worker_store_on_tick(s);
    if (s->run->unnamed_since_ms != 0)
        drop_absent(s);
    loss_drop_silent(s);
    loss_on_tick(s);
    long_look_on_tick(s);
    meeting_on_tick(s);
    pace_on_tick(s);
    numbers_on_tick(s);
    closing_on_tick(s);
    put_beats(s);
}

static void stood_still(struct step *s, const struct policy_event *event)
{
    presence_stood_still(s, event->still_ms);
    repair_shift_heartbeats(s, event->still_ms);
    s->run->missing_since_ms = 0; /* no node could be heard of */
    if (s->run->unnamed_since_ms != 0)
        s->run->unnamed_since_ms += event->still_ms;
}

static void forget(struct step *s, const struct policy_event *event)
{
    (void)event;
    forget_on_request(s);
}

static void (*const answers[])(struct step *, const struct policy_event *) = {
    [AGENT_CONNECTED] = connected,
    [AGENT_DISCONNECTED] = disconnected,
    [AGENT_AWAY] = away,
    [AGENT_GONE] = gone,
    [AGENT_BACK] = back,
    [AGENT_COMPARE_SET] = asked_to_compare,
    [AGENT_LOOKED] = looked,
    [AGENT_ASKED] = asked,
    [AGENT_GET_ROUND_KEY] = get_round_key,
    [AGENT_SET_ROUND_KEY] = set_round_key,
    [AGENT_ADD_ROUND_KEY] = add_round_key,
    [RUN_RESTORED] = restored,
    [RUN_RETURNED] = returned,
    [RUN_CHANGED] = changed,
    [RUN_LOOKED] = run_looked,
    [RUN_PROBED] = worker_store_on_probed,
    [RUN_PORT_OPENED] = worker_store_on_port_opened,
    [RUN_TICK] = tick,
    [RUN_STOOD_STILL] = stood_still,
    [RUN_FORGET] = forget,
};

_Static_assert(sizeof answers / sizeof answers[0] == RUN_FORGET + 1, "an event has no answer");

void policy_step(struct run *run, const struct policy_event *event, const struct policy_now *now,
                 struct policy_out *out)
{
    struct step s = {.run = run, .now = now, .out = out, .value = now->value, .room = now->room};

    answers[event->kind](&s, event);
    long_look_check(&s);
    meeting_check(&s);
    numbers_check(&s);
}
