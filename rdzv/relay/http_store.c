/* Connections to the store that carry HTTP. See http_store.h for the contract. */
#include "rdzv/relay/http_store.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/relay.h"
#include "proto/tls/tls.h"
#include "rdzv/engine/log.h"
#include "rdzv/relay/hello.h"

#define IDLE_MAX 32u

/* A store that is there takes a connection, and welcomes it, within this time. */
#define DIAL_MS 5000u

/* The kept part of an answer that is incomplete: its head, or the framing of a chunk. */
#define REST_MAX (32u << 10)

#define EVENT_COST 2000u /* nanoseconds, see iteration.h */
#define BYTES_A_NS 4u

enum store_state { DIALING, SECURING, HELLO, OPEN };

struct store_conn {
    struct event event;
    SSL *tls;                      /* NULL: plain text */
    TAILQ_ENTRY(store_conn) entry; /* in idle or busy of its relay */
    struct relay_http *relay;
    struct store_user *user; /* NULL: idle */
    uint64_t since_ms;       /* when it was dialed; engine_lived_ms() */
    uint8_t *rest;           /* received bytes that are not passed on yet; of rest_len bytes */
    size_t rest_len;
    uint8_t state;
    uint8_t mask;  /* what libevent watches for */
    bool over_tls; /* the clients whose requests it brings speak TLS with us */
    bool writing;  /* the user has more to send */
    bool paused;
};

static int store_conn_fd(const struct store_conn *c)
{
    return event_get_fd(&c->event);
}

static void drop_rest(struct store_conn *c)
{
    account_free(ACCOUNT_INPUT, c->rest, c->rest_len);
    c->rest = NULL;
    c->rest_len = 0;
}

static void free_conn(struct store_conn *c)
{
    struct relay_http *h = c->relay;

    if (c->user == NULL && c->state == OPEN) {
        TAILQ_REMOVE(&h->idle, c, entry);
        h->idle_count--;
    } else {
        TAILQ_REMOVE(&h->busy, c, entry);
    }
    if (c->user != NULL)
        c->user->conn = NULL;
    drop_rest(c);
    event_del(&c->event);
    tls_free(c->tls);
    close(store_conn_fd(c));
    account_free(ACCOUNT_SESSIONS, c, sizeof *c);
}

static void store_conn_lose(struct store_conn *c, const char *why)
{
    struct store_user *user = c->user;

    free_conn(c);
    if (user != NULL)
        user->calls->lost(user, why);
}

/* False: the kernel cannot watch it; the caller ends it. */
static bool store_conn_watch(struct store_conn *c)
{
    bool shakes = c->state == SECURING, wants_write = shakes && tls_wants_write(c->tls);
    bool reading = c->state != DIALING && !c->paused && !wants_write;
    bool writing = c->state == DIALING || c->writing || wants_write;
    short mask = (short)((reading ? EV_READ : 0) | (writing ? EV_WRITE : 0));
    int fd = store_conn_fd(c);

    if (mask == c->mask)
        return true;
    event_del(&c->event);
    c->mask = 0;
    event_assign(&c->event, c->relay->options.net->base, fd, (short)(mask | EV_PERSIST),
                 event_get_callback(&c->event), c);
    if (mask != 0 && !net_add_event(&c->event, NULL))
        return false;
    c->mask = (uint8_t)mask;
    if (reading && !shakes && c->tls != NULL && tls_has_pending(c->tls))
        event_active(&c->event, EV_READ, 1);
    return true;
}

static void store_conn_watch_or_lose(struct store_conn *c)
{
    if (!store_conn_watch(c))
        store_conn_lose(c, "the kernel cannot watch the connection");
}

/* --- HELLO and WELCOME. --- */

static bool store_conn_hello(struct store_conn *c)
{
    const struct relay_http_options *o = &c->relay->options;
    Rdzv__RelayHello hello = RDZV__RELAY_HELLO__INIT;
    uint8_t bytes[HELLO_FRAME_MAX];
    size_t len;

    hello.space = hello_field(o->space);
    hello.name = hello_field(o->name);
    hello.http = true;
    hello.http_over_tls = c->over_tls;
    len = hello_write(bytes, &hello);
    return tls_or_send(c->tls, store_conn_fd(c), bytes, len) == (ssize_t)len;
}

