/* What a relay says of itself: its readiness, and its metrics. */
#pragma once

#include <stdio.h>

#include "rdzv/http/reply.h"

/* GET /readyz of a relay: 503 until it has reached a store for the first time, and once it is
 * shutting down. While the store is away later it stays ready: the relay then does what it is for,
 * it holds what clients ask; a pod must not be restarted, nor lose its name in DNS, because its
 * store restarts. ?verbose says how long the store has been away. */
void relay_readyz_handle(const struct http_request *r);

/* What it has passed on, of all spaces: a part of /metrics. */
void metrics_write_forwards(FILE *out, const struct forwards *f);

/* GET /metrics of a relay. */
void relay_metrics_handle(const struct http_request *r);
