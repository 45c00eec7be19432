/* A daemon without sockets. See model_space.h. */
#include "tests/sim/model_space.h"

#include "rdzv/admin/status.h"
#include "rdzv/rendezvous/run.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "proto/json.h"
#include "rdzv/rendezvous/explain.h"

#define KEY_COST    64
#define PROBE_MS    20
#define SHARED_PORT 29400

static void check_view(struct model_run *r);

/* --- The store. --- */

static void apply(struct model_space *s, const struct command *command)
{
    struct store_result result;

    store_execute(&s->store, s->space, command, NULL, &result);
    if (result.status != STORE_OK)
        s->fail("command %d has failed: %d", command->kind, result.status);
}

struct slice model_value(const struct model_run *run)
{
    const struct blob *value = keymap_get(&run->space->space->keys, slice_str(run->key));

    return value == NULL ? (struct slice){0} : (struct slice){value->bytes, value->len};
}

static void put(struct model_space *s, struct slice key, struct slice value)
{
    apply(s, &(struct command){.kind = COMMAND_KEY_SET, .key = key, .value = value});
}

static const struct run_record *record_of(const struct model_run *r)
{
    return run_records_find(&r->space->space->runs, slice_str(r->key));
}

static const struct run_record *ranks_of(const struct model_run *r)
{
    uint8_t key[RUN_RECORD_KEY_MAX];

    return run_records_find(&r->space->space->runs,
                            run_record_key(RUN_RANKS_KEY, slice_str(r->key), key));
}

static void put_ranks(struct model_run *r, struct slice ranks)
{
    uint8_t key[RUN_RECORD_KEY_MAX];

    apply(r->space, &(struct command){.kind = COMMAND_RUN_PUT,
                                      .key = run_record_key(RUN_RANKS_KEY, slice_str(r->key), key),
                                      .value = ranks});
}

static void delete_record(struct model_run *r)
{
    const struct run_record *kept[] = {record_of(r), ranks_of(r)};

    for (int i = 0; i < 2; i++) {
        if (kept[i] != NULL)
            apply(r->space,
                  &(struct command){.kind = COMMAND_RUN_DELETE, .key = kept[i]->node.key});
    }
}

static void forget_keys(struct model_run *r)
{
    struct model_space *s = r->space;
    struct entry *e, *next;

    for (e = TAILQ_FIRST(&s->space->keys.entries); e != NULL; e = next) {
        next = TAILQ_NEXT(e, order);
        if (run_views_owns(&s->views, &r->run.view, entry_key(e)))
            apply(s, &(struct command){.kind = COMMAND_KEY_DELETE, .key = entry_key(e)});
    }
    delete_record(r);
    r->incarnation++;
}

static void put_record(struct model_run *r, const struct view_record *record)
{
    apply(r->space, &(struct command){.kind = COMMAND_RUN_PUT,
                                      .key = slice_str(r->key),
                                      .placement = record->placement,
                                      .value = record->address,
                                      .port = record->port,
                                      .worker_store = record->worker_store,
                                      .number = record->round});
}

/* --- Carrying out. --- */

static void step(struct model_run *r, struct policy_event event);

static enum port_share share_of(const struct model_run *r)
{
    const struct model_space *s = r->space;

    if (s->shared == r)
        return PORT_IS_OURS;
    return s->shared == NULL || !run_keeps_port(&s->shared->run) ? PORT_IS_FREE : PORT_IS_TAKEN;
}

static void close_port(struct model_run *r)
{
    if (r->space->shared == r)
        r->space->shared = NULL;
    r->own_port = 0;
}

