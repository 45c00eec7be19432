/* Between libevent and connections: new sockets and their events, and what happens to all
 * connections of a net at the end of an iteration. */
#pragma once

#include "rdzv/net/net.h"

/* Opens the listeners that the configuration names, see listen.h. 0, or -1 after it logged why. */
int transport_start(struct net *n, const struct config *config);

/* Before libevent's pass. */
static inline void transport_begin_iteration(struct net *n)
{
    budget_begin_iteration(&n->budget, !TAILQ_EMPTY(&n->engine->store.ready));
}

/* Behind it: libevent may have had more to call than there was time for. */
static inline void transport_end_reading(struct net *n)
{
    n->cut_off = n->budget.over ? n->cut_off + 1 : 0;
}

static inline bool transport_has_deferred(const struct net *n)
{
    return n->deferred_count > 0;
}

/* Those who were deferred in an earlier iteration go on, each with one budget of this one, and as
 * many as it has time for: less if reading was cut off, and none of the costly ones in most of such
 * iterations. What has been answered in this iteration is sent before. */
void transport_run_deferred(struct net *n);

/* Serves those whom changes woke, commits, and sends what is committed, until there is no more to
 * do or the iteration has had its time; frees closed connections, and what the store has forgotten.
 */
void transport_end_iteration(struct net *n);

/* Somebody is to be woken, something is to be committed, or there are answers to be sent. */
static inline bool transport_has_answers(const struct net *n)
{
    return n->engine->batch_changes != 0 || !TAILQ_EMPTY(&n->queued) ||
           !TAILQ_EMPTY(&n->engine->store.ready);
}

/* True: there is more to do, so the loop must not sleep. */
static inline bool transport_has_work(const struct net *n)
{
    const struct store *s = &n->engine->store;
    /* All of them are looked at in each iteration: without a branch for each. */
    uint64_t there =
        (uint64_t)(uintptr_t)TAILQ_FIRST(&n->told) | (uint64_t)(uintptr_t)TAILQ_FIRST(&n->bulk) |
        (uint64_t)(uintptr_t)TAILQ_FIRST(&n->closed) |
        (uint64_t)(uintptr_t)TAILQ_FIRST(&n->queued) | (uint64_t)(uintptr_t)TAILQ_FIRST(&s->ready) |
        n->engine->batch_changes | n->stalled_until_ms | s->lazy_free.bytes | n->deferred_count;

    return there != 0;
}

/* Drops connections that have been stalled since `deadline_ms` (engine_lived_ms()) or earlier: at
 * the end of this iteration, and of the next ones. Whose bytes are here, or who reads again, goes
 * on, though libevent has not told it yet. */
void transport_drop_stalled(struct net *n, uint64_t deadline_ms);

/* No new connections; those that are open get what is queued for them, and are closed. */
void transport_drain(struct net *n);

/* Closes all connections; they are freed at the end of the iteration. */
void transport_close_open(struct net *n, const char *reason);

/* Closes and frees all connections, and what they are made of. */
void transport_close_all(struct net *n, const char *reason);
