/* Which agent may close the run. An agent of torch closes it whenever it ends but by a signal
 * (launcher/api.py, launch_agent(); 2.3 to 2.7: then, too), whether its workers are done, have
 * failed for the last time, or it could not even start them; and then no agent joins any more. So a
 * close counts from an agent whose workers run in the newest round: a participant of that round,
 * complete, that has got their ranks. All others may leave, and the run goes on for those who are
 * in it.
 *
 * Ranks: the agents of a round tell each other their roles and read the ranks that follow from them
 * (api.py, _assign_worker_ranks()), unless TORCH_ELASTIC_WORKER_IDENTICAL is 1: then no agent of
 * the run does, and a participant counts.
 *
 * After a start it is not known which node an agent is that its relay brings back, until it sends a
 * heartbeat; one whose workers ended meanwhile asks to close the run, leaves, and sends none. Nor
 * is it known who goes on, until all are back. What cannot be judged yet is kept, and judged when
 * all who are there have said who they are: the closers are then among the nodes that no agent has
 * claimed. */
#include "rdzv/rendezvous/explain.h"
#include "rdzv/rendezvous/parts.h"

#define ROLE_KEYS  "torchelastic/role_info" /* of 2.3 and before: role_info0, role_info0.FIN */
#define RANKS_KEYS "torchelastic/assigned_ranks/"

static void note_workers(struct agent *a, int64_t round)
{
    a->has_workers = true;
    a->workers_round = round;
}

static bool ends_with(struct slice text, struct slice end)
{
    return text.len >= end.len && slice_equal(slice_from(text, text.len - end.len), end);
}

void closing_note_set(struct step *s, struct agent *a, int64_t round, struct slice name)
{
    if (!slice_starts_with(name, slice_str(ROLE_KEYS)))
        return;
    s->run->shares_roles = true;
    if (ends_with(name, slice_str(".FIN"))) /* it has read the roles of all */
        note_workers(a, round);
}

void closing_note_read(struct agent *a, int64_t round, struct slice name)
{
    if (slice_starts_with(name, slice_str(RANKS_KEYS)))
        note_workers(a, round);
}

/* Another agent is in its completed round, and does not want to close the run, too. */
static bool others_are_in(const struct run *run, const struct agent *a)
{
    const struct agent *b;

    TAILQ_FOREACH(b, &run->agents, entry) {
        if (b != a && b->nodes != 0 && !b->closes)
            return true;
    }
    return false;
}

/* The same, or it has joined, or waits. */
static bool goes_on(const struct run *run, const struct agent *b)
{
    const struct torch_node *node = run_node_of(run, b);

    return !b->closes && (b->nodes != 0 || (node != NULL && (node->participant || node->waiting ||
                                                             node->redundant)));
}

static bool others_go_on(const struct run *run, const struct agent *a)
{
    const struct agent *b;

    TAILQ_FOREACH(b, &run->agents, entry) {
        if (b != a && goes_on(run, b))
            return true;
    }
    return false;
}

/* Of another agent nothing is known since the start, or it may still come back. */
static bool others_may_go_on(const struct run *run, const struct agent *a)
{
    const struct agent *b;

    if (run->awaits_agents)
        return true;
    TAILQ_FOREACH(b, &run->agents, entry) {
        if (b != a && !b->closes && agent_is_forgotten(b))
            return true;
    }
    return false;
}

static bool runs_workers(const struct run *run, const struct agent *a)
{
    const struct torch_node *node = run_node_of(run, a);

    return run->view.state.complete && node != NULL && node->participant &&
           (!run->shares_roles || (a->has_workers && a->workers_round == run->view.state.round));
}

/* The agent has not said since the start which node it is, and no round was completed since: each
 * agent of such a round has said so. */
static bool may_be_in_newest(const struct run *run, const struct agent *a)
{
    return agent_is_forgotten(a) && run->completed_ms == 0;
}

enum close_verdict closing_judge(const struct step *s, const struct agent *a)
{
    const struct run *run = s->run;
    bool go_on = others_go_on(run, a), may_go_on = others_may_go_on(run, a);

    if (run->settings->close_needs_all && others_are_in(run, a))
        return CLOSE_IGNORED;
    if (!run->settings->close_from_members || runs_workers(run, a) || (!go_on && !may_go_on))
        return CLOSE_COUNTS;
    return may_be_in_newest(run, a) || !go_on ? CLOSE_WAITS : CLOSE_IGNORED;
}

/* --- What waits. --- */

void closing_keep(struct step *s, const struct agent *a)
{
    struct run *run = s->run;

    run->close_waits = true;
    run->unnamed_closers += agent_is_forgotten(a);
    run->has_absent = run->has_absent || !run->awaits_agents; /* a tick judges */
}

void closing_forget(struct run *run)
{
    run->close_waits = false;
    run->unnamed_closers = 0;
}

/* That node, which was there at the start, may be of one that has asked: no agent says that it is
 * it, but for one that has begun since, in the place of its predecessor, and may be gone, too. */
static bool is_unclaimed(const struct run *run, const struct torch_node *node)
{
    enum node_claim claim = run_claim_of(run, node);

    if (claim != CLAIM_NONE)
        return claim == CLAIM_SUCCEEDED;
    return run_agent_of(run, node) == NULL &&
           explain_role(torch_state_find(&run->view.state, node)) != NULL;
}

/* More have asked than there are such nodes whose close would not count. No round has been
 * completed since they did. */
static bool was_participant(const struct run *run)
{
    const struct torch_state *then = &run->view.last_completed;
    size_t participants = 0, others = 0;

    for (size_t i = 0; run->view.has_completed && i < then->count; i++) {
        const struct torch_node *node = &then->nodes[i];

        if (explain_role(node) == NULL || loss_is_mark(node) || !is_unclaimed(run, node))
            continue;
        participants += node->participant;
        others += !node->participant;
    }
    return participants > 0 && run->unnamed_closers > others;
}

static bool counts_now(const struct run *run)
{
    if (!others_go_on(run, NULL))
        return true;
    return !(run->settings->close_needs_all && others_are_in(run, NULL)) && was_participant(run);
}

bool closing_settle(struct step *s)
{
    bool waits = s->run->close_waits && step_is_open(s), counts = waits && counts_now(s->run);
    struct torch_state next;

    closing_forget(s->run);
    if (!waits)
        return false;
    if (!counts || !step_read_state(s, &next)) {
        explain_close_judged(s, false);
        return false;
    }
    next.closed = true;
    counts = step_put_state(s, &next, 0);
    torch_state_free(&next);
    if (!counts)
        return false;
    explain_close_judged(s, true);
    s->out->counters.runs_closed++;
    cas_queue_release(s);
    loss_clear_mark(s);
    return true;
}
