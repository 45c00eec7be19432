/* Clients that wait for keys, queues and barriers, or watch a key. See keymap.h for the contract.
 *
 * The problem: 10,000 clients WAIT for 10,000 keys each. Checking each waiter at each SET would
 * take 10,000 lookups for one change. So a waiter has a wait_link in the list of each key that it
 * lacks, and a SET visits only the links of its own key. WAIT asks whether a key has existed, and
 * not whether all keys exist together: a link that has counted leaves its list for good, and a
 * later DELETE does not bring it back. The invariant: `missing` is the number of links whose `at`
 * is set, plus 1 while keys are being added. count_link() keeps it, except in waiter_take_over(),
 * whose old waiter is cancelled at once.
 *
 * The lists of a key stand apart from its entry: most keys have none, and most awaited keys have no
 * value. An entry has `awaited` set if its key is awaited, and perhaps if another one is.
 *
 * A waiter with many links is unregistered in slices after its client has left; meanwhile it is
 * WAKE_ENDED, and its links count but wake no client. */
#include <assert.h>

#include "proto/c10d_client.h"
#include "store/keymap/keymap_entry.h"

/* The lazy free ends the registrations of a larger waiter in slices. */
#define FREED_AT_ONCE 256

/* --- Rings. --- */

/* To the end. */
static void ring_add(struct wait_link **ring, struct wait_link *link)
{
    struct wait_link *first = *ring == NULL ? link : *ring;

    link->next = first;
    link->prev = *ring == NULL ? link : first->prev;
    link->prev->next = first->prev = link;
    *ring = first;
}

static void ring_remove(struct wait_link **ring, const struct wait_link *link)
{
    link->prev->next = link->next;
    link->next->prev = link->prev;
    if (*ring == link)
        *ring = link->next == link ? NULL : link->next;
}

static struct wait_link **ring_of(const struct waiter *w, struct awaited *a)
{
    return w->size != 0 ? &a->others : &a->waiting;
}

/* --- Awaited keys. --- */

struct awaited *keymap_find_awaited(struct keymap *m, struct entry *e)
{
    struct awaited *a = NULL;

    if (e->awaited)
        a = (struct awaited *)table_find_like(&m->awaited, (struct table_node *)&e->node);
    e->awaited = a != NULL;
    return a;
}

/* Finds it, or makes it, and takes *room for it if `room` is not NULL. `e` is the entry of the key,
 * or NULL. NULL: there was no room, and memory is short. */
static struct awaited *awaited_get(struct keymap *m, struct slice key, uint64_t hash,
                                   struct entry *e, void **room)
{
    struct awaited *a = (struct awaited *)table_find_by_hash(&m->awaited, key, hash);
    size_t size = awaited_size(key);

    if (a != NULL)
        return a;
    a = room == NULL ? account_request(ACCOUNT_WAITERS, ACCOUNT_ORDINARY, size) : *room;
    if (a == NULL)
        return NULL;
    if (room != NULL)
        *room = NULL;
    *a = (struct awaited){.node = {.near = TABLE_NEAR(sizeof *a, key.len)}};
    slice_copy(a + 1, key);
    table_add_hashed(&m->awaited, (struct table_node *)&a->node, hash);
    keymap_wait_bytes(m, size, 0);
    if (e != NULL)
        e->awaited = true;
    return a;
}

static struct awaited *awaited_look_up(struct keymap *m, struct slice key, void **room)
{
    uint64_t hash;
    struct entry *e = keymap_look_up(m, key, &hash);

    return awaited_get(m, key, hash, e, room);
}

/* Frees it if no client waits for it or watches it. Takes NULL. */
static void awaited_release(struct keymap *m, struct awaited *a)
{
    if (a == NULL || a->waiting != NULL || a->others != NULL)
        return;
    if (awaited_is_list(a)) {
        asked_list_release(a);
        return;
    }
    keymap_wait_bytes(m, 0, awaited_size(awaited_key(a)));
    table_remove(&m->awaited, (struct table_node *)&a->node);
    account_free(ACCOUNT_WAITERS, a, awaited_size(awaited_key(a)));
}

/* --- Telling. --- */

static void wake_waiting(struct keymap *m, struct awaited *a);

/* Counts one registration; true: the waiter lacks no more keys. */
static bool count_link(struct keymap *m, struct wait_link *link)
{
    struct waiter *w = link->waiter;

    link->at = NULL;
    m->ready->work++;
    if (--w->missing != 0 || w->wake.kind == WAKE_ENDED)
        return false;
    TAILQ_REMOVE(&m->open_waiters, &w->wake, entry);
    if (w->wake.kind == WAKE_LIST)
        wake_waiting(m, w->wake.owner); /* and may free the waiter */
    else
        wake_add(m->ready, &w->wake);
    return true;
}

