/* etcd's small endpoints beside keys, auth, members and stats. */
#pragma once

#include "rdzv/http/reply.h"

void etcd_version_handle(const struct http_request *r);   /* /version */
void etcd_health_handle(const struct http_request *r);    /* /health */
void etcd_vars_handle(const struct http_request *r);      /* /debug/vars */
void etcd_log_level_handle(const struct http_request *r); /* /config/local/log */
