/* Lets all nodes of a complete round end their workers in the same moment, when they have to meet.
 * README.md, "Meet together", has the problem, the steps, and how long a poll is held.
 *
 * Invariant: no participant is shown a node that waits before the meeting is open. Without it, an
 * agent would learn of that node by the answer to its heartbeat, and act before the others.
 *
 * If the workers of a node have ended well, the node that waits stays hidden: the others would
 * repeat their last steps without the finished node. In a run that has failed nothing is held,
 * since all agents must end (closing.c). A node that an operator takes out of the round
 * (steering.c) stays a participant until the meeting is open.
 *
 * Upstream: SimpleElasticAgent._invoke_run() (agent/server/api.py), num_nodes_waiting()
 * (rendezvous/dynamic_rendezvous.py); the same in 1.13 to 2.14. */
#include "rdzv/rendezvous/policy_internal.h"

/* An agent whose first poll in a round has not come may still start its workers. */
#define START_MS 10000
/* Nothing is known of how often an agent polls. */
#define UNKNOWN_MS 40000
/* Heartbeats put off a poll by up to a second, and a busy machine does, too. */
#define SLACK_MS 2000
/* No agent polls: each is silent, or starts its workers, which torch gives up after a minute. */
#define NONE_POLLS_MS 90000

/* Torch does not count a node that waits once its heartbeat is too old. If the node ends while the
 * meeting is open, the mark stands in for it: some agents have already seen it wait. */
const struct torch_node *meeting_waiting(const struct step *s)
{
    const struct run_view *v = &s->run->view;

    if (run_ends_all(s->run))
        return &loss_mark;
    for (size_t i = v->waiting == 0 ? v->state.count : v->waiting - 1; i < v->state.count; i++) {
        const struct torch_node *node = &v->state.nodes[i];

        if (node->waiting && !presence_is_lost(s, node, 0))
            return node;
    }
    return meeting_is_open(s->run) ? &loss_mark : NULL;
}

/* Nodes that wait make the participants meet. */
static bool is_due(const struct step *s)
{
    const struct run *run = s->run;
    const struct run_view *v = &run->view;

    return v->is_state && !v->unread && v->state.complete && v->participants != 0 &&
           (run->meeting.phase == MEETING_OPEN ||
            (v->state.closed ? run->failed : !run_is_finishing(run, v->state.round))) &&
           meeting_waiting(s) != NULL;
}

/* The agent can poll, and its node is in the round; or is unknown, but the agent has its ranks. */
static bool is_awaited(const struct run *run, const struct agent *a)
{
    if (a->link != LINK_HERE)
        return false;
    if (a->naming != NAMING_LISTED)
        return a->naming == NAMING_NONE && a->has_ranks_of == run->view.completions;
    return run_takes_part(run, a);
}

/* A node that was taken out of the round may still train, and come back into it. */
static bool may_any_return(const struct run *run)
{
    return !TAILQ_EMPTY(&run->gone) ||
           ANY(AGENTS_FOREACH(a, &run->agents), a->nodes != 0 && !is_awaited(run, a));
}

/* --- How long agents are waited for. --- */

/* If the interval of an agent is unknown, the longest known one counts, and at least torch's former
 * default: mostly all agents of a job have one --monitor-interval. 0: none is known. */
static uint64_t usual_ms(const struct run *run, const struct agent *a)
{
    uint64_t own_ms = pace_interval_ms(a), others_ms = run->meeting.usual_ms;

    if (own_ms != 0 || others_ms == 0)
        return own_ms;
    return others_ms < TORCH_HEARTBEAT_MS ? TORCH_HEARTBEAT_MS : others_ms;
}

/* The agent waits for the answer to its poll, and does not poll its workers. If the thread of the
 * heartbeat holds the agent's lock instead, the thread of the workers waits for the lock once its
 * next poll is due. The workers of a node that is alone in the round fail for no other node. */
static bool is_gathered(const struct run *run, const struct agent *a, uint64_t now_ms)
{
    return a->held == HELD_GATHERED &&
           (!a->pace.may_beat || (run->view.participants == 1 && !may_any_return(run)) ||
            pace_is_due(a, usual_ms(run, a), now_ms));
}

/* `next` is the first agent that was not gathered before, so a meeting visits each agent once. */
static bool are_all_gathered(struct step *s)
{
    struct meeting *m = &s->run->meeting;

    while (m->next != NULL &&
           (is_gathered(s->run, m->next, s->now->ms) || !is_awaited(s->run, m->next)))
        m->next = TAILQ_NEXT(m->next, entry);
    return m->next == NULL;
}

/* If a node is lost for good, the workers of the others hang or have failed: then an agent whose
 * interval is unknown gets torch's former default. */
static uint64_t longest_wait_ms(struct run *run)
{
    uint64_t most_ms = loss_lacks_nodes(run, &run->view.state) && !may_any_return(run) ? 1 : 0;
    uint64_t start_ms = 0, least_ms = 0;

    AGENTS_FOREACH(a, &run->agents) {
        uint64_t own_ms = pace_interval_ms(a);

        if (!is_awaited(run, a))
            continue;
        if (most_ms < own_ms)
            most_ms = own_ms;
        if (own_ms == 0)
            least_ms = TORCH_HEARTBEAT_MS;
        if (a->pace.round != run->view.completions || a->pace.asked_ms == 0)
            start_ms = START_MS;
    }
    run->meeting.usual_ms = most_ms;
    if (most_ms == 0)
        return UNKNOWN_MS;
    if (most_ms < least_ms)
        most_ms = least_ms;
    most_ms += most_ms / 2 + SLACK_MS + start_ms;
    return most_ms < MEETING_HOLD_MS ? most_ms : MEETING_HOLD_MS;
}