/* All that wait for a key, or for a list. Takes NULL. */
static void wake_waiting(struct keymap *m, struct awaited *a)
{
    struct wait_link *link;

    while (a != NULL && (link = a->waiting) != NULL) {
        ring_remove(&a->waiting, link);
        count_link(m, link);
    }
    awaited_release(m, a);
}

void keymap_wake_all(struct keymap *m, struct entry *e)
{
    wake_waiting(m, keymap_find_awaited(m, e));
}

/* u8 type, str key, bytes old, bytes new: what TCPStoreBackend's watchers of 1.9 to 2.0 receive.
 * NULL when memory is short. */
static struct blob *watch_bytes(enum keymap_change type, const struct slice parts[3])
{
    size_t size = 1 + 3 * 8 + parts[0].len + parts[1].len + parts[2].len;
    struct blob *b = blob_alloc(ACCOUNT_WATCHES, size);
    struct writer out;

    if (b == NULL)
        return NULL;
    out = (struct writer){.ptr = b->bytes, .cap = b->len};
    writer_u8(&out, (uint8_t)type);
    for (int i = 0; i < 3; i++)
        c10d_write_blob(&out, parts[i]);
    return b;
}

void keymap_notify_watches(struct keymap *m, struct entry *e, enum keymap_change type,
                           struct slice old, struct slice now)
{
    const struct slice parts[3] = {entry_key(e), old, now};
    const struct awaited *a = keymap_find_awaited(m, e);
    const struct wait_link *link = a == NULL ? NULL : a->others;
    struct blob *b;

    if (link == NULL || link->waiter != NULL)
        return; /* watches come first */
    b = reserve_has_spare(m->reserve) ? watch_bytes(type, parts) : NULL;
    do
        subscription_push(m->ready, m->reserve, ((const struct key_watch *)link)->subscription, b);
    while ((link = link->next) != a->others && link->waiter == NULL);
    blob_unref(b);
}

/* Gives the element to the oldest waiter that waits for no other key. For older waiters, which
 * still lack another key, this key counts too: WAIT counts only that a key has existed. */
void keymap_wake_one(struct keymap *m, struct slice name)
{
    struct awaited *a = (struct awaited *)table_find(&m->awaited, name), *members;
    struct wait_link *link;

    m->wait_epoch += a != NULL; /* some still wait, though the queue has an element */
    while (a != NULL && (link = a->waiting) != NULL) {
        members = link->waiter->wake.kind == WAKE_LIST ? link->waiter->wake.owner : NULL;
        if (members != NULL && members->waiting != NULL && link->waiter->missing == 1) {
            link = members->waiting; /* the others wait for the next element */
            ring_remove(&members->waiting, link);
            count_link(m, link);
            awaited_release(m, members);
            return;
        }
        ring_remove(&a->waiting, link);
        if (count_link(m, link))
            break;
    }
    awaited_release(m, a);
}

/* The waiter of all places of sessions, so that none of them takes the memory of one. */
static struct waiter arrived = {.size = 1};

void keymap_open_barrier(struct keymap *m, struct entry *e)
{
    struct awaited *a = keymap_find_awaited(m, e);
    struct wait_link *link = a == NULL ? NULL : a->others, *next;

    for (; link != NULL && link->waiter == NULL; m->ready->work++) /* the watches */
        link = link->next == a->others ? NULL : link->next;
    for (; link != NULL && link->waiter != NULL; link = a->others == NULL ? NULL : next) {
        struct arrival *arrival = (struct arrival *)link;

        next = link->next;
        ring_remove(&a->others, link);
        if (link->waiter == &arrived)
            arrival->passes(arrival); /* frees the link */
        else
            count_link(m, link);
    }
    awaited_release(m, a);
}

/* --- Waiting. --- */

static size_t waiter_cost(uint64_t count)
{
    return sizeof(struct waiter) + count * sizeof(struct wait_link);
}

/* A waiter with room for `count` registrations, fewer than UINT32_MAX. Only registrations that it
 * has made count towards the space's quota. */
static struct waiter *waiter_new(struct keymap *m, uint64_t count, void *owner)
{
    struct waiter *w = account_request(ACCOUNT_WAITERS, ACCOUNT_ORDINARY, waiter_cost(count));

    if (w == NULL)
        return NULL;
    *w = (struct waiter){.wake = {.kind = WAKE_WAITER, .owner = owner}, .cap = (uint32_t)count};
    TAILQ_INSERT_TAIL(&m->open_waiters, &w->wake, entry);
    m->waiters++;
    keymap_wait_bytes(m, waiter_cost(0), 0);
    return w;
}

