/* /v2/auth: users, roles and the switch of etcd's v2 auth over HTTP, and which requests they
 * allow. */
#pragma once

#include "rdzv/http/reply.h"

/* Handles any request whose path is /v2/auth or below it. */
void etcd_auth_handle(const struct http_request *r);

/* May this request to /v2/keys do what it asks? `write` is anything but GET and HEAD. */
bool etcd_auth_allows_keys(const struct http_request *r, bool write, bool recursive);

/* May it change members, users, roles and the switch? */
bool etcd_auth_is_root(const struct http_request *r);

/* Does it take the hash of a password? */
bool etcd_auth_is_costly(const struct http_request *r);

/* The 401 of members and auth. (That of keys is an error of its own, ETCD_UNAUTHORIZED.) */
void etcd_auth_reply_refused(const struct http_request *r);
