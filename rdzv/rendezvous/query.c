/* What admin/ asks of runs. See rendezvous.h. */
#include "rdzv/rendezvous/rendezvous.h"

#include <stdio.h>

#include "proto/torch/torch_timing.h"

static const struct run *existing(struct run_view *v)
{
    while (v != NULL && !v->exists)
        v = TAILQ_NEXT(v, order);
    return (const struct run *)(const void *)v;
}

const struct run *rendezvous_first(const struct engine_space *space)
{
    const struct rendezvous_space *home = space->rendezvous;

    return home == NULL ? NULL : existing(TAILQ_FIRST(&home->runs.list));
}

const struct run *rendezvous_next(const struct run *run)
{
    return existing(TAILQ_NEXT(&run->view, order));
}

const struct run *rendezvous_find(const struct engine_space *space, struct slice id)
{
    const struct rendezvous_space *home = space->rendezvous;
    const size_t prefix = strlen(TORCH_RUN_PREFIX);
    uint8_t *key = NULL;
    struct run_view *v;

    if (home != NULL)
        key = account_request(ACCOUNT_ANSWERS, ACCOUNT_SMALL, prefix + id.len);
    if (key == NULL)
        return NULL;
    memcpy(key, TORCH_RUN_PREFIX, prefix);
    if (id.len != 0)
        memcpy(key + prefix, id.ptr, id.len);
    v = run_views_find(&home->runs, (struct slice){key, prefix + id.len});
    account_free(ACCOUNT_ANSWERS, key, prefix + id.len);
    return v != NULL && v->exists ? &live_run_of(v)->run : NULL;
}

static struct live_run *live_of(const struct run *run)
{
    return live_run_of((struct run_view *)(uintptr_t)run);
}

uint64_t rendezvous_forget(const struct run *run)
{
    struct live_run *live = live_of(run);
    uint64_t keys;

    rendezvous_pin(run); /* it stays until its keys are counted */
    live->sweep = 0;     /* now, and all of it */
    driver_step(live, (struct policy_event){.kind = RUN_FORGET});
    keys = live->keys_forgotten;
    rendezvous_unpin(run);
    return keys;
}

const struct conn *rendezvous_conn_of(const struct run *run, const struct torch_node *node)
{
    const struct agent *a = run_agent_of(run, node);

    return a == NULL ? NULL : conn_of(a);
}

void rendezvous_pin(const struct run *run)
{
    if (run != NULL)
        live_of(run)->pins++;
}

void rendezvous_unpin(const struct run *run)
{
    if (run == NULL)
        return;
    live_of(run)->pins--;
    driver_free_if_unused(live_of(run));
}

static struct node_facts agent_facts(const struct run_facts *f, const struct torch_node *node)
{
    const struct agent *a = run_agent_of(f->arg, node);

    if (a == NULL)
        return (struct node_facts){0};
    return (struct node_facts){
        .connected = true, .joined_us = conn_agent_of(a)->joined_us, .ahead_us = a->clock.ahead_us};
}

static const char *agent_peer(const struct run_facts *f, const struct torch_node *node,
                              char text[STATUS_PEER_MAX])
{
    const struct agent *a = run_agent_of(f->arg, node);

    _Static_assert(CONN_PEER_MAX <= STATUS_PEER_MAX, "a peer fits");
    return a == NULL ? NULL : conn_peer(conn_of(a), text);
}

/* A second agent of a node, which has begun as agents do, and is heard of: no clone of the first
 * one's connection, and not one whose place it has taken. */
static bool is_second(const struct agent *a, uint64_t now_ms)
{
    return a->naming == NAMING_SHADOWED && agent_is_introduced(a) &&
           clock_elapsed_ms(a->heard_ms, now_ms) < TORCH_DEAD_MS;
}

static size_t count_unnamed(const struct run *run)
{
    const struct agent *a;
    size_t count = 0;

    TAILQ_FOREACH(a, &run->agents, entry)
        count += a->origin == ORIGIN_UNNAMED;
    return count;
}

/* Until the sessions end of which no relay has said anything. */
static uint64_t awaited_ms(const struct live_run *live)
{
    const struct rendezvous *r = live->home->rdzv;
    uint64_t waited_ms = clock_elapsed_ms(r->restored_ms, engine_lived_ms(r->engine));
    uint64_t most_ms = r->config->session_timeout_ms;

    if (live->run.start != START_AWAITED)
        return 0;
    return most_ms > waited_ms ? most_ms - waited_ms : 1;
}

static void find_doubled(const struct run *run, uint64_t now_ms, struct run_facts *out)
{
    char text[CONN_PEER_MAX];
    const struct agent *a;

    TAILQ_FOREACH(a, &run->agents, entry) {
        if (!is_second(a, now_ms))
            continue;
        out->doubled = &a->node;
        snprintf(out->doubled_peer, sizeof out->doubled_peer, "%s", conn_peer(conn_of(a), text));
        return;
    }
}

void rendezvous_facts(const struct run *run, struct run_facts *out)
{
    const struct live_run *live = live_of(run);

    *out = (struct run_facts){.backend = BACKEND_C10D,
                              .view = &run->view,
                              .history = &live->history,
                              .now_us = engine_wall_ns(live->home->rdzv->engine) / 1000,
                              .failed = run->failed,
                              .ends_failed = run->settings->end_failed_runs,
                              .expected = run->settings->expected_nodes,
                              .agents = run->agent_count,
                              .agents_waiting = run->held[HELD_REJOIN],
                              .agents_unnamed = count_unnamed(run),
                              .awaited_ms = awaited_ms(live),
                              .look = agent_facts,
                              .peer = agent_peer,
                              .arg = run};
    find_doubled(run, driver_lived_ms(live->home->rdzv), out);
}
