/* Requests with many keys, which must read or change all of them at one moment. See keymap.h for
 * the contract.
 *
 * Most of the time goes into finding a key: hashing its bytes, and reading memory that no cache
 * holds. A MULTI_SET of a million keys in one step would stop all other clients, and one in several
 * steps would let them see half of it. So the request first finds its keys, in many slices, and
 * pins their entries. A pinned entry stays in the table even if its key is deleted; an absent key
 * gets an entry without a value. Other clients may change the keys meanwhile, because the request
 * has read and written no value yet. The last step reads or sets all values in one walk over the
 * pinned entries, a few nanoseconds each. keymap_release() keeps this rule: it frees no entry with
 * a pin. */
#include <assert.h>

#include "proto/c10d.h"
#include "store/keymap/keymap_entry.h"
#include "store/keymap/keymap_moment.h"

#define GROUPED_FIRST 16

static size_t picks_size(size_t room, bool with_values)
{
    return sizeof(struct key_picks) +
           room * (sizeof(struct entry *) + (with_values ? sizeof(struct blob *) : 0));
}

static void picks_let_go_of_next(struct keymap *m, struct key_picks *p)
{
    struct entry *e = p->entries[p->freed];

    if (p->values != NULL && p->values[p->freed] == e->value)
        blob_unref(p->values[p->freed]); /* was only taken */
    else if (p->values != NULL)
        blob_leave(p->values[p->freed], ACCOUNT_ANSWERS);
    p->freed++;
    e->pins--;
    if (p->tells && e->value != NULL)
        keymap_wake_all(m, e);
    keymap_release(m, e);
}

/* Each waiter that is woken counts as one freed piece. */
static size_t free_pick(struct lazy_free *f, struct lazy *lazy, size_t count)
{
    struct key_picks *p = (struct key_picks *)lazy;
    const struct ready_list *ready = p->map->ready;
    uint64_t told = ready->work;

    if (p->freed < p->count) {
        picks_let_go_of_next(p->map, p);
        told = ready->work - told;
        return told < count ? 1 + (size_t)told : count;
    }
    lazy_free_remove(f, lazy);
    TAILQ_REMOVE(&p->map->picks, p, entry);
    account_free(ACCOUNT_WAITERS, p->grouped, p->grouped_room * sizeof p->grouped[0]);
    account_free(ACCOUNT_WAITERS, p, picks_size(p->room, p->values != NULL));
    return 1;
}

struct key_picks *keymap_pick_begin(struct keymap *m, size_t count, bool with_values)
{
    size_t size = picks_size(count, with_values);
    struct key_picks *p = account_request(ACCOUNT_WAITERS, account_class_of(size), size);

    if (p == NULL)
        return NULL;
    *p = (struct key_picks){
        .lazy = {.free_some = free_pick}, .map = m, .room = count, .changes = m->picked_changes};
    if (with_values)
        p->values = (struct blob **)(void *)&p->entries[count];
    TAILQ_INSERT_TAIL(&m->picks, p, entry);
    return p;
}

/* NULL: memory is short. */
static struct entry *pick(struct key_picks *p, struct slice key)
{
    struct entry *e = keymap_get_or_create(p->map, key);

    assert(p->count < p->room);
    if (e == NULL || e->pins == UINT32_MAX)
        return NULL;
    e->pins++;
    if (p->values != NULL)
        p->values[p->count] = NULL;
    p->entries[p->count++] = e;
    return e;
}

bool keymap_pick(struct key_picks *p, struct slice key)
{
    struct entry *e = pick(p, key);

    if (e != NULL && p->values != NULL)
        p->values[p->count - 1] = blob_ref(e->value);
    return e != NULL;
}

/* False: memory is short. */
static bool make_room_for_grouped(struct key_picks *p)
{
    size_t room = p->grouped_room == 0 ? GROUPED_FIRST : p->grouped_room * 2;
    struct key_pick *more;

    if (p->grouped_count < p->grouped_room)
        return true;
    more = account_resize(ACCOUNT_WAITERS, ACCOUNT_ORDINARY, p->grouped,
                          p->grouped_room * sizeof *more, room * sizeof *more);
    if (more == NULL)
        return false;
    p->grouped = more;
    p->grouped_room = room;
    return true;
}

static bool note_grouped(struct key_picks *p, struct entry *e, const struct blob *value)
{
    if (!make_room_for_grouped(p))
        return false;
    p->grouped[p->grouped_count++] = (struct key_pick){e, value};
    return true;
}

