/* From the socket to the protocol. See input.h for the contract. */
#include "rdzv/net/input.h"

#include <errno.h>
#include <string.h>

#include "proto/tls/tls.h"
#include "rdzv/net/handshake.h"
#include "rdzv/net/tls.h"

/* A peer may send this many bytes while its input is parked. */
#define PARKED_INPUT_MAX (1u << 20)

/* The buffer of an incomplete request doubles, and grows by INPUT_STEP at least. So memory follows
 * the bytes that a peer has sent, never the length that it has announced. */
#define INPUT_STEP (16u * 1024)

/* The buffer grows by INPUT_STEP_MOST at most, because one recv() fills all of the new room, at
 * BYTES_A_NS bytes a nanosecond. */
#define INPUT_STEP_MOST (256u << 10)
#define BYTES_A_NS      4u

/* --- What is kept. --- */

static struct lazy_free *lazy_free_of(struct conn *c)
{
    return &conn_net(c)->engine->store.lazy_free;
}

/* A small request is a probe's, too. */
static enum account_class input_class(const struct conn *c, size_t len)
{
    return account_class_of(len) == ACCOUNT_SMALL ? conn_class(c) : ACCOUNT_ORDINARY;
}

/* Keeps the start of an incomplete request; nothing if there is none. */
static bool input_keep_rest(struct conn *c, const uint8_t *rest, size_t len, size_t need)
{
    if (len == 0)
        return true;
    c->in = account_request(ACCOUNT_INPUT, input_class(c, len), inbuf_size(len));
    if (c->in == NULL) {
        CONN_DROP_FOR_MEMORY(c, "its request");
        return false;
    }
    *c->in = (struct input){.len = len, .cap = len, .need = need};
    memcpy(c->in->bytes, rest, len);
    return true;
}

/* Unread bytes may stay for as long as a watch is open, so they must not keep the buffer of the
 * large request before them. Bytes are moved only when the finished part is longer than the rest:
 * so each byte that arrives is moved about once. */
static void compact_input(struct conn *c)
{
    struct input *in = c->in;

    if (in->start <= in->len || in->start < INPUT_STEP)
        return;
    memmove(in->bytes, in->bytes + in->start, in->len);
    in->start = 0;
    inbuf_resize(&c->in, lazy_free_of(c), ACCOUNT_ORDINARY, in->len);
}

static size_t clamp_size(size_t least, size_t value, size_t most)
{
    return value < least ? least : value > most ? most : value;
}

/* Makes room behind the received bytes for `more` bytes or more; false when memory is short. The
 * length of a list or chunked body is known only for the next few bytes: there the buffer grows by
 * half, because otherwise each few bytes would cost a copy of all. */
static bool input_make_room(struct conn *c, size_t more)
{
    struct input *in = c->in;
    size_t want = in->need > in->len ? in->need - in->len : 1;
    size_t step = clamp_size(INPUT_STEP, in->len, INPUT_STEP_MOST);
    size_t least = clamp_size(more < 512 ? 512 : more, in->len / 2, INPUT_STEP_MOST);

    if (in->start > 0)
        memmove(in->bytes, in->bytes + in->start, in->len);
    in->start = 0;
    if (in->cap - in->len >= more)
        return true;
    if (want > step)
        want = step;
    if (want < least)
        want = least;
    want += in->len;
    store_make_room(&conn_net(c)->engine->store, input_class(c, want), inbuf_size(want));
    return inbuf_resize(&c->in, lazy_free_of(c), input_class(c, want), want);
}

/* --- To the protocol. --- */

/* Finds the protocol that begins so; its progress->used bytes say only that. */
static enum parse_result choose_protocol(struct conn *c, const uint8_t *in, size_t len,
                                         struct protocol_progress *progress)
{
    const struct protocol *const *p =
        conn_is_http_alone(c) ? conn_net(c)->http_protocols : conn_net(c)->protocols;
    const char *why = NULL;
    enum parse_result result = PARSE_BAD;

    if (in[0] == TLS_FIRST_BYTE && !conn_is_relayed(c)) {
        handshake_refuse(c);
        return PARSE_BAD;
    }
    for (; *p != NULL && result == PARSE_BAD && conn_is_open(c); p++) {
        *progress = (struct protocol_progress){0};
        result = (*p)->begin(*p, c, (struct slice){in, len}, progress, &why);
    }
    if (result == PARSE_BAD && c->probation != PROBATION_NONE) {
        conn_fail_probation(c);
        conn_close(c, "connections or descriptors are short");
    } else if (result == PARSE_BAD) {
        conn_drop(c, DROP_MALFORMED, why != NULL ? why : "this listener answers HTTP alone",
                  (struct slice){in, len < 16 ? len : 16});
    }
    return result;
}

