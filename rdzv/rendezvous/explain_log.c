/* Notes as lines of the log: a table of the fields of each kind, behind the space and the run. */
#include <assert.h>

#include "rdzv/engine/log.h"
#include "rdzv/rendezvous/driver.h"
#include "rdzv/rendezvous/explain.h"

#define FIELDS_MAX 6 /* of a note, in one line */

struct line {
    enum log_level level;
    const char *event;
    struct line_field {
        const char *key; /* NULL: no more fields */
        enum {
            TEXT,
            NUMBER, /* signed */
            COUNT,
            FLAG,
            AGENT,      /* its peer; without one, it is empty */
            GONE_AGENT, /* the same, but "disconnected" */
        } kind;
        size_t at; /* the offset of the value in struct note */
    } fields[FIELDS_MAX];
};

#define FIELD(kind, key, member)                 \
    {                                            \
        key, kind, offsetof(struct note, member) \
    }
#define ACTION       FIELD(TEXT, "action", action)
#define ADDRESS      FIELD(TEXT, "address", text)
#define ADMITTED     FIELD(COUNT, "nodes", admitted)
#define AGE          FIELD(NUMBER, "heartbeat_age_ms", ms)
#define AGENTS       FIELD(COUNT, "agents", number)
#define BY           FIELD(TEXT, "by", by_node)
#define BY_AGENT     FIELD(AGENT, "by", by)
#define BY_PEER      FIELD(AGENT, "peer", by)
#define CLOSED       FIELD(FLAG, "closed", closed)
#define ENDS_IN      FIELD(NUMBER, "ends_in_ms", ms)
#define FIRST        FIELD(AGENT, "first", agent)
#define GONE         FIELD(GONE_AGENT, "peer", agent)
#define HELD         FIELD(NUMBER, "held_ms", ms)
#define KEYS         FIELD(COUNT, "keys", number)
#define LATE         FIELD(COUNT, "late", late)
#define LOST         FIELD(COUNT, "lost", number)
#define LOST_NODES   FIELD(TEXT, "lost", text)
#define MAX_NODES    FIELD(COUNT, "max", max)
#define MAX_WAIT     FIELD(COUNT, "max_wait_ms", number)
#define MIN_NODES    FIELD(COUNT, "min", number)
#define NODE         FIELD(TEXT, "node", node)
#define NODES        FIELD(COUNT, "nodes", number)
#define PARTICIPANTS FIELD(COUNT, "participants", number)
#define PEER         FIELD(AGENT, "peer", agent)
#define PORT         FIELD(COUNT, "port", number)
#define PREVIOUS     FIELD(TEXT, "previous", previous)
#define RANKS        FIELD(TEXT, "ranks", text)
#define REASON       FIELD(TEXT, "reason", reason)
#define ROLE         FIELD(TEXT, "role", role)
#define ROUND        FIELD(NUMBER, "round", round)
#define SILENCE      FIELD(NUMBER, "silent_ms", ms)
#define WAITING      FIELD(TEXT, "waiting", node)

