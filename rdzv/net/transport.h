/* Between libevent and connections: new sockets and their events, and the end of an iteration for
 * all connections of a net. */
#pragma once

#include "rdzv/net/net.h"

/* Opens the listeners that the configuration names, see listen.h. 0, or -1 after it logged why. */
int transport_start(struct net *n, const struct config *config);

/* Before libevent's pass. */
static inline void transport_begin_iteration(struct net *n)
{
    budget_begin_iteration(&n->budget, !TAILQ_EMPTY(&n->engine->store.ready));
}

/* After libevent's pass: notes whether the budget was used up before all callbacks ran, and reads
 * the bytes that TLS has kept. */
void transport_end_reading(struct net *n);

/* If an earlier iteration has deferred connections: sends the answers of this iteration, then
 * resumes those connections, each with a new budget, as many as the iteration has time for. If
 * reading was cut off there is less time, and most such iterations run no slow request. */
void transport_run_deferred(struct net *n);

/* Serves woken clients, commits, and sends committed answers, until no work is left or the budget
 * is used up; frees closed connections, and memory that the store has put aside for that. */
void transport_end_iteration(struct net *n);

/* True if a client must be woken, a change must be committed, or an answer must be sent. */
static inline bool transport_has_answers(const struct net *n)
{
    return n->engine->batch_changes != 0 || !TAILQ_EMPTY(&n->queued) ||
           !TAILQ_EMPTY(&n->engine->store.ready);
}

/* True if work is left for the next iteration: then the loop must not sleep. */
static inline bool transport_has_work(const struct net *n)
{
    const struct store *s = &n->engine->store;
    /* Each iteration runs this, and an OR of all lists saves many branches. */
    uint64_t there =
        (uint64_t)(uintptr_t)TAILQ_FIRST(&n->notified) |
        (uint64_t)(uintptr_t)TAILQ_FIRST(&n->unread) | (uint64_t)(uintptr_t)TAILQ_FIRST(&n->bulk) |
        (uint64_t)(uintptr_t)TAILQ_FIRST(&n->closed) |
        (uint64_t)(uintptr_t)TAILQ_FIRST(&n->queued) | (uint64_t)(uintptr_t)TAILQ_FIRST(&s->ready) |
        n->engine->batch_changes | n->stalled_until_ms | s->lazy_free.bytes | n->deferred_count |
        sockets_have_rest(&n->sockets);

    return there != 0;
}

/* Drops connections that have been stalled since `deadline_ms` (engine_lived_ms()) or earlier: some
 * at the end of this iteration, the others in the next ones. A connection survives if its bytes
 * have arrived or its peer reads again, even before libevent reports that. */
void transport_drop_stalled(struct net *n, uint64_t deadline_ms);

/* Accepts no new connections; sends the queued output of the open ones, and closes them. */
void transport_drain(struct net *n);

/* Closes all connections; they are freed at the end of the iteration. */
void transport_close_open(struct net *n, const char *reason);

/* Closes and frees all connections; there are no more. While the base of libevent is there. */
void transport_close_all(struct net *n, const char *reason);
