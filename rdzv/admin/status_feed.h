/* /rdzv/v1/status?watch=true: server-sent events for pages that stay open.
 *
 *     event: status      the whole, as JSON in one line: at once, and then when something has
 * changed event: counters    what changes all the time, once a second: also the sign that rdzvd is
 * there
 *
 * All clients of one scope share a feed. It renders its text once for all of them, in slices, at
 * most twice a second, and takes at most a twentieth of the time for that. A client that does not
 * read gets only the newest when it reads again. */
#pragma once

#include "rdzv/admin/status_text.h"
#include "rdzv/net/net.h"

struct status_feed;

TAILQ_HEAD(status_feed_list, status_feed);

struct status_feeds {
    struct net *net;
    struct status_feed_list list; /* those that have clients */
};

void status_feeds_init(struct status_feeds *feeds, struct net *net);

/* The reply goes on until its client leaves. Clients share what is made for a space, alone or with
 * the daemon, so the rest of their scopes is the same. */
void status_feed_join(const struct http_request *r, const struct status_scope *scope);