/* Registers the waiter at a key. waiter_new() made the room. */
static void waiter_register(struct keymap *m, struct waiter *w, struct awaited *a)
{
    struct wait_link *link = &w->links[w->count++];

    link->waiter = w;
    link->at = a;
    w->missing++;
    ring_add(ring_of(w, a), link);
    keymap_wait_bytes(m, sizeof(struct wait_link), 0);
}

struct waiter *keymap_waiter_at(struct keymap *m, struct awaited *a, void *owner, uint32_t size)
{
    struct waiter *w = waiter_new(m, 1, owner);

    if (w == NULL)
        return NULL;
    w->size = size;
    waiter_register(m, w, a);
    return w;
}

/* True when the request named the key before, and nobody else has registered since. Counting it
 * once comes to the same; and one request cannot make a change count it 131,072 times. */
static bool is_registered(const struct waiter *w, const struct awaited *a)
{
    return a->waiting != NULL && a->waiting->prev->waiter == w;
}

enum store_status keymap_wait_add(struct keymap *m, struct waiter **w, uint64_t room, void *owner,
                                  struct slice key)
{
    uint64_t hash;
    struct entry *e = keymap_look_up(m, key, &hash);
    size_t cost = sizeof(struct wait_link) + (*w == NULL ? waiter_cost(0) : 0);
    struct awaited *a = NULL;

    if ((e != NULL && e->value != NULL) || keymap_find_queue(m, key) != NULL)
        return STORE_OK;
    if (!quota_may_wait(m->quota, cost + awaited_size(key)))
        return STORE_FULL;
    if (*w == NULL) {
        *w = waiter_new(m, room, owner);
        if (*w != NULL)
            (*w)->missing = 1; /* it is not over before keymap_wait_end() */
    }
    if (*w != NULL)
        a = awaited_get(m, key, hash, e, NULL);
    if (a == NULL)
        return STORE_NO_MEMORY;
    if (!is_registered(*w, a))
        waiter_register(m, *w, a);
    return STORE_OK;
}

/* A waiter with so few registrations moves to a smaller block when its own is far too large. */
#define MOVED_AT_ONCE 4096

/* Moves the uncounted registrations of `old` to `w`, in the lists of their keys as well. */
static void waiter_take_over(struct keymap *m, struct waiter *w, struct waiter *old)
{
    for (uint64_t i = 0; i < old->count; i++) {
        struct wait_link *link = &old->links[i];

        if (link->at == NULL)
            continue;
        waiter_register(m, w, link->at);
        ring_remove(&link->at->waiting, link);
        link->at = NULL;
    }
}

/* The waiter has room for all keys. If most keys exist, a smaller waiter replaces it. */
__attribute__((noinline)) static struct waiter *waiter_fit(struct keymap *m, struct waiter *w)
{
    struct waiter *fitting = waiter_new(m, w->missing, w->wake.owner);

    if (fitting == NULL)
        return w;
    waiter_take_over(m, fitting, w);
    keymap_cancel(m, w);
    return fitting;
}

struct waiter *keymap_wait_end(struct keymap *m, struct waiter *w)
{
    if (w == NULL)
        return NULL;
    if (w->missing == 1) {
        keymap_cancel(m, w);
        return NULL;
    }
    w->missing--;
    return w->count < w->cap / 2 && w->count <= MOVED_AT_ONCE ? waiter_fit(m, w) : w;
}

enum store_status keymap_wait(struct keymap *m, struct slice keys, uint64_t count, void *owner,
                              struct waiter **out)
{
    enum store_status status = STORE_OK;
    struct waiter *w = NULL;
    struct slice key;

    *out = NULL;
    for (; status == STORE_OK && c10d_next_blob(&keys, &key); count--)
        status = keymap_wait_add(m, &w, count, owner, key);
    if (status == STORE_OK)
        *out = keymap_wait_end(m, w);
    else
        keymap_cancel(m, w);
    return status;
}

enum store_status keymap_barrier_wait(struct keymap *m, struct slice key, int64_t size, void *owner,
                                      struct waiter **out)
{
    struct awaited *a = awaited_look_up(m, key, NULL);

    size = size < 1 ? 1 : size > UINT32_MAX ? UINT32_MAX : size;
    *out = a == NULL ? NULL : keymap_waiter_at(m, a, owner, (uint32_t)size);
    if (*out != NULL)
        return STORE_OK;
    awaited_release(m, a);
    return STORE_NO_MEMORY;
}

