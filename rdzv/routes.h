/* Every HTTP path of the daemon. */
#pragma once

#include "rdzv/engine/stats.h"
#include "rdzv/http/route.h"

/* Ends with a NULL path. */
extern const struct http_route http_routes[];

/* The same of a replica that does not lead, in the same order, by which requests are counted: what
 * has a `standby` answers so, and all else is refused. */
void routes_stand_by(struct http_route out[STATS_ROUTES]);

/* Those of a relay. */
extern const struct http_route relay_routes[];
