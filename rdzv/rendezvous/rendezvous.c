/* Sessions, spaces and time as events of the policy. See rendezvous.h. */
#include "rdzv/rendezvous/rendezvous.h"

#include <stdio.h>

#include "proto/torch/torch_timing.h"
#include "rdzv/net/listen.h"
#include "rdzv/net/probe.h"
#include "rdzv/rendezvous/shell.h"
#include "store/xalloc.h"

/* So many runs a tick looks at, and so many of those that are behind, for so long at most, before
 * others have their turn. */
#define RUNS_PER_ITERATION 200
#define RUNS_NS            1000000u

#define CROWD_LEAST 16 /* of fewer nodes the state is short, and says who they are */

static struct rendezvous_space *space_of(struct rendezvous *r, struct engine_space *space)
{
    struct rendezvous_space *home = space->rendezvous;

    if (home != NULL)
        return home;
    home = xcalloc(1, sizeof *home);
    home->rdzv = r;
    home->space = space;
    run_views_init(&home->runs, r->engine->options.seed);
    etcd_runs_init(&home->etcd_runs, r->engine, &space->store->tree, r->net,
                   r->config->limits.runs_max);
    TAILQ_INIT(&home->worker_stores_missed);
    table_init(&home->worker_stores, ACCOUNT_RUNS, r->engine->options.seed, NULL);
    TAILQ_INSERT_TAIL(&r->spaces, home, entry);
    space->rendezvous = home;
    return home;
}

void rendezvous_add_spaces(struct rendezvous *r)
{
    struct engine_space *space;

    TAILQ_FOREACH(space, &r->engine->spaces, entry)
        space_of(r, space);
}

/* --- Runs. --- */

static size_t runs_left(const struct rendezvous_space *home)
{
    size_t max = home->rdzv->config->limits.runs_max, count = home->runs.table.count;

    if (max == 0)
        return SIZE_MAX;
    return count < max ? max - count : 0;
}

/* In nanoseconds, which the heap wants, and never due at the tick that is going on. */
static int64_t due_ns(const struct live_run *run)
{
    uint64_t ms = run_due_ms(&run->run), ticked_ms = run->home->rdzv->ticked_ms;

    if (ms <= ticked_ms)
        ms = ticked_ms + 1;
    return ms > INT64_MAX / 1000000 ? INT64_MAX : (int64_t)ms * 1000000;
}

static bool add_due(struct live_run *run)
{
    struct rendezvous *r = run->home->rdzv;
    struct reserve *reserve = &r->engine->store.reserve;

    if (!reserve_hold(reserve, expiry_memory(&r->due)))
        return false;
    expiry_add(&r->due, &run->due, due_ns(run));
    reserve_settle(reserve);
    return true;
}

/* The heap has its room already. */
static void update_due(struct live_run *run)
{
    struct expiry *due = &run->home->rdzv->due;
    int64_t at_ns = due_ns(run);

    if (run->due.at_ns == at_ns)
        return;
    expiry_remove(due, &run->due);
    expiry_add(due, &run->due, at_ns);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    shell_step(arg, (struct policy_event){.kind = RUN_TIMER});
}

struct live_run *shell_need_run(struct rendezvous_space *home, struct slice key)
{
    struct run_view *found = run_views_find(&home->runs, key);
    struct rendezvous *r = home->rdzv;
    struct live_run *run;
    uint8_t *name;

    if (found != NULL)
        return live_run_of(found);
    run = account_heap_request_zeroed(ACCOUNT_RUNS, ACCOUNT_SMALL, sizeof *run + key.len);
    if (run == NULL)
        return NULL;
    name = (uint8_t *)(run + 1);
    memcpy(name, key.ptr, key.len);
    run_init(&run->run, (struct slice){name, key.len}, &r->settings, r->engine->options.seed,
             engine_now_ms(r->engine));
    run->home = home;
    run->still_ms = r->still_ms;
    if (!add_due(run)) {
        run_fini(&run->run);
        account_heap_free(ACCOUNT_RUNS, run);
        return NULL;
    }
    evtimer_assign(&run->timer, r->net->base, on_timer, run);
    run_views_add(&home->runs, &run->run.view);
    run->run.view.unread = live_run_value(run) != NULL; /* there was no memory for it before */
    home->space->guarded = runs_left(home) == 0;
    return run;
}

static void end_sweep(struct live_run *run)
{
    if (run->is_sweeping)
        TAILQ_REMOVE(&run->home->rdzv->sweeping, run, sweeping);
    run->is_sweeping = false;
}

