/* Answers the compare-and-set of a run's state. See policy_internal.h.
 *
 * The intent of an agent (torch_intent.h) is done to the newest state, unless the agent based it on
 * another round, or on another place of its own node. Then the agent is shown the state anew, and
 * decides again. Since an agent is never shown the value itself (agent_view.c), it takes each
 * answer for the write of another agent, in which its own intent is done. */
#include "rdzv/rendezvous/policy_internal.h"

/* --- An intent, on the newest state. --- */

enum outcome {
    OUTCOME_DONE,
    OUTCOME_REFUSED,
    OUTCOME_LATER,   /* the request is held, until its turn comes: numbers.c, rejoin.c */
    OUTCOME_IGNORED, /* the agent must believe that it is done */
    OUTCOME_NO_ROOM,
    OUTCOME_ENDED, /* the agent learns that the run is closed: rejoin.c */
};

/* The node is known by the first write of its agent. */
static void note_node(struct step *s, struct agent *a, const struct torch_node *own)
{
    if (agent_has_node(a) && torch_node_compare(own, &a->node) == 0)
        return;
    run_remember_node(s->run, a, own);
    s->run->places_at_ms = 0;
    resume_hint_keep(s, a);
    steering_note_groups(s, false);
    if (a->origin == ORIGIN_UNNAMED) /* it has asked for the key before a start */
        agent_set_origin(a, ORIGIN_AGENT);
}

static const struct torch_node *place_now(const struct step *s, const struct intent *in)
{
    const struct torch_node *own = torch_state_find(&s->run->view.state, &in->own);

    return node_role(own) == NULL ? NULL : own;
}

/* A container that was started again may come before the connection of its predecessor has ended:
 * as torch's agent does at first, it takes that out of the run. Then it is shown the state anew. */
static bool take_out_predecessor(struct step *s, struct agent *a, const struct intent *in)
{
    struct torch_state *next =
        agent_has_node(a) || in->was != NULL || place_now(s, in) == NULL ? NULL : step_edit(s);

    if (next == NULL)
        return false;
    loss_take_out(next, torch_state_find(next, &in->own));
    if (!step_put_edited(s, 0))
        return false;
    round_written(s, a);
    return true;
}

/* The agent has decided by the same round, and its node is where it was. How many others there are
 * counts if it was shown their number: a number of 0 says that it need not know. */
static bool is_current(const struct step *s, const struct intent *in)
{
    const struct run_view *v = &s->run->view;

    if (in->from.round != v->state.round || in->from.complete != v->state.complete ||
        !intent_same_place(in->was, place_now(s, in)))
        return false;
    if (in->kind == INTENT_WAIT || in->kind == INTENT_SPARE)
        return in->shown == 0 || in->shown == v->participants;
    return in->kind != INTENT_COMPLETE ||
           (in->shown <= v->participants && steering_may_begin(s->run));
}

static bool change_own(const struct agent *a, const struct intent *in, struct torch_state *next)
{
    struct torch_node *node;

    if (in->kind == INTENT_LEAVE) {
        node = torch_state_find(next, &in->own);
        if (node != NULL)
            loss_take_out(next, node);
        return node != NULL;
    }
    if (!torch_state_insert(next, &in->own, &node))
        return false;
    node->participant = in->is->participant;
    node->waiting = in->is->waiting;
    node->redundant = in->is->redundant;
    node->rank = 0;
    node->has_heartbeat = true;
    node->heartbeat_us = agent_clock_to_ours(a, in->is->heartbeat_us);
    return true;
}

static bool change(const struct run *run, const struct agent *a, const struct intent *in,
                   struct torch_state *next)
{
    if (in->kind == INTENT_CLOSE)
        next->closed = true;
    else if (in->kind == INTENT_COMPLETE)
        round_decide(run, ROUND_CALL_OVER, next);
    else if (!change_own(a, in, next))
        return false;
    if (in->kind == INTENT_JOIN && in->to.has_deadline && !in->from.has_deadline) {
        next->has_deadline = true;
        next->deadline_us = agent_clock_to_ours(a, in->to.deadline_us);
    }
    if (in->kind == INTENT_JOIN && in->to.complete)
        round_decide(run, ROUND_HAS_MAX, next);
    return true;
}

/* The workers of a node that is kept out have failed: its agent has left the round, and asks for no
 * place. No node waits, so the others would train on, and their workers would hang. */
