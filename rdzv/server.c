/* The daemon as a whole, and the turn of its loop. See server.h for the contract. */
#include "rdzv/server.h"

#include <signal.h>
#include <sys/random.h>
#include <time.h>

#include "rdzv/etcd/admin.h"
#include "rdzv/net/conn.h"
#include "rdzv/net/listen.h"
#include "rdzv/notify.h"
#include "rdzv/rendezvous/elastic.h"
#include "rdzv/rendezvous/run_apply.h"
#include "rdzv/sessions.h"
#include "store/xalloc.h"

#define MS_A_TICK 1000
/* A TTL's timer never sleeps longer than etcd's sweep, so that a step of the clock is noticed. */
#define EXPIRY_SLEEP_MAX_NS INT64_C(500000000)

int64_t server_now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

uint64_t server_now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

uint8_t *server_scratch(struct server *s, size_t len)
{
    uint8_t *wider;

    if (len <= s->scratch_cap)
        return s->scratch;
    wider = malloc(len);
    if (wider == NULL)
        return NULL;
    free(s->scratch);
    s->scratch = wider;
    s->scratch_cap = len;
    return wider;
}

void server_apply(struct server *s, struct space *space, const struct command *command,
                  struct store_result *out)
{
    store_execute(&s->store, space, command, NULL, out);
    if (s->config->elastic.mode == CONFIG_ELASTIC_REPAIR)
        run_follow(s, space, command, out);
}

/* --- Spaces, and who is in them. --- */

static void forget(struct server *s, struct server_space *p, const char *why)
{
    const struct command command = {.kind = COMMAND_SPACE_FORGET};
    struct store_result result;

    server_apply(s, p->space, &command, &result);
    elastic_space_reset(s, p->space);
    log_event(result.count > 0 ? LOG_INFO : LOG_DEBUG, "space_forgotten",
              log_str("space", p->space->name), log_u64("keys", result.count),
              log_str("reason", why));
}

static void on_linger(evutil_socket_t fd, short what, void *arg)
{
    struct server_space *p = arg;

    (void)fd;
    (void)what;
    if (p->c10d_conns == 0)
        forget(p->server, p, "no c10d connection for --linger");
}

struct server_space *server_space_of(struct server *s, const struct space *space)
{
    struct server_space *p;

    TAILQ_FOREACH(p, &s->spaces, entry) {
        if (p->space == space)
            return p;
    }
    p = xcalloc(1, sizeof *p);
    p->space = store_find_space(&s->store, slice_str(space->name));
    p->server = s;
    evtimer_assign(&p->linger, s->base, on_linger, p);
    elastic_space_init(&p->elastic);
    runs_init(&p->runs, s->store.options.seed);
    TAILQ_INSERT_TAIL(&s->spaces, p, entry);
    return p;
}

void server_c10d_came(struct server *s, struct space *space)
{
    struct server_space *p = server_space_of(s, space);

    if (p->c10d_conns++ == 0 && s->config->linger_ms != 0)
        evtimer_del(&p->linger);
}

void server_c10d_left(struct server *s, struct space *space)
{
    struct server_space *p = server_space_of(s, space);
    uint64_t ms = s->config->linger_ms;
    const struct timeval later = {.tv_sec = (time_t)(ms / 1000),
                                  .tv_usec = (suseconds_t)(ms % 1000 * 1000)};

    if (--p->c10d_conns == 0 && ms != 0 && !s->draining)
        evtimer_add(&p->linger, &later);
}

/* --- Time. --- */

static void on_expiry(evutil_socket_t fd, short what, void *arg)
{
    struct server *s = arg;
    const struct command command = {.kind = COMMAND_TREE_EXPIRE, .now_ns = server_now_ns()};
    struct space *space;

    (void)fd;
    (void)what;
    s->expiry_armed_ns = 0;
    TAILQ_FOREACH(space, &s->store.spaces, entry) {
        struct store_result result;

        do {
            server_apply(s, space, &command, &result);
        } while (result.count != 0);
    }
}

