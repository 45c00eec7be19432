/* Faults of agents, hosts, relays, networks, the daemon, and users. See job_fault.h. */
#include "tests/sim/job_fault.h"

#include "tests/sim/job_daemon.h"
#include "tests/sim/job_net.h"
#include "tests/sim/job_pod.h"
#include "tests/sim/job_workers.h"

#define GONE_MS 30000 /* when the daemon notices that a host is gone */

static struct pod *any_pod(bool alive)
{
    struct job *job = &sim.jobs[sim_draw(sim.job_count)];
    struct pod *p = &job->pods[sim_draw(job->pod_count)];

    return model_agent_is_alive(&p->agent) == alive ? p : NULL;
}

/* The relay ends, and nobody else knows of its sessions. Its kernel closes the link, or is gone. */
static void lose_relay(struct pod *p)
{
    bool closes = sim_draw(2) == 0;

    sim_tell("%s loses its relay%s", p->name, closes ? ", which closes its link" : "");
    if (p->link != NULL && p->away_since_ms == 0)
        model_presence(p->link, AGENT_AWAY);
    net_orphan(p->link, SESSION_MS,
               closes && p->away_since_ms == 0 ? sim_now() + RETURN_MS : p->give_up_ms);
    p->link = NULL;
}

static void crash(struct pod *p)
{
    bool comes_back = sim_draw(2) == 0;

    sim_tell("%s crashes%s", p->name, comes_back ? "" : ", for good");
    if (p->job->has_relays && sim_draw(2) == 0)
        lose_relay(p);
    pod_end(p, sim_draw(3) == 0 ? GONE_MS : sim_draw(20));
    p->wanted = comes_back;
    p->restart_ms = sim_now() + 500 + sim_draw(20000);
}

static void freeze(struct pod *p)
{
    uint64_t ms = 1000 + sim_draw(30000);

    sim_tell("%s is frozen for %" PRIu64 " ms", p->name, ms);
    p->frozen_until_ms = sim_now() + ms;
}

static void cut(struct pod *p)
{
    uint64_t ms = 1000 + sim_draw(30000);

    sim_tell("%s is cut off for %" PRIu64 " ms", p->name, ms);
    p->cut_until_ms = sim_now() + ms;
}

static uint64_t any_absence_ms(void)
{
    switch (sim_draw(6)) {
    case 0:
        return SESSION_MS + sim_draw(10000);
    case 1:
    case 2:
        return 100 + sim_draw(2 * RETURN_MS);
    default:
        return 100 + sim_draw(30000);
    }
}

/* The relay and the daemon lose each other: mostly for less than the daemon keeps sessions. */
static void lose_daemon(struct pod *p)
{
    uint64_t ms = any_absence_ms();
    bool closes = sim_draw(2) == 0;

    if (p->away_since_ms != 0 || p->link == NULL)
        return;
    sim_tell("%s's relay %s for %" PRIu64 " ms", p->name, closes ? "closes its link" : "is away",
             ms);
    model_presence(p->link, AGENT_AWAY);
    p->away_since_ms = sim_now();
    p->away_until_ms = sim_now() + ms;
    p->give_up_ms = closes ? sim_now() + RETURN_MS : 0;
    if (p->net == NET_HELD)
        p->net = NET_SENT; /* again */
}

static void fail_relay(struct pod *p)
{
    if (sim_draw(3) == 0) {
        lose_relay(p);
        pod_lose_connection(p);
    } else {
        lose_daemon(p);
    }
}

static void err(struct pod *p)
{
    sim_tell("%s ends by an error of its own", p->name);
    p->agent.errs = true;
}

/* The agents of a run are ended with it, as far as they have asked since the daemon began. */
static void forget_job(struct job *job)
{
    for (size_t i = 0; i < job->pod_count; i++) {
        if (job->relays_return && net_has_session(&job->pods[i]) &&
            (job->pods[i].link == NULL || !job->pods[i].link->bound))
            return;
    }
    sim_tell("%s is forgotten on request", job->run->key);
    model_forget(job->run);
}

/* --- Orders of an operator. --- */

static void order_all(bool evicts)
{
    sim.ordered_ms = sim_now();
    for (size_t k = 0; k < sim.job_count; k++)
        model_order(sim.jobs[k].run, RUN_ORDER_KEEP_OUT, evicts);
}

static void cordon(const struct pod *p, bool evicts)
{
    sim_tell("an operator %s %s", evicts ? "evicts" : "cordons", p->name);
    sim.cordons[0] = (char *)(uintptr_t)p->name;
    sim.space.cordons = (struct cordons){.count = 1, .patterns = sim.cordons};
    order_all(evicts);
}

static void end_drain(void)
{
    if (sim.space.cordons.count == 0)
        return;
    sim_tell("the drain of %s ends", sim.cordons[0]);
    order_all(true);
}

static void set_rules(struct job *job)
{
    struct model_run *run = job->run;

    run->has_rules = true;
    run->rules = (struct run_rules){.nodes_multiple = sim_draw(4),
                                    .group = sim.space.settings.rules.group,
                                    .grow_interval_ms = sim_draw(3) == 0 ? sim_draw(10000) : 0};
    sim_tell("an operator gives %s the rules multiple %" PRIu64 ", grow %" PRIu64, run->key,
             run->rules.nodes_multiple, run->rules.grow_interval_ms);
    sim.ordered_ms = sim_now();
    model_order(run, RUN_ORDER_KEEP_OUT, false);
}

