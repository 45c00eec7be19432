/* One connection: its states, its end, and its output queue. See conn.h for the contract. */
#include "rdzv/net/conn.h"

#include <assert.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/tls/tls.h"
#include "rdzv/engine/log.h"
#include "rdzv/net/refusal.h"

/* A connection may queue this much even if memory is short. */
#define OUTPUT_ALWAYS (64u << 10)

const char *conn_peer(const struct conn *c, char text[CONN_PEER_MAX])
{
    size_t len;

    peer_text(&c->peer, text);
    len = strlen(text);
    if (c->backend != NULL && c->backend->via != NULL)
        snprintf(text + len, CONN_PEER_MAX - len, " via %s", (const char *)c->backend->via->bytes);
    return text;
}

const char *conn_protocol(const struct conn *c)
{
    if (c->protocol == NULL)
        return "none";
    return c->protocol->version == NULL ? c->protocol->name : c->protocol->version(c);
}

uint64_t conn_silent_ms(const struct conn *c)
{
    struct tcp_info info;
    socklen_t size = sizeof info;

    if (c->backend != NULL || getsockopt(c->fd, IPPROTO_TCP, TCP_INFO, &info, &size) < 0)
        return UINT64_MAX;
    return info.tcpi_last_data_recv;
}

/* --- States. --- */

void conn_set_input(struct conn *c, enum conn_input next)
{
    struct net *n = conn_net(c);
    struct conn_list *list = c->slow ? &n->slow : &n->deferred;

    if (c->is_held && next != INPUT_PARKED) {
        TAILQ_REMOVE(&n->held, c, deferred);
        c->is_held = false;
    }
    if (c->input == next)
        return;
    if (next == INPUT_DEFERRED) {
        conn_set_unread(c, false); /* input_run_deferred() looks for that again */
        TAILQ_INSERT_TAIL(list, c, deferred);
        n->deferred_count++;
    } else if (c->input == INPUT_DEFERRED) {
        TAILQ_REMOVE(list, c, deferred);
        n->deferred_count--;
        c->slow = false;
    }
    c->input = (uint8_t)next;
}

void conn_set_unread(struct conn *c, bool unread)
{
    struct conn_list *list = &conn_net(c)->unread;

    if (unread && !c->unread)
        TAILQ_INSERT_TAIL(list, c, deferred);
    else if (!unread && c->unread)
        TAILQ_REMOVE(list, c, deferred);
    c->unread = unread;
}

void conn_hold(struct conn *c)
{
    if (!c->is_held)
        TAILQ_INSERT_TAIL(&conn_net(c)->held, c, deferred);
    c->is_held = true;
}

void conn_set_end(struct conn *c, enum conn_end next)
{
    static const unsigned legal[] = {
        [CONN_OPEN] = 1u << CONN_PEER_ENDED | 1u << CONN_FINISHING | 1u << CONN_DRAINING |
                      1u << CONN_DROPPING | 1u << CONN_CLOSED,
        [CONN_PEER_ENDED] = 1u << CONN_FINISHING | 1u << CONN_DROPPING | 1u << CONN_CLOSED,
        [CONN_FINISHING] = 1u << CONN_CLOSED,
        [CONN_DRAINING] = 1u << CONN_FINISHING | 1u << CONN_CLOSED,
        [CONN_DROPPING] = 1u << CONN_CLOSED,
        [CONN_CLOSED] = 0, /* the only way out is conn_free() */
    };

    assert(legal[c->end] & 1u << next);
    c->end = (uint8_t)next;
}

static bool is_reading(const struct conn *c)
{
    return c->end == CONN_DRAINING || (c->end == CONN_OPEN && c->input != INPUT_PAUSED &&
                                       c->input != INPUT_DEFERRED && c->input != INPUT_HELD);
}

/* False after it logged why: as before. */
static bool conn_watch(struct conn *c, unsigned mask)
{
    if (!socket_set_watch(&c->listener->sockets, c->fd, c->mask, mask, c))
        return net_note_unwatched();
    c->mask = (uint8_t)mask;
    return true;
}

static void conn_watch_or_close(struct conn *c, unsigned mask)
{
    if (!conn_watch(c, mask))
        conn_close(c, "the kernel cannot watch the connection");
}

void conn_watch_again(struct conn *c)
{
    conn_watch_or_close(c, c->mask);
}

