/* Between libevent and connections. See transport.h for the contract. */
#include "rdzv/net/transport.h"

#include <errno.h>

#include "rdzv/net/conn.h"
#include "rdzv/net/handshake.h"
#include "rdzv/net/input.h"
#include "rdzv/net/listen.h"
#include "rdzv/net/tls.h"

/* Nanoseconds, see iteration.h. */
#define RECEIVE_COST 1000u
#define RESUME_COST  300u
#define SEND_COST    2500u  /* and 1 a byte: it may be that much, when the kernel needs pages */
#define TELL_COST    10000u /* beside that: who does not read may take ten times as long */
#define CLOSE_COST   5000u
#define FREE_COST    200u

/* A connection with a longer queue waits until all shorter queues are sent. */
#define BULK_FROM (64u << 10)

/* The most bytes that long queues together send in an iteration, and one of them in a row. */
#define BULK_SENT_MAX (16u << 20)
#define BULK_TURN     (256u << 10)

/* Freeing this many values of a closed connection's queue costs as much as closing a connection. */
#define DROPPED_AT_A_TIME 8

/* So many things are freed before the next look at the time. */
#define FREED_AT_A_TIME 64

/* Returning the pages of freed bytes to the kernel takes time, too. */
#define FREED_BYTES_A_NS 8u

/* Notices are sent after this many clients have been woken. */
#define WAKES_AT_A_TIME 64

/* An event comes once. So the kernel is asked again unless recv() has shown that the socket is
 * empty: in a handshake, which OpenSSL reads, and if the peer's end stands behind the bytes. */
static bool conn_serve(void *owner, unsigned events)
{
    struct conn *c = owner;
    struct net *n = conn_net(c);
    unsigned what = events & c->mask;

    c->drained = (what & EPOLLIN) == 0;
    net_spend(n, RECEIVE_COST);
    if (c->wire == WIRE_KNOWN && what & EPOLLOUT && c->output == OUTPUT_BLOCKED)
        conn_set_output(c, OUTPUT_PUSH);
    if (c->wire == WIRE_KNOWN ? (what & EPOLLIN) != 0 : what != 0 && handshake_run(c))
        input_receive(c);
    if (!c->drained || events & EPOLLRDHUP || c->wire != WIRE_KNOWN)
        conn_watch_again(c);
    return !n->budget.over;
}

/* In a time of their own, as they are no part of libevent's turns; each at most once, since a
 * connection may be there again afterwards. */
static void serve_unread(struct net *n)
{
    struct conn *last = TAILQ_LAST(&n->unread, conn_list), *c = NULL;

    if (last != NULL)
        budget_begin_part(&n->budget, BUDGET_SMALL_NS);
    while (c != last && !n->budget.over && (c = TAILQ_FIRST(&n->unread)) != NULL) {
        conn_set_unread(c, false);
        conn_serve(c, EPOLLIN);
    }
}

void transport_end_reading(struct net *n)
{
    sockets_go_on(&n->sockets);
    n->cut_off = n->budget.over ? n->cut_off + 1 : 0;
    serve_unread(n);
}

/* --- Sending. --- */

/* Handles a socket that took only some of the bytes, and a connection that is about to end. */
static void after_send(struct conn *c, bool blocked, bool moved)
{
    if (!blocked && c->end == CONN_DRAINING) {
        if (c->tls != NULL)
            tls_end(c->tls);
        shutdown(c->fd, SHUT_WR);
    }
    if (blocked)
        conn_set_output(c, OUTPUT_BLOCKED);
    conn_update_stall(c, moved);
    if (!blocked && c->protocol != NULL && c->protocol->drained != NULL)
        c->protocol->drained(c);
    if (c->input == INPUT_PAUSED && conn_is_open(c))
        input_unpause(c);
    if (c->end == CONN_PEER_ENDED && c->input != INPUT_PAUSED && c->input != INPUT_DEFERRED)
        input_on_eof(c); /* the end came behind waiting requests, which have been executed now */
    conn_update_events(c);
}

