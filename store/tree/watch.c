/* Events of an etcd tree: history and watches. See watch.h for the contract. */
#include "store/tree/watch.h"

#include <assert.h>

#include "store/change/change.h"

/* Everybody who watches one path. */
struct watch_point {
    struct table_node node;
    TAILQ_HEAD(, watch) watches;
    uint8_t path[];
};

/* --- Events. --- */

/* Memory with room for the key becomes an event. */
static struct tree_event *event_begin(struct tree_event *e, enum etcd_action action,
                                      struct slice key)
{
    *e = (struct tree_event){.refs = 1, .action = action};
    e->node.key = e->prev.key = slice_copy(e->key, key);
    return e;
}

struct tree_event *tree_event_new(struct reserve *reserve, enum etcd_action action,
                                  struct slice key)
{
    struct tree_event *e = reserve_alloc(reserve, ACCOUNT_HISTORY, sizeof *e + key.len);

    return event_begin(e, action, key);
}

struct tree_event *tree_event_ref(struct tree_event *e)
{
    e->refs++;
    return e;
}

void tree_event_unref(struct tree_event *e)
{
    if (e == NULL || --e->refs != 0)
        return;
    blob_unref(e->value);
    blob_unref(e->prev_value);
    blob_unref(e->chunk);
    account_free(ACCOUNT_HISTORY, e, sizeof *e + e->node.key.len);
}

/* The members of an event beside its keys and values. */
#define EVENT_ROOM 512

#define SIZE_LINE "00000000\r\n" /* of a chunk, of any length: the JSON comes behind it */
#define SIZE_LEN  (sizeof SIZE_LINE - 1)

static void write_chunk(struct writer *w, const struct tree_event *e)
{
    size_t at = SIZE_LEN - 2, len;

    writer_put(w, SIZE_LINE, SIZE_LEN);
    etcd_write_event(w, e->action, &e->node, e->has_prev ? &e->prev : NULL);
    len = w->len - SIZE_LEN;
    writer_put(w, "\r\n", 2);
    for (; w->len <= w->cap && len != 0; len /= 16)
        w->ptr[--at] = (uint8_t) "0123456789abcdef"[len % 16];
}

/* Most texts need no escapes, and fit into the room that is guessed. */
struct blob *tree_event_chunk(struct tree_event *e)
{
    size_t room = EVENT_ROOM + 2 * e->node.key.len + e->node.value.len + e->prev.value.len;
    uint8_t small[1024];
    struct writer w = {.ptr = small, .cap = sizeof small};

    if (e->chunk != NULL)
        return e->chunk;
    if (room <= sizeof small) {
        write_chunk(&w, e);
        room = w.len;
    }
    if (room <= sizeof small)
        return e->chunk = blob_new(ACCOUNT_HISTORY, (struct slice){small, room});
    while ((e->chunk = blob_alloc(ACCOUNT_HISTORY, room)) != NULL) {
        w = (struct writer){.ptr = e->chunk->bytes, .cap = room};
        write_chunk(&w, e);
        if (w.len <= room) {
            blob_leave_spare(e->chunk, room - w.len);
            break;
        }
        blob_unref(e->chunk);
        room = w.len;
    }
    return e->chunk;
}

struct slice tree_chunk_json(const struct blob *chunk)
{
    return (struct slice){chunk->bytes + SIZE_LEN, chunk->len - SIZE_LEN - 2};
}

/* From now on, only subscriptions with unsent texts hold the chunk. */
static void tree_event_release(struct tree_event *e)
{
    blob_leave(e->chunk, ACCOUNT_WATCHES);
    e->chunk = NULL;
}

/* --- Telling. --- */

void watch_hub_init(struct watch_hub *h, struct ready_list *ready, struct reserve *reserve,
                    struct quota *quota, uint64_t seed, uint64_t last)
{
    *h = (struct watch_hub){
        .ready = ready, .reserve = reserve, .quota = quota, .last = last, .oldest = 1};
    table_init(&h->points, ACCOUNT_WATCHES, seed, reserve);
}