static void free_run(struct live_run *run)
{
    struct rendezvous_space *home = run->home;

    probe_cancel(run->probe);
    if (run->port != NULL)
        listen_close_one(run->port);
    if (home->shared == run)
        home->shared = NULL;
    evtimer_del(&run->timer);
    expiry_remove(&home->rdzv->due, &run->due);
    end_sweep(run);
    run_views_remove(&home->runs, &run->run.view);
    home->space->guarded = runs_left(home) == 0;
    history_fini(&run->history);
    run_fini(&run->run);
    account_heap_free(ACCOUNT_RUNS, run);
}

/* --- Steps. --- */

static enum port_share share_of(const struct live_run *run)
{
    const struct live_run *shared = run->home->shared;

    if (shared == run)
        return PORT_IS_OURS;
    return shared == NULL || !run_keeps_port(&shared->run) ? PORT_IS_FREE : PORT_IS_TAKEN;
}

static struct policy_now how_things_stand(const struct live_run *run)
{
    const struct engine *engine = run->home->rdzv->engine;
    const struct space *store = run->home->space->store;
    struct blob *value = live_run_value(run);

    return (struct policy_now){
        .ms = engine_now_ms(engine),
        .wall_ns = engine_wall_ns(engine),
        .value = value == NULL ? (struct slice){0} : (struct slice){value->bytes, value->len},
        .room = quota_room(&store->quota),
        .key_cost = sizeof(struct entry) + RUN_FRONTS_MAX * sizeof(struct key_link),
        .next_worker_store = store->worker_stores.last_id + 1,
        .share = share_of(run),
        .refuses = !engine_takes_changes(engine),
    };
}

/* Of an agent, that wants an answer: the view has to be right. */
static bool is_request(enum policy_event_kind kind)
{
    return kind == AGENT_COMPARE_SET || kind == AGENT_SET_ROUND_KEY ||
           kind == AGENT_ADD_ROUND_KEY || kind == AGENT_GET_ROUND_KEY || kind == AGENT_LOOKED ||
           kind == AGENT_ASKED;
}

/* There was no memory for all that a step came to: whoever asked gets no answer, and the view is
 * made anew. */
static void give_up(struct live_run *run, const struct policy_event *event)
{
    run->stale = true;
    if (event->agent != NULL && event->kind != AGENT_DISCONNECTED)
        conn_drop(conn_of(event->agent), DROP_NO_MEMORY, "out of memory", run->run.view.node.key);
}

static struct verdict step(struct live_run *run, struct policy_event event)
{
    struct engine *engine = run->home->rdzv->engine;
    const struct policy_now now = how_things_stand(run);
    struct policy_out out = {0};
    struct verdict verdict;
    uint64_t changes;

    if (event.kind == RUN_CHANGED ||
        (event.kind == AGENT_COMPARE_SET && !slice_equal(event.expected, event.agent->shown)))
        engine->work += now.value.len; /* it is read, however little of it is new */
    changes = run->run.view.changes;
    policy_step(&run->run, &event, &now, &out);
    if (run->run.view.changes != changes)
        engine->work += now.value.len; /* the next one is written */
    verdict = carry_out(run, &out);
    run->stale = run->stale || run->run.view.unread;
    if (out.failed)
        give_up(run, &event);
    policy_out_clear(&out);
    return verdict;
}

static void leave(struct live_run *run)
{
    if (run->stale)
        step(run, (struct policy_event){.kind = RUN_CHANGED});
    run->stale = false;
    if (--run->steps == 0 && run->pins == 0 && run_is_unused(&run->run))
        free_run(run);
    else
        update_due(run);
}

/* Gives the run what it has not been given of the time in which no agent could write. */
static void give_time(struct live_run *run)
{
    uint64_t still_ms = run->home->rdzv->still_ms - run->still_ms;

    run->still_ms += still_ms;
    if (still_ms != 0)
        step(run, (struct policy_event){.kind = RUN_STOOD_STILL, .still_ms = still_ms});
}

/* The time comes before the event, but behind a change that has been made already. */
struct verdict shell_step(struct live_run *run, struct policy_event event)
{
    struct verdict verdict = {0};

    run->steps++;
    if (run->run.view.unread && event.kind != RUN_CHANGED)
        step(run, (struct policy_event){.kind = RUN_CHANGED});
    if (event.kind != RUN_CHANGED)
        give_time(run);
    if (run->run.view.unread && is_request(event.kind))
        give_up(run, &event);
    else
        verdict = step(run, event);
    give_time(run);
    leave(run);
    return verdict;
}

/* A step of one run may end another, but not the one that comes next. */
static void step_space(struct rendezvous_space *home, struct policy_event event)
{
    struct run_view *v, *next;

    for (v = TAILQ_FIRST(&home->runs.list); v != NULL; v = next) {
        next = TAILQ_NEXT(v, order);
        if (next != NULL)
            live_run_of(next)->pins++;
        shell_step(live_run_of(v), event);
        if (next != NULL)
            live_run_of(next)->pins--;
    }
}

/* --- Time. --- */

