/* Orders of operators: records of the store, and events of the policy. See rendezvous.h. */
#include <stdio.h>

#include "proto/json.h"
#include "proto/units.h"
#include "rdzv/config/topology.h"
#include "rdzv/engine/log.h"
#include "rdzv/rendezvous/explain.h"
#include "rdzv/rendezvous/rendezvous.h"

#define NODE_KEY  OPERATOR_NODE_KEY
#define RUN_KEY   RUN_ORDER_KEY "run/"
#define RULES_KEY RUN_ORDER_KEY "rules/"
#define ENDS      "\"ends\":"

static const char *const words[] = {
    [OPERATOR_CORDON] = "cordon",     [OPERATOR_EVICT] = "evict",     [OPERATOR_DRAIN] = "drain",
    [OPERATOR_UNCORDON] = "uncordon", [OPERATOR_RESTART] = "restart", [OPERATOR_HOLD] = "hold",
    [OPERATOR_RELEASE] = "release",   [OPERATOR_CLOSE] = "close",     [OPERATOR_DUMP] = "dump",
    [OPERATOR_RULES] = "rules",
};

bool operator_verb_read(struct slice word, enum operator_verb *verb)
{
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        *verb = (enum operator_verb)i;
        if (slice_is(word, words[i]))
            return true;
    }
    return false;
}

/* --- From the records to the policy. --- */

/* The record keeps nodes out; `drains`: it is a drain, due at record->round (us since 1970). */
static bool keeps_out(const struct run_record *record, bool drains)
{
    return (!drains || record->port == OPERATOR_DRAIN) &&
           slice_starts_with(record->node.key, slice_str(NODE_KEY));
}

/* In the order of the records. Without memory, the patterns stay as they were. */
static bool read_patterns(struct rendezvous_space *home, bool drains, struct cordons *out)
{
    char **patterns = NULL, *text;
    size_t count = 0, bytes = 0;

    TAILQ_EACH(const struct run_record, record, &home->space->store->runs.list, order) {
        if (!keeps_out(record, drains))
            continue;
        count++;
        bytes += record->node.key.len + 1;
    }
    if (count != 0)
        patterns =
            account_heap_request(ACCOUNT_RUNS, ACCOUNT_ORDINARY, count * sizeof *patterns + bytes);
    if (count != 0 && patterns == NULL)
        return false;
    account_heap_free(ACCOUNT_RUNS, out->patterns);
    *out = (struct cordons){.patterns = patterns};
    if (count == 0)
        return true;
    text = (char *)(patterns + count);
    TAILQ_EACH(const struct run_record, record, &home->space->store->runs.list, order) {
        struct slice name = record->node.key;

        if (!keeps_out(record, drains))
            continue;
        name = slice_from(name, strlen(NODE_KEY));
        memcpy(text, name.ptr, name.len);
        text[name.len] = '\0';
        patterns[out->count++] = text;
        text += name.len + 1;
    }
    return true;
}

bool operator_restore(struct rendezvous_space *home)
{
    home->drain_id = 0;
    home->drain_due_us = INT64_MAX;
    TAILQ_EACH(const struct run_record, record, &home->space->store->runs.list, order) {
        if (!keeps_out(record, true))
            continue;
        home->drain_id = record->round;
        if (record->round < home->drain_due_us)
            home->drain_due_us = record->round;
    }
    return read_patterns(home, false, &home->cordons) && read_patterns(home, true, &home->drains);
}

/* The text of the order behind that name, `"name":`; empty: none. A reason has no bare quotes. */
static struct slice find_member(const struct run_record *record, const char *name)
{
    struct slice text = record == NULL ? (struct slice){0} : record->address;
    const uint8_t *at = text.len == 0 ? NULL : memmem(text.ptr, text.len, name, strlen(name));

    return at == NULL ? (struct slice){0}
                      : slice_from(text, (size_t)(at - text.ptr) + strlen(name));
}

