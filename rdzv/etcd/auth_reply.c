/* Replies and changes of /v2/auth. See auth_reply.h for the contract. */
#include "rdzv/etcd/auth_reply.h"

#include "rdzv/engine/log.h"
#include "rdzv/http/body.h"

void etcd_auth_reply(const struct http_request *r, unsigned status, struct slice body)
{
    reply_send(r, &(struct reply){.status = status,
                                  .content_type = HTTP_JSON,
                                  .etcd = HTTP_ETCD_CLUSTER,
                                  .body = body});
}

void etcd_auth_reply_failed(const struct http_request *r, const char *reason)
{
    log_limited(LOG_WARN, "auth_failed", log_str("space", r->space->store->name),
                log_bytes("path", r->path), log_str("reason", reason));
    reply_message(r, 500, "Internal Server Error", HTTP_ETCD_CLUSTER);
}

void etcd_auth_reply_written(const struct http_request *r, unsigned status,
                             void (*write)(struct writer *w, const void *what), const void *what)
{
    const struct reply reply = {
        .status = status, .content_type = HTTP_JSON, .etcd = HTTP_ETCD_CLUSTER};
    struct reply_body body;

    reply_body_begin(&body);
    body.max = ETCD_AUTH_REPLY_MAX;
    write(&body.w, what);
    if (reply_body_is_whole(&body)) {
        reply_body_send(r, &reply, &body);
        return;
    }
    reply_body_drop(&body);
    etcd_auth_reply_failed(r, body.w.len > ETCD_AUTH_REPLY_MAX ? "the reply is too long"
                                                               : "out of memory");
}

enum auth_status etcd_auth_apply(const struct http_request *r, const struct command *command)
{
    struct store_result result;

    engine_apply(http_engine(r), r->space, command, &result);
    if (result.auth == AUTH_NO_ROOM)
        etcd_auth_reply_failed(r, result.status == STORE_READ_ONLY
                                      ? "the data directory takes no changes"
                                      : "no room for users and roles");
    return result.auth;
}

bool etcd_auth_list_is(const struct command_list *a, const struct command_list *b)
{
    if (a->absent != b->absent || a->count != b->count)
        return false;
    for (size_t i = 0; i < a->count; i++) {
        if (!slice_equal(a->items[i], b->items[i]))
            return false;
    }
    return true;
}

bool etcd_auth_is_hidden(struct slice name)
{
    return name.len != 0 && name.ptr[0] == '_';
}