void conn_update_events(struct conn *c)
{
    unsigned mask = (is_reading(c) ? EPOLLIN : 0u) | (c->output == OUTPUT_BLOCKED ? EPOLLOUT : 0u);

    if (c->end == CONN_CLOSED || mask == c->mask || conn_is_relayed(c))
        return;
    conn_watch_or_close(c, mask);
    if (c->tls != NULL && c->end != CONN_CLOSED)
        conn_set_unread(c, (mask & EPOLLIN) != 0 && tls_has_pending(c->tls));
}

static void end_stall(struct conn *c)
{
    if (conn_is_relayed(c) || c->stalled_ms == 0)
        return;
    TAILQ_REMOVE(&conn_net(c)->stalled, c, stalled);
    c->stalled_ms = 0;
}

void conn_update_stall(struct conn *c, bool moved)
{
    bool half = c->end == CONN_DRAINING || c->input == INPUT_SKIPPING ||
                (c->in != NULL && c->input == INPUT_READY);
    bool stalls = half || c->output == OUTPUT_BLOCKED;

    if (moved || !stalls)
        end_stall(c);
    if (!stalls || conn_is_relayed(c) || c->stalled_ms != 0) /* its backend is, then */
        return;
    c->stalled_ms = engine_lived_ms(conn_net(c)->engine);
    TAILQ_INSERT_TAIL(&conn_net(c)->stalled, c, stalled);
}

/* --- Beginning and end. --- */

static void conn_add(struct conn *c, struct listener *listener, struct engine_space *space,
                     const struct peer *peer)
{
    struct net *n = listener->net;

    c->listener = listener;
    listener->conns++;
    c->space = space;
    c->peer = *peer;
    outq_init(&c->out);
    TAILQ_INSERT_TAIL(&n->conns, c, entry);
    n->conn_count++;
    n->engine->stats.accepted++;
}

struct conn *conn_new(struct listener *listener, int fd, const struct sockaddr *peer)
{
    struct net *n = listener->net;
    const struct peer from = peer_of(peer);
    struct conn *c = account_request_zeroed(
        ACCOUNT_SESSIONS, peer_is_loopback(&from) ? ACCOUNT_WATCHING : ACCOUNT_SMALL, sizeof *c);

    if (c == NULL) {
        refusal_note(&n->engine->stats, REFUSAL_MEMORY, &from, (struct slice){0});
        close(fd);
        return NULL;
    }
    c->fd = fd;
    c->listener = listener;
    if (!conn_watch(c, EPOLLIN)) {
        account_free(ACCOUNT_SESSIONS, c, sizeof *c);
        close(fd);
        return NULL;
    }
    c->wire = n->handshakes.certificate.context == NULL ? WIRE_KNOWN : WIRE_UNKNOWN;
    conn_add(c, listener, listener->space, &from);
    return c;
}

void conn_init_relayed(struct conn *c, struct listener *listener, struct engine_space *space,
                       const struct peer *peer, const struct conn_backend *backend)
{
    c->fd = -1;
    c->backend = backend;
    conn_add(c, listener, space, peer);
}

bool conn_local(const struct conn *c, struct peer *out)
{
    if (!conn_is_relayed(c))
        return peer_local(c->fd, out);
    *out = c->backend->functions->local(c);
    return !peer_is_unix(out);
}

/* The first reason that is given is the one. */
static void end_session(struct conn *c, const char *reason)
{
    if (c->protocol != NULL && c->protocol->end != NULL)
        c->protocol->end(c);
    if (c->protocol != NULL && conn_is_relayed(c))
        c->session.reason = reason;
    c->protocol = NULL;
}

static void leave_probation(struct conn *c)
{
    struct net *n = conn_net(c);
    size_t at = 0;

    while (n->probation[at] != c)
        at++;
    n->probation_count--;
    memmove(&n->probation[at], &n->probation[at + 1],
            (n->probation_count - at) * sizeof n->probation[0]);
}

static void close_now(struct conn *c, const char *reason)
{
    struct net *n = conn_net(c);

    end_session(c, reason);
    end_stall(c);
    if (c->probation != PROBATION_NONE)
        leave_probation(c);
    conn_set_input(c, INPUT_READY);
    conn_set_output(c, OUTPUT_IDLE);
    if (!conn_is_relayed(c))
        conn_watch(c, 0);
    conn_set_unread(c, false);
    conn_set_end(c, CONN_CLOSED);
    TAILQ_REMOVE(&n->conns, c, entry);
    TAILQ_INSERT_TAIL(&n->closed, c, entry);
    n->engine->stats.closed++;
    if (conn_is_relayed(c))
        c->backend->functions->closed(c);
}

