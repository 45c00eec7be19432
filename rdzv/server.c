/* The daemon as a whole, and the iteration of its loop. See server.h for the contract. */
#include "rdzv/server.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "rdzv/engine/log.h"
#include "rdzv/memory.h"
#include "rdzv/net/handshake.h"
#include "rdzv/net/listen.h"
#include "rdzv/net/transport.h"
#include "rdzv/notify.h"
#include "store/memory/account.h"

/* --- Time. --- */

static void on_tick(evutil_socket_t, short, void *arg)
{
    struct server *s = arg;
    uint64_t timeout = s->config->limits.request_timeout_ms, lived;
    uint64_t idle_limit = s->config->exit_when_idle_ms, unused;

    net_spend(&s->net, 0); /* the tick itself is not charged; libevent goes on if time is left */
    latency_sample(&s->net.latency);
    log_tick();
    listen_tick(&s->net);
    handshakes_tick(&s->net);
    engine_note_alive(&s->engine);
    lived = engine_lived_ms(&s->engine);
    if (timeout != 0 && lived > timeout)
        transport_drop_stalled(&s->net, lived - timeout);
    engine_tick(&s->engine);
    if (s->role->tick != NULL)
        s->role->tick(s);
    forwards_tick(&s->forwards);
    out_pool_trim(&s->net.pool);
    account_keep_spare();
    heap_tick(&s->heap, stats_c10d_requests(&s->engine.stats) + s->engine.stats.http_requests);
    unused = engine_unused_ms(&s->engine);
    if (idle_limit != 0 && unused >= idle_limit) {
        log_event(LOG_INFO, "idle_exit", log_u64("idle_ms", unused));
        s->stop = true;
    }
}

/* --- The end. --- */

/* The time to drain is over: cuts off the clients that do not read their answers, and gives the
 * role role->end_ms() to finish. */
static void on_drain_timeout(evutil_socket_t, short, void *arg)
{
    struct server *s = arg;
    uint64_t more_ms = s->role->end_ms == NULL ? 0 : s->role->end_ms(s);

    if (s->cut_off) {
        s->stop = true;
        return;
    }
    log_event(LOG_WARN, "drain_timeout", log_u64("connections", s->net.conn_count),
              log_str("reason", s->net.conn_count > 0
                                    ? "they did not read their answers in time"
                                    : "what clients had sent was not kept in time"));
    s->cut_off = true;
    transport_close_open(&s->net, "it did not read its answers before rdzvd ended");
    if (more_ms == 0 || !net_set_timer(&s->drain, more_ms * 1000))
        s->stop = true;
}

void server_drain(struct server *s, const char *signal)
{
    if (s->net.draining) { /* asked twice */
        s->stop = true;
        return;
    }
    log_event(LOG_INFO, "stopping", log_str("signal", signal),
              log_u64("connections", s->net.conn_count));
    notify_send(getenv("NOTIFY_SOCKET"), "STOPPING=1");
    transport_drain(&s->net);
    if (!net_set_timer(&s->drain, s->config->drain_timeout_ms * 1000))
        s->stop = true;
}

static bool reload(struct server *s)
{
    bool has_certificate = s->net.handshakes.certificate.context != NULL;
    bool has_files = s->role->reload != NULL && s->role->reload(s);

    if (has_certificate)
        certificate_reload(&s->net.handshakes.certificate);
    return has_certificate || has_files;
}

static void on_signal(void *arg, int number)
{
    struct server *s = arg;

    if (number == SIGTERM || number == SIGINT)
        server_drain(s, number == SIGTERM ? "SIGTERM" : "SIGINT");
    else if (number != SIGHUP || !reload(s))
        log_event(LOG_WARN, "signal_ignored",
                  log_str("signal", number == SIGHUP    ? "SIGHUP"
                                    : number == SIGUSR1 ? "SIGUSR1"
                                                        : "SIGUSR2"),
                  log_str("reason", "rdzvd reads its settings when it starts: restart it to change "
                                    "them; SIGTERM and SIGINT end it"));
}

/* The kernel closes the pipe when the process at its other end ends, also by SIGKILL. */
static void on_stdin(evutil_socket_t fd, short, void *arg)
{
    struct server *s = arg;
    char ignored[512];
    ssize_t got = read(fd, ignored, sizeof ignored);

    if (got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR)))
        return;
    event_del(&s->stdin_ends);
    server_drain(s, "none: standard input has ended");
}