/* Ends a flush that left output in the queue, or whose connection is finishing or dropping. */
static void end_flush(struct conn *c, int err, bool moved)
{
    if ((err < 0 && err != -EAGAIN) || (err == -EAGAIN && c->end == CONN_DROPPING)) {
        conn_fail(c, -err);
    } else if (err == 0 && c->out.bytes > 0) {
        conn_set_output(c, OUTPUT_BULK); /* the socket takes more: continue in turn */
        conn_update_stall(c, true);
    } else if (err == 0 && (c->end == CONN_FINISHING || c->end == CONN_DROPPING)) {
        conn_close(c, "done");
    } else {
        after_send(c, err == -EAGAIN, moved);
    }
}

/* Sends about `max` bytes. */
static void conn_flush(struct conn *c, size_t max)
{
    struct net *n = conn_net(c);
    size_t before = c->out.bytes;
    int err;

    budget_spend(&n->budget, SEND_COST + (before < max ? before : max));
    conn_set_output(c, OUTPUT_IDLE);
    err = c->backend == NULL ? conn_send(c, max) : c->backend->functions->send(c, max);
    if (err != 0 || c->out.bytes > 0 || c->end != CONN_OPEN || c->input == INPUT_PAUSED ||
        c->mask & EPOLLOUT)
        end_flush(c, err, c->out.bytes != before);
}

/* True if the output must wait, for its commit or for shorter queues, or if memory was short and
 * the connection therefore ends. */
static bool set_aside(struct conn *c)
{
    if (c->out.broken && c->end != CONN_DROPPING) {
        CONN_DROP_FOR_MEMORY(c, "its answers");
        return true;
    }
    if (c->out.bytes == 0 && !conn_is_relayed(c)) /* a backend may have more to tell than bytes */
        return false;
    if (!engine_is_committed(conn_net(c)->engine, c->watermark)) {
        c->was_push = c->output == OUTPUT_PUSH;
        conn_set_output(c, OUTPUT_UNCOMMITTED);
    } else if (c->output != OUTPUT_BULK && c->out.bytes > BULK_FROM) {
        conn_set_output(c, OUTPUT_BULK);
    } else {
        return false;
    }
    return true;
}

/* Sends the short queues of a list; each costs `cost` beside the sending. Room in its queue may let
 * a connection resume a waiting request, and so enter the list again; the changes of that request
 * are not committed yet. Each answer passes here, and pays for no call and no `cost` of 0. */
static inline __attribute__((always_inline)) void flush_list(struct net *n, struct conn_list *list,
                                                             uint64_t cost)
{
    struct conn *c;

    while (!n->budget.over && (c = TAILQ_FIRST(list)) != NULL) {
        if (set_aside(c))
            continue;
        budget_spend(&n->budget, cost);
        conn_flush(c, BULK_FROM);
    }
}

/* Round robin: a connection with more than BULK_TURN bytes goes to the end of the list. */
static void flush_bulk(struct net *n)
{
    size_t left = BULK_SENT_MAX;
    struct conn *c;

    while (left > 0 && !n->budget.over && (c = TAILQ_FIRST(&n->bulk)) != NULL) {
        size_t before = c->out.bytes, sent;

        if (set_aside(c))
            continue;
        conn_flush(c, left < BULK_TURN ? left : BULK_TURN);
        sent = c->out.bytes < before ? before - c->out.bytes : 0;
        left -= sent < left ? sent : left;
    }
}

/* Thousands may wait for a slow disk: each progress of the commit checks them once. */
static void queue_committed(struct net *n)
{
    if (n->committed == n->engine->committed)
        return;
    n->committed = n->engine->committed;
    TAILQ_EACH_SAFE(struct conn, c, &n->uncommitted, queued) {
        if (engine_is_committed(n->engine, c->watermark))
            conn_set_output(c, c->was_push ? OUTPUT_PUSH : OUTPUT_QUEUED);
    }
}

