/* Large requests: looks up the keys of one, which must read or change all of them at one moment;
 * and lets equal ones share their work. See keymap.h for the contract.
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

#include "store/keymap/keymap_entry.h"
#include "store/keymap/keymap_moment.h"

#define GROUPED_FIRST 16

static size_t lookup_size(size_t room, bool with_values)
{
    return sizeof(struct batch_lookup) +
           room * (sizeof(struct entry *) + (with_values ? sizeof(struct blob *) : 0));
}

static void lookup_release_next(struct keymap *m, struct batch_lookup *p)
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

/* Counts each woken waiter as one freed piece. */
static size_t lookup_free_some(struct lazy_free *f, struct lazy *lazy, size_t count)
{
    struct batch_lookup *p = (struct batch_lookup *)lazy;
    const struct ready_list *ready = p->map->ready;
    uint64_t told = ready->work;

    if (p->freed < p->count) {
        lookup_release_next(p->map, p);
        told = ready->work - told;
        return told < count ? 1 + (size_t)told : count;
    }
    lazy_free_remove(f, lazy);
    TAILQ_REMOVE(&p->map->lookups, p, entry);
    account_free(ACCOUNT_WAITERS, p->grouped, p->grouped_room * sizeof p->grouped[0]);
    account_free(ACCOUNT_WAITERS, p, lookup_size(p->room, p->values != NULL));
    return 1;
}

struct batch_lookup *batch_lookup_begin(struct keymap *m, size_t count, bool with_values)
{
    size_t size = lookup_size(count, with_values);
    struct batch_lookup *p = account_request(ACCOUNT_WAITERS, account_class_of(size), size);

    if (p == NULL)
        return NULL;
    *p = (struct batch_lookup){.lazy = {.free_some = lookup_free_some},
                               .map = m,
                               .room = count,
                               .changes = m->lookup_changes};
    if (with_values)
        p->values = (struct blob **)(void *)&p->entries[count];
    TAILQ_INSERT_TAIL(&m->lookups, p, entry);
    return p;
}

/* NULL: memory is short. */
static struct entry *lookup_find_entry(struct batch_lookup *p, struct slice key)
{
    struct entry *e = keymap_get_or_create(p->map, key, false);

    assert(p->count < p->room);
    if (e == NULL || e->pins == UINT32_MAX)
        return NULL;
    e->pins++;
    if (p->values != NULL)
        p->values[p->count] = NULL;
    p->entries[p->count++] = e;
    return e;
}

bool batch_lookup_add(struct batch_lookup *p, struct slice key)
{
    struct entry *e = lookup_find_entry(p, key);

    if (e != NULL && p->values != NULL)
        p->values[p->count - 1] = blob_ref(e->value);
    return e != NULL;
}

/* False: memory is short. */
static bool note_grouped(struct batch_lookup *p, struct entry *e, const struct blob *value)
{
    size_t room = p->grouped_room == 0 ? GROUPED_FIRST : p->grouped_room * 2;
    struct batch_item *more;

    if (p->grouped_count == p->grouped_room) {
        more = account_resize(ACCOUNT_WAITERS, ACCOUNT_ORDINARY, p->grouped,
                              p->grouped_room * sizeof *more, room * sizeof *more);
        if (more == NULL)
            return false;
        p->grouped = more;
        p->grouped_room = room;
    }
    p->grouped[p->grouped_count++] = (struct batch_item){e, value};
    return true;
}

