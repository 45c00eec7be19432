/* The log that explains: one line for each thing that happens to a run. See elastic.h. */
#include "rdzv/rendezvous/elastic_internal.h"

#include <stdio.h>

#include "store/xalloc.h"

#define RANKS_SHOWN 16
#define DEAD_US     15000000 /* what torch takes for dead */

struct line {
    const struct elastic_run *er;
    const struct run *run;
    const struct agent *by;
};

const char *elastic_node_name(const struct torch_node *node, char text[ELASTIC_NAME_MAX])
{
    snprintf(text, ELASTIC_NAME_MAX, "%.*s/%lld/%lld",
             (int)(node->addr.len < 255 ? node->addr.len : 255), (const char *)node->addr.ptr,
             (long long)node->pid, (long long)node->local_id);
    return text;
}

static const struct agent *agent_of(const struct elastic_run *er, const struct torch_node *node)
{
    const struct agent *a;

    TAILQ_FOREACH(a, &er->agents, entry) {
        if (a->has_node && torch_node_compare(&a->node, node) == 0)
            return a;
    }
    return NULL;
}

#define COMMON(l)                                                                                 \
    log_str("space", (l)->er->home->space->store->name), log_bytes("run", elastic_name((l)->er)), \
        log_i64("round", (l)->run->state.round)

static const char *where(const struct torch_node *node)
{
    return node == NULL        ? "nowhere"
           : node->participant ? "participant"
           : node->waiting     ? "waiting"
           : node->redundant   ? "spare"
                               : "nowhere";
}

static void log_arrival(const struct line *l, const struct torch_node *node,
                        const struct torch_node *old)
{
    const struct agent *a = agent_of(l->er, node);
    char name[ELASTIC_NAME_MAX], peer[CONN_PEER_MAX] = "";

    log_event(LOG_INFO, "node_joined", COMMON(l), log_str("node", elastic_node_name(node, name)),
              log_str("peer", a == NULL ? "" : conn_peer(a->conn, peer)),
              log_str("as", where(node)), log_str("was", where(old)));
}

/* Torch's first step is to leave the round it may still be in. A container that was started again
 * has the name and the pid that it had before, and so it takes its own place there away. */
static bool is_replaced(const struct line *l, const struct torch_node *old, int64_t silent_us)
{
    return !l->by->has_node && old->has_heartbeat && silent_us < DEAD_US;
}

/* It left by itself, or somebody else has not heard of it for torch's 15 s. */
static void log_departure(const struct line *l, const struct torch_node *old)
{
    const struct agent *a = agent_of(l->er, old);
    char name[ELASTIC_NAME_MAX], peer[CONN_PEER_MAX] = "", by[ELASTIC_NAME_MAX];
    int64_t silent_us = engine_wall_ns(l->er->rdzv->engine) / 1000 - old->heartbeat_us +
                        (a == NULL ? 0 : a->ahead_us);

    if (l->by->has_node && torch_node_compare(&l->by->node, old) == 0)
        log_event(LOG_INFO, "node_left", COMMON(l), log_str("node", elastic_node_name(old, name)),
                  log_str("peer", conn_peer(l->by->conn, peer)), log_str("was", where(old)),
                  log_str("reason", l->run->state.round != l->run->before.round
                                        ? "all meet again in a new round"
                                        : "by itself"));
    else if (is_replaced(l, old, silent_us))
        log_event(LOG_INFO, "node_left", COMMON(l), log_str("node", elastic_node_name(old, name)),
                  log_str("peer", a == NULL ? "disconnected" : conn_peer(a->conn, peer)),
                  log_str("was", where(old)),
                  log_str("reason", "it was started again under the same name"),
                  log_str("by", conn_peer(l->by->conn, by)));
    else
        log_event(LOG_WARN, "node_presumed_dead", COMMON(l),
                  log_str("node", elastic_node_name(old, name)),
                  log_str("peer", a == NULL ? "disconnected" : conn_peer(a->conn, peer)),
                  log_str("was", where(old)),
                  log_i64("silent_ms", old->has_heartbeat ? silent_us / 1000 : -1),
                  log_str("by", l->by->has_node ? elastic_node_name(&l->by->node, by) : "unknown"));
}

