/* The rendezvous of all spaces: how it begins and ends, and what it hears of the engine. See
 * rendezvous.h. */
#include "rdzv/rendezvous/rendezvous.h"

#include "store/memory/xalloc.h"

#define SILENT_RESTART_MS 60000 /* --restart-on-loss=silent: so long nothing has come of a node */

struct rendezvous_space *shell_space_of(struct rendezvous *r, struct engine_space *space)
{
    struct rendezvous_space *home = space->rendezvous;

    if (home != NULL)
        return home;
    home = xcalloc(1, sizeof *home);
    home->rdzv = r;
    home->space = space;
    run_views_init(&home->runs, r->engine->options.seed);
    etcd_runs_init(&home->etcd_runs, r->engine, &space->store->tree, r->net);
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
        shell_space_of(r, space);
}

static bool holds_request(void *arg, const struct http_request *r, struct slice key,
                          struct slice value, uint64_t prev_index)
{
    return etcd_runs_concerns(key) &&
           etcd_runs_hold(&shell_space_of(arg, r->space)->etcd_runs, r, key, value, prev_index);
}

const struct key_gate *rendezvous_key_gate(const struct rendezvous *r)
{
    return r->config->elastic.fixes ? &r->gate : NULL;
}

static void on_resumed(void *arg, uint64_t paused_ms)
{
    rendezvous_stood_still(arg, paused_ms);
}

/* A worker store that was about to go may have waited for this session alone. */
static void on_unbound(void *arg, struct engine_space *space, uint64_t worker_store)
{
    struct rendezvous_space *home = shell_space_of(arg, space);
    struct worker_use *use = worker_use_find(home, worker_store);

    if (use != NULL && use->ended)
        worker_use_end(home, use);
}

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
        .settings = {.close_needs_all = c->close_needs_all,
                     .close_from_members = !config_disables(config, CONFIG_CLOSE_FROM_MEMBERS),
                     .end_failed_runs = c->end_failed_runs,
                     .drop_disconnected = !config_disables(config, CONFIG_DROP_DISCONNECTED),
                     .end_last_call = !config_disables(config, CONFIG_END_LAST_CALL),
                     .silent_node_ms = c->silent_node_ms,
                     .restart_on_loss = (enum restart_on_loss)c->restart_on_loss,
                     .silent_restart_ms = SILENT_RESTART_MS,
                     .regroup_wait_ms = c->regroup_wait_ms,
                     .expected_nodes = c->expected_nodes,
                     .own_worker_ports = c->worker_port_low != 0,
                     .closed_run_ttl_ms = c->closed_run_ttl_ms,
                     .closed_run_wait_ms = c->closed_run_wait_ms,
                     .idle_run_ttl_ms = c->idle_run_ttl_ms,
                     .advertise_host = c->advertise_host,
                     .advertise_port = c->advertise_port}};
    r->gate = (struct key_gate){.holds = holds_request, .arg = r};
    TAILQ_INIT(&r->spaces);
    TAILQ_INIT(&r->sweeping);
    expiry_init(&r->due, &engine->store.reserve);
    evtimer_assign(&r->ticker, net->base, shell_on_ticker, r);
    if (c->fixes)
        engine->observer = (struct engine_observer){
            .applied = shell_applied, .resumed = on_resumed, .unbound = on_unbound, .arg = r};
}

void rendezvous_fini(struct rendezvous *r)
{
    struct rendezvous_space *home;
    struct run_view *v;

    while ((home = TAILQ_FIRST(&r->spaces)) != NULL) {
        while ((v = TAILQ_FIRST(&home->runs.list)) != NULL)
            shell_free_run(live_run_of(v));
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
