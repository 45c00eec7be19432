/* The daemon as a whole: the engine, the protocols above it, signals, timers, and the iteration of
 * the loop. Everything that happens in an iteration is read, applied and queued by callbacks; what
 * has an order, waking, committing, answering and closing, happens at the end of it
 * (transport_end_iteration()). */
#pragma once

#include "rdzv/c10d/session.h"
#include "rdzv/engine/data_dir.h"
#include "rdzv/engine/heap.h"
#include "rdzv/etcd/hasher.h"
#include "rdzv/http/session.h"
#include "rdzv/net/backoff.h"
#include "rdzv/net/net.h"
#include "rdzv/relay/link.h"
#include "rdzv/rendezvous/rendezvous.h"

struct server {
    const struct config *config;
    struct event_base *base;
    struct engine engine;
    struct data_dir data;
    struct heap heap;
    struct net net;
    struct rendezvous rendezvous;

    struct c10d c10d;
    struct http http;
    struct backoff backoff;
    struct hasher hasher;
    struct relay_links links;
    struct protocol c10d_protocol, http_protocol, link_protocol;
    const struct protocol *protocols[4];      /* net.protocols */
    const struct protocol *http_protocols[2]; /* net.http_protocols */

    struct event signals[5]; /* those that a daemon may get; see server.c */
    struct event tick;       /* once a second: log, deadlines, idle exit */
    struct event expiry;     /* the next TTL */
    struct event drain;      /* the end of --drain-timeout */
    struct event kept;       /* the journal has made progress; of a daemon with a data directory */
    int64_t expiry_armed_ns; /* the TTL that `expiry` is set for; 0: none */
    bool stop;
};

/* Opens the listeners and says so in the log. 0, or -1 after it logged why not. Ended with
 * server_fini() either way. `config` outlives the server. */
int server_init(struct server *s, const struct config *config);

/* Runs until SIGTERM or SIGINT (drained) or until idle. Returns the exit code. */
int server_run(struct server *s);
void server_fini(struct server *s);
