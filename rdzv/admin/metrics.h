/* /metrics: the daemon's numbers for Prometheus. */
#pragma once

#include "rdzv/http/reply.h"

/* Replies with etcd's names, as far as they mean something here, of the listener's space; with our
 * own of the spaces that are shown here; and, where they are shown (access.h), with those of the
 * whole daemon, and of the process as every exporter has them. */
void admin_metrics_handle(const struct http_request *r);
