/* A hash table of structs that embed a table_node. See table.h for the contract. */
#include "store/memory/table.h"

#include <assert.h>

#define FIRST_BUCKETS 8

/* Each added node moves this many buckets of the old array, so that all have moved long before the
 * new array is too small. In a nearly empty table each added or removed node moves more buckets, so
 * that all have moved before the table shrinks again. */
#define MOVED_AT_A_TIME 4
#define EMPTY_AT_A_TIME 16

/* malloc() maps an array of this size in pages of its own: zeroed, and unmapped by free(). */
#define PAGES_FROM (1u << 20)

void table_init(struct table *t, enum account_kind kind, uint64_t seed,
                const struct reserve *reserve)
{
    *t = (struct table){.buckets = &t->first, .kind = kind, .seed = seed, .reserve = reserve};
}

static void free_array(const struct table *t, struct table_node **array, size_t count)
{
    size_t size = count * sizeof(struct table_node *);

    if (array == NULL || array == &t->first)
        return;
    if (size >= PAGES_FROM)
        account_free_pages(t->kind, array, size);
    else
        account_free(t->kind, array, size);
}

static void free_old(struct table *t)
{
    free_array(t, t->old, t->old_mask + 1);
    t->old = NULL;
}

void table_fini(struct table *t)
{
    free_array(t, t->buckets, t->mask + 1);
    free_old(t);
    table_init(t, t->kind, t->seed, t->reserve);
}