bool batch_lookup_add_value(struct batch_lookup *p, struct slice key, struct slice value)
{
    const struct keymap *m = p->map;
    size_t room = entry_room(value.len);
    struct entry *e = lookup_find_entry(p, key);
    struct blob *b;

    if (e == NULL)
        return false;
    b = account_request(m->kind, account_class_of(room), sizeof *b + room);
    if (b == NULL)
        return false;
    blob_begin(b, m->kind, room);
    slice_copy(b->bytes, value);
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

/* The snapshot may have begun after the keys were looked up, or a later one may have. */
bool batch_lookup_is_copied(struct batch_lookup *p)
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
void batch_lookup_end(struct batch_lookup *p)
{
    if (p != NULL)
        lazy_free_add_first(keymap_lazy_free(p->map), &p->lazy,
                            sizeof *p + p->room * sizeof(struct entry *));
}

void keymap_end_lookups(struct keymap *m)
{
    struct batch_lookup *p;

    while ((p = TAILQ_FIRST(&m->lookups)) != NULL) {
        lazy_free_remove(keymap_lazy_free(m), &p->lazy);
        lazy_free_add(NULL, &p->lazy, 1);
    }
}

/* --- The moment. --- */

void batch_lookup_take_values(struct batch_lookup *p)
{
    if (lookup_is_unchanged(p))
        return;
    for (size_t i = 0; i < p->count; i++) {
        struct blob *now = batch_lookup_entry(p, i)->value;

        if (now == p->values[i])
            continue;
        blob_leave(p->values[i], ACCOUNT_ANSWERS);
        p->values[i] = blob_ref(now);
    }
    p->changes = p->map->lookup_changes;
}

/* Prefetches the memory that the last step of a MULTI_SET will touch for the next keys: entries,
 * which may lie in two lines of the cache, and values. If the size of all old values is known,
 * the step does not read them. */
static inline void prefetch_put(const struct batch_lookup *p, size_t i, bool is_known)
{
    const struct entry *e;

    if (i + 32 < p->count)
        __builtin_prefetch(&p->entries[i + 32]->value);
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
static inline struct blob *put_looked_up(struct keymap *m, struct entry *e, struct blob *value,
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
    if (keymap_may_watch(m, e))
        keymap_notify_watches(m, e, e->value == NULL ? KEYMAP_CREATED : KEYMAP_UPDATED,
                              entry_value(e), blob_slice(value));
}

/* Millions of clients may wait for these keys. So batch_lookup_end() wakes them in slices as it
 * releases the entries. If a key is deleted before that, its waiters are woken at the deletion,
 * because the key has existed. */
void keymap_put_lookup(struct keymap *m, struct batch_lookup *p)
{
    bool is_known = lookup_is_unchanged(p) && !p->has_shared;

    while (!batch_lookup_is_copied(p))
        continue;
    p->tells = true;
    if (is_known)
        keymap_keep_bytes(m, p->more, p->less);
    for (size_t i = 0; i < p->count; i++) {
        struct entry *e = p->entries[i];

        prefetch_put(p, i, is_known);
        notify_put(m, e, p->values[i]);
        p->values[i] = put_looked_up(m, e, p->values[i], is_known);
    }
    m->lookup_changes++;
}

/* --- Equal requests of many clients. ---
 *
 * The problem: multiGet() of torch sends a WAIT and a MULTI_GET of the same list from each rank. If
 * 131,072 ranks read the ids of 1,024 roots, each by itself, this takes 134 million registrations,
 * 5 GB of them at once, and as many look-ups. So the first client's WAIT registers for all clients
 * with the same list, and the first MULTI_GET answers for all. The invariant: a client gets the
 * outcome that its own request would have at that moment. A key that counted for the first client
 * exists for a later one, and a key that has not counted is absent, as long as keymap.wait_epoch
 * stays the same. The answer holds until one of its keys comes, changes or goes, which its
 * lookup knows.
 *
 * The clients that wait for a list have a registration each in the ring `members`, as if the list
 * were one key. */

struct asked_list {
    struct awaited members; /* the first member; in no table, and has no bytes */
    struct keymap *map;
    bool waits;                  /* a WAIT has registered for it; the next two are about that */
    uint64_t wait_epoch;         /* keymap.wait_epoch before it began */
    struct waiter *waiter;       /* has the registrations; NULL: all keys existed */
    struct batch_lookup *lookup; /* of the keys of `answer`; NULL: there is none */
    struct blob *answer;
    size_t len;
    uint8_t items[]; /* `len` bytes, as requests have them */
};

static size_t list_size(const struct asked_list *l)
{
    return sizeof *l + l->len;
}

void asked_list_release(struct awaited *members)
{
    struct asked_list *l = (struct asked_list *)members;
    struct keymap *m = l->map;

    if (l == m->asked || members->waiting != NULL)
        return;
    keymap_wait_bytes(m, 0, list_size(l));
    keymap_cancel(m, l->waiter);
    batch_lookup_end(l->lookup);
    blob_unref(l->answer);
    account_free(ACCOUNT_WAITERS, l, list_size(l));
}

void asked_list_forget(struct keymap *m)
{
    struct asked_list *l = m->asked;

    m->asked = NULL;
    if (l != NULL)
        asked_list_release(&l->members);
}

void asked_list_trim(struct keymap *m)
{
    if (m->asked != NULL && m->asked->members.waiting == NULL)
        asked_list_forget(m);
}

const struct awaited *waiter_next_key(const struct waiter *w, uint64_t *i)
{
    const struct awaited *at = NULL;

    if (w->count == 1 && w->links[0].at != NULL && awaited_is_list(w->links[0].at))
        w = ((const struct asked_list *)w->links[0].at)->waiter;
    while (at == NULL && *i < w->count)
        at = w->links[(*i)++].at;
    return at;
}

/* The list with these items; NULL: it is another, or none. */
static struct asked_list *list_find(const struct keymap *m, struct slice items)
{
    struct asked_list *l = m->asked;

    return l != NULL && slice_equal((struct slice){l->items, l->len}, items) ? l : NULL;
}

/* Finds it, or makes it. NULL: memory is short. */
static struct asked_list *list_get(struct keymap *m, struct slice items)
{
    struct asked_list *l = list_find(m, items);

    if (l != NULL || !quota_may_wait(m->quota, sizeof *l + items.len))
        return l;
    l = account_request(ACCOUNT_WAITERS, ACCOUNT_ORDINARY, sizeof *l + items.len);
    if (l == NULL)
        return NULL;
    *l = (struct asked_list){.map = m, .len = items.len};
    slice_copy(l->items, items);
    keymap_wait_bytes(m, list_size(l), 0);
    asked_list_forget(m);
    m->asked = l;
    return l;
}

bool keymap_is_known(const struct keymap *m, struct slice items, bool with_values)
{
    const struct asked_list *l = list_find(m, items);

    return l != NULL && (with_values ? l->lookup != NULL && lookup_is_unchanged(l->lookup)
                                     : l->waits && l->wait_epoch == m->wait_epoch);
}

/* --- WAIT. --- */

enum store_status keymap_wait_join(struct keymap *m, void *owner, struct waiter **out)
{
    struct asked_list *l = m->asked;

    *out = NULL;
    if (l->waiter == NULL || l->waiter->missing == 0)
        return STORE_OK;
    if (!quota_may_wait(m->quota, WAITER_COST))
        return STORE_FULL;
    *out = keymap_waiter_at(m, &l->members, owner, 0);
    return *out != NULL ? STORE_OK : STORE_NO_MEMORY;
}

struct waiter *keymap_wait_share(struct keymap *m, struct slice items, uint64_t wait_epoch,
                                 struct waiter *w)
{
    struct asked_list *l;
    struct waiter *member = NULL;

    if (wait_epoch != m->wait_epoch)
        return w;
    if (m->asked != NULL && m->asked->waits)
        asked_list_forget(m);
    l = list_get(m, items);
    if (l != NULL && w != NULL)
        member = keymap_waiter_at(m, &l->members, w->wake.owner, 0);
    if (l == NULL || (w != NULL && member == NULL))
        return w;
    l->waits = true;
    l->wait_epoch = wait_epoch;
    l->waiter = w;
    if (w == NULL)
        return NULL;
    w->wake.kind = WAKE_LIST;
    w->wake.owner = l;
    m->waiters--;
    TAILQ_REMOVE(&m->open_waiters, &w->wake, entry); /* the first there has waited longest */
    TAILQ_INSERT_TAIL(&m->open_waiters, &w->wake, entry);
    return member;
}

/* --- MULTI_GET. --- */

struct blob *keymap_known_answer(const struct keymap *m)
{
    return m->asked->answer;
}

void keymap_share_answer(struct keymap *m, struct slice items, struct batch_lookup *lookup,
                         struct blob *answer)
{
    struct asked_list *l = list_get(m, items);

    if (l == NULL) {
        batch_lookup_end(lookup);
        return;
    }
    batch_lookup_end(l->lookup);
    blob_unref(l->answer);
    l->lookup = lookup;
    l->answer = blob_ref(answer);
}
