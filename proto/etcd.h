/* etcd's v2 keys API as bytes: which operation an HTTP request asks for, and the JSON of what comes
 * back. What the operation does is the store's matter (store/tree.h).
 *
 * Upstream: etcd 3.4, etcdserver/api/v2http/client.go and v2store; the spec folder's etcd-v2.md. */
#pragma once

#include "proto/http.h"

enum etcd_action {
    ETCD_GET,
    ETCD_SET,
    ETCD_CREATE, /* also of an in-order key */
    ETCD_UPDATE,
    ETCD_COMPARE_AND_SWAP,
    ETCD_DELETE,
    ETCD_COMPARE_AND_DELETE,
    ETCD_EXPIRE,
};

/* The text that "action" shows. Static. */
const char *etcd_action_name(enum etcd_action action);

/* etcd's errorCode numbers. */
enum etcd_code {
    ETCD_OK = 0,
    ETCD_KEY_NOT_FOUND = 100,
    ETCD_COMPARE_FAILED = 101,
    ETCD_NOT_A_FILE = 102,
    ETCD_NOT_A_DIRECTORY = 104,
    ETCD_KEY_EXISTS = 105,
    ETCD_ROOT_READ_ONLY = 107,
    ETCD_DIRECTORY_NOT_EMPTY = 108,
    ETCD_UNAUTHORIZED = 110,
    ETCD_PREV_VALUE_REQUIRED = 201,
    ETCD_TTL_NOT_A_NUMBER = 202,
    ETCD_INDEX_NOT_A_NUMBER = 203,
    ETCD_INVALID_FIELD = 209,
    ETCD_INVALID_FORM = 210,
    ETCD_REFRESH_VALUE = 211,
    ETCD_REFRESH_TTL_REQUIRED = 212,
    ETCD_INTERNAL = 300, /* "Raft Internal Error": here, that the change could not be kept */
    ETCD_INDEX_CLEARED = 401,
};

/* The HTTP status that goes with a code. */
unsigned etcd_status(enum etcd_code code);

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

/* The form body that counts: all of it, none (`*form` empty), or a refusal (a Content-Type that
 * cannot be parsed). Absent Content-Types are empty slices. */
bool etcd_select_form(enum http_method method, struct slice content_type, struct slice body,
                      struct slice *form, struct etcd_refusal *why);

/* One node as clients see it. */
struct etcd_node {
    struct slice key; /* empty: the root, which shows no key and no indexes */
    struct slice value;
    bool has_value;
    bool dir;
    bool has_expiration;
    int64_t expires_ns; /* since 1970 */
    int64_t ttl_s;      /* shown unless 0 */
    uint64_t modified;
    uint64_t created;
};

/* A node in two halves, so that the caller can put `,"nodes":[…]` between them. */
void etcd_write_node_open(struct writer *w, const struct etcd_node *node);
void etcd_write_node_close(struct writer *w, const struct etcd_node *node);

/* {"action":…,"node":{…},"prevNode":{…}} and a newline; `prev` may be NULL. */
void etcd_write_event(struct writer *w, enum etcd_action action, const struct etcd_node *node,
                      const struct etcd_node *prev);

/* {"errorCode":…,"message":…,"cause":…,"index":…} and a newline; an empty cause is left out. */
void etcd_write_error(struct writer *w, enum etcd_code code, struct slice cause, uint64_t index);
