/* Between libevent and connections. See transport.h for the contract. */
#include "rdzv/net/transport.h"

#include <errno.h>
#include <string.h>

#include "rdzv/net/conn.h"
#include "rdzv/net/input.h"
#include "rdzv/net/listen.h"

static void on_event(evutil_socket_t fd, short what, void *arg)
{
    struct conn *c = arg;

    (void)fd;
    if (what & EV_WRITE && c->output == OUTPUT_BLOCKED)
        conn_set_output(c, OUTPUT_QUEUED);
    if (what & EV_READ)
        input_receive(c);
}

/* --- Sending. --- */

/* What follows when the socket has taken less than all, or the connection is not merely open. */
static void after_send(struct conn *c, bool blocked, bool moved)
{
    if (!blocked && c->end == CONN_DRAINING)
        shutdown(event_get_fd(&c->event), SHUT_WR);
    if (blocked)
        conn_set_output(c, OUTPUT_BLOCKED);
    conn_update_stall(c, moved);
    if (c->input == INPUT_PAUSED && conn_is_open(c))
        input_unpause(c);
    if (c->end == CONN_PEER_ENDED && c->input != INPUT_PAUSED && c->input != INPUT_DEFERRED)
        input_on_eof(c); /* it came behind requests that had to wait, and now are carried out */
    conn_update_events(c);
}

static void flush(struct conn *c)
{
    size_t before = c->out.bytes;
    int err;

    conn_set_output(c, OUTPUT_IDLE);
    err = outq_send(&c->out, &conn_net(c)->pool, event_get_fd(&c->event));
    if ((err < 0 && err != -EAGAIN) || (err == -EAGAIN && c->end == CONN_DROPPING))
        conn_close(c, strerror(-err));
    else if (err == 0 && (c->end == CONN_FINISHING || c->end == CONN_DROPPING))
        conn_close(c, "done");
    else if (err != 0 || c->end != CONN_OPEN || c->input == INPUT_PAUSED || c->mask & EV_WRITE)
        after_send(c, err == -EAGAIN, c->out.bytes != before);
}

/* A connection that gets room again may go on with requests that it had to leave, and so be on the
 * list once more; what they have changed is not committed yet. */
static void flush_queued(struct net *n)
{
    struct conn *c;

    while ((c = TAILQ_FIRST(&n->queued)) != NULL) {
        if (c->out.broken && c->end != CONN_DROPPING)
            conn_drop_broken(c);
        else if (c->out.bytes > 0 && !engine_is_committed(n->engine, c->watermark))
            conn_set_output(c, OUTPUT_UNCOMMITTED);
        else
            flush(c);
    }
}

/* Thousands may wait for a slow disk: they are looked at once for each progress of the commit. */
static void queue_committed(struct net *n)
{
    struct conn *c, *next;

    if (n->committed == n->engine->committed)
        return;
    n->committed = n->engine->committed;
    for (c = TAILQ_FIRST(&n->uncommitted); c != NULL; c = next) {
        next = TAILQ_NEXT(c, queued);
        if (engine_is_committed(n->engine, c->watermark))
            conn_set_output(c, OUTPUT_QUEUED);
    }
}

/* --- Memory. --- */

/* A connection that holds less than that is left alone. */
#define HELD_MIN 4096u

/* What ends with the connection. */
static size_t held(const struct conn *c)
{
    return c->out.bytes + (c->in == NULL ? 0 : c->in->cap);
}

static size_t most_held(const struct net *n)
{
    const struct conn *c;
    size_t most = 0;

    TAILQ_FOREACH(c, &n->stalled, stalled)
        most = held(c) > most ? held(c) : most;
    return most;
}

/* When little memory is left, those go who hold most of it and do not go on: who does not read its
 * answers, or has sent half a large request. Else their memory would be missing to all others until
 * --request-timeout. A sixteenth of the limit is to be free; then an eighth. */
