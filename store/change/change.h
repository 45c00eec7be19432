/* One change of the store: the outcome of a command that store_check() has let through. Applying
 * the same changes in the same order to an empty store gives the same store; records (record.h) are
 * changes as bytes.
 *
 * Slices are borrowed from the command or from the store, until the change is applied. What is
 * marked "live" serves those who are connected now, or saves a second look-up: records leave it
 * out, and a decoded change has zeros there. */
#pragma once

#include "proto/etcd_types.h"
#include "store/change/command.h"

struct blob;
struct entry;
struct node;
struct queue;

/* The kinds are those of proto/record.proto, with their numbers: CHANGE_KEY_PUT = 10 and so on.
 * Those that stand only in snapshots are for snapshot_load(); no store_apply() takes them. */
enum change_kind {
    CHANGE_NONE = 0,
#include "store/change_kinds.h"
};

/* Which part a change is of: that of the command it came from. By range: a new kind goes
 * between the first and the last of its part. */
static inline enum space_part change_part(enum change_kind kind)
{
    if (kind >= CHANGE_KEY_PUT && kind <= CHANGE_BARRIER_OPEN)
        return PART_KEYS;
    if (kind >= CHANGE_TREE_PUT && kind <= CHANGE_TREE_POSTPONE)
        return PART_TREE;
    if (kind >= CHANGE_SESSION_DONE && kind <= CHANGE_SESSION_HINT)
        return PART_SESSION;
    return PART_SPACE;
}

/* Who goes on once a key has its new value. */
enum key_wakes {
    WAKES_WAITERS, /* clients that wait for the key to exist */
    WAKES_NONE,    /* the key existed before, or the barrier lacks arrivals */
    WAKES_BARRIER, /* clients in the barrier, and clients that wait for the key to exist */
};

/* KEY_PUT, BARRIER_OPEN: the key has this value now. KEY_APPEND: the value now ends with these
 * bytes, behind the old ones. KEY_DELETE: the key is absent now. QUEUE_PUSH: the queue of that name
 * has a new last element. */
struct key_put {
    struct slice key;
    struct slice value;
    struct blob *blob;    /* live: command.blob */
    struct entry *entry;  /* live: where the key is; NULL: see looked_up */
    bool looked_up;       /* live: the key was looked up: a NULL entry means that the key is
                             absent */
    uint64_t hash;        /* live, if looked_up: of the key, see table_find_hashed() */
    size_t groups;        /* live, if looked_up and the key is absent: how many groups the new entry
                             joins */
    enum key_wakes wakes; /* live */
    bool unwatched;       /* live: WATCH_KEY does not see barriers */
};

/* KEY_PATCH: `removed` bytes of the value, from `offset` on, give way to `bytes`. */
struct key_patch {
    struct slice key;
    uint64_t offset;
    uint64_t removed;
    struct slice bytes;
    struct blob *blob;    /* live: the whole new value, as command.blob */
    struct entry *entry;  /* live */
    enum key_wakes wakes; /* live */
};

/* KEY_PUT_ALL: a checked list of blobs: key, value, key, value. */
struct key_put_all {
    struct slice pairs;
    struct batch_lookup *lookup; /* live: the same, found and prepared; NULL: not */
};

struct queue_pop {
    struct slice queue;
    struct queue *found; /* live */
};

/* TREE_PUT: `action` is ETCD_SET or ETCD_CREATE (a new node, in place of the old one), ETCD_UPDATE
 * or ETCD_COMPARE_AND_SWAP (the node stays and changes). */
struct tree_put {
    enum etcd_action action;
    struct slice path;
    struct slice value;
    bool keep_value; /* the node's value stays as it is; `value` is empty */
    bool dir;
    bool refresh;
    int64_t expires_ns; /* 0: never */
    int64_t now_ns;
    struct node *parent; /* live: the directory; NULL: unknown */
    struct node *node;   /* live, if parent is set: what is at the path; NULL: nothing */
};

/* TREE_REMOVE: the node goes, and all below it. `action` is ETCD_DELETE, ETCD_COMPARE_AND_DELETE or
 * ETCD_EXPIRE. */
