/* Outputs of the policy become commands of the store, answers, timers, probes and ports. */
#include <errno.h>

#include "rdzv/engine/log.h"
#include "rdzv/net/input.h"
#include "rdzv/net/probe.h"
#include "rdzv/rendezvous/driver.h"
#include "rdzv/rendezvous/explain.h"

#define SWEPT_AT_A_TIME 512

/* --- Commands. --- */

static const char *why_not(enum store_status status)
{
    switch (status) {
    case STORE_FULL:
        return "the space is full, see --space-limit";
    case STORE_ABSENT:
        return "its worker store is gone";
    case STORE_READ_ONLY:
        return "the data directory takes no changes";
    default:
        return "out of memory";
    }
}

/* The policy has seen that the keys have room; memory may be short, and run records have a limit of
 * their own. What a deletion does not find is gone already. */
static bool apply_command(struct live_run *run, const struct command *command)
{
    bool deletes = command->kind == COMMAND_KEY_DELETE || command->kind == COMMAND_RUN_DELETE;
    struct store_result result;

    engine_apply(run->home->rdzv->engine, run->home->space, command, &result);
    if (result.status == STORE_OK || (deletes && result.status == STORE_ABSENT))
        return true;
    log_event(LOG_ERROR, "repair_failed", log_str("space", run->home->space->store->name),
              log_bytes("run", run->run.view.id), log_str("reason", why_not(result.status)));
    return false;
}

struct blob *live_run_value(const struct live_run *run)
{
    return keymap_get(&run->home->space->store->keys, run->run.view.node.key);
}

static void put_value(struct live_run *run, const struct policy_output *o)
{
    if (!apply_command(
            run, &(struct command){.kind = COMMAND_KEY_SET, .key = o->key, .value = o->value}))
        run->run.view.unread = true;
}

static void put_record(struct live_run *run, const struct view_record *record)
{
    apply_command(run, &(struct command){.kind = COMMAND_RUN_PUT,
                                         .key = run->run.view.node.key,
                                         .placement = record->placement,
                                         .value = record->address,
                                         .port = record->port,
                                         .worker_store = record->worker_store,
                                         .number = record->round});
}

static void put_ranks(struct live_run *run, struct slice ranks)
{
    uint8_t key[RUN_RECORD_KEY_MAX];

    apply_command(
        run, &(struct command){.kind = COMMAND_RUN_PUT,
                               .key = run_record_key(RUN_RANKS_KEY, run->run.view.node.key, key),
                               .value = ranks});
}

static void delete_record(struct live_run *run)
{
    static const char *const beside[] = {RUN_RANKS_KEY, RUN_GOODPUT_KEY};

    apply_command(run,
                  &(struct command){.kind = COMMAND_RUN_DELETE, .key = run->run.view.node.key});
    for (int i = 0; i < 2; i++)
        driver_apply_record(run->home, beside[i], run->run.view.node.key,
                            (struct command){.kind = COMMAND_RUN_DELETE});
}

/* If the space has no room, it is saved with its next change. */
static void save_goodput(struct live_run *run)
{
    char text[GOODPUT_TEXT_MAX];

    goodput_save(&run->history.goodput, text);
    driver_apply_record(run->home, RUN_GOODPUT_KEY, run->run.view.node.key,
                        (struct command){.kind = COMMAND_RUN_PUT, .value = slice_str(text)});
}

static void forget_key(struct live_run *run, struct slice key)
{
    run->keys_forgotten +=
        apply_command(run, &(struct command){.kind = COMMAND_KEY_DELETE, .key = key});
}

/* A walk through the keys of the rounds, in pieces, has a number. If agents come back to the run
 * meanwhile, it is not forgotten, and the next walk begins anew. */
static void begin_sweep(struct live_run *run)
{
    struct rendezvous *r = run->home->rdzv;

    if (run->sweep != 0 && run->sweep_since_ms == run->run.idle_since_ms)
        return;
    if (++r->sweeps == 0)
        r->sweeps = 1;
    run->sweep = r->sweeps;
    run->sweep_since_ms = run->run.idle_since_ms;
    run->keys_forgotten = 0;
}

/* Some keys with the run's prefix belong to a run with a longer name. */
bool effects_sweep_keys(struct live_run *run)
{
    struct rendezvous_space *home = run->home;
    struct keymap *keys = &home->space->store->keys;
    const struct entry *e;
    struct key_walk walk;

    begin_sweep(run);
    home->forgets = true;
    keymap_walk_group(keys, run->run.view.node.key, &walk);
    for (int i = 0; i < SWEPT_AT_A_TIME; i++) {
        e = keymap_walk_piece(&walk, run->sweep);
        if (e == NULL)
            break;
        if (run_views_owns(&home->runs, &run->run.view, entry_key(e)))
            forget_key(run, entry_key(e));
    }
    keymap_walk_pause(keys, &walk);
    home->forgets = false;
    return walk.next == NULL;
}

