/* How the runs stand, for operators and for the status page.
 *
 *     GET /rdzv/v1/status               the daemon, and each space that may be seen here
 *     GET /rdzv/v1/spaces/NAME/status   one of these spaces
 *
 * Each with ?watch=true: server-sent events, see status_feed.h. */
#pragma once

#include "rdzv/http/reply.h"

void admin_status_handle(const struct http_request *r);

/* `space` is NULL when there is none of that name, which `name` is. */
void admin_space_status_handle(const struct http_request *r, struct engine_space *space,
                               struct slice name);
