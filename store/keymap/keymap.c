/* The c10d keys of a space: how they are kept, read and changed. See keymap.h for the contract;
 * keymap_check.c decides about changes, keymap_queue.c has the queues, keymap_wait.c those who
 * wait, keymap_group.c the groups, keymap_list.c what LIST_KEYS answers,
 * batch_lookup.c requests with many keys. */
#include "store/keymap/keymap.h"

#include <assert.h>

#include "proto/c10d.h"
#include "store/keymap/keymap_entry.h"
#include "store/keymap/keymap_moment.h"

/* Is not inlined where SET and ADD pass, which would save registers for it. */
#define APART __attribute__((noinline))

void keymap_init(struct keymap *m, enum account_kind kind, struct ready_list *ready,
                 struct reserve *reserve, uint64_t seed, struct quota *quota)
{
    *m = (struct keymap){
        .kind = kind, .ready = ready, .reserve = reserve, .quota = quota, .changes = 1};
    table_init(&m->keys, kind, seed, reserve);
    table_init(&m->queues, kind, seed, reserve);
    table_init(&m->awaited, ACCOUNT_WAITERS, seed, reserve);
    table_init(&m->groups, kind, seed, reserve);
    TAILQ_INIT(&m->entries);
    TAILQ_INIT(&m->queue_order);
    TAILQ_INIT(&m->open_waiters);
    TAILQ_INIT(&m->ended_waiters);
    TAILQ_INIT(&m->watches);
    TAILQ_INIT(&m->lookups);
}

/* --- Entries. --- */

struct entry *keymap_find(const struct keymap *m, struct slice key)
{
    return (struct entry *)table_find(&m->keys, key); /* node is the first member */
}

/* Makes an entry without a value in memory of the caller. The caller must set a value at once, or
 * count the entry as absent. */
static inline struct entry *entry_make(struct keymap *m, struct entry *e, struct slice key,
                                       uint64_t hash, size_t groups)
{
    size_t at = offsetof(struct entry, groups) + groups * sizeof e->groups[0];

    _Static_assert(sizeof *e + KEY_GROUPS_MAX * sizeof e->groups[0] < 256 * 8, "see table_near");
    *e = (struct entry){.node = {.near = TABLE_NEAR(at, key.len)}, .group_count = groups & 7u};
    slice_copy(&e->groups[groups], key);
    if (groups != 0)
        keymap_name_links(m, e);
    e->awaited = m->awaited.count != 0;
    table_add_hashed(&m->keys, (struct table_node *)&e->node, hash);
    return e;
}

struct entry *keymap_get_or_create(struct keymap *m, struct slice key, bool must)
{
    uint64_t hash;
    struct entry *e = keymap_look_up(m, key, &hash);
    size_t groups, size;

    if (e != NULL)
        return e;
    groups = keymap_count_groups(m, key);
    size = entry_size(groups, key.len);
    e = must ? reserve_alloc(m->reserve, m->kind, size)
             : account_request(m->kind, ACCOUNT_ORDINARY, size);
    if (e == NULL)
        return NULL;
    keymap_wait_bytes(m, size, 0);
    return entry_make(m, e, key, hash, groups);
}

void keymap_release(struct keymap *m, struct entry *e)
{
    if (e->value != NULL || e->pins != 0)
        return;
    keymap_wait_bytes(m, 0, entry_allocated(e));
    table_remove(&m->keys, (struct table_node *)&e->node);
    account_free(m->kind, e, entry_allocated(e));
}

/* Gives an entry its first value. */
static inline void entry_begin(struct keymap *m, struct entry *e, struct blob *value)
{
    e->number = ++m->changes;
    if (m->list != NULL)
        keymap_list_changed(m);
    m->present++;
    m->present_bytes += entry_key(e).len;
    keymap_keep_bytes(m, entry_allocated(e) + value->len, 0);
    TAILQ_INSERT_TAIL(&m->entries, e, order);
    if (e->group_count != 0)
        keymap_add_links(m, e);
    e->value = value;
}

inline struct blob *keymap_exchange(struct keymap *m, struct entry *e, struct blob *value)
{
    struct blob *old = e->value;

    m->lookup_changes += e->pins != 0;
    if (old == NULL) {
        keymap_wait_bytes(m, 0, entry_allocated(e));
        entry_begin(m, e, value);
        return NULL;
    }
    keymap_keep_bytes(m, value->len, old->len);
    e->value = value;
    return old;
}

