/* What a command came to: the answer, or why the store refused it. */
#pragma once

#include "proto/etcd_types.h"

struct blob;
struct tree_event;

enum store_status {
    STORE_OK,
    STORE_ABSENT,            /* no such key, queue, worker store or run, and nothing changed */
    STORE_MISMATCH,          /* compare-and-set: the value differs, and nothing changed */
    STORE_NOT_A_NUMBER,      /* ADD or BARRIER on a value that holds no integer */
    STORE_FULL,              /* the space has no room for it */
    STORE_TOO_LONG,          /* TREE_…: the path; see tree_path_fits(). KEY_APPEND: the value */
    STORE_TOO_MANY_RUN_KEYS, /* one MULTI_SET names more run keys than allowed */
    STORE_IN_USE,    /* a worker store that a run record names, to which a session is bound, or in
                        which a client waits */
    STORE_NO_MEMORY, /* the machine has none */
    STORE_READ_ONLY, /* the journal takes no changes, see struct batch */
};

/* With code 0 `event` is the change (borrowed until the next one). Else `path` is the cause for
 * those codes whose cause is a path, pointing into the request's path or, of an in-order key, into
 * what the tree keeps until the next one. */
struct tree_result {
    enum etcd_code code;
    struct tree_event *event;
    struct slice path;
    /* ETCD_COMPARE_FAILED: the node's value and index, and which of them differs. */
    bool value_differs;
    bool index_differs;
    struct slice actual_value;
    uint64_t actual_index;
};

/* `tree` is valid for etcd commands, and `status` for all others; for an etcd command that ended in
 * ETCD_INTERNAL, `status` says why. */
struct store_result {
    enum store_status status;
    int64_t number;     /* KEY_ADD: the sum */
    struct blob *value; /* KEY_COMPARE_SET, STORE_MISMATCH: the present value, borrowed until the
                           next command. QUEUE_POP: the element, a reference of the caller's */
    uint64_t count;     /* QUEUE_POP: the length before; TREE_EXPIRE: 1 or 0; SPACE_…: what went;
                           WORKER_STORE_OPEN: the id */
    bool open;          /* BARRIER: this arrival passes */
    struct tree_result tree;
};