static bool is_cordoned(const struct pod *p)
{
    return cordons_have(&sim.space.cordons, slice_str(p->name));
}

/* Enough nodes are left. */
void fault_strike(struct model_run *run, const char *host)
{
    const struct job *job = &sim.jobs[run - sim.space.runs];
    size_t count = sim.space.cordons.count, left = 0;

    for (size_t i = 0; count < PODS && i < job->pod_count; i++) {
        if (strcmp(job->pods[i].name, host) == 0)
            sim.cordons[count++] = (char *)(uintptr_t)job->pods[i].name;
    }
    sim_tell("a rule cordons %s", host);
    sim.space.cordons = (struct cordons){.count = count, .patterns = sim.cordons};
    for (size_t i = 0; i < job->pod_count; i++)
        left += (model_agent_is_alive(&job->pods[i].agent) || job->pods[i].link != NULL) &&
                !is_cordoned(&job->pods[i]);
    left += sim.orphan_count; /* rdzvd has not noticed that they are gone, nor of a link above */
    if (left < job->settings.min_nodes && sim.has_faults)
        sim_fail("%s is cordoned, and %zu nodes are left", host, left);
    sim.orders_end = sim.faults_left == 0;
    order_all(false);
}

/* Agents of torch before 2.3 cannot wait outside. */
static void hold(struct job *job)
{
    const struct run_view *v = &job->run->run.view;

    if (!v->is_state || v->state.closed || !v->state.has_redundancy)
        return;
    job->run->orders.word = ORDER_HOLD;
    job->run->orders.until = sim.fault_count % 2 == 0 ? 0 : 1 + sim.seed % PODS;
    job->run->orders.ends_us =
        sim.has_verbs && sim.fault_count % 3 == 0
            ? sim.space.now.wall_ns / 1000 + (int64_t)(1 + sim.seed % 12) * 1000000
            : 0;
    sim_tell("an operator holds %s until %" PRIu64 " nodes are there, or %" PRId64 " us",
             job->run->key, job->run->orders.until, job->run->orders.ends_us);
    order_all(true);
}

void fault_take_back_orders(void)
{
    sim.orders_end = false;
    sim_tell("an operator takes back all orders, except a close");
    for (size_t k = 0; k < sim.job_count; k++) {
        if (sim.jobs[k].run->orders.word == ORDER_HOLD)
            sim.jobs[k].run->orders.word = ORDER_NONE;
        sim.jobs[k].finishes_alone = false; /* its nodes may meet, while no workers have ended */
        sim.was_at_rest = sim.was_at_rest && !sim.jobs[k].run->has_rules; /* spares may join */
        sim.jobs[k].run->has_rules = false;
    }
    sim.space.cordons.count = 0;
    order_all(true);
}

static void order_any(struct job *job, const struct pod *p)
{
    switch (sim_draw(sim.has_verbs ? 10 : 5)) {
    case 0:
        sim_tell("an operator lets %s meet again", job->run->key);
        model_order(job->run, RUN_ORDER_RESTART, false);
        break;
    case 1:
    case 2:
        if (p != NULL)
            cordon(p, true);
        break;
    case 3:
        hold(job);
        break;
    case 5:
    case 6:
        if (p != NULL)
            cordon(p, false);
        break;
    case 7:
        end_drain();
        break;
    case 8:
    case 9:
        set_rules(job);
        break;
    default:
        fault_take_back_orders();
    }
}

static void note_fault(void)
{
    sim.fault_count++;
    sim.last_fault_ms = sim_now();
    if (--sim.faults_left > 0)
        sim.fault_ms = sim_now() + 200 + sim_draw(sim_draw(2) == 0 ? 2000 : 25000);
    else
        sim.orders_end = sim.has_operator || sim.space.cordons.count != 0;
}

void fault_any(void)
{
    struct job *job = &sim.jobs[sim_draw(sim.job_count)];
    struct pod *p = any_pod(true);

    sim.was_at_rest = false;
    if (sim.has_operator && sim_draw(2) == 0) {
        order_any(job, p);
        note_fault();
        return;
    }
    sim.has_faults = true;
    switch (sim_draw(14)) {
    case 0:
    case 1:
        if (p != NULL)
            crash(p);
        break;
    case 2:
        if (p != NULL)
            freeze(p);
        break;
    case 3:
        if (p != NULL)
            cut(p);
        break;
    case 4:
        if (p != NULL)
            pod_lose_connection(p);
        break;
    case 5:
        if (p != NULL)
            workers_break(p);
        break;
    case 6:
        job_scale_up(job);
        break;
    case 7:
        workers_finish(job);
        break;
    case 8:
        daemon_stall();
        break;
    case 9:
        daemon_end();
        break;
    case 10:
        forget_job(job);
        break;
    case 11:
        if (p != NULL)
            err(p);
        break;
    case 12:
    case 13:
        if (p != NULL && p->job->has_relays)
            fail_relay(p);
        break;
    }
    note_fault();
}