static void carry_out_command(struct model_run *r, const struct policy_output *o)
{
    struct model_space *s = r->space;

    switch (o->kind) {
    case POLICY_PUT:
        put(s, o->key, o->value);
        break;
    case POLICY_PUT_IF_ABSENT:
        if (keymap_get(&s->space->keys, o->key) == NULL)
            put(s, o->key, o->value);
        break;
    case POLICY_PUT_RECORD:
        put_record(r, &o->record);
        break;
    case POLICY_PUT_RANKS:
        put_ranks(r, o->value);
        break;
    case POLICY_FORGET_RUN:
        forget_keys(r);
        break;
    case POLICY_DELETE_RECORD:
        delete_record(r);
        break;
    case POLICY_OPEN_WORKER_STORE:
        apply(s, &(struct command){.kind = COMMAND_WORKER_STORE_OPEN});
        if (o->worker_store != s->space->worker_stores.last_id)
            s->fail("worker store %llu is not the next", (unsigned long long)o->worker_store);
        break;
    case POLICY_DROP_WORKER_STORE:
        apply(s, &(struct command){.kind = COMMAND_WORKER_STORE_DROP,
                                   .worker_store = o->worker_store});
        break;
    default:
        break;
    }
}

static void hold(struct model_link *link)
{
    struct model_space *s = link->run->space;

    if (!link->held)
        link->held_since_ms = s->now.ms;
    link->held = true;
    if (link->agent.held == HELD_NONE)
        s->fail("held for no reason");
}

static void resume(struct model_link *link)
{
    bool held = link->held;

    if (!held && link->agent.link == LINK_HERE)
        link->run->space->fail("resumed, and not held");
    link->held = false;
    if (held && link->up)
        link->run->space->resume(link);
}

static void keep_memo(struct model_link *link, struct slice value)
{
    if (!link->agent.relayed || value.len > MODEL_MEMO_MAX)
        link->run->space->fail("a memo of %zu bytes", value.len);
    memcpy(link->memo.bytes, value.ptr, value.len);
    link->memo.len = value.len;
}

/* The hosts of nodes that are in the run and do not take part, as the daemon writes them. */
static void keep_end(struct model_run *r, const struct note *note)
{
    const struct torch_state *state = &r->run.view.state;
    struct writer w = {.ptr = (uint8_t *)r->ended_hosts, .cap = sizeof r->ended_hosts - 1};

    if (note->kind != NOTE_RUN_ENDED)
        return;
    for (size_t i = 0; strcmp(note->end, "done") == 0 && i < state->count; i++) {
        if (!state->nodes[i].participant && !loss_is_mark(&state->nodes[i]))
            json_item(&w, state->nodes[i].addr);
    }
    r->ended_hosts[w.len < w.cap ? w.len : w.cap] = '\0';
    r->ended_ms = r->space->now.ms;
}

/* As effects.c does it. */
static void note_history(struct model_run *r, const struct note *note)
{
    int64_t now_us = r->space->now.wall_ns / 1000;

    history_note(&r->history, &r->run, note, NULL, now_us);
    if (r->history.is_unjudged && r->run.orders.word != ORDER_CLOSE)
        run_rules_judge(&r->history, &r->run.rules, &(struct run_past){0}, now_us);
}

static void carry_out_effect(struct model_run *r, const struct policy_output *o)
{
    struct model_space *s = r->space;
    struct model_link *link = (struct model_link *)(void *)o->agent;

    switch (o->kind) {
    case POLICY_ANSWER_CURRENT:
        s->reply(link, model_value(r));
        break;
    case POLICY_ANSWER_VALUE:
        s->reply(link, o->value);
        break;
    case POLICY_NO_ROOM:
    case POLICY_CLOSE:
        link->up = false;
        s->close(link, o->kind == POLICY_CLOSE ? o->reason : "the space is full");
        break;
    case POLICY_HOLD:
        hold(link);
        break;
    case POLICY_RESUME:
        resume(link);
        break;
    case POLICY_KEEP_MEMO:
        keep_memo(link, o->value);
        break;
    case POLICY_PROBE:
        r->probe_ms = s->now.ms + PROBE_MS;
        break;
    case POLICY_CANCEL_PROBE:
        r->probe_ms = 0;
        break;
    case POLICY_SHARE_PORT:
        s->shared = r;
        break;
    case POLICY_CLOSE_PORT:
        close_port(r);
        break;
    case POLICY_NOTE:
        keep_end(r, o->note);
        note_history(r, o->note);
        break;
    default:
        break;
    }
}

static void open_port(struct model_run *r)
{
    struct model_space *s = r->space;

    r->own_port = s->ports_fail ? 0 : (uint16_t)(31000 + s->steps % 1000);
    step(r, (struct policy_event){.kind = RUN_PORT_OPENED, .port = r->own_port});
}

