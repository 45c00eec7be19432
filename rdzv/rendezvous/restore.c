/* Runs after a start: what is known of them is made anew from the keys, records and worker stores
 * that the data directory held. See rendezvous.h. */
#include "rdzv/rendezvous/rendezvous.h"

#include "store/session/session.h"

/* --- Worker stores: those that no run names were about to go, with their last session. A session
 * of a relay outlives the start, so those to which one is bound stay; see on_unbound(). --- */

static void restore_worker_stores(struct rendezvous_space *home)
{
    const struct worker_stores *stores = &home->space->store->worker_stores;

    for (size_t i = 0; i < stores->count; i++) {
        struct worker_use *use = worker_use_restore(home, stores->items[i]->id);

        if (use != NULL)
            use->ended = true; /* until a run names it */
    }
}

static void drop_unnamed(struct rendezvous_space *home)
{
    const struct worker_stores *stores = &home->space->store->worker_stores;

    for (size_t i = stores->count; i-- > 0;) {
        struct worker_use *use = worker_use_find(home, stores->items[i]->id);

        if (use != NULL && use->ended)
            worker_use_end(home, use);
    }
}

/* --- Runs. --- */

/* What the store keeps of the run beside its keys. */
static void restore_record(struct live_run *run)
{
    const struct run_record *found =
        run_records_find(&run->home->space->store->runs, run->run.view.node.key);
    struct view_record record;

    if (found == NULL)
        return;
    record = (struct view_record){.placement = found->placement,
                                  .address = found->address,
                                  .port = found->port,
                                  .worker_store = found->worker_store,
                                  .round = found->round};
    if (!run_view_set_record(&run->run.view, &record))
        return;
    run->worker_store = worker_use_find(run->home, record.worker_store);
    if (run->worker_store != NULL)
        run->worker_store->ended = false;
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
    struct live_run *run = shell_need_run(home, key);

    if (run == NULL)
        return;
    restore_record(run);
    run->history.known_us = engine_wall_ns(home->rdzv->engine) / 1000;
    shell_step(run, (struct policy_event){.kind = RUN_RESTORED,
                                          .agents_return = agents_return(home),
                                          .still_ms = away_ms});
}

/* Keys that look like one of a round come last: of which run they are, those before have told. */
static void restore_runs(struct rendezvous_space *home, bool of_rounds, uint64_t away_ms)
{
    const struct entry *e, *next;

    for (e = TAILQ_FIRST(&home->space->store->keys.entries); e != NULL; e = next) {
        struct slice key = e->node.key;
        size_t lengths[RUN_FRONTS_MAX];

        next = TAILQ_NEXT(e, order);
        if (is_agents_key(key) && (run_key_fronts(key, lengths) > 0) == of_rounds &&
            run_views_owner(&home->runs, key) == NULL)
            restore_run(home, key, away_ms);
    }
}

void rendezvous_restore(struct rendezvous *r, uint64_t away_ms)
{
    struct rendezvous_space *home;

    if (!r->config->elastic.fixes)
        return;
    r->restored_ms = engine_lived_ms(r->engine);
    TAILQ_FOREACH(home, &r->spaces, entry) {
        restore_worker_stores(home);
        restore_runs(home, false, away_ms);
        restore_runs(home, true, away_ms);
        drop_unnamed(home);
        etcd_runs_restore(&home->etcd_runs);
    }
}
