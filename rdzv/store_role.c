/* A store's own work, beside that of every server. See server.h for the contract. */

#include "rdzv/server.h"

#include <stdio.h>

#include "rdzv/config/topology.h"

/* A TTL's timer never sleeps longer than etcd's sweep, so that a step of the clock is noticed. */
#define EXPIRY_SLEEP_MAX_NS INT64_C(500000000)

/* The number of nodes that expire between two looks at the clock; and the nanoseconds that an
 * expired node and a notified client cost, see iteration.h. */
#define EXPIRED_AT_A_TIME 32
#define EXPIRY_COST       1000u
#define NOTIFY_COST       128u

/* --- TTLs. --- */

/* Expires some nodes. True if more nodes are due; they wait for the next iteration if this one has
 * used up its budget. */
static bool expire_some(struct server *s)
{
    const struct store *store = &s->engine.store;
    uint64_t beside = store->ready.work;
    bool more = engine_expire(&s->engine, EXPIRED_AT_A_TIME);

    net_spend(&s->net,
              EXPIRED_AT_A_TIME * EXPIRY_COST + (store->ready.work - beside) * NOTIFY_COST);
    return more;
}

static void on_expiry(evutil_socket_t, short, void *arg)
{
    struct server *s = arg;

    s->store.expiry_armed_ns = 0;
    s->engine.expiry_moved = true;
    while (expire_some(s) && !s->net.budget.over)
        ;
}

/* Sets the timer for the earliest TTL of all, which may be another one than before. */
__attribute__((noinline)) static void arm_expiry(struct server *s)
{
    int64_t first = 0, wait;

    s->engine.expiry_moved = false;
    if (!engine_next_expiry(&s->engine, &first))
        first = 0;
    if (first == s->store.expiry_armed_ns)
        return;
    s->store.expiry_armed_ns = first;
    if (first == 0) {
        evtimer_del(&s->store.expiry);
        return;
    }
    if (__builtin_sub_overflow(first, engine_wall_ns(&s->engine), &wait) ||
        wait > EXPIRY_SLEEP_MAX_NS)
        wait = first < 0 ? 0 : EXPIRY_SLEEP_MAX_NS;
    if (wait < 0)
        wait = s->engine.batch.refuses ? EXPIRY_SLEEP_MAX_NS : 0;
    wait += 999; /* rounded up: a timer that fires early must be set again */
    if (!net_set_timer(&s->store.expiry, (uint64_t)wait / 1000)) {
        /* The next iteration tries again. */
        s->store.expiry_armed_ns = 0;
        s->engine.expiry_moved = true;
    }
}

/* --- Clients of a replica that does not lead. --- */

/* Without --upstream, the replica refuses clients, which must try another one: they are connected
 * by mistake, or since before it lost the lead. */
static enum parse_result refuse_client(const struct protocol *, struct conn *, struct slice,
                                       struct protocol_progress *, const char **why)
{
    *why = "this replica does not lead, and serves no clients; see /readyz";
    return PARSE_BAD;
}

static void stand_by(struct server *s)
{
    struct store_parts *store = &s->store;

    store->standby_protocol = (struct protocol){.name = "none", .begin = refuse_client};
    store->standby_protocols[0] = &s->http_protocol;
    store->standby_protocols[1] = &store->link_protocol;
    store->standby_protocols[2] =
        s->http.forwards != NULL ? &s->forwards.protocol : &store->standby_protocol;
    relay_links_stand_by(&store->links);
    s->net.protocols = store->standby_protocols;
    routes_stand_by(store->standby_routes, s->http.forwards != NULL);
    s->http.routes = store->standby_routes;
}

static void serve_clients(void *arg)
{
    struct server *s = arg;
    const struct engine_found *found = &s->engine.found;
    struct store_parts *store = &s->store;
    struct hello_journal journal = {0}; /* shared by replicas */

    if (store->etcd != NULL) {
        snprintf(journal.name, sizeof journal.name, "%s", s->config->journal.name);
        journal.cluster = journal_etcd_stats(store->etcd)->cluster;
    }
    s->net.protocols = s->protocols;
    s->http.routes = http_routes;
    rendezvous_add_spaces(&store->rendezvous);
    if (found->any) {
        engine_postpone_expiry(&s->engine, found->away_by_wall_ms);
        rendezvous_restore(&store->rendezvous, found->away_ms);
        etcd_runs_restore(&store->etcd_runs);
        relay_links_start(&store->links);
    }
    relay_links_lead(&store->links, &journal);
}