/* --- Those who do not go on. --- */

static const char *why_stalled(const struct conn *c)
{
    if (c->output == OUTPUT_BLOCKED)
        return "does not read its answers";
    return c->end == CONN_DRAINING ? "has not closed after its last answer"
                                   : "half a request for too long, see --request-timeout";
}

/* True if bytes arrived or the socket has room, which libevent may not have reported yet. */
static bool note_progress(struct conn *c)
{
    uint64_t since = c->stalled_ms;

    engine_vouch(conn_net(c)->engine);
    if (c->out.bytes > 0 && engine_is_committed(conn_net(c)->engine, c->watermark))
        conn_flush(c, BULK_FROM);
    if (c->stalled_ms == since && c->mask & EPOLLIN)
        input_receive(c);
    return c->stalled_ms != since;
}

static void drop_stalled(struct net *n)
{
    struct conn *c;

    budget_begin_part(&n->budget, BUDGET_SMALL_NS);
    while ((c = TAILQ_FIRST(&n->stalled)) != NULL && c->stalled_ms <= n->stalled_until_ms) {
        if (n->budget.over)
            return;
        budget_spend(&n->budget, RECEIVE_COST + CLOSE_COST);
        if (!note_progress(c))
            conn_drop(c, DROP_STALLED, why_stalled(c), (struct slice){0});
    }
    n->stalled_until_ms = 0;
}

/* --- Memory. --- */

/* A connection that holds less than that is left alone. */
#define HELD_MIN 4096u

/* What ends with the connection. */
static size_t held_bytes(const struct conn *c)
{
    return c->out.bytes + (c->in == NULL ? 0 : c->in->cap);
}

static size_t most_held(const struct net *n)
{
    size_t most = 0;

    TAILQ_EACH(const struct conn, c, &n->stalled, stalled)
        most = held_bytes(c) > most ? held_bytes(c) : most;
    return most;
}

/* When less than a sixteenth of the memory limit is free, drops the connections that hold most
 * memory and do not move: peers that do not read their answers, and peers that have sent half of a
 * large request. Otherwise all other clients would lack this memory until --request-timeout. Stops
 * when an eighth is free. */
static void drop_holders(struct net *n)
{
    size_t wanted = account.limit / 8, freed = 0, most;
    struct conn *c, *next;

    if (store_spare_history(&n->engine->store))
        return;
    most = most_held(n);
    if (most < HELD_MIN)
        return;
    budget_begin_part(&n->budget, BUDGET_SMALL_NS);
    for (c = TAILQ_FIRST(&n->stalled); c != NULL && freed < wanted && !n->budget.over; c = next) {
        next = TAILQ_NEXT(c, stalled);
        if (held_bytes(c) <= most / 2)
            continue;
        freed += held_bytes(c);
        budget_spend(&n->budget, CLOSE_COST);
        conn_drop(c, DROP_NO_MEMORY,
                  c->output == OUTPUT_BLOCKED
                      ? "does not read its answers, and memory is short, see --memory-limit"
                      : "half a request, and memory is short, see --memory-limit",
                  (struct slice){0});
    }
}

/* --- Accepting. --- */

/* Most have asked by now. Those are answered and gone before the next one is accepted, which needs
 * the descriptor. */
static void serve_at_once(struct conn *c)
{
    if (c->wire == WIRE_KNOWN || handshake_run(c))
        input_receive(c);
    engine_vouch(conn_net(c)->engine);
    if (c->output == OUTPUT_QUEUED && engine_is_committed(conn_net(c)->engine, c->watermark))
        conn_flush(c, BULK_TURN);
    if (c->end == CONN_CLOSED)
        conn_free(c);
}

static void on_accepted(struct listener *l, int fd, const struct sockaddr *peer,
                        enum admission admission, enum refusal_reason why)
{
    struct conn *c = conn_new(l, fd, peer);