/* In the next iteration. If that cannot be, the next tick goes on. */
static void go_on_later(struct rendezvous *r)
{
    static const struct timeval at_once;

    net_add_event(&r->ticker, &at_once);
}

static struct live_run *first_run(struct rendezvous_space *home)
{
    while (home != NULL && TAILQ_EMPTY(&home->runs.list))
        home = TAILQ_NEXT(home, entry);
    return home == NULL ? NULL : live_run_of(TAILQ_FIRST(&home->runs.list));
}

static struct live_run *run_behind(const struct live_run *run)
{
    struct run_view *next = TAILQ_NEXT(&run->run.view, order);

    return next != NULL ? live_run_of(next) : first_run(TAILQ_NEXT(run->home, entry));
}

/* The run before that may go with this. */
static void set_behind(struct rendezvous *r, struct live_run *run)
{
    struct live_run *before = r->behind;

    if (run != NULL)
        run->pins++;
    r->behind = run;
    if (before != NULL)
        rendezvous_unpin(&before->run);
}

/* Of ten thousand runs each has a state to read, write and keep: that takes many iterations. */
static void catch_up(struct rendezvous *r)
{
    const struct clock *clock = r->engine->options.clock;
    uint64_t began_ns = r->behind == NULL ? 0 : clock_monotonic_ns(clock);

    for (int i = 0; r->behind != NULL; i++) {
        struct live_run *run = r->behind;

        if (i == RUNS_PER_ITERATION || (i > 0 && clock_monotonic_ns(clock) - began_ns >= RUNS_NS)) {
            go_on_later(r);
            return;
        }
        run->steps++;
        give_time(run);
        leave(run);
        set_behind(r, run_behind(run));
    }
}

/* What is shorter than the interval of heartbeats hurts no node. */
void rendezvous_stood_still(struct rendezvous *r, uint64_t still_ms)
{
    if (still_ms < TORCH_HEARTBEAT_MS)
        return;
    r->still_ms += still_ms;
    set_behind(r, first_run(TAILQ_FIRST(&r->spaces)));
    catch_up(r);
}

static void on_resumed(void *arg, uint64_t paused_ms)
{
    rendezvous_stood_still(arg, paused_ms);
}

/* A worker store that was about to go may have waited for this session alone. */
static void on_unbound(void *arg, struct engine_space *space, uint64_t worker_store)
{
    struct rendezvous_space *home = space_of(arg, space);
    struct worker_use *use = worker_use_find(home, worker_store);

    if (use != NULL && use->ended)
        worker_use_end(home, use);
}

static struct live_run *next_due(const struct rendezvous *r)
{
    struct expiry_node *first = expiry_first(&r->due);

    if (first == NULL || first->at_ns / 1000000 > (int64_t)r->ticked_ms)
        return NULL;
    return (struct live_run *)(void *)((uint8_t *)first - offsetof(struct live_run, due));
}

/* A run may have a million keys of its rounds, which takes as many iterations as it has thousands.
 */
static void sweep_later(struct live_run *run)
{
    if (!run->is_sweeping)
        TAILQ_INSERT_TAIL(&run->home->rdzv->sweeping, run, sweeping);
    run->is_sweeping = true;
    update_due(run);
    go_on_later(run->home->rdzv);
}

static void step_tick(struct live_run *run)
{
    const struct policy_now now = how_things_stand(run);

    if (!policy_forgets(&run->run, &now)) {
        run->sweep = 0;
    } else if (!shell_sweep(run)) {
        sweep_later(run);
        return;
    }
    end_sweep(run);
    shell_step(run, (struct policy_event){.kind = RUN_TICK});
}

static void step_due(struct rendezvous *r)
{
    const struct clock *clock = r->engine->options.clock;
    uint64_t began_ns = clock_monotonic_ns(clock);
    struct live_run *run;

    for (int i = 0; (run = next_due(r)) != NULL; i++) {
        if (i == RUNS_PER_ITERATION || clock_monotonic_ns(clock) - began_ns >= RUNS_NS) {
            go_on_later(r);
            return;
        }
        step_tick(run);
    }
}

static void sweep_next(struct rendezvous *r)
{
    struct live_run *run = TAILQ_FIRST(&r->sweeping);

    if (run == NULL)
        return;
    end_sweep(run);
    step_tick(run);
    if (!TAILQ_EMPTY(&r->sweeping))
        go_on_later(r);
}

static void on_ticker(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    sweep_next(arg);
    step_due(arg);
    catch_up(arg);
}

void rendezvous_tick(struct rendezvous *r)
{
    struct rendezvous_space *home;

    r->ticked_ms = engine_now_ms(r->engine);
    step_due(r);
    catch_up(r);
    TAILQ_FOREACH(home, &r->spaces, entry) {
        etcd_runs_tick(&home->etcd_runs);
        worker_uses_retry(home);
    }
}

