/* A hash table of structs that embed a table_node. See table.h for the contract. */
#include "store/table.h"

#include <assert.h>

#define FIRST_BUCKETS 64

/* So many buckets of the old array move with each node that is added: they have all moved long
 * before the new one is too small. */
#define MOVED_AT_A_TIME 4

void table_init(struct table *t, enum account_kind kind, uint64_t seed,
                const struct reserve *reserve)
{
    *t = (struct table){.buckets = &t->first, .kind = kind, .seed = seed, .reserve = reserve};
}

static void free_old(struct table *t)
{
    if (t->old != NULL && t->old != &t->first)
        account_free(t->kind, t->old, (t->old_mask + 1) * sizeof(struct table_node *));
    t->old = NULL;
}

void table_fini(struct table *t)
{
    if (t->buckets != &t->first)
        account_free(t->kind, t->buckets, (t->mask + 1) * sizeof(struct table_node *));
    free_old(t);
    table_init(t, t->kind, t->seed, t->reserve);
}

/* Folds the 128-bit product: each bit of both factors reaches each bit of the result. */
static uint64_t mix(uint64_t a, uint64_t b)
{
    unsigned __int128 product = (unsigned __int128)a * b;

    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Eight bytes a step. Keys of one job share long prefixes and differ in a digit, which is what the
 * multiplications are for; the seed keeps peers from choosing keys that collide. */
static uint64_t hash_bytes(struct slice key, uint64_t seed)
{
    static const uint64_t odd1 = 0x9e3779b97f4a7c15u, odd2 = 0xd1342543de82ef95u;
    uint64_t h = seed ^ mix(key.len ^ odd1, odd2);
    const uint8_t *p = key.ptr;
    size_t left = key.len;

    for (; left >= 8; left -= 8, p += 8)
        h = mix(h ^ bytes_get_u64(p), odd1);
    if (left > 0) {
        uint64_t tail = 0;

        for (size_t i = 0; i < left; i++)
            tail |= (uint64_t)p[i] << (8 * i);
        h = mix(h ^ tail ^ ((uint64_t)left << 56), odd1);
    }
    return mix(h ^ seed, odd2);
}

/* The first of these nodes that has the key. */
static struct table_node *find_in(struct table_node *n, uint64_t hash, struct slice key)
{
    for (; n != NULL; n = n->next) {
        if (n->hash == hash && slice_equal(n->key, key))
            return n;
    }
    return NULL;
}

struct table_node *table_find(const struct table *t, struct slice key)
{
    struct table_node *found;
    uint64_t hash;

    if (t->count == 0)
        return NULL;
    hash = hash_bytes(key, t->seed);
    found = find_in(t->buckets[hash & t->mask], hash, key);
    if (found == NULL && t->old != NULL)
        found = find_in(t->old[hash & t->old_mask], hash, key);
    return found;
}

/* The link that leads to the node. */
static struct table_node **find_link(struct table *t, const struct table_node *node)
{
    struct table_node **link = &t->buckets[node->hash & t->mask];

    while (*link != NULL && *link != node)
        link = &(*link)->next;
    if (*link != NULL)
        return link;
    assert(t->old != NULL);
    for (link = &t->old[node->hash & t->old_mask]; *link != node; link = &(*link)->next)
        assert(*link != NULL);
    return link;
}

static bool is_moved(const struct table *t, const struct table_node *node)
{
    const struct table_node *n = t->buckets[node->hash & t->mask];

    while (n != NULL && n != node)
        n = n->next;
    return n != NULL;
}

struct table_node *table_find_next(const struct table *t, const struct table_node *node)
{
    struct table_node *found = find_in(node->next, node->hash, node->key);

    if (found == NULL && t->old != NULL && is_moved(t, node))
        found = find_in(t->old[node->hash & t->old_mask], node->hash, node->key);
    return found;
}

static void push(struct table_node **buckets, size_t mask, struct table_node *node)
{
    struct table_node **bucket = &buckets[node->hash & mask];

    node->next = *bucket;
    *bucket = node;
}

/* Behind those that have been added since, so that of one key the newest is found first. */
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

/* A small table moves at once. */
static void grow(struct table *t)
{
    size_t count = t->mask + 1 < FIRST_BUCKETS ? FIRST_BUCKETS : (t->mask + 1) * 2;
    struct table_node **wider;

    if (t->reserve != NULL && !reserve_has_spare(t->reserve))
        return;
    wider = account_request_zeroed(t->kind, ACCOUNT_ORDINARY, count * sizeof(struct table_node *));
    if (wider == NULL)
        return;
    t->old = t->buckets;
    t->old_mask = t->mask;
    t->moved = 0;
    t->buckets = wider;
    t->mask = count - 1;
    if (count <= TABLE_SMALL)
        move_some(t, SIZE_MAX);
}

void table_add(struct table *t, struct table_node *node)
{
    if (t->old != NULL)
        move_some(t, MOVED_AT_A_TIME);
    else if (t->count > t->mask)
        grow(t);
    node->hash = hash_bytes(node->key, t->seed);
    push(t->buckets, t->mask, node);
    t->count++;
}

void table_remove(struct table *t, struct table_node *node)
{
    *find_link(t, node) = node->next;
    t->count--;
}

size_t table_bucket_count(const struct table *t)
{
    return t->mask + 1 + (t->old == NULL ? 0 : t->old_mask + 1);
}

struct table_node *table_bucket(const struct table *t, size_t i)
{
    return i <= t->mask ? t->buckets[i] : t->old[i - t->mask - 1];
}
