/* /metrics: the daemon's numbers for Prometheus. */
#pragma once

#include "rdzv/http/reply.h"

/* Replies with etcd's names, as far as they mean something here, of the listener's space; with our
 * own of all spaces; and with those of the process that every exporter has. */
void admin_metrics_handle(const struct http_request *r);
