/* What the endpoints below /v2/auth share: their replies, and how they carry out a change. */
#pragma once

#include "rdzv/http/message.h"
#include "rdzv/http/reply.h"

/* The list of users repeats each role for each of its users, so it can be far longer than all that
 * clients sent. etcd has no limit and runs out of memory instead. */
#define ETCD_AUTH_REPLY_MAX (64u << 20)

void etcd_auth_reply(const struct http_request *r, unsigned status, struct slice body);

/* JSON, which `write` may stop writing when it has become longer than ETCD_AUTH_REPLY_MAX: it is
 * not sent then. */
void etcd_auth_reply_written(const struct http_request *r, unsigned status,
                             void (*write)(struct writer *w, const void *what), const void *what);

/* A 500; the reason goes to the log alone. */
void etcd_auth_reply_failed(const struct http_request *r, const char *reason);

/* {"message":"auth: …"} */
#define ETCD_AUTH_ERROR(r, status, ...) \
    REPLY_MESSAGE((r), (status), HTTP_ETCD_CLUSTER, slice_str("auth: "), __VA_ARGS__)

/* Carries out a change. Of AUTH_NO_ROOM this sends the reply, of all else the caller. */
enum auth_status etcd_auth_apply(const struct http_request *r, const struct command *command);

/* etcd keeps users and roles as keys, and keys with an underscore in front are not listed. */
bool etcd_auth_is_hidden(struct slice name);

bool etcd_auth_list_is(const struct command_list *a, const struct command_list *b);