void conn_close(struct conn *c, const char *reason)
{
    if (c->end == CONN_CLOSED)
        return;
    if (c->protocol != NULL || c->in != NULL)
        log_event(LOG_DEBUG, "closed", log_str("peer", CONN_PEER(c)),
                  log_str("protocol", conn_protocol(c)), log_str("reason", reason));
    close_now(c, reason);
}

static void report_drop(struct conn *c, enum drop_reason why, const char *reason,
                        struct slice detail)
{
    log_limited(LOG_WARN, "dropped", log_str("peer", CONN_PEER(c)),
                log_str("protocol", conn_protocol(c)), log_str("space", conn_space(c)->store->name),
                log_str("reason", reason), log_if(detail.len != 0, log_bytes("detail", detail)));
    conn_net(c)->engine->stats.dropped[why]++;
    if (c->protocol != NULL)
        c->was_dropped = why != DROP_RUN;
}

void conn_fail(struct conn *c, int error)
{
    char why[TLS_WHY_MAX];

    c->peer_left = c->peer_left || error == ECONNRESET || error == EPIPE;
    if (error != EPROTO || c->tls == NULL || c->end == CONN_CLOSED) {
        conn_close(c, strerror(error));
        return;
    }
    /* TLS cannot go on after an alert or a record of no use; nothing can be sent any more. */
    report_drop(c, DROP_MALFORMED, "TLS has failed", slice_str(tls_why(c->tls, why)));
    close_now(c, "TLS has failed");
}

void conn_drop(struct conn *c, enum drop_reason why, const char *reason, struct slice detail)
{
    bool answers = conn_is_open(c) && c->out.bytes > 0 && c->output != OUTPUT_BLOCKED;

    if (c->end == CONN_CLOSED)
        return;
    report_drop(c, why, reason, detail);
    if (!answers) {
        close_now(c, reason);
        return;
    }
    /* The requests before the refused one have taken effect, so their answers are sent, once. */
    end_session(c, reason);
    end_stall(c);
    conn_set_end(c, CONN_DROPPING);
    conn_update_events(c);
}

void conn_fail_probation(struct conn *c)
{
    c->probation = PROBATION_OVER;
    refusal_note(&conn_net(c)->engine->stats, (enum refusal_reason)c->short_of, &c->peer,
                 (struct slice){0});
}

void conn_begin_probation(struct conn *c, enum refusal_reason why)
{
    struct net *n = conn_net(c);

    if (n->probation_count == NET_PROBATION_MAX) {
        struct conn *oldest = n->probation[0];

        if (oldest->probation == PROBATION_OPEN)
            conn_fail_probation(oldest);
        conn_close(oldest, "connections or descriptors are short");
        conn_free(oldest); /* the next one needs its descriptor now */
    }
    c->probation = PROBATION_OPEN;
    _Static_assert(REFUSAL_REASONS <= 16, "short_of has four bits");
    c->short_of = why & 15u;
    n->probation[n->probation_count++] = c;
}

/* A connection whose answer did not fit ends with the iteration, and not within the request that
 * makes the answer. */
inline void conn_flush_later(struct conn *c)
{
    if (c->output == OUTPUT_IDLE || c->out.broken)
        conn_set_output(c, OUTPUT_QUEUED);
}

void conn_finish(struct conn *c)
{
    if (!conn_is_open(c))
        return;
    conn_set_end(c, CONN_FINISHING);
    conn_flush_later(c); /* the end of the iteration sends the rest, or closes at once */
    conn_update_events(c);
}

void conn_finish_draining(struct conn *c)
{
    if (c->end == CONN_OPEN && c->probation == PROBATION_NONE) {
        conn_set_end(c, CONN_DRAINING);
        conn_flush_later(c);
    } else {
        conn_finish(c);
    }
}

void conn_free(struct conn *c)
{
    struct net *n = conn_net(c);

    assert(c->end == CONN_CLOSED);
    TAILQ_REMOVE(&n->closed, c, entry);
    n->conn_count--;
    outq_fini(&c->out, &n->pool);
    inbuf_free(&c->in, &n->engine->store.lazy_free);
    if (!conn_is_relayed(c)) {
        tls_free(c->tls);
        close(c->fd);
    }
    listen_conn_gone(c->listener);
    if (conn_is_relayed(c))
        c->backend->functions->freed(c);
    else
        account_free(ACCOUNT_SESSIONS, c, sizeof *c);
}

/* --- Output. --- */

inline void conn_note_output(struct conn *c)
{
    conn_flush_later(c);
    c->watermark = engine_watermark(conn_net(c)->engine);
}

void conn_forget_bytes(struct conn *c)
{
    struct net *n = conn_net(c);

    outq_fini(&c->out, &n->pool);
    inbuf_free(&c->in, &n->engine->store.lazy_free);
    conn_set_input(c, INPUT_READY);
    conn_set_output(c, OUTPUT_IDLE);
}

