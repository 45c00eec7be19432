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

static void run_started(struct line *l)
{
    const struct note *n = l->note;

    log_event(LOG_INFO, "run_started", RUN(l), log_i64("round", n->round));
}

static void run_closed(struct line *l)
{
    const struct note *n = l->note;

    if (n->reason != NULL)
        log_event(LOG_WARN, "run_failed", RUN(l), log_i64("round", n->round),
                  log_str("by", n->by_node), log_str("peer", peer_text_of(n->by, l->peer, "")),
                  log_str("reason", n->reason));
    else
        log_event(LOG_INFO, "run_closed", RUN(l), log_i64("round", n->round),
                  log_str("by", n->by_node), log_str("peer", peer_text_of(n->by, l->peer, "")));
}

static void run_forgotten(struct line *l)
{
    const struct note *n = l->note;

    log_event(LOG_INFO, "run_forgotten", RUN(l), log_bool("closed", n->closed),
              log_u64("keys", l->keys), log_str("reason", n->reason));
}

static void node_joined(struct line *l)
{
    const struct note *n = l->note;

    log_event(LOG_INFO, "node_joined", RUN_NODE(l),
              log_str("peer", peer_text_of(n->agent, l->peer, "")), log_str("role", n->role),
              log_str("previous", n->previous));
}

static void node_left(struct line *l)
{
    const struct note *n = l->note;

    log_event(LOG_INFO, "node_left", RUN_NODE(l),
              log_str("peer", peer_text_of(n->agent, l->peer, "")),
              log_str("previous", n->previous), log_str("reason", n->reason));
}

static void node_replaced(struct line *l)
{
    const struct note *n = l->note;

    log_event(LOG_INFO, "node_left", RUN_NODE(l),
              log_str("peer", peer_text_of(n->agent, l->peer, "disconnected")),
              log_str("previous", n->previous), log_str("reason", n->reason),
              log_str("by", peer_text_of(n->by, l->by, "")));
}

static void node_presumed_dead(struct line *l)
{
    const struct note *n = l->note;

    log_event(LOG_WARN, "node_presumed_dead", RUN_NODE(l),
              log_str("peer", peer_text_of(n->agent, l->peer, "disconnected")),
              log_str("previous", n->previous), log_i64("heartbeat_age_ms", n->ms),
              log_str("by", n->by_node));
}

static void node_silent(struct line *l)
{
    const struct note *n = l->note;

    log_event(LOG_WARN, "node_silent", RUN_NODE(l),
              log_str("peer", peer_text_of(n->agent, l->peer, "disconnected")),
              log_str("previous", n->previous), log_i64("silent_ms", n->ms),
              log_str("reason", n->reason));
}

static void node_disconnected(struct line *l)
{
    const struct note *n = l->note;

    log_event(LOG_WARN, "node_disconnected", RUN_NODE(l),
              log_str("peer", peer_text_of(n->agent, l->peer, "")),
              log_str("previous", n->previous), log_str("reason", n->reason));
}

static void last_call(struct line *l)
{
    const struct note *n = l->note;

    log_event(LOG_INFO, "last_call", RUN(l), log_i64("round", n->round),
              log_u64("participants", n->number), log_i64("ends_in_ms", n->ms));
}

static void nodes_restarted(struct line *l)
{
    const struct note *n = l->note;

    log_event(LOG_WARN, "nodes_restarted", RUN(l), log_i64("round", n->round),
              log_u64("nodes", n->number), log_str("reason", n->reason));
}

static void last_call_ended(struct line *l)
{
    const struct note *n = l->note;

    log_event(LOG_INFO, "last_call_ended", RUN(l), log_i64("round", n->round),
              log_u64("participants", n->number), log_str("reason", n->reason));
}

static void nodes_let_in(struct line *l)
{
    const struct note *n = l->note;

    log_event(LOG_INFO, "nodes_let_in", RUN(l), log_i64("round", n->round),
              log_u64("nodes", n->let_in), log_u64("participants", n->number),
              log_str("reason", n->reason));
}

static void nodes_meet(struct line *l)
{
    const struct note *n = l->note;

    log_event(LOG_INFO, "nodes_meet", RUN(l), log_i64("round", n->round),
              log_u64("participants", n->number), log_u64("late", n->late),
              log_i64("held_ms", n->ms), log_str("waiting", n->node), log_str("reason", n->reason));
}

static void exit_barrier_ended(struct line *l)
{
    const struct note *n = l->note;

    log_event(LOG_WARN, "exit_barrier_ended", RUN(l), log_i64("round", n->round),
              log_u64("lost", n->number), log_str("reason", n->reason));
}

static void round_complete(struct line *l)
{
    const struct note *n = l->note;

    log_event(LOG_INFO, "round_complete", RUN(l), log_i64("round", n->round),
              log_u64("nodes", n->number), log_str("ranks", n->text));
}