/* A value that was there. */
static inline void value_release(struct keymap *m, struct blob *old)
{
    if (old->refs > 1) {
        blob_leave(old, ACCOUNT_ANSWERS);
        return;
    }
    m->ready->work += old->len / READY_FREED_BYTES;
    blob_free(old);
}

static void entry_swap(struct keymap *m, struct entry *e, struct blob *value)
{
    struct blob *old = keymap_exchange(m, e, value);

    if (old != NULL)
        value_release(m, old);
}

/* --- Reads. --- */

struct blob *keymap_get(const struct keymap *m, struct slice key)
{
    struct entry *e = keymap_find(m, key);

    return e == NULL ? NULL : e->value;
}

bool keymap_exists(const struct keymap *m, struct slice key)
{
    return keymap_get(m, key) != NULL || keymap_find_queue(m, key) != NULL; /* none is empty */
}

bool keymap_exists_since(const struct keymap *m, struct slice key, struct keymap_time since)
{
    const struct entry *e = keymap_find(m, key);
    const struct queue *q;

    if (e != NULL && e->value != NULL && e->number <= since.changes)
        return true;
    q = keymap_find_queue(m, key);
    return q != NULL && q->number <= since.pushes;
}

/* --- Changes. --- */

static void entry_wake(struct keymap *m, struct entry *e, enum key_wakes wakes)
{
    if (wakes == WAKES_BARRIER)
        keymap_open_barrier(m, e);
    if (wakes != WAKES_NONE && e->awaited)
        keymap_wake_all(m, e);
}

/* Before each change of an entry's value. */
static inline void entry_note_change(struct keymap *m, struct entry *e, bool overwritten)
{
    if (m->moment != NULL)
        keymap_moment_changes(m->moment, e, overwritten);
}

/* The blob that the entry will keep: the command's own blob, or a copy of its bytes. */
static inline struct blob *value_to_keep(struct keymap *m, const struct key_put *c)
{
    struct slice value = c->value;
    struct blob *b;

    if (c->blob != NULL)
        return blob_hold(blob_ref(c->blob), m->kind);
    b = reserve_blob_alloc(m->reserve, m->kind, entry_room(value.len));
    slice_copy(b->bytes, value);
    blob_leave_spare(b, entry_room(value.len) - value.len);
    return b;
}

static void entry_put_value(struct keymap *m, struct entry *e, const struct key_put *c)
{
    struct slice value = c->value;
    bool fits = entry_fits(e, value.len);
    struct blob *b = e->value;

    entry_note_change(m, e, fits);
    if (fits) {
        m->lookup_changes += e->pins != 0; /* they know how long it was */
        keymap_keep_bytes(m, value.len, b->len);
        blob_leave_spare(b, b->len + b->spare - value.len);
        slice_copy(b->bytes, value);
        return;
    }
    entry_swap(m, e, value_to_keep(m, c));
}

static void apply_put(struct keymap *m, const struct key_put *c)
{
    struct entry *e = c->entry;

    if (e == NULL && c->looked_up) { /* the key is new */
        e = reserve_alloc(m->reserve, m->kind, entry_size(c->groups, c->key.len));
        entry_make(m, e, c->key, c->hash, c->groups);
        if (!c->unwatched)
            keymap_notify(m, e, KEYMAP_CREATED, (struct slice){0}, c->value);
        entry_begin(m, e, value_to_keep(m, c));
        entry_wake(m, e, c->wakes);
        return;
    }
    if (e == NULL)
        e = keymap_get_or_create(m, c->key, true);
    if (!c->unwatched) /* before, while the old value is there */
        keymap_notify(m, e, e->value == NULL ? KEYMAP_CREATED : KEYMAP_UPDATED, entry_value(e),
                      c->value);
    entry_put_value(m, e, c);
    entry_wake(m, e, c->wakes);
}

static struct entry *entry_at(const struct keymap *m, struct entry *known, struct slice key)
{
    return known != NULL ? known : keymap_find(m, key);
}

/* True if the patch fits the key's present value. */
static bool patch_fits(const struct keymap *m, const struct entry *e, const struct key_patch *c)
{
    return c->removed == c->bytes.len && e->value->refs == 1 && !keymap_may_watch(m, e);
}

