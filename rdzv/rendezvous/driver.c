/* Runs as the daemon keeps them, and the steps of their policy. See driver.h. */
#include "rdzv/rendezvous/driver.h"

#include "rdzv/net/listen.h"
#include "rdzv/net/probe.h"
#include "rdzv/rendezvous/explain.h"
#include "store/memory/xalloc.h"

#define PROBE_MS 1000

struct rendezvous_space *driver_space_of(struct rendezvous *r, struct engine_space *space)
{
    struct rendezvous_space *home = space->rendezvous;

    if (home != NULL)
        return home;
    home = xcalloc(1, sizeof *home);
    home->rdzv = r;
    home->space = space;
    run_views_init(&home->runs, r->engine->options.seed);
    TAILQ_INSERT_TAIL(&r->spaces, home, entry);
    space->rendezvous = home;
    return home;
}

/* In nanoseconds, which the heap wants. */
static int64_t due_ns(uint64_t ms)
{
    return ms > INT64_MAX / 1000000 ? INT64_MAX : (int64_t)ms * 1000000;
}

static bool add_due(struct live_run *run)
{
    struct rendezvous *r = run->home->rdzv;
    struct reserve *reserve = &r->engine->store.reserve;

    if (!reserve_hold(reserve, expiry_memory(&r->due)))
        return false;
    expiry_add(&r->due, &run->due, due_ns(run_due_ms(&run->run)));
    reserve_settle(reserve);
    return true;
}

/* The heap has its room already. */
void driver_set_due(struct live_run *run, uint64_t ms)
{
    struct expiry *due = &run->home->rdzv->due;

    if (run->due.at_ns == due_ns(ms))
        return;
    expiry_remove(due, &run->due);
    expiry_add(due, &run->due, due_ns(ms));
}

/* By the state of the run; never at the tick that is going on. */
static void update_due(struct live_run *run)
{
    uint64_t ms = run_due_ms(&run->run), next_ms = run->home->rdzv->ticked_ms + 1;

    if (run->left_us != 0 && !run->left_reported && ms > run->run.idle_since_ms + RUN_LEFT_MS)
        ms = run->run.idle_since_ms + RUN_LEFT_MS;
    driver_set_due(run, ms > next_ms ? ms : next_ms);
}

static void on_waker(evutil_socket_t, short, void *arg)
{
    driver_step(arg, (struct policy_event){.kind = RUN_TICK});
}

struct live_run *driver_need_run(struct rendezvous_space *home, struct slice key)
{
    struct run_view *found = run_views_find(&home->runs, key);
    struct rendezvous *r = home->rdzv;
    struct live_run *run;

    if (found != NULL)
        return live_run_of(found);
    run = account_heap_request_zeroed(ACCOUNT_RUNS, ACCOUNT_SMALL, sizeof *run + key.len);
    if (run == NULL)
        return NULL;
    run_init(&run->run, slice_copy(run + 1, key), &r->settings, r->engine->options.seed,
             engine_now_ms(r->engine));
    run->home = home;
    evtimer_assign(&run->waker, r->net->base, on_waker, run);
    run->run.orders.cordons = &home->cordons;
    run->run.orders.drains = &home->drains;
    run->history.stats = &r->engine->stats;
    if (!add_due(run)) {
        run_fini(&run->run);
        account_heap_free(ACCOUNT_RUNS, run);
        return NULL;
    }
    run_views_add(&home->runs, &run->run.view);
    run->run.view.unread = live_run_value(run) != NULL; /* there was no memory for it before */
    return run;
}

void driver_free_run(struct live_run *run)
{
    struct rendezvous_space *home = run->home;

    probe_cancel(run->probe);
    evtimer_del(&run->waker);
    if (run->port != NULL)
        listen_close_one(run->port);
    if (home->shared == run)
        home->shared = NULL;
    expiry_remove(&home->rdzv->due, &run->due);
    run_views_remove(&home->runs, &run->run.view);
    history_fini(&run->history);
    run_fini(&run->run);
    account_heap_free(ACCOUNT_RUNS, run);
}

bool driver_free_if_unused(struct live_run *run)
{
    if (run->steps > 0 || run->run.view.pins > 0 || !run_is_unused(&run->run))
        return false;
    driver_free_run(run);
    return true;
}

/* --- Steps. --- */

