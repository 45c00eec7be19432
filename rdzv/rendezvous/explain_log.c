/* Notes of the policy as lines of the log: a table of the fields that each kind of note has, behind
 * the space and the run. See explain.h. */
#include <assert.h>

#include "rdzv/engine/log.h"
#include "rdzv/rendezvous/driver.h"
#include "rdzv/rendezvous/explain.h"

#define FIELDS_MAX 6 /* of a note, in one line */

struct line {
    enum log_level level;
    const char *event;
    struct {
        const char *key; /* NULL: no more fields */
        enum {
            TEXT,
            SIGNED,
            COUNT,
            FLAG,
            PEER,      /* of an agent; without one, it is empty */
            LOST_PEER, /* the same, but "disconnected" */
        } kind;
        size_t at; /* the offset of the value in struct note */
    } fields[FIELDS_MAX];
};

#define FIELD(kind, key, member)                 \
    {                                            \
        key, kind, offsetof(struct note, member) \
    }
#define ROUND    FIELD(SIGNED, "round", round)
#define NODE     ROUND, FIELD(TEXT, "node", node)
#define PREVIOUS FIELD(TEXT, "previous", previous)
#define REASON   FIELD(TEXT, "reason", reason)

static const struct line lines[NOTE_KINDS] = {
    [NOTE_RUN_STARTED] = {LOG_INFO, "run_started", {ROUND}},
    [NOTE_RUN_CLOSED] = {LOG_INFO,
                         "run_closed",
                         {ROUND, FIELD(TEXT, "by", by_node), FIELD(PEER, "peer", by)}},
    [NOTE_RUN_FAILED] = {LOG_WARN,
                         "run_failed",
                         {ROUND, FIELD(TEXT, "by", by_node), FIELD(PEER, "peer", by), REASON}},
    [NOTE_RUN_FORGOTTEN] = {LOG_INFO,
                            "run_forgotten",
                            {FIELD(FLAG, "closed", closed), FIELD(COUNT, "keys", number), REASON}},
    [NOTE_NODE_JOINED] = {LOG_INFO,
                          "node_joined",
                          {NODE, FIELD(PEER, "peer", agent), FIELD(TEXT, "role", role), PREVIOUS}},
    [NOTE_NODE_LEFT] = {LOG_INFO,
                        "node_left",
                        {NODE, FIELD(PEER, "peer", agent), PREVIOUS, REASON}},
    [NOTE_NODE_REPLACED] = {LOG_INFO,
                            "node_left",
                            {NODE, FIELD(LOST_PEER, "peer", agent), PREVIOUS, REASON,
                             FIELD(PEER, "by", by)}},
    [NOTE_NODE_PRESUMED_DEAD] = {LOG_WARN,
                                 "node_presumed_dead",
                                 {NODE, FIELD(LOST_PEER, "peer", agent), PREVIOUS,
                                  FIELD(SIGNED, "heartbeat_age_ms", ms),
                                  FIELD(TEXT, "by", by_node)}},
    [NOTE_NODE_SILENT] = {LOG_WARN,
                          "node_silent",
                          {NODE, FIELD(LOST_PEER, "peer", agent), PREVIOUS,
                           FIELD(SIGNED, "silent_ms", ms), REASON}},
    [NOTE_NODE_DISCONNECTED] = {LOG_WARN,
                                "node_disconnected",
                                {NODE, FIELD(PEER, "peer", agent), PREVIOUS, REASON}},
    [NOTE_NODES_RESTARTED] = {LOG_WARN,
                              "nodes_restarted",
                              {ROUND, FIELD(COUNT, "nodes", number), REASON}},
    [NOTE_NODES_LOST] = {LOG_WARN, "nodes_lost", {ROUND, FIELD(COUNT, "nodes", number), REASON}},
    [NOTE_LAST_CALL] = {LOG_INFO,
                        "last_call",
                        {ROUND, FIELD(COUNT, "participants", number),
                         FIELD(SIGNED, "ends_in_ms", ms)}},
    [NOTE_LAST_CALL_ENDED] = {LOG_INFO,
                              "last_call_ended",
                              {ROUND, FIELD(COUNT, "participants", number), REASON}},
    [NOTE_NODES_LET_IN] = {LOG_INFO,
                           "nodes_admitted",
                           {ROUND, FIELD(COUNT, "nodes", let_in),
                            FIELD(COUNT, "participants", number), REASON}},
    [NOTE_MEETING] = {LOG_INFO,
                      "nodes_meet",
                      {ROUND, FIELD(COUNT, "participants", number), FIELD(COUNT, "late", late),
                       FIELD(SIGNED, "held_ms", ms), FIELD(TEXT, "waiting", node), REASON}},
    [NOTE_EXIT_BARRIER_ENDED] = {LOG_WARN,
                                 "exit_barrier_ended",
                                 {ROUND, FIELD(COUNT, "lost", number), REASON}},
    [NOTE_ROUND_COMPLETE] = {LOG_INFO,
                             "round_complete",
                             {ROUND, FIELD(COUNT, "nodes", number), FIELD(TEXT, "ranks", text)}},
    [NOTE_NODE_REPAIRED] = {LOG_WARN,
                            "repaired",
                            {FIELD(TEXT, "node", node), FIELD(PEER, "peer", agent), ROUND,
                             FIELD(TEXT, "action", action), REASON}},
    [NOTE_AGENTS_WAITING] = {LOG_INFO,
                             "agents_waiting",
                             {FIELD(PEER, "first", agent), FIELD(COUNT, "max_wait_ms", number),
                              REASON}},
    [NOTE_AGENTS_REJECTED] = {LOG_WARN,
                              "agents_rejected",
                              {FIELD(COUNT, "agents", number), REASON}},
    [NOTE_CLOSE_WAITS] = {LOG_INFO,
                          "close_deferred",
                          {FIELD(TEXT, "by", node), FIELD(PEER, "peer", agent), REASON}},
    [NOTE_CLOSE_IGNORED] = {LOG_INFO, "close_ignored", {FIELD(TEXT, "by", node), REASON}},
    [NOTE_WORKER_STORE_ASSIGNED] = {LOG_INFO,
                                    "worker_store_assigned",
                                    {FIELD(TEXT, "address", text), FIELD(COUNT, "port", number),
                                     REASON}},
    [NOTE_WORKER_STORE_EXTERNAL] = {LOG_INFO, "worker_store_external", {REASON}},
    [NOTE_WORKER_STORE_FAILED] = {LOG_ERROR, "repair_failed", {REASON}},
};