APART static void apply_patch(struct keymap *m, const struct key_patch *c)
{
    struct entry *e = entry_at(m, c->entry, c->key);
    struct slice old = entry_value(e);
    size_t behind = c->offset + c->removed;
    bool fits = patch_fits(m, e, c);
    struct blob *b;

    entry_note_change(m, e, fits);
    if (fits) {
        slice_copy(e->value->bytes + c->offset, c->bytes);
    } else if (c->blob != NULL) {
        keymap_notify(m, e, KEYMAP_UPDATED, old, blob_slice(c->blob));
        entry_swap(m, e, blob_hold(blob_ref(c->blob), m->kind));
    } else {
        b = reserve_blob_alloc(m->reserve, m->kind, old.len - c->removed + c->bytes.len);
        slice_copy(b->bytes, (struct slice){old.ptr, c->offset});
        slice_copy(b->bytes + c->offset, c->bytes);
        slice_copy(b->bytes + c->offset + c->bytes.len, slice_from(old, behind));
        keymap_notify(m, e, KEYMAP_UPDATED, old, blob_slice(b));
        entry_swap(m, e, b);
    }
    entry_wake(m, e, c->wakes);
}

/* True when the value has room for `len` more bytes and only the entry holds it. */
static bool append_fits(const struct entry *e, size_t len)
{
    return e != NULL && e->value != NULL && e->value->refs == 1 && e->value->spare >= len;
}

/* Behind what is there. */
static inline void append_in_place(struct keymap *m, struct entry *e, struct slice more)
{
    struct blob *b = e->value;
    size_t len = b->len;

    entry_note_change(m, e, true);
    m->lookup_changes += e->pins != 0;
    blob_leave_spare(b, b->spare - more.len);
    keymap_keep_bytes(m, more.len, 0);
    slice_copy(b->bytes + len, more);
}

static inline void append_to_copy(struct keymap *m, struct entry *e, struct slice more)
{
    struct slice old = entry_value(e);
    size_t len = old.len + more.len, spare = append_spare(old.len, len);
    struct blob *b;

    entry_note_change(m, e, false);
    b = reserve_blob_alloc(m->reserve, m->kind, len + spare);
    blob_leave_spare(b, spare);
    slice_copy(b->bytes, old);
    slice_copy(b->bytes + old.len, more);
    m->ready->work += old.len / READY_COPIED_BYTES;
    entry_swap(m, e, b);
}

APART static void apply_append(struct keymap *m, const struct key_put *c)
{
    struct entry *e = c->entry != NULL ? c->entry : keymap_get_or_create(m, c->key, true);

    keymap_notify(m, e, KEYMAP_APPENDED, (struct slice){0}, c->value);
    if (append_fits(e, c->value.len))
        append_in_place(m, e, c->value);
    else
        append_to_copy(m, e, c->value);
    keymap_wake_all(m, e);
}

static void entry_delete(struct keymap *m, struct entry *e)
{
    struct blob *old = e->value;

    keymap_notify(m, e, KEYMAP_DELETED, blob_slice(old), (struct slice){0});
    if (m->list != NULL)
        keymap_list_goes(m, e);
    key_cursor_loses(&m->sweep, e);
    m->changes++;
    m->wait_epoch++;
    if (e->pins != 0) {
        m->lookup_changes++;
        keymap_wake_all(m, e); /* waiters that batch_lookup_end() has not woken yet */
    }
    if (m->moment != NULL)
        keymap_moment_loses(m->moment, e);
    e->value = NULL;
    TAILQ_REMOVE(&m->entries, e, order);
    if (e->group_count != 0)
        keymap_remove_links(m, e);
    m->present--;
    m->present_bytes -= entry_key(e).len;
    keymap_keep_bytes(m, 0, entry_allocated(e) + old->len);
    keymap_wait_bytes(m, entry_allocated(e), 0);
    value_release(m, old);
    keymap_release(m, e);
}

APART static void apply_put_all(struct keymap *m, struct slice pairs)
{
    struct slice key, value;

    while (c10d_next_blob(&pairs, &key) && c10d_next_blob(&pairs, &value))
        apply_put(m, &(struct key_put){.key = key, .value = value});
}

APART static void apply_pop(struct keymap *m, const struct queue_pop *c, struct store_result *out)
{
    struct queue *q = c->found != NULL ? c->found : keymap_find_queue(m, c->queue);

    out->count = q->len;
    out->value = keymap_pop(m, q);
    if (c->found != NULL)
        return;
    blob_leave(m->popped, ACCOUNT_ANSWERS); /* the change was decoded */
    m->popped = blob_ref(out->value);
}

struct blob *keymap_take_popped(struct keymap *m)
{
    struct blob *value = m->popped;

    m->popped = NULL;
    return value;
}

/* The record leaves these two fields out. */
APART static void apply_open(struct keymap *m, const struct key_put *c)
{
    struct key_put put = *c;

    put.wakes = WAKES_BARRIER;
    put.unwatched = true;
    apply_put(m, &put);
}

