/* The daemon as a whole, and the iteration of its loop. See server.h for the contract. */
#include "rdzv/server.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/random.h>

#include "rdzv/config/etcd_ids.h"
#include "rdzv/engine/log.h"
#include "rdzv/http/operator.h"
#include "rdzv/memory_hooks.h"
#include "rdzv/net/listen.h"
#include "rdzv/net/transport.h"
#include "rdzv/notify.h"
#include "rdzv/routes.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

/* A TTL's timer never sleeps longer than etcd's sweep, so that a step of the clock is noticed. */
#define EXPIRY_SLEEP_MAX_NS INT64_C(500000000)

/* So many nodes expire before the next look at the time; and nanoseconds that one of them takes,
 * and one client that is told, see budget.h. */
#define EXPIRED_AT_A_TIME 32
#define EXPIRY_COST       1000u
#define TOLD_COST         128u

static struct timeval timeval_of_ms(uint64_t ms)
{
    return (struct timeval){.tv_sec = (time_t)(ms / 1000),
                            .tv_usec = (suseconds_t)(ms % 1000 * 1000)};
}

/* --- Time. --- */

/* True: there is more, which waits for the next iteration when this one has had its time. */
static bool expire_some(struct server *s)
{
    const struct store *store = &s->engine.store;
    uint64_t told = store->ready.told;
    bool more = engine_expire(&s->engine, EXPIRED_AT_A_TIME);

    net_spend(&s->net, EXPIRED_AT_A_TIME * EXPIRY_COST + (store->ready.told - told) * TOLD_COST);
    return more;
}

static void on_expiry(evutil_socket_t fd, short what, void *arg)
{
    struct server *s = arg;

    (void)fd;
    (void)what;
    s->expiry_armed_ns = 0;
    s->engine.expiry_moved = true;
    while (expire_some(s) && !s->net.budget.over)
        ;
}

/* Sets the timer for the earliest TTL of all, unless it is set for that one already. */
static void arm_expiry(struct server *s)
{
    struct timeval later;
    int64_t first = 0, wait;

    if (!s->engine.expiry_moved)
        return;
    s->engine.expiry_moved = false;
    if (!engine_next_expiry(&s->engine, &first))
        first = 0;
    if (first == s->expiry_armed_ns)
        return;
    s->expiry_armed_ns = first;
    if (first == 0) {
        evtimer_del(&s->expiry);
        return;
    }
    if (__builtin_sub_overflow(first, engine_wall_ns(&s->engine), &wait) ||
        wait > EXPIRY_SLEEP_MAX_NS)
        wait = first < 0 ? 0 : EXPIRY_SLEEP_MAX_NS;
    if (wait < 0)
        wait = s->engine.batch.refuses ? EXPIRY_SLEEP_MAX_NS : 0;
    wait += 999; /* not a microsecond early, or it would have to be set again */
    later = (struct timeval){.tv_sec = wait / 1000000000,
                             .tv_usec = (suseconds_t)(wait % 1000000000 / 1000)};
    if (!net_add_event(&s->expiry, &later)) { /* the next iteration tries again */
        s->expiry_armed_ns = 0;
        s->engine.expiry_moved = true;
    }
}

static void exit_when_idle(struct server *s)
{
    uint64_t limit = s->config->exit_when_idle_ms, unused = engine_unused_ms(&s->engine);

    if (limit == 0 || unused < limit)
        return;
    log_event(LOG_INFO, "idle_exit", log_u64("idle_ms", unused));
    s->stop = true;
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
    struct server *s = arg;
    uint64_t timeout = s->config->limits.request_timeout_ms, lived;

    (void)fd;
    (void)what;
    net_spend(&s->net, 0);
    log_tick();
    listen_tick(&s->net);
    engine_note_alive(&s->engine);
    lived = engine_lived_ms(&s->engine);
    if (timeout != 0 && lived > timeout)
        transport_drop_stalled(&s->net, lived - timeout);
    engine_tick(&s->engine);
    rendezvous_tick(&s->rendezvous);
    relay_links_tick(&s->links);
    data_dir_tick(&s->data);
    heap_trim(&s->heap, clock_monotonic_ns(s->engine.options.clock), HEAP_WORTH_QUIET);
    exit_when_idle(s);
}

/* --- The end. --- */

