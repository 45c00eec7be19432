/* What tree.c and tree_read.c share about nodes; for those two alone. */
#pragma once

#include "store/tree.h"

static inline struct node *tree_find(const struct tree *t, struct slice path)
{
    return (struct node *)table_find(&t->nodes, path); /* by_path is the first member */
}

/* As tree_get(), without counting. */
enum etcd_code tree_walk(const struct tree *t, struct slice path, struct node **out,
                         struct slice *where);

/* The node as clients see it at this time, its key and value borrowed from it. */
void tree_show(const struct node *n, int64_t now_ns, struct etcd_node *out);
