/* The daemon as a whole: the engine, the protocols above it, signals, timers, and the iteration of
 * the loop. The differences between a store and a relay are its role. In an iteration, callbacks
 * read, apply and queue; steps that have an order (waking, committing, answering, closing) follow
 * at its end (transport_end_iteration()). */
#pragma once

#include "rdzv/admin/monitor.h"
#include "rdzv/admin/status.h"
#include "rdzv/c10d/session.h"
#include "rdzv/config/config.h"
#include "rdzv/engine/data_dir.h"
#include "rdzv/engine/engine.h"
#include "rdzv/engine/heap.h"
#include "rdzv/etcd3/journal_etcd.h"
#include "rdzv/etcd_runs/etcd_runs.h"
#include "rdzv/http/access.h"
#include "rdzv/http/session.h"
#include "rdzv/net/net.h"
#include "rdzv/relay/forward.h"
#include "rdzv/relay/link.h"
#include "rdzv/rendezvous/rendezvous.h"
#include "rdzv/signals.h"

struct server;

/* How a daemon treats requests: a store carries them out, a relay passes them on to its store. The
 * configuration chooses the role, and the server calls its functions at these points. */
struct role {
    /* Fills the options of the engine, except clock and seed. NULL: default options. */
    void (*options)(const struct config *config, struct engine_options *options);

    /* Engine and net are there: sets what they are served with, s->protocols and the rest. */
    void (*init)(struct server *s);

    /* Before the listeners open: 0, or -1 after it logged why not. NULL: there is nothing to open.
     */
    int (*open)(struct server *s);

    /* The listeners are open, and s->forwards begin to connect after this. */
    void (*begin)(struct server *s);

    /* SIGHUP: reads files again. False: it has none. NULL: the same. */
    bool (*reload)(struct server *s);

    /* Once a second. NULL: no action. */
    void (*tick)(struct server *s);

    /* The end of an iteration, when all answers are queued. True if work is left: then the loop
     * must not sleep. */
    bool (*end_iteration)(struct server *s);

    /* Called while the daemon stops, without connections: true if the role has finished, too,
     * beside s->forwards. NULL: always. */
    bool (*may_stop)(struct server *s);

    /* Called when the daemon begins to stop, before all connections are closed. NULL: no action. */
    void (*stop)(struct server *s);

    /* The time to drain is over and clients were cut off: milliseconds that may_stop() may still
     * take. 0, or NULL: it need not be awaited. */
    uint64_t (*end_ms)(const struct server *s);

    /* All of them are closed, and s->forwards have ended. NULL: no action. */
    void (*fini)(struct server *s);
};

extern const struct role store_role, relay_role;

/* The parts of a server that keeps the keys. */
struct store_parts {
    struct data_dir data;
    struct journal_etcd *etcd; /* NULL: the journal is no cluster */
    struct protocol standby_protocol;
    const struct protocol *standby_protocols[4]; /* while another replica leads */
    struct http_route standby_routes[STATS_ROUTES];
    struct rendezvous rendezvous;
    struct etcd_rendezvous etcd_runs;
    struct c10d c10d;
    struct relay_links links;
    struct status_feeds status_feeds;
    struct monitor monitor;
    struct protocol link_protocol, c10d_protocol;
    struct event expiry;     /* the next TTL */
    struct event kept;       /* the journal has made progress; with a data directory */
    int64_t expiry_armed_ns; /* the TTL that `expiry` is set for; 0: none */
};

struct server {
    const struct config *config;
    struct event_base *base;
    struct engine engine;
    struct heap heap;
    struct net net;

    const struct role *role;
    struct store_parts store; /* what only a store has */
    struct forwards
        forwards; /* of a relay, and of a replica with --upstream; else there are none */

    struct request_watch request_watch;
    struct http http;
    struct backoff backoff;
    struct protocol http_protocol;
    const struct protocol *protocols[4]; /* net.protocols: HTTP, and from [1] on the role's own */
    const struct protocol *http_protocols[2]; /* net.http_protocols */

    struct signals signals;
    struct event tick;       /* once a second: log, deadlines, idle exit */
    struct event stdin_ends; /* with --exit-with-stdin */
    struct event drain;      /* the end of the time to drain */
    bool cut_off;            /* at the end of that time, clients with unread answers were cut off */
    int exit_code;
    bool stop;
    bool restart;
};

/* Opens the listeners and says so in the log. 0, or -1 after it logged why not. Ended with
 * server_fini() either way. `config` outlives the server. */
int server_init(struct server *s, const struct config *config);

/* Runs until SIGTERM or SIGINT (drained) or until idle, and returns the exit code; or until the
 * role finds its state outdated, and returns SERVER_RESTART: the caller must start a new server. */
#define SERVER_RESTART (-1)
int server_run(struct server *s);
void server_fini(struct server *s);

/* Begins to end the server, as SIGTERM does: accepts no connections from now on, sends the queued
 * output of the open ones, and closes them. The second call ends it at once. `signal` is for the
 * log. */
void server_drain(struct server *s, const char *signal);

/* Called by a role whose state is outdated: stops this server, and main() starts a new one. */
static inline void server_request_restart(struct server *s)
{
    s->restart = !s->net.draining;
    s->stop = true;
}

/* --- Every HTTP path of the daemon, routes.c. --- */

/* Ends with a NULL path. */
extern const struct http_route http_routes[];

/* The routes of a replica that does not lead, in the same order, because requests are counted by
 * the index of their route. A route with a `standby` handler answers by that; all other requests
 * are refused, or, if the replica `passes_on`, go to the leader (except those for the page). */
void routes_stand_by(struct http_route out[STATS_ROUTES], bool passes_on);

/* Those of a relay. */
extern const struct http_route relay_routes[];