void operator_restore_run(struct live_run *run)
{
    const struct run_record *record = driver_find_record(run->home, RUN_KEY, run->run.view.id);
    const struct run_record *rules = driver_find_record(run->home, RULES_KEY, run->run.view.id);
    struct slice nodes = find_member(record, "\"nodes\":");
    struct slice own = find_member(rules, "\"rules\":\"");
    struct run_orders *orders = &run->run.orders;
    char text[OPERATOR_ORDER_MAX];

    orders->word = record == NULL                  ? ORDER_NONE
                   : record->port == OPERATOR_HOLD ? ORDER_HOLD
                                                   : ORDER_CLOSE;
    snprintf(text, sizeof text, "%.*s", (int)nodes.len, (const char *)nodes.ptr);
    orders->until = strtoull(text, NULL, 10);
    orders->ends_us = find_member(record, ENDS).len == 0 ? 0 : record->round;
    snprintf(text, sizeof text, "%.*s", (int)own.len, (const char *)own.ptr);
    text[strcspn(text, "\"")] = '\0';
    run->run.rules = rules == NULL ? run->run.settings->rules : (struct run_rules){0};
    run->has_rules = rules != NULL && run_rules_read(text, &run->run.rules, NULL) == NULL;
}

/* --- To the records. --- */

static enum store_status remove_order(struct rendezvous_space *home, const char *prefix,
                                      struct slice name)
{
    return driver_apply_record(home, prefix, name, (struct command){.kind = COMMAND_RUN_DELETE});
}

void operator_forget_run(struct live_run *run)
{
    if (run->run.orders.word != ORDER_NONE)
        remove_order(run->home, RUN_KEY, run->run.view.id);
    run->run.orders.word = ORDER_NONE;
    if (run->has_rules)
        remove_order(run->home, RULES_KEY, run->run.view.id);
    run->has_rules = false;
    run->run.rules = run->run.settings->rules;
}

void operator_end_hold(struct live_run *run)
{
    struct operator_order o = {.verb = OPERATOR_RELEASE, .name = run->run.view.id, .by = "rdzvd"};

    o.reason =
        run->run.orders.until == 0 ? "its time is over" : "so many nodes are there as --until says";
    remove_order(run->home, RUN_KEY, run->run.view.id);
    operator_log(run->home->space, &o);
}

/* An order that ends with its nodes does not end an earlier one without an end: the earlier reason
 * stays. Else the preStop hook of a broken node would take back its cordon. */
static enum store_status put_order(struct rendezvous_space *home, const char *prefix,
                                   const struct operator_order *o)
{
    const struct run_record *before =
        o->ends_gone ? driver_find_record(home, prefix, o->name) : NULL;
    bool stays = before != NULL && find_member(before, ENDS).len == 0;
    int64_t now_us = engine_wall_ns(home->rdzv->engine) / 1000;
    uint8_t text[OPERATOR_ORDER_MAX];
    struct writer w = {.ptr = text, .cap = sizeof text};
    struct command put = {.kind = COMMAND_RUN_PUT,
                          .port = (uint16_t)o->verb,
                          .number = now_us + (int64_t)o->in_ms * 1000};

    json_open(&w, '{');
    json_member_str(&w, "order", words[o->verb]);
    if (o->verb == OPERATOR_DRAIN)
        json_member_time(&w, "until", put.number);
    json_member(&w, strcmp(prefix, NODE_KEY) == 0 ? "node" : "run", o->name);
    json_member_str(&w, "by", o->by);
    json_member_time(&w, "since", now_us);
    if (o->in_ms != 0 && o->verb != OPERATOR_DRAIN)
        json_member_time(&w, "ends", put.number);
    if (o->until != 0)
        json_member_u64(&w, "nodes", o->until);
    if (o->verb == OPERATOR_RULES)
        json_member_str(&w, "rules", o->rules_text);
    if (o->ends_gone && !stays)
        json_member_str(&w, "ends", "gone");
    json_name(&w, "reason");
    if (stays) {
        writer_slice(&w, operator_reason(before)); /* and the brace */
    } else {
        json_string(&w, slice_str(o->reason));
        writer_u8(&w, '}');
    }
    if (w.len > w.cap)
        return STORE_FULL;
    put.value = (struct slice){text, w.len};
    return driver_apply_record(home, prefix, o->name, put);
}

/* The notes of the steps that follow have the reason and the operator. */
static void begin_order(struct rendezvous_space *home, const struct operator_order *o)
{
    snprintf(home->order, sizeof home->order, "%s%s (%s)", *o->reason == '\0' ? "" : ": ",
             o->reason, o->by);
}

static void step_kept_out(struct rendezvous_space *home, const char *evicts, bool ends)
{
    driver_step_space(home, (struct policy_event){.kind = RUN_ORDERED,
                                                  .order = RUN_ORDER_KEEP_OUT,
                                                  .evicts = evicts,
                                                  .ends = ends});
    home->order[0] = '\0';
}

struct slice operator_reason(const struct run_record *record)
{
    struct slice found = find_member(record, "\"reason\":");

    return found.len == 0 ? slice_str("\"\"}") : found;
}

