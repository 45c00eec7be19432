/* The daemon as a whole: the engine, the protocols above it, signals, timers, and the iteration of
 * the loop. What a store does and what a relay does is its role (role.h). Everything that happens
 * in an iteration is read, applied and queued by callbacks; what has an order, waking, committing,
 * answering and closing, happens at the end of it (transport_end_iteration()). */
#pragma once

#include "rdzv/engine/heap.h"
#include "rdzv/http/access.h"
#include "rdzv/http/session.h"
#include "rdzv/net/net.h"
#include "rdzv/relay/forward.h"
#include "rdzv/signals.h"
#include "rdzv/store_role.h"

struct server {
    const struct config *config;
    struct event_base *base;
    struct engine engine;
    struct heap heap;
    struct net net;

    const struct role *role;
    struct store_parts store; /* what only a store has */
    struct forwards forwards; /* of a relay, and of a replica with --upstream */

    struct request_watch request_watch;
    struct http http;
    struct backoff backoff;
    struct protocol http_protocol;
    const struct protocol *protocols[4]; /* net.protocols: HTTP, and from [1] on the role's own */
    const struct protocol *http_protocols[2]; /* net.http_protocols */

    struct signals signals;
    struct event tick;  /* once a second: log, deadlines, idle exit */
    struct event drain; /* the end of --drain-timeout */
    bool cut_off;       /* those who had not read their answers when that was over */
    bool stop;
    bool anew;
};

/* Opens the listeners and says so in the log. 0, or -1 after it logged why not. Ended with
 * server_fini() either way. `config` outlives the server. */
int server_init(struct server *s, const struct config *config);

/* Runs until SIGTERM or SIGINT (drained) or until idle, and returns the exit code; or until what it
 * has is of no use any more, and returns SERVER_ANEW: another one is to begin in its place. */
#define SERVER_ANEW (-1)
int server_run(struct server *s);
void server_begin_anew(struct server *s);
void server_fini(struct server *s);