struct tree_remove {
    enum etcd_action action;
    struct slice path;
    int64_t now_ns;
    struct node *node; /* live */
};

struct run_put {
    struct slice key;
    enum worker_store_placement placement;
    struct slice address;
    uint16_t port;
    uint64_t worker_store; /* 0: none */
    int64_t round;
};

/* SNAPSHOT_SPACE: what a space is beside its keys, nodes and events. */
#define SPACE_STATE_COUNTERS 7
struct space_state {
    uint64_t last_worker_store;
    uint64_t tree_index;
    uint64_t oldest_event;  /* nothing before this index is kept */
    uint64_t next_deadline; /* struct expiry */
    uint64_t expired;
    uint64_t succeeded[SPACE_STATE_COUNTERS]; /* enum tree_counter */
    uint64_t failed[SPACE_STATE_COUNTERS];
    uint64_t nodes; /* so that the table gets its final size at once */
};

/* SNAPSHOT_NODE: behind its directory and its elder siblings. */
struct node_state {
    struct slice path;
    struct slice value;
    bool dir;
    uint64_t created;
    uint64_t modified;
    int64_t expires_ns; /* 0: never */
    uint64_t deadline;  /* expiry_node.order */
};

/* SNAPSHOT_EVENT: `node` has the key for both nodes. */
struct event_state {
    enum etcd_action action;
    bool refresh;
    bool has_prev;
    struct etcd_node node;
    struct etcd_node prev;
};

/* SESSION_DONE; see session.h. */
struct session_done {
    uint64_t id;
    uint64_t number;
    uint8_t flags;       /* RELAY_ANSWERED, RELAY_TOOK, RELAY_ARRIVED */
    bool popped;         /* the answer ends with the element that was taken off its queue last */
    struct slice answer; /* with RELAY_ARRIVED: the barrier's key */
    struct blob *blob;   /* live: that element */
};

/* SESSION_BIND. */
struct session_bind {
    uint64_t id;
    bool is_worker;
    uint64_t worker_store; /* 0: the space's own keys */
};

/* SESSION_HINT. */
struct session_hint {
    uint64_t id;
    struct slice bytes; /* empty: the session has none any more */
};

/* SNAPSHOT_SESSION. A SNAPSHOT_HELD may follow: the key of the barrier in which the session stands,
 * else the element of its answer. */
#define SESSION_KEY_SIZE 8u /* of an id as bytes, little-endian */
struct session_state {
    uint64_t id;
    uint64_t number;
    uint8_t flags;
    bool is_worker;
    uint64_t worker_store;
    struct slice answer;
    struct slice hint; /* empty: none */
};

#define CHANGE_NUMBER_MAX 24 /* the longest decimal int64, rounded up */

struct change {
    enum change_kind kind;
    uint64_t worker_store; /* KEY_…, QUEUE_…: whose keys; 0: the space's own */
    union {
        struct key_put put;
        struct key_patch patch;
        struct key_put_all put_all;
        struct queue_pop pop;
        struct slice name; /* RUN_DELETE: what goes */
        struct tree_put tree_put;
        struct tree_remove tree_remove;
        int64_t now_ns;    /* SPACE_RESET */
        int64_t by_ns;     /* TREE_POSTPONE: more than 0 */
        uint64_t store_id; /* WORKER_STORE_… */
        struct run_put run_put;
        struct space_state space_state;
        struct node_state node_state;
        struct event_state event_state;
        struct session_done done;
        struct session_bind bind;
        struct session_hint hint;
        struct session_state session_state;
        uint64_t session; /* SESSION_END: the id */
        uint64_t records; /* SNAPSHOT_END: how many records came before. SNAPSHOT_KEYS: how many
                             keys this worker store or space has */
    };
    uint8_t number[CHANGE_NUMBER_MAX]; /* live: KEY_PUT of a number: its text, to which put.value
                                          points; so a change is not copied */
};

/* --- What a command came to: the answer, or why the store refused it. --- */

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