static void meet_without(struct step *s, const struct agent *a, const struct intent *in)
{
    const struct run_view *v = &s->run->view;

    if (in->kind == (v->state.has_redundancy ? INTENT_SPARE : INTENT_LEAVE) && v->waiting == 0 &&
        a->has_left == v->completions && steering_keeps_out(s->run, &in->own) &&
        !run_is_finishing(s->run, v->state.round))
        loss_make_meet(s, false, "one of them has left the round, and is kept out");
}

static enum outcome put(struct step *s, struct agent *a, const struct intent *in)
{
    uint32_t completion = s->run->view.completions;
    bool was_in = in->was != NULL && in->was->participant && s->run->view.state.complete;
    bool ends_or_begins = in->kind < INTENT_LEAVE
                              ? in->to.complete != in->from.complete
                              : in->kind != INTENT_LEAVE ||
                                    (s->run->view.state.complete && s->run->view.participants == 1);
    /* the first agent that joins brings the dialect of the state */
    struct torch_state *next = s->run->view.is_state ? step_edit_node(s, &in->own, !ends_or_begins)
                                                     : step_edit_copy(s, &in->to);

    if (next == NULL || !change(s->run, a, in, next))
        return OUTCOME_REFUSED;
    if (!step_put_late(s, in->wanted_len))
        return s->is_full ? OUTCOME_NO_ROOM : OUTCOME_REFUSED;
    if (in->kind == INTENT_WAIT && in->shown != 0) /* so MAX is more */
        admit_note_room(s->run, a, in->shown + 1);
    if (in->kind == INTENT_LEAVE)
        a->has_left = was_in ? completion : 0;
    if (in->kind == INTENT_LEAVE && was_in)
        pace_note_left(a, s->now->ms);
    if (in->kind == INTENT_LEAVE) /* torch leaves an open round, or the wait list, for this only */
        a->gave_up = !was_in && in->was != NULL && !in->was->redundant;
    else if (in->kind != INTENT_CLOSE && in->was == NULL)
        a->joins_since_ms = s->now->ms;
    round_written(s, a);
    meet_without(s, a, in);
    return OUTCOME_DONE;
}

/* A participant sends a heartbeat of a complete round only when it has read its rank there, also
 * where it reads no key for that (TORCH_ELASTIC_WORKER_IDENTICAL). */
static enum outcome beat(struct step *s, struct agent *a, const struct intent *in)
{
    const struct run_view *v = &s->run->view;
    const struct torch_node *node = place_now(s, in);
    int64_t us = agent_clock_to_ours(a, in->is->heartbeat_us);

    if (node == NULL || !node->has_heartbeat)
        return OUTCOME_REFUSED;
    if (node->participant) /* else it may still train, and sends heartbeats whatever it is shown */
        agent_note_wrote(a);
    if (us > node->heartbeat_us)
        step_note_beat(s, node, us);
    if (in->shown != 0 && node->redundant && in->was != NULL && in->was->redundant &&
        !agent_may_train(a)) {
        a->max_least = a->max_most = in->shown; /* else it would not stay a spare */
        size_note_max(s->run, in->shown);
    }
    if (node->participant && in->is->participant && in->from.complete &&
        in->from.round == v->state.round && a->has_seen == v->completions)
        a->has_ranks_of = v->completions;
    return OUTCOME_DONE;
}

static enum outcome join(struct step *s, struct agent *a, const struct intent *in)
{
    bool tells = in->to.complete || (in->to.has_deadline && !in->from.has_deadline);
    enum number_verdict verdict = numbers_judge(s, a, in->number, tells);
    enum outcome outcome;

    if (verdict != NUMBER_COUNTS)
        return verdict == NUMBER_LATER ? OUTCOME_LATER : OUTCOME_REFUSED;
    if (in->to.complete && !steering_may_complete(s, in))
        return OUTCOME_REFUSED;
    outcome = put(s, a, in);
    if (outcome != OUTCOME_DONE)
        return outcome;
    numbers_joined(s, a);
    size_begin_looks(s, a, in->to.has_deadline);
    return outcome;
}

/* The first agent of a run is kept out: puts the state without its node. A run without a state has
 * no view, so the agent would ask again at once, for ever. */
