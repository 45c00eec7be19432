/* What etcd's v2 keys API speaks of: actions, error codes and nodes, and their JSON.
 *
 * Upstream: etcd 3.4.23, etcdserver/api/v2error and v2store. */
#pragma once

#include "proto/bytes.h"

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
extern const char *const etcd_action_names[];

/* A boolean of a parameter or a flag, as Go's strconv.ParseBool reads it. False: it is none. */
bool etcd_parse_bool(struct slice text, bool *out);

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

/* The first half in three: up to the value, its text (json_text(), if it has a value), and the
 * rest. */
void etcd_write_node_begin(struct writer *w, const struct etcd_node *node);
void etcd_write_node_rest(struct writer *w, const struct etcd_node *node);

/* What the two halves of a node write beside its value is no longer than this. */
#define ETCD_NODE_ROOM(key_len) (256 + 6 * (size_t)(key_len))

/* {"action":…,"node":{…},"prevNode":{…}} and a newline; `prev` may be NULL. */
void etcd_write_event(struct writer *w, enum etcd_action action, const struct etcd_node *node,
                      const struct etcd_node *prev);

/* {"errorCode":…,"message":…,"cause":…,"index":…} and a newline; an empty cause is left out. */
void etcd_write_error(struct writer *w, enum etcd_code code, struct slice cause, uint64_t index);
