/* The users and the roles below /v2/auth; auth.c has found out that the sender may see and change
 * them. */
#pragma once

#include "rdzv/http/reply.h"
#include "store/auth.h"

/* One of them, by GET, PUT and DELETE. */
void etcd_user_handle(const struct http_request *r, struct slice name);
void etcd_role_handle(const struct http_request *r, struct slice name);

/* All of them: what etcd_auth_reply_written() takes, of a struct auth. */
void etcd_write_users(struct writer *w, const void *auth);
void etcd_write_roles(struct writer *w, const void *auth);