static void begin_empty(struct step *s, struct agent *a, const struct intent *in)
{
    struct torch_state *next = step_edit_copy(s, &in->to);
    struct torch_node *own = next == NULL ? NULL : torch_state_find(next, &in->own);

    if (own == NULL)
        return;
    loss_take_out(next, own);
    next->has_deadline = false;
    if (step_put_edited(s, in->wanted_len))
        round_written(s, a);
}

static bool may_go_on(struct step *s, struct agent *a, const struct intent *in)
{
    switch (steering_judge(s, a, in)) {
    case STEERING_IS_FREE:
        return is_current(s, in);
    case STEERING_ALLOWS:
        return in->from.round == s->run->view.state.round &&
               intent_same_place(in->was, place_now(s, in));
    default:
        if (!s->run->view.is_state)
            begin_empty(s, a, in);
        return false;
    }
}

static enum outcome apply(struct step *s, struct agent *a, const struct intent *in)
{
    if (rejoin_is_too_late(s, a, in->own.addr))
        return a->standing == STANDING_REJECTED ? OUTCOME_ENDED : OUTCOME_LATER;
    if (!s->run->view.is_state && in->from.count + in->shown != 0)
        return OUTCOME_REFUSED; /* it was shown a run that was forgotten since */
    if (in->kind == INTENT_CLOSE) {
        if (!s->run->view.state.closed && !closing_ask(s, a))
            return OUTCOME_IGNORED;
        return put(s, a, in);
    }
    if (take_out_predecessor(s, a, in)) {
        note_node(s, a, &in->own);
        if (steering_keeps_out(s->run, &in->own)) /* else it waits, which the others see */
            loss_make_meet(s, false, "one of them was started again, and is kept out");
        return OUTCOME_REFUSED;
    }
    note_node(s, a, &in->own);
    if (in->kind == INTENT_HEARTBEAT)
        return beat(s, a, in);
    if (in->to.complete && !in->from.complete)
        loss_drop_silent(s); /* all nodes of the new round must live now */
    agent_note_wrote(a);     /* the agent trains no more, and may see that its node is in no list */
    if (s->run->view.state.closed && in->kind != INTENT_LEAVE)
        return OUTCOME_REFUSED;
    if (!may_go_on(s, a, in))
        return OUTCOME_REFUSED;
    return in->kind == INTENT_JOIN ? join(s, a, in) : put(s, a, in);
}

/* What the agent wants, closed. */
static void answer_ended(struct step *s, struct agent *a, const struct intent *in)
{
    struct torch_state *ended = step_edit_copy(s, &in->to);
    uint8_t *bytes;
    size_t len;

    if (ended != NULL)
        ended->closed = true;
    if (ended != NULL && torch_state_write(ended, &bytes, &len) && step_own_text(s, bytes))
        step_agent(s, POLICY_ANSWER_VALUE, a)->value = (struct slice){bytes, len};
    else
        step_agent(s, POLICY_ANSWER_CURRENT, a);
}

static void answer_intent(struct step *s, const struct policy_event *event, const struct intent *in)
{
    struct agent *a = event->agent;

    switch (apply(s, a, in)) {
    case OUTCOME_DONE:
        s->out->counters.writes_merged++;
        if (!long_poll_should_hold_answer(s, a) && s->run->view.late != 0)
            agent_hold(s, a, HELD_LATE); /* until the text is put */
        if (!agent_is_held(a))
            agent_view_answer(s, a);
        break;
    case OUTCOME_REFUSED:
        agent_view_answer(s, a);
        break;
    case OUTCOME_LATER:
        break;
    case OUTCOME_ENDED:
        answer_ended(s, a, in);
        break;
    case OUTCOME_NO_ROOM:
        step_agent(s, POLICY_NO_ROOM, a);
        break;
    case OUTCOME_IGNORED:
        step_agent(s, POLICY_ANSWER_VALUE, a)->value = event->desired;
        explain_close(s, closing_judge(s, a) == CLOSE_WAITS ? NOTE_CLOSE_WAITS : NOTE_CLOSE_IGNORED,
                      a);
        break;
    }
}

/* --- A literal compare-and-set. --- */

static void note_written(struct step *s, struct agent *a)
{
    const struct run_view *v = &s->run->view;
    const struct torch_node *own = v->is_state ? intent_writer(&v->before, &v->state) : NULL;

    if (own != NULL && node_role(run_node_of(s->run, a)) == NULL) {
        agent_clock_learn(s, a, own->heartbeat_us);
        note_node(s, a, own);
    }
    round_written(s, a);
}

