/* Between agents and the daemon. See job_net.h. */
#include "tests/sim/job_net.h"

#include <stdlib.h>

bool net_is_reachable(const struct pod *p)
{
    return p->frozen_until_ms <= sim_now() && p->cut_until_ms <= sim_now() &&
           p->away_until_ms <= sim_now() && sim.stalled_until_ms <= sim_now();
}

uint64_t net_reachable_for(const struct pod *p)
{
    uint64_t since = p->reachable_since_ms;
    const uint64_t ends[] = {p->frozen_until_ms, p->cut_until_ms, p->away_until_ms,
                             sim.stalled_until_ms};

    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        since = ends[i] > since ? ends[i] : since;
    return sim_now() - since;
}

uint64_t net_connected_ms(const struct pod *p)
{
    return latest(p->cut_until_ms, p->away_until_ms, 0);
}

bool net_is_connected(const struct pod *p)
{
    return net_connected_ms(p) <= sim_now();
}

bool net_has_session(const struct pod *p)
{
    return p->link != NULL || p->away_since_ms != 0;
}

/* --- Requests and answers. --- */

void net_clear(struct pod *p)
{
    free(p->answer);
    p->answer = NULL;
    p->net = NET_IDLE;
}

void net_disconnect(struct pod *p, const char *reason)
{
    sim_tell("%s is closed: %s", p->name, reason);
    net_clear(p);
    p->away_since_ms = p->give_up_ms = 0;
    p->agent.request = REQUEST_NONE;
    p->agent.phase = MODEL_FAILED;
    p->agent.failure = reason;
}

void net_on_reply(struct model_link *link, struct slice value)
{
    struct pod *p = link->owner;

    if (p == NULL)
        return;
    if (p->agent.phase == MODEL_TRAINING)
        sim_tell("  %s is answered", p->name);
    free(p->answer);
    p->answer = malloc(value.len + 1);
    if (p->answer == NULL)
        abort();
    if (value.len != 0)
        memcpy(p->answer, value.ptr, value.len);
    p->answer_len = value.len;
    p->answer_absent = value.ptr == NULL;
    p->net = NET_ANSWERED;
    p->due_ms = sim_now() + sim_draw(LATENCY_MS);
}

void net_on_resume(struct model_link *link)
{
    struct pod *p = link->owner;

    if (p == NULL)
        return;
    p->net = NET_SENT;
    p->due_ms = sim_now();
}

void net_answer_waits(struct job *job)
{
    for (size_t i = 0; i < job->pod_count; i++) {
        struct pod *p = &job->pods[i];
        const struct model_agent *a = &p->agent;

        if (p->net != NET_HELD || a->request != REQUEST_WAIT || p->link == NULL)
            continue;
        if (model_has_key(job->run, a->round, a->name_of_key))
            net_on_reply(p->link, slice_str("set"));
        else if (sim_now() - p->asked_ms >= MODEL_BARRIER_MS)
            net_on_reply(p->link, (struct slice){0});
    }
}

/* rdzvd ends the connection at once, also if the agent is frozen, or if its relay is lost. */
void net_on_close(struct model_link *link, const char *reason)
{
    struct pod *p = link->owner;

    for (size_t i = 0; i < sim.orphan_count; i++) {
        if (sim.orphans[i].link == link)
            sim.orphans[i].until_ms = sim_now();
    }
    if (p == NULL)
        return;
    net_disconnect(p, reason);
    net_orphan(link, 0, 0);
    p->link = NULL;
}

/* --- Relays. --- */

/* Its relay has found the daemon again, which knows the session, or has ended it meanwhile. */
static void end_away(struct pod *p)
{
    p->away_since_ms = p->give_up_ms = 0;
    if (p->link != NULL)
        model_presence(p->link, AGENT_BACK);
    else
        net_disconnect(p, CONNECTION_LOST);
}

void net_run_relay(struct pod *p)
{
    if (p->away_since_ms == 0 || sim.stalled_until_ms > sim_now())
        return;
    if (p->away_until_ms <= sim_now()) {
        end_away(p);
    } else if (p->give_up_ms != 0 && p->give_up_ms <= sim_now()) {
        sim_tell("%s is taken for dead", p->name);
        p->give_up_ms = 0;
        if (p->link != NULL)
            model_presence(p->link, AGENT_GONE);
    }
}

void net_end_sessions(void)
{
    for (size_t k = 0; k < sim.job_count; k++) {
        for (size_t i = 0; i < sim.jobs[k].pod_count; i++) {
            struct pod *p = &sim.jobs[k].pods[i];

            if (p->away_since_ms == 0 || p->link == NULL ||
                sim_now() - p->away_since_ms < SESSION_MS)
                continue;
            sim_tell("the session of %s has ended", p->name);
            model_link_free(p->link);
            p->link = NULL;
        }
    }
}

/* --- Connections without a peer. --- */

void net_orphan(struct model_link *link, uint64_t after_ms, uint64_t give_up_ms)
{
    if (link == NULL)
        return;
    if (sim.orphan_count == sizeof sim.orphans / sizeof *sim.orphans)
        sim_fail("too many connections without a peer");
    link->owner = NULL;
    sim.orphans[sim.orphan_count++] = (struct orphan){link, sim_now() + after_ms, give_up_ms};
}

void net_end_orphans(bool all)
{
    for (size_t i = 0; i < sim.orphan_count;) {
        struct orphan *o = &sim.orphans[i];

        if (!all && o->until_ms > sim_now()) {
            if (o->give_up_ms != 0 && o->give_up_ms <= sim_now()) {
                o->give_up_ms = 0;
                model_presence(o->link, AGENT_GONE);
            }
            i++;
            continue;
        }
        model_link_free(o->link);
        sim.orphans[i] = sim.orphans[--sim.orphan_count];
    }
}
