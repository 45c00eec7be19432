/* The backend of a connection that is more than a plain socket: a table of functions that take and
 * give its bytes. The session of a relay's client has no socket: its requests come, and its answers
 * go, in the frames of the relay's own connection. The relay's own connection has a socket; its
 * backend adds notices when the connection sends. */
#pragma once

#include "rdzv/net/peer.h"
#include "store/change/change.h"
#include "store/memory/blob.h"

struct conn;
struct topology_label;

/* What the backend says of a request that is about to be carried out. */
enum backend_verdict {
    VERDICT_PROCEED,     /* carry the request out; then call backend->done() */
    VERDICT_REFUSED,     /* the connection has been dropped */
    VERDICT_WAITS_AGAIN, /* a BARRIER that was counted before: it waits, and is not counted */
    VERDICT_REPEATED,    /* a repeated request that was carried out the first time */
};

/* What became of a request. */
struct backend_result {
    bool changed;        /* the store changed, so the request must not be executed twice */
    bool took;           /* a COMPARE_SET took effect, and its answer said so */
    bool waits;          /* it is answered later */
    struct slice key;    /* of a BARRIER that waits */
    struct blob *popped; /* the element that its answer ends with; NULL: none */
    uint64_t popped_of;  /* how many there were before */
};

struct backend_functions {
    /* Sends like outq_send(): c->out, and notices of the backend's own. Called only when the commit
     * that c->watermark names is done. */
    int (*send)(struct conn *c, size_t max);

    /* --- Only of a connection without a socket: --- */

    /* Before each slice of a request. `changes`: it may change something. `barrier`: the key of a
     * BARRIER; else empty. */
    enum backend_verdict (*begin)(struct conn *c, bool changes, struct slice barrier);
    /* After the request's last slice, if the connection is open or was dropped in it. */
    void (*done)(struct conn *c, const struct backend_result *result);
    /* The wait of the session is over. False: the client must not be notified now. */
    bool (*woken)(struct conn *c);
    /* The session uses the keys of that worker store from now on; see engine_session_bind(). */
    enum store_status (*bound)(struct conn *c, uint64_t worker_store);
    /* Keeps some bytes with the session, for the time after a start; see
     * engine_session_set_hint(). */
    void (*keep_hint)(struct conn *c, struct slice hint);
    /* What was kept last before the start, borrowed until the session changes; empty: nothing. */
    struct slice (*hint)(const struct conn *c);
    /* True while a link serves the session, which ends with the link when the daemon stops. */
    bool (*is_attached)(const struct conn *c);
    /* The address by which the client has reached the relay. */
    struct peer (*local)(const struct conn *c);
    /* The connection is closed. c->session.reason is the reason. */
    void (*closed)(struct conn *c);
    /* The end of conn_free(): the backend may free the memory of the connection. */
    void (*freed)(struct conn *c);
};

/* All connections of one carrier share it; it outlives them. */
struct conn_backend {
    const struct backend_functions *functions;
    struct blob *via; /* the carrier's name, and a zero byte, for logs; NULL: it has none */
    struct topology_label *label; /* what that says of its nodes; NULL: nothing */
};