    if (c == NULL || admission == ADMISSION_FULL)
        return;
    conn_begin_probation(c, why);
    serve_at_once(c);
}

int transport_start(struct net *n, const struct config *config)
{
    n->allowed = &config->allowed;
    sockets_init(&n->sockets, conn_serve);
    if (handshakes_start(n, &config->tls) < 0)
        return -1;
    return listen_open_all(n, config, on_accepted);
}

/* --- The iteration. --- */

static void wake_some(struct net *n)
{
    struct wake *w;

    for (int i = 0; i < WAKES_AT_A_TIME && !n->budget.over; i++) {
        struct conn *c;
        bool idle;

        w = store_next_ready(&n->engine->store);
        if (w == NULL)
            return;
        c = w->owner;
        idle = c->output == OUTPUT_IDLE;
        c->protocol->resume(c, w);
        if (idle && c->output == OUTPUT_QUEUED)
            conn_set_output(c, OUTPUT_PUSH);
        budget_spend(&n->budget, RESUME_COST);
    }
}

/* Wakes, commits and sends until no work is left or the budget of the iteration is used up. Each
 * step sends answers first, then notices, then long queues. A send to a client that does not read
 * may take the kernel 0.1 ms, and a client that waits for an answer must not wait for thousands of
 * notices. So notices and long queues have their own small budget. */
static void read_and_answer(struct net *n)
{
    struct engine *e = n->engine;

    budget_begin_part(&n->budget, BUDGET_END_NS);
    do {
        if (!TAILQ_EMPTY(&e->store.ready))
            wake_some(n);
        engine_commit(e);
        queue_committed(n);
        flush_list(n, &n->queued, 0);
        flush_list(n, &n->notified, TELL_COST);
    } while (!n->budget.over && transport_has_answers(n));
    if (!TAILQ_EMPTY(&n->notified)) { /* the time is over */
        budget_begin_part(&n->budget, BUDGET_LATE_NS);
        flush_list(n, &n->notified, TELL_COST);
    }
    if (TAILQ_EMPTY(&n->bulk))
        return;
    if (n->budget.over)
        budget_begin_part(&n->budget, BUDGET_LATE_NS);
    flush_bulk(n);
}

/* `total` is an earlier total of the account: at the start of the iteration's freeing, or later. */
static size_t freed_since(size_t total)
{
    return account.total < total ? total - account.total : 0;
}

/* While memory is short, requests are refused although freed memory only waits for this loop; so
 * free for three times as long. */
static uint64_t freeing_ns(void)
{
    return account_is_short() ? 3 * BUDGET_SMALL_NS : BUDGET_SMALL_NS;
}

static void free_closed(struct net *n, size_t total)
{
    struct conn *c;

    budget_begin_part(&n->budget, freeing_ns());
    while (!n->budget.over && freed_since(total) < LAZY_FREE_BYTES_MOST &&
           (c = TAILQ_FIRST(&n->closed)) != NULL) {
        size_t before = account.total;

        if (outq_drop(&c->out, &n->pool, DROPPED_AT_A_TIME))
            conn_free(c);
        budget_spend(&n->budget, CLOSE_COST + freed_since(before) / FREED_BYTES_A_NS);
    }
}

static void free_forgotten(struct net *n, size_t total)
{
    struct lazy_free *g = &n->engine->store.lazy_free;

    budget_begin_part(&n->budget, freeing_ns());
    while (!n->budget.over && freed_since(total) < LAZY_FREE_BYTES_MOST && !lazy_free_is_empty(g)) {
        lazy_free_run(g, FREED_AT_A_TIME);
        budget_spend(&n->budget, FREED_AT_A_TIME * FREE_COST);
    }
}

/* Callbacks read, apply and queue. Steps that have an order happen here, after each pass of
 * libevent: woken clients, the commit, the answers, and last the end of closed connections, so that
 * no step above meets a freed connection. Work beyond the budget waits for the next iteration. */