/* {"order":"drain","until":…,"node":… becomes {"order":"evict","node":… */
void operator_evict_drained(struct rendezvous_space *home)
{
    static const char node[] = ",\"node\":", since[] = "\",\"since\":";
    struct cordons drained = home->drains;
    uint8_t text[OPERATOR_ORDER_MAX];

    home->drains = (struct cordons){0};
    for (size_t i = 0; i < drained.count; i++) {
        struct slice name = slice_str(drained.patterns[i]);
        const struct run_record *record = driver_find_record(home, NODE_KEY, name);
        struct writer w = {.ptr = text, .cap = sizeof text};
        struct slice why = operator_reason(record), by = find_member(record, "\"by\":\"");

        if (record == NULL) /* memory was short when it was taken back */
            continue;
        /* as begin_order(), for the first step, in which all meet */
        snprintf(home->order, sizeof home->order, "%s%.*s (%.*s)", why.len == 3 ? "" : ": ",
                 (int)why.len - 3, (const char *)why.ptr + 1,
                 (int)(by.len - find_member(record, since).len - strlen(since)),
                 (const char *)by.ptr);
        writer_str(&w, "{\"order\":\"evict\"");
        writer_str(&w, node);
        writer_slice(&w, find_member(record, node));
        driver_apply_record(home, NODE_KEY, name,
                            (struct command){.kind = COMMAND_RUN_PUT,
                                             .port = OPERATOR_EVICT,
                                             .value = (struct slice){text, w.len},
                                             .number = record->round});
    }
    operator_restore(home);
    drain_update_keys(home);
    for (size_t i = 0; i < drained.count; i++)
        step_kept_out(home, drained.patterns[i], false);
    account_heap_free(ACCOUNT_RUNS, drained.patterns);
}

/* --- Orders. --- */

static struct operator_answer refuse(unsigned status, const char *why)
{
    return (struct operator_answer){.status = status, .why = why};
}

static struct operator_answer answer_of(enum store_status status)
{
    switch (status) {
    case STORE_OK:
        return (struct operator_answer){.status = 200};
    case STORE_FULL:
        return refuse(507, "The space has no room for the order, or the order is too long");
    case STORE_READ_ONLY:
        return refuse(503, "The store takes no changes at present");
    case STORE_ABSENT:
        return refuse(404, "There is no such order; rdzvctl status lists those that hold");
    default:
        return refuse(503, "The store has no memory for the order");
    }
}

void operator_log(const struct engine_space *space, const struct operator_order *o)
{
    log_event(LOG_WARN, "operator_order", log_str("space", space->store->name),
              log_str("order", words[o->verb]), log_bytes("about", o->name),
              log_str("reason", o->reason), log_str("by", o->by));
}

struct operator_nodes operator_count_nodes(const struct engine_space *space, struct slice pattern)
{
    char text[OPERATOR_NAME_MAX + 1];
    struct operator_nodes out = {0};
    struct run_view *v;

    snprintf(text, sizeof text, "%.*s", (int)pattern.len, (const char *)pattern.ptr);
    for (v = rendezvous_next(space, NULL); v != NULL; v = rendezvous_next(space, v)) {
        size_t before = out.participants, others = 0;

        NODES_FOREACH(node, &v->state) {
            bool is_meant = topology_matches(text, node->addr);

            if (node_role(node) == NULL || loss_is_mark(node))
                continue;
            out.all += is_meant;
            out.participants += is_meant && node->participant;
            others += !is_meant && !run_keeps_out(&live_run_of(v)->run, node);
        }
        if (out.participants > before && (others == 0 || others < live_run_of(v)->history.min))
            out.lacks = v;
    }
    return out;
}

struct operator_answer operator_order_node(struct engine_space *space,
                                           const struct operator_order *o)
{
    struct rendezvous_space *home = space->rendezvous;
    bool undoes = o->verb == OPERATOR_UNCORDON;
    char pattern[OPERATOR_NAME_MAX + 1];
    enum store_status status;

    if (home == NULL)
        return refuse(409, "rdzvd runs with --elastic-fixes=off");
    if (o->name.len == 0 || o->name.len > OPERATOR_NAME_MAX ||
        memchr(o->name.ptr, '/', o->name.len) != NULL)
        return refuse(400, "Name a node by its host, or by a pattern such as node-1*");
    if (!undoes && home->cordons.count >= OPERATOR_CORDONS &&
        driver_find_record(home, NODE_KEY, o->name) == NULL)
        return refuse(409, "The space has as many cordons as it may have: use a pattern");
    status = undoes ? remove_order(home, NODE_KEY, o->name) : put_order(home, NODE_KEY, o);
    if (status == STORE_OK && !operator_restore(home))
        status = STORE_NO_MEMORY;
    if (status != STORE_OK)
        return answer_of(status);
    operator_log(space, o);
    drain_update_keys(home);
    begin_order(home, o);
    snprintf(pattern, sizeof pattern, "%.*s", (int)o->name.len, (const char *)o->name.ptr);
    step_kept_out(home, o->verb == OPERATOR_EVICT ? pattern : NULL, o->ends_agents);
    return (struct operator_answer){.status = 200};
}