void conn_put(struct conn *c, const void *bytes, size_t len)
{
    outq_put(&c->out, &conn_net(c)->pool, bytes, len);
    conn_note_output(c);
}

uint8_t *conn_reserve(struct conn *c, size_t len)
{
    uint8_t *at = outq_reserve(&c->out, &conn_net(c)->pool, len);

    conn_note_output(c);
    return at;
}

void conn_put_part(struct conn *c, struct blob *b, struct slice bytes)
{
    outq_put_part(&c->out, &conn_net(c)->pool, b, bytes);
    conn_note_output(c);
}

void conn_share(struct conn *c, struct blob *b)
{
    outq_share(&c->out, &conn_net(c)->pool, b);
    conn_note_output(c);
}

void conn_share_counted(struct conn *c, struct blob *b)
{
    outq_share_counted(&c->out, &conn_net(c)->pool, b);
    conn_note_output(c);
}

bool conn_can_reply_more(const struct conn *c)
{
    return !c->out.broken && c->out.bytes <= conn_net(c)->limits->output_max &&
           (c->out.bytes <= OUTPUT_ALWAYS || !account_is_short());
}

bool conn_has_room(const struct conn *c, size_t len)
{
    size_t max = conn_net(c)->limits->output_max;

    return c->out.bytes == 0 || (c->out.bytes <= max && len <= max - c->out.bytes);
}

bool conn_can_push(struct conn *c)
{
    if (conn_can_reply(c))
        return true;
    if (c->out.broken)
        CONN_DROP_FOR_MEMORY(c, "its answers");
    else
        conn_drop(c, DROP_STALLED, "does not read its answers, the output limit is reached",
                  (struct slice){0});
    return false;
}

/* --- The memory of half a request. --- */

/* A request of this length gets pages of its own, once so many bytes of it have come. */
#define PAGES_FROM  (1u << 20)
#define PAGES_EARLY (128u << 10)
#define PAGE        4096u

void inbuf_free(struct input **in, struct lazy_free *g)
{
    size_t size = *in == NULL ? 0 : inbuf_size((*in)->cap);

    if (*in != NULL && (*in)->paged)
        lazy_free_pages(g, ACCOUNT_INPUT, *in, size);
    else
        account_free(ACCOUNT_INPUT, *in, size);
    *in = NULL;
}

/* Between the heap and pages of its own. */
static struct input *inbuf_move(struct input *old, struct lazy_free *g, enum account_class class,
                                size_t size)
{
    struct input *in = old->paged ? account_request(ACCOUNT_INPUT, class, size)
                                  : account_request_pages(ACCOUNT_INPUT, size);

    if (in == NULL)
        return NULL;
    memcpy(in, old, inbuf_size(old->len));
    in->paged = !old->paged;
    inbuf_free(&old, g);
    return in;
}

bool inbuf_resize(struct input **in, struct lazy_free *g, enum account_class class, size_t cap)
{
    size_t size = inbuf_size(cap), before = inbuf_size((*in)->cap);
    bool paged = size >= ((*in)->need < PAGES_FROM ? PAGES_FROM : PAGES_EARLY);
    struct input *moved;

    if (paged)
        size = (size + PAGE - 1) / PAGE * PAGE;
    if (paged != (*in)->paged)
        moved = inbuf_move(*in, g, class, size);
    else if (paged)
        moved = account_resize_pages(ACCOUNT_INPUT, *in, before, size);
    else if (size > before)
        moved = account_resize(ACCOUNT_INPUT, class, *in, before, size);
    else
        moved = account_realloc(ACCOUNT_INPUT, *in, before, size);
    if (moved == NULL)
        return false;
    moved->cap = size - inbuf_size(0);
    *in = moved;
    return true;
}

/* --- Budget. --- */

void conn_wait_for_slice(struct conn *c)
{
    c->slow = true;
}

bool conn_begin_slice(struct conn *c)
{
    struct net *n = conn_net(c);

    if (n->measured == c)
        return true;
    if (budget_slow_is_over(&n->budget) || (n->slice_owner != c && !TAILQ_EMPTY(&n->slow))) {
        conn_wait_for_slice(c);
        return false;
    }
    n->measured = c;
    budget_measure(&n->budget);
    return true;
}

void conn_end_slice(struct conn *c)
{
    struct net *n = conn_net(c);

    if (n->measured != c)
        return;
    n->measured = NULL;
    conn_add_charge(c, budget_measured(&n->budget));
}
