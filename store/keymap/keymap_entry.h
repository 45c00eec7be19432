/* What the files of the keymap share; for keymap*.c alone. */
#pragma once

#include "store/keymap/keymap.h"

/* What a key without groups, or an element, costs beside its bytes; close enough for a limit. */
#define ENTRY_COST   sizeof(struct entry)
#define ELEMENT_COST (sizeof(struct element) + sizeof(struct blob))
#define WAITER_COST  (sizeof(struct waiter) + sizeof(struct wait_link))

/* The memory of an entry with its links and its key. */
static inline size_t entry_size(size_t groups, size_t key_len)
{
    return sizeof(struct entry) + groups * sizeof(struct key_link) + key_len;
}

/* What was allocated for it. */
static inline size_t entry_allocated(const struct entry *e)
{
    return entry_size(e->group_count, entry_key(e).len);
}

/* Adds `more` bytes to a sum and subtracts `less`: of keys and queues; of waiting clients. */
static inline void keymap_keep_bytes(struct keymap *m, size_t more, size_t less)
{
    quota_keep(m->quota, &m->bytes, more, less);
}

static inline void keymap_wait_bytes(struct keymap *m, size_t more, size_t less)
{
    quota_wait(m->quota, &m->waiting_bytes, more, less);
}

/* True if none of the keys has changed since its lookup. */
static inline bool lookup_is_unchanged(const struct batch_lookup *p)
{
    return p->changes == p->map->lookup_changes;
}

/* Who frees in slices; NULL: everything is freed at once. */
static inline struct lazy_free *keymap_lazy_free(const struct keymap *m)
{
    return m->forgotten == NULL ? NULL : m->forgotten->lazy_free;
}

/* What legacy WATCH_KEY calls a change, as on the wire. */
enum keymap_change {
    KEYMAP_UPDATED = 0,
    KEYMAP_CREATED = 1,
    KEYMAP_DELETED = 2,
    KEYMAP_APPENDED = 4,
};

struct entry *keymap_find(const struct keymap *m, struct slice key);

/* The same, for a change that may add it; see table_find_hashed(). */
static inline struct entry *keymap_look_up(const struct keymap *m, struct slice key, uint64_t *hash)
{
    return (struct entry *)table_find_hashed(&m->keys, key, hash); /* node is the first member */
}

/* Finds the entry, or adds an absent one, which gets a value or a pin now: from reserved memory if
 * that `must` succeed. NULL: memory is short. */
struct entry *keymap_get_or_create(struct keymap *m, struct slice key, bool must);

/* Of an entry with groups: prepares its links, once it has its key; it has a value from now on; it
 * has none any more. */
void keymap_name_links(const struct keymap *m, struct entry *e);
void keymap_add_links(struct keymap *m, struct entry *e);
void keymap_remove_links(struct keymap *m, struct entry *e);

/* The number of groups of a key. Nearly all keys have no group; for most of them the comparison of
 * the prefix's last byte shows it. */
static inline size_t keymap_count_groups(const struct keymap *m, struct slice key)
{
    const struct key_groups *g = m->groups_of;
    size_t lengths[KEY_GROUPS_MAX];

    if (g == NULL || key.len < g->prefix.len ||
        (g->prefix.len != 0 && key.ptr[g->prefix.len - 1] != g->prefix.ptr[g->prefix.len - 1]))
        return 0;
    return slice_starts_with(key, g->prefix) ? g->name(key, lengths) : 0;
}

/* What a new key counts for in the limit of bytes, without its value. */
static inline size_t keymap_key_cost(const struct keymap *m, struct slice key)
{
    return entry_size(keymap_count_groups(m, key), key.len);
}

/* Frees an entry without value and pins. */
void keymap_release(struct keymap *m, struct entry *e);

/* NULL: no client waits for the key or watches it. */
struct awaited *keymap_find_awaited(struct keymap *m, struct entry *e);

/* False: no client watches the key. */
static inline bool keymap_may_watch(const struct keymap *m, const struct entry *e)
{
    return e->awaited && !TAILQ_EMPTY(&m->watches);
}

/* The bytes of an entry; none for NULL. */
static inline struct slice entry_value(const struct entry *e)
{
    return e == NULL ? (struct slice){0} : blob_slice(e->value);
}

/* True when the text can overwrite the value in place: only the entry holds the blob, and its room
 * is not far too large. ADD is the hot path, and allocates nothing after its first. */
static inline bool entry_fits(const struct entry *e, size_t len)
{
    const struct blob *b = e->value;

    return b != NULL && b->refs == 1 && b->len + b->spare >= len &&
           b->len + b->spare - len <= CHANGE_NUMBER_MAX;
}

