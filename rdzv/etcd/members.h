/* /v2/members and /v2/machines: a cluster of one, which cannot be changed. */
#pragma once

#include "rdzv/http/reply.h"

/* Handles any request whose path is /v2/members or below it. */
void etcd_members_handle(const struct http_request *r);
void etcd_machines_handle(const struct http_request *r);
