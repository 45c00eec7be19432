/* The metrics that every daemon has, whatever it is. */
#pragma once

#include <stdio.h>

#include "rdzv/net/net.h"

struct http_route;

struct daemon_state {
    const char *role; /* "store", "relay" */
    bool is_ready;    /* as /readyz says */
};

/* Connections, requests by the routes of this daemon, iterations, the log and memory. */
void metrics_write_daemon(FILE *out, const struct net *n, const struct http_route *routes,
                          const struct daemon_state *state);

/* As every exporter has them. */
void metrics_write_process(FILE *out, const struct engine *e);
