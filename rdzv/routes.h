/* Every HTTP path of the daemon. */
#pragma once

#include "rdzv/engine/stats.h"
#include "rdzv/http/session.h"

/* Ends with a NULL path. */
extern const struct http_route http_routes[];

/* The routes of a replica that does not lead, in the same order, because requests are counted by
 * the index of their route. A route with a `standby` handler answers by that; all other requests
 * are refused, or, if the replica `passes_on`, go to the leader (except those for the page). */
void routes_stand_by(struct http_route out[STATS_ROUTES], bool passes_on);

/* Those of a relay. */
extern const struct http_route relay_routes[];