/* --- Changes that are not the policy's. --- */

/* The state of a run, or what may become one, is there, has changed or is gone. */
static void run_changed(struct rendezvous_space *home, struct run_view *v, struct slice key)
{
    struct live_run *run = v == NULL ? shell_need_run(home, key) : live_run_of(v);

    if (run != NULL && run->steps == 0) /* else the run's own step has done it */
        shell_step(run, (struct policy_event){.kind = RUN_CHANGED});
}

/* The key is one of agents. */
static void key_changed(struct rendezvous_space *home, struct slice key)
{
    struct run_view *v = run_views_find(&home->runs, key);

    if (v == NULL && (run_views_owner(&home->runs, key) != NULL ||
                      keymap_get(&home->space->store->keys, key) == NULL))
        return; /* of a round, or gone */
    run_changed(home, v, key);
}

static void entry_changed(struct rendezvous_space *home, const struct entry *e)
{
    struct run_view *v = run_views_find_entry(&home->runs, e);

    if (v != NULL || (run_views_entry_owner(&home->runs, e) == NULL && e->value != NULL))
        run_changed(home, v, e->node.key);
}

/* Of several values for one key the last is there: it is read once, not once for each. */
static void keys_set(struct rendezvous_space *home, struct slice pairs)
{
    const struct keymap *keys = &home->space->store->keys;
    struct slice key, value;

    while (c10d_next_blob(&pairs, &key) && c10d_next_blob(&pairs, &value)) {
        if (is_agents_key(key) && slice_equal(blob_slice(keymap_get(keys, key)), value))
            key_changed(home, key);
    }
}

/* The same of many keys, and long ones: they were found before. */
static void picks_set(struct rendezvous_space *home, const struct key_picks *picks)
{
    for (size_t i = 0; i < picks->grouped_count; i++) {
        const struct key_pick *pick = &picks->grouped[i];

        if (is_agents_key(pick->entry->node.key) && pick->entry->value == pick->value)
            entry_changed(home, pick->entry);
    }
}

static void keys_changed(struct rendezvous_space *home, const struct command *command)
{
    if (command->kind != COMMAND_KEY_MULTI_SET) {
        if (is_agents_key(command->key))
            key_changed(home, command->key);
    } else if (command->picks == NULL) {
        keys_set(home, command->items);
    } else {
        picks_set(home, command->picks);
    }
}

/* True when the key would be that of a new run. */
static bool makes_run(const struct rendezvous_space *home, struct slice key)
{
    return is_agents_key(key) && run_views_find(&home->runs, key) == NULL &&
           run_views_owner(&home->runs, key) == NULL;
}

static bool entry_makes_run(const struct rendezvous_space *home, const struct entry *e)
{
    return is_agents_key(e->node.key) && run_views_find_entry(&home->runs, e) == NULL &&
           run_views_entry_owner(&home->runs, e) == NULL;
}

/* How many runs a MULTI_SET would make; `most` or more of them are as good as any number. */
__attribute__((noinline)) static size_t runs_made(const struct rendezvous_space *home,
                                                  const struct command *command, size_t most)
{
    const struct key_picks *picks = command->picks;
    struct slice rest = command->items, key, value;
    size_t made = 0;

    if (picks == NULL) {
        while (made < most && c10d_next_blob(&rest, &key) && c10d_next_blob(&rest, &value))
            made += makes_run(home, key);
        return made;
    }
    for (size_t i = 0; made < most && i < picks->grouped_count; i++)
        made += entry_makes_run(home, picks->grouped[i].entry);
    return made;
}

/* Keys that make one run more than there may be are refused. Whatever makes none is let through. */
static bool admits(void *arg, struct engine_space *space, const struct command *command)
{
    const struct rendezvous_space *home = space_of(arg, space);
    size_t left = runs_left(home);

    if (command_part(command->kind) != PART_KEYS || command->worker_store != 0)
        return true;
    if (command->kind == COMMAND_KEY_MULTI_SET)
        return left > command->items.len / strlen(RUN_PREFIX) || /* nothing has so many */
               runs_made(home, command, left + 1) <= left;
    return !command_makes_key(command->kind) || left > 0 || !makes_run(home, command->key);
}

static void on_applied(void *arg, struct engine_space *space, const struct command *command)
{
    struct rendezvous_space *home = space_of(arg, space);

    if (command_part(command->kind) == PART_KEYS && command->worker_store == 0 && !home->forgets)
        keys_changed(home, command);
    else if (command_part(command->kind) == PART_TREE && etcd_runs_concerns(command->key))
        etcd_runs_changed(&home->etcd_runs, command->key);
    else if (command->kind == COMMAND_SPACE_RESET || command->kind == COMMAND_SPACE_FORGET)
        step_space(home, (struct policy_event){.kind = RUN_CHANGED});
    if (command->kind == COMMAND_SPACE_RESET)
        etcd_runs_reset(&home->etcd_runs);
}