uint64_t driver_lived_ms(const struct rendezvous *r)
{
    uint64_t ms = r->refuses_since_ms != 0 ? r->refuses_since_ms : engine_lived_ms(r->engine);

    return ms - r->refused_ms;
}

struct policy_now driver_now(const struct live_run *run)
{
    const struct rendezvous *r = run->home->rdzv;
    const struct engine *engine = r->engine;
    const struct space *store = run->home->space->store;
    const struct live_run *shared = run->home->shared;
    struct blob *value = live_run_value(run);

    return (struct policy_now){
        .ms = engine_now_ms(engine),
        .lived_ms = driver_lived_ms(r),
        .wall_ns = engine_wall_ns(engine),
        .value = value == NULL ? (struct slice){0} : (struct slice){value->bytes, value->len},
        .room = quota_room(&store->quota),
        .key_cost = sizeof(struct entry) + KEY_GROUPS_MAX * sizeof(struct key_link),
        .next_worker_store = store->worker_stores.last_id + 1,
        .share = shared == run                                     ? PORT_IS_OURS
                 : shared == NULL || !run_keeps_port(&shared->run) ? PORT_IS_FREE
                                                                   : PORT_IS_TAKEN,
        .own_port_in_use = run->port != NULL && run->port->conns > 0,
        .refuses = !engine_takes_changes(engine),
    };
}

/* --- Records. --- */

const struct run_record *driver_find_record(const struct rendezvous_space *home, const char *prefix,
                                            struct slice name)
{
    uint8_t key[RUN_RECORD_KEY_MAX];

    return run_records_find(&home->space->store->runs, run_record_key(prefix, name, key));
}

enum store_status driver_apply_record(const struct rendezvous_space *home, const char *prefix,
                                      struct slice name, struct command command)
{
    uint8_t key[RUN_RECORD_KEY_MAX];
    struct store_result result;

    command.key = run_record_key(prefix, name, key);
    engine_apply(home->rdzv->engine, home->space, &command, &result);
    return result.status;
}

/* --- The end of a run. --- */

struct slice driver_ended_hosts(const struct rendezvous_space *home, struct slice id)
{
    const struct run_record *record = driver_find_record(home, RUN_HOSTS_KEY, id);

    if (record == NULL || engine_wall_ns(home->rdzv->engine) / 1000000 - record->round / 1000 >=
                              (int64_t)home->rdzv->settings.ended_job_ttl_ms)
        return (struct slice){0};
    return record->address;
}

bool driver_keep_hosts(const struct rendezvous_space *home, struct slice id, struct slice hosts,
                       int64_t at_us)
{
    const struct command command = {.kind = hosts.len == 0 ? COMMAND_RUN_DELETE : COMMAND_RUN_PUT,
                                    .value = hosts,
                                    .number = at_us};

    return driver_apply_record(home, RUN_HOSTS_KEY, id, command) == STORE_OK;
}

void driver_end_run(struct live_run *run, const char *end, const char *why, int64_t at_us)
{
    const struct run_view *v = &run->run.view;
    const struct note note = {.end = end, .reason = why, .by_node = ""};

    if (v->exists && v->is_state && !v->state.closed && !run->left_reported)
        run->home->rdzv->ended(run, &note, at_us);
}

/* Memory was short in a step: the agent that asked gets no answer, and the view is made anew. */
static void give_up(struct live_run *run, const struct policy_event *event)
{
    run->run.view.unread = true;
    if (event->agent != NULL && event->kind != AGENT_DISCONNECTED)
        conn_drop(conn_of(event->agent), DROP_NO_MEMORY, "out of memory", run->run.view.node.key);
}

static void on_probed(void *arg, enum probe_answer answer)
{
    struct live_run *run = arg;

    run->probe = NULL;
    driver_step(run, (struct policy_event){.kind = RUN_PROBED, .refused = answer == PROBE_REFUSED});
}

/* Outputs that may cause another step come last: a step may free an agent that an output names. */
static void go_on(struct live_run *run, const struct policy_output *o)
{
    switch (o->kind) {
    case POLICY_NO_ROOM:
        c10d_reject(conn_of(o->agent), STORE_FULL, run->run.view.node.key);
        break;
    case POLICY_CLOSE:
        conn_drop(conn_of(o->agent), DROP_RUN, o->reason, o->value);
        break;
    case POLICY_PROBE:
        run->probe = probe_start(run->home->rdzv->net->base, conn_of(o->agent)->peer.address,
                                 o->port, PROBE_MS, on_probed, run);
        if (run->probe == NULL)
            driver_step(run, (struct policy_event){.kind = RUN_PROBED});
        break;
    case POLICY_OPEN_PORT:
        driver_step(run, (struct policy_event){.kind = RUN_PORT_OPENED,
                                               .port = effects_open_port(run, o->agent, o->port)});
        break;
    default:
        break;
    }
}

