/* One connection, accepted or relayed: the peer's address, the states of input, output and end, and
 * the queue of answers. The protocol is a table of functions (protocol.h), which this file does not
 * know. input.h reads, transport.h sends. */
#pragma once

#include "rdzv/net/backend.h"
#include "rdzv/net/listen.h"
#include "rdzv/net/net.h"
#include "rdzv/net/peer.h"
#include "rdzv/net/protocol.h"

/* What happens to the bytes that the peer sends. */
enum conn_input {
    INPUT_READY,    /* bytes go to the protocol when they arrive */
    INPUT_SKIPPING, /* the same, and the protocol drops them: the peer owes the rest of a body */
    INPUT_PARKED,   /* they are kept: a watch is open, or a request is held */
    INPUT_HELD,     /* they stay in the socket, since an earlier request must wait */
    INPUT_PAUSED,   /* they are left in the socket: the peer has to read its answers first */
    INPUT_DEFERRED, /* they are left in the socket until a later iteration: in net->deferred, or
                       with a slow request at their head in net->slow */
};

/* The state of the bytes that are queued for the peer. */
enum conn_output {
    OUTPUT_IDLE,        /* there are none */
    OUTPUT_BLOCKED,     /* the socket takes no more: they wait until it does */
    OUTPUT_QUEUED,      /* they are sent at the end of the iteration: in net->queued */
    OUTPUT_PUSH,        /* the same, behind the answers: they were woken, or did not read: in
                           net->notified */
    OUTPUT_BULK,        /* the same, behind those who have less to send: in net->bulk */
    OUTPUT_UNCOMMITTED, /* they show changes that wait for their commit: in net->uncommitted */
};

/* How far the connection is from its end. */
enum conn_end {
    CONN_OPEN,
    CONN_PEER_ENDED, /* the peer has sent its last byte; its earlier requests are still executed */
    CONN_FINISHING,  /* no more requests; closes when what is queued is sent */
    CONN_DRAINING,   /* the same, and what the peer sends is read and dropped until its end */
    CONN_DROPPING,   /* dropped while answers were queued: they get one chance to be sent */
    CONN_CLOSED,     /* dead; freed at the end of the iteration */
};

/* What a connection may ask for that was let in although something is short; see refusal.h. */
enum conn_probation {
    PROBATION_NONE, /* anything */
    PROBATION_OPEN, /* one probe */
    PROBATION_OVER, /* the probe has come; further requests get an error */
};

/* What of a connection is settled. */
enum conn_wire {
    WIRE_KNOWN, /* all: it speaks plain text, or has conn.tls */
    WIRE_UNKNOWN,
    WIRE_HANDSHAKE,
};

/* Room for the protocol's data within the connection, so that ten thousand idle connections take
 * one chunk of memory each. */
#define CONN_SESSION_SIZE 56

/* Received bytes that are still needed: the start of a request, or requests that must wait. A large
 * request gets pages of its own, which growing never copies. */
struct input {
    size_t start; /* of what is not done with yet */
    size_t len;   /* of that */
    size_t cap;   /* of all of `bytes` */
    size_t need;  /* bytes that the request here needs at least */
    bool paged;   /* it has pages of its own: account_request_pages() */
    uint8_t bytes[];
};

/* Of one with so much room. */
static inline size_t inbuf_size(size_t cap)
{
    return sizeof(struct input) + cap;
}

/* Moves the bytes into a buffer with room for at least `cap` bytes; `start` becomes 0. False, with
 * the buffer unchanged, if memory is short. */
bool inbuf_resize(struct input **in, struct lazy_free *g, enum account_class class, size_t cap);

/* Frees it, unless it is NULL; then *in is NULL. */
void inbuf_free(struct input **in, struct lazy_free *g);

struct conn {
    struct listener *listener;
    struct engine_space *space;         /* the listener's, unless its protocol has another one */
    const struct conn_backend *backend; /* NULL: the plain socket */
    const struct protocol *protocol;    /* NULL: fewer bytes have come than it takes to tell, or the
                                           session has ended */
    union {
        uint8_t bytes[CONN_SESSION_SIZE];
        void *aligned;
        const char *reason; /* of a relayed connection, when its protocol has ended: why; static */
    } session;              /* what the protocol keeps of the connection; zero when it begins */

