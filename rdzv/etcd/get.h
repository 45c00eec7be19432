/* GET of /v2/keys: small ones at once, large ones in slices. */
#pragma once

#include "proto/etcd.h"
#include "rdzv/http/reply.h"

/* Replies with a node, or that there is none; or starts a job that does. */
void etcd_reply_get(const struct http_request *r, struct slice key, const struct etcd_request *q);

/* {"errorCode":…}, with the status that goes with it. */
void etcd_reply_error(const struct http_request *r, enum etcd_code code, struct slice cause,
                      uint64_t index);
