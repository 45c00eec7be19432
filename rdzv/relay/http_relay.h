/* What all HTTP requests that pass through a relay share. */
#pragma once

#include "rdzv/net/net.h"

/* How long a request is held while the store is away. python-etcd waits for an answer for 60 s, and
 * so do torch's etcd rendezvous: they should see an answer. */
#define RELAY_HTTP_WAIT_MS 50000u

struct http_pass;
struct store_conn;
struct sockaddr_storage;

TAILQ_HEAD(http_pass_list, http_pass);
TAILQ_HEAD(store_conn_list, store_conn);

struct relay_http_options {
    struct net *net;
    struct slice space; /* whose store it is; these two live as long */
    struct slice name;  /* of this host, for the store's log */
    uint64_t wait_ms;   /* 0: RELAY_HTTP_WAIT_MS */
    /* Where the store is just now; false: nobody knows of one. Called for each new connection. */
    bool (*store_at)(void *arg, struct sockaddr_storage *at, socklen_t *len);
    /* What is to be spoken there, on a socket that is connected: NULL, plain text. Sets *ok to
     * false when it cannot be had. */
    SSL *(*secure)(void *arg, int fd, bool *ok);
    void *arg;
    uint64_t *cluster_id; /* the X-Etcd-Cluster-Id of what the relay itself says: set to the
                             store's, which clients of etcd remember; NULL: it stays */
};

struct relay_http_stats {
    uint64_t requests;      /* that were taken from clients */
    uint64_t retried;       /* times that one was sent again, since its connection had broken */
    uint64_t cut;           /* that got no answer, or not all of it */
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
    bool timer_set;
};

#define RELAY_HTTP_TIMER_MS 100u

/* Connections are being dialed, or requests are held. */
static inline void relay_http_set_timer(struct relay_http *h)
{
    const struct timeval later = {.tv_usec = RELAY_HTTP_TIMER_MS * 1000};

    if (!h->timer_set)
        h->timer_set = net_add_event(&h->timer, &later);
}
