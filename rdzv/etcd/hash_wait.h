/* Requests that wait for the hash of a password. An endpoint asks for what it needs; as long as
 * that is not there, it returns, and is called again from its beginning when it is. So all that it
 * decides, it decides with what is true at that time. */
#pragma once

#include "rdzv/etcd/password.h"
#include "rdzv/http/reply.h"

enum hash_check {
    HASH_CHECK_RIGHT,
    HASH_CHECK_WRONG,
    HASH_CHECK_PENDING, /* the endpoint returns: see above, or the reply says that it cannot be */
};

/* Is it the password that `hash` was made of? What a request has found out counts for that hash
 * alone: when the user has got another one meanwhile, it waits anew. */
enum hash_check hash_wait_check(const struct http_request *r, struct slice password,
                                struct slice hash);

/* The hash of a new password, which is usable. False: as HASH_CHECK_PENDING. */
bool hash_wait_new(const struct http_request *r, struct slice password,
                   char hash[PASSWORD_HASH_MAX]);