void watch_hub_fini(struct watch_hub *h)
{
    for (size_t i = 0; i < HISTORY_EVENTS; i++)
        tree_event_unref(h->history[i]);
    assert(h->points.count == 0);
    table_fini(&h->points);
}

/* The bytes of a watch, reckoned as if it were the only watch of its path. */
static size_t watch_cost(struct slice key)
{
    return sizeof(struct watch) + sizeof(struct watch_point) + key.len;
}

static void watch_unregister(struct watch_hub *h, struct watch *w)
{
    struct watch_point *point = w->at;

    if (point == NULL)
        return;
    TAILQ_REMOVE(&point->watches, w, entry);
    w->at = NULL;
    h->registered--;
    quota_wait(h->quota, &h->waiting_bytes, 0, watch_cost(point->node.key));
    if (TAILQ_EMPTY(&point->watches)) {
        table_remove(&h->points, &point->node);
        account_free(ACCOUNT_WATCHES, point, sizeof *point + point->node.key.len);
    }
}

/* True when a name below `watched` on the way to `key` is hidden. A watch below the key also gets
 * the event when the removed key is a directory above it. */
static bool is_hidden(struct slice watched, struct slice key)
{
    size_t from = watched.len == 1 ? 0 : watched.len; /* the root's path is "/" */

    return ANY(for (size_t i = from; i + 1 < key.len; i++),
               key.ptr[i] == '/' && key.ptr[i + 1] == '_');
}

/* If memory is short, the subscription is lost. The first subscription pays for the JSON. */
static void watch_push(struct watch_hub *h, struct tree_event *e, struct subscription *s)
{
    bool fresh = e->chunk == NULL;
    struct blob *chunk = reserve_has_spare(h->reserve) ? tree_event_chunk(e) : NULL;

    if (fresh && chunk != NULL)
        h->ready->work += chunk->len / READY_COPIED_BYTES;
    subscription_push(h->ready, h->reserve, s, chunk);
}

static void watch_notify(struct watch_hub *h, struct tree_event *e, struct slice path, bool removed)
{
    struct watch_point *point = (struct watch_point *)table_find(&h->points, path);
    bool exact = slice_equal(path, e->node.key);

    if (point == NULL || (!exact && is_hidden(path, e->node.key)))
        return;
    TAILQ_EACH_SAFE(struct watch, w, &point->watches, entry) {
        if (!(w->recursive || exact || removed) || e->node.modified < w->since)
            continue;
        watch_push(h, e, &w->subscription);
        /* A watch that missed an event must end, as etcd's does. */
        if (!w->stream || w->subscription.lost) {
            w->subscription.ended = true;
            watch_unregister(h, w); /* may free the point; then this was the last */
        }
    }
}

void watch_notify_removed(struct watch_hub *h, struct tree_event *e, struct slice path)
{
    if (h->registered != 0)
        watch_notify(h, e, path, true);
}

bool watch_next_path(struct watch_hub *h, struct watch_walk *walk, struct slice *path)
{
    struct table *points = &h->points;

    while (walk->next == NULL && walk->bucket < table_bucket_count(points))
        walk->next = table_bucket(points, walk->bucket++);
    points->still = walk->next != NULL;
    if (walk->next == NULL)
        return false;
    *path = walk->next->key;
    walk->next = walk->next->next;
    return true;
}

static size_t event_size(const struct tree_event *e)
{
    return sizeof *e + e->node.key.len + blob_slice(e->value).len + blob_slice(e->prev_value).len;
}

static void watch_forget(struct watch_hub *h, uint64_t index)
{
    struct tree_event **slot = &h->history[index % HISTORY_EVENTS];

    if (*slot == NULL)
        return;
    if (*slot == h->fresh)
        h->fresh = NULL;
    h->bytes -= event_size(*slot);
    h->ready->work += event_size(*slot) / READY_FREED_BYTES;
    tree_event_unref(*slot);
    *slot = NULL;
}

