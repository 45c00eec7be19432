/* Lets all nodes of a complete round end their workers in the same moment, when they have to meet.
 *
 * Problem: torch's agents look at the state once a second (1.13: each monitor interval). The agent
 * that sees a node on the wait list first ends its workers, which uses up no restart. The workers
 * of the other nodes are in a collective with these and fail at that moment. Their agents look at
 * their workers before they look at the state again, so each uses up one of --max-restarts; with
 * torch's default of 0 it closes the run for all nodes.
 *
 * Remedy: a node that waits is hidden from the participants at first. rdzvd holds the next look of
 * each participant until every participant looks, and then answers all of them in one step. An
 * agent that waits for this answer does not look at its workers.
 *
 * Invariant: no participant is shown a node that waits before the meeting is open. Without it, an
 * agent would learn of that node by the answer to its heartbeat, and act before the others.
 *
 * A hold has a bound: the meeting opens when the slowest agent has had its usual time between two
 * looks, and half of that again. An agent that has not looked by then sees the node at its next
 * look. If the workers of a node have ended well, the workers of the others are about to end, so
 * the node that waits stays hidden: the others would repeat their last steps without the finished
 * node. In a run that has failed nothing is held, since all agents must end (closing.c).
 *
 * Upstream: SimpleElasticAgent._invoke_run() (agent/server/api.py), num_nodes_waiting()
 * (rendezvous/dynamic_rendezvous.py); the same in 1.13 to 2.14. */
#include "rdzv/rendezvous/explain.h"
#include "rdzv/rendezvous/parts.h"

/* An agent whose first look in a round has not come may still start its workers. */
#define START_MS 10000
/* Nothing is known of how often the agents of the run look. */
#define UNKNOWN_MS 40000
/* Heartbeats put off a look by up to a second, and a busy machine does, too. */
#define SLACK_MS 2000
/* Torch 1.13 gives up a look after read_timeout, which is 60 s by default. */
#define HOLD_MOST_MS 45000

bool meeting_is_open(const struct run *run)
{
    return run->meeting.phase == MEETING_OPEN && run->meeting.completion == run->view.completions;
}

/* Nodes that wait make the participants meet. */
static bool is_due(const struct step *s)
{
    const struct run *run = s->run;
    const struct run_view *v = &run->view;

    return v->is_state && !v->unread && v->state.complete && v->waiting != 0 &&
           v->participants != 0 &&
           (v->state.closed
                ? run->failed && run->settings->end_failed_runs
                : run->finishing_round != v->state.round || run->meeting.phase == MEETING_OPEN) &&
           !presence_is_too_old(s, &v->state.nodes[v->waiting - 1]);
}

/* The heartbeat of an agent whose look is held grows old, unless rdzvd refreshes it. */
static bool may_hold(const struct run *run)
{
    return !run->view.state.closed && run->settings->keep_connected;
}

/* The agent of a node that is in the round, and that can look. */
static bool is_awaited(const struct run *run, const struct agent *a)
{
    const struct torch_node *node;

    if (a->away || !a->is_listed)
        return false;
    node = run_node_of(run, a);
    return node != NULL && node->participant;
}

/* Continues at the first agent that did not look before: the agents in front of it do. So all steps
 * of one meeting together pass each agent once. */
static bool do_all_look(struct run *run)
{
    struct meeting *m = &run->meeting;

    while (m->next != NULL && (m->next->look == LOOK_GATHERED || !is_awaited(run, m->next)))
        m->next = TAILQ_NEXT(m->next, entry);
    return m->next == NULL;
}

/* --- How long agents are waited for. --- */

/* The longest interval of late, so that one look that came early does not count for much. */
static void note_interval(struct agent *a, uint64_t interval_ms)
{
    if (interval_ms > HOLD_MOST_MS)
        interval_ms = HOLD_MOST_MS;
    if (a->look_interval_ms < interval_ms)
        a->look_interval_ms = interval_ms;
    else
        a->look_interval_ms -= (a->look_interval_ms - interval_ms) / 16;
}

void meeting_note_look(const struct run *run, struct agent *a, uint64_t now_ms)
{
    if (!run->view.state.complete || a->has_ranks_of != run->view.completions)
        return;
    if (a->looked_in == run->view.completions)
        note_interval(a, clock_elapsed_ms(a->looked_ms, now_ms));
    a->looked_in = run->view.completions;
    a->looked_ms = now_ms;
}