void keymap_apply(struct keymap *m, const struct change *change, struct store_result *out)
{
    switch (change->kind) {
    case CHANGE_KEY_PUT:
        apply_put(m, &change->put);
        break;
    case CHANGE_KEY_PATCH:
        apply_patch(m, &change->patch);
        break;
    case CHANGE_KEY_APPEND:
        apply_append(m, &change->put);
        break;
    case CHANGE_KEY_DELETE:
        entry_delete(m, entry_at(m, change->put.entry, change->put.key));
        break;
    case CHANGE_KEY_PUT_ALL:
        if (change->put_all.lookup != NULL)
            keymap_put_lookup(m, change->put_all.lookup);
        else
            apply_put_all(m, change->put_all.pairs);
        break;
    case CHANGE_QUEUE_PUSH:
        keymap_push(m, &change->put);
        break;
    case CHANGE_BARRIER_OPEN:
        apply_open(m, &change->put);
        break;
    default: /* CHANGE_QUEUE_POP */
        apply_pop(m, &change->pop, out);
    }
}

/* --- What changes take. --- */

APART static size_t entry_memory(const struct keymap *m, struct slice key)
{
    return reserve_cost(keymap_key_cost(m, key));
}

static inline size_t put_memory(const struct keymap *m, const struct key_put *c)
{
    bool fits = c->entry != NULL && entry_fits(c->entry, c->value.len);
    size_t blob = fits || c->blob != NULL ? 0 : reserve_blob_cost(entry_room(c->value.len));

    if (c->entry != NULL)
        return blob;
    return blob + (c->looked_up ? reserve_cost(entry_size(c->groups, c->key.len))
                                : entry_memory(m, c->key));
}

APART static size_t patch_memory(const struct keymap *m, const struct key_patch *c)
{
    const struct entry *e = entry_at(m, c->entry, c->key);

    return patch_fits(m, e, c) || c->blob != NULL
               ? 0
               : reserve_blob_cost(entry_value(e).len + c->bytes.len);
}

static size_t append_memory(const struct keymap *m, const struct key_put *c)
{
    const struct entry *e = entry_at(m, c->entry, c->key);
    size_t old = entry_value(e).len, len = old + c->value.len, blob;

    if (append_fits(e, c->value.len))
        return 0;
    blob = reserve_blob_cost(len + append_spare(old, len));
    return e != NULL ? blob : blob + entry_memory(m, c->key);
}

APART static size_t put_all_memory(const struct keymap *m, struct slice pairs)
{
    struct slice key, value;
    size_t sum = 0;

    while (c10d_next_blob(&pairs, &key) && c10d_next_blob(&pairs, &value))
        sum += reserve_cost(keymap_key_cost(m, key)) + reserve_blob_cost(value.len + ROOM_MAX);
    return sum;
}

size_t keymap_memory(const struct keymap *m, const struct change *change)
{
    switch (change->kind) {
    case CHANGE_KEY_PUT:
    case CHANGE_BARRIER_OPEN:
        return put_memory(m, &change->put);
    case CHANGE_KEY_PATCH:
        return patch_memory(m, &change->patch);
    case CHANGE_KEY_APPEND:
        return append_memory(m, &change->put);
    case CHANGE_KEY_PUT_ALL:
        return change->put_all.lookup != NULL ? 0 : put_all_memory(m, change->put_all.pairs);
    case CHANGE_QUEUE_PUSH:
        return keymap_push_memory(&change->put);
    default:
        return 0;
    }
}

/* --- The whole. --- */

/* The account of a value counts its key as well. */
static enum account_kind kind_of(const struct blob *value)
{
    return (enum account_kind)value->kind;
}

/* Returns what it counted for. */
static size_t free_entry(struct forgotten_keys *keys, struct entry *e)
{
    size_t bytes = ENTRY_COST + entry_key(e).len + e->value->len;
    enum account_kind kind = kind_of(e->value);

    TAILQ_REMOVE(&keys->entries, e, order);
    blob_unref(e->value);
    account_free(kind, e, entry_allocated(e));
    return bytes;
}

