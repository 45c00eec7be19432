/* Replies of {"message":"…"}, without a newline, as etcd's members and auth endpoints send them. */
#pragma once

#include "rdzv/http/reply.h"

/* The message is put together of slices, which may be long and hold any bytes that a peer sent:
 * REPLY_MESSAGE(r, 404, HTTP_ETCD_CLUSTER, slice_str("No such member: "), id); */
#define REPLY_MESSAGE(r, status, etcd, ...)                                         \
    reply_message_parts((r), (status), (etcd), (const struct slice[]){__VA_ARGS__}, \
                        sizeof((const struct slice[]){__VA_ARGS__}) / sizeof(struct slice))

void reply_message_parts(const struct http_request *r, unsigned status, enum http_etcd_headers etcd,
                         const struct slice *parts, size_t count);

/* The same of one terminated text. */
void reply_message(const struct http_request *r, unsigned status, const char *message,
                   enum http_etcd_headers etcd);
