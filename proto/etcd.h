/* etcd's v2 keys API: which operation an HTTP request asks for. What the operation does is the
 * store's matter (store/tree/tree.h), how its result is written etcd_types.h's.
 *
 * Upstream: etcd 3.4.23, etcdserver/api/v2http/client.go. */
#pragma once

#include "proto/etcd_types.h"
#include "proto/http.h"

/* What a request to /v2/keys asks for. */
enum etcd_op {
    ETCD_OP_GET, /* GET and HEAD */
    ETCD_OP_WATCH,
    ETCD_OP_SET,
    ETCD_OP_CREATE,
    ETCD_OP_CREATE_IN_ORDER,
    ETCD_OP_UPDATE,
    ETCD_OP_COMPARE_AND_SWAP,
    ETCD_OP_DELETE,
    ETCD_OP_COMPARE_AND_DELETE,
};

struct etcd_request {
    enum etcd_op op;
    struct slice value;      /* still escaped; url_unescape_value() gives the bytes */
    struct slice prev_value; /* likewise; empty: not given */
    uint64_t prev_index;     /* 0: not given */
    uint64_t wait_index;     /* 0: from now on */
    uint64_t ttl_s;
    bool has_ttl;
    bool dir;
    bool refresh;
    bool recursive;
    bool sorted;
    bool stream;
    bool no_value_on_success;
};

/* Why a request is refused before the store is asked. */
struct etcd_refusal {
    enum etcd_code code;
    char cause[192];
};

/* Reads the parameters of a request: `query` and, of PUT and POST, the `form` body, empty when
 * there is none (the caller has looked at the Content-Type). All parameters are checked on every
 * method, in etcd's order. *out points into form and query. False: *why. */
bool etcd_parse_request(enum http_method method, struct slice form, struct slice query,
                        struct etcd_request *out, struct etcd_refusal *why);

/* True when a request has a form: a PUT or POST with the Content-Type of forms. */
bool etcd_has_form(enum http_method method, struct slice content_type);

/* The longest value of a key. etcd v3 has about the same limit (1.5 MiB for a request), v2 none. */
#define ETCD_VALUE_MAX (1u << 20)
