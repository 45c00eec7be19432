/* What the files of the tree share about nodes; for tree*.c alone. */
#pragma once

#include "store/tree/tree.h"

#define NODE_COST sizeof(struct node)

/* For tree_find(): the first living node of the same path from `n` on. */
struct node *tree_find_living(const struct tree *t, struct node *n);

static inline struct node *tree_find(const struct tree *t, struct slice path)
{
    struct node *n = (struct node *)table_find(&t->nodes, path); /* by_path is the first member */

    return t->cuts == 0 ? n : tree_find_living(t, n);
}

/* The same for a child of a living directory, whose own path needs no check. */
static inline struct node *tree_find_in(const struct tree *t, const struct node *dir,
                                        struct slice path)
{
    struct node *n = (struct node *)table_find(&t->nodes, path);

    while (n != NULL && n->parent != dir)
        n = (struct node *)table_find_next(&t->nodes, &n->by_path);
    return n;
}

static inline bool tree_is_root(struct slice path)
{
    return path.len <= 1;
}

/* The bytes of a node without its subtree. */
static inline size_t tree_node_cost(const struct node *n)
{
    return NODE_COST + n->by_path.key.len + blob_slice(n->value).len;
}

/* Creates and counts a node below `parent`. `value` NULL: a directory; else takes over the
 * reference. `parent` must exist without a child of this name. */
struct node *tree_add_node(struct tree *t, struct node *parent, struct slice path,
                           struct blob *value, uint64_t index);

/* True if each component follows a '/' and is not empty, and their number is within the limit. */
bool tree_is_path(struct slice path);

/* Frees the memory of a node that is in no list, table or heap. */
void tree_free_node(struct node *n);

/* There is something to free, of tree->past_bytes. */
void tree_free_later(struct tree *t);

/* The directory that a path lies in: "/a" is below "/". */
struct slice tree_parent_path(struct slice path);

/* As tree_get(), without counting. */
enum etcd_code tree_walk(const struct tree *t, struct slice path, struct node **out,
                         struct slice *where);

/* The node with the earliest deadline. NULL: no node has a deadline, or too many removed nodes
 * stand before it for one call. */
struct node *tree_first_to_expire(struct tree *t);

/* True for a node that no listing shows: its name begins with '_'. */
bool tree_is_hidden(const struct node *n);

/* Describes the node as clients see it now; key and value are borrowed from it. The second function
 * takes value, deadline (0: none) and index of an earlier state. */
void tree_node_view(const struct node *n, int64_t now_ns, struct etcd_node *out);
void tree_state_view(const struct node *n, const struct blob *value, int64_t expires_ns,
                     uint64_t modified, int64_t now_ns, struct etcd_node *out);
