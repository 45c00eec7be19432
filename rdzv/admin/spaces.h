/* The daemon's own HTTP endpoints: /livez, /readyz, and the spaces under /rdzv/v1. */
#pragma once

#include "rdzv/http/reply.h"

/* False: the path is none of them. */
bool rdzv_api_handle(const struct http_request *r);