/* Sets the timer for the earliest TTL of all, unless it is set for that one already. */
static void arm_expiry(struct server *s)
{
    struct timeval later;
    struct space *space;
    int64_t first = 0, wait;

    TAILQ_FOREACH(space, &s->store.spaces, entry) {
        int64_t at;

        if (tree_next_expiry(&space->tree, &at) && (first == 0 || at < first))
            first = at;
    }
    if (first == s->expiry_armed_ns)
        return;
    s->expiry_armed_ns = first;
    if (first == 0) {
        evtimer_del(&s->expiry);
        return;
    }
    if (__builtin_sub_overflow(first, server_now_ns(), &wait) || wait > EXPIRY_SLEEP_MAX_NS)
        wait = first < 0 ? 0 : EXPIRY_SLEEP_MAX_NS;
    if (wait < 0)
        wait = 0;
    wait += 999; /* not a microsecond early, or it would have to be set again */
    later = (struct timeval){.tv_sec = wait / 1000000000,
                             .tv_usec = (suseconds_t)(wait % 1000000000 / 1000)};
    evtimer_add(&s->expiry, &later);
}

static void watch_idleness(struct server *s)
{
    uint64_t limit = s->config->exit_when_idle_ms, now = server_now_ms();

    s->served = s->served || s->stats.accepted > 0;
    if (s->conn_count > 0)
        s->idle_since_ms = 0;
    else if (s->idle_since_ms == 0)
        s->idle_since_ms = now;
    if (limit == 0 || !s->served || s->idle_since_ms == 0 || now - s->idle_since_ms < limit)
        return;
    log_event(LOG_INFO, "idle_exit", log_u64("idle_ms", now - s->idle_since_ms));
    s->stop = true;
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
    struct server *s = arg;
    uint64_t patience = s->config->limits.request_timeout_ms, now = server_now_ms();

    (void)fd;
    (void)what;
    log_tick();
    if (patience != 0 && now > patience)
        conn_cut_late(s, now - patience);
    watch_idleness(s);
    elastic_tick(s);
}

static void on_retry_accept(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    listen_resume_all(arg);
}

/* --- The end. --- */

static void on_drained(evutil_socket_t fd, short what, void *arg)
{
    struct server *s = arg;

    (void)fd;
    (void)what;
    log_event(LOG_WARN, "drain_cut", log_u64("connections", s->conn_count),
              log_str("reason", "they did not read their answers within --drain-timeout"));
    s->stop = true;
}

/* Nobody new comes in; those who are here get what is queued for them, and are closed. */
static void on_signal(evutil_socket_t number, short what, void *arg)
{
    struct server *s = arg;
    uint64_t ms = s->config->drain_timeout_ms;
    const struct timeval patience = {.tv_sec = (time_t)(ms / 1000),
                                     .tv_usec = (suseconds_t)(ms % 1000 * 1000)};
    struct conn *c, *next;

    (void)what;
    if (s->draining) { /* asked twice */
        s->stop = true;
        return;
    }
    log_event(LOG_INFO, "stopping", log_str("signal", number == SIGTERM ? "SIGTERM" : "SIGINT"),
              log_u64("connections", s->conn_count));
    s->draining = true;
    notify_send(getenv("NOTIFY_SOCKET"), "STOPPING=1");
    listen_close_all(s);
    for (c = TAILQ_FIRST(&s->conns); c != NULL; c = next) {
        next = TAILQ_NEXT(c, entry);
        c->lingers = false;
        if (c->state == CONN_FINISHING && c->out.bytes == 0)
            conn_close(c, "the daemon stops");
        else
            conn_finish(c);
    }
    evtimer_add(&s->drain, &patience);
}

/* --- The turn. --- */

static void resume(struct wake *w)
{
    struct conn *c = w->owner;

    if (c->protocol == CONN_C10D)
        c10d_session_resume(c, w);
    else
        http_session_resume(c, w);
}

/* Sends what is queued. A connection that gets room again may go on with requests it had to leave,
 * and so be on the list once more. */
static void flush_all(struct server *s)
{
    struct dirty_list now = STAILQ_HEAD_INITIALIZER(now);
    struct conn *c;

    STAILQ_CONCAT(&now, &s->dirty);
    while ((c = STAILQ_FIRST(&now)) != NULL) {
        STAILQ_REMOVE_HEAD(&now, dirty);
        conn_flush(c);
    }
}

/* Callbacks read, apply and queue. Whatever has an order happens here, after each pass of libevent:
 * those who were woken, then the answers, and last the end of closed connections, so that nobody
 * above meets a freed one. A connection that gets room for its answers may go on with requests it
 * had to leave, so this goes round until nothing is left to send. Once there is a journal its
 * commit stands in front of each flush_all(): nothing is answered before it is kept. */
static void end_turn(struct server *s)
{
    struct conn *c;

    s->stats.turns++;
    do {
        struct wake *w;

        while ((w = store_next_ready(&s->store)) != NULL)
            resume(w);
        flush_all(s);
    } while (!STAILQ_EMPTY(&s->dirty) || !TAILQ_EMPTY(&s->store.ready));
    while ((c = TAILQ_FIRST(&s->closed)) != NULL)
        conn_free(c);
    arm_expiry(s);
    elastic_make_up(s); /* we may have stood still within the turn, too */
    if (s->draining && s->conn_count == 0)
        s->stop = true;
}

