/* Every HTTP path of the daemon. */
#pragma once

#include "rdzv/http/route.h"

/* Ends with a NULL path. */
extern const struct http_route http_routes[];