    struct peer peer;
    uint16_t charged_in;   /* the iteration that `charged` is about: its low bits */
    uint16_t charged;      /* conn_charge() */
    uint8_t probation : 2; /* enum conn_probation */
    uint8_t short_of : 4;  /* meanwhile: enum refusal_reason */
    uint8_t wire : 2;      /* enum conn_wire */
    bool slow : 1;         /* its next request waits for a slice: conn_begin_slice() */
    bool was_push : 1;     /* while OUTPUT_UNCOMMITTED: it was OUTPUT_PUSH before */
    bool unread : 1;       /* in net->unread */
    bool drained : 1;      /* the last recv() has left no byte in the socket */
    bool peer_left : 1;    /* the peer's side has said that it ends: FIN or RST */
    bool is_held : 1;      /* in net->held, by conn_hold() */
    bool may_repeat : 1;   /* relayed: the next request may be here for the second time, so the
                              session's wait stays until backend->begin() has seen it */
    bool was_dropped : 1;  /* by conn_drop(), not for DROP_RUN */
    int fd;                /* the socket; -1: it has none, and is relayed */
    uint8_t input;         /* enum conn_input */
    uint8_t output;        /* enum conn_output */
    uint8_t end;           /* enum conn_end */
    uint8_t mask;          /* what is watched for: EPOLLIN, EPOLLOUT */

    TAILQ_ENTRY(conn) entry;  /* in net->conns or net->closed */
    TAILQ_ENTRY(conn) queued; /* in net->queued, notified, bulk or uncommitted, as `output` says */
    /* In net->deferred or slow while INPUT_DEFERRED, or in net->unread, or in net->held. */
    TAILQ_ENTRY(conn) deferred;

    struct input *in; /* NULL while no received byte is kept, as for all idle peers */
    struct outq out;
    uint64_t watermark; /* the batch that the output depends on, see engine_watermark() */

    /* Of a socket: a relayed connection has CONN_RELAYED_SIZE bytes, without these members. */
    SSL *tls;                  /* NULL: it has plain text */
    TAILQ_ENTRY(conn) stalled; /* in net->stalled, if stalled_ms is not 0 */
    uint64_t stalled_ms;       /* owes us bytes, or does not read, since then: engine_lived_ms() */
};

#define CONN_RELAYED_SIZE offsetof(struct conn, tls)

static inline struct net *conn_net(const struct conn *c)
{
    return c->listener->net;
}

static inline struct engine_space *conn_space(const struct conn *c)
{
    return c->space;
}

/* So long ago the peer sent its last byte, in milliseconds. UINT64_MAX: not known, as of a relayed
 * connection. */
uint64_t conn_silent_ms(const struct conn *c);

/* Is c10d not spoken here? */
static inline bool conn_is_http_alone(const struct conn *c)
{
    return c->probation != PROBATION_NONE || c->listener->spec->metrics_only ||
           c->listener->spec->path != NULL;
}

/* Takes over an accepted, non-blocking socket and watches it. NULL when memory is short or the
 * kernel cannot watch one more: the socket is closed then. */
struct conn *conn_new(struct listener *listener, int fd, const struct sockaddr *peer);

/* Makes a connection without a socket of CONN_RELAYED_SIZE zero bytes, which stay the backend's.
 * The listener counts the connection as its own. */
void conn_init_relayed(struct conn *c, struct listener *listener, struct engine_space *space,
                       const struct peer *peer, const struct conn_backend *backend);

static inline bool conn_is_relayed(const struct conn *c)
{
    return c->fd < 0;
}

/* The address by which the peer has reached the daemon, or its relay. False: it is not known. */
bool conn_local(const struct conn *c, struct peer *out);

/* How urgent small things of this connection are: those of this machine come first. */
static inline enum account_class conn_class(const struct conn *c)
{
    return peer_is_loopback(&c->peer) ? ACCOUNT_WATCHING : ACCOUNT_SMALL;
}

/* True until its end has begun: its requests are executed. */
static inline bool conn_is_open(const struct conn *c)
{
    return c->end == CONN_OPEN || c->end == CONN_PEER_ENDED;
}

/* --- The end. --- */