/* As torch's store does it:
 *
 *   key       expected value   the answer
 *   absent    not empty        what was expected: torch wants it so. An agent of a run that was
 *                              forgotten since would ask again for ever: no node has joined.
 *   absent    empty            what was wanted, which is put
 *   there     the same         the same
 *   there     another          what there is: it is refused
 *   no room                    none: the connection ends
 */
static void put_literally(struct step *s, const struct policy_event *event)
{
    struct agent *a = event->agent;
    bool absent = s->value.ptr == NULL, expects_nothing = event->expected.len == 0;
    bool matches = absent ? expects_nothing : slice_equal(s->value, event->expected);

    if (absent && !matches && agent_is_introduced(a) &&
        step_put_value(s, slice_str(TORCH_RUN_SENTINEL))) {
        step_agent(s, POLICY_ANSWER_CURRENT, a);
    } else if (absent && !matches) {
        step_agent(s, POLICY_ANSWER_VALUE, a)->value = event->expected;
    } else if (!matches && expects_nothing) { /* torch's agents ignore this answer */
        step_agent(s, POLICY_ANSWER_CURRENT, a);
    } else if (!matches) {
        agent_view_answer(s, a);
    } else if (!step_put_value(s, event->desired)) {
        step_agent(s, POLICY_NO_ROOM, a);
    } else {
        note_written(s, a);
        numbers_drop(s->run, a);
        if (expects_nothing || !agent_is_introduced(a))
            step_agent(s, POLICY_ANSWER_CURRENT, a);
        else
            agent_view_answer(s, a);
    }
}

/* The value is a state, or torch's text for none. */
static bool has_intents(const struct step *s)
{
    const struct run_view *v = &s->run->view;

    return !v->unread &&
           (v->is_state || (s->value.ptr != NULL && slice_is(s->value, TORCH_RUN_SENTINEL)));
}

/* Whether the agent may close the run, and the content of a round that it completes, are judged as
 * for any other agent. What else an agent writes whose node is not known, a tool may write, too. */
static void read_intent(const struct step *s, const struct agent *a,
                        const struct policy_event *event, struct intent *in)
{
    if (a->origin == ORIGIN_TOOL || !has_intents(s))
        return;
    intent_read(s->run->front, a->view.others, agent_has_node(a) ? &a->node : NULL, event->expected,
                event->desired, in);
    if (a->origin != ORIGIN_UNNAMED || in->kind == INTENT_CLOSE ||
        (in->to.complete && !in->from.complete))
        return;
    intent_free(in);
    *in = (struct intent){0};
}

void compare_set(struct step *s, const struct policy_event *event, bool is_done)
{
    struct agent *a = event->agent;
    struct intent in = {0};

    /* With one that expects nothing every agent of every release introduces itself. */
    if (event->expected.len == 0 && !agent_is_introduced(a))
        agent_set_origin(a, ORIGIN_AGENT);
    if (rejoin_should_hold(s, a) || !repair_restore(s, a))
        return;
    if (is_done && s->value.ptr != NULL) { /* else the run is gone: as any write to it */
        agent_view_answer(s, a);
        return;
    }
    a->view.until_ms = 0;
    read_intent(s, a, event, &in);
    /* who completes a round sends no new heartbeat */
    if (in.is != NULL && in.is->has_heartbeat && in.kind != INTENT_COMPLETE)
        agent_clock_learn(s, a, in.is->heartbeat_us); /* also of one that takes itself for dead */
    /* An agent that takes itself for dead does not leave the round before it asks for a place. By
     * the answer it is a participant, so it goes on with the rank that the answer shows: torch 1.13
     * makes an IndexError of a rank that is not below the number of nodes. */
    if (in.kind != INTENT_HEARTBEAT && in.is != NULL)
        a->has_ranks_of = 0;
    if (last_call_is_over(s, 0)) /* an agent must act */
        size_end_looks(s, a);
    if (size_take_look(s, a, &in)) {
        agent_view_answer(s, a);
    } else if (in.kind != INTENT_UNKNOWN) {
        answer_intent(s, event, &in);
    } else {
        step_catch_up(s);
        put_literally(s, event);
    }
    intent_free(&in);
}
