/* Pods and their jobs. See job_pod.h. */
#include "tests/sim/job_pod.h"

#include "tests/sim/job_check.h"
#include "tests/sim/job_net.h"
#include "tests/sim/job_workers.h"

/* --- Begin and end. --- */

void pod_end(struct pod *p, uint64_t notice_ms)
{
    p->agent.leaves = MODEL_STAYS;
    workers_leave(p);
    net_orphan(p->link, notice_ms, 0);
    p->link = NULL;
    net_clear(p);
    model_agent_stop(&p->agent);
    p->world = p->failures_seen = 0;
    p->frozen_until_ms = p->cut_until_ms = 0;
    p->away_since_ms = p->away_until_ms = p->give_up_ms = 0;
    p->restart_ms = 0;
    p->is_known = false;
}

/* How far its clock is ahead. */
static int64_t any_clock_us(bool relays_return)
{
    int64_t us = (int64_t)sim_draw(600) * 1000 - 300000;
    bool wrong = sim_draw(6) == 0, ahead = sim_draw(2) == 0;

    if (!wrong || relays_return)
        return us;
    return us + (ahead ? 1000 : -1000) * WRONG_CLOCK_MS;
}

void pod_start(struct pod *p)
{
    const struct job *job = p->job;
    int64_t clock_us = any_clock_us(job->relays_return);
    uint64_t first_ms = sim_now() + sim_draw(300);

    pod_end(p, 0);
    p->wanted = true;
    p->link = model_link_new(job->run, p, job->settings.sharing != SHARING_OLD, job->has_relays);
    p->started_ms = p->reachable_since_ms = sim_now();
    model_agent_start(&p->agent, &p->settings, p->name, 100, clock_us, first_ms);
    sim_tell("%s/%s starts, its clock %+.1f s", job->run->key, p->name, (double)clock_us / 1e6);
}

/* --- Jobs. --- */

/* Mostly all agents of a job look as often. */
static uint64_t any_monitor_ms(uint64_t usual_ms)
{
    static const uint64_t intervals_ms[] = {100, 1000, 5000};

    if (usual_ms > intervals_ms[2])
        return usual_ms;
    return sim_draw(8) != 0 ? usual_ms : intervals_ms[sim_draw(3)];
}

void job_scale_up(struct job *job)
{
    struct pod *p;

    if (job->pod_count == PODS)
        return;
    p = &job->pods[job->pod_count++];
    p->settings = job->settings;
    p->settings.monitor_ms = any_monitor_ms(job->settings.monitor_ms);
    pod_start(p);
}

void job_begin_again(struct job *job)
{
    sim_tell("%s begins again", job->run->key);
    job->again_ms = 0;
    for (size_t i = 0; i < job->pod_count; i++)
        pod_start(&job->pods[i]);
}

/* --- Its requests. --- */

/* True if the request makes the agent's node a participant again: the node was presumed dead, and
 * its round goes on. */
static bool is_put_back(const struct pod *p)
{
    const struct agent *a = &p->link->agent;

    return a->nodes != 0 && a->round == p->job->run->run.view.state.round;
}

/* Another pod that trains as far as the daemon can know; NULL if no pod does. `*dead`: a pod trains
 * although it is presumed dead. */
static const struct pod *who_trains_on(const struct job *job, const struct pod *p, bool *dead)
{
    for (size_t i = 0; i < job->pod_count; i++) {
        const struct pod *other = &job->pods[i];

        if (other == p || other->link == NULL || !other->training || other->agent.errs ||
            other->agent.phase != MODEL_TRAINING ||
            (other->link->agent.nodes == 0 && other->link->bound))
            continue;
        if (other->link->agent.link != LINK_GONE)
            return other;
        *dead = true;
    }
    return NULL;
}

/* The daemon has not judged it. `round`: of the run when it was asked; by asking, an agent that has
 * taken itself for dead may have begun the next one. */
static void note_waiting_close(struct job *job, bool may, int64_t round)
{
    const struct run *run = &job->run->run;

    if (run->close_kept == CLOSE_NOT_KEPT || run->view.state.closed)
        return;
    job->may_close = may || (job->close_waits && job->may_close);
    job->close_waits = true;
    job->asked_in = round;
    job->asked_of = torch_state_participants(&run->view.state);
}