/* The room of a new value, which may be a number that grows: all that malloc() takes for it, except
 * for malloc()'s own word. At most ROOM_MAX bytes more than the value. */
#define ROOM_MAX 15u
static inline size_t entry_room(size_t len)
{
    return account_cost(sizeof(struct blob) + len) - sizeof(struct blob) - sizeof(size_t);
}

/* The spare room that an APPEND leaves behind a value of that length, so that many small APPENDs
 * copy the value once and not each time. */
#define APPEND_SPARE_MAX (1u << 20)

static inline size_t append_spare(size_t old_len, size_t len)
{
    return old_len == 0 ? 0 : len < APPEND_SPARE_MAX ? len : APPEND_SPARE_MAX;
}

/* Reads as C's strtoll(…, 10) does on a copy of the first 4 KiB that ends in a NUL: leading blanks,
 * a sign, digits; what follows is ignored. False without digits and out of range. */
bool keymap_parse_number(struct slice text, int64_t *out);

/* Stores `value`, whose reference it takes, and returns the old value with its reference. */
struct blob *keymap_exchange(struct keymap *m, struct entry *e, struct blob *value);

/* A MULTI_SET of keys that were looked up. */
void keymap_put_lookup(struct keymap *m, struct batch_lookup *p);

/* A waiter of a client with one registration, at `a`; `size` as in struct waiter. NULL: memory is
 * short. */
struct waiter *keymap_waiter_at(struct keymap *m, struct awaited *a, void *owner, uint32_t size);

/* --- Shared lists: clients that wait for one are registered at an awaited that is no key. --- */

static inline bool awaited_is_list(const struct awaited *a)
{
    return a->node.near == 0;
}

/* Frees the list once no client waits for it and the keymap has forgotten it. */
void asked_list_release(struct awaited *members);

/* Later requests do not share the list m->asked any more; asked_list_trim(): only if no client
 * waits for it. Nothing happens without such a list. */
void asked_list_forget(struct keymap *m);
void asked_list_trim(struct keymap *m);

/* The keymap ends: frees ended waiters and lookups that are still on the lazy free's list. */
void keymap_end_waiters(struct keymap *m);
void keymap_end_lookups(struct keymap *m);

/* --- A walk over the keys of one moment. --- */

/* Continues at `e`, if the key existed at the moment. */
static inline void key_cursor_move(struct key_cursor *c, struct entry *e)
{
    c->next = e != NULL && e->number <= c->moment ? e : NULL;
}

static inline struct key_cursor key_cursor_begin(const struct keymap *m)
{
    return (struct key_cursor){.next = TAILQ_FIRST(&m->entries), .moment = m->changes};
}

/* True if the key, which has a value, existed at the moment and the walk has yet to reach it. */
static inline bool key_cursor_expects(const struct key_cursor *c, const struct entry *e)
{
    return c->next != NULL && e->number >= c->next->number && e->number <= c->moment;
}

/* A key goes, which is still in the list. */
static inline void key_cursor_loses(struct key_cursor *c, const struct entry *e)
{
    if (e == c->next)
        key_cursor_move(c, TAILQ_NEXT(e, order));
}

/* Frees the present list; requests that wait for it begin again. */
void keymap_forget_list(struct keymap *m);

/* If m->list is set: a key was added; a key is about to be removed from m->entries. */
void keymap_list_changed(struct keymap *m);
void keymap_list_goes(struct keymap *m, struct entry *e);

/* NULL when there is none; an empty queue does not exist. */
struct queue *keymap_find_queue(const struct keymap *m, struct slice name);

size_t keymap_push_memory(const struct key_put *c);
void keymap_push(struct keymap *m, const struct key_put *c);

/* Takes the oldest element, whose reference passes to the caller; the last one ends the queue. */
struct blob *keymap_pop(struct keymap *m, struct queue *q);

/* The key exists now: counts for all who wait for it. */
void keymap_wake_all(struct keymap *m, struct entry *e);

/* A queue of that name has a new element: wakes one waiter. */
void keymap_wake_one(struct keymap *m, struct slice name);

/* All expected clients have arrived. */
void keymap_open_barrier(struct keymap *m, struct entry *e);

/* For keymap_notify(). */
void keymap_notify_watches(struct keymap *m, struct entry *e, enum keymap_change type,
                           struct slice old, struct slice now);

/* Tells those who watch the key; `old` and `now` are what the wire shows. */
static inline void keymap_notify(struct keymap *m, struct entry *e, enum keymap_change type,
                                 struct slice old, struct slice now)
{
    if (keymap_may_watch(m, e))
        keymap_notify_watches(m, e, type, old, now);
}
