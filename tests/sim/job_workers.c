/* Workers and their worlds. See job_workers.h. */
#include "tests/sim/job_workers.h"

#include "tests/sim/job_check.h"
#include "tests/sim/job_net.h"

#define WORKERS_MS 2000 /* how long workers load torch before they come */
#define MATES_MS   8000 /* how long they wait for the others of their world */

/* --- Worlds. --- */

static uint64_t world_of(const struct pod *p)
{
    return p->job->run->incarnation << 32 | (uint64_t)p->agent.round;
}

void workers_enter(struct pod *p)
{
    p->training = true;
    p->world = world_of(p);
    p->worker_store = 0;
    p->break_ms = p->break_due_ms = p->done_ms = 0;
    p->break_is_real = p->hangs = false;
    sim_tell("%s trains: round %" PRId64 " rank %" PRId64 " at %s:%s", p->name, p->agent.round,
             p->agent.rank, p->agent.address, p->agent.port);
    check_world(p);
}

/* Once a node has ended well, rdzvd lets the others end, so the workers of NCCL fail when their
 * collective times out: after 10 minutes, here sooner. */
static bool hangs_for_ever(const struct job *job)
{
    return job->workers == WORKERS_NCCL && !job->finishes;
}

static uint64_t any_break_ms(const struct job *job)
{
    return sim_now() + (job->workers == WORKERS_GLOO ? 1 + sim_draw(50) : 1000 + sim_draw(7000));
}

/* Its workers are in a collective, and those of another node are gone. */
static void miss_mate(struct pod *p, bool is_real)
{
    if (hangs_for_ever(p->job)) {
        p->hangs = true;
        return;
    }
    if (p->break_ms != 0 || p->agent.workers_failed)
        return;
    p->break_ms = any_break_ms(p->job);
    p->break_is_real = is_real || p->job->run->run.view.state.closed; /* all are to end */
    p->break_due_ms = p->job->due_ms;
}

static void break_world(const struct pod *p, bool is_real)
{
    for (size_t i = 0; i < p->job->pod_count; i++) {
        struct pod *other = &p->job->pods[i];

        if (other != p && other->training && other->world == p->world)
            miss_mate(other, is_real);
    }
}

static const struct torch_node *node_of(const struct pod *p, const struct torch_state *state)
{
    return torch_state_find(state, &(struct torch_node){.addr = slice_str(p->name), .pid = 100});
}

/* True if a fault has ended the workers, at this node or at another node of its world. A node that
 * was lost in a fault and has left the round is such a fault to the other nodes. */
static bool is_real_end(const struct pod *p)
{
    const struct torch_node *node = node_of(p, &p->job->run->run.view.state);

    if (p->agent.phase == MODEL_FAILED || p->agent.leaves == MODEL_STAYS || node == NULL ||
        !node->participant)
        return true;
    return p->agent.leaves == MODEL_LEAVES_FAILED && p->break_is_real;
}

static void note_done(struct pod *p)
{
    struct job *job = p->job;

    job->done_count = job->done_world == p->world ? job->done_count + 1 : 1;
    job->done_world = p->world;
}

static void note_end(struct job *job, uint64_t world, bool is_real)
{
    if (is_real)
        job->broken_world = world;
    else
        job->left_world = world;
}

static const char *why(const struct pod *p)
{
    static const char *const reasons[] = {[MODEL_STAYS] = "its agent ends",
                                          [MODEL_LEAVES_TO_MEET] = "a node waits",
                                          [MODEL_LEAVES_FAILED] = "its workers have failed",
                                          [MODEL_LEAVES_DONE] = "its workers have ended well"};

    return reasons[p->agent.leaves];
}

void workers_leave(struct pod *p)
{
    bool is_real = is_real_end(p);

    if (!p->training) {
        if (p->agent.has_joined && !p->agent.has_ranks)
            note_end(p->job, world_of(p), true);
        return;
    }
    sim_tell("%s trains no more: %s", p->name, why(p));
    check_end(p);
    p->training = p->hangs = false;
    p->break_ms = p->done_ms = 0;
    if (p->agent.leaves == MODEL_LEAVES_DONE && p->agent.phase != MODEL_FAILED) {
        note_done(p);
        return;
    }
    note_end(p->job, p->world, is_real);
    break_world(p, is_real);
}

/* --- What they meet. --- */

void workers_break(struct pod *p)
{
    if (!p->training || p->break_ms != 0 || p->agent.workers_failed)
        return;
    p->break_ms = sim_now() + 1;
    p->break_is_real = true;
}

/* By what its agent has seen last. */
static bool is_in_round(const struct pod *p)
{
    const struct torch_node *node = node_of(p, &p->agent.state);

    return p->agent.state.round == p->agent.round && node != NULL && node->participant;
}

/* An agent that was cut off until the others have gone on may see that before its workers ask for
 * their store; in reality it sees it a second later at most, and its workers find addresses apart
 * from those of the new round; here the agent is first. */
