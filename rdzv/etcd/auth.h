/* /v2/auth: users, roles and the switch of etcd's v2 auth, of which rdzvd has none. */
#pragma once

#include "rdzv/http/reply.h"

/* Handles any request whose path is /v2/auth or below it. */
void etcd_auth_handle(const struct http_request *r);