/* Closes the connection, since its peer or rdzvd ends it: the reason is logged if it is worth a
 * line. The connection is freed at the end of the iteration; its waits are unregistered now. */
void conn_close(struct conn *c, const char *reason);

/* The same, when the socket has failed with that error. */
void conn_fail(struct conn *c, int error);

/* Ends a connection before its time: a line in the log (as many as log_limited() lets through) with
 * peer, protocol and `reason`, and one more in the counter of `why`.
 * `detail` names the object of the failed request, such as a key, or is empty. The queued answers
 * get one chance to be sent. */
void conn_drop(struct conn *c, enum drop_reason why, const char *reason, struct slice detail);

/* The same when memory is short; `what` is a literal: "its answers". */
#define CONN_DROP_FOR_MEMORY(c, what) \
    conn_drop(c, DROP_NO_MEMORY, "no memory for " what ", see --memory-limit", (struct slice){0})

/* --- Probation. --- */

/* Allows the connection one probe and no other request. NET_PROBATION_MAX connections are on
 * probation at a time: another one closes the oldest at once. So only a callback of libevent may
 * call this: no function above it in the stack may use a connection on probation. */
void conn_begin_probation(struct conn *c, enum refusal_reason why);

/* Its request was no probe: counts and logs that. The caller answers, or closes the connection. */
void conn_fail_probation(struct conn *c);

/* Accepts no more requests, and closes after the queued output is sent. */
void conn_finish(struct conn *c);

/* The same, for an answer that goes out while the peer still sends: what it sends is read and
 * dropped until it has seen our end, since closing at once would reset the connection under the
 * answer. */
void conn_finish_draining(struct conn *c);

/* Frees a closed connection; for the end of an iteration. */
void conn_free(struct conn *c);

/* --- Output. Each of these queues, and the end of the iteration sends, or drops a connection for
 * which memory was short. --- */

void conn_put(struct conn *c, const void *bytes, size_t len);
uint8_t *conn_reserve(struct conn *c, size_t len); /* at most OUTQ_RESERVE_MAX, written now */
void conn_put_part(struct conn *c, struct blob *b, struct slice bytes); /* outq_put_part() */
void conn_share(struct conn *c, struct blob *b);                        /* outq_share() */
void conn_share_counted(struct conn *c, struct blob *b);                /* outq_share_counted() */

/* The backend has a notice to send, which depends on the changes so far. */
void conn_note_output(struct conn *c);

/* The queued output, empty before, shows nothing of the store, and waits for no commit. */
static inline void conn_note_independent(struct conn *c)
{
    c->watermark = 0;
}

/* The same, of what is committed. */
void conn_flush_later(struct conn *c);

/* Drops the queued output and the received bytes, because the client of the backend has gone. The
 * protocol must hold no reference to either. */
void conn_forget_bytes(struct conn *c);

/* The slow path of conn_can_reply(), for a queue that is not empty or that is broken. */
bool conn_can_reply_more(const struct conn *c);

/* True if the queue has room for another answer. False if the output limit is reached or memory is
 * short: then the protocol leaves its next request in the input and returns PROTOCOL_PAUSED. */
static inline bool conn_can_reply(const struct conn *c)
{
    return (c->out.bytes == 0 && !c->out.broken) || conn_can_reply_more(c);
}

/* The same for an answer whose length is known: alone it may be longer than the output limit,
 * behind others it may not. */
bool conn_has_room(const struct conn *c, size_t len);

/* Called before an event or a notice is queued, which answers no current request. False: the peer
 * does not read its output, and this call has dropped the connection. */
bool conn_can_push(struct conn *c);

/* --- Budget: the time of one iteration that a connection may use, and that all may use. --- */

/* The budget of one connection, see conn_charge(): about 60 us, so that a few dozen clients that
 * send without a pause fit into one iteration. */
#define CONN_BUDGET UINT16_MAX

/* False: the protocol leaves its next request where it is (PROTOCOL_DEFERRED), for an iteration. */
static inline bool conn_has_budget(struct conn *c)
{
    uint16_t iteration = (uint16_t)conn_net(c)->engine->stats.loop_iterations;

    if (c->charged_in != iteration)
        c->charged = 0;
    c->charged_in = iteration;
    return c->charged < CONN_BUDGET && !conn_net(c)->budget.over;
}

