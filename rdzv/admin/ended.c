/* Runs that have ended: of each, a line of the log, and a report in JSON, which the store keeps as
 * a record. See status.h for the contract. */
#include "proto/json.h"
#include "rdzv/admin/status.h"
#include "rdzv/engine/log.h"
#include "rdzv/rendezvous/explain.h"

#define KEPT       100 /* of a space */
#define KEPT_US    (INT64_C(86400) * 1000000)
#define NAMED      16 /* missing nodes */
#define REPORT_MAX 16384
#define HOSTS_MAX  8192 /* bytes of a list of hosts; further ones are left out */

/* Writes the nodes that were lost since the last round was complete, also as a text. After a good
 * end, and when all have gone, none is missing. */
static void write_missing(struct writer *w, const struct history *h, const char *end,
                          char text[NAMED * NODE_TEXT_MAX])
{
    const struct history_round *r = TAILQ_FIRST(&h->rounds);
    int named = strcmp(end, "done") == 0 || strcmp(end, "left") == 0 ? NAMED : 0;

    while (r != NULL && r->completed_us == 0)
        r = TAILQ_NEXT(r, entry);
    json_list(w, "missing");
    TAILQ_EACH(const struct history_loss, l, &h->losses, entry) {
        if (l->kind == LOSS_REPLACED || (r != NULL && l->at_us <= r->completed_us) ||
            named == NAMED)
            continue;
        snprintf(text + strlen(text), NODE_TEXT_MAX, "%s%s", named++ == 0 ? "" : " ", l->node);
        json_item(w, slice_str(l->node));
    }
    writer_u8(w, ']');
}

static void write_host(struct writer *w, const struct torch_state *state, struct slice host)
{
    if (policy_names_host((struct slice){w->ptr, w->len}, host) ||
        w->len + TORCH_ADDR_MAX + 3 > w->cap)
        return;
    NODES_FOREACH(node, state) {
        if (node->participant && slice_equal(node->addr, host))
            return;
    }
    json_item(w, host);
}

/* Keeps the hosts of nodes that were in the job and have not ended it well: spares, nodes that
 * wait, and nodes that were lost. After any other end, each host may begin it again. */
static void keep_hosts(const struct live_run *live, bool is_done, int64_t at_us)
{
    const struct torch_state *state = &live->run.view.state;
    uint8_t hosts[HOSTS_MAX];
    struct writer w = {.ptr = hosts, .cap = sizeof hosts};

    NODES_FOREACH(node, state) {
        if (is_done && !loss_is_mark(node))
            write_host(&w, state, node->addr);
    }
    TAILQ_EACH(const struct history_loss, l, &live->history.losses, entry) {
        if (is_done) /* of host/pid/local id */
            write_host(&w, state, (struct slice){(const uint8_t *)l->node, strcspn(l->node, "/")});
    }
    driver_keep_hosts(live->home, live->run.view.id, (struct slice){hosts, w.len}, at_us);
}

/* The oldest records make room. The request, or tick, that ends the run pays for the records that
 * are looked at: a space may have one for each of its runs. */
static void keep(const struct live_run *run, int64_t at_us, struct slice report)
{
    struct engine_space *space = run->home->space;
    struct engine *engine = run->home->rdzv->engine;
    struct command put = {.kind = COMMAND_RUN_PUT,
                          .value = report,
                          .number = at_us,
                          .port = (uint16_t)run->history.vain}; /* for run_rules.c */
    char prefix[sizeof RUN_ENDED_KEY + 24];
    const struct run_record *record, *before;
    struct store_result result;
    size_t count = 0;

    snprintf(prefix, sizeof prefix, RUN_ENDED_KEY "%lld/", (long long)at_us);
    driver_apply_record(run->home, prefix, run->run.view.id, put);
    for (record = TAILQ_LAST(&space->store->runs.list, run_record_list); record != NULL;
         record = before) {
        before = TAILQ_PREV(record, run_record_list, order);
        engine->work += sizeof *record;
        if (!run_record_is_ended(record) || ++count <= KEPT)
            continue;
        put = (struct command){.kind = COMMAND_RUN_DELETE, .key = record->node.key};
        engine_apply(engine, space, &put, &result);
    }
}

/* If the space has no room, or the report is too long, only the log has the end. */
void status_end_run(struct live_run *run, const struct note *note, int64_t at_us)
{
    const struct run_view *v = &run->run.view;
    int64_t rounds = v->state.round + v->state.complete, began_us = run->history.began_us;
    bool is_bad = strcmp(note->end, "failed") == 0 || strcmp(note->end, "join_timeout") == 0;
    uint8_t report[REPORT_MAX];
    struct writer w = {.ptr = report, .cap = sizeof report};
    const struct history_round *last = TAILQ_FIRST(&run->history.rounds);
    char missing[NAMED * NODE_TEXT_MAX] = "", text[HISTORY_WHY_MAX];
    const char *why = history_why(last, note->reason, text);

    first_failure_log(run, 0);
    json_open(&w, '{');
    json_member(&w, "id", v->id);
    json_member_str(&w, "end", note->end);
    if (run->history.progress != 0)
        json_member_u64(&w, "progress", run->history.progress);
    json_member_known(&w, "began", began_us);
    json_member_time(&w, "ended", at_us);
    if (began_us != 0)
        json_member_seconds(&w, "seconds", at_us - began_us);
    json_member_seconds(&w, "trained",
                        goodput_spent_us(&run->history.goodput, GOODPUT_TRAINS, at_us));
    json_member_i64(&w, "rounds", rounds);
    json_member_u64(&w, "nodes", torch_state_participants(&v->last_completed));
    json_member_str(&w, "why", why);
    json_member_str(&w, "node", note->by_node);
    write_missing(&w, &run->history, note->end, missing);
    writer_u8(&w, '}');
    log_event(is_bad ? LOG_WARN : LOG_INFO, "run_ended",
              log_str("space", run->home->space->store->name), log_bytes("run", v->id),
              log_str("end", note->end), log_str("by", note->by_node), log_i64("rounds", rounds),
              log_i64("seconds", began_us == 0 ? 0 : (at_us - began_us) / 1000000),
              log_str("missing", missing), log_str("reason", why));
    if (w.len > w.cap || v->id.len > RUN_ID_MAX)
        return;
    keep_hosts(run, strcmp(note->end, "done") == 0 && run->run.settings->ended_job_ttl_ms != 0,
               at_us);
    keep(run, at_us, (struct slice){report, w.len});
}

void status_ended_write(struct writer *w, const struct engine_space *space, int64_t now_us,
                        size_t most)
{
    const struct run_record *record;

    json_list(w, "ended");
    TAILQ_FOREACH_REVERSE(record, &space->store->runs.list, run_record_list, order)
    {
        if (run_record_is_ended(record) && record->address.ptr[0] == '{' &&
            now_us - record->round < KEPT_US && most > 0) {
            most--;
            json_comma(w);
            writer_slice(w, record->address);
        }
    }
    writer_u8(w, ']');
}
