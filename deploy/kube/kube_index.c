/* A hash table of lists. See kube_view.h for the contract. */
#include "deploy/kube/kube_view.h"

#include <stdint.h>
#include <string.h>

struct kube_index_entry {
    struct kube_index_entry *next;
    uint64_t hash;
    const char *scope, *name;
    size_t name_len;
    size_t *list;
    size_t count, cap;
};

static uint64_t index_hash(const char *scope, const char *name, size_t name_len)
{
    return 31 * text_hash(scope, strlen(scope)) + text_hash(name, name_len);
}

static struct kube_index_entry *index_find_entry(const struct kube_index *i, uint64_t hash,
                                                 const char *scope, const char *name,
                                                 size_t name_len)
{
    struct kube_index_entry *e =
        i->bucket_count == 0 ? NULL : i->buckets[hash & (i->bucket_count - 1)];

    while (e != NULL && (e->hash != hash || e->name_len != name_len ||
                         memcmp(e->name, name, name_len) != 0 || strcmp(e->scope, scope) != 0))
        e = e->next;
    return e;
}

static void index_widen(struct arena *a, struct kube_index *i)
{
    size_t count = i->bucket_count == 0 ? 64 : i->bucket_count * 2;
    struct kube_index_entry **buckets = arena_alloc(a, count * sizeof(struct kube_index_entry *));

    for (size_t b = 0; b < i->bucket_count; b++) {
        for (struct kube_index_entry *e = i->buckets[b], *next; e != NULL; e = next) {
            next = e->next;
            e->next = buckets[e->hash & (count - 1)];
            buckets[e->hash & (count - 1)] = e;
        }
    }
    i->buckets = buckets;
    i->bucket_count = count;
}

void kube_index_add(struct arena *a, struct kube_index *i, const char *scope, const char *name,
                    size_t value)
{
    size_t len = strlen(name);
    uint64_t hash = index_hash(scope, name, len);
    struct kube_index_entry *e = index_find_entry(i, hash, scope, name, len);

    if (e == NULL) {
        if (i->count++ >= i->bucket_count)
            index_widen(a, i);
        e = arena_alloc(a, sizeof *e);
        *e = (struct kube_index_entry){.next = i->buckets[hash & (i->bucket_count - 1)],
                                       .hash = hash,
                                       .scope = arena_copy(a, scope, strlen(scope)),
                                       .name = arena_copy(a, name, len),
                                       .name_len = len};
        i->buckets[hash & (i->bucket_count - 1)] = e;
    }
    arena_push(a, e->list, e->count, e->cap) = value;
}

bool kube_index_is_new(struct arena *a, struct kube_index *i, const char *scope, const char *name)
{
    bool is_new = kube_index_find(i, scope, name).count == 0;

    if (is_new)
        kube_index_add(a, i, scope, name, 0);
    return is_new;
}

struct kube_hits kube_index_find(const struct kube_index *i, const char *scope, const char *name)
{
    return kube_index_find_part(i, scope, name, strlen(name));
}

struct kube_hits kube_index_find_part(const struct kube_index *i, const char *scope,
                                      const char *name, size_t name_len)
{
    const struct kube_index_entry *e =
        index_find_entry(i, index_hash(scope, name, name_len), scope, name, name_len);

    return e == NULL ? (struct kube_hits){0} : (struct kube_hits){e->list, e->count};
}
