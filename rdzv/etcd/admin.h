/* What etcd answers beside keys and auth, and what the daemon answers for itself. */
#pragma once

#include "rdzv/etcd/members.h"
#include "rdzv/http/reply.h"

/* Answers /v2/machines, /v2/members, /v2/stats, /version, /health, /metrics, /debug/vars and
 * /config/local/log, and what rdzv_api.h names. False: the path is none of these, and nothing has
 * been answered. */
bool etcd_admin_handle(const struct http_request *r);
