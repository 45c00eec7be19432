/* The daemon's probes, whose checks are written as Kubernetes writes its own. */
#pragma once

#include "rdzv/http/reply.h"

/* GET /livez: the loop runs. */
void admin_livez_handle(const struct http_request *r);

/* GET /readyz: and the daemon takes clients; 503 once it is shutting down. With ?verbose: which
 * checks there are and what they say. */
void admin_readyz_handle(const struct http_request *r);