bool watch_forget_oldest(struct watch_hub *h)
{
    if (h->fresh != NULL && h->fresh->chunk != NULL) {
        tree_event_release(h->fresh);
        return true;
    }
    while (h->oldest < h->last && h->history[h->oldest % HISTORY_EVENTS] == NULL)
        h->oldest++;
    if (h->oldest >= h->last)
        return false;
    watch_forget(h, h->oldest++);
    return true;
}

/* Takes over the reference. The newest event is always kept. */
static void remember_event(struct watch_hub *h, uint64_t index, struct tree_event *e)
{
    assert(index == h->last + 1);
    if (index >= HISTORY_EVENTS && h->oldest <= index - HISTORY_EVENTS)
        watch_forget(h, h->oldest++);
    h->history[index % HISTORY_EVENTS] = e;
    h->bytes += event_size(e);
    h->last = index;
    while (h->bytes > HISTORY_BYTES_MAX && h->oldest < index)
        watch_forget(h, h->oldest++);
}

void watch_publish(struct watch_hub *h, struct tree_event *e)
{
    struct slice key = e->node.key;

    remember_event(h, e->node.modified, tree_event_ref(e));
    if (h->fresh != NULL)
        tree_event_release(h->fresh);
    h->fresh = e;
    if (e->refresh || h->registered == 0)
        return;
    watch_notify(h, e, slice_str("/"), false);
    for (size_t i = 1; i <= key.len && key.len > 1; i++) {
        if (i == key.len || key.ptr[i] == '/')
            watch_notify(h, e, (struct slice){key.ptr, i}, false);
    }
}

/* --- Loading. --- */

struct tree_event *watch_find_event(const struct watch_hub *h, uint64_t index, struct slice key,
                                    struct slice value)
{
    struct tree_event *e = h->history[index % HISTORY_EVENTS];

    return e != NULL && e->node.modified == index && e->value != NULL &&
                   slice_equal(e->node.key, key) && slice_equal(blob_slice(e->value), value)
               ? e
               : NULL;
}

/* The value of one half of an event; what an event before it made of the key is shared. */
static bool load_value(const struct watch_hub *h, struct etcd_node *n, struct blob **value)
{
    struct tree_event *maker;

    *value = NULL;
    if (!n->has_value)
        return true;
    maker = watch_find_event(h, n->modified, n->key, n->value);
    *value = maker != NULL ? blob_ref(maker->value) : blob_new(ACCOUNT_HISTORY, n->value);
    n->value = blob_slice(*value);
    return *value != NULL;
}

/* Loads the values before and after the event; a refresh keeps the value, so both are one blob. */
static bool load_values(const struct watch_hub *h, struct tree_event *e)
{
    if (!load_value(h, &e->prev, &e->prev_value))
        return false;
    if (e->prev_value == NULL || !e->node.has_value || !slice_equal(e->node.value, e->prev.value))
        return load_value(h, &e->node, &e->value);
    e->value = blob_ref(e->prev_value);
    e->node.value = blob_slice(e->value);
    return true;
}

/* NULL: memory is short. */
static struct tree_event *event_of(const struct watch_hub *h, const struct event_state *state)
{
    struct slice key = state->node.key;
    struct tree_event *e = account_request(ACCOUNT_HISTORY, ACCOUNT_ORDINARY, sizeof *e + key.len);

    if (e == NULL)
        return NULL;
    event_begin(e, state->action, key);
    key = e->node.key;
    e->has_prev = state->has_prev;
    e->refresh = state->refresh;
    e->node = state->node;
    e->prev = state->prev;
    e->node.key = e->prev.key = key;
    if (load_values(h, e))
        return e;
    tree_event_unref(e);
    return NULL;
}

