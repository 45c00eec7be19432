/* The store's side of relays. A link is the connection of one relay: it brings the sessions of all
 * clients of that relay, each as a connection without a socket (net/backend.h), on which c10d and
 * everything above it work as on any other. proto/relay.h has the frames.
 *
 * A session outlives its link. When the link is lost, the session is detached: it keeps waiting for
 * its keys, and its queued answers and incomplete requests are dropped. The relay sends these
 * requests again when it opens the session anew, on any link. If no relay opens the session for
 * --session-timeout, the session ends as if the client had left. If the link was not merely silent
 * but closed by the relay's side, the relay has probably ended, and its clients with it: an agent
 * is taken for dead after RELAY_RETURN_MS, and lives again when its session is opened anew. What
 * the engine keeps of a session (engine_session_find()) outlives the process, too; and the session
 * itself, if the store has dropped it and the relay may not know (link_session.h).
 *
 * HTTP that comes through relays begins as a link does, with RELAY_MAGIC and a HELLO, whose `http`
 * says that plain HTTP/1.1 follows the WELCOME. So one rule admits a relay and gives it a space,
 * for c10d and for HTTP; and no header of HTTP names the space, because any client could send such
 * a header. Behind the WELCOME the connection is an ordinary HTTP connection, except that the relay
 * has checked the Host header.
 *
 * An agent whose relay has ended while there was no store is missed only --session-timeout after
 * the start; until then its node grows old as torch's own clock has it. To take it for dead sooner
 * would end rounds for relays that are merely slow: where the store has come up at another address,
 * each machine goes on trying the old one for as long as names are kept there, which is half a
 * minute and says nothing of the others. */
#pragma once

#include "rdzv/relay/link_session.h"

/* The arguments must outlive `all`, except `http`: the listeners' own HTTP, which is copied. */
void relay_links_init(struct relay_links *all, const struct config *config, struct engine *engine,
                      struct net *net, const struct protocol *c10d, const struct http *http);

/* The data directory is open, or this replica leads: sessions that the engine has are to come back,
 * within --session-timeout from now. */
void relay_links_start(struct relay_links *all);

/* This replica does not lead: until relay_links_lead(), relays are refused, or wait for that if
 * they want, for RELAY_STANDBY_MS at most. A relay that has lost its store asks each replica, and
 * if none leads, waits at one of them: as soon as this replica leads, it welcomes the relay; as
 * soon as this replica knows another leader, it sends the relay there (relay_links_send_on() names
 * the leader). From relay_links_lead() on, WELCOME names the journal that the replicas share; an
 * empty name means that no replicas exist. */
void relay_links_stand_by(struct relay_links *all);
void relay_links_lead(struct relay_links *all, const struct hello_journal *journal);
void relay_links_send_on(struct relay_links *all, const char *leader);

/* All connections are closed. */
void relay_links_fini(struct relay_links *all);

/* The table that links get; `all` outlives it. */
struct protocol relay_link_protocol(struct relay_links *all);

/* The journal takes changes again: resumes some of the requests that waited for it, the oldest
 * first. True if more of them wait. */
bool relay_links_continue(struct relay_links *all);

static inline bool relay_links_hold_some(const struct relay_links *all)
{
    return !TAILQ_EMPTY(&all->held);
}

/* The end of an iteration: some of the sessions of links that are lost are detached, and some whose
 * relay stays away are given up. True: there are more of them. */
bool relay_links_work(struct relay_links *all);

static inline bool relay_links_have_work(const struct relay_links *all)
{
    return !TAILQ_EMPTY(&all->lost) || all->gives_up;
}

/* Once a second: sessions that have been without a relay for too long end. */
void relay_links_tick(struct relay_links *all);