static void on_drain_timeout(evutil_socket_t fd, short what, void *arg)
{
    struct server *s = arg;

    (void)fd;
    (void)what;
    log_event(LOG_WARN, "drain_timeout", log_u64("connections", s->net.conn_count),
              log_str("reason", "they did not read their answers within --drain-timeout"));
    s->stop = true;
}

/* No new connections; those that are open get what is queued for them, and are closed. */
static void on_stop_signal(evutil_socket_t number, short what, void *arg)
{
    struct server *s = arg;
    const struct timeval patience = timeval_of_ms(s->config->drain_timeout_ms);

    (void)what;
    if (s->net.draining) { /* asked twice */
        s->stop = true;
        return;
    }
    log_event(LOG_INFO, "stopping", log_str("signal", number == SIGTERM ? "SIGTERM" : "SIGINT"),
              log_u64("connections", s->net.conn_count));
    notify_send(getenv("NOTIFY_SOCKET"), "STOPPING=1");
    transport_drain(&s->net);
    if (!net_add_event(&s->drain, &patience))
        s->stop = true;
}

static void on_kept(evutil_socket_t fd, short what, void *arg)
{
    struct server *s = arg;

    (void)fd;
    (void)what;
    data_dir_poll(&s->data);
}

static void on_ignored_signal(evutil_socket_t number, short what, void *arg)
{
    (void)what;
    (void)arg;
    log_event(LOG_WARN, "signal_ignored",
              log_str("signal", number == SIGHUP    ? "SIGHUP"
                                : number == SIGUSR1 ? "SIGUSR1"
                                                    : "SIGUSR2"),
              log_str("reason", "rdzvd reads its settings when it starts: restart it to change "
                                "them; SIGTERM and SIGINT end it"));
}

/* --- The iteration. --- */

/* True: the next iteration waits for nothing. */
static bool end_iteration(struct server *s)
{
    uint64_t now_ns;
    bool goes_on;

    transport_end_iteration(&s->net);
    now_ns = clock_monotonic_ns(s->engine.options.clock);
    if (engine_is_alive(&s->engine, clock_ms_of(now_ns)))
        transport_end_iteration(&s->net); /* the rendezvous may have written */
    arm_expiry(s);
    data_dir_work(&s->data);
    heap_look(&s->heap, now_ns);
    goes_on = transport_has_work(&s->net) || data_dir_has_work(&s->data);
    pace_end(&s->net.pace, now_ns, goes_on);
    if (s->net.draining && s->net.conn_count == 0)
        s->stop = true;
    return goes_on;
}

int server_run(struct server *s)
{
    const struct stats *stats = &s->engine.stats;
    bool goes_on = transport_has_work(&s->net);

    while (!s->stop) {
        s->engine.stats.loop_iterations++;
        transport_begin_iteration(&s->net);
        if (event_base_loop(s->base, goes_on ? EVLOOP_ONCE | EVLOOP_NONBLOCK : EVLOOP_ONCE) < 0) {
            log_event(LOG_ERROR, "loop_failed", log_errno("reason", errno));
            return 1;
        }
        if (transport_has_deferred(&s->net))
            transport_run_deferred(&s->net);
        goes_on = end_iteration(s);
    }
    log_event(LOG_INFO, "stopped", log_u64("connections", stats->accepted),
              log_u64("c10d_requests", stats->c10d_requests),
              log_u64("http_requests", stats->http_requests));
    return 0;
}

/* --- Beginning and end. --- */

static uint64_t random_seed(void)
{
    uint64_t seed = 0;

    if (getrandom(&seed, sizeof seed, 0) != (ssize_t)sizeof seed)
        seed = (uint64_t)clock_wall_ns(&clock_system); /* an old kernel before its pool is ready */
    return seed;
}

static struct event_base *new_base(void)
{
    struct event_config *config = event_config_new();
    struct event_base *base = NULL;

    if (config != NULL) {
        event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK); /* one thread */
        base = event_base_new_with_config(config);
        event_config_free(config);
    }
    return base;
}

