/* /v2/keys: etcd's v2 key space over HTTP. */
#pragma once

#include "rdzv/http/reply.h"

/* Handles any request whose path is /v2/keys or below it. */
void etcd_keys_handle(const struct http_request *r);