/* --- The journal. --- */

/* While the journal takes no changes, no heartbeat arrives, so this time does not count against
 * agents. The engine has dropped clients that use no relay. */
static void note_journal_refusal(struct server *s)
{
    struct store_parts *store = &s->store;
    bool refuses = !engine_takes_changes(&s->engine);

    if (refuses != (store->rendezvous.refuses_since_ms != 0))
        rendezvous_note_refusal(&store->rendezvous, refuses);
}

static void on_follows(void *arg, const char *leader)
{
    struct server *s = arg;

    relay_links_send_on(&s->store.links, leader);
}

static void on_ended(void *arg)
{
    server_request_restart(arg);
}

static int open_etcd(struct server *s)
{
    const struct journal_etcd_options options = {.base = s->base,
                                                 .config = &s->config->journal,
                                                 .leads = serve_clients,
                                                 .follows = on_follows,
                                                 .ended = on_ended,
                                                 .arg = s};

    stand_by(s);
    return journal_etcd_open(&s->store.etcd, &options, &s->engine);
}

static void on_kept(evutil_socket_t, short, void *arg)
{
    struct server *s = arg;

    engine_poll_journal(&s->engine);
    note_journal_refusal(s);
}

/* False: the file is wrong, and the table that there was stays. */
static bool load_topology(struct server *s)
{
    struct policy_settings *settings = &s->store.rendezvous.settings;
    char error[TOPOLOGY_ERROR_MAX];
    struct topology *table;

    if (settings->topology_file == NULL)
        return true;
    table = topology_read(settings->topology_file, error);
    if (table == NULL) {
        log_event(LOG_ERROR, "topology_failed", log_str("reason", error),
                  log_str("hint", "a line is NAME|PATTERN DOMAIN[/DOMAIN...] [INDEX]"));
        return false;
    }
    topology_free((struct topology *)(uintptr_t)settings->topology);
    settings->topology = table;
    log_event(LOG_INFO, "topology_loaded", log_str("file", settings->topology_file),
              log_u64("lines", topology_lines(table)));
    return true;
}

static bool store_role_reload(struct server *s)
{
    load_topology(s);
    return s->config->elastic.topology_file != NULL;
}

static int open_data(struct server *s)
{
    const struct config *c = s->config;

    if (c->data_dir == NULL || c->sync == CONFIG_SYNC_OFF)
        return 0;
    return data_dir_open(
        &s->store.data, c->data_dir,
        c->sync == CONFIG_SYNC_ALWAYS ? JOURNAL_WRITER_ALWAYS : JOURNAL_WRITER_BATCH, &s->engine);
}

static int open_journal(struct server *s)
{
    const struct engine_journal *journal = &s->engine.options.journal;

    if (!load_topology(s) || (s->config->journal.url != NULL ? open_etcd(s) : open_data(s)) < 0)
        return -1;
    if (journal->commit == NULL || journal->fd < 0)
        return 0;
    event_assign(&s->store.kept, s->base, journal->fd, EV_READ | EV_PERSIST, on_kept, s);
    return net_add_event(&s->store.kept, NULL) ? 0 : -1;
}

/* --- Beginning and end. --- */

static void store_set_options(const struct config *config, struct engine_options *options)
{
    options->key_groups = config->elastic.fixes ? &run_key_groups : NULL;
    options->space_bytes_max = config->limits.space_bytes_max;
    options->space_idle_timeout_ms = config->space_idle_timeout_ms;
}

