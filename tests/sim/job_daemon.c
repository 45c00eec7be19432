/* The daemon stands still, ends, and begins anew. See job_daemon.h. */
#include "tests/sim/job_daemon.h"

#include "tests/sim/job_check.h"
#include "tests/sim/job_fault.h"
#include "tests/sim/job_net.h"
#include "tests/sim/job_pod.h"

#define STALL_LEAST 2000 /* ENGINE_PAUSE_MS */
#define LINKS_MAX   (MODEL_RUNS * PODS + ORPHANS_MAX)

/* Of nodes that are at rest, a stall costs none its place; nor does an end of the daemon, if relays
 * keep their agents. */
static void note_rest(void)
{
    sim.was_at_rest = all_at_rest();
    sim.rounds_before = sim.space.counters.rounds_completed;
    sim.closes_before = sim.space.counters.runs_closed;
}

void daemon_stall(void)
{
    uint64_t ms = 500 + sim_draw(40000);

    sim_tell("rdzvd stands still for %" PRIu64 " ms", ms);
    note_rest();
    sim.stalled_since_ms = sim_now();
    sim.stalled_until_ms = sim_now() + ms;
    model_stall(&sim.space);
}

/* --- It ends. --- */

static size_t all_links(struct model_link *links[LINKS_MAX])
{
    size_t n = 0;

    for (size_t k = 0; k < sim.job_count; k++) {
        for (size_t i = 0; i < sim.jobs[k].pod_count; i++) {
            if (sim.jobs[k].pods[i].link != NULL)
                links[n++] = sim.jobs[k].pods[i].link;
        }
    }
    for (size_t i = 0; i < sim.orphan_count; i++)
        links[n++] = sim.orphans[i].link;
    sim.orphan_count = 0;
    return n;
}

static bool is_to_return(const struct model_link *link)
{
    return link->bound && sim.jobs[link->run - sim.space.runs].relays_return;
}

/* What the next daemon knows of its sessions. */
static void note_sessions(struct model_link *const *links, size_t count)
{
    bool any = false, lost = false;

    for (size_t i = 0; i < count; i++) {
        any = any || is_to_return(links[i]);
        lost = lost || (links[i]->owner == NULL && is_to_return(links[i]));
    }
    sim.agents_return = any || (sim.agents_return && sim.returned_ms != 0);
    sim.sessions_lost = lost || (sim.sessions_lost && sim.returned_ms != 0);
}

static void note_memos(void)
{
    for (size_t k = 0; k < sim.job_count; k++) {
        for (size_t i = 0; i < sim.jobs[k].pod_count; i++) {
            struct pod *p = &sim.jobs[k].pods[i];

            if (p->link != NULL)
                p->memo = p->link->memo;
        }
    }
}

/* The pod has lost its connections to the daemon that ended; an agent behind a relay gets a new
 * one. */
static void reconnect(struct pod *p)
{
    bool pings = p->job->settings.sharing != SHARING_OLD;

    if (p->link == NULL)
        return;
    p->link = NULL;
    if (!p->job->relays_return) {
        pod_lose_connection(p);
        return;
    }
    p->link = p->is_known ? model_link_again(p->job->run, p, pings, &p->memo)
                          : model_link_new(p->job->run, p, pings, true);
    if (p->away_since_ms != 0)
        p->away_since_ms = sim.stalled_until_ms;
    p->give_up_ms = 0;
    if (p->net == NET_HELD || p->net == NET_SENT) {
        p->net = NET_SENT;
        p->due_ms = sim.stalled_until_ms + sim_draw(2000);
    }
}

void daemon_end(void)
{
    bool killed = sim_draw(2) == 0;
    uint64_t ms = sim_draw(2) == 0 ? sim_draw(1000) : sim_draw(20000);
    struct model_link *links[LINKS_MAX];
    size_t count = all_links(links);

    sim_tell("rdzvd %s, for %" PRIu64 " ms", killed ? "is killed" : "ends", ms);
    note_rest();
    note_sessions(links, count);
    note_memos();
    model_end(&sim.space, links, count, killed);
    sim.has_ended = true;
    sim.stalled_since_ms = sim_now();
    sim.stalled_until_ms = sim_now() + ms;
    for (size_t k = 0; k < sim.job_count; k++) {
        sim.was_at_rest = sim.was_at_rest && sim.jobs[k].relays_return;
        sim.jobs[k].close_waits = false; /* it has forgotten that */
        for (size_t i = 0; i < sim.jobs[k].pod_count; i++)
            reconnect(&sim.jobs[k].pods[i]);
    }
}

/* --- It goes on. --- */

static void end_stall(void)
{
    uint64_t ms = sim_now() - sim.stalled_since_ms;

    if (sim.stalled_since_ms == 0 || sim.stalled_until_ms > sim_now())
        return;
    sim.stalled_since_ms = 0;
    if (sim.has_ended) {
        sim.has_ended = false;
        sim.returned_ms = sim.agents_return ? sim_now() + SESSION_MS : 0;
        model_begin_again(&sim.space, ms, sim.agents_return);
        for (size_t k = 0; k < sim.job_count; k++) /* each counts anew */
            sim.jobs[k].completions = sim.jobs[k].run->run.view.completions;
    } else {
        model_stalled(&sim.space, ms >= STALL_LEAST ? ms : 0);
    }
}

static bool is_missing(const struct model_link *link)
{
    return link != NULL && link->agent.origin == ORIGIN_UNNAMED && !link->bound;
}

/* Of an agent it is known as soon as it asks for something. */
static bool is_any_missing(void)
{
    for (size_t k = 0; k < sim.job_count; k++) {
        for (size_t i = 0; i < sim.jobs[k].pod_count; i++) {
            if (is_missing(sim.jobs[k].pods[i].link))
                return true;
        }
    }
    for (size_t i = 0; i < sim.orphan_count; i++) {
        if (is_missing(sim.orphans[i].link))
            return true;
    }
    return sim.sessions_lost;
}

static void note_returned(void)
{
    if (sim.returned_ms == 0 || (sim.returned_ms > sim_now() && is_any_missing()))
        return;
    sim.returned_ms = 0;
    sim.sessions_lost = false;
    model_returned(&sim.space);
}

/* A poll is held for a time. */
static bool is_any_held(void)
{
    for (size_t k = 0; k < sim.job_count; k++) {
        const struct run *run = &sim.jobs[k].run->run;

        if (run->held[HELD_GATHERED] + run->held[HELD_SHIFTED] != 0)
            return true;
    }
    return false;
}

void daemon_run(void)
{
    end_stall();
    if (sim.stalled_until_ms > sim_now())
        return;
    if (sim.orders_end)
        fault_take_back_orders();
    net_end_orphans(false);
    net_end_sessions();
    model_run_due(&sim.space);
    if (sim.tick_ms <= sim_now()) {
        note_returned();
        model_tick(&sim.space);
        sim.tick_ms = sim_now() + 1000;
    }
    if (is_any_held() && sim.tick_ms > sim_now() + 200)
        sim.tick_ms = sim_now() + 200;
}