/* For conn_charge(). */
static inline void conn_add_charge(struct conn *c, uint64_t cost)
{
    uint64_t charged = c->charged + cost;

    c->charged = charged < CONN_BUDGET ? (uint16_t)charged : CONN_BUDGET;
}

/* Work for this connection is done: about that many nanoseconds, or bytes looked at or rendered. */
static inline void conn_charge(struct conn *c, size_t cost)
{
    conn_add_charge(c, cost);
    budget_spend(&conn_net(c)->budget, cost);
}

/* Slow requests run in slices.
 *
 * The problem: one thread serves all clients, and a MULTI_GET of 100,000 keys or a recursive GET of
 * a large tree takes many milliseconds, in which no heartbeat is read. A second thread would need
 * locks around the whole store. And a request cannot simply stop in the middle and continue later:
 * other clients would see half of it, and keys could disappear between two slices.
 *
 * So two rules hold. All slices of one iteration together take BUDGET_SLOW_NS; conn_begin_slice()
 * keeps this rule: it refuses a slice when the time is used up or other connections came first, and
 * they continue in turn. And each request takes effect at one moment, no matter how many slices it
 * needs; the protocol keeps this rule: its slices prepare (look keys up, copy the value) or render
 * (write the answer from references and a fixed version), and one slice in between reads or changes
 * the store (c10d/long_requests.c, jobs in http/session.h).
 *
 * conn_begin_slice() begins a slice, which is measured and charged until conn_end_slice(). False:
 * the protocol leaves the request in the input and returns PROTOCOL_DEFERRED. */
bool conn_begin_slice(struct conn *c);
void conn_end_slice(struct conn *c);

/* As if conn_begin_slice() had returned false: the request continues in a later slice. */
void conn_wait_for_slice(struct conn *c);

/* Of a relayed connection, whose protocol returns PROTOCOL_PARKED then: its request may make a
 * change, and the journal takes none at present. */
void conn_hold(struct conn *c);

/* --- For input.h and transport.h. --- */

void conn_set_input(struct conn *c, enum conn_input next);
void conn_set_end(struct conn *c, enum conn_end next);

/* For conn_set_output(): of states behind OUTPUT_QUEUED. */
static inline struct conn_list *conn_late_list(struct net *n, enum conn_output state)
{
    return state == OUTPUT_PUSH ? &n->notified : state == OUTPUT_BULK ? &n->bulk : &n->uncommitted;
}

static inline void conn_set_output(struct conn *c, enum conn_output next)
{
    enum conn_output now = (enum conn_output)c->output;
    struct net *n = conn_net(c);

    if (now == next)
        return;
    c->output = (uint8_t)next;
    if (now == OUTPUT_QUEUED)
        TAILQ_REMOVE(&n->queued, c, queued);
    else if (now > OUTPUT_QUEUED)
        TAILQ_REMOVE(conn_late_list(n, now), c, queued);
    if (next == OUTPUT_QUEUED)
        TAILQ_INSERT_TAIL(&n->queued, c, queued);
    else if (next > OUTPUT_QUEUED)
        TAILQ_INSERT_TAIL(conn_late_list(n, next), c, queued);
}

/* Watches the socket for what the connection waits for now. */
void conn_update_events(struct conn *c);

/* The socket may still be ready for what is watched: the connection is served again if it is. */
void conn_watch_again(struct conn *c);

/* TLS has decrypted bytes of the connection, which no socket reports: they are read in the next
 * pass. */
void conn_set_unread(struct conn *c, bool unread);

/* A connection is stalled while half a request is here, or while the peer does not read its
 * answers; an idle one never is. `moved`: bytes came or went, so its time starts again. */
void conn_update_stall(struct conn *c, bool moved);

/* For logs: the peer, and through whom it came: "10.1.0.7:4711 via node-7". */
#define CONN_VIA_MAX  64
#define CONN_PEER_MAX (PEER_TEXT_MAX + CONN_VIA_MAX + 8)
const char *conn_peer(const struct conn *c, char text[CONN_PEER_MAX]);
#define CONN_PEER(c) conn_peer((c), (char[CONN_PEER_MAX]){0}) /* until the block ends */

/* What is spoken, for logs: "c10d-modern", "http", "none". */
const char *conn_protocol(const struct conn *c);
