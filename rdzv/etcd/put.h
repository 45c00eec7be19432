/* What a change of /v2/keys is answered with, once it is made. */
#pragma once

#include "proto/etcd.h"
#include "rdzv/http/reply.h"

struct tree_event;

/* Replies with the event of the change; or starts a job that does, when that is large. */
void etcd_reply_changed(const struct http_request *r, const struct etcd_request *q,
                        struct tree_event *e);