static void connect_workers(struct pod *p)
{
    const struct view_record *record = &p->job->run->run.view.record;

    if (p->worker_store != 0 || p->agent.workers_failed ||
        record->placement != WORKER_STORE_RDZVD || !is_in_round(p) ||
        sim_now() - p->agent.entered_ms < WORKERS_MS || !net_is_reachable(p) ||
        net_reachable_for(p) < WORKERS_MS + p->settings.monitor_ms)
        return;
    p->worker_store = record->worker_store;
    check_world(p);
}

/* Its workers meet, or their collective fails: an agent that is a participant may be gone. NCCL
 * waits for 10 minutes. */
static void check_mates(struct pod *p)
{
    const struct torch_state *then = &p->job->run->run.view.last_completed;
    size_t mates = 0;

    if (p->job->workers == WORKERS_NCCL || p->break_ms != 0 || p->agent.workers_failed ||
        sim_now() - p->agent.entered_ms <= MATES_MS ||
        p->world != (p->job->run->incarnation << 32 | (uint64_t)then->round))
        return;
    for (size_t i = 0; i < p->job->pod_count; i++)
        mates += p->job->pods[i].training && p->job->pods[i].world == p->world;
    if (p->job->done_world == p->world)
        mates += p->job->done_count;
    if (mates < torch_state_participants(then))
        miss_mate(p, p->job->broken_world == p->world || p->job->left_world != p->world);
}

static void fail_if_due(struct pod *p)
{
    if (p->break_ms == 0 || p->break_ms > sim_now())
        return;
    sim_tell("%s: its workers fail", p->name);
    p->break_ms = 0;
    p->agent.workers_failed = true;
    break_world(p, p->break_is_real);
}

static void end_if_done(struct pod *p)
{
    if (p->done_ms == 0 || p->done_ms > sim_now() || p->break_ms != 0 || p->hangs ||
        p->agent.workers_failed || p->agent.workers_done)
        return;
    sim_tell("%s: its workers end well", p->name);
    p->agent.workers_done = true;
}

void workers_run(struct pod *p)
{
    if (!p->training || p->agent.phase != MODEL_TRAINING)
        return;
    connect_workers(p);
    check_mates(p);
    fail_if_due(p);
    end_if_done(p);
}

uint64_t workers_next_ms(const struct pod *p)
{
    uint64_t next = UINT64_MAX;

    earlier(&next, p->break_ms);
    if (!p->hangs && !p->agent.workers_failed && !p->agent.workers_done)
        earlier(&next, p->done_ms);
    return next;
}

/* --- The good end. --- */

/* True if the pod trains in that world and no fault is going to end its workers. */
static bool trains_well(const struct pod *p, uint64_t world)
{
    return p->training && p->world == world && p->break_ms == 0 && !p->hangs &&
           !p->agent.workers_failed && p->agent.leaves == MODEL_STAYS && net_is_reachable(p);
}

bool workers_are_whole(const struct pod *p)
{
    const struct job *job = p->job;
    size_t mates = 0;

    for (size_t i = 0; i < job->pod_count; i++)
        mates += trains_well(&job->pods[i], p->world);
    return p->training && world_of(p) == p->world && mates == p->agent.world_size;
}

static const struct pod *any_whole_world(const struct job *job)
{
    for (size_t i = 0; i < job->pod_count; i++) {
        if (workers_are_whole(&job->pods[i]))
            return &job->pods[i];
    }
    return NULL;
}

void workers_finish(struct job *job)
{
    static const uint64_t longest_ms[] = {100, 20000, 150000};
    const struct pod *first = any_whole_world(job);
    uint64_t most_ms = longest_ms[sim_draw(3)];

    if (first == NULL || job->finishes || job->again_ms != 0)
        return;
    sim_tell("%s is done", job->run->key);
    job->finishes = true;
    job->finishes_alone = job->run->run.view.waiting == 0 && !job->is_due;
    job->finishing_faults = sim.fault_count + 1; /* this one is counted later */
    for (size_t i = 0; i < job->pod_count; i++) {
        struct pod *p = &job->pods[i];

        if (p->training && p->world == first->world)
            p->done_ms = sim_now() + 1 + sim_draw(most_ms);
        else
            job->finishes_alone = false;
    }
}

static bool is_finishing(const struct pod *p)
{
    return (p->training && p->done_ms != 0) ||
           (model_agent_is_done(&p->agent) && p->agent.phase != MODEL_DONE);
}

void workers_check_finished(struct job *job)
{
    bool any_done = false;

    if (!job->finishes)
        return;
    for (size_t i = 0; i < job->pod_count; i++) {
        if (is_finishing(&job->pods[i]))
            return;
        any_done = any_done || job->pods[i].agent.phase == MODEL_DONE;
    }
    job->finishes = false;
    sim.last_fault_ms = sim_now();
    if (any_done)
        job->again_ms = sim_now() + 1 + sim_draw(15000);
}
