/* All links of a store, and all sessions of their relays' clients: what link.c and link_session.c
 * share. See link.h. */
#pragma once

#include "rdzv/c10d/carried.h"
#include "rdzv/relay/greeting.h"
#include "store/memory/table.h"

/* A relay that lives tries to get another link at once, then after 50 ms, doubling to a second and
 * never later than 1.25 s (retry.h): at least six times within this time, which also lets the copy
 * of a lost SYN arrive. */
#define RELAY_RETURN_MS 3000u

/* Sessions that were dropped, of which so many records are kept until their relays know. */
#define RELAY_DROPPED_MAX 1024u

/* Sessions of one link: as many clients as one address can have at one port. */
#define RELAY_CLIENTS_MAX 65536u

/* A replica that does not lead keeps a relay that asks for it waiting for so long: it may lead
 * soon. */
#define RELAY_STANDBY_MS 2000u

/* What a relay is told then. */
#define RELAY_LEADER_MAX 160

struct relay_link;
struct relay_session;

TAILQ_HEAD(relay_link_list, relay_link);
TAILQ_HEAD(relay_session_list, relay_session);

struct relay_links {
    const struct config *config;
    struct engine *engine;
    struct net *net;
    const struct protocol *c10d;
    char store_name[CONN_VIA_MAX];
    size_t clients_max;              /* sessions of one link: RELAY_CLIENTS_MAX */
    struct greeting_journal journal; /* that replicas share; its name is empty: there are none */

    bool stands_by;                       /* this replica does not lead yet */
    char stands_by_why[RELAY_LEADER_MAX]; /* and who does, as far as it knows */
    struct relay_link_list waiting;       /* for that; their relays have said HELLO */

    struct table sessions;              /* by id and space */
    struct relay_session_list detached; /* the longest first */
    struct relay_session_list awaited;  /* of those: their relay has closed the link, and may yet be
                                           back within RELAY_RETURN_MS */
    struct relay_session_list held;     /* wait until the journal takes changes again */
    struct relay_session_list dropped;  /* those are no connections any more: link_session.h */
    size_t dropped_count;
    bool gives_up;               /* more of those that are awaited are due */
    struct relay_link_list lost; /* have sessions that are not detached yet */
    uint64_t cut_off_ms; /* engine_lived_ms() when this replica was last cut off: until then no
                          * relay could come back */
    uint64_t started_ms; /* engine_lived_ms() of relay_links_start(): --session-timeout of sessions
                            that only the engine knows begins */
    size_t missed;       /* spaces that miss sessions from before the start */
    bool sweeps;         /* there may be some */
    struct {
        struct engine_space *space; /* NULL: the first */
        uint64_t session;           /* 0: the first */
    } sweep;                        /* where the search for them goes on */
    bool stopping;                  /* sessions stay in the engine, for the next start */
};

/* Looks for sessions that only the engine knows, from the first on. */
static inline void relay_links_sweep_anew(struct relay_links *all)
{
    all->sweeps = true;
    all->sweep.space = NULL;
    all->sweep.session = 0;
}