static void log_nodes(const struct line *l)
{
    const struct torch_state *before = &l->run->before, *now = &l->run->state;

    for (size_t i = 0; i < now->count; i++) {
        const struct torch_node *old = torch_state_find(before, &now->nodes[i]);

        if (where(&now->nodes[i]) != where(old) && where(&now->nodes[i]) != where(NULL))
            log_arrival(l, &now->nodes[i], old);
    }
    for (size_t i = 0; i < before->count; i++) {
        const struct torch_node *node = torch_state_find(now, &before->nodes[i]);

        if (where(&before->nodes[i]) != where(NULL) && where(node) == where(NULL))
            log_departure(l, &before->nodes[i]);
    }
}

/* "0=node-a 1=node-b …", the first few. */
static void log_complete(const struct line *l)
{
    const struct torch_state *now = &l->run->state;
    char ranks[RANKS_SHOWN * 128] = "", name[ELASTIC_NAME_MAX];
    size_t at = 0, shown = 0;

    for (int64_t rank = 0; shown < RANKS_SHOWN; rank++) {
        const struct torch_node *found = NULL;

        for (size_t i = 0; i < now->count && found == NULL; i++) {
            if (now->nodes[i].participant && now->nodes[i].rank == rank)
                found = &now->nodes[i];
        }
        if (found == NULL)
            break;
        at +=
            (size_t)snprintf(ranks + at, sizeof ranks - at, "%s%lld=%.100s", shown == 0 ? "" : " ",
                             (long long)rank, elastic_node_name(found, name));
        shown++;
    }
    log_event(LOG_INFO, "round_complete", COMMON(l),
              log_u64("world", torch_state_participants(now)), log_str("ranks", ranks));
}

void elastic_log_change(const struct elastic_run *er, const struct run *run, const struct agent *by)
{
    const struct torch_state *before = &run->before, *now = &run->state;
    const struct line l = {er, run, by};
    char name[ELASTIC_NAME_MAX], peer[CONN_PEER_MAX];

    if (!run->known || log_lowest_ > LOG_WARN)
        return;
    if (before->count == 0 && now->count != 0 && now->round == 0)
        log_event(LOG_INFO, "run_started", COMMON(&l));
    log_nodes(&l);
    if (now->has_deadline && !before->has_deadline)
        log_event(LOG_INFO, "last_call", COMMON(&l),
                  log_u64("participants", torch_state_participants(now)),
                  log_i64("ends_in_ms", (now->deadline_us -
                                         engine_wall_ns(er->rdzv->engine) / 1000 - by->ahead_us) /
                                            1000));
    if (now->complete && !(before->complete && before->round == now->round))
        log_complete(&l);
    if (now->closed && !before->closed)
        log_event(LOG_INFO, "run_closed", COMMON(&l),
                  log_str("by", by->has_node ? elastic_node_name(&by->node, name) : "unknown"),
                  log_str("peer", conn_peer(by->conn, peer)));
}

/* Long before torch's 15 s are over, and only here, it is known that an agent is gone. */
void elastic_note_lost(const struct agent *a)
{
    const struct elastic_run *er = a->run;
    const struct run *run = elastic_store_run(er);
    const struct torch_node *node;
    char name[ELASTIC_NAME_MAX], peer[CONN_PEER_MAX];

    if (run == NULL || !run->known || run->state.closed || !a->has_node || er->ending ||
        er->rdzv->net->draining)
        return;
    node = torch_state_find(&run->state, &a->node);
    if (where(node) == where(NULL))
        return;
    er->rdzv->engine->stats.nodes_disconnected++;
    log_event(LOG_WARN, "node_disconnected", log_str("space", er->home->space->store->name),
              log_bytes("run", elastic_name(er)), log_i64("round", run->state.round),
              log_str("node", elastic_node_name(node, name)),
              log_str("peer", conn_peer(a->conn, peer)), log_str("was", where(node)),
              log_str("reason", "its connection ended; the others presume it dead when they have "
                                "not heard of it for 15s"));
}
