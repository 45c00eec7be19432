/* Every HTTP path of the daemon. */
#pragma once

#include "rdzv/engine/stats.h"
#include "rdzv/http/session.h"

/* Ends with a NULL path. */
extern const struct http_route http_routes[];

/* The same of a replica that does not lead, in the same order, by which requests are counted: what
 * has a `standby` answers so, and all else is refused; or, if the replica `passes_on`, it is passed
 * on to the one that leads, but for the page. */
void routes_stand_by(struct http_route out[STATS_ROUTES], bool passes_on);

/* Those of a relay. */
extern const struct http_route relay_routes[];