static void heartbeats_shifted(struct line *l)
{
    const struct note *n = l->note;

    log_event(LOG_WARN, "repaired", RUN(l), log_u64("heartbeats_shifted_ms", n->number),
              log_str("reason", n->reason));
}

static void shift_failed(struct line *l)
{
    const struct note *n = l->note;

    log_event(LOG_ERROR, "repair_failed", RUN(l), log_u64("heartbeats_shifted_ms", n->number),
              log_str("reason", n->reason));
}

static void node_repaired(struct line *l)
{
    const struct note *n = l->note;

    log_event(LOG_WARN, "repaired", RUN(l), log_str("node", n->node),
              log_str("peer", peer_text_of(n->agent, l->peer, "")), log_i64("round", n->round),
              log_str("action", n->action), log_str("reason", n->reason));
}

static void nodes_lost(struct line *l)
{
    const struct note *n = l->note;

    log_event(LOG_WARN, "nodes_lost", RUN(l), log_i64("round", n->round),
              log_u64("nodes", n->number), log_str("reason", n->reason));
}

static void agents_waiting(struct line *l)
{
    const struct note *n = l->note;

    log_event(LOG_INFO, "agents_waiting", RUN(l),
              log_str("first", peer_text_of(n->agent, l->peer, "")),
              log_u64("max_wait_ms", n->number), log_str("reason", n->reason));
}

static void agents_rejected(struct line *l)
{
    const struct note *n = l->note;

    log_event(LOG_WARN, "agents_rejected", RUN(l), log_u64("agents", n->number),
              log_str("reason", n->reason));
}

static void close_deferred(struct line *l)
{
    const struct note *n = l->note;

    log_event(LOG_INFO, "close_deferred", RUN(l), log_str("by", n->node),
              log_str("peer", peer_text_of(n->agent, l->peer, "")), log_str("reason", n->reason));
}

static void close_ignored(struct line *l)
{
    const struct note *n = l->note;

    log_event(LOG_INFO, "close_ignored", RUN(l), log_str("by", n->node),
              log_str("reason", n->reason));
}

static void worker_store_assigned(struct line *l)
{
    const struct note *n = l->note;

    log_event(LOG_INFO, "worker_store_assigned", RUN(l), log_str("address", n->text),
              log_u64("port", n->number), log_str("reason", n->reason));
}

static void worker_store_external(struct line *l)
{
    const struct note *n = l->note;

    log_event(LOG_INFO, "worker_store_external", RUN(l), log_str("reason", n->reason));
}

static void worker_store_failed(struct line *l)
{
    const struct note *n = l->note;

    log_event(LOG_ERROR, "repair_failed", RUN(l), log_str("reason", n->reason));
}

/* Without a default, so that a new kind does not compile before it has a line. */
static void (*line_of(enum note_kind kind))(struct line *)
{
    switch (kind) {
    case NOTE_RUN_STARTED:
        return run_started;
    case NOTE_RUN_CLOSED:
        return run_closed;
    case NOTE_RUN_FORGOTTEN:
        return run_forgotten;
    case NOTE_NODE_JOINED:
        return node_joined;
    case NOTE_NODE_LEFT:
        return node_left;
    case NOTE_NODE_REPLACED:
        return node_replaced;
    case NOTE_NODE_PRESUMED_DEAD:
        return node_presumed_dead;
    case NOTE_NODE_SILENT:
        return node_silent;
    case NOTE_NODE_DISCONNECTED:
        return node_disconnected;
    case NOTE_NODES_RESTARTED:
        return nodes_restarted;
    case NOTE_NODES_LOST:
        return nodes_lost;
    case NOTE_LAST_CALL:
        return last_call;
    case NOTE_LAST_CALL_ENDED:
        return last_call_ended;
    case NOTE_NODES_LET_IN:
        return nodes_let_in;
    case NOTE_MEETING:
        return nodes_meet;
    case NOTE_EXIT_BARRIER_ENDED:
        return exit_barrier_ended;
    case NOTE_ROUND_COMPLETE:
        return round_complete;
    case NOTE_HEARTBEATS_SHIFTED:
        return heartbeats_shifted;
    case NOTE_SHIFT_FAILED:
        return shift_failed;
    case NOTE_NODE_REPAIRED:
        return node_repaired;
    case NOTE_AGENTS_WAITING:
        return agents_waiting;
    case NOTE_AGENTS_REJECTED:
        return agents_rejected;
    case NOTE_CLOSE_WAITS:
        return close_deferred;
    case NOTE_CLOSE_IGNORED:
        return close_ignored;
    case NOTE_WORKER_STORE_ASSIGNED:
        return worker_store_assigned;
    case NOTE_WORKER_STORE_EXTERNAL:
        return worker_store_external;
    case NOTE_WORKER_STORE_FAILED:
        return worker_store_failed;
    }
    abort();
}

void explain_log(const char *space, struct slice run, const struct note *note, uint64_t keys)
{
    struct line l = {.space = space, .run = run, .note = note, .keys = keys};

    line_of(note->kind)(&l);
}