static bool is_time_over(struct step *s)
{
    struct meeting *m = &s->run->meeting;

    if (s->now->ms < m->until_ms)
        return false;
    if (clock_elapsed_ms(m->since_ms, s->now->ms) >= MEETING_HOLD_MS ||
        !ANY(AGENTS_FOREACH(a, &s->run->agents),
             is_awaited(s->run, a) && run_lacks_ranks(s->run, a)))
        return true;
    m->until_ms = s->now->ms + START_MS;
    if (m->until_ms > m->since_ms + MEETING_HOLD_MS)
        m->until_ms = m->since_ms + MEETING_HOLD_MS;
    return false;
}

/* --- The phases. --- */

static void gather(struct step *s)
{
    struct meeting *m = &s->run->meeting;

    m->phase = MEETING_GATHERS;
    m->completion = s->run->view.completions;
    m->since_ms = s->now->ms;
    m->next = TAILQ_FIRST(&s->run->agents);
}

/* Releases the held polls: all of them, or those of agents that start their workers, if the run has
 * begun to share roles meanwhile: else an agent that closes the run would be held for agents that
 * wait for its role. If memory is short, the tick tries again. */
void meeting_release(struct step *s)
{
    struct meeting *m = &s->run->meeting;

    TAILQ_EACH_SAFE(struct agent, a, &s->run->held_agents[HELD_GATHERED], held_entry) {
        if ((m->phase != MEETING_GATHERS || run_lacks_ranks(s->run, a)) && agent_release(s, a)) {
            pace_note_released(a, s->now->ms);
            m->next = TAILQ_FIRST(&s->run->agents);
        }
    }
}

static size_t count_late(const struct run *run, uint64_t now_ms)
{
    size_t late = 0;

    AGENTS_FOREACH(a, &run->agents)
        late += !is_gathered(run, a, now_ms) && is_awaited(run, a);
    return late;
}

static void note_open(struct step *s, size_t late)
{
    struct note *note =
        explain_note(s, NOTE_MEETING, s->run->view.participants,
                     late == 0 ? "a node waits, and the agents of all participants poll"
                               : "a node waits, and an agent has not polled in its usual interval");

    note->late = late;
    note->ms = s->run->held[HELD_GATHERED] == 0
                   ? 0
                   : (int64_t)clock_elapsed_ms(s->run->meeting.since_ms, s->now->ms);
    note->node = explain_node(s, meeting_waiting(s));
}

/* `by`: an agent whose poll completes the meeting and that is answered in this step; or NULL. */
static void open(struct step *s, const struct agent *by)
{
    if (!s->run->view.state.closed)
        note_open(s, count_late(s->run, s->now->ms) - (by != NULL));
    s->run->meeting.phase = MEETING_OPEN;
    s->run->meeting.completion = s->run->view.completions;
    loss_set_aside(s, true);
    meeting_release(s);
}

void meeting_check(struct step *s)
{
    struct meeting *m = &s->run->meeting;

    if (m->phase != MEETING_NONE && (m->completion != s->run->view.completions || !is_due(s))) {
        m->phase = MEETING_NONE;
        meeting_release(s);
    }
    if (m->phase == MEETING_NONE && is_due(s))
        gather(s);
    if (m->phase == MEETING_GATHERS &&
        (s->run->view.state.closed ||
         (s->run->held[HELD_GATHERED] != 0
              ? are_all_gathered(s) || is_time_over(s)
              : s->run->agent_count != 0 &&
                    clock_elapsed_ms(m->since_ms, s->now->ms) >= NONE_POLLS_MS)))
        open(s, NULL);
}

/* rdzvd answers the poll that completes the meeting without holding it: a request that is held and
 * resumed in the same step stays held. rdzvd does not hold an agent that still starts its workers:
 * the agent sends one request at a time, and other agents may wait for its keys. Nor is an agent
 * held that is back after a start: only its next request tells whether this one is a poll. */
bool meeting_should_hold(struct step *s, struct agent *a)
{
    struct meeting *m = &s->run->meeting;

    pace_note_get(s->run, a, s->now->ms);
    meeting_check(s);
    if (m->phase != MEETING_GATHERS || !is_awaited(s->run, a) ||
        a->has_seen != s->run->view.completions || run_lacks_ranks(s->run, a) ||
        (a->pace.wrote_ms == 0 && a->pace.interval_ms == 0))
        return false;
    if (s->run->held[HELD_GATHERED] == 0) {
        m->since_ms = s->now->ms;
        m->until_ms = s->now->ms + longest_wait_ms(s->run);
    }
    agent_hold(s, a, HELD_GATHERED);
    a->pace.may_beat = pace_may_beat(&a->pace, s->now->ms);
    if (!are_all_gathered(s))
        return true;
    agent_drop_held(s->run, a);
    open(s, a);
    return false;
}