static const struct line lines[NOTE_KINDS] = {
    [NOTE_RUN_STARTED] = {LOG_INFO, "run_started", {ROUND}},
    [NOTE_RUN_FORGOTTEN] = {LOG_INFO, "run_forgotten", {CLOSED, KEYS, REASON}},
    [NOTE_NODE_JOINED] = {LOG_INFO, "node_joined", {ROUND, NODE, PEER, ROLE, PREVIOUS}},
    [NOTE_NODE_LEFT] = {LOG_INFO, "node_left", {ROUND, NODE, PEER, PREVIOUS, REASON}},
    [NOTE_NODE_REPLACED] = {LOG_INFO, "node_left", {ROUND, NODE, GONE, PREVIOUS, REASON, BY_AGENT}},
    [NOTE_NODE_PRESUMED_DEAD] = {LOG_WARN,
                                 "node_presumed_dead",
                                 {ROUND, NODE, GONE, PREVIOUS, AGE, BY}},
    [NOTE_NODE_SILENT] = {LOG_WARN, "node_silent", {ROUND, NODE, GONE, PREVIOUS, SILENCE, REASON}},
    [NOTE_NODE_DISCONNECTED] = {LOG_WARN,
                                "node_disconnected",
                                {ROUND, NODE, PEER, PREVIOUS, REASON}},
    [NOTE_NODE_RECONNECTED] = {LOG_INFO, "node_reconnected", {ROUND, NODE, PEER}},
    [NOTE_NODE_SET_ASIDE] = {LOG_WARN, "node_set_aside", {ROUND, NODE, PEER, PREVIOUS, REASON}},
    [NOTE_NODES_RESTARTED] = {LOG_WARN,
                              "nodes_restarted",
                              {ROUND, LOST_NODES, NODES, ACTION, REASON}},
    [NOTE_NODES_LOST] = {LOG_WARN, "nodes_lost", {ROUND, NODES, REASON}},
    [NOTE_SIZE_KNOWN] = {LOG_INFO, "size_known", {ROUND, MIN_NODES, MAX_NODES}},
    [NOTE_LAST_CALL] = {LOG_INFO, "last_call", {ROUND, PARTICIPANTS, ENDS_IN}},
    [NOTE_LAST_CALL_ENDED] = {LOG_INFO, "last_call_ended", {ROUND, PARTICIPANTS, REASON}},
    [NOTE_NODES_ADMITTED] = {LOG_INFO, "nodes_admitted", {ROUND, ADMITTED, PARTICIPANTS, REASON}},
    [NOTE_MEETING] = {LOG_INFO, "nodes_meet", {ROUND, PARTICIPANTS, LATE, HELD, WAITING, REASON}},
    [NOTE_EXIT_BARRIER_ENDED] = {LOG_WARN, "exit_barrier_ended", {ROUND, LOST, REASON}},
    [NOTE_ROUND_COMPLETE] = {LOG_INFO, "round_complete", {ROUND, NODES, RANKS}},
    [NOTE_NODE_REPAIRED] = {LOG_WARN, "repaired", {NODE, PEER, ROUND, ACTION, REASON}},
    [NOTE_AGENTS_WAITING] = {LOG_INFO, "agents_waiting", {FIRST, MAX_WAIT, REASON}},
    [NOTE_AGENTS_REJECTED] = {LOG_WARN, "agents_rejected", {AGENTS, REASON}},
    [NOTE_CLOSE_WAITS] = {LOG_INFO, "close_deferred", {BY, BY_PEER, REASON}},
    [NOTE_CLOSE_IGNORED] = {LOG_INFO, "close_ignored", {BY, REASON}},
    [NOTE_WORKER_STORE_ASSIGNED] = {LOG_INFO, "worker_store_assigned", {ADDRESS, PORT, REASON}},
    [NOTE_WORKER_STORE_EXTERNAL] = {LOG_INFO, "worker_store_external", {REASON}},
    [NOTE_WORKER_STORE_FAILED] = {LOG_ERROR, "repair_failed", {REASON}},
};

static struct log_field field_of(const struct line_field *f, const struct note *note,
                                 char peer[CONN_PEER_MAX])
{
    const void *value = (const char *)note + f->at;
    const struct agent *a;

    switch (f->kind) {
    case TEXT:
        return log_str(f->key, *(const char *const *)value);
    case NUMBER:
        return log_i64(f->key, *(const int64_t *)value);
    case COUNT:
        return log_u64(f->key, *(const uint64_t *)value);
    case FLAG:
        return log_bool(f->key, *(const bool *)value);
    default:
        a = *(const struct agent *const *)value;
        return log_str(f->key, a != NULL               ? conn_peer(conn_of(a), peer)
                               : f->kind == GONE_AGENT ? "disconnected"
                                                       : "");
    }
}

void explain_log(const char *space, struct slice run, const struct note *note)
{
    const struct line *line = &lines[note->kind];
    struct log_field fields[2 + FIELDS_MAX + 1] = {log_str("space", space), log_bytes("run", run)};
    char peers[FIELDS_MAX][CONN_PEER_MAX];

    assert(line->event != NULL);
    for (size_t i = 0; i < FIELDS_MAX && line->fields[i].key != NULL; i++)
        fields[2 + i] = field_of(&line->fields[i], note, peers[i]);
    log_event_fields(line->level, line->event, fields);
}
