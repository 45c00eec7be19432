/* The states of a session, and what is left of one that was dropped. See link_session.h for the
 * contract. */
#include <assert.h>

#include "rdzv/engine/clock.h"
#include "rdzv/relay/link_session.h"

/* --- States. --- */

#define IN_LINK (1u << RELAYED_OPENING | 1u << RELAYED_OPEN | 1u << RELAYED_CLOSING)
#define NO_LINK (1u << RELAYED_DETACHED | 1u << RELAYED_AWAITED)
#define NO_CONN (1u << RELAYED_DROPPED | 1u << RELAYED_DUE)
#define FREED   (1u << RELAYED_NONE)

/* 1: the move is into the set of states, -1: out of it. */
static int crosses(unsigned set, unsigned from, unsigned to)
{
    return ((set & 1u << to) != 0) - ((set & 1u << from) != 0);
}

static void change_lists(struct relay_session *s, unsigned from, unsigned to)
{
    struct relay_links *all = s->all;
    struct stats *stats = &all->engine->stats;
    int in_link = crosses(IN_LINK, from, to), no_link = crosses(NO_LINK, from, to);
    int awaited = crosses(1u << RELAYED_AWAITED, from, to), no_conn = crosses(NO_CONN, from, to);

    if (awaited < 0)
        TAILQ_REMOVE(&all->awaited, s, returns);
    if (no_link < 0)
        TAILQ_REMOVE(&all->detached, s, entry);
    if (no_conn < 0)
        TAILQ_REMOVE(&all->dropped, s, returns);
    if (no_link > 0)
        TAILQ_INSERT_TAIL(&all->detached, s, entry);
    if (awaited > 0)
        TAILQ_INSERT_TAIL(&all->awaited, s, returns);
    if (no_conn > 0)
        TAILQ_INSERT_TAIL(&all->dropped, s, returns);
    stats->sessions_attached += (uint64_t)in_link;
    stats->sessions_detached += (uint64_t)no_link;
    all->dropped_count += (size_t)no_conn;
}

void relay_session_enter(struct relay_session *s, enum relay_session_state next)
{
    static const unsigned legal[] = {
        [RELAYED_NONE] = 1u << RELAYED_OPENING,
        [RELAYED_OPENING] =
            1u << RELAYED_OPEN | 1u << RELAYED_CLOSING | 1u << RELAYED_DETACHED | NO_CONN | FREED,
        [RELAYED_OPEN] = 1u << RELAYED_CLOSING | 1u << RELAYED_DETACHED | NO_CONN | FREED,
        [RELAYED_CLOSING] = 1u << RELAYED_DUE | FREED,
        [RELAYED_DETACHED] = 1u << RELAYED_OPENING | 1u << RELAYED_AWAITED | NO_CONN | FREED,
        [RELAYED_AWAITED] = 1u << RELAYED_OPENING | 1u << RELAYED_DETACHED | NO_CONN | FREED,
        [RELAYED_DROPPED] = 1u << RELAYED_DUE | FREED,
        [RELAYED_DUE] = FREED,
    };

    assert(legal[s->state] & 1u << next);
    change_lists(s, s->state, next);
    s->state = (uint8_t)next;
}

void relay_session_leave_channel(struct relay_session *s)
{
    struct relay_link *link = s->link;

    TAILQ_REMOVE(&link->sessions, s, entry);
    table_remove(&link->channels, &s->by_channel);
    if (link->last == s)
        link->last = NULL;
    s->link = NULL;
}

void relay_session_free(struct relay_session *s)
{
    relay_session_enter(s, RELAYED_NONE);
    if (s->link != NULL)
        relay_session_leave_channel(s);
    table_remove(&s->all->sessions, &s->by_id);
    account_free(ACCOUNT_SESSIONS, s, sizeof *s);
}

/* --- Sessions that the store has dropped by itself: their records are kept until their relays
 * know. --- */

void relay_session_bury(struct relay_session *s, bool and_record)
{
    struct relay_links *all = s->all;
    struct engine_space *space = s->space;
    uint64_t id = s->id;

    relay_session_free(s);
    if (and_record && !engine_session_end(all->engine, space, id))
        relay_links_sweep_anew(all);
}

static void keep_record_of(struct relay_session *s, enum relay_session_state next)
{
    struct relay_links *all = s->all;

    if (all->dropped_count == RELAY_DROPPED_MAX)
        relay_session_bury(TAILQ_FIRST(&all->dropped), true);
    relay_session_enter(s, next);
}

/* The store has dropped it, and its relay may not know. */
static bool is_dropped_unheard(const struct relay_session *s)
{
    return s->record != RECORD_NONE && s->state != RELAYED_CLOSING && s->carrier.is_dropped &&
           s->carrier.why != DROP_RUN;
}

void relay_session_end(struct relay_session *s)
{
    if (is_dropped_unheard(s))
        keep_record_of(s, RELAYED_DROPPED);
    else if (engine_session_end(s->all->engine, s->space, s->id))
        relay_session_free(s);
    else
        keep_record_of(s, RELAYED_DUE);
}

void relay_dropped_tick(struct relay_links *all, uint64_t now_ms)
{
    uint64_t timeout = all->config->session_timeout_ms;
    struct relay_session *s, *next;

    for (s = TAILQ_FIRST(&all->dropped); s != NULL; s = next) {
        next = TAILQ_NEXT(s, returns);
        if (s->state == RELAYED_DROPPED && s->link == NULL &&
            clock_elapsed_ms(s->detached_ms, now_ms) >= timeout)
            relay_session_enter(s, RELAYED_DUE);
        if (s->state == RELAYED_DUE && engine_session_end(all->engine, s->space, s->id))
            relay_session_bury(s, false);
    }
}
