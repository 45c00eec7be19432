/* The ends of workers: no meeting uses a restart, no good end is cut short, and all nodes of a job
 * end together. See job_check.h.
 *
 * An agent uses a restart if it sees its workers fail (or closes the run if it has none left). Each
 * failure must have a real cause: a fault injected at that node, or, if workers fail with other
 * nodes of their world, a fault injected at one of those nodes. A meeting is no such cause: rdzvd
 * holds the polls of the agents to prevent such failures. It holds them for a limited time, so this
 * check excuses an agent that could not poll in time: the agent was frozen or cut off, or its relay
 * or rdzvd was away, when the meeting was due. The same holds just before a meeting, because rdzvd
 * does not wait for an agent that is presumed dead until the agent asks again. */
#include "tests/sim/job_check.h"
#include "tests/sim/job_net.h"

#define POLL_MS  1000 /* agents look at the state no more often */
#define GRACE_MS 2000 /* in which an agent ends after its look */
/* In which an agent leaves the exit barrier after the last one is lost. */
#define BARRIER_MS 5000

/* --- Meetings. --- */

/* An operator has taken a node out of its round, and its agent has not noticed yet. */
static bool is_any_set_aside(const struct job *job)
{
    for (size_t i = 0; i < job->pod_count; i++) {
        const struct pod *p = &job->pods[i];
        const struct torch_node *node =
            p->link == NULL ? NULL : run_node_of(&job->run->run, &p->link->agent);

        if (p->training && node != NULL && node->redundant)
            return true;
    }
    return false;
}

/* A meeting is due while a node waits for a complete round. */
static void note_due(struct job *job)
{
    const struct run_view *v = &job->run->run.view;
    bool is_due = v->is_state && ((v->state.complete && v->waiting != 0) || is_any_set_aside(job));

    if (is_due && !job->is_due)
        job->due_ms = sim_now();
    job->is_due = is_due;
}

static bool was_out_of_reach(const struct pod *p, uint64_t since_ms)
{
    uint64_t reached_ms = sim_now() - net_reachable_for(p);

    return !net_is_reachable(p) || (reached_ms >= since_ms && reached_ms != p->started_ms);
}

/* rdzvd takes the interval of an agent that does not say its release for 5 s, until it has looked
 * twice in that round. */
static bool may_be_too_slow(const struct pod *p)
{
    return p->settings.sharing == SHARING_OLD && p->settings.monitor_ms > 5000 &&
           p->break_due_ms - p->agent.entered_ms < 2 * p->settings.monitor_ms;
}

void check_restart(const struct pod *p)
{
    uint64_t look_ms = latest(p->settings.monitor_ms, POLL_MS, 0) + GRACE_MS;

    if (p->break_is_real || was_out_of_reach(p, p->break_due_ms - look_ms) || may_be_too_slow(p))
        return;
    sim_fail("a meeting has cost %s a restart: it was due since %.3f s", p->name,
             (double)(p->break_due_ms - FIRST_MS) / 1000);
}

/* --- Good ends. --- */

void check_end(const struct pod *p)
{
    const struct job *job = p->job;

    if (job->finishes && job->finishes_alone && !job->run->run.view.state.closed &&
        job->pod_count > 1 && sim.fault_count == job->finishing_faults && p->done_ms != 0 &&
        p->agent.leaves == MODEL_LEAVES_TO_MEET)
        sim_fail("a meeting has ended the workers of %s, and these were about to end well",
                 p->name);
}

/* The agent waits in the exit barrier, and another agent may still come there: it is in the same
 * world, and its workers run. */
static bool awaits_any(const struct pod *p)
{
    for (size_t i = 0; i < p->job->pod_count; i++) {
        const struct pod *other = &p->job->pods[i];

        if (other->world == p->world && (other->training || other->agent.phase == MODEL_ARRIVING))
            return true;
    }
    return false;
}

/* True if another agent of the pod's world lives and has left to meet again. */
static bool has_any_left(const struct pod *p)
{
    for (size_t i = 0; i < p->job->pod_count; i++) {
        const struct pod *other = &p->job->pods[i];

        if (model_agent_is_alive(&other->agent) && !model_agent_is_done(&other->agent) &&
            other->started_ms < p->agent.entered_ms)
            return true;
    }
    return false;
}

/* True if rdzvd has not noticed the loss of a node, or an agent that will soon end, and so cannot
 * react.
 */
static bool is_any_loss_unnoticed(const struct job *job)
{
    if (job->run->run.start != START_OVER)
        return true; /* after a start, agents may still come back */
    for (size_t i = 0; i < job->pod_count; i++) {
        const struct pod *p = &job->pods[i];

        if (!net_is_reachable(p) && (model_agent_is_alive(&p->agent) || p->link != NULL))
            return true; /* also of an agent that has not told the store yet that it has finished */
    }
    for (size_t i = 0; i < sim.orphan_count; i++) {
        if (sim.orphans[i].link->run == job->run)
            return true;
    }
    return false;
}

static const struct pod *any_in_barrier(const struct job *job)
{
    for (size_t i = 0; i < job->pod_count; i++) {
        const struct pod *p = &job->pods[i];

        if (p->agent.phase == MODEL_BARRIER && net_is_reachable(p) && !awaits_any(p))
            return p;
    }
    return NULL;
}

static void check_barrier(struct job *job)
{
    const struct pod *p = any_in_barrier(job);

    if (p == NULL || p->world != job->done_world || is_any_loss_unnoticed(job) ||
        !sim.space.settings.drop_disconnected) {
        job->all_lost_ms = 0;
        return;
    }
    if (job->all_lost_ms == 0)
        job->all_lost_ms = sim_now();
    if (sim_now() - latest(job->all_lost_ms, sim_now() - net_reachable_for(p), 0) > BARRIER_MS)
        sim_fail("%s waits in the exit barrier for nodes that %s", p->name,
                 has_any_left(p) ? "have left to meet again" : "are lost");
}

/* --- Bad ends. --- */

static void check_failed(const struct job *job)
{
    if (job->failed_ms == 0 || !sim.space.settings.end_failed_runs)
        return;
    for (size_t i = 0; i < job->pod_count; i++) {
        const struct pod *p = &job->pods[i];
        uint64_t since_ms =
            latest(job->failed_ms, p->agent.entered_ms, sim_now() - net_reachable_for(p));
        uint64_t look_ms = latest(p->settings.monitor_ms, POLL_MS, 0);

        if (p->training && net_is_reachable(p) && sim_now() - since_ms > look_ms + GRACE_MS)
            sim_fail("%s trains on, and its job has failed %.3f s ago", p->name,
                     (double)(sim_now() - job->failed_ms) / 1000);
    }
}

void check_ends(struct job *job)
{
    note_due(job);
    check_barrier(job);
    check_failed(job);
}
