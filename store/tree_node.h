/* What the files of the tree share about nodes; for tree*.c alone. */
#pragma once

#include "store/tree.h"

#define NODE_COST sizeof(struct node)

/* For tree_find(): this one, or another of the same path, that has not been removed. */
struct node *tree_find_living(const struct tree *t, struct node *n);

static inline struct node *tree_find(const struct tree *t, struct slice path)
{
    struct node *n = (struct node *)table_find(&t->nodes, path); /* by_path is the first member */

    return TAILQ_EMPTY(&t->dead) ? n : tree_find_living(t, n);
}

static inline bool tree_is_root(struct slice path)
{
    return path.len <= 1;
}

/* The directory that a path lies in: "/a" is below "/". */
struct slice tree_parent_path(struct slice path);

/* As tree_get(), without counting. */
enum etcd_code tree_walk(const struct tree *t, struct slice path, struct node **out,
                         struct slice *where);

/* The node whose deadline is the earliest; NULL when none has one, or when those before it that
 * were removed are too many to look at. */
struct node *tree_first_to_expire(struct tree *t);

/* Which counter an action belongs to; an expiry to none. */
enum tree_counter tree_counter_of(enum etcd_action action);

/* The node as clients see it at this time, its key and value borrowed from it. */
void tree_node_view(const struct node *n, int64_t now_ns, struct etcd_node *out);
