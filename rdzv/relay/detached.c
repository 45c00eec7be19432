/* Sessions without a link. See link_session.h for the contract. */
#include "rdzv/engine/clock.h"
#include "rdzv/net/iteration.h"
#include "rdzv/relay/link_session.h"

/* --- Links that are lost: their sessions are detached bit by bit, as there may be 65,536 of them.
 * --- */

/* Of so many, all are detached at once. */
#define AT_ONCE 256u

/* Nanoseconds, see iteration.h. */
#define DETACH_COST 1000u

static void forget(struct relay_link *link)
{
    TAILQ_REMOVE(&link->all->lost, link, entry);
    table_fini(&link->channels);
    account_free(ACCOUNT_SESSIONS, link, sizeof *link);
}

/* The first session goes, and then the link: false. */
static bool detach_one(struct relay_link *link)
{
    struct relay_session *s = TAILQ_FIRST(&link->sessions);

    if (s != NULL)
        relay_session_detach(s);
    else
        forget(link);
    return s != NULL;
}

/* Links are lost in order, so that their sessions are detached in that order, too. */
void relay_link_lose(struct relay_link *link)
{
    struct relay_links *all = link->all;
    bool at_once = TAILQ_EMPTY(&all->lost) && link->channels.count <= AT_ONCE;

    link->peer_left = link->conn->peer_left;
    link->lost_ms = engine_lived_ms(all->engine);
    link->conn = NULL;
    TAILQ_INSERT_TAIL(&all->lost, link, entry);
    if (!at_once)
        return;
    while (detach_one(link))
        net_spend(all->net, DETACH_COST);
}

void relay_lost_detach(struct relay_links *all)
{
    struct budget *b = &all->net->budget;

    budget_begin_part(b, BUDGET_SMALL_NS);
    while (!b->over && !TAILQ_EMPTY(&all->lost)) {
        detach_one(TAILQ_FIRST(&all->lost));
        budget_spend(b, DETACH_COST);
    }
}

void relay_lost_fini(struct relay_links *all)
{
    while (!TAILQ_EMPTY(&all->lost))
        forget(TAILQ_FIRST(&all->lost));
}

/* --- Sessions that the store has dropped by itself: their records are kept until their relays
 * know. --- */

void relay_session_bury(struct relay_session *s, bool and_record)
{
    struct relay_links *all = s->all;
    struct engine_space *space = s->space;
    uint64_t id = s->id;

    TAILQ_REMOVE(&all->dropped, s, returns);
    all->dropped_count--;
    relay_session_free(s);
    if (and_record && !engine_session_end(all->engine, space, id))
        relay_links_sweep_anew(all);
}

static void keep(struct relay_session *s)
{
    struct relay_links *all = s->all;

    if (all->dropped_count == RELAY_DROPPED_MAX)
        relay_session_bury(TAILQ_FIRST(&all->dropped), true);
    TAILQ_INSERT_TAIL(&all->dropped, s, returns);
    all->dropped_count++;
}

/* The store has dropped it, and its relay may not know. */
static bool is_in_doubt(const struct relay_session *s)
{
    return s->is_known && !s->has_ended && s->carrier.is_dropped && s->carrier.why != DROP_RUN;
}

void relay_session_end(struct relay_session *s)
{
    if (is_in_doubt(s)) {
        keep(s);
    } else if (engine_session_end(s->all->engine, s->space, s->id)) {
        relay_session_free(s);
    } else {
        s->is_due = true;
        keep(s);
    }
}

void relay_session_detach_dropped(struct relay_session *s)
{
    relay_session_leave_channel(s);
    s->detached_ms = engine_lived_ms(s->all->engine);
}

void relay_dropped_tick(struct relay_links *all, uint64_t now_ms)
{
    uint64_t timeout = all->config->session_timeout_ms;
    struct relay_session *s, *next;

    for (s = TAILQ_FIRST(&all->dropped); s != NULL; s = next) {
        next = TAILQ_NEXT(s, returns);
        s->is_due =
            s->is_due || (s->link == NULL && clock_elapsed_ms(s->detached_ms, now_ms) >= timeout);
        if (s->is_due && engine_session_end(all->engine, s->space, s->id))
            relay_session_bury(s, false);
    }
}

void relay_dropped_fini(struct relay_links *all)
{
    struct relay_session *s;

    while ((s = TAILQ_FIRST(&all->dropped)) != NULL)
        relay_session_bury(s, false);
}
