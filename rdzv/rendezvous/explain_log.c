/* Notes of the policy as lines of the log. See explain_log.h. */
#include "rdzv/rendezvous/explain_log.h"

#include "rdzv/engine/log.h"
#include "rdzv/rendezvous/shell.h"

struct line {
    const char *space;
    struct slice run;
    const struct note *note;
    uint64_t keys;
    char peer[CONN_PEER_MAX];
    char by[CONN_PEER_MAX];
};

#define RUN(l)      log_str("space", (l)->space), log_bytes("run", (l)->run)
#define RUN_NODE(l) RUN(l), log_i64("round", (l)->note->round), log_str("node", (l)->note->node)

static const char *peer_text_of(const struct agent *a, char text[CONN_PEER_MAX], const char *none)
{
    return a == NULL ? none : conn_peer(conn_of(a), text);
}

static void log_node(struct line *l)
{
    const struct note *n = l->note;

    switch (n->kind) {
    case NOTE_NODE_JOINED:
        log_event(LOG_INFO, "node_joined", RUN_NODE(l),
                  log_str("peer", peer_text_of(n->agent, l->peer, "")), log_str("role", n->role),
                  log_str("previous", n->previous));
        break;
    case NOTE_NODE_LEFT:
        log_event(LOG_INFO, "node_left", RUN_NODE(l),
                  log_str("peer", peer_text_of(n->agent, l->peer, "")),
                  log_str("previous", n->previous), log_str("reason", n->reason));
        break;
    case NOTE_NODE_REPLACED:
        log_event(LOG_INFO, "node_left", RUN_NODE(l),
                  log_str("peer", peer_text_of(n->agent, l->peer, "disconnected")),
                  log_str("previous", n->previous), log_str("reason", n->reason),
                  log_str("by", peer_text_of(n->by, l->by, "")));
        break;
    case NOTE_NODE_PRESUMED_DEAD:
        log_event(LOG_WARN, "node_presumed_dead", RUN_NODE(l),
                  log_str("peer", peer_text_of(n->agent, l->peer, "disconnected")),
                  log_str("previous", n->previous), log_i64("heartbeat_age_ms", n->ms),
                  log_str("by", n->by_node));
        break;
    case NOTE_NODE_DISCONNECTED:
        log_event(LOG_WARN, "node_disconnected", RUN_NODE(l),
                  log_str("peer", peer_text_of(n->agent, l->peer, "")),
                  log_str("previous", n->previous), log_str("reason", n->reason));
        break;
    default: /* NOTE_NODE_REPAIRED */
        log_event(LOG_WARN, "repaired", RUN(l), log_str("node", n->node),
                  log_str("peer", peer_text_of(n->agent, l->peer, "")), log_i64("round", n->round),
                  log_str("action", n->action), log_str("reason", n->reason));
        break;
    }
}

static void log_round(struct line *l)
{
    const struct note *n = l->note;

    switch (n->kind) {
    case NOTE_RUN_STARTED:
        log_event(LOG_INFO, "run_started", RUN(l), log_i64("round", n->round));
        break;
    case NOTE_LAST_CALL:
        log_event(LOG_INFO, "last_call", RUN(l), log_i64("round", n->round),
                  log_u64("participants", n->number), log_i64("ends_in_ms", n->ms));
        break;
    case NOTE_ROUND_COMPLETE:
        log_event(LOG_INFO, "round_complete", RUN(l), log_i64("round", n->round),
                  log_u64("nodes", n->number), log_str("ranks", n->text));
        break;
    case NOTE_RUN_CLOSED:
        log_event(LOG_INFO, "run_closed", RUN(l), log_i64("round", n->round),
                  log_str("by", n->by_node), log_str("peer", peer_text_of(n->by, l->peer, "")));
        break;
    case NOTE_RUN_FORGOTTEN:
        log_event(LOG_INFO, "run_forgotten", RUN(l), log_bool("closed", n->closed),
                  log_u64("keys", l->keys), log_str("reason", n->reason));
        break;
    default: /* NOTE_CLOSE_IGNORED */
        log_event(LOG_INFO, "close_ignored", RUN(l), log_str("by", n->node),
                  log_str("peer", peer_text_of(n->agent, l->peer, "")),
                  log_str("reason", n->reason));
        break;
    }
}

static void log_repair(struct line *l)
{
    const struct note *n = l->note;

    switch (n->kind) {
    case NOTE_HEARTBEATS_SHIFTED:
        log_event(LOG_WARN, "repaired", RUN(l), log_u64("heartbeats_shifted_ms", n->number),
                  log_str("reason", n->reason));
        break;
    case NOTE_SHIFT_FAILED:
        log_event(LOG_ERROR, "repair_failed", RUN(l), log_u64("heartbeats_shifted_ms", n->number),
                  log_str("reason", n->reason));
        break;
    case NOTE_AGENTS_WAITING:
        log_event(LOG_INFO, "agents_waiting", RUN(l),
                  log_str("first", peer_text_of(n->agent, l->peer, "")),
                  log_u64("max_wait_ms", n->number), log_str("reason", n->reason));
        break;
    case NOTE_AGENTS_REJECTED:
        log_event(LOG_WARN, "agents_rejected", RUN(l), log_u64("agents", n->number),
                  log_str("reason", n->reason));
        break;
    case NOTE_WORKER_STORE_ASSIGNED:
        log_event(LOG_INFO, "worker_store_assigned", RUN(l), log_str("address", n->text),
                  log_u64("port", n->number), log_str("reason", n->reason));
        break;
    case NOTE_WORKER_STORE_EXTERNAL:
        log_event(LOG_INFO, "worker_store_external", RUN(l), log_str("reason", n->reason));
        break;
    default: /* NOTE_WORKER_STORE_FAILED */
        log_event(LOG_ERROR, "repair_failed", RUN(l), log_str("reason", n->reason));
        break;
    }
}

void explain_log(const char *space, struct slice run, const struct note *note, uint64_t keys)
{
    struct line l = {.space = space, .run = run, .note = note, .keys = keys};

    switch (note->kind) {
    case NOTE_NODE_JOINED:
    case NOTE_NODE_LEFT:
    case NOTE_NODE_REPLACED:
    case NOTE_NODE_PRESUMED_DEAD:
    case NOTE_NODE_DISCONNECTED:
    case NOTE_NODE_REPAIRED:
        log_node(&l);
        break;
    case NOTE_RUN_STARTED:
    case NOTE_LAST_CALL:
    case NOTE_ROUND_COMPLETE:
    case NOTE_RUN_CLOSED:
    case NOTE_RUN_FORGOTTEN:
    case NOTE_CLOSE_IGNORED:
        log_round(&l);
        break;
    default:
        log_repair(&l);
        break;
    }
}