/* Between two rounds, an agent is in no state. After a start, it may be away or unnamed. */
static bool may_have_agent_of(const struct rendezvous_space *home, const char *pattern)
{
    return ANY(TAILQ_EACH(struct run_view, v, &home->runs.list, order),
               live_run_of(v)->run.start != START_OVER) ||
           ANY(TAILQ_EACH(struct run_view, v, &home->runs.list, order)
                   AGENTS_FOREACH(a, &live_run_of(v)->run.agents),
               agent_has_node(a) && a->link != LINK_GONE &&
                   topology_matches(pattern, a->node.addr));
}

/* One order a second, since each is compared with all nodes. */
void operator_tick(struct rendezvous_space *home)
{
    struct operator_order end = {.verb = OPERATOR_UNCORDON, .by = "rdzvd"};
    int64_t now_us = engine_wall_ns(home->rdzv->engine) / 1000;
    const struct run_record *record;
    char name[OPERATOR_NAME_MAX + 1];
    struct slice ends;

    if (home->cordons.count == 0)
        return;
    strcpy(name, home->cordons.patterns[home->ticks++ % home->cordons.count]);
    end.name = slice_str(name);
    record = driver_find_record(home, NODE_KEY, end.name);
    ends = find_member(record, ENDS);
    if (ends.len != 0 && record->port == OPERATOR_CORDON)
        end.reason = record->round > now_us ? NULL : "its time is over";
    else if (slice_starts_with(ends, slice_str("\"gone\"")) && record->port == OPERATOR_EVICT &&
             operator_count_nodes(home->space, end.name).all == 0 && !may_have_agent_of(home, name))
        end.reason = "its nodes have gone";
    if (end.reason != NULL)
        operator_order_node(home->space, &end);
}

/* What the order cannot do is refused, in one sentence. NULL: it can. */
static const char *why_not(const struct run *run, const struct operator_order *o)
{
    const struct torch_state *state = &run->view.state;
    enum operator_verb verb = o->verb;

    if (run->view.id.len > OPERATOR_NAME_MAX)
        return "The id of the run is too long for an order";
    if (verb == OPERATOR_RULES)
        return NULL;
    if (verb == OPERATOR_RELEASE)
        return run->orders.word == ORDER_HOLD ? NULL : "The run is not on hold";
    if (!run->view.is_state || run->view.unread)
        return "No node of the run has joined yet";
    if (state->closed) /* one that has failed would begin again */
        return run->failed && verb == OPERATOR_CLOSE
                   ? NULL
                   : "The run is closed already; rdzvctl forget frees its id";
    if (run->orders.word == ORDER_HOLD)
        return verb == OPERATOR_CLOSE || verb == OPERATOR_HOLD
                   ? NULL
                   : "The run is on hold already; rdzvctl release ends that";
    if (verb == OPERATOR_RESTART && !state->complete)
        return "The nodes of the run are meeting already";
    if (verb == OPERATOR_HOLD && o->until != 0 && run->view.participants >= o->until)
        return "So many nodes take part already: the hold would end at once";
    if (verb == OPERATOR_HOLD && !state->has_redundancy)
        return "Agents of torch before 2.3 cannot wait outside: they would end";
    return NULL;
}

/* A worker of the run looks for TORCH_DUMP_KEY. */
static bool has_reader(const struct live_run *run)
{
    return ANY(TAILQ_EACH(const struct conn, c, &run->home->rdzv->net->conns, entry),
               c->protocol != NULL && strcmp(c->protocol->name, "c10d") == 0 &&
                   conn_space(c) == run->home->space && c10d_session(c)->dump_s != 0 &&
                   c10d_session(c)->bound.worker_store == run->run.view.record.worker_store);
}