/* By a rule, as operator_close_run() does it. */
static void strike(struct model_run *r)
{
    char *host = r->history.cordon;

    r->history.cordon = NULL;
    if (r->space->struck != NULL && policy_can_spare(&r->run, slice_str(host)))
        r->space->struck(r, host);
    account_heap_free(ACCOUNT_RUNS, host);
}

static void stop(struct model_run *r)
{
    account_heap_free(ACCOUNT_RUNS, r->history.stop);
    r->history.stop = NULL;
    if (r->space->stopped != NULL)
        r->space->stopped(r);
    r->orders.word = ORDER_CLOSE;
    model_order(r, RUN_ORDER_CLOSE, false);
}

static bool is_answer(enum policy_output_kind kind)
{
    return kind == POLICY_ANSWER_CURRENT || kind == POLICY_ANSWER_VALUE || kind == POLICY_HOLD ||
           kind == POLICY_NO_ROOM || kind == POLICY_CLOSE;
}

static size_t count_answers(const struct policy_event *event, const struct policy_out *out)
{
    size_t n = 0;

    for (size_t i = 0; i < out->count; i++)
        n += event->agent != NULL && out->items[i].agent == event->agent &&
             is_answer(out->items[i].kind);
    return n;
}

/* A compare-and-set is answered once, a look at most once, and a SET of a round's key is said yes
 * or no to. */
static void check_answers(const struct model_space *s, const struct policy_event *event,
                          const struct policy_out *out)
{
    size_t answers = count_answers(event, out), verdicts = 0;

    for (size_t i = 0; i < out->count; i++) {
        const struct policy_output *o = &out->items[i];

        verdicts += o->kind == POLICY_PASS || o->kind == POLICY_SWALLOW;
    }
    if (answers != 1 && (event->kind == AGENT_COMPARE_SET || answers > 1))
        s->fail("a request has %zu answers", answers);
    if (verdicts != (event->kind == AGENT_SET_ROUND_KEY))
        s->fail("a SET has %zu verdicts", verdicts);
}

/* As policy_now.lived_ms. */
static uint64_t model_lived_ms(const struct model_space *s)
{
    return (s->still_since_ms != 0 ? s->still_since_ms : s->now.ms) - s->still_ms;
}

static void step_into(struct model_run *r, struct policy_event *event, struct policy_out *out)
{
    struct model_space *s = r->space;
    struct policy_now now;
    bool opens_port = false;

    s->now.value = model_value(r);
    s->now.room = s->room;
    s->now.key_cost = KEY_COST;
    s->now.next_worker_store = s->space->worker_stores.last_id + 1;
    s->now.share = share_of(r);
    now = s->now;
    now.lived_ms = model_lived_ms(s);
    if (event->kind == AGENT_COMPARE_SET && s->now.ms - r->ended_ms < s->settings.ended_job_ttl_ms)
        now.ended_hosts = slice_str(r->ended_hosts);
    policy_step(&r->run, event, &now, out);
    s->steps++;
    check_answers(s, event, out);
    for (size_t i = 0; i < out->count; i++) {
        carry_out_command(r, &out->items[i]);
        carry_out_effect(r, &out->items[i]);
        opens_port = opens_port || out->items[i].kind == POLICY_OPEN_PORT;
    }
    if (!r->run.view.exists) { /* as driver.c */
        r->run.orders.word = ORDER_NONE;
        r->run.rules = s->settings.rules;
        r->has_rules = false;
    }
    r->orders.word = r->run.orders.word;
    policy_counters_add(&s->counters, &out->counters);
    check_view(r);
    if (opens_port)
        open_port(r);
    if (r->history.cordon != NULL)
        strike(r);
    if (r->history.stop != NULL)
        stop(r);
}

static void step(struct model_run *r, struct policy_event event)
{
    struct policy_out out = {0};

    step_into(r, &event, &out);
    policy_out_clear(&out);
}

/* --- The view is what the keys and the record say. --- */