static enum c10d_verdict step(struct live_run *run, struct policy_event event)
{
    struct engine *engine = run->home->rdzv->engine;
    struct policy_now now = driver_now(run);
    const struct run_view *v = &run->run.view;
    bool had_agents = run->run.agent_count > 0, on_hold = run->run.orders.word == ORDER_HOLD;
    struct policy_out out = {0};
    enum c10d_verdict verdict;
    uint64_t changes;

    if (event.kind == RUN_CHANGED)
        engine->work += now.value.len;   /* the policy reads the whole value */
    if (event.kind == AGENT_COMPARE_SET) /* both texts are read: of a large round, each is large */
        engine->work += event.expected.len + event.desired.len;
    if (event.kind == AGENT_COMPARE_SET && v->exists && !v->is_state)
        now.ended_hosts = driver_ended_hosts(run->home, v->id);
    if (event.kind == RUN_CHANGED && now.value.ptr == NULL)
        driver_end_run(run, "reset", "its key was deleted, or its space was emptied",
                       now.wall_ns / 1000);
    changes = v->changes;
    policy_step(&run->run, &event, &now, &out);
    if (event.kind == RUN_RESTORED) { /* if it was left before, its nodes are gone from the state */
        const struct torch_state *was =
            torch_state_participants(&v->before) > 0 ? &v->before : &v->state;

        had_agents = torch_state_participants(was) > 0;
        if (was->complete && !was->closed)
            history_resume(&run->history, was->round, torch_state_participants(was),
                           now.wall_ns / 1000);
    }
    if (run->run.agent_count > 0 || !v->exists) {
        if (run->left_us != 0)
            goodput_skip(&run->history.goodput, run->left_us, now.wall_ns / 1000);
        run->left_us = run->left_reported = 0;
    } else if (had_agents)
        run->left_us = now.wall_ns / 1000;
    if (v->changes != changes)
        engine->work += now.value.len; /* the next one is written */
    verdict = effects_apply(run, &out);
    for (size_t i = 0; i < out.count; i++)
        go_on(run, &out.items[i]);
    if (out.failed)
        give_up(run, &event);
    if (on_hold && run->run.orders.word == ORDER_NONE)
        operator_end_hold(run);
    operator_obey_rules(run);
    if (!v->exists)
        operator_forget_run(run);
    policy_out_clear(&out);
    return verdict;
}

/* A tick would be up to a second late for a poll that is held for a time. */
static void leave(struct live_run *run)
{
    if (run->run.view.unread)
        step(run, (struct policy_event){.kind = RUN_CHANGED});
    if (run->run.held[HELD_GATHERED] + run->run.held[HELD_SHIFTED] != 0 &&
        !evtimer_pending(&run->waker, NULL))
        net_add_event(&run->waker, &(struct timeval){.tv_usec = 200000});
    run->steps--;
    if (!driver_free_if_unused(run))
        update_due(run);
}

enum c10d_verdict driver_step(struct live_run *run, struct policy_event event)
{
    /* an agent wants an answer, so the view must be right */
    bool is_request = event.kind >= AGENT_COMPARE_SET && event.kind <= AGENT_ADD_ROUND_KEY;
    enum c10d_verdict verdict = C10D_PROCEED;

    run->steps++;
    if (run->run.view.unread && event.kind != RUN_CHANGED)
        step(run, (struct policy_event){.kind = RUN_CHANGED});
    if (run->run.view.unread && is_request)
        give_up(run, &event);
    else
        verdict = step(run, event);
    leave(run);
    return verdict;
}

/* A step of one run may end another, but not the one that comes next. */
void driver_step_space(struct rendezvous_space *home, struct policy_event event)
{
    struct run_view *v, *next;

    TAILQ_FOREACH_SAFE(v, &home->runs.list, order, next) {
        if (next != NULL)
            next->pins++;
        driver_step(live_run_of(v), event);
        if (next != NULL)
            next->pins--;
    }
}