/* --- Sessions. --- */

static struct slice memo_of(const struct conn *c)
{
    return conn_is_carried(c) ? c->carrier->functions->memo(c) : (struct slice){0};
}

static void bind_agent(struct rendezvous_space *home, struct conn *c, struct slice key,
                       bool compared)
{
    struct slice run_key = run_key_of(&home->runs, key, compared);
    bool is_left = runs_left(home) > 0 || run_views_find(&home->runs, run_key) != NULL;
    struct live_run *run = is_left ? shell_need_run(home, run_key) : NULL;
    struct conn_agent *a =
        run == NULL ? NULL : account_request_zeroed(ACCOUNT_RUNS, ACCOUNT_SMALL, sizeof *a);
    struct peer local;

    if (!is_left) {
        c10d_reject(c, STORE_TOO_MANY_RUNS, key);
        return;
    }
    if (a == NULL)
        return; /* its keys are plain, then */
    a->run = run;
    a->conn = c;
    a->agent.pings = c10d_session(c)->pinged;
    a->agent.relayed = conn_is_carried(c);
    a->agent.returns = c10d_session(c)->role == C10D_RESUMED;
    if (conn_local(c, &local)) {
        peer_host(&local, a->agent.local_host);
        a->agent.local_port = local.port;
    }
    c10d_session(c)->role = C10D_AGENT;
    c10d_session(c)->bound.agent = a;
    shell_step(run, (struct policy_event){
                        .kind = AGENT_CONNECTED, .agent = &a->agent, .memo = memo_of(c)});
}

/* No agent of it is here, nor may one come back after a start, nor do its workers go on. */
static bool is_left(const struct live_run *run)
{
    return run->run.idle && !run->run.awaits_agents && run->worker_store->sessions == 0;
}

/* The worker store that a worker finds: that of the run whose port it came to, or of the run that
 * shares the agents' port, which other clients come to as well. */
static void bind_worker(const struct rendezvous_space *home, struct conn *c)
{
    bool own_port = c->listener->temporary;
    const struct live_run *run = own_port ? c->listener->owner : home->shared;

    if (run == NULL || run->worker_store == NULL || (!own_port && is_left(run)))
        return;
    run->worker_store->sessions++;
    c10d_session(c)->role = C10D_WORKER;
    c10d_session(c)->bound.worker_store = run->worker_store->id;
}

/* One that has not been used since the start, at least until its session ends. */
static void rebind_session(void *arg, struct conn *c, uint64_t worker_store)
{
    struct worker_use *use = worker_use_find(space_of(arg, conn_space(c)), worker_store);

    if (use == NULL)
        return;
    use->sessions++;
    c10d_session(c)->role = C10D_WORKER;
    c10d_session(c)->bound.worker_store = worker_store;
}

static void set_presence(void *arg, struct conn *c, enum c10d_presence presence)
{
    static const enum policy_event_kind kinds[] = {
        [C10D_HERE] = AGENT_BACK, [C10D_AWAY] = AGENT_AWAY, [C10D_GONE] = AGENT_GONE};
    struct conn_agent *a = c10d_session(c)->bound.agent;

    (void)arg;
    shell_step(a->run, (struct policy_event){.kind = kinds[presence], .agent = &a->agent});
}

static void on_returned(void *arg, struct engine_space *space)
{
    step_space(space_of(arg, space), (struct policy_event){.kind = RUN_RETURNED});
}

/* Torch's agents begin with a compare-and-set of their run's key. Who begins with a look at it,
 * such as rdzvctl watch, is none, and counts as none. But an agent that a relay has brought over a
 * start of the daemon goes on with any request. */
static bool only_looks(const struct rendezvous_space *home, struct conn *c, struct slice key,
                       enum c10d_op op)
{
    bool looks = op == C10D_GET || op == C10D_MULTI_GET || op == C10D_CHECK || op == C10D_WAIT ||
                 op == C10D_WATCH_KEY;
    struct slice name;
    int64_t round;

    return looks && c10d_session(c)->role != C10D_RESUMED &&
           run_views_find_round(&home->runs, key, &round, &name) == NULL;
}

/* What it asks for next may tell that it is an agent. */
static void note_looking(struct rendezvous_space *home, struct conn *c, struct slice key)
{
    struct run_view *v = run_views_find(&home->runs, key);

    c10d_session(c)->role = C10D_UNBOUND;
    if (v != NULL && v->has_beats)
        shell_step(live_run_of(v), (struct policy_event){.kind = RUN_LOOKED});
}