/* In `b` heartbeats may be newer with `beats`: those that the keys do not have yet. */
static bool same_states(const struct torch_state *a, const struct torch_state *b, bool beats)
{
    if (a->count != b->count || a->round != b->round || a->complete != b->complete ||
        a->closed != b->closed || a->has_deadline != b->has_deadline ||
        (a->has_deadline && a->deadline_us != b->deadline_us) || a->fqdn != b->fqdn ||
        a->aware != b->aware || a->has_redundancy != b->has_redundancy ||
        a->protocol != b->protocol)
        return false;
    for (size_t i = 0; i < a->count; i++) {
        const struct torch_node *x = &a->nodes[i], *y = &b->nodes[i];

        if (torch_node_compare(x, y) != 0 || x->participant != y->participant ||
            x->waiting != y->waiting || x->redundant != y->redundant || x->rank != y->rank ||
            x->has_heartbeat != y->has_heartbeat ||
            (beats ? x->heartbeat_us > y->heartbeat_us : x->heartbeat_us != y->heartbeat_us))
            return false;
    }
    return true;
}

static bool same_records(const struct view_record *a, const struct view_record *b)
{
    return a->placement == b->placement && a->port == b->port &&
           a->worker_store == b->worker_store && a->round == b->round &&
           slice_equal(a->address, b->address);
}

static void set_record(const struct model_run *r, struct run_view *v)
{
    const struct run_record *kept = record_of(r), *ranks = ranks_of(r);

    if (ranks != NULL && !run_view_keep(&v->ranks, ranks->address))
        abort();
    if (kept != NULL &&
        !run_view_set_record(v, &(struct view_record){kept->placement, kept->address, kept->port,
                                                      kept->worker_store, kept->round}))
        abort();
}

static bool keeps_record(const struct model_run *r, const struct view_record *record)
{
    const struct run_record *kept = record_of(r);

    if (kept == NULL)
        return !(record->placement != WORKER_STORE_UNKNOWN || record->worker_store != 0);
    return same_records(record, &(struct view_record){kept->placement, kept->address, kept->port,
                                                      kept->worker_store, kept->round});
}

static void note_value(struct model_run *r, struct slice value)
{
    free(r->fresh_value);
    r->fresh_value = value.ptr == NULL ? NULL : malloc(value.len + 1);
    r->fresh_len = value.len;
    if (value.ptr == NULL)
        return;
    if (r->fresh_value == NULL)
        abort();
    memcpy(r->fresh_value, value.ptr, value.len);
}

/* The view made only from the keys. It is made again when the keys have changed, not at each step,
 * because reading the value takes most of the time of a simulation. */
static const struct run_view *fresh_view(struct model_run *r)
{
    struct slice value = model_value(r), noted = {r->fresh_value, r->fresh_len};

    if (r->is_fresh_made && (value.ptr == NULL) == (noted.ptr == NULL) &&
        slice_equal(value, noted) && keeps_record(r, &r->fresh.record))
        return &r->fresh;
    run_view_fini(&r->fresh);
    run_view_init(&r->fresh, r->run.view.node.key);
    set_record(r, &r->fresh);
    run_view_update(&r->fresh, value);
    note_value(r, value);
    r->is_fresh_made = true;
    return &r->fresh;
}

static void check_view(struct model_run *r)
{
    const struct run_view *v = &r->run.view, *fresh = fresh_view(r);

    if (v->late != 0) /* then the keys say less */
        return;
    if (!slice_equal(ranks_of(r) == NULL ? (struct slice){0} : ranks_of(r)->address, v->ranks))
        r->space->fail("the ranks are not what the store keeps");
    if (fresh->exists != v->exists || fresh->is_state != v->is_state ||
        !same_states(&fresh->state, &v->state, v->is_ahead) ||
        !same_records(&fresh->record, &v->record))
        r->space->fail("the view is not what the keys say");
    if (fresh->has_completed &&
        (!v->has_completed || fresh->last_completed.round != v->last_completed.round))
        r->space->fail("the last completed round is not what the keys say");
}

/* --- Its life. --- */

