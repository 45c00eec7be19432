/* A daemon that passes on what its clients ask: the parts of the server that only a relay has. */
#pragma once

#include "rdzv/net/client_tls.h"
#include "rdzv/relay/client.h"
#include "rdzv/relay/http_pass.h"
#include "rdzv/relay/upstream.h"
#include "rdzv/role.h"

#define RELAY_HOST_NAME_ROOM 256

struct relay_parts {
    struct relay relay;
    struct relay_front clients;
    struct client_tls tls;
    struct upstream upstream;
    struct relay_http http;
    char host_name[RELAY_HOST_NAME_ROOM];
    uint64_t link_number; /* the link that `http` knows of; 0: none */
    struct protocol client_protocol;
};