/* The run was closed by an error: rdzvd ends it for all if an agent of its newest round has done
 * that. Else the user ends the job, since the run goes on for nobody. */
static void note_failed(struct job *job, bool by_member)
{
    if (by_member && sim.space.settings.end_failed_runs)
        job->failed_ms = sim_now();
    else if (job->again_ms == 0)
        job->again_ms = sim_now() + 1 + sim_draw(15000);
}

void job_note_close(struct job *job)
{
    const struct run *run = &job->run->run;
    bool was_closed = job->is_closed, dead = false;
    const struct pod *other;

    job->is_closed = run->view.state.closed;
    if (!job->is_closed)
        job->failed_ms = 0;
    if (!job->close_waits || run->close_kept != CLOSE_NOT_KEPT)
        return;
    job->close_waits = false;
    other = who_trains_on(job, NULL, &dead);
    if (job->is_closed && !was_closed) {
        if (other != NULL && !job->may_close)
            sim_fail("who may not has closed the run of %s", other->name);
        note_failed(job, job->may_close);
    } else if (!job->is_closed && job->may_close && run->view.state.complete &&
               run->view.state.round == job->asked_in &&
               torch_state_participants(&run->view.state) >= job->asked_of) {
        sim_fail("who may has not closed the run");
    }
}

/* True if the node of this name belongs to this process and not to its predecessor. */
static bool is_its_own(const struct pod *p)
{
    return agent_has_node(&p->link->agent) || (!p->link->bound && p->memo.len != 0);
}

/* An agent that ends by an error, its own or of its workers, wants to close the run: only one that
 * is in the newest round may do that to another one that trains, also while that one has yet to
 * come back after a start of the daemon. */
static void close_run(struct pod *p, struct slice expected, struct slice desired)
{
    const struct run_view *v = &p->job->run->run.view;
    const struct torch_node who = {.addr = slice_str(p->name), .pid = 100};
    const struct torch_node *node = torch_state_find(&v->state, &who);
    bool may = v->state.closed || !sim.space.settings.close_from_members ||
               (v->state.complete &&
                ((node != NULL && node->participant && is_its_own(p)) || is_put_back(p)));
    bool dead = false, was_closed = v->state.closed;
    const struct pod *other = may ? NULL : who_trains_on(p->job, p, &dead);
    int64_t round = v->state.round;
    bool is_member = node != NULL && node->participant && is_its_own(p) && v->state.complete &&
                     p->agent.has_ranks && p->agent.round == round;

    model_compare_set(p->link, expected, desired);
    note_waiting_close(p->job, is_member, round);
    if (other != NULL && v->state.closed)
        sim_fail("%s closed the run of %s", p->name, other->name);
    if (!was_closed && v->state.closed)
        note_failed(p->job, is_member);
}

/* A request comes to the daemon. */
static void serve(struct pod *p)
{
    struct model_agent *a = &p->agent;
    struct slice expected;

    p->net = NET_HELD; /* until it is answered */
    p->is_known = true;
    if (a->phase == MODEL_TRAINING)
        sim_tell("  %s %s", p->name, a->request == REQUEST_LOOK ? "looks" : "beats");
    switch (a->request) {
    case REQUEST_COMPARE_SET:
        expected = (struct slice){a->token, a->token_len};
        if (a->phase == MODEL_INTRODUCING)
            model_compare_set(p->link, (struct slice){0}, (struct slice){a->text, a->text_len});
        else if (a->phase == MODEL_CLOSING && a->leaves != MODEL_LEAVES_DONE)
            close_run(p, expected, (struct slice){a->text, a->text_len});
        else
            model_compare_set(p->link, expected, (struct slice){a->text, a->text_len});
        break;
    case REQUEST_LOOK:
        model_look(p->link);
        break;
    case REQUEST_SET:
        model_set(p->link, a->round, a->name_of_key, (struct slice){a->text, a->text_len});
        break;
    case REQUEST_READ:
        model_read(p->link, a->round, a->name_of_key);
        break;
    case REQUEST_GATHER:
        model_gather(p->link, a->round, a->world_size);
        break;
    case REQUEST_RANK:
        model_rank(p->link, a->round, a->world_size);
        break;
    case REQUEST_ADD:
        model_add(p->link, a->round, a->name_of_key);
        break;
    case REQUEST_WAIT:
        model_wait(p->link, a->round, a->name_of_key);
        break;
    case REQUEST_NONE:
        sim_fail("%s asks for nothing", p->name);
    }
}