/* The workers of NCCL ask for the key each second, and read a rank: -1 is none. */
static struct operator_answer order_dump(struct live_run *run, const struct operator_order *o,
                                         const char *why)
{
    const struct worker_store *w = live_run_worker_store(run);
    const struct command command = {.kind = COMMAND_KEY_SET,
                                    .worker_store = w == NULL ? 0 : w->id,
                                    .key = slice_str(TORCH_DUMP_KEY),
                                    .value = slice_str("\xff\xff\xff\xff")};
    struct store_result result;

    if (w == NULL || w->users == 0)
        return refuse(409, why != NULL ? why
                                       : "No worker uses a store of rdzvd: worker 0 hosts it, or "
                                         "none has come");
    if (!has_reader(run))
        return refuse(409, "No worker has looked for torch's key exception_dump: those of gloo "
                           "never do, those of NCCL do with TORCH_NCCL_DUMP_ON_TIMEOUT=1");
    engine_apply(run->home->rdzv->engine, run->home->space, &command, &result);
    if (result.status != STORE_OK)
        return answer_of(result.status);
    operator_log(run->home->space, o);
    begin_order(run->home, o);
    history_dump(&run->history, run->home->order);
    run->home->order[0] = '\0';
    return answer_of(STORE_OK);
}

struct operator_answer operator_order_run(struct run_view *v, const struct operator_order *o)
{
    struct live_run *run = live_run_of(v);
    struct rendezvous_space *home = run->home;
    struct policy_event event = {.kind = RUN_ORDERED,
                                 .order = o->verb == OPERATOR_RESTART ? RUN_ORDER_RESTART
                                          : o->verb == OPERATOR_CLOSE ? RUN_ORDER_CLOSE
                                                                      : RUN_ORDER_KEEP_OUT,
                                 .evicts = o->verb == OPERATOR_RULES ? NULL : "*"};
    const char *why = why_not(&run->run, o);
    const char *key = o->verb == OPERATOR_RULES ? RULES_KEY : RUN_KEY;
    enum store_status status = STORE_OK;

    if (o->verb == OPERATOR_DUMP)
        return order_dump(run, o, why);
    if (why != NULL)
        return refuse(409, why);
    if (o->verb == OPERATOR_RELEASE || (o->verb == OPERATOR_RULES && o->rules_text == NULL))
        status = remove_order(home, key, v->id);
    else if (o->verb != OPERATOR_RESTART)
        status = put_order(home, key, o);
    if (status != STORE_OK)
        return answer_of(status);
    operator_log(home->space, o);
    operator_restore_run(run);
    begin_order(home, o);
    driver_step(run, event);
    home->order[0] = '\0';
    return answer_of(STORE_OK);
}

void operator_obey_rules(struct live_run *run)
{
    char *stop = run->history.stop, *host = run->history.cordon, why[128], time[UNITS_TEXT_MAX];
    const struct rule_limit *limit = &run->run.rules.cordon_after;
    struct operator_order o = {.by = "rdzvd"};

    run->history.cordon = NULL;
    if (host != NULL && !cordons_have(&run->home->cordons, slice_str(host))) {
        snprintf(why, sizeof why, "its workers failed first %u times in %s", (unsigned)limit->count,
                 units_format_duration(limit->ms, time));
        o.verb = OPERATOR_CORDON;
        o.in_ms = run->run.rules.cordon_ms;
        o.name = slice_str(host);
        o.reason = why;
        if (policy_can_spare(&run->run, o.name))
            operator_order_node(run->home->space, &o);
        else
            log_event(
                LOG_WARN, "node_not_cordoned", log_str("space", run->home->space->store->name),
                log_bytes("run", run->run.view.id), log_str("node", host), log_str("reason", why));
    }
    account_heap_free(ACCOUNT_RUNS, host);
    if (stop != NULL && run->run.orders.word != ORDER_CLOSE) {
        o.verb = OPERATOR_CLOSE;
        o.in_ms = 0;
        o.name = run->run.view.id;
        o.reason = stop;
        if (operator_order_run(&run->run.view, &o).status == 503)
            return; /* the store takes no changes: the next step tries again */
        run->home->rdzv->engine->stats.jobs.runs_stopped++;
        history_drop_text(&run->history.stop);
    }
}

void operator_orders_write(struct writer *w, const struct engine_space *space)
{
    json_list(w, "orders");
    TAILQ_EACH(const struct run_record, record, &space->store->runs.list, order) {
        if (!slice_starts_with(record->node.key, slice_str(RUN_ORDER_KEY)))
            continue;
        json_comma(w);
        writer_slice(w, record->address);
    }
    writer_u8(w, ']');
}
