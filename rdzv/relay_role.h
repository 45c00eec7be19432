/* A daemon that passes on what its clients ask: the parts of the server that only a relay has. */
#pragma once

#include "rdzv/relay/client.h"
#include "rdzv/relay/upstream.h"
#include "rdzv/role.h"

struct relay_parts {
    struct relay relay;
    struct relay_clients clients;
    struct upstream upstream;
    struct protocol client_protocol;
};
