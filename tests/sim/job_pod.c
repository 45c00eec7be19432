/* Pods and their jobs. See job_pod.h. */
#include "tests/sim/job_pod.h"

#include "tests/sim/job_check.h"
#include "tests/sim/job_net.h"

#define WORKERS_MS 2000 /* how long workers load torch before they come */

/* --- Begin and end. --- */

static void leave_world(struct pod *p)
{
    if (!p->training)
        return;
    p->training = false;
    p->break_ms = 0;
    for (size_t i = 0; i < p->job->pod_count; i++) {
        struct pod *other = &p->job->pods[i];

        if (other->training && other->world == p->world && other->break_ms == 0)
            other->break_ms = sim_now() + 1000 + sim_draw(7000);
    }
}

void pod_end(struct pod *p, uint64_t notice_ms)
{
    leave_world(p);
    net_orphan(p->link, notice_ms, 0);
    p->link = NULL;
    net_clear(p);
    model_agent_stop(&p->agent);
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

    if (!wrong || relays_return || !sim.space.settings.agent_views ||
        !sim.space.settings.merge_heartbeats)
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
    p->reachable_since_ms = sim_now();
    model_agent_start(&p->agent, &job->settings, p->name, 100, clock_us, first_ms);
    sim_tell("%s/%s starts, its clock %+.1f s", job->run->key, p->name, (double)clock_us / 1e6);
}

/* --- Jobs. --- */

void job_scale_up(struct job *job)
{
    if (job->pod_count == PODS)
        return;
    pod_start(&job->pods[job->pod_count++]);
}

void job_close(struct job *job)
{
    sim_tell("%s is done", job->run->key);
    for (size_t i = 0; i < job->pod_count; i++) {
        job->pods[i].agent.wants_close = true;
        if (sim_draw(4) == 0)
            job->pods[i].wanted = false;
    }
    job->again_ms = sim_now() + sim_draw(15000);
}

void job_begin_again(struct job *job)
{
    sim_tell("%s begins again", job->run->key);
    job->again_ms = 0;
    for (size_t i = 0; i < job->pod_count; i++)
        pod_start(&job->pods[i]);
}

/* --- Its requests. --- */

/* It is a participant again by the request that it makes: it was taken for dead, and the round that
 * it was in goes on. */
static bool is_put_back(const struct pod *p)
{
    const struct agent *a = &p->link->agent;

    return a->nodes != 0 && a->round == p->job->run->run.view.state.round;
}

/* Another one that trains, as far as the daemon can know; NULL: none does. `*dead`: one is taken
 * for dead, and goes on in vain. */
