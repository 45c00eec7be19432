/* Holds the look of an agent that waits for the next round, or has joined one that is not complete.
 *
 * Such an agent of torch looks once a second, so it finds out that its round is complete up to a
 * second later, and all others wait for it: no worker can begin before all do. Nothing that it
 * could see before that makes it act, but that the run is closed, or that it is to join a round
 * that has begun. So its look is held until then, as a slow network might hold it; but for no more
 * than LONG_MS and the time to the next tick, in which it cannot be told to end. It sends no
 * heartbeat meanwhile, and needs none: see presence.c.
 *
 * It is not held when it is to act by itself: a last call is about to be over, or a participant is
 * silent. */
#include "rdzv/rendezvous/parts.h"

#define LONG_MS 2000
/* The agents complete the round themselves when the last call is over: by then all look as often as
 * ever. */
#define CALL_US INT64_C(3000000)

static bool is_call_over_soon(const struct step *s)
{
    const struct torch_state *state = &s->run->view.state;
    int64_t left_us;

    return state->has_deadline &&
           (__builtin_sub_overflow(state->deadline_us, s->now->wall_ns / 1000, &left_us) ||
            left_us < CALL_US);
}

bool long_look_should_hold(struct step *s, struct agent *a)
{
    const struct policy_settings *settings = s->run->settings;
    bool is_again = a->has_looked_long;

    a->has_looked_long = false;
    if (a->looks_long)
        return true;
    if (is_again || !settings->long_looks || !settings->keep_connected ||
        s->run->slot.holder == a || is_call_over_soon(s) || !shown_may_wait(s, a))
        return false;
    if (s->run->looking == 0) {
        s->run->looking_in = s->run->view.state.round;
        s->run->looking_complete = s->run->view.state.complete;
    }
    a->looks_long = true;
    a->looks_since_ms = s->now->ms;
    s->run->looking++;
    return true;
}

void long_look_leave(struct run *run, struct agent *a)
{
    run->looking -= a->looks_long;
    a->looks_long = a->has_looked_long = false;
}

static void answer(struct step *s, struct agent *a)
{
    long_look_leave(s->run, a);
    a->has_looked_long = true;
    step_agent(s, POLICY_RESUME, a);
}

static void answer_all(struct step *s)
{
    struct agent *a;

    TAILQ_FOREACH(a, &s->run->agents, entry) {
        if (a->looks_long)
            answer(s, a);
    }
}

/* The next round has begun: mostly the agent that has begun it joins a few milliseconds later, and
 * those who wait are let in. Who joined by itself now would sleep for a second then. */
static bool stays_held(struct step *s)
{
    const struct torch_state *state = &s->run->view.state;

    if (!step_is_open(s) || state->complete || !last_call_may_let_in(s->run))
        return false;
    s->run->looking_in = state->round;
    s->run->looking_complete = false;
    return true;
}

void long_look_check(struct step *s)
{
    const struct run *run = s->run;
    const struct torch_state *state = &run->view.state;

    if (run->looking != 0 &&
        (!step_is_open(s) || state->round != run->looking_in ||
         state->complete != run->looking_complete) &&
        !stays_held(s))
        answer_all(s);
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
    if (is_call_over_soon(s) || presence_is_any_silent(s)) {
        answer_all(s);
        return;
    }
    TAILQ_FOREACH(a, &run->agents, entry) {
        if (a->looks_long &&
            (is_to_join(run, a) || clock_elapsed_ms(a->looks_since_ms, s->now->ms) >= LONG_MS))
            answer(s, a);
    }
}