static void store_role_init(struct server *s)
{
    struct store_parts *store = &s->store;

    if (config_passes_on(s->config)) {
        forwards_init(&s->forwards, &s->net, s->config, s->engine.options.seed, NULL);
        if (s->forwards.count > 0) /* else there are Unix sockets alone */
            s->http.forwards = &s->forwards;
    }
    evtimer_assign(&store->expiry, s->base, on_expiry, s);
    rendezvous_init(&store->rendezvous, s->config, &s->engine, &s->net);
    store->rendezvous.before_tick = status_waits_log;
    store->rendezvous.ended = status_end_run;
    store->rendezvous.judge = status_judge;
    store->rendezvous.worker_ended = first_failure_note_end;
    store->rendezvous.key_set = first_failure_note_set;
    c10d_init(&store->c10d, s->config, &s->engine, rendezvous_hooks(&store->rendezvous));
    s->http.routes = http_routes;
    etcd_runs_init(&store->etcd_runs, &store->rendezvous.settings, &s->engine, &s->net);
    s->http.key_gate = etcd_runs_key_gate(&store->etcd_runs);
    TAILQ_INIT(&store->status_feeds);
    s->http.status_feeds = &store->status_feeds;
    etcd_ids(s->config, &s->http.member_id, &s->http.cluster_id);
    store->c10d_protocol = c10d_protocol(&store->c10d);
    monitor_init(&store->monitor, &s->net, &store->c10d_protocol, &s->request_watch);
    s->http.monitor = &store->monitor;
    store->link_protocol = relay_link_protocol(&store->links);
    s->protocols[1] = &store->link_protocol;
    s->protocols[2] = &store->c10d_protocol;
    relay_links_init(&store->links, s->config, &s->engine, &s->net, &store->c10d_protocol,
                     &s->http);
}

static void store_role_begin(struct server *s)
{
    if (s->store.etcd == NULL)
        serve_clients(s);
}

static void store_role_tick(struct server *s)
{
    rendezvous_tick(&s->store.rendezvous);
    etcd_runs_tick(&s->store.etcd_runs);
    relay_links_tick(&s->store.links);
    engine_tick_journal(&s->engine);
    note_journal_refusal(s);
}

/* The work of a store with a journal. True: more remains. */
static bool work_journal(struct server *s)
{
    struct relay_links *links = &s->store.links;
    bool goes_on = s->store.rendezvous.refuses_since_ms == 0 && relay_links_hold_some(links) &&
                   relay_links_continue(links); /* more of them are held */

    if (s->net.draining) /* the next replica starts to lead only when this one has closed all
                            clients */
        forwards_stop_waiting(&s->forwards);
    goes_on = forwards_flush(&s->forwards) || goes_on;
    return engine_work_journal(&s->engine) || goes_on;
}

static bool store_end_iteration(struct server *s)
{
    bool has_journal = s->engine.options.journal.commit != NULL, goes_on;

    if (s->engine.expiry_moved)
        arm_expiry(s);
    if (has_journal)
        note_journal_refusal(s);
    goes_on = relay_links_have_work(&s->store.links) && relay_links_work(&s->store.links);
    return (has_journal && work_journal(s)) || goes_on;
}

static bool store_may_stop(struct server *s)
{
    return s->store.etcd == NULL || journal_etcd_finish(s->store.etcd);
}

/* Sessions of relays outlive the process, if there is a journal. */
static void store_role_stop(struct server *s)
{
    s->store.links.stopping = true;
}

/* A leader gives its lease back. */
static uint64_t store_end_ms(const struct server *s)
{
    return s->store.etcd != NULL && journal_etcd_stats(s->store.etcd)->leads ? JOURNAL_ETCD_END_MS
                                                                             : 0;
}

static void store_role_fini(struct server *s)
{
    struct store_parts *store = &s->store;

    relay_links_fini(&store->links);
    engine_commit(&s->engine);
    engine_commit_time(&s->engine);
    engine_close_journal(&s->engine);
    rendezvous_fini(&store->rendezvous);
    topology_free((struct topology *)(uintptr_t)store->rendezvous.settings.topology);
    etcd_runs_fini(&store->etcd_runs);
    if (event_initialized(&store->kept))
        event_del(&store->kept);
}

const struct role store_role = {.options = store_set_options,
                                .init = store_role_init,
                                .open = open_journal,
                                .begin = store_role_begin,
                                .reload = store_role_reload,
                                .tick = store_role_tick,
                                .end_iteration = store_end_iteration,
                                .may_stop = store_may_stop,
                                .stop = store_role_stop,
                                .end_ms = store_end_ms,
                                .fini = store_role_fini};
