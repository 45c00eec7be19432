/* Those who wait for keys, queues and barriers, and those who watch a key. See keymap.h for the
 * contract. */
#include <assert.h>

#include "proto/c10d.h"
#include "store/keymap_entry.h"

/* --- Telling. --- */

/* One registration has counted. True when its waiter lacks nothing any more. */
static bool count_link(struct keymap *m, struct wait_link *link)
{
    link->at = NULL;
    if (--link->waiter->missing != 0)
        return false;
    wake_add(m->ready, &link->waiter->wake);
    return true;
}

void keymap_wake_all(struct keymap *m, struct entry *e)
{
    struct wait_link *link;

    while ((link = TAILQ_FIRST(&e->waiting)) != NULL) {
        TAILQ_REMOVE(&e->waiting, link, entry);
        count_link(m, link);
    }
}

/* u8 type, str key, bytes old, bytes new: what TCPStoreBackend's watchers of 1.9 to 2.0 receive. */
void keymap_tell(struct keymap *m, struct entry *e, enum keymap_change type, struct slice old,
                 struct slice now)
{
    struct key_watch *w;
    struct slice parts[3] = {e->node.key, old, now};
    struct blob *b;
    struct writer out;

    if (TAILQ_EMPTY(&e->watching))
        return;
    b = blob_alloc(1 + 3 * 8 + e->node.key.len + old.len + now.len);
    if (b == NULL)
        return; /* a lost event of a legacy call that nothing depends on; the change stands */
    b->len = 1 + 3 * 8 + e->node.key.len + old.len + now.len;
    out = (struct writer){.ptr = b->bytes, .cap = b->len};
    writer_u8(&out, (uint8_t)type);
    for (int i = 0; i < 3; i++) {
        uint8_t len[8];

        bytes_put_u64(len, parts[i].len);
        writer_put(&out, len, sizeof len);
        writer_slice(&out, parts[i]);
    }
    TAILQ_FOREACH(w, &e->watching, entry)
        subscription_push(m->ready, w->subscription, b);
    blob_unref(b);
}

/* An element is there for one: the oldest waiter that lacks nothing else gets it. Those before it
 * that still lack another key have seen this one exist, which is all that WAIT counts. */
void keymap_wake_one(struct keymap *m, struct slice name)
{
    struct entry *e = keymap_find(m, name);
    struct wait_link *link;

    if (e == NULL)
        return;
    while ((link = TAILQ_FIRST(&e->waiting)) != NULL) {
        TAILQ_REMOVE(&e->waiting, link, entry);
        if (count_link(m, link))
            break;
    }
    keymap_release(m, e);
}

void keymap_open_barrier(struct keymap *m, struct entry *e)
{
    struct wait_link *link;

    while ((link = TAILQ_FIRST(&e->barrier)) != NULL) {
        TAILQ_REMOVE(&e->barrier, link, entry);
        count_link(m, link);
    }
}

/* --- Waiting. --- */

static struct waiter *waiter_new(struct keymap *m, uint64_t count, void *owner)
{
    struct waiter *w = calloc(1, sizeof *w + count * sizeof w->links[0]);

    if (w == NULL)
        return NULL;
    w->wake.kind = WAKE_WAITER;
    w->wake.owner = owner;
    m->waiters++;
    return w;
}

/* One more registration, of a waiter that was made with room for it. */
static void waiter_add(struct waiter *w, struct entry *e)
{
    struct wait_link *link = &w->links[w->count++];

    link->waiter = w;
    link->at = e;
    w->missing++;
    if (w->barrier)
        TAILQ_INSERT_TAIL(&e->barrier, link, entry);
    else
        TAILQ_INSERT_TAIL(&e->waiting, link, entry);
}

enum store_status keymap_wait(struct keymap *m, struct slice keys, uint64_t count, void *owner,
                              struct waiter **out)
{
    struct slice rest = keys, key;
    uint64_t absent = 0;
    struct waiter *w;

    while (c10d_next_blob(&rest, &key))
        absent += keymap_exists(m, key) ? 0 : 1;
    assert(absent <= count);
    *out = NULL;
    if (absent == 0)
        return STORE_OK;
    w = waiter_new(m, absent, owner);
    if (w == NULL)
        return STORE_NO_MEMORY;
    while (c10d_next_blob(&keys, &key)) {
        struct entry *e;

        if (keymap_exists(m, key))
            continue;
        e = keymap_has_room(m, key, 0) ? keymap_need(m, key) : NULL;
        if (e == NULL) {
            keymap_cancel(m, w);
            return STORE_FULL;
        }
        waiter_add(w, e);
    }
    *out = w;
    return STORE_OK;
}

enum store_status keymap_barrier_wait(struct keymap *m, struct slice key, void *owner,
                                      struct waiter **out)
{
    struct entry *e = keymap_need(m, key);
    struct waiter *w = e == NULL ? NULL : waiter_new(m, 1, owner);

    if (w == NULL) {
        if (e != NULL)
            keymap_release(m, e);
        return STORE_NO_MEMORY;
    }
    w->barrier = true;
    waiter_add(w, e);
    *out = w;
    return STORE_OK;
}

void keymap_cancel(struct keymap *m, struct waiter *w)
{
    if (w == NULL)
        return;
    wake_remove(m->ready, &w->wake);
    for (uint64_t i = 0; i < w->count; i++) {
        struct wait_link *link = &w->links[i];
        struct entry *e = link->at;

        if (e == NULL)
            continue;
        if (w->barrier)
            TAILQ_REMOVE(&e->barrier, link, entry);
        else
            TAILQ_REMOVE(&e->waiting, link, entry);
        keymap_release(m, e);
    }
    m->waiters--;
    free(w);
}

struct key_watch *keymap_watch(struct keymap *m, struct slice key,
                               struct subscription *subscription)
{
    struct entry *e = keymap_need(m, key);
    struct key_watch *w = e == NULL ? NULL : calloc(1, sizeof *w);

    if (w == NULL) {
        if (e != NULL)
            keymap_release(m, e);
        return NULL;
    }
    w->subscription = subscription;
    w->at = e;
    TAILQ_INSERT_TAIL(&e->watching, w, entry);
    m->waiters++;
    return w;
}

void keymap_unwatch(struct keymap *m, struct key_watch *w)
{
    TAILQ_REMOVE(&w->at->watching, w, entry);
    keymap_release(m, w->at);
    m->waiters--;
    free(w);
}
