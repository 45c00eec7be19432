/* A hash table of structs that embed a table_node and own their key bytes. It finds, adds and
 * removes; it allocates nothing but its bucket array. Order of iteration is the owner's business
 * (keep a list beside it), so that nothing visible depends on the seed. */
#pragma once

#include "proto/bytes.h"

struct table_node {
    struct table_node *next;
    struct slice key; /* lives as long as the node is in the table */
    uint64_t hash;
};

struct table {
    struct table_node **buckets;
    size_t mask; /* number of buckets - 1, or 0 with buckets NULL */
    size_t count;
    uint64_t seed; /* secret from peers: whoever can guess hashes can make one long chain */
};

void table_init(struct table *t, uint64_t seed);

/* Frees the array; the nodes are the caller's. */
void table_fini(struct table *t);

/* NULL when there is none. */
struct table_node *table_find(const struct table *t, struct slice key);

/* Adds a node whose key is set and is not in the table yet. Grows the array when it can; when
 * memory is short, chains get longer instead. Aborts if there is no memory for the first array. */
void table_add(struct table *t, struct table_node *node);

/* Removes a node that is in the table. */
void table_remove(struct table *t, struct table_node *node);