bool keymap_pick_value(struct key_picks *p, struct slice key, struct slice value)
{
    const struct keymap *m = p->map;
    size_t room = entry_room(value.len);
    struct entry *e = pick(p, key);
    struct blob *b;

    if (e == NULL)
        return false;
    b = account_request(m->kind, account_class_of(room), sizeof *b + room);
    if (b == NULL)
        return false;
    blob_begin(b, m->kind, room);
    if (value.len != 0)
        memcpy(b->bytes, value.ptr, value.len);
    blob_leave_spare(b, room - value.len);
    p->values[p->count - 1] = b;
    p->cost += keymap_key_cost(m, key) + value.len;
    p->more += e->value == NULL ? 0 : value.len;
    p->less += entry_value(e).len;
    p->has_shared = p->has_shared || e->pins > 1;
    return m->groups_of == NULL || !slice_starts_with(key, m->groups_of->prefix) ||
           note_grouped(p, e, b);
}

/* So many keys are kept for a snapshot at a time. */
#define KEPT_AT_A_TIME 1024u

/* The snapshot may have begun after the keys were picked, or a later one may have. */
bool key_picks_are_kept(struct key_picks *p)
{
    struct keymap_moment *k = p->map->moment;

    if (k == NULL)
        return true;
    if (p->kept_for != k->snapshot) {
        p->kept_for = k->snapshot;
        p->kept = 0;
    }
    for (size_t n = 0; n < KEPT_AT_A_TIME && p->kept < p->count; n++)
        keymap_moment_changes(k, p->entries[p->kept++], false);
    return p->kept == p->count;
}

/* Before all else that is freed: clients may wait for the keys. */
void keymap_pick_end(struct key_picks *p)
{
    if (p != NULL)
        lazy_free_add_first(keymap_lazy_free(p->map), &p->lazy,
                            sizeof *p + p->room * sizeof(struct entry *));
}

void keymap_end_picks(struct keymap *m)
{
    struct key_picks *p;

    while ((p = TAILQ_FIRST(&m->picks)) != NULL) {
        lazy_free_remove(keymap_lazy_free(m), &p->lazy);
        lazy_free_add(NULL, &p->lazy, 1);
    }
}

/* --- The moment. --- */

/* None of the keys has changed since it was picked. */
static bool picks_are_unchanged(const struct key_picks *p)
{
    return p->changes == p->map->picked_changes;
}

void key_picks_take_values(struct key_picks *p)
{
    if (picks_are_unchanged(p))
        return;
    for (size_t i = 0; i < p->count; i++) {
        struct blob *now = key_picks_entry(p, i)->value;

        if (now == p->values[i])
            continue;
        blob_leave(p->values[i], ACCOUNT_ANSWERS);
        p->values[i] = blob_ref(now);
    }
}

/* Prefetches the memory that the last step of a MULTI_SET will touch for the next keys: entries,
 * which are longer than a line of the cache, and values. If the size of all old values is known,
 * the step does not read them. */
static inline void prefetch_put(const struct key_picks *p, size_t i, bool is_known)
{
    const struct entry *e;

    if (i + 32 < p->count) {
        __builtin_prefetch(&p->entries[i + 32]->value);
        __builtin_prefetch(&p->entries[i + 32]->watching);
    }
    if (i + 16 >= p->count)
        return;
    e = p->entries[i + 16];
    if (e->value == NULL)
        __builtin_prefetch(e);
    else if (!is_known)
        __builtin_prefetch(e->value);
    if (e->value == NULL || !is_known)
        __builtin_prefetch(p->values[i + 16]);
}

/* Puts the value of one key; gives what was there. */
static inline struct blob *put_pick(struct keymap *m, struct entry *e, struct blob *value,
                                    bool is_known)
{
    struct blob *old = e->value;

    if (old == NULL || !is_known)
        return keymap_exchange(m, e, value);
    e->value = value;
    return old;
}

/* The values are looked at for those who watch the key alone: they are in no cache. */
static inline void notify_put(struct keymap *m, struct entry *e, const struct blob *value)
{
    if (!TAILQ_EMPTY(&e->watching))
        keymap_notify_watches(m, e, e->value == NULL ? KEYMAP_CREATED : KEYMAP_UPDATED,
                              entry_value(e), blob_slice(value));
}

/* Millions of clients may wait for these keys. So keymap_pick_end() wakes them in slices as it
 * releases the entries. If a key is deleted before that, its waiters are woken at the deletion,
 * because the key has existed. */
void keymap_put_picks(struct keymap *m, struct key_picks *p)
{
    bool is_known = picks_are_unchanged(p) && !p->has_shared;

    while (!key_picks_are_kept(p))
        continue;
    p->tells = true;
    if (is_known)
        keymap_keep_bytes(m, p->more, p->less);
    for (size_t i = 0; i < p->count; i++) {
        struct entry *e = p->entries[i];

        prefetch_put(p, i, is_known);
        notify_put(m, e, p->values[i]);
        p->values[i] = put_pick(m, e, p->values[i], is_known);
    }
    m->picked_changes++;
}
