/* The last call: torch's agents wait for more nodes, by default for 30 s, once MIN have joined a
 * round, however many there are to come. Here it is known who is connected, and how many the last
 * round had. When all connected agents have joined, rdzvd sets the deadline to the past: an agent
 * then completes the round at its next poll, and keeps MIN and MAX by itself. When some nodes have
 * joined, and all other nodes wait for this round, admit.c completes the round. */
#include "rdzv/rendezvous/policy_internal.h"

/* An agent that waits for the next round polls once a second, and joins it when it has begun. */
#define JOINS_US INT64_C(2000000)

/* How many nodes a round is to have; 0: unknown. */
static uint64_t wanted(const struct run *run)
{
    if (run->view.has_completed)
        return steering_wanted(run);
    return run->orders.until != 0 ? run->orders.until : run->settings->expected_nodes;
}

bool last_call_may_admit(const struct run *run)
{
    uint64_t nodes = wanted(run), agents = steering_agents(run);

    return run->settings->end_last_call && nodes != 0 && run->enough != 0 && agents >= nodes &&
           agents >= run->enough && agents <= run->room_for;
}

static bool is_in_last_call(const struct step *s)
{
    const struct torch_state *state = &s->run->view.state;

    return step_is_open(s) && !state->complete && state->has_deadline;
}

/* The deadline is by the wall clock; rdzvd's own clock for it stands while no agent can write. */
void last_call_note(struct step *s)
{
    const struct torch_state *state = &s->run->view.state;
    struct last_call *call = &s->run->last_call;
    int64_t left_us;

    if (!state->has_deadline || call->deadline_us == state->deadline_us)
        return;
    call->deadline_us = state->deadline_us;
    call->ends_ms = s->now->lived_ms;
    if (!__builtin_sub_overflow(state->deadline_us, s->now->wall_ns / 1000, &left_us) &&
        left_us > 0)
        call->ends_ms += (uint64_t)left_us / 1000;
}

bool last_call_is_over(struct step *s, uint64_t in_ms)
{
    last_call_note(s);
    return s->run->view.state.has_deadline && s->run->last_call.ends_ms <= s->now->lived_ms + in_ms;
}

static bool put_deadline(struct step *s, int64_t deadline_us)
{
    if (step_edit(s) == NULL)
        return false;
    s->edited.deadline_us = deadline_us;
    return step_put_edited(s, 0);
}

static void end_now(struct step *s, uint64_t wanted)
{
    int64_t now_us = s->now->wall_ns / 1000;
    size_t participants = s->run->view.participants;

    if (last_call_is_over(s, 0) || participants < wanted ||
        steering_agents(s->run) > participants || steering_is_any_outside(s->run, false) ||
        !put_deadline(s, now_us)) /* an agent is about to join */
        return;
    explain_note(s, NOTE_LAST_CALL_ENDED, participants,
                 "all nodes that are connected have joined, as many as the round is to have");
}

bool last_call_end(struct step *s)
{
    uint64_t nodes = wanted(s->run);

    if (!s->run->settings->end_last_call || !step_is_open(s) || s->run->view.state.complete ||
        nodes == 0)
        return false;
    if (admit_waiting(s, nodes))
        return !s->run->view.unread;
    if (is_in_last_call(s))
        end_now(s, nodes);
    return false;
}

static int64_t latest_us(const struct step *s)
{
    uint64_t wait_ms = s->run->settings->regroup_wait_ms;

    if (wait_ms == 0 || wait_ms > INT64_MAX / 2000 || !s->run->view.has_completed)
        return INT64_MAX;
    return s->now->wall_ns / 1000 + (int64_t)wait_ms * 1000;
}

static bool does_any_wait(const struct run *run)
{
    return ANY(NODES_FOREACH(node, &run->view.state),
               (node->waiting || node->redundant) && !steering_keeps_out(run, node));
}

void last_call_begun(struct step *s)
{
    const struct torch_state *before = &s->run->view.before;
    int64_t set_us = s->run->view.state.deadline_us, deadline_us = set_us, most_us, least_us;

    if (!is_in_last_call(s) || (before->has_deadline && before->deadline_us == set_us))
        return;
    s->run->enough = s->run->view.participants; /* the MIN-th node sets the deadline */
    most_us = latest_us(s);
    /* If a round completes before the waiting nodes have joined, its participants see them wait,
     * end the round at once, and so on in the next round. */
    least_us = does_any_wait(s->run) ? s->now->wall_ns / 1000 + JOINS_US : INT64_MIN;
    if (deadline_us > most_us)
        deadline_us = most_us;
    if (deadline_us < least_us)
        deadline_us = least_us;
    if (deadline_us != set_us)
        put_deadline(s, deadline_us);
}

void last_call_put_off(struct step *s, uint64_t away_ms)
{
    int64_t away_us = away_ms < INT64_MAX / 1000 ? (int64_t)away_ms * 1000 : INT64_MAX, deadline_us;

    if (is_in_last_call(s) &&
        !__builtin_add_overflow(s->run->view.state.deadline_us, away_us, &deadline_us))
        put_deadline(s, deadline_us);
}
