/* {"message":"…"} answers that quote what the peer sent: texts put together of slices, which may be
 * long and hold any bytes. */
#pragma once

#include "rdzv/http_reply.h"

/* HTTP_REPLY_MESSAGE(r, 404, HTTP_ETCD_CLUSTER, slice_str("No such member: "), id); */
#define HTTP_REPLY_MESSAGE(r, status, etcd, ...)                                 \
    http_reply_parts((r), (status), (etcd), (const struct slice[]){__VA_ARGS__}, \
                     sizeof((const struct slice[]){__VA_ARGS__}) / sizeof(struct slice))

void http_reply_parts(const struct http_request *r, unsigned status, enum http_etcd_headers etcd,
                      const struct slice *parts, size_t count);