static bool watch_stdin(struct server *s)
{
    if (!s->config->exit_with_stdin)
        return true;
    event_assign(&s->stdin_ends, s->base, STDIN_FILENO, EV_READ | EV_PERSIST, on_stdin, s);
    if (event_add(&s->stdin_ends, NULL) == 0)
        return true;
    log_event(LOG_ERROR, "stdin_failed", log_errno("reason", errno),
              log_str("hint", "--exit-with-stdin needs a pipe, a socket or a terminal there"));
    return false;
}

/* --- The iteration. --- */

/* True: the next iteration waits for nothing. */
static bool end_server_iteration(struct server *s)
{
    uint64_t now_ns;
    bool goes_on;

    transport_end_iteration(&s->net);
    now_ns = clock_monotonic_ns(s->engine.options.clock);
    engine_note_iteration(&s->engine, clock_ms_of(now_ns));
    goes_on = s->role->end_iteration(s);
    heap_check(&s->heap, now_ns);
    goes_on = transport_has_work(&s->net) || heap_has_work(&s->heap) || goes_on;
    latency_end(&s->net.latency, now_ns, goes_on);
    if (s->net.draining && s->net.conn_count == 0 &&
        (s->role->may_stop == NULL || s->role->may_stop(s)) && forwards_are_done(&s->forwards))
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
        transport_end_reading(&s->net);
        transport_run_deferred(&s->net);
        goes_on = end_server_iteration(s);
    }
    if (s->restart && !s->net.draining) /* a signal to stop may follow in the same iteration */
        return SERVER_RESTART;
    log_event(LOG_INFO, "stopped", log_u64("accepted", stats->accepted),
              log_u64("c10d_requests", stats_c10d_requests(stats)),
              log_u64("http_requests", stats->http_requests));
    return s->exit_code;
}

/* --- Beginning and end. --- */

static bool add_events(struct server *s)
{
    event_assign(&s->tick, s->base, -1, EV_PERSIST, on_tick, s);
    evtimer_assign(&s->drain, s->base, on_drain_timeout, s);
    return signals_open(&s->signals, s->base, on_signal, s) && net_set_timer(&s->tick, 1000000) &&
           watch_stdin(s);
}

/* What every role serves in the same way. */
static void init_http(struct server *s)
{
    s->http = (struct http){.config = s->config,
                            .engine = &s->engine,
                            .backoff = &s->backoff,
                            .request_watch = &s->request_watch};
    s->http_protocol = http_protocol(&s->http);
    s->protocols[0] = s->http_protocols[0] = &s->http_protocol;
    s->net.protocols = s->protocols;
    s->net.http_protocols = s->http_protocols;
}

int server_init(struct server *s, const struct config *config)
{
    struct engine_options options = {.clock = &clock_system, .seed = random_number()};

    memory_hooks_set();
    *s = (struct server){.config = config};
    s->role = config_is_relay(config) ? &relay_role : &store_role;
    if (s->role->options != NULL)
        s->role->options(config, &options);
    s->base = event_base_new(); /* without locks, since nothing gives libevent any */
    engine_init(&s->engine, &options);
    heap_init(&s->heap);
    net_init(&s->net, s->base, &s->engine, &config->limits);
    init_http(s);
    s->role->init(s);
    if (s->base == NULL) {
        log_event(LOG_ERROR, "loop_failed", log_str("reason", "libevent finds no way to poll"));
        return -1;
    }
    http_check_token_files(config);
    if (forwards_open(&s->forwards, config) < 0 ||
        (s->role->open != NULL && s->role->open(s) < 0) || !add_events(s) ||
        transport_start(&s->net, config) < 0)
        return -1;
    s->role->begin(s);
    return forwards_start(&s->forwards) ? 0 : -1;
}

void server_fini(struct server *s)
{
    if (s->role->stop != NULL)
        s->role->stop(s);
    transport_close_all(&s->net, "the daemon stops");
    forwards_fini(&s->forwards);
    if (s->role->fini != NULL)
        s->role->fini(s);
    listen_free_all(&s->net); /* after the runs, some of which own a listener */
    signals_close(&s->signals);
    if (s->base != NULL)
        event_base_free(s->base);
    net_fini(&s->net);
    engine_fini(&s->engine);
    heap_fini(&s->heap);
    memory_hooks_give_back();
    account_give_spare();
}
