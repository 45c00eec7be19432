/* Which agent may close the run: POLICY.md has the conditions.
 *
 * A run that is closed has ended well, or has failed: README.md has the difference. If it has
 * failed, the mark of loss.c makes the others read the closed run: they end at once, and the run
 * begins anew as soon as the last agent has left it. Torch 2.3 and before goes to the exit barrier
 * also after a failure, so there a run never fails to rdzvd. Upstream: SimpleElasticAgent:
 * _assign_worker_ranks(), _invoke_run() and _exit_barrier() (agent/server/api.py). */
#include "rdzv/rendezvous/policy_internal.h"

static void note_role(struct step *s, const struct policy_event *event)
{
    s->run->shares_roles = true;
    if (event->exists && event->round == s->run->view.state.round)
        loss_make_meet(s, false, "the agent of one of them has started its workers again alone");
    if (slice_ends_with(event->round_key, ".FIN")) /* it has read the roles of all */
        event->agent->workers_round = event->round;
}

/* An agent other than `but` is in a completed round, and has not asked to close the run. */
static bool is_any_in(const struct run *run, const struct agent *but)
{
    return ANY(AGENTS_FOREACH(a, &run->agents), a != but && a->nodes != 0 && !a->closes);
}

/* The same; or has joined, or waits. */
static bool does_any_go_on(const struct run *run, const struct agent *but)
{
    return ANY(AGENTS_FOREACH(a, &run->agents),
               a != but && !a->closes && (a->nodes != 0 || node_role(run_node_of(run, a)) != NULL));
}

static bool runs_workers(const struct run *run, const struct agent *a)
{
    return run->view.state.complete && run_takes_part(run, a) && !run_lacks_ranks(run, a);
}

static bool may_close(const struct run *run, const struct agent *a)
{
    return !run->settings->close_from_members || runs_workers(run, a);
}

enum close_verdict closing_judge(const struct step *s, const struct agent *a)
{
    const struct run *run = s->run;
    bool go_on = does_any_go_on(run, a);
    bool may_go_on = run->start != START_OVER; /* an agent may be back, or not be known yet */

    if (run->settings->close_needs_all && is_any_in(run, a))
        return CLOSE_IGNORED;
    if (run->settings->close_needs_all && may_go_on)
        return CLOSE_WAITS;
    if (may_close(run, a) || (!go_on && !may_go_on))
        return CLOSE_COUNTS;
    return go_on ? CLOSE_IGNORED : CLOSE_WAITS;
}

/* --- How the run ends. --- */

static bool has_finished(const struct run *run, const struct agent *a)
{
    return a->finished_round == run->view.state.round;
}

void closing_recall_finished(struct run *run, struct agent *a, int64_t round)
{
    bool is_new = a->finished_round != round;

    a->finished_round = round;
    if (run->finishing.round < round)
        run->finishing = (struct finishing){.round = round};
    run->finishing.count += is_new && round == run->finishing.round;
}

/* Torch's agents write no key of a round that has not begun: if it counted, each agent that
 * finishes later would seem to have finished an older round, and would wait for nobody. */
static void note_finished(struct step *s, struct agent *a, int64_t round)
{
    if (round > s->run->view.state.round)
        return;
    closing_recall_finished(s->run, a, round);
    resume_hint_keep(s, a);
    if (round < s->run->finishing.round) /* other nodes have finished a later round */
        placeholder_keys_put_exit(s, round);
}

void closing_note_key(struct step *s, const struct policy_event *event)
{
    struct slice name = event->round_key;

    if (event->kind == AGENT_GET_ROUND_KEY) {
        if (slice_starts_with(name, slice_str(TORCH_RANKS_KEYS)))
            event->agent->workers_round = event->round;
        return;
    }
    if (event->kind == AGENT_SET_ROUND_KEY && slice_starts_with(name, slice_str(TORCH_ROLE_KEYS)))
        note_role(s, event);
    if (slice_starts_with(name, slice_str(TORCH_EXIT_KEYS)))
        note_finished(s, event->agent, event->round);
}

/* A node without an agent is lost: an open run has taken it out if it may, a closed one has not. */
static bool may_still_finish(const struct run *run, const struct torch_node *then)
{
    const struct agent *a = run_agent_of(run, then);
    const struct torch_node *now = torch_state_find(&run->view.state, then);

    if (!then->participant || now == NULL || !now->participant)
        return false;
    return a == NULL ? !run->view.state.closed || !run->settings->drop_disconnected
                     : !has_finished(run, a);
}

