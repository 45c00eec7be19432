/* The store's side of relays. A link is a relay's connection: it brings the sessions of all its
 * clients, each as a connection without a socket (net/backend.h), on which c10d and all layers
 * above work as usual. proto/relay.h has the frames.
 *
 * A session outlives its link. When the link is lost, the session is detached: it keeps waiting for
 * its keys, and its queued answers and incomplete requests are dropped. The relay repeats these
 * requests when it opens the session again, on any link. If no relay opens the session for
 * --session-timeout, the session ends as if the client had left. If the link was not merely silent
 * but closed by the relay's side, the relay has probably ended, and its clients with it: such an
 * agent counts as dead after RELAY_RETURN_MS, and lives again when a relay opens its session. The
 * engine's record of a session (engine_session_find()) outlives the process; and also the session,
 * if the store has dropped it and the relay may not know (link_session.h).
 *
 * HTTP that comes through relays begins as a link does, with RELAY_MAGIC and a HELLO, whose `http`
 * says that plain HTTP/1.1 follows the WELCOME. So one rule admits a relay and gives it a space,
 * for c10d and for HTTP; and no header of HTTP names the space, because any client could send such
 * a header. Behind the WELCOME the connection is an ordinary HTTP connection, except that the relay
 * has checked the Host header.
 *
 * An agent whose relay has ended while the store was down is missed only --session-timeout after
 * the start; until then its node grows old by torch's own clock. An earlier end would stop rounds
 * because of slow relays: if the store has come up at another address, each machine tries the old
 * one while it caches names, which is half a minute and proves nothing. */
#pragma once

#include "rdzv/relay/link_session.h"

/* The arguments must outlive `all`, except `http`: the listeners' own HTTP, which is copied. */
void relay_links_init(struct relay_links *all, const struct config *config, struct engine *engine,
                      struct net *net, const struct protocol *c10d, const struct http *http);

/* The data directory is open, or this replica leads: sessions that the engine has are to come back,
 * within --session-timeout from now. */
void relay_links_start(struct relay_links *all);

/* This replica does not lead: until relay_links_lead(), it refuses relays, or lets them wait for up
 * to RELAY_STANDBY_MS if they want. A relay that has lost its store asks each replica, and if none
 * leads, waits at one replica: as soon as this replica leads, it welcomes the relay; as soon as
 * this replica knows another leader, it sends the relay there (relay_links_send_on() names the
 * leader). From relay_links_lead() on, WELCOME names the journal that the replicas share; an empty
 * name means that no replicas exist. */
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
    return !TAILQ_EMPTY(&all->net->held);
}

/* The end of an iteration: detaches some sessions of lost links, and gives up some whose relay
 * stays away. True: more remain. */
bool relay_links_work(struct relay_links *all);

static inline bool relay_links_have_work(const struct relay_links *all)
{
    return !TAILQ_EMPTY(&all->lost) || all->gives_up;
}

/* Once a second: sessions without a relay for too long end. */
void relay_links_tick(struct relay_links *all);
