/* A daemon that keeps the keys: the parts of the server that only a store has. */
#pragma once

#include "rdzv/admin/monitor.h"
#include "rdzv/admin/status.h"
#include "rdzv/c10d/session.h"
#include "rdzv/engine/data_dir.h"
#include "rdzv/etcd3/journal_etcd.h"
#include "rdzv/http/session.h"
#include "rdzv/relay/link.h"
#include "rdzv/rendezvous/rendezvous.h"
#include "rdzv/role.h"

struct store_parts {
    struct data_dir data;
    struct journal_etcd *etcd; /* NULL: the journal is no cluster */
    struct protocol standby_protocol;
    const struct protocol *standby_protocols[4]; /* while another replica leads */
    struct http_route standby_routes[STATS_ROUTES];
    struct rendezvous rendezvous;
    struct c10d c10d;
    struct relay_links links;
    struct status_feeds status_feeds;
    struct monitor monitor;
    struct protocol link_protocol, c10d_protocol;
    struct event expiry; /* the next TTL */
    struct event kept;   /* the journal has made progress; with a data directory */
    uint64_t
        refuses_since_ms;    /* the journal takes no changes; engine_lived_ms(), 0: it takes them */
    int64_t expiry_armed_ns; /* the TTL that `expiry` is set for; 0: none */
};
