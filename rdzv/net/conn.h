/* One accepted connection: its bytes in and out, which protocol it speaks, and its end. What the
 * bytes mean is for the sessions (c10d_session.c, http_session.c). */
#pragma once

#include <netinet/in.h>

#include "proto/c10d.h"
#include "rdzv/net/outq.h"
#include "rdzv/server.h"

enum conn_state {
    CONN_OPEN,
    CONN_FINISHING, /* no more requests; closes when what is queued is sent */
    CONN_CLOSED,    /* dead; freed at the end of the turn */
};

enum conn_protocol {
    CONN_UNDECIDED, /* fewer bytes than it takes to tell; never timed out while there are none */
    CONN_C10D,
    CONN_HTTP,
};

/* Whose c10d keys a connection uses; elastic_bind() tells by the first that it names. */
enum conn_role {
    CONN_UNBOUND, /* has named none yet */
    CONN_PLAIN,   /* those of the space */
    CONN_AGENT,   /* the same, as torch's agents, who are known by name */
    CONN_WORKER,  /* those of a worker store */
};

struct agent;
struct http_session;

/* The start of a request whose rest has not come. Absent while there is none, as with all idle
 * peers. */
struct inbuf {
    size_t start; /* of what is not done with yet */
    size_t len;   /* of that */
    size_t cap;   /* of all of `bytes` */
    uint8_t bytes[];
};

struct conn {
    struct event event;
    struct listener *listener;
    struct space *space;
    TAILQ_ENTRY(conn) entry;  /* in server.conns or server.closed */
    STAILQ_ENTRY(conn) dirty; /* in server.dirty */
    TAILQ_ENTRY(conn) late;   /* in server.late: owes us bytes, or we owe it and it does not read */
    uint64_t late_since_ms;
    TAILQ_ENTRY(conn) again; /* in server.again: used up its share of a turn */
    struct inbuf *in;
    size_t need; /* how many bytes the request in `in` needs at least */
    struct outq out;
    union {
        struct {
            struct c10d_progress progress;
            struct waiter *waiter;
            struct c10d_watches *watches; /* of classic WATCH_KEY; NULL: none */
            union {
                struct agent *agent;               /* CONN_AGENT */
                struct worker_store *worker_store; /* CONN_WORKER */
            } bound;
        } c10d;
        struct http_session *http;
    } as;
    uint8_t peer_address[16]; /* IPv6, or IPv4 mapped into it */
    uint16_t peer_port;
    uint8_t state;     /* enum conn_state */
    uint8_t protocol;  /* enum conn_protocol */
    uint8_t dialect;   /* enum c10d_dialect */
    uint8_t role;      /* enum conn_role */
    uint8_t mask;      /* what libevent watches for: EV_READ, EV_WRITE */
    uint64_t spent_in; /* the turn that `spent` counts */
    uint32_t spent;    /* conn_spend() */

    /* Bits, since ten thousand idle connections are held in one malloc() chunk each. */
    bool is_dirty : 1;
    bool is_late : 1;
    bool writing : 1; /* waits for the socket to be writable */
    bool paused : 1;  /* input waits until output has gone */
    bool parked : 1;  /* a watch is open: input waits until it ends */
    bool yielded : 1; /* is in server.again */
    bool owes : 1;    /* the session waits for bytes that it drops as they come */
    bool saw_eof : 1; /* the peer has sent its last byte */
    bool lingers : 1; /* conn_finish_lingering() */
    bool pinged : 1;  /* has sent c10d's PING: a client of torch 2.5 or later */
    bool is_cut : 1;  /* conn_cut() while answers were queued: they get one chance */
};

/* Takes over an accepted, non-blocking socket. NULL when memory is short (the socket is closed). */
struct conn *conn_new(struct server *s, struct listener *listener, int fd,
                      const struct sockaddr *peer);

/* Runs every whole request that is here, until the connection closes, parks or pauses. Sessions
 * call it when a parked peer goes on. */
void conn_process(struct conn *c);

/* Sends what is queued; called once at the end of a turn. */
void conn_flush(struct conn *c);

/* The peer's own end, or ours: the reason goes into the log when it is worth a line. A closed
 * connection is freed at the end of the turn, and all that waits for it is unregistered now. */
void conn_close(struct conn *c, const char *reason);

/* Cuts a peer for what it did: always a log line, with peer, dialect and reason. `detail` is what
 * it was about, such as the key; empty: nothing. */
void conn_cut(struct conn *c, const char *reason, struct slice detail);

/* No more requests; closes when what is queued has been sent. */
void conn_finish(struct conn *c);

/* The same, for an answer that goes out while the peer still sends: what it sends is read and
 * dropped until it has seen our end, since closing at once would reset the connection under the
 * answer. */
void conn_finish_lingering(struct conn *c);

/* Frees a closed connection; for the end of a turn. */
void conn_free(struct conn *c);

/* Cuts those who have owed us the rest of a request, or have not read, since before `deadline_ms`.
 */
void conn_cut_late(struct server *s, uint64_t deadline_ms);

/* True when there is room for one more answer. False: the limit is reached, the connection is
 * paused, and the session leaves its next request where it is. */
bool conn_may_answer(struct conn *c);

/* False when this peer has had its share of the turn: the session leaves its next request where it
 * is, and goes on in the next turn, when all others have had theirs. */
bool conn_has_turn(struct conn *c);

/* A parked peer goes on: its next request is shown again in the next turn. */
void conn_unpark(struct conn *c);

/* Counts what a request has cost, in bytes looked at or rendered. */
void conn_spend(struct conn *c, size_t cost);

/* Goes on with what was left in the turn before. */
void conn_continue(struct conn *c);

/* What has come of requests that are not done with; c->in must not be NULL. */
static inline struct slice conn_input(const struct conn *c)
{
    return (struct slice){c->in->bytes + c->in->start, c->in->len};
}

/* Called before something is sent that was not asked for just now; false: the peer does not read
 * what it was sent, and has been cut. */
bool conn_may_push(struct conn *c);

/* Queueing; each marks the connection for the end of the turn. */
void conn_put(struct conn *c, const void *bytes, size_t len);
uint8_t *conn_reserve(struct conn *c, size_t len);
void conn_put_blob(struct conn *c, struct blob *b);

/* Who it is: "127.0.0.1:4711", "[::1]:4711". */
#define CONN_PEER_MAX 64
const char *conn_peer(const struct conn *c, char text[CONN_PEER_MAX]);
bool conn_peer_is_loopback(const struct conn *c);
struct server *conn_server(const struct conn *c);

/* For logs: "modern", "http", "none". */
const char *conn_dialect(const struct conn *c);
