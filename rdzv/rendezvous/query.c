/* What admin/ asks of runs. See rendezvous.h. */
#include "rdzv/rendezvous/rendezvous.h"

struct run_view *rendezvous_next(const struct engine_space *space, const struct run_view *v)
{
    const struct rendezvous_space *home = space->rendezvous;

    return v != NULL ? TAILQ_NEXT(v, order) : home != NULL ? TAILQ_FIRST(&home->runs.list) : NULL;
}

struct run_view *rendezvous_find(const struct engine_space *space, struct slice id)
{
    const struct rendezvous_space *home = space->rendezvous;
    uint8_t key[RUN_RECORD_KEY_MAX];
    struct run_view *v = NULL;

    if (home != NULL)
        v = run_views_find(&home->runs, run_record_key(TORCH_RUN_PREFIX, id, key));
    return v != NULL && v->exists ? v : NULL;
}

void rendezvous_unpin(struct run_view *v)
{
    v->pins--;
    driver_free_if_unused(live_run_of(v));
}

bool rendezvous_forget_ended(const struct engine_space *space, struct slice id)
{
    return space->rendezvous != NULL &&
           driver_keep_hosts(space->rendezvous, id, (struct slice){0}, 0);
}

uint64_t rendezvous_forget(struct run_view *v)
{
    struct live_run *live = live_run_of(v);
    uint64_t keys;

    v->pins++;       /* it stays until its keys are counted */
    live->sweep = 0; /* now, and all of it */
    driver_end_run(live, "forgotten", "an operator has forgotten it",
                   engine_wall_ns(live->home->rdzv->engine) / 1000);
    rendezvous_forget_ended(live->home->space, v->id);
    driver_step(live, (struct policy_event){.kind = RUN_FORGET});
    keys = live->keys_forgotten;
    rendezvous_unpin(v);
    return keys;
}

/* --- How a run stands. --- */

static struct node_facts look_at_agent(const struct run_facts *f, const struct torch_node *node)
{
    const struct agent *a = run_agent_of(f->run, node);

    if (a == NULL)
        return (struct node_facts){0};
    return (struct node_facts){.connected = true,
                               .lives = c10d_waits(conn_of(a)) || agent_is_held(a) ||
                                        clock_elapsed_ms(a->heard_ms, f->lived_ms) < TORCH_DEAD_MS,
                               .conn = conn_of(a),
                               .joined_us = conn_agent_of(a)->joined_us,
                               .ahead_us = a->clock.ahead_us};
}

/* The log says which relay serves several runs: to look for that here would compare all agents. */
static bool is_elsewhere(const struct agent *a, const struct run *run)
{
    return !a->relayed && run->endpoint.own_port != 0 && a->local_host != NULL &&
           run->view.record.placement == WORKER_STORE_RDZVD &&
           run->settings->advertise_host == NULL &&
           !slice_is(run->view.record.address, a->local_host) &&
           !effects_reaches_workers(conn_agent_of(a));
}

/* Counts unnamed agents. Finds an agent that is elsewhere, and a node that two agents live with:
 * one began as torch's agents do and sent a request of late, another one counts for the node. */
static void look_at_all_agents(const struct run *run, struct run_facts *out)
{
    AGENTS_FOREACH(a, &run->agents) {
        bool lives = a->naming == NAMING_SHADOWED && agent_is_introduced(a) &&
                     clock_elapsed_ms(a->heard_ms, out->lived_ms) < TORCH_DEAD_MS;
        const struct agent *listed = lives ? run_agent_of(run, &a->node) : NULL;

        out->agents_unnamed += a->origin == ORIGIN_UNNAMED;
        if (is_elsewhere(a, run))
            out->elsewhere = a;
        if (out->doubled != NULL || listed == NULL)
            continue;
        out->doubled = &a->node;
        conn_peer(conn_of(listed), out->doubled_peers[0]);
        conn_peer(conn_of(a), out->doubled_peers[1]);
    }
}

/* Until the sessions end of which no relay has said anything. */
static uint64_t awaited_ms(const struct live_run *live)
{
    const struct rendezvous *r = live->home->rdzv;
    uint64_t past_ms = clock_elapsed_ms(r->restored_ms, engine_lived_ms(r->engine));

    if (live->run.start != START_AWAITED)
        return 0;
    return r->config->session_timeout_ms > past_ms ? r->config->session_timeout_ms - past_ms : 1;
}

bool rendezvous_facts(struct run_view *v, struct run_facts *out)
{
    const struct live_run *live = live_run_of(v);
    const struct rendezvous *r = live->home->rdzv;

    *out = (struct run_facts){.view = v,
                              .run = &live->run,
                              .history = &live->history,
                              .settings = &r->settings,
                              .now_us = engine_wall_ns(r->engine) / 1000,
                              .lived_ms = driver_lived_ms(r),
                              .left_us = live->left_us,
                              .expected = r->settings.expected_nodes,
                              .awaited_ms = awaited_ms(live),
                              .look = look_at_agent};
    look_at_all_agents(&live->run, out);
    return v->exists;
}
