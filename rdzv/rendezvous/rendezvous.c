/* The rendezvous of all spaces: its begin, restore and end, and keys that other clients change. */
#include "rdzv/rendezvous/rendezvous.h"

#include "store/session/session.h"

void rendezvous_add_spaces(struct rendezvous *r)
{
    TAILQ_EACH(struct engine_space, space, &r->engine->spaces, entry)
        driver_space_of(r, space);
}

/* --- Changes that are not the policy's: keys of runs that clients set or delete. --- */

/* The value of a run's key, or of a key that may become one, is new, has changed or is gone. */
static void run_changed(struct rendezvous_space *home, struct run_view *v, struct slice key)
{
    struct live_run *run = v == NULL ? driver_need_run(home, key) : live_run_of(v);

    if (run != NULL && run->steps == 0) /* else the run's own step has done it */
        driver_step(run, (struct policy_event){.kind = RUN_CHANGED});
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
        run_changed(home, v, entry_key(e));
}

/* A key that the command sets several times has the last value, and is read once. */
static void keys_set(struct rendezvous_space *home, struct slice pairs)
{
    const struct keymap *keys = &home->space->store->keys;
    struct slice key, value;

    while (c10d_next_blob(&pairs, &key) && c10d_next_blob(&pairs, &value)) {
        if (torch_key_is_agents(key) && slice_equal(blob_slice(keymap_get(keys, key)), value))
            key_changed(home, key);
    }
}

/* The same of many keys, and long ones: they were found before. */
static void lookup_changed(struct rendezvous_space *home, const struct batch_lookup *lookup)
{
    FOREACH(const struct batch_item, item, lookup->grouped, lookup->grouped_count) {
        if (torch_key_is_agents(entry_key(item->entry)) && item->entry->value == item->value)
            entry_changed(home, item->entry);
    }
}

__attribute__((noinline)) static void keys_changed(struct rendezvous_space *home,
                                                   const struct command *command)
{
    if (command->kind != COMMAND_KEY_MULTI_SET)
        key_changed(home, command->key);
    else if (command->lookup == NULL)
        keys_set(home, command->items);
    else
        lookup_changed(home, command->lookup);
}

static void on_applied(void *arg, struct engine_space *space, const struct command *command)
{
    struct rendezvous_space *home =
        space->rendezvous != NULL ? space->rendezvous : driver_space_of(arg, space);

    if (command->kind == COMMAND_KEY_SET || command->kind == COMMAND_KEY_ADD)
        home->rdzv->key_set(home, command);
    if (home->drains.count != 0 && command->kind == COMMAND_KEY_SET)
        drain_note_set(home, command->key, command->value);
    if (command_part(command->kind) == PART_KEYS && command->worker_store == 0 && !home->forgets &&
        (command->kind == COMMAND_KEY_MULTI_SET || torch_key_is_agents(command->key)))
        keys_changed(home, command);
    else if (command->kind == COMMAND_SPACE_RESET || command->kind == COMMAND_SPACE_FORGET)
        driver_step_space(home, (struct policy_event){.kind = RUN_CHANGED});
}

/* --- Begin and end. --- */

/* A worker store that has ended may have waited for this session only. */
static void on_unbound(void *arg, struct engine_space *space, uint64_t worker_store)
{
    effects_drop_if_unused(driver_space_of(arg, space),
                           worker_stores_find(&space->store->worker_stores, worker_store));
}

void rendezvous_init(struct rendezvous *r, const struct config *config, struct engine *engine,
                     struct net *net)
{
    *r = (struct rendezvous){
        .config = config, .engine = engine, .net = net, .settings = config->elastic};
    TAILQ_INIT(&r->spaces);
    expiry_init(&r->due, &engine->store.reserve);
    evtimer_assign(&r->ticker, net->base, driver_on_ticker, r);
    if (config->elastic.fixes)
        engine->observer =
            (struct engine_observer){.applied = on_applied, .unbound = on_unbound, .arg = r};
}