bool watch_load(struct watch_hub *h, const struct event_state *state)
{
    uint64_t index = state->node.modified;
    struct tree_event *e;

    if (index < h->oldest || index > h->last || h->last - index >= HISTORY_EVENTS ||
        h->history[index % HISTORY_EVENTS] != NULL)
        return false;
    e = event_of(h, state);
    if (e != NULL) {
        h->history[index % HISTORY_EVENTS] = e;
        h->bytes += event_size(e);
        return true;
    }
    for (uint64_t i = 0; i < HISTORY_EVENTS; i++)
        watch_forget(h, i); /* all so far: clients learn that the history was cleared */
    h->oldest = index + 1;
    return true;
}

/* --- Watching. --- */

/* The history's rules differ from the hub's: hidden names are not looked at, and a removed
 * directory matches each watched path that begins with its path as plain text. Clients of etcd see
 * both. */
static bool matches_past(const struct tree_event *e, struct slice key, bool recursive)
{
    struct slice changed = e->node.key;

    if (slice_equal(changed, key))
        return true;
    if (recursive &&
        (key.len == 1 || (slice_starts_with(changed, key) && changed.ptr[key.len] == '/')))
        return true;
    return (e->action == ETCD_DELETE || e->action == ETCD_EXPIRE) && e->has_prev && e->prev.dir &&
           slice_starts_with(key, changed);
}

static struct tree_event *find_past(const struct watch_hub *h, struct slice key, bool recursive,
                                    uint64_t since)
{
    for (uint64_t index = since; index <= h->last; index++) {
        struct tree_event *e = h->history[index % HISTORY_EVENTS];

        if (e != NULL && !e->refresh && matches_past(e, key, recursive))
            return e;
    }
    return NULL;
}

bool watch_has_room(const struct watch_hub *h, struct slice key)
{
    return quota_may_wait(h->quota, watch_cost(key));
}

/* False: memory is short. */
static bool point_register(struct watch_hub *h, struct slice key, struct watch *w)
{
    struct watch_point *point = (struct watch_point *)table_find(&h->points, key);

    if (point == NULL) {
        point = account_request_zeroed(ACCOUNT_WATCHES, ACCOUNT_ORDINARY, sizeof *point + key.len);
        if (point == NULL)
            return false;
        point->node.key = slice_copy(point->path, key);
        TAILQ_INIT(&point->watches);
        table_add(&h->points, &point->node);
    }
    w->at = point;
    TAILQ_INSERT_TAIL(&point->watches, w, entry);
    h->registered++;
    quota_wait(h->quota, &h->waiting_bytes, watch_cost(key), 0);
    return true;
}

enum etcd_code watch_open(struct watch_hub *h, struct slice key, bool recursive, bool stream,
                          uint64_t since, void *owner, struct watch **out)
{
    struct tree_event *past;
    struct watch *w;

    if (since == 0)
        since = h->last + 1;
    if (since < h->oldest)
        return ETCD_INDEX_CLEARED;
    past = find_past(h, key, recursive, since);
    w = account_request_zeroed(ACCOUNT_WATCHES, ACCOUNT_ORDINARY, sizeof *w);
    if (w == NULL)
        return ETCD_INTERNAL;
    subscription_init(&w->subscription, owner);
    w->recursive = recursive;
    w->stream = stream;
    w->since = since;
    if (past != NULL)
        watch_push(h, past, &w->subscription);
    if (past != NULL ? w->subscription.lost : !point_register(h, key, w)) {
        watch_close(h, w);
        return ETCD_INTERNAL;
    }
    *out = w;
    /* A stream from the past stays open and silent, in etcd too. */
    w->subscription.ended = past != NULL && !stream;
    if (past != NULL && past != h->fresh)
        tree_event_release(past);
    return ETCD_OK;
}

void watch_close(struct watch_hub *h, struct watch *w)
{
    if (w == NULL)
        return;
    watch_unregister(h, w);
    subscription_fini(h->ready, &w->subscription);
    account_free(ACCOUNT_WATCHES, w, sizeof *w);
}