static struct log_field peer_field(const char *key, const struct agent *a, const char *none,
                                   char text[CONN_PEER_MAX])
{
    return log_str(key, a == NULL ? none : conn_peer(conn_of(a), text));
}

void explain_log(const char *space, struct slice run, const struct note *note)
{
    const struct line *line = &lines[note->kind];
    struct log_field fields[2 + FIELDS_MAX + 1] = {log_str("space", space), log_bytes("run", run)};
    char peers[FIELDS_MAX][CONN_PEER_MAX];

    assert(line->event != NULL);
    for (size_t i = 0; i < FIELDS_MAX && line->fields[i].key != NULL; i++) {
        const char *key = line->fields[i].key;
        const void *value = (const char *)note + line->fields[i].at;
        struct log_field *out = &fields[2 + i];

        switch (line->fields[i].kind) {
        case TEXT:
            *out = log_str(key, *(const char *const *)value);
            break;
        case SIGNED:
            *out = log_i64(key, *(const int64_t *)value);
            break;
        case COUNT:
            *out = log_u64(key, *(const uint64_t *)value);
            break;
        case FLAG:
            *out = log_bool(key, *(const bool *)value);
            break;
        case PEER:
            *out = peer_field(key, *(const struct agent *const *)value, "", peers[i]);
            break;
        case LOST_PEER:
            *out = peer_field(key, *(const struct agent *const *)value, "disconnected", peers[i]);
            break;
        }
    }
    log_event_fields(line->level, line->event, fields);
}
