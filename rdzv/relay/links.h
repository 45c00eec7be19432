/* All links of a store, and all sessions of their relays' clients: what link.c and link_session.c
 * share. See link.h. */
#pragma once

#include "rdzv/c10d/session.h"
#include "store/table.h"

struct relay_link;
struct relay_session;

TAILQ_HEAD(relay_session_list, relay_session);

struct relay_links {
    const struct config *config;
    struct engine *engine;
    struct net *net;
    const struct protocol *c10d;
    char store_name[CONN_VIA_MAX];

    struct table sessions;              /* by id and space */
    struct relay_session_list detached; /* the longest first */
    uint64_t swept_ms; /* engine_lived_ms(): when sessions that only the engine knows were last
                          looked at; the start */
    bool sweeps;       /* there may be some */
    bool stopping;     /* sessions stay in the engine, for the next start */
};