/* --- What is due. --- */

static void after_act(struct pod *p)
{
    struct model_agent *a = &p->agent;

    if (a->failures != p->failures_seen)
        check_restart(p);
    p->failures_seen = a->failures;
    if (p->training ? a->phase != MODEL_TRAINING : a->phase == MODEL_FAILED && p->restart_ms == 0)
        workers_leave(p);
    if (!p->training && a->phase == MODEL_TRAINING)
        workers_enter(p);
    if (a->phase == MODEL_FAILED && p->restart_ms == 0) {
        sim_tell("%s failed: %s", p->name, a->failure);
        check_failure(p);
        net_orphan(p->link, 0, 0);
        p->link = NULL;
        net_clear(p);
        p->restart_ms = sim_now() + 500 + sim_draw(2500);
    }
    if (a->phase == MODEL_DONE && p->link != NULL) {
        net_orphan(p->link, 0, 0);
        p->link = NULL;
    }
    if (net_has_session(p) && a->request != REQUEST_NONE && p->net == NET_IDLE) {
        p->net = NET_SENT;
        p->asked_ms = sim_now();
        p->due_ms = sim_now() + sim_draw(LATENCY_MS);
    }
}

void pod_lose_connection(struct pod *p)
{
    net_disconnect(p, CONNECTION_LOST);
    after_act(p);
}

static void take_answer(struct pod *p)
{
    struct slice value = {p->answer, p->answer_len};

    p->net = NET_IDLE;
    if (p->answer_absent && p->agent.request == REQUEST_LOOK && sim_now() - p->asked_ms < 60000) {
        p->net = NET_SENT; /* WAIT lasts until there is a key again */
        p->due_ms = sim_now() + 200;
        return;
    }
    model_agent_answer(&p->agent, p->answer_absent ? (struct slice){0} : value, sim_now(),
                       sim_wall_us());
    if (p->agent.phase == MODEL_TRAINING)
        sim_tell("  %s sees %zu nodes, %zu wait", p->name, p->agent.state.count,
                 model_agent_sees_waiting(&p->agent));
}

void pod_run(struct pod *p)
{
    struct model_agent *a = &p->agent;

    net_run_relay(p);
    if (p->restart_ms != 0 && p->restart_ms <= sim_now() && p->wanted)
        pod_start(p);
    if (p->net == NET_SENT && net_is_connected(p) && p->due_ms <= sim_now())
        serve(p);
    if (p->frozen_until_ms > sim_now())
        return;
    workers_run(p);
    if (p->net == NET_ANSWERED && net_is_connected(p) && p->due_ms <= sim_now())
        take_answer(p);
    model_agent_act(a, sim_now(), sim_wall_us());
    after_act(p);
}

uint64_t pod_next_ms(const struct pod *p)
{
    uint64_t next = UINT64_MAX;

    if (p->wanted)
        earlier(&next, p->restart_ms);
    if (p->net == NET_SENT)
        earlier(&next, latest(p->due_ms, net_connected_ms(p), sim.stalled_until_ms));
    else if (p->net == NET_ANSWERED)
        earlier(&next, latest(p->due_ms, net_connected_ms(p), p->frozen_until_ms));
    if (!net_has_session(p))
        return next;
    if (p->away_since_ms != 0)
        earlier(&next, latest(p->away_until_ms, sim.stalled_until_ms, 0));
    if (p->give_up_ms != 0)
        earlier(&next, latest(p->give_up_ms, sim.stalled_until_ms, 0));
    if (p->net == NET_HELD && p->agent.request == REQUEST_WAIT)
        earlier(&next, latest(p->asked_ms + MODEL_BARRIER_MS, p->frozen_until_ms, 0));
    earlier(&next, latest(model_agent_next_ms(&p->agent), p->frozen_until_ms, 0));
    if (p->training)
        earlier(&next, latest(workers_next_ms(p), p->frozen_until_ms, 0));
    return next;
}