static void set_result(struct conn *c, enum protocol_result result)
{
    static const enum conn_input states[] = {
        [PROTOCOL_MORE] = INPUT_READY,    [PROTOCOL_SKIPPING] = INPUT_SKIPPING,
        [PROTOCOL_PARKED] = INPUT_PARKED, [PROTOCOL_HELD] = INPUT_HELD,
        [PROTOCOL_PAUSED] = INPUT_PAUSED, [PROTOCOL_DEFERRED] = INPUT_DEFERRED,
        [PROTOCOL_ENDED] = INPUT_READY,
    };

    conn_set_input(c, states[result]);
    if (result != PROTOCOL_PAUSED)
        return;
    if (c->output == OUTPUT_IDLE)
        conn_set_output(c, OUTPUT_QUEUED); /* the end of the iteration makes room, or drops */
    else if (c->output == OUTPUT_BLOCKED && !c->protocol->pipelines)
        conn_can_push(c);
}

/* Passes the received bytes to the protocol. Returns how many bytes it has used; *need is the
 * minimal length of the rest. */
static size_t input_show(struct conn *c, uint8_t *in, size_t len, size_t *need)
{
    struct protocol_progress progress = {0};
    enum protocol_result result;
    size_t used;

    *need = 1;
    if (c->protocol == NULL && choose_protocol(c, in, len, &progress) != PARSE_DONE) {
        *need = progress.need;
        return 0;
    }
    used = progress.used;
    if (used == len)
        return used;
    progress = (struct protocol_progress){0};
    result = c->protocol->read(c, in + used, len - used, &progress);
    used += progress.used;
    if (c->end == CONN_CLOSED)
        return used;
    *need = progress.need > progress.used ? progress.need - progress.used : len - used + 1;
    set_result(c, result);
    return used;
}

void input_process(struct conn *c)
{
    size_t used, need;

    if (c->in == NULL || !conn_is_open(c) || c->input == INPUT_DEFERRED)
        return;
    used = input_show(c, c->in->bytes + c->in->start, c->in->len, &need);
    if (c->end == CONN_CLOSED)
        return;
    c->in->start += used;
    c->in->len -= used;
    c->in->need = need;
    if (c->in->len == 0)
        inbuf_free(&c->in, lazy_free_of(c));
    else
        compact_input(c);
    conn_update_stall(c, used > 0);
    conn_update_events(c);
}

void input_unpark(struct conn *c)
{
    if ((c->input == INPUT_PARKED || c->input == INPUT_HELD) && conn_is_open(c))
        conn_set_input(c, INPUT_DEFERRED);
}

void input_run_deferred(struct conn *c)
{
    conn_set_input(c, INPUT_READY);
    input_process(c);
    conn_update_events(c);
    if (c->mask & EPOLLIN && c->tls != NULL && tls_has_pending(c->tls))
        conn_set_unread(c, true);
    if (c->end == CONN_PEER_ENDED && c->output == OUTPUT_IDLE)
        conn_set_output(c, OUTPUT_QUEUED); /* the flush sees to its end */
}

void input_unpause(struct conn *c)
{
    if (!conn_can_reply(c)) {
        /* A client that may not pipeline has filled its queue with one answer after the other: it
         * does not read. One that may is only ahead; it is dropped when it stalls. */
        if (!c->protocol->pipelines)
            conn_can_push(c);
        return;
    }
    conn_set_input(c, INPUT_READY);
    input_process(c);
}

/* --- From a backend. --- */

/* Behind what is here already. */
static bool feed_more(struct conn *c, const uint8_t *bytes, size_t len)
{
    if (c->input != INPUT_READY && c->in->len + len > c->in->need + INPUT_AHEAD_MAX)
        return false;
    if (!input_make_room(c, len)) {
        CONN_DROP_FOR_MEMORY(c, "its request");
        return true;
    }
    memcpy(c->in->bytes + c->in->len, bytes, len);
    c->in->len += len;
    if (c->input == INPUT_READY && c->in->len >= c->in->need)
        input_process(c);
    return true;
}

