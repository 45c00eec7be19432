/* Who sends a request to etcd's API, and what that user may do. */
#pragma once

#include "rdzv/http/reply.h"

enum etcd_access {
    ETCD_ACCESS_GRANTED,
    ETCD_ACCESS_REFUSED,
    ETCD_ACCESS_PENDING, /* the endpoint returns: it is called again when the password has been
                            hashed, or the reply has been sent; see hash_wait.h */
};

/* May this request to /v2/keys do what it asks? `write` is anything but GET and HEAD. */
enum etcd_access etcd_access_to_keys(const struct http_request *r, bool write, bool recursive);

/* May it change members, users, roles and the switch? While auth is off, all may. */
enum etcd_access etcd_access_as_root(const struct http_request *r);

/* Who may make users, and so the first root user, may lock all others out by switching auth on. May
 * the sender, while it is off? */
enum etcd_access etcd_access_to_set_up(const struct http_request *r);

/* What members and auth say to those who are refused, with a 401. (/v2/keys has an error of its
 * own, ETCD_UNAUTHORIZED.) */
#define ETCD_REFUSED_SENDER "Insufficient credentials"

/* Has it credentials, from an address that has sent wrong ones and has to wait? */
bool etcd_is_held_off(const struct http_request *r);
