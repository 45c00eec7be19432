/* The daemon's probes, whose checks are written as Kubernetes writes its own. */
#pragma once

#include "rdzv/http/reply.h"

/* GET /livez: the loop runs. */
void admin_livez_handle(const struct http_request *r);

/* GET /readyz: and the daemon takes clients; 503 once it is shutting down, and while another
 * replica leads that this one has no link to. With ?verbose: which checks there are and what they
 * say; with ?exclude=NAME, once or several times: without those checks. `?exclude=leader` so takes
 * a replica that could lead. */
void admin_readyz_handle(const struct http_request *r);

/* One check of a probe. */
struct health_check {
    const char *name;
    bool ok;
    const char *why; /* what more there is to say; NULL: its name says all */
};

/* Replies with checks; 503 when one of them has failed. */
void health_reply(const struct http_request *r, const char *name, const struct health_check *checks,
                  size_t count);

/* Whether anybody can connect. */
bool health_has_listener(const struct net *n);

/* What /readyz says of a store; `forwards` is that of its struct http. */
bool health_is_ready(const struct net *n, const struct forwards *forwards);