/* The oldest element, and the queue with its last one. */
static size_t free_element(struct forgotten_keys *keys, struct queue *q)
{
    struct element *element = STAILQ_FIRST(&q->elements);
    size_t bytes = ELEMENT_COST + element->value->len;
    enum account_kind kind = kind_of(element->value);

    STAILQ_REMOVE_HEAD(&q->elements, entry);
    blob_unref(element->value);
    account_free(kind, element, sizeof *element);
    if (!STAILQ_EMPTY(&q->elements))
        return bytes;
    bytes += ENTRY_COST + q->node.key.len;
    TAILQ_REMOVE(&keys->queues, q, order);
    account_free(kind, q, sizeof *q + q->node.key.len);
    return bytes;
}

static bool nothing_forgotten(const struct forgotten_keys *keys)
{
    return TAILQ_EMPTY(&keys->entries) && TAILQ_EMPTY(&keys->queues);
}

static size_t forgotten_keys_free_some(struct lazy_free *f, struct lazy *l, size_t)
{
    struct forgotten_keys *keys = (struct forgotten_keys *)l;
    size_t bytes = !TAILQ_EMPTY(&keys->entries) ? free_entry(keys, TAILQ_FIRST(&keys->entries))
                                                : free_element(keys, TAILQ_FIRST(&keys->queues));

    if (nothing_forgotten(keys))
        lazy_free_remove(f, l);
    else
        lazy_free_count(f, l, bytes);
    return 1;
}

void forgotten_keys_init(struct forgotten_keys *keys, struct lazy_free *f)
{
    *keys =
        (struct forgotten_keys){.lazy = {.free_some = forgotten_keys_free_some}, .lazy_free = f};
    TAILQ_INIT(&keys->entries);
    TAILQ_INIT(&keys->queues);
}

void forgotten_keys_add(struct forgotten_keys *keys, struct entry_list *entries,
                        struct queue_list *queues, size_t bytes)
{
    TAILQ_CONCAT(&keys->entries, entries, order);
    TAILQ_CONCAT(&keys->queues, queues, order);
    if (!nothing_forgotten(keys))
        lazy_free_add(keys->lazy_free, &keys->lazy, bytes);
}

/* All other keys go with `old`. A pinned key keeps its entry, without the value. */
static void delete_old(struct keymap *m, struct table *old, struct entry *e)
{
    table_remove(old, (struct table_node *)&e->node);
    table_add(&m->keys, (struct table_node *)&e->node);
    if (e->value != NULL)
        entry_delete(m, e);
}

static void delete_watched_and_pinned(struct keymap *m, struct table *old)
{
    const struct key_watch *watch;
    const struct batch_lookup *p;
    struct entry *e;

    TAILQ_FOREACH(watch, &m->watches, all) {
        e = (struct entry *)table_find_like(old, (struct table_node *)&watch->link.at->node);
        if (e != NULL)
            delete_old(m, old, e);
    }
    TAILQ_FOREACH(p, &m->lookups, entry) {
        for (size_t i = p->freed; i < p->count; i++) {
            if (keymap_find(m, entry_key(p->entries[i])) != p->entries[i])
                delete_old(m, old, p->entries[i]);
        }
    }
}

/* Gives away all that has a value, whose nodes stand in a table that has gone already. */
static void forget_all(struct keymap *m)
{
    struct forgotten_keys now;

    forgotten_keys_init(&now, NULL);
    if (m->moment == NULL ||
        !keymap_moment_takes(m->moment, &m->entries, &m->queue_order, m->bytes))
        forgotten_keys_add(m->forgotten != NULL ? m->forgotten : &now, &m->entries, &m->queue_order,
                           m->bytes);
    m->present = m->present_bytes = 0;
    m->sweep.next = NULL;
    keymap_keep_bytes(m, 0, m->bytes);
    m->changes++;
    m->wait_epoch++;
}

void keymap_clear(struct keymap *m)
{
    struct table old = m->keys;

    keymap_forget_list(m); /* a list may show any moment, also one after this change */
    if (old.buckets == &m->keys.first)
        old.buckets = &old.first;
    table_init(&m->keys, old.kind, old.seed, old.reserve);
    old.still = true;
    delete_watched_and_pinned(m, &old);
    table_fini(&old);
    table_fini(&m->queues);
    table_fini(&m->groups);
    m->lookup_changes++;
    forget_all(m);
}

void keymap_fini(struct keymap *m)
{
    asked_list_forget(m);
    keymap_end_lookups(m);
    keymap_end_waiters(m);
    keymap_clear(m);
    blob_unref(keymap_take_popped(m));
    if (m->moment != NULL)
        keymap_moment_leaves(m->moment);
    assert(m->keys.count == 0 && m->awaited.count == 0);
    table_fini(&m->keys);
    table_fini(&m->awaited);
    table_fini(&m->queues);
    table_fini(&m->groups);
}