/* What the store answers to HELLO. False: the connection is of no use. */
static bool read_welcome(struct store_conn *c, struct slice in, size_t *used)
{
    struct relay_frame frame;
    size_t size;
    enum parse_result result = relay_parse(in, &frame, &size);

    if (result != PARSE_DONE)
        return result == PARSE_MORE;
    if (frame.kind == RELAY_WELCOME) {
        *used = size;
        c->state = OPEN;
        return true;
    }
    if (frame.kind == RELAY_REFUSED)
        log_limited(LOG_WARN, "relay_http_refused", log_bytes("reason", frame.payload));
    return false;
}

/* --- Receiving. --- */

static void store_conn_release(struct store_conn *c)
{
    struct relay_http *h = c->relay;

    TAILQ_REMOVE(&h->busy, c, entry);
    TAILQ_INSERT_HEAD(&h->idle, c, entry);
    h->idle_count++;
    c->user->conn = NULL;
    c->user = NULL;
    c->writing = c->paused = false;
    if (!store_conn_watch(c))
        free_conn(c);
    else if (h->idle_count > IDLE_MAX)
        free_conn(TAILQ_LAST(&h->idle, store_conn_list)); /* the oldest */
}

/* Keeps the unused bytes for the next read. False: the rest is too long, or memory is short. */
static bool store_conn_keep_rest(struct store_conn *c, struct slice left)
{
    uint8_t *rest = NULL;

    if (left.len > REST_MAX)
        return false;
    if (left.len > 0) {
        rest = account_request(ACCOUNT_INPUT, ACCOUNT_SMALL, left.len);
        if (rest == NULL)
            return false;
        memcpy(rest, left.ptr, left.len);
    }
    drop_rest(c);
    c->rest = rest;
    c->rest_len = left.len;
    return true;
}

static void store_conn_show(struct store_conn *c, struct slice in)
{
    struct store_user *user = c->user;
    size_t used = 0;

    if (c->state == HELLO) {
        if (!read_welcome(c, in, &used) || !store_conn_keep_rest(c, slice_from(in, used)))
            store_conn_lose(c, "the store does not welcome this relay");
        else if (c->state == OPEN)
            user->calls->ready(user);
        return;
    }
    if (user == NULL) { /* it has nothing to say */
        free_conn(c);
        return;
    }
    switch (user->calls->receive(user, in, &used)) {
    case STORE_TAKES_NEXT:
        if (used == in.len) {
            drop_rest(c);
            store_conn_release(c);
        } else {
            free_conn(c);
        }
        break;
    case STORE_TAKES_NONE:
        free_conn(c);
        break;
    case STORE_IS_LEFT: /* the user may have another one by now */
        break;
    default:
        if (!store_conn_keep_rest(c, slice_from(in, used)))
            store_conn_lose(c, "no memory for an answer, see --memory-limit");
    }
}

static void store_conn_receive(struct store_conn *c)
{
    struct net *n = c->relay->options.net;
    size_t before = c->rest_len;
    ssize_t got;

    if (c->user != NULL && c->state == OPEN && !c->user->calls->has_room(c->user)) {
        c->paused = true;
        store_conn_watch_or_lose(c);
        return;
    }
    if (before > 0)
        memcpy(n->recv_buf, c->rest, before);
    got = tls_or_recv(c->tls, store_conn_fd(c), n->recv_buf + before, NET_RECV_SIZE - before);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0) {
        store_conn_lose(c, got == 0 ? "the store has closed the connection" : strerror(errno));
        return;
    }
    net_spend(n, (uint64_t)got / BYTES_A_NS);
    if (c->tls != NULL && tls_has_pending(c->tls))
        event_active(&c->event, EV_READ, 1); /* unless it ends with these */
    store_conn_show(c, (struct slice){n->recv_buf, before + (size_t)got});
}

/* --- Dialing and sending. --- */

static void store_conn_go_on_connecting(struct store_conn *c)
{
    const struct relay_http_options *o = &c->relay->options;
    char why[TLS_WHY_MAX];
    int error = o->secure(o->arg, store_conn_fd(c), &c->tls);

    if (c->tls != NULL)
        c->state = SECURING;
    if (error == 0) {
        c->state = HELLO;
        if (!store_conn_hello(c) || !store_conn_watch(c))
            store_conn_lose(c, "the store does not take the HELLO frame");
    } else if (error == -EAGAIN) {
        store_conn_watch_or_lose(c);
    } else if (error == -ENOMEM) {
        store_conn_lose(c, "no memory for TLS, see --memory-limit");
    } else {
        store_conn_lose(c, c->tls == NULL ? strerror(-error) : tls_why(c->tls, why));
    }
}