/* The other agents meet, or have met, without the finished ones. */
static bool is_round_over(const struct run *run)
{
    return run->view.state.round > run->finishing.round ||
           run->view.last_completed.round > run->finishing.round;
}

static bool are_others_lost(const struct run *run)
{
    const struct torch_state *then = &run->view.last_completed;

    if (then->round != run->finishing.round || run->start != START_OVER)
        return false;
    return !ANY(NODES_FOREACH(node, then), may_still_finish(run, node));
}

/* If all have finished, the last one has written the key. */
static void note_released(struct step *s)
{
    const struct run *run = s->run;
    size_t nodes = run->view.completed_participants;
    size_t lost =
        is_round_over(run) || nodes < run->finishing.count ? 0 : nodes - run->finishing.count;

    if (lost == 0 && !is_round_over(run))
        return;
    explain_note(s, NOTE_EXIT_BARRIER_ENDED, lost,
                 lost == 0 ? "the other nodes have met again without those that have ended well"
                           : "the other nodes are lost, so those that have ended well wait no "
                             "longer")
        ->round = run->finishing.round;
}

void closing_on_tick(struct step *s)
{
    struct run *run = s->run;

    if (run->finishing.round < 0 || run->finishing.released || run->agent_count == 0 ||
        !run->view.is_state || !run->view.has_completed ||
        !(is_round_over(run) || are_others_lost(run)))
        return;
    placeholder_keys_put_exit(s, run->finishing.round);
    run->finishing.released = true;
    note_released(s);
}

/* The node was in the round that others have finished, and its agent has left the round to start
 * its workers again. */
static bool has_given_up(const struct run *run, const struct torch_node *node)
{
    const struct torch_state *then = &run->view.last_completed;
    const struct torch_node *old = node->waiting ? torch_state_find(then, node) : NULL;
    const struct agent *a = old == NULL ? NULL : run_agent_of(run, node);

    return a != NULL && a->line != LINE_PUT && old->participant && !has_finished(run, a) &&
           then->round == run->view.state.round;
}

/* The node whose workers have failed, if that agent closes the run now. NULL: none. */
static const struct torch_node *find_failed(const struct run *run, const struct agent *closes)
{
    if (!has_finished(run, closes))
        return runs_workers(run, closes) ? &closes->node : NULL;
    return FIND(node, NODES_FOREACH(node, &run->view.state), has_given_up(run, node));
}

void closing_note_failed(struct step *s, const struct agent *a)
{
    const struct run_view *v = &s->run->view;

    if (!v->state.closed || v->before.closed)
        return;
    s->failed_node = find_failed(s->run, a);
    s->run->failed = s->failed_node != NULL;
    s->out->counters.runs_failed += s->run->failed;
}

/* --- What waits. --- */

bool closing_ask(struct step *s, struct agent *a)
{
    bool is_new = !a->closes;
    enum close_verdict verdict;

    a->closes = true;
    verdict = closing_judge(s, a);
    if (verdict == CLOSE_WAITS && is_new && may_close(s->run, a))
        s->run->close_kept = CLOSE_KEPT_MEMBER;
    else if (verdict == CLOSE_WAITS && is_new && s->run->close_kept == CLOSE_NOT_KEPT)
        s->run->close_kept = CLOSE_KEPT_OTHER;
    return verdict == CLOSE_COUNTS;
}

static bool counts_now(const struct run *run)
{
    if (run->close_kept == CLOSE_KEPT_OTHER)
        return !does_any_go_on(run, NULL);
    return !run->settings->close_needs_all || !is_any_in(run, NULL);
}

bool closing_close(struct step *s)
{
    if (!step_is_open(s) || step_edit(s) == NULL)
        return false;
    s->edited.closed = true;
    if (!step_put_edited(s, 0))
        return false;
    explain_close(s, NOTE_RUN_ENDED, NULL);
    s->out->counters.runs_closed++;
    return true;
}

bool closing_settle(struct step *s)
{
    bool is_kept = s->run->close_kept != CLOSE_NOT_KEPT && step_is_open(s);
    bool counts = is_kept && counts_now(s->run);

    s->run->close_kept = CLOSE_NOT_KEPT;
    if (counts && closing_close(s)) {
        loss_clear_mark(s);
        return true;
    }
    if (is_kept && !counts)
        explain_close(s, NOTE_CLOSE_IGNORED, NULL);
    return false;
}
