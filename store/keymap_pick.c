/* Requests with many keys, of which all are to be seen, or changed, at one moment. See keymap.h for
 * the contract.
 *
 * What takes time is to find a key: a hash of its bytes, and memory that is in no cache. So the
 * keys are found first, over many turns, and their entries are held: an entry that is held stays in
 * the table, with a value or without one, and so does the entry of a key that is not there. What is
 * left for the one moment is a walk over entries, a few nanoseconds each. */
#include <assert.h>

#include "proto/c10d.h"
#include "store/keymap_entry.h"
#include "store/keymap_moment.h"

static size_t picks_size(size_t room, bool with_values)
{
    return sizeof(struct key_picks) +
           room * (sizeof(struct entry *) + (with_values ? sizeof(struct blob *) : 0));
}

struct key_picks *keymap_pick_begin(struct keymap *m, size_t count, bool with_values)
{
    size_t size = picks_size(count, with_values);
    struct key_picks *p = account_request(ACCOUNT_WAITERS, account_class_of(size), size);

    if (p == NULL)
        return NULL;
    *p = (struct key_picks){.map = m, .room = count};
    if (with_values)
        p->values = (struct blob **)(void *)&p->entries[count];
    TAILQ_INSERT_TAIL(&m->picks, p, entry);
    return p;
}

bool keymap_pick(struct key_picks *p, struct slice key)
{
    struct entry *e = keymap_get_or_create(p->map, key);

    assert(p->count < p->room);
    if (e == NULL || e->pins == UINT32_MAX)
        return false;
    e->pins++;
    if (p->values != NULL)
        p->values[p->count] = NULL;
    p->entries[p->count++] = e;
    return true;
}

bool keymap_pick_value(struct key_picks *p, struct slice key, struct slice value)
{
    const struct keymap *m = p->map;
    size_t room = entry_room(value.len);
    struct blob *b;

    if (!keymap_pick(p, key))
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
    p->has_grouped =
        p->has_grouped || (m->groups_of != NULL && slice_starts_with(key, m->groups_of->prefix));
    return true;
}

static void let_go(struct keymap *m, struct key_picks *p)
{
    struct entry *e = p->entries[p->freed];

    if (p->values != NULL && p->values[p->freed] == e->value)
        blob_unref(p->values[p->freed]); /* was only taken */
    else if (p->values != NULL)
        blob_leave(p->values[p->freed], ACCOUNT_ANSWERS);
    p->freed++;
    e->pins--;
    keymap_release(m, e);
}

bool key_picks_free_one(struct key_picks *p)
{
    if (p->freed < p->count) {
        let_go(p->map, p);
        return true;
    }
    TAILQ_REMOVE(&p->map->picks, p, entry);
    account_free(ACCOUNT_WAITERS, p, picks_size(p->room, p->values != NULL));
    return false;
}

void keymap_pick_end(struct key_picks *p)
{
    struct graveyard *g = p == NULL ? NULL : p->map->graveyard;

    if (p != NULL && p->is_held)
        p->is_ended = true;
    else if (g != NULL)
        graveyard_add_picks(g, p);
    else
        while (p != NULL && key_picks_free_one(p))
            continue;
}

void keymap_end_picks(struct keymap *m)
{
    struct key_picks *p;

    while ((p = TAILQ_FIRST(&m->picks)) != NULL) {
        if (p->is_buried)
            graveyard_forget_picks(m->graveyard, p);
        while (key_picks_free_one(p))
            continue;
    }
}

/* --- The moment. --- */

static bool exists(const struct keymap *m, const struct entry *e, const struct blob *value)
{
    return value != NULL || keymap_find_queue(m, e->node.key) != NULL;
}

bool key_picks_last_exists(const struct key_picks *p)
{
    const struct entry *e = p->entries[p->count - 1];

    return exists(p->map, e, e->value);
}

bool keymap_all_exist(const struct key_picks *p)
{
    for (size_t i = 0; i < p->count; i++) {
        if (!exists(p->map, p->entries[i], key_picks_value(p, i)))
            return false;
    }
    return true;
}

void key_picks_take_values(struct key_picks *p)
{
    for (size_t i = 0; i < p->count; i++)
        p->values[i] = blob_ref(key_picks_value(p, i));
}

/* What the moment of a MULTI_SET touches of the keys that come soon: each entry is longer than a
 * line of the cache. */
static inline void prefetch_put(const struct key_picks *p, size_t i)
{
    const struct entry *e;

    if (i + 16 >= p->count)
        return;
    e = p->entries[i + 16];
    __builtin_prefetch(&e->watching);
    __builtin_prefetch(p->values[i + 16]);
}

void keymap_put_picks(struct keymap *m, struct key_picks *p)
{
    struct held_picks *held = m->moment == NULL ? NULL : keymap_moment_holds(m->moment, p);

    for (size_t i = 0; i < p->count; i++) {
        struct blob *value = p->values[i], *old = key_picks_value(p, i);
        struct entry *e = p->entries[i];

        prefetch_put(p, i);
        if (held != NULL)
            keymap_moment_pick(m->moment, held, i);
        keymap_notify(m, e, old == NULL ? KEYMAP_CREATED : KEYMAP_UPDATED, blob_slice(old),
                      blob_slice(value));
        p->values[i] = keymap_exchange(m, e, value);
        keymap_wake_all(m, e);
    }
}