static void unlink_wait(struct keymap *m, struct waiter *w, struct wait_link *link)
{
    struct awaited *a = link->at;

    if (a != NULL)
        ring_remove(ring_of(w, a), link);
    awaited_release(m, a);
}

/* Ends up to `max` registrations; or, if none are left, frees the waiter and returns false. */
static bool waiter_free_some(struct keymap *m, struct waiter *w, uint64_t max)
{
    if (w->count > 0) {
        uint64_t count = w->count;

        for (; max > 0 && w->count > 0; max--)
            unlink_wait(m, w, &w->links[--w->count]);
        keymap_wait_bytes(m, 0, (count - w->count) * sizeof(struct wait_link));
        return true;
    }
    keymap_wait_bytes(m, 0, waiter_cost(0));
    account_free(ACCOUNT_WAITERS, w, waiter_cost(w->cap));
    return false;
}

/* One registration of those who have gone. */
static size_t free_ended(struct lazy_free *f, struct lazy *l, size_t)
{
    struct keymap *m = (struct keymap *)((char *)l - offsetof(struct keymap, ended));
    struct waiter *w = (struct waiter *)TAILQ_FIRST(&m->ended_waiters); /* wake is its first */

    if (w->count == 0) {
        TAILQ_REMOVE(&m->ended_waiters, &w->wake, entry);
        if (TAILQ_EMPTY(&m->ended_waiters))
            lazy_free_remove(f, l);
        else
            lazy_free_count(f, l, waiter_cost(w->cap));
    }
    waiter_free_some(m, w, 1);
    return 1;
}

void keymap_cancel(struct keymap *m, struct waiter *w)
{
    if (w == NULL)
        return;
    if (w->missing > 0)
        TAILQ_REMOVE(&m->open_waiters, &w->wake, entry);
    else
        wake_remove(m->ready, &w->wake);
    m->waiters -= w->wake.kind != WAKE_LIST;
    if (w->count > FREED_AT_ONCE && keymap_lazy_free(m) != NULL) {
        w->wake.kind = WAKE_ENDED;
        TAILQ_INSERT_TAIL(&m->ended_waiters, &w->wake, entry);
        m->ended.free_some = free_ended;
        lazy_free_add(keymap_lazy_free(m), &m->ended, waiter_cost(w->cap));
        return;
    }
    while (waiter_free_some(m, w, UINT64_MAX))
        continue;
}

/* The number of waiting clients stays as it is. */
void keymap_arrive(struct keymap *m, struct slice key, struct arrival *arrival, void **room)
{
    struct awaited *a = awaited_look_up(m, key, room);

    arrival->link.waiter = &arrived;
    arrival->link.at = a;
    ring_add(&a->others, &arrival->link);
}

void keymap_depart(struct keymap *m, struct arrival *arrival)
{
    unlink_wait(m, &arrived, &arrival->link);
}

void keymap_end_waiters(struct keymap *m)
{
    struct wake *w;

    lazy_free_remove(keymap_lazy_free(m), &m->ended);
    assert(TAILQ_EMPTY(&m->open_waiters));
    while ((w = TAILQ_FIRST(&m->ended_waiters)) != NULL) {
        TAILQ_REMOVE(&m->ended_waiters, w, entry);
        while (waiter_free_some(m, (struct waiter *)w, UINT64_MAX))
            continue;
    }
}

enum store_status keymap_watch(struct keymap *m, struct slice key,
                               struct subscription *subscription, struct key_watch **out)
{
    struct awaited *a;
    struct key_watch *w;

    if (!quota_may_wait(m->quota, awaited_size(key) + sizeof(struct key_watch)))
        return STORE_FULL;
    a = awaited_look_up(m, key, NULL);
    w = a == NULL ? NULL : account_request_zeroed(ACCOUNT_WATCHES, ACCOUNT_ORDINARY, sizeof *w);
    if (w == NULL) {
        awaited_release(m, a);
        return STORE_NO_MEMORY;
    }
    w->subscription = subscription;
    w->link.at = a;
    ring_add(&a->others, &w->link);
    a->others = &w->link; /* before all others */
    TAILQ_INSERT_TAIL(&m->watches, w, all);
    m->waiters++;
    keymap_wait_bytes(m, sizeof *w, 0);
    *out = w;
    return STORE_OK;
}

void keymap_unwatch(struct keymap *m, struct key_watch *w)
{
    ring_remove(&w->link.at->others, &w->link);
    TAILQ_REMOVE(&m->watches, w, all);
    awaited_release(m, w->link.at);
    m->waiters--;
    keymap_wait_bytes(m, 0, sizeof *w);
    account_free(ACCOUNT_WATCHES, w, sizeof *w);
}
