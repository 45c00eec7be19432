/* The connections of a relay to its store that carry HTTP. A connection carries one request at a
 * time; after the answer, it serves the next request of any client, since each request is complete
 * in itself. Each connection opens as link.h says. */
#pragma once

#include "rdzv/net/net.h"

/* --- What all HTTP requests that pass through a relay share. --- */

/* How long a request is held while the store is away. python-etcd waits for an answer for 60 s, and
 * so do torch's etcd rendezvous: they should see an answer. */
#define RELAY_HTTP_WAIT_MS 50000u

struct http_pass;
struct store_conn;

TAILQ_HEAD(http_pass_list, http_pass);
TAILQ_HEAD(store_conn_list, store_conn);

struct relay_http_options {
    struct net *net;
    const char *space; /* whose store it is; these two live as long */
    const char *name;  /* of this host, for the store's log */
    uint64_t wait_ms;  /* 0: RELAY_HTTP_WAIT_MS */
    /* Connects a socket to the store; -1: the store is unknown, or the kernel refuses. */
    int (*dial)(void *arg);
    int (*secure)(void *arg, int fd, SSL **tls); /* certificate_connect() for that socket */
    void *arg;
    uint64_t *cluster_id; /* the X-Etcd-Cluster-Id of what the relay itself says: set to the
                             store's, which clients of etcd remember; NULL: it stays */
};

struct relay_http_stats {
    uint64_t requests;      /* that were taken from clients */
    uint64_t retried;       /* repeated requests, whose connection had broken */
    uint64_t cut;           /* requests whose clients got no answer, or only a part */
    uint64_t unavailable;   /* that were held for wait_ms, and answered by the relay itself */
    uint64_t watches_moved; /* times that a watch went on over another connection */
};

struct relay_http {
    struct relay_http_options options;
    struct relay_http_stats stats;
    struct store_conn_list idle; /* free for a request, the last used first */
    struct store_conn_list busy; /* being dialed, or in use */
    size_t idle_count;
    struct http_pass_list held; /* requests without a connection */
    struct event timer;
};

#define RELAY_HTTP_TIMER_MS 100u

/* Called when connections are being dialed, or requests are held. */
static inline void relay_http_set_timer(struct relay_http *h)
{
    if (!evtimer_pending(&h->timer, NULL))
        net_set_timer(&h->timer, RELAY_HTTP_TIMER_MS * 1000);
}

/* --- Connections. --- */

/* The result for the bytes that the user was shown. */
enum store_taken {
    STORE_TAKES_MORE, /* *used are done with; shown again, with further bytes */
    STORE_TAKES_NEXT, /* the answer is over: the connection is free */
    STORE_TAKES_NONE, /* the same, but the connection must be closed */
    STORE_IS_LEFT,    /* the user has called store_conn_drop() already */
};

/* Who uses a connection: the first member of a request that is passed on. */
struct store_user {
    const struct store_user_calls *calls;
    struct store_conn *conn; /* NULL: it has none; set and cleared here */
};

struct store_user_calls {
    void (*ready)(struct store_user *u);    /* a dialed connection is open */
    void (*writable)(struct store_user *u); /* after store_conn_send() took less than all */
    bool (*has_room)(struct store_user *u); /* false: nothing is received just now */
    enum store_taken (*receive)(struct store_user *u, struct slice in, size_t *used);
    /* The connection has gone; `conn` is NULL already. */
    void (*lost)(struct store_user *u, const char *why);
    /* True: that would do no harm. */
    bool (*may_lose)(struct store_user *u);
};

enum store_got {
    STORE_GOT_NONE,   /* the store is unknown, or the kernel refuses: try again later */
    STORE_GOT_DIALED, /* calls->ready() or lost() follows */
    STORE_GOT_OPEN,   /* a request may be sent at once */
};

/* Gets a connection for a request. `over_tls`: the client speaks TLS with this relay. Each
 * connection to the store carries one of the two kinds, which it names once in its HELLO. */
enum store_got store_conn_get(struct relay_http *h, struct store_user *u, bool over_tls);

/* Sends what the socket takes. False: the connection is lost, and `conn` NULL; lost() is not told.
 */
bool store_conn_send(struct store_user *u, struct slice bytes, size_t *sent);

/* Sends no more requests: the store answers those that it has, and closes. */
void store_conn_send_end(struct store_user *u);

/* The user has room again. */
void store_conn_unpause(struct store_user *u);

/* The user goes, and with it the connection. Nothing when it has none. */
void store_conn_drop(struct store_user *u);

/* Looks after connections that are being dialed; for a timer. True: there are some. */
bool store_conn_tick(struct relay_http *h);

/* Called when the store has left, even if its connections do not show that yet: frees unused
 * connections, and calls lost() if the user of a connection can bear that. */
void store_conn_lose_all(struct relay_http *h);