/* Deletes the run's own key, the round keys that the sweeps have left, and the run's record. */
static void forget_run(struct live_run *run)
{
    struct rendezvous_space *home = run->home;

    while (!effects_sweep_keys(run))
        continue;
    run->sweep = 0;
    home->forgets = true;
    if (live_run_value(run) != NULL)
        forget_key(run, run->run.view.node.key);
    home->forgets = false;
    delete_record(run);
}

/* --- Worker stores. --- */

struct worker_store *live_run_worker_store(const struct live_run *run)
{
    return worker_stores_find(&run->home->space->store->worker_stores,
                              run->run.view.record.worker_store);
}

/* The store keeps it while a record names it, or a relay's session is bound to it. */
void effects_drop_if_unused(struct rendezvous_space *home, const struct worker_store *w)
{
    const struct command command = {.kind = COMMAND_WORKER_STORE_DROP, .worker_store = w->id};
    struct store_result result;

    if (!w->ended || w->users > 0)
        return;
    engine_apply(home->rdzv->engine, home->space, &command, &result);
    home->misses_drops = home->misses_drops || result.status == STORE_READ_ONLY;
}

void effects_drop_unused(struct rendezvous_space *home)
{
    const struct worker_stores *all = &home->space->store->worker_stores;

    home->misses_drops = false;
    for (size_t i = all->count; i-- > 0;)
        effects_drop_if_unused(home, all->items[i]);
}

static void end_worker_store(struct live_run *run, uint64_t id)
{
    struct worker_store *w = worker_stores_find(&run->home->space->store->worker_stores, id);

    if (w == NULL)
        return;
    w->ended = true;
    effects_drop_if_unused(run->home, w);
}

/* --- Ports. --- */

/* Both clients have come to the same address of the same relay, as a worker does with its agent. */
static bool same_relay(const struct conn *a, const struct conn *b)
{
    const struct peer x = a->backend->functions->local(a), y = b->backend->functions->local(b);

    return memcmp(&x, &y, sizeof x) == 0 &&
           slice_equal(blob_slice(a->backend->via), blob_slice(b->backend->via));
}

static bool has_agent_at_relay(const struct run *run, const struct conn *c)
{
    return ANY(AGENTS_FOREACH(a, &run->agents),
               a->relayed && a->origin != ORIGIN_TOOL && same_relay(conn_of(a), c));
}

struct live_run *effects_run_at_relay(const struct rendezvous_space *home, const struct conn *c,
                                      const struct live_run *but, size_t *count)
{
    struct live_run *run, *found = NULL;

    *count = 0;
    TAILQ_EACH(struct run_view, v, &home->runs.list, order) {
        run = live_run_of(v);
        if (run == but || v->record.worker_store == 0 ||
            v->record.placement == WORKER_STORE_WORKER0 || !has_agent_at_relay(&run->run, c))
            continue;
        found = run;
        ++*count;
    }
    return found;
}

/* Another run whose workers come here has an agent at that relay. */
static bool shares_relay(const struct agent *a)
{
    const struct live_run *run = conn_agent_of(a)->run;
    size_t others;

    return a->relayed && effects_run_at_relay(run->home, conn_of(a), run, &others) != NULL;
}

uint16_t effects_open_port(struct live_run *run, const struct agent *by, uint16_t preferred)
{
    const struct policy_settings *settings = run->run.settings;

    if (by->relayed && !ANY(AGENTS_FOREACH(a, &run->run.agents), shares_relay(a)))
        return by->local_port; /* each relay leads to this run: sessions.c */
    if (by->relayed) {
        log_event(LOG_WARN, "worker_port_failed", log_str("space", run->home->space->store->name),
                  log_bytes("run", run->run.view.id),
                  log_str("reason", "agents of another run come through the same relay"),
                  log_str("hint", "give each run a space of its own: rdzvd --upstream=... "
                                  "--space=NAME"));
        return 0;
    }
    run->port =
        preferred == 0 ? NULL : listen_open_like(conn_of(by)->listener, preferred, preferred, run);
    if (run->port == NULL)
        run->port = listen_open_like(conn_of(by)->listener, settings->worker_port_low,
                                     settings->worker_port_high, run);
    if (run->port != NULL)
        return listen_port(run->port);
    log_event(LOG_ERROR, "worker_port_failed", log_str("space", run->home->space->store->name),
              log_bytes("run", run->run.view.id), log_errno("error", errno),
              log_str("hint", "give --worker-ports a range that is free here"));
    return 0;
}

bool effects_reaches_workers(const struct conn_agent *a)
{
    const struct listener *port = a->run->port;

    if (a->run->run.endpoint.own_port == 0)
        return true;
    return a->agent.relayed ? !shares_relay(&a->agent)
                            : port != NULL && listen_same_address(port, a->conn->listener);
}

