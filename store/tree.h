/* The etcd v2 world of a space: a tree of keys and directories with indexes, TTLs and events.
 *
 * The rules are those of etcd 3.4's v2store (store.go, node.go), which the spec folder's etcd-v2.md
 * sections 3 to 10 write down. Paths begin with '/' and do not end with one, except the root, which
 * is "/"; the callers see to that. Changes come only through store_apply(). */
#pragma once

#include "store/expiry.h"
#include "store/watch.h"

/* A fresh etcd answers its first request at this index. */
#define TREE_FIRST_INDEX 3

/* Components of a path. etcd has no limit and runs out of memory instead. */
#define TREE_DEPTH_MAX 1024

struct node {
    struct table_node by_path; /* the whole path; its bytes follow the struct */
    struct node *parent;       /* NULL: the root */
    TAILQ_ENTRY(node) sibling;
    TAILQ_HEAD(, node) children;
    struct blob *value; /* NULL: a directory */
    struct expiry_node expiry;
    uint64_t created;
    uint64_t modified;
};

enum tree_counter {
    TREE_GETS,
    TREE_SETS,
    TREE_DELETES,
    TREE_UPDATES,
    TREE_CREATES,
    TREE_SWAPS,
    TREE_SWAP_DELETES,
    TREE_COUNTERS,
};

struct tree {
    struct table nodes;
    struct node *root;
    uint64_t index;
    struct expiry expiry;
    struct watch_hub hub;
    size_t bytes;
    size_t bytes_max; /* 0: none */
    uint64_t succeeded[TREE_COUNTERS];
    uint64_t failed[TREE_COUNTERS];
    uint64_t expired;
    uint8_t *refused_path; /* the in-order key that could not be made last */
};

/* What a change asks for. Slices are borrowed for the call. */
struct tree_change {
    struct slice path;
    struct slice value;
    struct slice prev_value; /* empty: not compared */
    uint64_t prev_index;     /* 0: not compared */
    int64_t expires_ns;      /* since 1970; 0: permanent */
    int64_t now_ns;
    bool dir;
    bool recursive;
    bool refresh;
};

/* What came of it. With code 0 `event` is the change (borrowed until the next one). Else `path` is
 * the cause for those codes whose cause is a path, pointing into the request's path or, of an
 * in-order key, into what the tree keeps until the next one. */
struct tree_result {
    enum etcd_code code;
    struct tree_event *event;
    struct slice path;
    /* ETCD_COMPARE_FAILED: what there is instead, and which of the two differs. */
    bool value_differs;
    bool index_differs;
    struct slice actual_value;
    uint64_t actual_index;
};

void tree_init(struct tree *t, struct ready_list *ready, uint64_t seed, size_t bytes_max);

/* All watches are closed by now. */
void tree_fini(struct tree *t);

/* --- Changes; for store_apply() alone. A failed one changes nothing. --- */

void tree_set(struct tree *t, const struct tree_change *c, struct tree_result *out);
void tree_create(struct tree *t, const struct tree_change *c, struct tree_result *out);
void tree_create_in_order(struct tree *t, const struct tree_change *c, struct tree_result *out);
void tree_update(struct tree *t, const struct tree_change *c, struct tree_result *out);
void tree_compare_and_swap(struct tree *t, const struct tree_change *c, struct tree_result *out);
void tree_delete(struct tree *t, const struct tree_change *c, struct tree_result *out);
void tree_compare_and_delete(struct tree *t, const struct tree_change *c, struct tree_result *out);

/* Removes what expired at or before now, in order of expiration. Returns how many nodes went. */
uint64_t tree_expire(struct tree *t, int64_t now_ns);

/* Removes everything, one delete event for each child of the root. Returns how many. */
uint64_t tree_clear(struct tree *t, int64_t now_ns);

/* An index that something else than a key took (users and roles do, as in etcd). */
void tree_take_index(struct tree *t);

/* --- Reads. --- */

/* The time at which the next node expires; false when none does. */
bool tree_next_expiry(const struct tree *t, int64_t *at_ns);

/* Finds a node: 0 and *out, or ETCD_KEY_NOT_FOUND / ETCD_NOT_A_DIRECTORY and where. Counts. */
enum etcd_code tree_get(struct tree *t, struct slice path, const struct node **out,
                        struct slice *where);

/* {"action":"get","node":{…}} and a newline: a key, or a directory with its visible children. False
 * when memory for sorting is short. */
bool tree_write_get(const struct tree *t, const struct node *n, bool recursive, bool sorted,
                    int64_t now_ns, struct writer *w);

/* Starts a watch; `since` 0 means from now on. ETCD_INDEX_CLEARED: too old. See watch_open(). */
enum etcd_code tree_watch(struct tree *t, struct slice path, bool recursive, bool stream,
                          uint64_t since, void *owner, struct watch **out);