static void bind_session(void *arg, struct conn *c, struct slice key, enum c10d_op op)
{
    struct rendezvous_space *home = space_of(arg, conn_space(c));

    engine_note_alive(((struct rendezvous *)arg)->engine);
    if (is_agents_key(key) && only_looks(home, c, key, op))
        note_looking(home, c, key);
    else if (is_agents_key(key))
        bind_agent(home, c, key, op == C10D_COMPARE_SET);
    else if (c10d_session(c)->role != C10D_RESUMED)
        bind_worker(home, c);
}

static void unbind_session(void *arg, struct conn *c)
{
    struct rendezvous *r = arg;

    if (c10d_session(c)->role == C10D_WORKER) {
        worker_use_leave(space_of(r, conn_space(c)), c10d_session(c)->bound.worker_store);
    } else {
        struct conn_agent *a = c10d_session(c)->bound.agent;

        shell_step(a->run, (struct policy_event){.kind = AGENT_DISCONNECTED,
                                                 .agent = &a->agent,
                                                 .daemon_drains = r->net->draining});
        account_free(ACCOUNT_RUNS, a, sizeof *a);
    }
}

static enum c10d_verdict on_compare_set(struct conn_agent *a, const struct c10d_request *req)
{
    const struct verdict verdict =
        shell_step(a->run, (struct policy_event){.kind = AGENT_COMPARE_SET,
                                                 .agent = &a->agent,
                                                 .expected = req->expected,
                                                 .desired = req->value});

    return verdict.holds ? C10D_HELD : C10D_ANSWERED;
}

/* SET of a key, ADD to it: some keys of the rounds of the agent's own run are the policy's matter.
 */
static enum c10d_verdict on_change(struct conn_agent *a, const struct c10d_request *req)
{
    struct policy_event event = {.kind = AGENT_ASKED, .agent = &a->agent, .desired = req->value};
    const struct conn *c = a->conn;
    const struct run_view *v =
        run_views_find_round(&a->run->home->runs, req->key, &event.round, &event.round_key);

    if (v == &a->run->run.view)
        event.kind = req->op == C10D_SET ? AGENT_SET_ROUND_KEY : AGENT_ADD_ROUND_KEY;
    else
        event.round_key = (struct slice){0};
    if (!shell_step(a->run, event).passes && event.kind == AGENT_SET_ROUND_KEY)
        return C10D_ANSWERED;
    return conn_is_open(c) ? C10D_PROCEED : C10D_ANSWERED;
}

/* GET or WAIT of the run's own key. */
static enum c10d_verdict on_look(struct conn_agent *a, bool waits)
{
    bool is_behind = a->run->still_ms != a->run->home->rdzv->still_ms;
    struct slice shown = {0};
    const struct conn *c = a->conn;

    if (!is_behind)
        shown = policy_glance(&a->run->run, &a->agent, waits,
                              engine_now_ms(a->run->home->rdzv->engine));
    if (shown.ptr == NULL) {
        const struct verdict verdict = shell_step(
            a->run,
            (struct policy_event){.kind = AGENT_LOOKED, .agent = &a->agent, .waits = waits});

        if (verdict.holds)
            return C10D_HELD;
        return verdict.answers || !conn_is_open(c) ? C10D_ANSWERED : C10D_PROCEED;
    }
    if (waits)
        return C10D_PROCEED;
    c10d_reply_bytes(a->conn, shown);
    return C10D_ANSWERED;
}

/* Any other request. */
static enum c10d_verdict on_other(struct conn_agent *a, const struct c10d_request *req,
                                  struct slice key)
{
    struct policy_event event = {
        .kind = AGENT_ASKED, .agent = &a->agent, .waits = req->op == C10D_WAIT};
    const struct rendezvous_space *home = a->run->home;
    const struct conn *c = a->conn;

    if (run_views_find_round(&home->runs, key, &event.round, &event.round_key) != &a->run->run.view)
        event.round_key = (struct slice){0};
    else if (req->op == C10D_GET && keymap_get(&home->space->store->keys, key) != NULL)
        event.kind = AGENT_GET_ROUND_KEY;
    shell_step(a->run, event);
    return conn_is_open(c) ? C10D_PROCEED : C10D_ANSWERED;
}

static enum c10d_verdict on_request(void *arg, struct conn *c, const struct c10d_request *req,
                                    struct slice key)
{
    struct conn_agent *a = c10d_session(c)->bound.agent;
    bool own = slice_equal(key, a->run->run.view.node.key);

    engine_note_alive(((struct rendezvous *)arg)->engine);
    if (req->op == C10D_COMPARE_SET)
        return own ? on_compare_set(a, req) : C10D_PROCEED;
    if (req->op == C10D_SET || req->op == C10D_ADD)
        return on_change(a, req);
    if (own && (req->op == C10D_GET || req->op == C10D_WAIT))
        return on_look(a, req->op == C10D_WAIT);
    return on_other(a, req, key);
}

