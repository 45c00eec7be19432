/* Which endpoint handles which path. The table itself is rdzv/routes.c. */
#pragma once

#include "proto/bytes.h"

struct http_request;

enum http_route_kind {
    ROUTE_EXACT, /* this path alone */
    ROUTE_BELOW, /* this path, and all that has a '/' behind it */
    ROUTE_ALL,   /* every path */
};

enum http_route_flags {
    ROUTE_USES_STORE = 1 << 0,           /* counts as a use, see --exit-when-idle */
    ROUTE_ON_METRICS_LISTENERS = 1 << 1, /* is served on --listen-metrics-urls, too */
    ROUTE_IS_PROBE = 1 << 2,        /* is served when there is no room for more connections, too */
    ROUTE_CHEAP = 1 << 3,           /* takes microseconds */
    ROUTE_FOR_READERS = 1 << 4,     /* is refused to others, see access.h */
    ROUTE_TAKES_ADDRESSES = 1 << 5, /* a Host that is an address, or localhost, is welcome */
};

struct http_route {
    const char *path;
    enum http_route_kind kind;
    /* Replies once, or starts a watch: see reply.h. */
    void (*handle)(const struct http_request *r);
    unsigned flags; /* of enum http_route_flags */
    /* Handles it while another replica leads. NULL: then it is refused. */
    void (*standby)(const struct http_request *r);
};

/* The first route of a table (which ends with a NULL path) that covers a path; NULL: there is none.
 * `metrics`: only those of metrics listeners. */
const struct http_route *http_find_route(const struct http_route *table, struct slice path,
                                         bool metrics);

/* True when `path` is `root`, or below it. */
bool http_is_below(struct slice path, const char *root);
