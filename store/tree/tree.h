/* The etcd v2 tree of a space: keys and directories with indexes, TTLs and events.
 *
 * The rules are those of etcd 3.4.23, etcdserver/api/v2store (store.go, node.go). Paths begin with
 * '/', and only the root ("/") ends with one; callers ensure that. Changes come only through
 * store_apply(). */
#pragma once

#include "store/change/change.h"
#include "store/memory/lazy_free.h"
#include "store/tree/expiry.h"
#include "store/tree/watch.h"

/* A fresh etcd answers its first request at this index. */
#define TREE_FIRST_INDEX 3

/* Components and bytes of a path. etcd has no limit but that of an HTTP head, 1 MiB, and each
 * directory keeps its whole path: one of 1 MiB would take gigabytes. */
#define TREE_DEPTH_MAX 1024
#define TREE_PATH_MAX  4096

/* True when a path is within both. */
bool tree_path_fits(struct slice path);

TAILQ_HEAD(node_list, node);
TAILQ_HEAD(tree_snapshot_list, tree_snapshot);
STAILQ_HEAD(tree_past_list, tree_past);

struct node {
    struct table_node by_path; /* the whole path; its bytes follow the struct */
    struct node *parent;       /* NULL: the root */
    TAILQ_ENTRY(node) sibling;
    struct node_list children;
    size_t below;              /* of a directory: nodes below it */
    size_t below_bytes;        /* what they count for */
    struct blob *value;        /* NULL: a directory */
    struct expiry_node expiry; /* at_ns 0: it has no deadline */
    struct tree_past *past;    /* what snapshots see in its place, the newest first; mostly NULL */
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

/* Which counter an action belongs to; an expiry to none. */
enum tree_counter tree_counter_of(enum etcd_action action);

struct tree {
    struct table nodes;
    struct node *root;
    size_t count; /* nodes, except removed ones that wait to be freed */
    uint64_t index;
    struct expiry expiry;
    struct watch_hub hub;
    size_t bytes;
    struct quota *quota; /* of the space */
    uint64_t succeeded[TREE_COUNTERS];
    uint64_t failed[TREE_COUNTERS];
    uint64_t expired;
    struct node_list dead; /* the tops of removed subtrees until they are freed; without parents */
    size_t cuts;           /* those, and those that snapshots hold */
    struct tree_snapshot_list snapshots; /* see tree_snapshot.h */
    struct tree_past_list pasts;
    size_t past_bytes;           /* bytes of listed pasts; pasts passed to `lazy` do not count */
    bool keeps_past;             /* either is not empty: a change leaves something behind */
    struct lazy lazy;            /* of `dead` and `pasts` */
    struct lazy_free *lazy_free; /* frees them in slices; NULL: they are freed at once */
    size_t cut_from;             /* a directory with so many nodes below it is freed bit by bit */
    uint8_t *in_order_path;      /* the full path of the latest in-order key */
    size_t in_order_room;
    struct reserve *reserve; /* the store's */
};

void tree_init(struct tree *t, struct ready_list *ready, struct reserve *reserve, uint64_t seed,
               struct quota *quota);

/* All watches are closed by now. */
void tree_fini(struct tree *t);

/* --- Changes; for space.c only. --- */

/* Decides about a TREE_… command. True: *change is what comes of it; TREE_EXPIRE: the first node
 * that is due. False: nothing is to change, and *out says why. */
bool tree_check(struct tree *t, const struct command *c, struct change *change,
                struct tree_result *out);

/* A change that was checked finds no memory. */
void tree_refuse(struct tree *t, const struct change *change, struct tree_result *out);

/* For decoded changes: true if the tree is in the state that the change assumes. */
bool tree_can_apply(const struct tree *t, const struct change *change);

/* What tree_apply(), or tree_clear(), takes of the reserve at most. */
size_t tree_memory(const struct tree *t, const struct change *change);

/* Carries out a change that was checked. */
void tree_apply(struct tree *t, const struct change *change, struct tree_result *out);

/* Removes all nodes at once, with one delete event of the root, which also notifies watches below
 * it. Returns the number of removed nodes. */
uint64_t tree_clear(struct tree *t, int64_t now_ns);

/* For snapshot_load(): the tree's own state comes before its events (watch_load()) and its nodes;
 * each in its order. They fill an empty tree. False: the record is invalid, or memory is short. */
bool tree_load_state(struct tree *t, const struct space_state *state);
bool tree_load_node(struct tree *t, const struct node_state *state);

/* --- Reads. --- */

/* The time at which the next node expires; false if no node has a deadline. It may be too early if
 * a removed node with a deadline still waits to be freed. */
bool tree_next_expiry(struct tree *t, int64_t *at_ns);

/* Finds a node: 0 and *out, or ETCD_KEY_NOT_FOUND / ETCD_NOT_A_DIRECTORY and where. Counts. */
enum etcd_code tree_get(struct tree *t, struct slice path, const struct node **out,
                        struct slice *where);

/* The same for the daemon's own looks, which are not counted; NULL: there is none. */
const struct node *tree_peek(const struct tree *t, struct slice path);

/* The client will send the last counted get again. */
void tree_take_back_get(struct tree *t);

/* {"action":"get","node":{…}} and a newline: a key, or a directory with its visible children, all
 * at once; see tree_is_small(). False: memory is short for sorting them. */
bool tree_write_get(struct tree *t, const struct node *n, bool recursive, bool sorted,
                    int64_t now_ns, struct writer *w);
