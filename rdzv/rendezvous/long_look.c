/* Holds the look of an agent that waits for the next round, or has joined one that is not complete,
 * and the answer to the write by which it waits.
 *
 * Such an agent of torch looks once a second, so it finds out that its round is complete up to a
 * second later, and all others wait for it: no worker can begin before all do. Nothing that it
 * could see before that makes it act, but that the run is closed, or that it is to join a round
 * that has begun. So its look is held until then, as a slow network might hold it; but for no more
 * than LONG_MS and the time to the next tick, in which it cannot be told to end. It sends no
 * heartbeat meanwhile, and needs none: see presence.c.
 *
 * It is not held when the agent must act by itself, because a last call is about to be over. */
#include "rdzv/rendezvous/parts.h"

#define LONG_MS 2000
/* The agents complete the round themselves when the last call is over: by then all look as often as
 * ever. */
#define CALL_US INT64_C(3000000)

static bool is_call_over(const struct step *s, int64_t in_us)
{
    const struct torch_state *state = &s->run->view.state;
    int64_t left_us;

    return state->has_deadline &&
           (__builtin_sub_overflow(state->deadline_us, s->now->wall_ns / 1000, &left_us) ||
            left_us <= in_us);
}

/* As those who look have seen it. */
static void note_round(struct run *run)
{
    run->looking_in = run->view.state.round;
    run->looking_complete = run->view.state.complete;
    run->looking_over = false;
}

bool long_look_should_hold(struct step *s, struct agent *a)
{
    if (a->look == LOOK_LONG)
        return true;
    if (is_call_over(s, CALL_US) || !agent_view_may_wait(s, a))
        return false;
    if (s->run->looking == 0)
        note_round(s->run);
    a->look = LOOK_LONG;
    a->looks_since_ms = s->now->ms;
    s->run->looking++;
    return true;
}

bool long_look_hold_answer(struct step *s, struct agent *a)
{
    const struct torch_node *own = run_node_of(s->run, a);

    long_look_check(s); /* before it is one of them: the write may have begun a round */
    if (own == NULL || !own->waiting || !long_look_should_hold(s, a))
        return false;
    a->owes_answer = true;
    step_hold(s, a);
    return true;
}

bool long_look_answer(struct step *s, struct agent *a)
{
    if (!a->owes_answer)
        return false;
    if (a->look == LOOK_LONG) { /* it is not time yet */
        step_hold(s, a);
        return true;
    }
    a->owes_answer = false;
    a->look = LOOK_FREE;
    if (s->value.ptr == NULL)
        return false; /* the run is gone: as of any write to it */
    agent_view_answer(s, a);
    return true;
}

void long_look_leave(struct run *run, struct agent *a)
{
    run->looking -= a->look == LOOK_LONG;
    if (a->look == LOOK_LONG)
        a->look = LOOK_FREE;
    a->owes_answer = false;
}

/* Without memory, the next tick tries again. */
static void answer(struct step *s, struct agent *a)
{
    bool owes_answer = a->owes_answer;

    if (!step_resume(s, a))
        return;
    long_look_leave(s->run, a);
    a->look = LOOK_RELEASED;
    a->owes_answer = owes_answer;
}

static void answer_all(struct step *s)
{
    struct agent *a;

    TAILQ_FOREACH(a, &s->run->agents, entry) {
        if (a->look == LOOK_LONG)
            answer(s, a);
    }
}

/* The last call is over: one of those who have joined completes the round. The others would learn
 * nothing, and sleep for a second. */
static void answer_one(struct step *s)
{
    struct agent *a;

    TAILQ_FOREACH(a, &s->run->agents, entry) {
        if (a->look != LOOK_LONG)
            continue;
        answer(s, a);
        return;
    }
}

/* The next round has begun: mostly the agent that has begun it joins a few milliseconds later, and
 * those who wait are let in. Who joined by itself now would sleep for a second then. */
static bool stays_held(struct step *s)
{
    const struct torch_state *state = &s->run->view.state;

    if (!step_is_open(s) || state->complete || !last_call_may_let_in(s->run))
        return false;
    note_round(s->run);
    return true;
}

void long_look_check(struct step *s)
{
    struct run *run = s->run;
    const struct torch_state *state = &run->view.state;

    if (run->looking == 0)
        return;
    if (!step_is_open(s) || state->round != run->looking_in ||
        state->complete != run->looking_complete) {
        if (!stays_held(s))
            answer_all(s);
    } else if (!run->looking_over && is_call_over(s, 0)) {
        run->looking_over = true;
        answer_one(s);
    }
}

/* It is to join, since it was not let in. */
static bool is_to_join(const struct run *run, const struct agent *a)
{
    const struct torch_node *node = run_node_of(run, a);

    return !run->view.state.complete && (node == NULL || !node->participant);
}

void long_look_on_tick(struct step *s)
{
    struct run *run = s->run;
    struct agent *a;

    if (run->looking == 0)
        return;
    if ((is_call_over(s, CALL_US) && !is_call_over(s, 0))) {
        answer_all(s);
        return;
    }
    if (is_call_over(s, 0))
        answer_one(s);
    TAILQ_FOREACH(a, &run->agents, entry) {
        if (a->look == LOOK_LONG &&
            (is_to_join(run, a) || clock_elapsed_ms(a->looks_since_ms, s->now->ms) >= LONG_MS))
            answer(s, a);
    }
}