/* Those who were left over go on, each with one share of this turn. Whoever is left over again, or
 * is new, goes to the end of the list. */
static void go_on(struct server *s)
{
    struct conn *last = TAILQ_LAST(&s->again, conn_list), *c;

    while (last != NULL && (c = TAILQ_FIRST(&s->again)) != NULL) {
        conn_continue(c); /* closes no one else */
        if (c == last)
            break;
    }
}

int server_run(struct server *s)
{
    while (!s->stop) {
        int how = TAILQ_EMPTY(&s->again) ? EVLOOP_ONCE : EVLOOP_ONCE | EVLOOP_NONBLOCK;

        if (event_base_loop(s->base, how) < 0) {
            log_event(LOG_ERROR, "loop_failed");
            return 1;
        }
        go_on(s);
        end_turn(s);
    }
    log_event(LOG_INFO, "stopped", log_u64("connections", s->stats.accepted),
              log_u64("c10d_requests", s->stats.c10d_requests),
              log_u64("http_requests", s->stats.http_requests));
    return 0;
}

/* --- Beginning and end. --- */

static uint64_t random_seed(void)
{
    uint64_t seed = 0;

    if (getrandom(&seed, sizeof seed, 0) != (ssize_t)sizeof seed)
        seed = (uint64_t)
            server_now_ns(); /* an old kernel before its pool is ready: better than none */
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

static void add_timers(struct server *s)
{
    const struct timeval second = {.tv_sec = MS_A_TICK / 1000};

    evsignal_assign(&s->sigterm, s->base, SIGTERM, on_signal, s);
    evsignal_assign(&s->sigint, s->base, SIGINT, on_signal, s);
    event_assign(&s->tick, s->base, -1, EV_PERSIST, on_tick, s);
    evtimer_assign(&s->expiry, s->base, on_expiry, s);
    evtimer_assign(&s->drain, s->base, on_drained, s);
    evtimer_assign(&s->retry_accept, s->base, on_retry_accept, s);
    evsignal_add(&s->sigterm, NULL);
    evsignal_add(&s->sigint, NULL);
    event_add(&s->tick, &second);
}

int server_init(struct server *s, const struct config *config)
{
    const struct store_options options = {.seed = random_seed(),
                                          .space_bytes_max = config->limits.space_bytes_max};

    *s = (struct server){.config = config, .started_ns = server_now_ns()};
    TAILQ_INIT(&s->spaces);
    TAILQ_INIT(&s->listeners);
    TAILQ_INIT(&s->conns);
    TAILQ_INIT(&s->closed);
    TAILQ_INIT(&s->late);
    STAILQ_INIT(&s->dirty);
    TAILQ_INIT(&s->again);
    out_pool_init(&s->pool);
    store_init(&s->store, &options);
    etcd_ids(config, &s->member_id, &s->cluster_id);
    s->recv_buf = xcalloc(1, SERVER_RECV_SIZE);
    s->base = new_base();
    if (s->base == NULL) {
        log_event(LOG_ERROR, "loop_failed", log_str("reason", "libevent finds no way to poll"));
        return -1;
    }
    add_timers(s);
    return listen_open_all(s);
}

void server_fini(struct server *s)
{
    struct server_space *p;
    struct conn *c;

    while ((c = TAILQ_FIRST(&s->conns)) != NULL)
        conn_close(c, "the daemon stops");
    while ((c = STAILQ_FIRST(&s->dirty)) != NULL) {
        STAILQ_REMOVE_HEAD(&s->dirty, dirty);
        c->is_dirty = false;
    }
    while ((c = TAILQ_FIRST(&s->closed)) != NULL)
        conn_free(c);
    while ((p = TAILQ_FIRST(&s->spaces)) != NULL) {
        TAILQ_REMOVE(&s->spaces, p, entry);
        evtimer_del(&p->linger);
        elastic_space_fini(&p->elastic);
        runs_fini(&p->runs);
        free(p);
    }
    listen_free_all(s); /* after the runs, some of which have one of their own */
    if (s->base != NULL) {
        event_del(&s->sigterm);
        event_del(&s->sigint);
        event_base_free(s->base);
    }
    store_fini(&s->store);
    out_pool_fini(&s->pool);
    free(s->recv_buf);
    free(s->scratch);
}
