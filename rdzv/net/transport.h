/* Between libevent and connections: new sockets and their events, and what happens to all
 * connections of a net at the end of an iteration. */
#pragma once

#include "rdzv/net/net.h"

/* Opens the listeners that the configuration names, see listen.h. 0, or -1 after it logged why. */
int transport_start(struct net *n, const struct config *config);

/* Those who used up their budget in the last iteration go on, each with one budget of this one. */
void transport_run_deferred(struct net *n);

/* True: connections wait for transport_run_deferred(), so the loop must not sleep. */
bool transport_has_deferred(const struct net *n);

/* Serves those whom changes woke, commits, and sends what is committed, until there is no more to
 * do; then frees closed connections. */
void transport_end_iteration(struct net *n);

/* Drops connections that have been stalled since `deadline_ms` (monotonic) or earlier. */
void transport_drop_stalled(struct net *n, uint64_t deadline_ms);

/* No new connections; those that are open get what is queued for them, and are closed. */
void transport_drain(struct net *n);

/* Closes and frees all connections. */
void transport_close_all(struct net *n, const char *reason);
