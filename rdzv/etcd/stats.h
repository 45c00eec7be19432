/* /v2/stats: what etcd tells about itself and its store. */
#pragma once

#include "rdzv/http/reply.h"

/* Handles /v2/stats/self, /v2/stats/leader and /v2/stats/store. */
void etcd_stats_handle(const struct http_request *r);

/* A time span as Go shows it: 1h2m3.5s, 4.406037764s, 719.343703ms, 0s. */
void etcd_write_duration(struct writer *w, int64_t ns);