static void begin_run(struct model_space *s, struct model_run *r)
{
    run_init(&r->run, slice_str(r->key), &s->settings, s->seed, s->now.ms);
    r->orders.cordons = &s->cordons;
    r->run.orders = r->orders;
    if (r->has_rules)
        r->run.rules = r->rules;
    run_views_add(&s->views, &r->run.view);
}

void model_space_init(struct model_space *s, uint64_t seed, size_t run_count)
{
    s->seed = seed;
    s->run_count = run_count;
    s->room = SIZE_MAX;
    store_init(&s->store, &(struct store_options){.seed = seed});
    s->space = store_space(&s->store, slice_str("default"));
    run_views_init(&s->views, seed);
    for (size_t i = 0; i < run_count; i++) {
        s->runs[i].space = s;
        snprintf(s->runs[i].key, sizeof s->runs[i].key, TORCH_RUN_PREFIX "job%s",
                 i == 0 ? "" : ".0/x");
        begin_run(s, &s->runs[i]);
    }
}

void model_space_fini(struct model_space *s)
{
    for (size_t i = 0; i < s->run_count; i++) {
        run_views_remove(&s->views, &s->runs[i].run.view);
        run_fini(&s->runs[i].run);
        history_fini(&s->runs[i].history);
        run_view_fini(&s->runs[i].fresh);
        free(s->runs[i].fresh_value);
    }
    run_views_fini(&s->views);
    store_fini(&s->store);
}

static uint8_t *copy_of(struct slice value)
{
    uint8_t *copy = malloc(value.len + 1);

    if (copy == NULL)
        abort();
    if (value.len != 0)
        memcpy(copy, value.ptr, value.len);
    return copy;
}

static void drop(struct model_link *link)
{
    if (link->bound)
        step(link->run, (struct policy_event){.kind = AGENT_DISCONNECTED,
                                              .agent = &link->agent,
                                              .daemon_drains = true});
    free(link);
}

void model_end(struct model_space *s, struct model_link *const *links, size_t count, bool killed)
{
    struct slice values[MODEL_RUNS];

    for (size_t i = 0; i < s->run_count; i++) {
        values[i] = model_value(&s->runs[i]);
        if (values[i].ptr != NULL)
            values[i].ptr = copy_of(values[i]);
    }
    for (size_t i = 0; i < count; i++)
        drop(links[i]);
    for (size_t i = 0; i < s->run_count; i++) {
        if (values[i].ptr != NULL && killed)
            put(s, slice_str(s->runs[i].key), values[i]);
        free((void *)(uintptr_t)values[i].ptr);
    }
}

void model_begin_again(struct model_space *s, uint64_t away_ms, bool agents_return)
{
    s->shared = NULL;
    for (size_t i = 0; i < s->run_count; i++) {
        struct model_run *r = &s->runs[i];

        run_views_remove(&s->views, &r->run.view);
        run_fini(&r->run);
        history_fini(&r->history);
        r->probe_ms = 0;
        r->own_port = 0;
        begin_run(s, r);
        set_record(r, &r->run.view);
        step(r, (struct policy_event){
                    .kind = RUN_RESTORED, .agents_return = agents_return, .away_ms = away_ms});
    }
}

void model_returned(struct model_space *s)
{
    for (size_t i = 0; i < s->run_count; i++)
        step(&s->runs[i], (struct policy_event){.kind = RUN_RETURNED});
}

struct model_link *model_link_new(struct model_run *run, void *owner, bool pings, bool relayed)
{
    struct model_link *link = calloc(1, sizeof *link);

    if (link == NULL)
        abort();
    *link = (struct model_link){.run = run, .owner = owner, .up = true};
    link->agent = (struct agent){
        .pings = pings, .local_host = "10.0.0.1", .local_port = SHARED_PORT, .relayed = relayed};
    return link;
}

struct model_link *model_link_again(struct model_run *run, void *owner, bool pings,
                                    const struct model_memo *memo)
{
    struct model_link *link = model_link_new(run, owner, pings, true);

    link->agent.origin = ORIGIN_UNNAMED;
    link->memo = *memo;
    return link;
}

void model_link_free(struct model_link *link)
{
    if (link->bound)
        step(link->run, (struct policy_event){.kind = AGENT_DISCONNECTED, .agent = &link->agent});
    free(link);
}

