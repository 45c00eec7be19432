/* Nodes that are taken for dead and are not. Torch evicts a node whose heartbeat is 15 s old, by
 * everybody's own clock, and a node that was evicted never finds out: it goes on alone. */
#include "rdzv/rendezvous/elastic_internal.h"

#define OUTAGE_MS 5000 /* a heartbeat's interval: what is shorter hurts nobody */
/* A heartbeat that is late, and not yet taken for the last one. One of 10 s is usual: agents begin
 * to send them 5 s after a round is complete. */
#define STALE_US 12000000

/* --- The daemon was away. --- */

static void add_time(int64_t *at_us, int64_t more_us)
{
    if (__builtin_add_overflow(*at_us, more_us, at_us))
        *at_us = INT64_MAX;
}

static void move_on(struct elastic_run *er, uint64_t ms)
{
    struct run *run = elastic_store_run(er);
    int64_t us = (int64_t)(ms < INT64_MAX / 1000 ? ms * 1000 : INT64_MAX);
    struct torch_state *state;
    struct store_result result;
    bool ok;

    if (run == NULL || !run->known || run->state.closed || run->state.count == 0)
        return;
    state = &run->state;
    for (size_t i = 0; i < state->count; i++)
        add_time(&state->nodes[i].heartbeat_us, us);
    if (state->has_deadline)
        add_time(&state->deadline_us, us);
    ok = elastic_write(er, state, &result);
    er->rdzv->engine->stats.runs_repaired += ok;
    log_event(ok ? LOG_WARN : LOG_ERROR, ok ? "repaired" : "repair_failed",
              log_str("space", er->home->space->store->name), log_bytes("run", elastic_name(er)),
              log_u64("heartbeats_moved_ms", ms),
              log_str("reason", "rdzvd stood still for so long, and nobody could say it lives"));
}

/* Nobody could write between the last call and now, so exactly that time is given to everybody. A
 * daemon that comes back with a journal calls elastic_make_up_for() itself. */
void elastic_make_up(struct rendezvous *s)
{
    uint64_t now = engine_now_ms(s->engine), gap = s->alive_ms == 0 ? 0 : now - s->alive_ms;

    s->alive_ms = now;
    if (gap >= OUTAGE_MS && elastic_on(s))
        elastic_make_up_for(s, gap);
}

void elastic_make_up_for(struct rendezvous *s, uint64_t gap_ms)
{
    struct rendezvous_space *home;
    struct elastic_run *er;

    TAILQ_FOREACH(home, &s->spaces, entry) {
        TAILQ_FOREACH(er, &home->runs, entry)
            move_on(er, gap_ms);
    }
}

/* --- A node was away. --- */

static void log_restored(const struct elastic_run *er, const struct agent *a, const char *what,
                         const char *why)
{
    char name[ELASTIC_NAME_MAX], peer[CONN_PEER_MAX];

    er->rdzv->engine->stats.runs_repaired++;
    log_event(LOG_WARN, "repaired", log_str("space", er->home->space->store->name),
              log_bytes("run", elastic_name(er)),
              log_str("node", elastic_node_name(&a->node, name)),
              log_str("peer", conn_peer(a->conn, peer)), log_i64("round", a->round),
              log_str("done", what), log_str("reason", why));
}

/* The node itself asks, so it lives, however old the heartbeat is that it left behind: torch would
 * have it take itself for dead when it sees that. */
static void revive(struct agent *a, struct run *run, struct torch_node *node, int64_t now_us)
{
    int64_t before = node->heartbeat_us;
    struct store_result result;

    if (!node->has_heartbeat || before >= now_us - STALE_US)
        return;
    node->heartbeat_us = now_us;
    if (elastic_write(a->run, &run->state, &result))
        log_restored(a->run, a, "has a heartbeat again", "it was away, and it lives");
    else
        node->heartbeat_us = before;
}

/* Whether the writer would name it: one that could not be written once has lost all it had. */
static bool is_named(const struct torch_node *node)
{
    return node->participant || node->waiting || node->redundant || node->has_heartbeat;
}

/* Its round goes on without it: it belongs in there, with the rank that it has. Another round has
 * begun since: as one who waits it makes everybody, itself too, meet again. And if no place is left
 * there, its connection ends, and with it the agent, which whoever runs it starts anew. */
void elastic_restore(struct agent *a)
{
    struct elastic_run *er = a->run;
    struct run *run = elastic_store_run(er);
    struct torch_node back = a->node, *at;
    const struct torch_node *then;
    struct torch_state *state;
    struct store_result result;

    if (run == NULL || !run->known || run->state.closed || !a->has_node ||
        __builtin_add_overflow(engine_wall_ns(er->rdzv->engine) / 1000, a->ahead_us,
                               &back.heartbeat_us))
        return;
    state = &run->state;
    at = torch_state_find(state, &a->node);
    if (at != NULL && is_named(at)) {
        revive(a, run, at, back.heartbeat_us);
        return;
    }
    if (!state->complete || a->world == 0)
        return;
    back.participant = back.waiting = back.redundant = false;
    back.has_heartbeat = true;
    if (state->round == a->round) {
        then = torch_state_find(&run->world_then, &a->node);
        if (then == NULL || !then->participant)
            return;
        back.participant = true;
        back.rank = then->rank;
    } else if (er->full && torch_state_participants(state) >= a->world) {
        conn_drop(a->conn, "taken for dead and replaced while it was away; start it again",
                  a->node.addr);
        return;
    } else {
        back.waiting = true;
    }
    if (!torch_state_insert(state, &back, &at))
        return;
    back.addr = at->addr;
    *at = back;
    if (elastic_write(er, state, &result)) {
        log_restored(er, a, back.participant ? "is a participant again" : "waits to be let in",
                     "others took it for dead, and it lives");
        if (back.waiting)
            a->world = 0;
        return;
    }
    at->participant = at->waiting = at->has_heartbeat = false; /* until it asks again */
}
