/* The body of a reply, which grows while it is written: an endpoint need not know beforehand how
 * long it becomes.
 *
 *     struct reply_body body;
 *
 *     reply_body_begin(&body);
 *     writer_str(&body.w, "…");
 *     reply_body_send(r, &(struct reply){.status = 200, …}, &body);
 */
#pragma once

#include "rdzv/http/reply.h"

/* Stays where it is, from reply_body_begin() on: it points into itself. */
struct reply_body {
    struct writer w;   /* counts on, without writing, when memory is short */
    struct blob *blob; /* of a large one; NULL: all is in `small` */
    uint8_t small[1024];
};

void reply_body_begin(struct reply_body *b);

/* True when all that was written is there. */
static inline bool reply_body_is_whole(const struct reply_body *b)
{
    return b->w.len <= b->w.cap;
}

/* Frees a body that is not sent. */
void reply_body_drop(struct reply_body *b);

/* Replies with what was written and frees it. When memory was short it
 * replies that. */
void reply_body_send(const struct http_request *r, const struct reply *reply, struct reply_body *b);

/* --- Replies of {"message":"…"}, without a newline, as etcd's members and auth endpoints send
 * them. --- */

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
