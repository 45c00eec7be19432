/* What a replica says that does not lead: that it does not, and its metrics. */
#pragma once

#include "rdzv/http/reply.h"

/* All that only the leader answers: 503, with the reason that /readyz has. */
void standby_refuse_handle(const struct http_request *r);

/* GET /metrics: without the keys, which are another replica's. */
void standby_metrics_handle(const struct http_request *r);