static void close_port(struct live_run *run)
{
    if (run->home->shared == run)
        run->home->shared = NULL;
    if (run->port != NULL)
        listen_close_one(run->port);
    run->port = NULL;
}

/* --- All outputs. --- */

/* Writes the note to the log and to the run's history, which status shows. */
static void effects_note(struct live_run *run, const struct note *n)
{
    int64_t now_us = engine_wall_ns(run->home->rdzv->engine) / 1000;
    char peer[CONN_PEER_MAX], why[2 * HISTORY_TEXT_MAX];
    struct note logged = *n;

    logged.order = run->home->order;
    if (n->kind == NOTE_RUN_FORGOTTEN)
        logged.number = run->keys_forgotten;
    if (n->kind == NOTE_RUN_ENDED && run->run.orders.word == ORDER_CLOSE) {
        snprintf(why, sizeof why, "%s%s", n->reason, run->home->order);
        logged.reason = why;
    }
    if (n->kind != NOTE_RUN_ENDED)
        explain_log(run->home->space->store->name, run->run.view.id, &logged);
    history_note(&run->history, &run->run, &logged,
                 n->agent == NULL ? NULL : conn_peer(conn_of(n->agent), peer), now_us);
    if (run->history.is_unjudged && run->run.orders.word != ORDER_CLOSE)
        run->home->rdzv->judge(run, now_us);
    if (n->kind == NOTE_RUN_ENDED && run->history.stop != NULL) {
        logged.end = "closed";
        logged.reason = run->history.stop;
    }
    if (run->history.goodput.is_unsaved && run->run.view.exists && n->kind != NOTE_RUN_FORGOTTEN)
        save_goodput(run);
    if (n->kind == NOTE_NODE_JOINED && n->agent != NULL)
        conn_agent_of(n->agent)->joined_us = now_us;
    if (n->kind == NOTE_AGENTS_REJECTED && !n->closed) /* they may begin it so much later */
        driver_keep_hosts(run->home, run->run.view.id,
                          driver_ended_hosts(run->home, run->run.view.id), now_us);
    if (n->kind == NOTE_RUN_ENDED)
        run->home->rdzv->ended(run, &logged, now_us);
}

static void effects_apply_one(struct live_run *run, const struct policy_output *o,
                              enum c10d_verdict *verdict)
{
    switch (o->kind) {
    case POLICY_PUT:
        put_value(run, o);
        break;
    case POLICY_PUT_IF_ABSENT:
        if (keymap_get(&run->home->space->store->keys, o->key) == NULL)
            put_value(run, o);
        break;
    case POLICY_PUT_RECORD:
        put_record(run, &o->record);
        break;
    case POLICY_PUT_RANKS:
        put_ranks(run, o->value);
        break;
    case POLICY_FORGET_RUN:
        forget_run(run);
        break;
    case POLICY_DELETE_RECORD:
        delete_record(run);
        break;
    case POLICY_OPEN_WORKER_STORE:
        if (!apply_command(run, &(struct command){.kind = COMMAND_WORKER_STORE_OPEN}) &&
            run->run.view.record.worker_store == o->worker_store)
            run->run.view.record.worker_store = 0; /* the next run that opens one gets its number */
        break;
    case POLICY_DROP_WORKER_STORE:
        end_worker_store(run, o->worker_store);
        break;
    case POLICY_ANSWER_CURRENT:
        c10d_reply_blob(conn_of(o->agent), live_run_value(run));
        *verdict = C10D_ANSWERED;
        break;
    case POLICY_ANSWER_VALUE:
        c10d_reply_bytes(conn_of(o->agent), o->value);
        *verdict = C10D_ANSWERED;
        break;
    case POLICY_HOLD:
        *verdict = C10D_HELD;
        break;
    case POLICY_SWALLOW:
        *verdict = C10D_ANSWERED;
        break;
    case POLICY_RESUME:
        input_unpark(conn_of(o->agent));
        break;
    case POLICY_KEEP_MEMO:
        conn_of(o->agent)->backend->functions->keep_hint(conn_of(o->agent), o->value);
        break;
    case POLICY_CANCEL_PROBE:
        probe_cancel(run->probe);
        run->probe = NULL;
        break;
    case POLICY_SHARE_PORT:
        run->home->shared = run;
        break;
    case POLICY_CLOSE_PORT:
        close_port(run);
        break;
    case POLICY_NOTE:
        effects_note(run, o->note);
        break;
    default:
        break;
    }
}

enum c10d_verdict effects_apply(struct live_run *run, const struct policy_out *out)
{
    enum c10d_verdict verdict = C10D_PROCEED;

    policy_counters_add(&run->home->rdzv->engine->stats.jobs, &out->counters);
    for (size_t i = 0; i < out->count; i++)
        effects_apply_one(run, &out->items[i], &verdict);
    return verdict;
}