void rendezvous_fini(struct rendezvous *r)
{
    struct rendezvous_space *home;
    struct run_view *v;

    while ((home = TAILQ_FIRST(&r->spaces)) != NULL) {
        while ((v = TAILQ_FIRST(&home->runs.list)) != NULL)
            driver_free_run(live_run_of(v));
        run_views_fini(&home->runs);
        TAILQ_REMOVE(&r->spaces, home, entry);
        home->space->rendezvous = NULL;
        account_heap_free(ACCOUNT_RUNS, home->cordons.patterns);
        account_heap_free(ACCOUNT_RUNS, home->drains.patterns);
        free(home);
    }
    evtimer_del(&r->ticker);
    expiry_fini(&r->due);
}

/* --- After a start: runs are made anew from keys, records and worker stores. --- */

/* What the store keeps of the run beside its keys. */
static void restore_record(struct live_run *run)
{
    struct slice name = run->run.view.node.key;
    const struct run_record *found = driver_find_record(run->home, "", name);
    const struct run_record *ranks = driver_find_record(run->home, RUN_RANKS_KEY, name);
    const struct run_record *times = driver_find_record(run->home, RUN_GOODPUT_KEY, name);
    struct view_record record;
    struct worker_store *w;

    if (ranks != NULL)
        run_view_keep(&run->run.view.ranks, ranks->address);
    if (times != NULL)
        goodput_load(&run->history.goodput, times->address);
    if (found == NULL)
        return;
    record = (struct view_record){.placement = found->placement,
                                  .address = found->address,
                                  .port = found->port,
                                  .worker_store = found->worker_store,
                                  .round = found->round};
    w = run_view_set_record(&run->run.view, &record) ? live_run_worker_store(run) : NULL;
    if (w != NULL)
        w->ended = false;
}

/* Agents behind relays go on with the sessions that they had. */
static bool agents_return(const struct rendezvous_space *home)
{
    const struct session *s = engine_session_next(home->space, NULL);

    while (s != NULL && s->is_worker)
        s = engine_session_next(home->space, s);
    return s != NULL;
}

static void restore_run(struct rendezvous_space *home, struct slice key, uint64_t away_ms)
{
    struct live_run *run = driver_need_run(home, key);

    if (run == NULL)
        return;
    restore_record(run);
    operator_restore_run(run);
    run->history.known_us = engine_wall_ns(home->rdzv->engine) / 1000;
    driver_step(run, (struct policy_event){.kind = RUN_RESTORED,
                                           .agents_return = agents_return(home),
                                           .away_ms = away_ms});
}

/* Keys that look like keys of a round come last, when the runs are known that own such keys. */
static void restore_runs(struct rendezvous_space *home, bool of_rounds, uint64_t away_ms)
{
    TAILQ_EACH_SAFE(const struct entry, e, &home->space->store->keys.entries, order) {
        struct slice key = entry_key(e);
        size_t lengths[KEY_GROUPS_MAX];

        if (torch_key_is_agents(key) &&
            (torch_key_fronts(key, lengths, KEY_GROUPS_MAX) > 0) == of_rounds &&
            run_views_owner(&home->runs, key) == NULL)
            restore_run(home, key, away_ms);
    }
}

/* Worker stores that no run names were about to go with their last session. A session of a relay
 * outlives the start: the worker stores to which one is bound stay, see on_unbound(). */
static void restore_space(struct rendezvous_space *home, uint64_t away_ms)
{
    const struct worker_stores *stores = &home->space->store->worker_stores;

    operator_restore(home);
    for (size_t i = 0; i < stores->count; i++)
        stores->items[i]->ended = true; /* until a run names it */
    restore_runs(home, false, away_ms);
    restore_runs(home, true, away_ms);
    effects_drop_unused(home);
}

void rendezvous_restore(struct rendezvous *r, uint64_t away_ms)
{
    if (!r->config->elastic.fixes)
        return;
    r->restored_ms = engine_lived_ms(r->engine);
    TAILQ_EACH(struct rendezvous_space, home, &r->spaces, entry)
        restore_space(home, away_ms);
}