bool input_feed(struct conn *c, uint8_t *bytes, size_t len)
{
    size_t used, need;

    if (c->end != CONN_OPEN || len == 0)
        return true;
    if (c->in != NULL)
        return feed_more(c, bytes, len);
    used = input_show(c, bytes, len, &need);
    if (conn_is_open(c))
        input_keep_rest(c, bytes + used, len - used, need);
    return true;
}

/* --- From the socket. --- */

/* As recv(). Less than was asked for is all that a TCP socket has. OpenSSL takes a record at a
 * time, or wants to write first; and a Unix socket ends before the bytes of another process. */
static inline ssize_t receive_bytes(struct conn *c, int fd, void *bytes, size_t len)
{
    ssize_t n = c->tls == NULL ? recv(fd, bytes, len, 0) : conn_recv_tls(c, bytes, len);

    c->drained =
        c->tls == NULL && !peer_is_unix(&c->peer) && (n < 0 ? errno == EAGAIN : (size_t)n < len);
    return n;
}

void input_on_eof(struct conn *c)
{
    bool stays;

    c->peer_left = true;
    if (c->end == CONN_OPEN)
        conn_set_end(c, CONN_PEER_ENDED);
    stays = c->protocol != NULL && c->protocol->eof != NULL && c->protocol->eof(c);
    if (!stays && c->out.bytes > 0)
        conn_finish(c); /* it may have shut down only its sending side, and still read */
    else if (!stays)
        conn_close(c, "peer left");
    conn_update_events(c);
}

/* Handles a recv() that returned no bytes. */
static void on_no_bytes(struct conn *c, ssize_t n, int error)
{
    if (n == 0)
        input_on_eof(c);
    else if (error != EAGAIN && error != EINTR)
        conn_fail(c, error);
}

/* Reads and drops what comes behind the last request. */
static void input_drain(struct conn *c, int fd)
{
    ssize_t n = receive_bytes(c, fd, conn_net(c)->recv_buf, NET_RECV_SIZE);

    if (n == 0 && c->out.bytes > 0) { /* it may still read, as in input_on_eof() */
        conn_set_end(c, CONN_FINISHING);
        conn_update_events(c);
    } else if (n == 0) {
        conn_close(c, "done");
    } else if (n < 0 && errno != EAGAIN && errno != EINTR) {
        conn_fail(c, errno);
    }
}

/* Nothing is kept: what nearly always happens. */
static void receive_first(struct conn *c, int fd)
{
    uint8_t *bytes = conn_net(c)->recv_buf;
    ssize_t n = receive_bytes(c, fd, bytes, NET_RECV_SIZE);
    size_t used, need;

    if (n <= 0) {
        on_no_bytes(c, n, errno);
        return;
    }
    used = input_show(c, bytes, (size_t)n, &need);
    if (!conn_is_open(c) || !input_keep_rest(c, bytes + used, (size_t)n - used, need))
        return;
    if (c->in != NULL || c->stalled_ms != 0 || c->input != INPUT_READY) {
        conn_update_stall(c, true);
        conn_update_events(c);
    }
}

/* Much has come behind a request that is parked. */
static void on_run_ahead(struct conn *c)
{
    if (c->protocol->runs_ahead) {
        conn_set_input(c, INPUT_HELD);
        conn_update_events(c);
        return;
    }
    conn_drop(c, DROP_LIMIT, "too much sent behind an open watch or a request that waits",
              (struct slice){0});
}

static void receive_more(struct conn *c, int fd)
{
    ssize_t n;

    if (!input_make_room(c, 1)) {
        CONN_DROP_FOR_MEMORY(c, "its request");
        return;
    }
    n = receive_bytes(c, fd, c->in->bytes + c->in->len, c->in->cap - c->in->len);
    if (n <= 0) {
        on_no_bytes(c, n, errno);
        return;
    }
    c->in->len += (size_t)n;
    budget_spend(&conn_net(c)->budget, (size_t)n / BYTES_A_NS);
    if (c->input != INPUT_PARKED && c->in->len >= c->in->need)
        input_process(c);
    else if (c->input == INPUT_PARKED && c->in->len > c->in->need + PARKED_INPUT_MAX)
        on_run_ahead(c);
}

void input_receive(struct conn *c)
{
    int fd = c->fd;

    if (c->end == CONN_DRAINING)
        input_drain(c, fd);
    else if (c->end != CONN_OPEN)
        return;
    else if (c->in == NULL)
        receive_first(c, fd);
    else
        receive_more(c, fd);
}