static void store_conn_on_event(evutil_socket_t, short what, void *arg)
{
    struct store_conn *c = arg;

    net_spend(c->relay->options.net, EVENT_COST);
    if (c->state == DIALING || c->state == SECURING) {
        store_conn_go_on_connecting(c);
    } else if (what & EV_READ) {
        store_conn_receive(c); /* what else there is comes again */
    } else if (what & EV_WRITE && c->user != NULL) {
        c->writing = false;
        if (!store_conn_watch(c))
            store_conn_lose(c, "the kernel cannot watch the connection");
        else
            c->user->calls->writable(c->user);
    }
}

static struct store_conn *new_conn(struct relay_http *h, bool over_tls)
{
    struct store_conn *c = account_request_zeroed(ACCOUNT_SESSIONS, ACCOUNT_SMALL, sizeof *c);
    int fd = c == NULL ? -1 : h->options.dial(h->options.arg);

    if (fd < 0) {
        account_free(ACCOUNT_SESSIONS, c, sizeof *c);
        return NULL;
    }
    c->relay = h;
    c->over_tls = over_tls;
    c->since_ms = engine_lived_ms(h->options.net->engine);
    event_assign(&c->event, h->options.net->base, fd, EV_WRITE | EV_PERSIST, store_conn_on_event,
                 c);
    TAILQ_INSERT_TAIL(&h->busy, c, entry);
    if (store_conn_watch(c))
        return c;
    free_conn(c);
    return NULL;
}

/* The store may have gone a moment ago, and libevent may not have said so yet. */
static bool is_alive(const struct store_conn *c)
{
    uint8_t byte;

    return recv(store_conn_fd(c), &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

static struct store_conn *take_idle(struct relay_http *h, bool over_tls)
{
    TAILQ_EACH_SAFE(struct store_conn, c, &h->idle, entry) {
        if (c->over_tls != over_tls)
            continue;
        if (!is_alive(c)) {
            free_conn(c);
            continue;
        }
        TAILQ_REMOVE(&h->idle, c, entry);
        TAILQ_INSERT_TAIL(&h->busy, c, entry);
        h->idle_count--;
        return c;
    }
    return NULL;
}

enum store_got store_conn_get(struct relay_http *h, struct store_user *u, bool over_tls)
{
    struct store_conn *c = take_idle(h, over_tls);
    enum store_got got = STORE_GOT_OPEN;

    if (c == NULL) {
        c = new_conn(h, over_tls);
        got = STORE_GOT_DIALED;
        relay_http_set_timer(h);
    }
    if (c == NULL)
        return STORE_GOT_NONE;
    c->user = u;
    u->conn = c;
    return got;
}

bool store_conn_send(struct store_user *u, struct slice bytes, size_t *sent)
{
    struct store_conn *c = u->conn;
    ssize_t n = 0;

    *sent = 0;
    while (n >= 0 && *sent < bytes.len) {
        n = tls_or_send(c->tls, store_conn_fd(c), bytes.ptr + *sent, bytes.len - *sent);
        *sent += n > 0 ? (size_t)n : 0;
    }
    c->writing = *sent < bytes.len;
    if ((n >= 0 || errno == EAGAIN || errno == EINTR) && store_conn_watch(c))
        return true;
    free_conn(c);
    return false;
}

void store_conn_send_end(struct store_user *u)
{
    if (u->conn->tls != NULL)
        tls_end(u->conn->tls);
    shutdown(store_conn_fd(u->conn), SHUT_WR);
}

void store_conn_unpause(struct store_user *u)
{
    struct store_conn *c = u->conn;

    if (c == NULL || !c->paused)
        return;
    c->paused = false;
    store_conn_watch_or_lose(c);
}

void store_conn_drop(struct store_user *u)
{
    if (u->conn != NULL)
        free_conn(u->conn);
}

bool store_conn_tick(struct relay_http *h)
{
    uint64_t now = engine_lived_ms(h->options.net->engine);
    bool some = false;

    /* A user that loses its connection waits, and dials no other. */
    TAILQ_EACH_SAFE(struct store_conn, c, &h->busy, entry) {
        if (c->state == OPEN)
            continue;
        if (clock_elapsed_ms(c->since_ms, now) >= DIAL_MS)
            store_conn_lose(c, "the store does not answer");
        else
            some = true;
    }
    return some;
}

void store_conn_lose_all(struct relay_http *h)
{
    while (!TAILQ_EMPTY(&h->idle))
        free_conn(TAILQ_FIRST(&h->idle));
    TAILQ_EACH_SAFE(struct store_conn, c, &h->busy, entry) {
        if (c->user != NULL && c->user->calls->may_lose(c->user))
            store_conn_lose(c, "the store has gone");
    }
}