static uint64_t longest_wait_ms(const struct run *run)
{
    uint64_t usual_ms = 0, start_ms = 0, wait_ms;
    const struct agent *a;

    TAILQ_FOREACH(a, &run->agents, entry) {
        if (usual_ms < a->look_interval_ms)
            usual_ms = a->look_interval_ms;
        if (a->looked_in != run->view.completions && is_awaited(run, a))
            start_ms = START_MS;
    }
    if (usual_ms == 0)
        return UNKNOWN_MS;
    wait_ms = usual_ms + usual_ms / 2 + SLACK_MS + start_ms;
    return wait_ms < HOLD_MOST_MS ? wait_ms : HOLD_MOST_MS;
}

/* --- The phases. --- */

static void gather(struct step *s)
{
    struct meeting *m = &s->run->meeting;

    m->phase = MEETING_GATHERS;
    m->completion = s->run->view.completions;
    m->since_ms = s->now->ms;
    m->until_ms = s->now->ms + longest_wait_ms(s->run);
    m->next = TAILQ_FIRST(&s->run->agents);
}

/* Shows the held looks again, so that rdzvd answers them. If memory is short, the tick tries again.
 */
static void release(struct step *s)
{
    struct agent *a;

    if (s->run->meeting.held == 0)
        return;
    TAILQ_FOREACH(a, &s->run->agents, entry) {
        if (a->look != LOOK_GATHERED || !step_resume(s, a))
            continue;
        a->look = LOOK_RELEASED;
        a->looked_ms = s->now->ms;
        s->run->meeting.held--;
    }
}

static size_t count_late(const struct run *run)
{
    const struct agent *a;
    size_t late = 0;

    TAILQ_FOREACH(a, &run->agents, entry)
        late += a->look != LOOK_GATHERED && is_awaited(run, a);
    return late;
}

static void note_open(struct step *s, size_t late)
{
    const struct run_view *v = &s->run->view;
    struct note *note = explain_note(s, NOTE_MEETING);

    note->number = v->participants;
    note->late = late;
    note->ms = (int64_t)clock_elapsed_ms(s->run->meeting.since_ms, s->now->ms);
    note->node = explain_node(s, &v->state.nodes[v->waiting - 1]);
    note->reason = late == 0 ? "a node waits, and the agents of all participants look"
                             : "a node waits, and an agent has not looked in its usual interval";
}

/* `by`: an agent whose look completes the meeting and that is answered in this step; or NULL. */
static void open(struct step *s, const struct agent *by)
{
    if (!s->run->view.state.closed)
        note_open(s, count_late(s->run) - (by != NULL));
    s->run->meeting.phase = MEETING_OPEN;
    s->run->meeting.completion = s->run->view.completions;
    release(s);
}

static void end(struct step *s)
{
    s->run->meeting.phase = MEETING_NONE;
    release(s);
}

void meeting_check(struct step *s)
{
    struct meeting *m = &s->run->meeting;

    if (m->phase != MEETING_NONE && (m->completion != s->run->view.completions || !is_due(s)))
        end(s);
    if (m->phase == MEETING_NONE && is_due(s))
        gather(s);
    if (m->phase == MEETING_GATHERS &&
        (!may_hold(s->run) || s->now->ms >= m->until_ms || do_all_look(s->run)))
        open(s, NULL);
}

void meeting_on_tick(struct step *s)
{
    if (s->run->meeting.phase != MEETING_GATHERS)
        release(s);
}

/* rdzvd answers the look that completes the meeting without holding it: a request that is held and
 * resumed in the same step stays held. */
bool meeting_should_hold(struct step *s, struct agent *a)
{
    struct meeting *m = &s->run->meeting;

    if (a->look != LOOK_GATHERED)
        meeting_note_look(s->run, a, s->now->ms);
    meeting_check(s);
    if (m->phase != MEETING_GATHERS || !is_awaited(s->run, a) ||
        a->has_seen != s->run->view.completions)
        return false;
    m->held += a->look != LOOK_GATHERED;
    a->look = LOOK_GATHERED;
    if (!do_all_look(s->run))
        return true;
    a->look = LOOK_FREE;
    m->held--;
    open(s, a);
    return false;
}

void meeting_leave(struct run *run, struct agent *a)
{
    struct meeting *m = &run->meeting;

    if (m->next == a)
        m->next = TAILQ_NEXT(a, entry);
    if (a->look == LOOK_GATHERED)
        m->held--;
    if (a->look != LOOK_LONG)
        a->look = LOOK_FREE;
}
