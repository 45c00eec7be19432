/* Every HTTP path of the daemon. */
#pragma once

#include "rdzv/http/route.h"

/* Ends with a NULL path. */
extern const struct http_route http_routes[];

/* Those of a relay. */
extern const struct http_route relay_routes[];