void transport_end_iteration(struct net *n)
{
    struct engine *e = n->engine;
    size_t total;

    if (n->stalled_until_ms != 0)
        drop_stalled(n);
    read_and_answer(n);
    if (account_is_short())
        drop_holders(n);
    total = account.total;
    if (!TAILQ_EMPTY(&n->closed))
        free_closed(n, total);
    if (!lazy_free_is_empty(&e->store.lazy_free))
        free_forgotten(n, total);
    if (n->scratch_cap > NET_SCRATCH_KEPT)
        net_drop_scratch(n);
}

/* A connection that is deferred again goes to the end of the list. Only as many go on as were
 * deferred before; they are counted and not remembered, since a request may close any other
 * connection. */
static void run_fast(struct net *n, uint64_t limit_ns)
{
    size_t count = n->deferred_count;

    budget_begin_part(&n->budget, limit_ns);
    for (; count > 0 && !n->budget.over && !TAILQ_EMPTY(&n->deferred); count--)
        input_run_deferred(TAILQ_FIRST(&n->deferred));
}

static void run_slow(struct net *n)
{
    size_t count = n->deferred_count;

    budget_begin_part(&n->budget, BUDGET_SLOW_NS);
    for (; count > 0 && !budget_slow_is_over(&n->budget) && !TAILQ_EMPTY(&n->slow); count--) {
        struct conn *c = TAILQ_FIRST(&n->slow);

        n->slice_owner = c;
        if (c->wire != WIRE_KNOWN)
            conn_set_input(c, INPUT_READY);
        if (c->wire == WIRE_KNOWN)
            input_run_deferred(c);
        else if (handshake_run(c))
            input_receive(c); /* the first request may have come with its end */
        else
            conn_update_events(c);
        n->slice_owner = NULL;
    }
}

void transport_run_deferred(struct net *n)
{
    unsigned part = n->cut_off > 0 ? 4 : 1; /* other clients have unread requests */

    if (n->deferred_count == 0)
        return;
    /* Clients that have just asked for little get their answers before long work goes on. */
    budget_begin_part(&n->budget, BUDGET_END_NS);
    engine_commit(n->engine);
    queue_committed(n);
    flush_list(n, &n->queued, 0);
    run_fast(n, BUDGET_DEFERRED_NS / part);
    if (n->cut_off % part == 0) /* one slice may take as long as all reading */
        run_slow(n);
}

void transport_drop_stalled(struct net *n, uint64_t deadline_ms)
{
    n->stalled_until_ms = deadline_ms;
}

/* --- The end. --- */

void transport_drain(struct net *n)
{
    const struct protocol *p;

    n->draining = true;
    listen_close_all(n);
    TAILQ_EACH_SAFE(struct conn, c, &n->conns, entry) {
        if (conn_is_relayed(c)) {
            if (!c->backend->functions->is_attached(c))
                conn_close(c, "the daemon stops");
            continue;
        }
        p = conn_is_open(c) ? c->protocol : NULL;
        if (p != NULL && p->is_busy != NULL && p->is_busy(c))
            continue; /* it ends with the answer */
        if (c->end == CONN_DRAINING)
            conn_set_end(c, CONN_FINISHING);
        if (c->end == CONN_FINISHING && c->out.bytes == 0 && c->backend == NULL) {
            conn_close(c, "the daemon stops");
            continue;
        }
        if (p != NULL && p->stop != NULL)
            p->stop(c);
        conn_finish(c);
    }
}

void transport_close_open(struct net *n, const char *reason)
{
    struct conn *c;

    while ((c = TAILQ_FIRST(&n->conns)) != NULL)
        conn_close(c, reason);
}

void transport_close_all(struct net *n, const char *reason)
{
    struct conn *c;

    transport_close_open(n, reason);
    while ((c = TAILQ_FIRST(&n->closed)) != NULL)
        conn_free(c);
    certificate_fini(&n->handshakes.certificate);
}
