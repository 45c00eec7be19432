/* HTTP/1.x on a connection: the protocol that finds the endpoint for each request (route.h) and
 * writes its reply (reply.h). */
#pragma once

#include "rdzv/http/reply.h"

/* The table that connections get; `http` outlives it. */
struct protocol http_protocol(struct http *http);
