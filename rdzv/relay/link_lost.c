/* Links that are lost: their sessions are detached bit by bit, as there may be 65,536 of them. See
 * link_session.h for the contract. */
#include "rdzv/net/budget.h"
#include "rdzv/relay/link_session.h"

/* Of so many, all are detached at once. */
#define AT_ONCE 256u

/* Nanoseconds, see budget.h. */
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