/* Folds the 128-bit product: each bit of both factors affects each bit of the result. */
static uint64_t hash_mix(uint64_t a, uint64_t b)
{
    unsigned __int128 product = (unsigned __int128)a * b;

    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* The last `left` bytes of it, fewer than eight, as a number. */
static uint64_t last_bytes(struct slice key, size_t left)
{
    uint64_t v = 0;

    if (key.len >= 8)
        return bytes_get_u64(key.ptr + key.len - 8) >> (64 - 8 * left);
    for (size_t i = 0; i < left; i++)
        v |= (uint64_t)key.ptr[i] << (8 * i);
    return v;
}

#define ODD1 UINT64_C(0x9e3779b97f4a7c15)
#define ODD2 UINT64_C(0xd1342543de82ef95)

static inline uint64_t hash_rest(uint64_t h, struct slice key, const uint8_t *p, size_t left,
                                 uint64_t seed)
{
    for (; left >= 8; left -= 8, p += 8)
        h = hash_mix(h ^ bytes_get_u64(p), ODD1);
    if (left > 0)
        h = hash_mix(h ^ last_bytes(key, left) ^ ((uint64_t)left << 56), ODD1);
    return (uint32_t)hash_mix(h ^ seed, ODD2);
}

/* Keys of this length are hashed four words a step, in four sums: multiplications of one sum wait
 * for each other, those of different sums run in parallel. */
#define LONG_KEY 128
__attribute__((noinline)) static uint64_t hash_long(uint64_t h, struct slice key, uint64_t seed)
{
    uint64_t sums[4] = {h, hash_mix(h ^ ODD1, ODD2), hash_mix(h ^ ODD2, ODD1), h ^ ODD2};
    const uint8_t *p = key.ptr;
    size_t left = key.len;

    for (; left >= 32; left -= 32, p += 32) {
        for (int i = 0; i < 4; i++)
            sums[i] = hash_mix(sums[i] ^ bytes_get_u64(p + 8 * i), ODD1);
    }
    for (int i = 1; i < 4; i++)
        h = hash_mix(h ^ sums[i], ODD1) ^ sums[0];
    return hash_rest(h, key, p, left, seed);
}

/* Eight bytes a step. The multiplications spread keys of one job, which share long prefixes and
 * differ in a digit; the seed keeps peers from choosing keys that collide. */
uint64_t table_hash(const struct table *t, struct slice key)
{
    uint64_t h = t->seed ^ hash_mix(key.len ^ ODD1, ODD2);

    return key.len >= LONG_KEY ? hash_long(h, key, t->seed)
                               : hash_rest(h, key, key.ptr, key.len, t->seed);
}

static struct slice key_of(const struct table_node *n)
{
    return n->near == 0 ? n->key
                        : (struct slice){(const uint8_t *)n + 8u * (n->near & 255u), n->near >> 8};
}

/* The first node of the chain that has the key. */
static struct table_node *find_in(struct table_node *n, uint64_t hash, struct slice key)
{
    for (; n != NULL; n = n->next) {
        if (n->hash == hash && slice_equal(key_of(n), key))
            return n;
    }
    return NULL;
}

inline struct table_node *table_find_by_hash(const struct table *t, struct slice key, uint64_t hash)
{
    struct table_node *found = find_in(t->buckets[hash & t->mask], hash, key);

    return found == NULL && t->old != NULL ? find_in(t->old[hash & t->old_mask], hash, key) : found;
}

struct table_node *table_find(const struct table *t, struct slice key)
{
    return t->count == 0 ? NULL : table_find_by_hash(t, key, table_hash(t, key));
}

struct table_node *table_find_hashed(const struct table *t, struct slice key, uint64_t *hash)
{
    *hash = table_hash(t, key);
    return table_find_by_hash(t, key, *hash);
}

struct table_node *table_find_like(const struct table *t, const struct table_node *node)
{
    return table_find_by_hash(t, key_of(node), node->hash);
}

/* The link of the chain that leads to the node; it is NULL if the chain does not have the node. */
static struct table_node **find_link_in(struct table_node **link, const struct table_node *node)
{
    while (*link != NULL && *link != node)
        link = &(*link)->next;
    return link;
}

static struct table_node **find_link(struct table *t, const struct table_node *node)
{
    struct table_node **link = find_link_in(&t->buckets[node->hash & t->mask], node);

    if (*link == NULL) {
        assert(t->old != NULL);
        link = find_link_in(&t->old[node->hash & t->old_mask], node);
        assert(*link != NULL);
    }
    return link;
}

struct table_node *table_find_next(const struct table *t, const struct table_node *node)
{
    struct table_node *found = find_in(node->next, node->hash, key_of(node));

    if (found == NULL && t->old != NULL &&
        *find_link_in(&t->buckets[node->hash & t->mask], node) != NULL)
        found = find_in(t->old[node->hash & t->old_mask], node->hash, key_of(node));
    return found;
}

/* Appends to the chain, so that a lookup finds the newest node of a key first. */
static void move_bucket(struct table *t)
{
    struct table_node *n = t->old[t->moved], *next;

    t->old[t->moved++] = NULL;
    for (; n != NULL; n = next) {
        struct table_node **end = &t->buckets[n->hash & t->mask];

        while (*end != NULL)
            end = &(*end)->next;
        next = n->next;
        n->next = NULL;
        *end = n;
    }
}

static void move_some(struct table *t, size_t count)
{
    while (count-- > 0 && t->moved <= t->old_mask)
        move_bucket(t);
    if (t->moved > t->old_mask)
        free_old(t);
}

/* Another array; false: there is no memory for it. */
static bool begin_moving(struct table *t, enum account_class class, size_t count)
{
    size_t size = count * sizeof(struct table_node *);
    struct table_node **array;

    if ((t->reserve != NULL && !reserve_has_spare(t->reserve)) || !account_has_room(class, size))
        return false;
    array = size >= PAGES_FROM ? account_request_pages(t->kind, size)
                               : account_request_zeroed(t->kind, class, size);
    if (array == NULL)
        return false;
    t->old = t->buckets;
    t->old_mask = t->mask;
    t->moved = 0;
    t->buckets = array;
    t->mask = count - 1;
    t->few = count > TABLE_SMALL ? count / 8 : 0;
    return true;
}

/* A small table moves at once. */
static void table_grow(struct table *t)
{
    size_t count = t->mask + 1 < FIRST_BUCKETS ? FIRST_BUCKETS : (t->mask + 1) * 2;

    if (begin_moving(t, ACCOUNT_ORDINARY, count) && count <= TABLE_SMALL)
        move_some(t, SIZE_MAX);
}

static size_t moved_at_a_time(const struct table *t)
{
    return t->mask < t->old_mask ? EMPTY_AT_A_TIME : MOVED_AT_A_TIME;
}

/* A quarter of the buckets: then the table is half full, and neither grows nor shrinks soon. */
__attribute__((cold, noinline)) static void shrink(struct table *t)
{
    if (t->still)
        return;
    if (t->old != NULL)
        move_some(t, moved_at_a_time(t));
    else
        begin_moving(t, ACCOUNT_SMALL, (t->mask + 1) / 4);
}

void table_expect(struct table *t, size_t count)
{
    size_t buckets = FIRST_BUCKETS;

    while (buckets < count && buckets <= SIZE_MAX / 4 / sizeof t->first)
        buckets *= 2;
    if (t->count == 0 && t->old == NULL && buckets > t->mask + 1 &&
        begin_moving(t, ACCOUNT_ORDINARY, buckets))
        move_some(t, SIZE_MAX);
}

void table_add(struct table *t, struct table_node *node)
{
    table_add_hashed(t, node, table_hash(t, key_of(node)));
}

void table_add_hashed(struct table *t, struct table_node *node, uint64_t hash)
{
    struct table_node **bucket;

    if (t->old != NULL)
        move_some(t, moved_at_a_time(t));
    else if (t->count > t->mask)
        table_grow(t);
    bucket = &t->buckets[(uint32_t)hash & t->mask];
    node->hash = (uint32_t)hash;
    node->next = *bucket;
    *bucket = node;
    t->count++;
}

void table_remove(struct table *t, struct table_node *node)
{
    *find_link(t, node) = node->next;
    t->count--;
    if (t->old != NULL || t->count < t->few)
        shrink(t);
}

size_t table_bucket_count(const struct table *t)
{
    return t->mask + 1 + (t->old == NULL ? 0 : t->old_mask + 1);
}

struct table_node *table_bucket(const struct table *t, size_t i)
{
    return i <= t->mask ? t->buckets[i] : t->old[i - t->mask - 1];
}
