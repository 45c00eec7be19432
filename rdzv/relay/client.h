/* c10d on a relay's connection: the bytes of a client are cut into requests, which the client's
 * session keeps and sends upstream (relay.h). VALIDATE and PING are answered here. */
#pragma once

#include "rdzv/net/conn.h"
#include "rdzv/relay/relay.h"

/* What all clients of a relay share. */
struct relay_front {
    const struct config *config;
    struct relay *relay;
    struct engine *engine;
};

/* What the sessions need of a client, which is a struct conn. */
extern const struct relay_calls relay_client_calls;

/* The table that connections get; `clients` outlives it. */
struct protocol relay_client_protocol(struct relay_front *clients);
