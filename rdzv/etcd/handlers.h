/* The endpoints of etcd's v2 API and of the small pages beside it. */
#pragma once

#include "rdzv/http/reply.h"

void etcd_keys_handle(const struct http_request *r);    /* /v2/keys and below */
void etcd_auth_handle(const struct http_request *r);    /* /v2/auth and below: there are no users */
void etcd_members_handle(const struct http_request *r); /* /v2/members and below: of one member */
void etcd_machines_handle(const struct http_request *r); /* /v2/machines */
void etcd_stats_handle(const struct http_request *r);    /* /v2/stats/self, …/leader, …/store */
void etcd_version_handle(const struct http_request *r);  /* /version */
void etcd_health_handle(const struct http_request *r);   /* /health */
void etcd_vars_handle(const struct http_request *r);     /* /debug/vars */
void etcd_log_level_handle(const struct http_request *r); /* /config/local/log */

/* A time span as Go shows it: 1h2m3.5s, 4.406037764s, 719.343703ms, 0s. */
void etcd_write_duration(struct writer *w, int64_t ns);
