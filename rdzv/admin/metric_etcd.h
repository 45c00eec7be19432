/* etcd's own metrics, as far as they mean something here: what dashboards and alerts for etcd ask
 * for. */
#pragma once

#include <stdio.h>

#include "rdzv/http/reply.h"

/* Those of the space of the request's listener. */
void metrics_write_etcd(FILE *out, const struct http_request *r);

/* Those of the daemon. */
void metrics_write_etcd_server(FILE *out, const struct http *http);
