/* Replies of {"message":"…"}. See message.h for the contract. */
#include "rdzv/http/message.h"

#include "proto/json.h"
#include "rdzv/http/body.h"

void reply_message_parts(const struct http_request *r, unsigned status, enum http_etcd_headers etcd,
                         const struct slice *parts, size_t count)
{
    struct reply_body body;

    reply_body_begin(&body);
    writer_str(&body.w, "{\"message\":\"");
    for (size_t i = 0; i < count; i++)
        json_text(&body.w, parts[i]);
    writer_str(&body.w, "\"}");
    reply_body_send(r, &(struct reply){.status = status, .content_type = HTTP_JSON, .etcd = etcd},
                    &body);
}

void reply_message(const struct http_request *r, unsigned status, const char *message,
                   enum http_etcd_headers etcd)
{
    REPLY_MESSAGE(r, status, etcd, slice_str(message));
}