struct c10d_hooks rendezvous_hooks(struct rendezvous *r)
{
    if (!r->config->elastic.fixes)
        return (struct c10d_hooks){0};
    return (struct c10d_hooks){.bind = bind_session,
                               .unbind = unbind_session,
                               .rebind = rebind_session,
                               .set_presence = set_presence,
                               .returned = on_returned,
                               .on_request = on_request,
                               .arg = r};
}

/* --- For admin/. --- */

static const struct run *existing(struct run_view *v)
{
    while (v != NULL && !v->exists)
        v = TAILQ_NEXT(v, order);
    return (const struct run *)(const void *)v;
}

const struct run *rendezvous_first(const struct engine_space *space)
{
    const struct rendezvous_space *home = space->rendezvous;

    return home == NULL ? NULL : existing(TAILQ_FIRST(&home->runs.list));
}

const struct run *rendezvous_next(const struct run *run)
{
    return existing(TAILQ_NEXT(&run->view, order));
}

const struct run *rendezvous_find(const struct engine_space *space, struct slice id)
{
    const struct rendezvous_space *home = space->rendezvous;
    const size_t prefix = strlen(RUN_PREFIX);
    uint8_t *key = NULL;
    struct run_view *v;

    if (home != NULL)
        key = account_request(ACCOUNT_ANSWERS, ACCOUNT_SMALL, prefix + id.len);
    if (key == NULL)
        return NULL;
    memcpy(key, RUN_PREFIX, prefix);
    if (id.len != 0)
        memcpy(key + prefix, id.ptr, id.len);
    v = run_views_find(&home->runs, (struct slice){key, prefix + id.len});
    account_free(ACCOUNT_ANSWERS, key, prefix + id.len);
    return v != NULL && v->exists ? &live_run_of(v)->run : NULL;
}

static struct live_run *live_of(const struct run *run)
{
    return live_run_of((struct run_view *)(uintptr_t)run);
}

uint64_t rendezvous_forget(const struct run *run)
{
    struct live_run *live = live_of(run);
    uint64_t keys;

    live->sweep = 0; /* now, and all of it */
    live->steps++;   /* it stays until its keys are counted */
    shell_step(live, (struct policy_event){.kind = RUN_FORGET});
    keys = live->keys_forgotten;
    leave(live);
    return keys;
}

const struct conn *rendezvous_conn_of(const struct run *run, const struct torch_node *node)
{
    const struct agent *a = run_agent_of(run, node);

    return a == NULL ? NULL : conn_of(a);
}

void rendezvous_pin(const struct run *run)
{
    if (run != NULL)
        live_of(run)->pins++;
}

void rendezvous_unpin(const struct run *run)
{
    struct live_run *live = live_of(run);

    if (run == NULL || --live->pins > 0 || live->steps > 0)
        return;
    if (run_is_unused(run))
        free_run(live);
}

static struct node_facts look(const struct run_facts *f, const struct torch_node *node)
{
    const struct agent *a = run_agent_of(f->arg, node);

    if (a == NULL)
        return (struct node_facts){0};
    return (struct node_facts){
        .connected = true, .joined_us = conn_agent_of(a)->joined_us, .ahead_us = a->clock_ahead_us};
}

static const char *peer(const struct run_facts *f, const struct torch_node *node,
                        char text[STATUS_PEER_MAX])
{
    const struct agent *a = run_agent_of(f->arg, node);

    _Static_assert(CONN_PEER_MAX <= STATUS_PEER_MAX, "a peer fits");
    return a == NULL ? NULL : conn_peer(conn_of(a), text);
}

/* --- Over etcd's API. --- */

struct etcd_run *rendezvous_etcd_first(const struct engine_space *space)
{
    const struct rendezvous_space *home = space->rendezvous;

    return home == NULL ? NULL : TAILQ_FIRST(&home->etcd_runs.list);
}

void rendezvous_etcd_unpin(const struct engine_space *space, struct etcd_run *run)
{
    struct rendezvous_space *home = space->rendezvous;

    etcd_runs_unpin(&home->etcd_runs, run);
}

void rendezvous_etcd_facts(const struct engine_space *space, struct etcd_run *run,
                           struct run_facts *out)
{
    struct rendezvous_space *home = space->rendezvous;

    etcd_runs_look(&home->etcd_runs, run);
    etcd_run_facts(run, home->rdzv->settings.expected_nodes,
                   engine_wall_ns(home->rdzv->engine) / 1000, out);
}

/* A second agent of a node, which has begun as agents do, and is heard of: no clone of the first
 * one's connection, and not one whose place it has taken. */
static bool is_second(const struct agent *a, uint64_t now_ms)
{
    return a->has_node && !a->is_listed && a->is_introduced &&
           clock_elapsed_ms(a->heard_ms, now_ms) < TORCH_DEAD_MS;
}

