/* Every HTTP path of the daemon. */
#pragma once

#include "rdzv/http/route.h"

/* Ends with a NULL path. */
extern const struct http_route http_routes[];

/* Those of a replica that does not lead, in the same order: probes and metrics, and all else is
 * refused. */
extern const struct http_route standby_routes[];

/* Those of a relay. */
extern const struct http_route relay_routes[];
