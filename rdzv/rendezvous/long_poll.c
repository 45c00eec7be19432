/* Holds the poll of an agent that waits for the next round or has joined an open round, and the
 * answer to the write that puts the node on the wait list. POLICY.md has the reason, and says when
 * no poll is held.
 *
 * Meanwhile the agent would act on two changes only: the run is closed, or a round has begun that
 * the agent must join. It sends no heartbeat, and needs none: see presence.c. */
#include "rdzv/rendezvous/policy_internal.h"

#define LONG_MS 2000
/* So long before the end of the last call, all agents poll as ever: they complete the round. */
#define CALL_MS 3000

/* Notes the round as the agents with held polls have seen it. */
static void note_round(struct run *run)
{
    run->polling.round = run->view.state.round;
    run->polling.phase = run->view.state.complete ? POLLING_COMPLETE : POLLING_OPEN;
}

static bool is_any_held(const struct run *run)
{
    return run->held[HELD_LONG] > 0 || run->held[HELD_LONG_ANSWER] > 0;
}

bool long_poll_should_hold(struct step *s, struct agent *a, enum agent_held why)
{
    if (last_call_is_over(s, CALL_MS) || !agent_view_may_wait(s, a))
        return false;
    if (!is_any_held(s->run))
        note_round(s->run);
    agent_hold(s, a, why);
    return true;
}

bool long_poll_should_hold_answer(struct step *s, struct agent *a)
{
    const struct torch_node *own = run_node_of(s->run, a);

    long_poll_check(s); /* before it is one of them: the write may have begun a round */
    return own != NULL && own->waiting && long_poll_should_hold(s, a, HELD_LONG_ANSWER);
}

static void release_all(struct step *s)
{
    agent_release_all(s, HELD_LONG, SIZE_MAX);
    agent_release_all(s, HELD_LONG_ANSWER, SIZE_MAX);
}

/* The last call is over: one agent completes the round. The others would only sleep a second. */
static void release_one(struct step *s)
{
    agent_release_all(s, s->run->held[HELD_LONG] != 0 ? HELD_LONG : HELD_LONG_ANSWER, 1);
}

/* The next round has begun. Its first agent mostly joins milliseconds later, and rdzvd admits the
 * waiting nodes. If an agent joined by itself now, it would then sleep for a second. */
static bool stays_held(struct step *s)
{
    if (!step_is_open(s) || s->run->view.state.complete || !last_call_may_admit(s->run))
        return false;
    note_round(s->run);
    return true;
}

void long_poll_check(struct step *s)
{
    struct run *run = s->run;
    const struct torch_state *state = &run->view.state;

    if (!is_any_held(run))
        return;
    if (!step_is_open(s) || state->round != run->polling.round ||
        state->complete != (run->polling.phase == POLLING_COMPLETE)) {
        if (!stays_held(s))
            release_all(s);
    } else if (run->polling.phase == POLLING_OPEN && last_call_is_over(s, 0)) {
        run->polling.phase = POLLING_CALL_OVER;
        release_one(s);
    }
}

void long_poll_on_tick(struct step *s)
{
    struct run *run = s->run;

    if (!is_any_held(run))
        return;
    if ((last_call_is_over(s, CALL_MS) && !last_call_is_over(s, 0))) {
        release_all(s);
        return;
    }
    if (last_call_is_over(s, 0))
        release_one(s);
    AGENTS_FOREACH(a, &run->agents) {
        if ((a->held == HELD_LONG || a->held == HELD_LONG_ANSWER) &&
            ((!run->view.state.complete && !run_takes_part(run, a)) || /* it must join itself */
             clock_elapsed_ms(a->held_since_ms, s->now->ms) >= LONG_MS))
            agent_release(s, a);
    }
}