static const struct pod *who_trains_on(const struct job *job, const struct pod *p, bool *dead)
{
    for (size_t i = 0; i < job->pod_count; i++) {
        const struct pod *other = &job->pods[i];

        if (other == p || other->link == NULL || !other->training || other->agent.errs ||
            other->agent.phase != MODEL_TRAINING ||
            (other->link->agent.nodes == 0 && other->link->bound))
            continue;
        if (!other->link->agent.gone)
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

    if (!run->close_waits || run->view.state.closed)
        return;
    job->may_close = may || (job->close_waits && job->may_close);
    job->close_waits = true;
    job->asked_in = round;
    job->asked_of = torch_state_participants(&run->view.state);
}

void job_note_close(struct job *job)
{
    const struct run *run = &job->run->run;
    bool was_closed = job->is_closed, dead = false;
    const struct pod *other;

    job->is_closed = run->view.state.closed;
    if (!job->close_waits || run->close_waits)
        return;
    job->close_waits = false;
    other = who_trains_on(job, NULL, &dead);
    if (job->is_closed && !was_closed) {
        if (other != NULL && !job->may_close)
            sim_fail("who may not has closed the run of %s", other->name);
        if (job->again_ms == 0)
            job_close(job);
    } else if (!job->is_closed && job->may_close && run->view.state.complete &&
               run->view.state.round == job->asked_in &&
               torch_state_participants(&run->view.state) >= job->asked_of) {
        sim_fail("who may has not closed the run");
    }
}

/* The node of its name is its own, and not its predecessor's. */
static bool is_its_own(const struct pod *p)
{
    return p->link->agent.has_node || (!p->link->bound && p->memo.len != 0);
}

/* An agent that ends by an error of its own wants to close the run: only one that is in the newest
 * round may do that to another one that trains, also while that one has yet to come back after a
 * start of the daemon. */
static void close_run(struct pod *p, struct slice expected, struct slice desired)
{
    const struct run_view *v = &p->job->run->run.view;
    const struct torch_node who = {.addr = slice_str(p->name), .pid = 100};
    const struct torch_node *node = torch_state_find(&v->state, &who);
    bool may = v->state.closed || !sim.space.settings.close_from_members ||
               (v->state.complete &&
                ((node != NULL && node->participant && is_its_own(p)) || is_put_back(p)));
    bool dead = false;
    const struct pod *other = may ? NULL : who_trains_on(p->job, p, &dead);
    int64_t round = v->state.round;

    model_compare_set(p->link, expected, desired);
    note_waiting_close(p->job, may, round);
    if (other != NULL && v->state.closed)
        sim_fail("%s closed the run of %s", p->name, other->name);
    if (other != NULL)
        return;
    if ((may || dead) && v->state.closed && p->job->again_ms == 0)
        job_close(p->job); /* who trains still, in this round or before it, has nothing to join */
}

/* A request comes to the daemon. */
static void serve(struct pod *p)
{
    struct model_agent *a = &p->agent;
    struct slice expected;

    p->net = NET_HELD; /* until it is answered */
    p->is_known = true;
    switch (a->request) {
    case REQUEST_COMPARE_SET:
        expected = (struct slice){a->token, a->token_len};
        if (a->phase == MODEL_INTRODUCING)
            model_compare_set(p->link, (struct slice){0}, (struct slice){a->text, a->text_len});
        else if (a->phase == MODEL_CLOSING && a->errs)
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
    case REQUEST_NONE:
        sim_fail("%s asks for nothing", p->name);
    }
}

/* --- Its workers. --- */

static void enter_world(struct pod *p)
{
    p->training = true;
    p->world = p->job->run->incarnation << 32 | (uint64_t)p->agent.round;
    p->worker_store = 0;
    p->break_ms = 0;
    sim_tell("%s trains: round %" PRId64 " rank %" PRId64 " at %s:%s", p->name, p->agent.round,
             p->agent.rank, p->agent.address, p->agent.port);
    check_world(p);
}

/* By what its agent has seen last. */
static bool is_in_round(const struct pod *p)
{
    const struct torch_node who = {.addr = slice_str(p->name), .pid = 100};
    const struct torch_node *own = torch_state_find(&p->agent.state, &who);

    return own != NULL && own->participant;
}

/* Its workers come to the worker store that there is for new sessions. When a network comes back,
 * they may be there before their agent learns that its round is over, and no store can tell them
 * from those of the new round; here the agent is first. */
static void connect_workers(struct pod *p)
{
    const struct view_record *record = &p->job->run->run.view.record;

    if (p->worker_store != 0 || record->placement != WORKER_STORE_RDZVD || !is_in_round(p) ||
        sim_now() - p->agent.entered_ms < WORKERS_MS || !net_is_reachable(p) ||
        net_reachable_for(p) < WORKERS_MS)
        return;
    p->worker_store = record->worker_store;
    check_world(p);
}

/* Its workers meet, or their collective fails: an agent that is a participant may be gone. */
static void check_mates(struct pod *p)
{
    size_t mates = 0;

    for (size_t i = 0; i < p->job->pod_count; i++)
        mates += p->job->pods[i].training && p->job->pods[i].world == p->world;
    if (p->break_ms == 0 && !p->agent.workers_failed && sim_now() - p->agent.entered_ms > 8000 &&
        mates < torch_state_participants(&p->job->run->run.view.last_completed) &&
        p->world ==
            (p->job->run->incarnation << 32 | (uint64_t)p->job->run->run.view.last_completed.round))
        p->break_ms = sim_now() + 1;
}

/* --- What is due. --- */

static void after_act(struct pod *p)
{
    struct model_agent *a = &p->agent;

    if (p->training && a->phase != MODEL_TRAINING)
        leave_world(p);
    if (!p->training && a->phase == MODEL_TRAINING)
        enter_world(p);
    if (p->training) {
        connect_workers(p);
        check_mates(p);
    }
    if (a->phase == MODEL_FAILED && p->restart_ms == 0) {
        sim_tell("%s failed: %s", p->name, a->failure);
        check_failure(p);
        leave_world(p);
        net_orphan(p->link, 0, 0);
        p->link = NULL;
        net_clear(p);
        p->restart_ms = sim_now() + 500 + sim_draw(2500);
    }
    if (a->phase == MODEL_DONE && p->link != NULL) {
        leave_world(p);
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
    if (p->break_ms != 0 && p->break_ms <= sim_now() && a->phase == MODEL_TRAINING) {
        sim_tell("%s: its workers fail", p->name);
        a->workers_failed = true;
        a->next_ms = sim_now();
        p->break_ms = 0;
    }
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
    if (p->net == NET_IDLE)
        earlier(&next, latest(p->agent.next_ms, p->frozen_until_ms, 0));
    if (p->break_ms != 0)
        earlier(&next, latest(p->break_ms, p->frozen_until_ms,
                              p->net == NET_SENT ? sim.stalled_until_ms : 0));
    return next;
}