static bool add_events(struct server *s)
{
    static const struct {
        int number;
        event_callback_fn on_signal;
    } signals[] = {
        {SIGTERM, on_stop_signal},    {SIGINT, on_stop_signal},     {SIGHUP, on_ignored_signal},
        {SIGUSR1, on_ignored_signal}, {SIGUSR2, on_ignored_signal},
    };
    const struct timeval second = {.tv_sec = 1};

    event_assign(&s->tick, s->base, -1, EV_PERSIST, on_tick, s);
    evtimer_assign(&s->expiry, s->base, on_expiry, s);
    evtimer_assign(&s->drain, s->base, on_drain_timeout, s);
    for (size_t i = 0; i < COUNT(signals); i++) {
        evsignal_assign(&s->signals[i], s->base, signals[i].number, signals[i].on_signal, s);
        if (!net_add_event(&s->signals[i], NULL))
            return false;
    }
    if (data_dir_fd(&s->data) >= 0) {
        event_assign(&s->kept, s->base, data_dir_fd(&s->data), EV_READ | EV_PERSIST, on_kept, s);
        if (!net_add_event(&s->kept, NULL))
            return false;
    }
    return net_add_event(&s->tick, &second);
}

static int open_data(struct server *s)
{
    const struct config *c = s->config;
    const struct data_dir_options options = {
        .path = c->sync == CONFIG_SYNC_OFF ? NULL : c->data_dir,
        .mode = c->sync == CONFIG_SYNC_ALWAYS ? JOURNAL_WRITER_ALWAYS : JOURNAL_WRITER_BATCH,
        .sync_interval_ms = c->sync_interval_ms};

    return data_dir_open(&s->data, &options, &s->engine);
}

static void init_protocols(struct server *s)
{
    const struct c10d_hooks hooks = rendezvous_hooks(&s->rendezvous);

    c10d_init(&s->c10d, s->config, &s->engine, &hooks);
    s->http = (struct http){.config = s->config,
                            .engine = &s->engine,
                            .routes = http_routes,
                            .backoff = &s->backoff,
                            .hasher = &s->hasher};
    etcd_ids(s->config, &s->http.member_id, &s->http.cluster_id);
    s->c10d_protocol = c10d_protocol(&s->c10d);
    s->http_protocol = http_protocol(&s->http);
    s->protocols[0] = s->http_protocols[0] = &s->http_protocol;
    s->link_protocol = relay_link_protocol(&s->links);
    s->protocols[1] = &s->link_protocol;
    s->protocols[2] = &s->c10d_protocol;
    s->net.protocols = s->protocols;
    s->net.http_protocols = s->http_protocols;
}

int server_init(struct server *s, const struct config *config)
{
    const struct engine_options options = {.clock = &clock_system,
                                           .seed = random_seed(),
                                           .key_groups = rendezvous_key_groups(config),
                                           .space_bytes_max = config->limits.space_bytes_max,
                                           .space_idle_timeout_ms = config->space_idle_timeout_ms};

    memory_hooks_set();
    *s = (struct server){.config = config};
    s->base = new_base();
    engine_init(&s->engine, &options);
    heap_init(&s->heap);
    net_init(&s->net, s->base, &s->engine, &config->limits);
    hasher_init(&s->hasher, s->base, &s->engine.stats, options.seed);
    rendezvous_init(&s->rendezvous, config, &s->engine, &s->net);
    init_protocols(s);
    relay_links_init(&s->links, config, &s->engine, &s->net, &s->c10d_protocol);
    if (s->base == NULL) {
        log_event(LOG_ERROR, "loop_failed", log_str("reason", "libevent finds no way to poll"));
        return -1;
    }
    http_check_token_file(config);
    if (open_data(s) < 0 || !add_events(s) || transport_start(&s->net, config) < 0)
        return -1;
    rendezvous_add_spaces(&s->rendezvous);
    if (s->data.found) {
        engine_postpone_expiry(&s->engine, s->data.away_ms);
        rendezvous_restore(&s->rendezvous, s->data.away_ms);
    }
    return 0;
}

void server_fini(struct server *s)
{
    relay_links_stop(&s->links);
    transport_close_all(&s->net, "the daemon stops");
    relay_links_fini(&s->links);
    engine_commit(&s->engine);
    engine_commit_time(&s->engine);
    data_dir_close(&s->data);
    hasher_fini(&s->hasher);
    rendezvous_fini(&s->rendezvous);
    listen_free_all(&s->net); /* after the runs, some of which have one of their own */
    if (s->base != NULL) {
        for (size_t i = 0; i < COUNT(s->signals); i++) {
            if (event_initialized(&s->signals[i]))
                event_del(&s->signals[i]);
        }
        if (event_initialized(&s->kept))
            event_del(&s->kept);
        event_base_free(s->base);
    }
    net_fini(&s->net);
    engine_fini(&s->engine);
    heap_fini(&s->heap);
}