void model_presence(struct model_link *link, enum policy_event_kind kind)
{
    link->held = link->held && kind == AGENT_BACK;
    if (link->bound)
        step(link->run, (struct policy_event){.kind = kind, .agent = &link->agent});
}

/* --- Requests. --- */

static void bind_link(struct model_link *link)
{
    if (!link->bound)
        step(link->run, (struct policy_event){.kind = AGENT_CONNECTED,
                                              .agent = &link->agent,
                                              .memo = {link->memo.bytes, link->memo.len}});
    link->bound = true;
}

void model_compare_set(struct model_link *link, struct slice expected, struct slice desired)
{
    struct model_space *s = link->run->space;
    struct policy_now now = {
        .ms = s->now.ms, .lived_ms = model_lived_ms(s), .wall_ns = s->now.wall_ns};
    struct slice shown;

    bind_link(link);
    shown = policy_heartbeat(&link->run->run, &link->agent, expected, desired, &now);
    if (shown.ptr != NULL) {
        s->counters.writes_merged++;
        s->heartbeats++;
        s->reply(link, shown);
        return;
    }
    step(link->run, (struct policy_event){.kind = AGENT_COMPARE_SET,
                                          .agent = &link->agent,
                                          .expected = expected,
                                          .desired = desired});
}

void model_look(struct model_link *link)
{
    struct policy_event event = {.kind = AGENT_POLLED, .agent = &link->agent};
    struct model_space *s = link->run->space;
    struct policy_out out = {0};
    struct slice shown;

    bind_link(link);
    shown = policy_poll_again(&link->run->run, &link->agent, false, s->now.ms, model_lived_ms(s));
    if (shown.ptr != NULL) {
        s->looks_shown++;
        s->reply(link, shown);
        return;
    }
    step_into(link->run, &event, &out);
    if (count_answers(&event, &out) == 0)
        s->reply(link, model_value(link->run));
    policy_out_clear(&out);
}

static struct slice round_key(const struct model_run *r, int64_t round, const char *name,
                              uint8_t out[sizeof r->key + TORCH_KEY_ROOM])
{
    return (struct slice){out, torch_key_write(r->run.view.node.key, round, name, out)};
}

static const struct blob *find_key(const struct model_run *r, int64_t round, const char *name)
{
    uint8_t key[sizeof r->key + TORCH_KEY_ROOM];

    return keymap_get(&r->space->space->keys, round_key(r, round, name, key));
}

bool model_has_key(const struct model_run *run, int64_t round, const char *name)
{
    return find_key(run, round, name) != NULL;
}

void model_set(struct model_link *link, int64_t round, const char *name, struct slice value)
{
    struct policy_event event = {.kind = AGENT_SET_ROUND_KEY,
                                 .agent = &link->agent,
                                 .round = round,
                                 .round_key = slice_str(name),
                                 .desired = value};
    uint8_t key[sizeof link->run->key + TORCH_KEY_ROOM];
    struct policy_out out = {0};

    bind_link(link);
    event.exists = model_has_key(link->run, round, name);
    step_into(link->run, &event, &out);
    for (size_t i = 0; i < out.count; i++) {
        if (out.items[i].kind == POLICY_PASS)
            put(link->run->space, round_key(link->run, round, name, key), value);
    }
    policy_out_clear(&out);
    link->run->space->reply(link, value);
}

static void ask(struct model_link *link, enum policy_event_kind kind, int64_t round,
                const char *name, bool waits)
{
    bind_link(link);
    step(link->run, (struct policy_event){.kind = kind,
                                          .agent = &link->agent,
                                          .waits = waits,
                                          .round = round,
                                          .round_key = slice_str(name)});
}

/* WAIT, and GET if there is one. */
void model_read(struct model_link *link, int64_t round, const char *name)
{
    struct model_run *r = link->run;
    const struct blob *value;

    ask(link, AGENT_ASKED, round, name, !model_has_key(r, round, name));
    if (model_has_key(r, round, name))
        ask(link, AGENT_GET_ROUND_KEY, round, name, false);
    value = find_key(r, round, name);
    r->space->reply(link,
                    value == NULL ? (struct slice){0} : (struct slice){value->bytes, value->len});
}