static size_t count_unnamed(const struct run *run)
{
    const struct agent *a;
    size_t count = 0;

    TAILQ_FOREACH(a, &run->agents, entry)
        count += agent_is_unnamed(a);
    return count;
}

/* Until the sessions end of which no relay has said anything. */
static uint64_t awaited_ms(const struct live_run *live)
{
    const struct rendezvous *r = live->home->rdzv;
    uint64_t waited_ms = clock_elapsed_ms(r->restored_ms, engine_lived_ms(r->engine));
    uint64_t most_ms = r->config->session_timeout_ms;

    if (!live->run.awaits_agents)
        return 0;
    return most_ms > waited_ms ? most_ms - waited_ms : 1;
}

static void find_doubled(const struct run *run, uint64_t now_ms, struct run_facts *out)
{
    char text[CONN_PEER_MAX];
    const struct agent *a;

    TAILQ_FOREACH(a, &run->agents, entry) {
        if (!is_second(a, now_ms))
            continue;
        out->doubled = &a->node;
        snprintf(out->doubled_peer, sizeof out->doubled_peer, "%s", conn_peer(conn_of(a), text));
        return;
    }
}

void rendezvous_facts(const struct run *run, struct run_facts *out)
{
    const struct live_run *live = live_of(run);
    const struct run_view *v = &run->view;

    *out = (struct run_facts){.backend = BACKEND_C10D,
                              .id = v->id,
                              .now_us = engine_wall_ns(live->home->rdzv->engine) / 1000,
                              .is_state = v->is_state,
                              .state = &v->state,
                              .last_completed = v->has_completed ? &v->last_completed : NULL,
                              .gone = &v->gone,
                              .history = &live->history,
                              .expected = run->settings->expected_nodes,
                              .agents = run->agent_count,
                              .agents_waiting = run->waiting_count,
                              .agents_unnamed = count_unnamed(run),
                              .awaited_ms = awaited_ms(live),
                              .look = look,
                              .peer = peer,
                              .arg = run};
    find_doubled(run, engine_now_ms(live->home->rdzv->engine), out);
}

/* --- Beginning and end. --- */

const struct key_groups *rendezvous_key_groups(const struct config *config)
{
    return config->elastic.fixes ? &run_key_groups : NULL;
}

void rendezvous_init(struct rendezvous *r, const struct config *config, struct engine *engine,
                     struct net *net)
{
    const struct config_elastic *c = &config->elastic;

    *r = (struct rendezvous){
        .config = config,
        .engine = engine,
        .net = net,
        .settings = {.merge_heartbeats = c->merge_heartbeats,
                     .close_needs_all = c->close_needs_all,
                     .close_from_members = c->close_from_members,
                     .drop_disconnected = c->drop_disconnected,
                     .keep_connected = c->keep_connected,
                     .end_last_call = c->end_last_call,
                     .silent_node_ms = c->silent_node_ms,
                     .agent_views = c->agent_views,
                     .long_looks = c->long_looks,
                     .crowd_least = CROWD_LEAST,
                     .restart_on_loss = (enum restart_on_loss)c->restart_on_loss,
                     .silent_restart_ms = c->silent_restart_ms,
                     .regroup_wait_ms = c->regroup_wait_ms,
                     .expected_nodes = c->expected_nodes,
                     .own_worker_ports = c->worker_port_low != 0,
                     .closed_run_ttl_ms = c->closed_run_ttl_ms,
                     .closed_run_wait_ms = c->closed_run_wait_ms,
                     .idle_run_ttl_ms = c->idle_run_ttl_ms,
                     .advertise_host = c->advertise_host,
                     .advertise_port = c->advertise_port}};
    TAILQ_INIT(&r->spaces);
    TAILQ_INIT(&r->sweeping);
    expiry_init(&r->due, &engine->store.reserve);
    evtimer_assign(&r->ticker, net->base, on_ticker, r);
    if (c->fixes)
        engine->observer = (struct engine_observer){.applied = on_applied,
                                                    .admits = admits,
                                                    .resumed = on_resumed,
                                                    .unbound = on_unbound,
                                                    .arg = r};
}

void rendezvous_fini(struct rendezvous *r)
{
    struct rendezvous_space *home;
    struct run_view *v;

    while ((home = TAILQ_FIRST(&r->spaces)) != NULL) {
        while ((v = TAILQ_FIRST(&home->runs.list)) != NULL)
            free_run(live_run_of(v));
        worker_uses_fini(home);
        run_views_fini(&home->runs);
        etcd_runs_fini(&home->etcd_runs);
        TAILQ_REMOVE(&r->spaces, home, entry);
        home->space->rendezvous = NULL;
        free(home);
    }
    evtimer_del(&r->ticker);
    expiry_fini(&r->due);
}