static void drop_holders(struct net *n)
{
    size_t wanted = account.limit / 8, freed = 0, most;
    struct conn *c, *next;

    if (store_spare_history(&n->engine->store))
        return;
    most = most_held(n);
    if (most < HELD_MIN)
        return;
    for (c = TAILQ_FIRST(&n->stalled); c != NULL && freed < wanted; c = next) {
        next = TAILQ_NEXT(c, stalled);
        if (held(c) <= most / 2)
            continue;
        freed += held(c);
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
    input_receive(c);
    if (c->output == OUTPUT_QUEUED && engine_is_committed(conn_net(c)->engine, c->watermark))
        flush(c);
    if (c->end == CONN_CLOSED)
        conn_free(c);
}

static void on_accepted(struct listener *l, int fd, const struct sockaddr *peer,
                        enum admission admission, enum refusal_reason why)
{
    struct conn *c = conn_new(l, fd, peer, on_event);

    if (c == NULL || admission == ADMISSION_FULL)
        return;
    conn_begin_probation(c, why);
    serve_at_once(c);
}

int transport_start(struct net *n, const struct config *config)
{
    return listen_open_all(n, config, on_accepted);
}

/* --- The iteration. --- */

/* Callbacks read, apply and queue. Whatever has an order happens here, after each pass of libevent:
 * those who were woken, the commit, the answers, and last the end of closed connections, so that
 * nothing above meets a freed one. */
void transport_end_iteration(struct net *n)
{
    struct engine *e = n->engine;
    struct wake *w;
    struct conn *c;

    do {
        while ((w = engine_next_ready(e)) != NULL) {
            c = w->owner;
            c->protocol->resume(c, w);
        }
        engine_commit(e);
        queue_committed(n);
        flush_queued(n);
    } while (e->batch_changed || !TAILQ_EMPTY(&n->queued) || !TAILQ_EMPTY(&e->store.ready));
    if (account_is_short())
        drop_holders(n);
    while ((c = TAILQ_FIRST(&n->closed)) != NULL)
        conn_free(c);
    net_trim(n);
}

bool transport_has_deferred(const struct net *n)
{
    return !TAILQ_EMPTY(&n->deferred);
}

/* The one that went first the last time goes last: only the first may get the slow slot. */
static void rotate_deferred(struct net *n)
{
    struct conn *c = TAILQ_FIRST(&n->deferred);

    if (c == NULL)
        return;
    TAILQ_REMOVE(&n->deferred, c, deferred);
    TAILQ_INSERT_TAIL(&n->deferred, c, deferred);
}

/* A connection that is deferred again goes to the end of the list. Only as many go on as were
 * deferred before; they are counted and not remembered, since a request may close any other
 * connection. */
void transport_run_deferred(struct net *n)
{
    const struct conn *c;
    size_t count = 0;

    rotate_deferred(n);
    TAILQ_FOREACH(c, &n->deferred, deferred)
        count++;
    n->runs_deferred = true;
    for (; count > 0 && !TAILQ_EMPTY(&n->deferred); count--)
        input_run_deferred(TAILQ_FIRST(&n->deferred));
    n->runs_deferred = false;
}

static const char *why_stalled(const struct conn *c)
{
    if (c->output == OUTPUT_BLOCKED)
        return "does not read its answers";
    return c->end == CONN_DRAINING ? "has not closed after its last answer"
                                   : "half a request for too long, see --request-timeout";
}

void transport_drop_stalled(struct net *n, uint64_t deadline_ms)
{
    struct conn *c;

    while ((c = TAILQ_FIRST(&n->stalled)) != NULL && c->stalled_ms <= deadline_ms)
        conn_drop(c, DROP_STALLED, why_stalled(c), (struct slice){0});
}

/* --- The end. --- */

void transport_drain(struct net *n)
{
    struct conn *c, *next;

    n->draining = true;
    listen_close_all(n);
    for (c = TAILQ_FIRST(&n->conns); c != NULL; c = next) {
        next = TAILQ_NEXT(c, entry);
        if (c->end == CONN_DRAINING)
            conn_set_end(c, CONN_FINISHING);
        if (c->end == CONN_FINISHING && c->out.bytes == 0)
            conn_close(c, "the daemon stops");
        else
            conn_finish(c);
    }
}

void transport_close_all(struct net *n, const char *reason)
{
    struct conn *c;

    while ((c = TAILQ_FIRST(&n->conns)) != NULL)
        conn_close(c, reason);
    while ((c = TAILQ_FIRST(&n->closed)) != NULL)
        conn_free(c);
}