/* The names of the keys of all ranks begin like that. */
#define NAME_ROOM 64

static void name_of(char out[NAME_ROOM], const char *name, size_t rank)
{
    snprintf(out, NAME_ROOM, "%s%zu", name, rank);
}

void model_gather(struct model_link *link, int64_t round, size_t nodes)
{
    char name[NAME_ROOM];
    size_t found = 0;

    for (size_t i = 0; i < nodes; i++) {
        name_of(name, "torchelastic/role_info/", i);
        found += model_has_key(link->run, round, name);
    }
    ask(link, AGENT_ASKED, round, "torchelastic/role_info/0", found < nodes);
    link->run->space->reply(link, found < nodes ? (struct slice){0} : slice_str("all"));
}

void model_rank(struct model_link *link, int64_t round, size_t nodes)
{
    struct model_run *r = link->run;
    uint8_t key[sizeof r->key + TORCH_KEY_ROOM];
    char name[NAME_ROOM];

    ask(link, AGENT_ASKED, round, "torchelastic/assigned_ranks/0", false);
    for (size_t i = 0; i < nodes; i++) {
        name_of(name, "torchelastic/assigned_ranks/", i);
        put(r->space, round_key(r, round, name, key), slice_str("[]"));
    }
    r->space->reply(link, slice_str("set"));
}

void model_add(struct model_link *link, int64_t round, const char *name)
{
    struct model_run *r = link->run;
    uint8_t key[sizeof r->key + TORCH_KEY_ROOM];
    struct store_result sum;
    char text[24];

    ask(link, AGENT_ADD_ROUND_KEY, round, name, false);
    store_execute(&r->space->store, r->space->space,
                  &(struct command){
                      .kind = COMMAND_KEY_ADD, .key = round_key(r, round, name, key), .number = 1},
                  NULL, &sum);
    if (sum.status != STORE_OK)
        r->space->fail("an ADD has failed: %d", sum.status);
    snprintf(text, sizeof text, "%" PRId64, sum.number);
    r->space->reply(link, slice_str(text));
}

void model_wait(struct model_link *link, int64_t round, const char *name)
{
    ask(link, AGENT_ASKED, round, name, !model_has_key(link->run, round, name));
}

/* --- Time. --- */

void model_tick(struct model_space *s)
{
    for (size_t i = 0; i < s->run_count; i++) {
        struct policy_event event = {.kind = RUN_TICK};
        bool due = run_due_ms(&s->runs[i].run) <= s->now.ms;
        struct policy_out out = {0};

        step_into(&s->runs[i], &event, &out);
        if (out.count != 0 && !due)
            s->fail("a tick finds something to do for a run that is not due");
        policy_out_clear(&out);
    }
}

void model_run_due(struct model_space *s)
{
    for (size_t i = 0; i < s->run_count; i++) {
        struct model_run *r = &s->runs[i];

        if (r->probe_ms != 0 && r->probe_ms <= s->now.ms) {
            r->probe_ms = 0;
            step(r, (struct policy_event){.kind = RUN_PROBED, .refused = r->probe_refused});
        }
    }
}

uint64_t model_next_ms(const struct model_space *s)
{
    uint64_t next = UINT64_MAX;

    for (size_t i = 0; i < s->run_count; i++) {
        const struct model_run *r = &s->runs[i];

        if (r->probe_ms != 0 && r->probe_ms < next)
            next = r->probe_ms;
    }
    return next;
}

void model_stall(struct model_space *s)
{
    s->still_since_ms = s->now.ms;
}

void model_stalled(struct model_space *s, uint64_t ms)
{
    s->still_since_ms = 0;
    s->still_ms += ms;
}

void model_order(struct model_run *run, enum run_order order, bool evicts)
{
    run->run.orders = run->orders;
    run->run.rules = run->has_rules ? run->rules : run->space->settings.rules;
    step(run,
         (struct policy_event){.kind = RUN_ORDERED, .order = order, .evicts = evicts ? "*" : NULL});
}

void model_forget(struct model_run *run)
{
    step(run, (struct policy_event){.kind = RUN_FORGET});
}
