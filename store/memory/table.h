/* A hash table of structs that embed a table_node and own their key bytes. It finds, adds and
 * removes; it allocates nothing but its bucket array. Order of iteration is the owner's business
 * (keep a list beside it), so that nothing visible depends on the seed. */
#pragma once

#include "store/memory/reserve.h"

struct table_node {
    struct table_node *next;
    uint32_t hash;
    uint32_t near;    /* not 0: this is a table_near */
    struct slice key; /* lives as long as the node is in the table */
} __attribute__((may_alias));

/* In place of a table_node, if the key lies behind it in the same struct, at a multiple of 8 bytes
 * below 2048. */
struct table_near {
    struct table_node *next;
    uint32_t hash;
    uint32_t near; /* TABLE_NEAR() */
};

#define TABLE_NEAR(distance, key_len) ((uint32_t)((key_len) << 8 | (distance) / 8))

struct table {
    struct table_node **buckets;
    struct table_node *first; /* the only bucket of a table that has not grown yet */
    size_t mask;              /* number of buckets - 1 */
    struct table_node **old;  /* while the size changes: those that have not moved yet; or NULL */
    size_t old_mask;
    size_t moved; /* so many buckets of `old` are empty now */
    size_t count;
    size_t few; /* with fewer nodes, the table has far too many buckets */
    bool still; /* set by the owner: removing a node moves no other node */
    enum account_kind kind;
    uint64_t seed; /* secret from peers: a peer that can guess hashes can make one long chain */
    const struct reserve *reserve;
};

/* The table must not be moved after this. If there is a `reserve`, the table grows only while the
 * reserve has memory to spare; NULL: whenever malloc() has memory. */
void table_init(struct table *t, enum account_kind kind, uint64_t seed,
                const struct reserve *reserve);

/* Frees the array; the nodes are the caller's. */
void table_fini(struct table *t);

/* NULL when there is none. */
struct table_node *table_find(const struct table *t, struct slice key);

/* The same; *hash is the key's, for table_add_hashed(). */
struct table_node *table_find_hashed(const struct table *t, struct slice key, uint64_t *hash);

/* The same with the key's hash, which a table with the same seed has returned. */
struct table_node *table_find_by_hash(const struct table *t, struct slice key, uint64_t hash);

/* Another node of the same key, behind this one; NULL when there is none. */
struct table_node *table_find_next(const struct table *t, const struct table_node *node);

/* Adds a node with a new key, which must be set. Grows the array when it can, and moves a few nodes
 * at a time if there are many; when memory is short, chains get longer instead. */
void table_add(struct table *t, struct table_node *node);

/* The same with the key's hash, which a lookup in this table has returned. */
void table_add_hashed(struct table *t, struct table_node *node, uint64_t hash);

/* The caller will add `count` nodes: an empty table gets its size at once, if there is memory. */
void table_expect(struct table *t, size_t count);

/* Hashes a key, to 32 bits; finds the node with the key of `like`, whose hash must be set. */
uint64_t table_hash(const struct table *t, struct slice key);
struct table_node *table_find_like(const struct table *t, const struct table_node *node);

/* Removes a node that is in the table. A large array that is nearly empty gives way to a smaller
 * one, when there is memory for that, to which a few nodes move at a time. */
void table_remove(struct table *t, struct table_node *node);

/* Together the buckets hold all nodes. Adding a node may move others to other buckets; removing a
 * node does so unless the table is still. */
size_t table_bucket_count(const struct table *t);
struct table_node *table_bucket(const struct table *t, size_t i);

/* A table with at most so many buckets moves all nodes at once when it grows; it never shrinks. */
#define TABLE_SMALL 4096u
