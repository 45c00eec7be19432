/* The whole store at one moment, bit by bit, and the way back. See snapshot.h for the contract.
 *
 * Run records are encoded at the beginning, since there are few; of events, which never change,
 * references are taken then. etcd's trees have moments of their own (tree_snapshot.h), and so do
 * c10d keys (keymap_moment.h). Events and trees are written first, since a tree of which somebody
 * sees a moment keeps more and reads slower. */
#include "store/snapshot.h"

#include "store/keymap/keymap_moment.h"
#include "store/store.h"
#include "store/tree/tree_snapshot.h"

/* For a request that finds no memory a snapshot is given up if it keeps as much. */
#define YIELDS_FROM (1u << 20)

/* The most spaces and empty keymaps that one batch passes. */
#define STEPS_MAX 2000

struct event_refs {
    struct tree_event **items;
    size_t count;
    size_t next; /* events before this index are written and released */
};

struct space_moment {
    struct space *space; /* lives as long as the store */
    struct event_refs events;
    struct tree_snapshot tree;
    struct session_moment sessions;
    const struct node *root;
    const struct node *dir;   /* is being written; NULL: all are */
    const struct node *after; /* where the walk of it goes on; NULL: at its beginning */
    bool is_walking;          /* the walk has begun, and the tree's snapshot knows its position */
    bool tree_is_open;
};

enum phase {
    PHASE_EVENTS,
    PHASE_TREES,
    PHASE_KEYMAPS,
    PHASE_SESSIONS,
    PHASE_END,
    PHASE_DONE,
};

struct snapshot {
    struct lazy lazy; /* once it has ended; the first member */
    struct store *store;
    struct cow_buffer cow;
    size_t size;                 /* with the two arrays */
    struct space_moment *spaces; /* behind it */
    size_t space_count;          /* that have begun */
    struct keymap_moment *keymaps;
    size_t keymap_count; /* that have begun */
    uint64_t records;    /* in the batches that are written */
    enum phase phase;
    size_t at; /* of the spaces or keymaps */
};

/* --- Events. --- */

/* False: memory is short. */
static bool hold_events(struct event_refs *e, const struct watch_hub *h)
{
    size_t count = 0, size;

    for (uint64_t i = h->oldest; i <= h->last; i++)
        count += h->history[i % HISTORY_EVENTS] != NULL;
    if (count == 0)
        return true;
    size = count * sizeof *e->items;
    e->items = account_request(ACCOUNT_SNAPSHOT, account_class_of(size), size);
    if (e->items == NULL)
        return false;
    for (uint64_t i = h->oldest; i <= h->last; i++) {
        if (h->history[i % HISTORY_EVENTS] != NULL)
            e->items[e->count++] = tree_event_ref(h->history[i % HISTORY_EVENTS]);
    }
    return true;
}

static void release_event(struct event_refs *e)
{
    tree_event_unref(e->items[e->next++]);
}

/* --- The beginning. --- */

static struct space_state state_of(const struct space *space)
{
    const struct tree *t = &space->tree;
    struct space_state state = {
        .last_worker_store = space->worker_stores.last_id,
        .tree_index = t->index,
        .oldest_event = t->hub.oldest,
        .next_deadline = t->expiry.next_order,
        .expired = t->expired,
        .nodes = t->count,
    };

    memcpy(state.succeeded, t->succeeded, sizeof state.succeeded);
    memcpy(state.failed, t->failed, sizeof state.failed);
    return state;
}

/* Worker stores first: the state has the last number there was, and run records name them. */
static void put_space_state(struct snapshot *s, const struct space *space)
{
    struct change change = {.kind = CHANGE_WORKER_STORE_OPEN};

    for (size_t i = 0; i < space->worker_stores.count; i++) {
        change.store_id = space->worker_stores.items[i]->id;
        cow_put(&s->cow, space->name, &change, NULL, false);
    }
    change = (struct change){.kind = CHANGE_SNAPSHOT_SPACE, .space_state = state_of(space)};
    cow_put(&s->cow, space->name, &change, NULL, false);
    TAILQ_EACH(const struct run_record, run, &space->runs.list, order) {
        change = (struct change){.kind = CHANGE_RUN_PUT,
                                 .run_put = {.key = run->node.key,
                                             .placement = run->placement,
                                             .address = run->address,
                                             .port = run->port,
                                             .worker_store = run->worker_store,
                                             .round = run->round}};
        cow_put(&s->cow, space->name, &change, NULL, false);
    }
}

static void begin_keymap(struct snapshot *s, struct space *space, struct keymap *m,
                         uint64_t worker_store)
{
    const struct change change = {
        .kind = CHANGE_SNAPSHOT_KEYS, .worker_store = worker_store, .records = m->present};

    if (m->present > TABLE_SMALL)
        cow_put(&s->cow, space->name, &change, NULL, false);
    keymap_moment_begin(&s->keymaps[s->keymap_count++], m, &s->cow, space->name, worker_store,
                        s->store->snapshots);
}

/* False: memory is short. */
static bool begin_space(struct snapshot *s, struct space *space)
{
    struct space_moment *m = &s->spaces[s->space_count++];

    m->space = space;
    put_space_state(s, space);
    if (!hold_events(&m->events, &space->tree.hub))
        return false;
    tree_snapshot_open(&m->tree, &space->tree);
    m->tree_is_open = true;
    m->root = m->dir = space->tree.root;
    session_moment_begin(&m->sessions, &space->sessions, &s->cow, space->name, s->store->snapshots);
    begin_keymap(s, space, &space->keys, 0);
    for (size_t i = 0; i < space->worker_stores.count; i++)
        begin_keymap(s, space, &space->worker_stores.items[i]->keys,
                     space->worker_stores.items[i]->id);
    return !s->cow.failed;
}

/* Allocates the snapshot and the moments of all spaces and keymaps; NULL: no memory. */
static struct snapshot *snapshot_new(struct store *store)
{
    size_t spaces = 0, keymaps = 0, size;
    struct snapshot *s;

    TAILQ_EACH(const struct space, space, &store->spaces, entry) {
        spaces++;
        keymaps += 1 + space->worker_stores.count;
    }
    size = sizeof *s + spaces * sizeof *s->spaces + keymaps * sizeof *s->keymaps;
    s = account_request_zeroed(ACCOUNT_SNAPSHOT, account_class_of(size), size);
    if (s == NULL)
        return NULL;
    s->store = store;
    s->size = size;
    s->spaces = (struct space_moment *)(s + 1);
    s->keymaps = (struct keymap_moment *)(s->spaces + spaces);
    cow_init(&s->cow);
    return s;
}

struct snapshot *snapshot_begin(struct store *store)
{
    struct snapshot *s = store->snapshot != NULL || store->snapshots == SNAPSHOT_NUMBER_MAX
                             ? NULL
                             : snapshot_new(store);
    bool ok = true;

    if (s == NULL)
        return NULL;
    store->snapshots++;
    store->snapshot = s;
    TAILQ_EACH(struct space, space, &store->spaces, entry)
        ok = ok && begin_space(s, space);
    if (ok)
        return s;
    snapshot_end(s);
    return NULL;
}

/* --- Writing. Each returns false when memory is short. --- */

static bool snapshot_write_event(const struct tree_event *e, const char *name, struct batch *out)
{
    const struct change change = {.kind = CHANGE_SNAPSHOT_EVENT,
                                  .event_state = {.action = e->action,
                                                  .refresh = e->refresh,
                                                  .has_prev = e->has_prev,
                                                  .node = e->node,
                                                  .prev = e->prev}};

    return batch_add(out, name, &change);
}

static bool snapshot_write_events(struct space_moment *m, struct batch *out, size_t bytes)
{
    struct event_refs *e = &m->events;

    for (; out->len < bytes && e->next < e->count; release_event(e)) {
        if (!snapshot_write_event(e->items[e->next], m->space->name, out))
            return false;
    }
    return true;
}

static bool write_node(struct space_moment *m, const struct node *n, struct batch *out)
{
    struct tree_state state;
    struct change change = {.kind = CHANGE_SNAPSHOT_NODE};

    tree_snapshot_state(&m->tree, n, &state);
    change.node_state = (struct node_state){
        .path = n->by_path.key,
        .value = blob_slice(state.value),
        .dir = state.value == NULL,
        .created = n->created,
        .modified = state.modified,
        .expires_ns = state.expires_ns,
        .deadline = state.expires_ns == 0 ? 0 : state.deadline,
    };
    return batch_add(out, m->space->name, &change);
}

/* Of a walk's work, for nodes that were removed before: some tens of microseconds. */
#define WALK_WORK 20000

static bool write_tree(struct space_moment *m, struct batch *out, size_t bytes)
{
    int64_t work = WALK_WORK;

    while (out->len < bytes && m->dir != NULL && work > 0) {
        const struct node *n;

        if (!m->is_walking)
            tree_snapshot_walk(&m->tree, m->dir, m->after);
        m->is_walking = true;
        n = tree_snapshot_next(&m->tree, &work);
        if (n != NULL && !write_node(m, n, out))
            return false;
        if (n != NULL && n->value == NULL) { /* what is in this directory comes next */
            m->is_walking = false;
            m->after = NULL;
            m->dir = n;
        } else if (n == NULL && work > 0) { /* it is written; the walk goes on behind it */
            m->is_walking = false;
            m->after = m->dir;
            m->dir = m->dir == m->root ? NULL : tree_snapshot_parent(m->dir);
        }
    }
    return true;
}

static void close_tree(struct space_moment *m)
{
    if (m->tree_is_open)
        tree_snapshot_close(&m->tree);
    m->tree_is_open = false;
}

/* True: there is one to write; else the next phase begins. */
static bool is_in_phase(struct snapshot *s)
{
    if (s->at < (s->phase == PHASE_KEYMAPS ? s->keymap_count : s->space_count))
        return true;
    s->at = 0;
    s->phase++;
    return false;
}

static bool write_space_part(struct snapshot *s, struct batch *out, size_t bytes)
{
    struct space_moment *m = &s->spaces[s->at];
    bool ok, is_written;

    if (s->phase == PHASE_EVENTS) {
        ok = snapshot_write_events(m, out, bytes);
        is_written = m->events.next == m->events.count;
    } else if (s->phase == PHASE_TREES) {
        ok = write_tree(m, out, bytes);
        is_written = m->dir == NULL;
        if (is_written)
            close_tree(m);
    } else {
        ok = session_moment_write(&m->sessions, out, bytes);
        is_written = m->sessions.next == NULL;
    }
    s->at += is_written;
    return ok;
}

static bool write_keymap(struct snapshot *s, struct batch *out, size_t bytes)
{
    struct keymap_moment *k = &s->keymaps[s->at];

    if (!keymap_moment_write(k, out, bytes))
        return false;
    if (keymap_moment_is_written(k)) {
        keymap_moment_end(k, &s->store->forgotten);
        s->at++;
    }
    return true;
}

static bool write_end(struct snapshot *s, struct batch *out)
{
    const struct change change = {.kind = CHANGE_SNAPSHOT_END, .records = s->records + out->count};

    if (!batch_add(out, "", &change))
        return false;
    s->phase = PHASE_DONE;
    return true;
}

/* What has come to it since: SNAPSHOT_GOES_ON is nothing. */
static enum snapshot_state state_now(const struct snapshot *s)
{
    enum snapshot_state state = s->cow.failed ? SNAPSHOT_FAILED : SNAPSHOT_GOES_ON;

    for (size_t i = 0; i < s->space_count && state == SNAPSHOT_GOES_ON; i++) {
        const struct space_moment *m = &s->spaces[i];

        if (m->tree_is_open && m->tree.closed)
            state = m->tree.overtaken ? SNAPSHOT_OVERTAKEN : SNAPSHOT_FAILED;
    }
    return state;
}

/* What is kept comes first: it may be the older part of a queue. */
static bool snapshot_write_some(struct snapshot *s, struct batch *out, size_t bytes)
{
    size_t steps = 0;

    if (!cow_write(&s->cow, out, bytes))
        return false;
    for (; out->len < bytes && s->phase < PHASE_END && steps < STEPS_MAX; steps++) {
        if (is_in_phase(s) && !(s->phase == PHASE_KEYMAPS ? write_keymap(s, out, bytes)
                                                          : write_space_part(s, out, bytes)))
            return false;
    }
    return s->phase < PHASE_END || !STAILQ_EMPTY(&s->cow.items) || write_end(s, out);
}

enum snapshot_state snapshot_write(struct snapshot *s, size_t bytes, struct batch *out)
{
    enum snapshot_state state = state_now(s);

    batch_begin(out, 0);
    if (state == SNAPSHOT_GOES_ON && !snapshot_write_some(s, out, bytes))
        state = SNAPSHOT_FAILED;
    if (state != SNAPSHOT_GOES_ON) {
        s->cow.failed = true;
        return state;
    }
    s->records += out->count;
    return s->phase == PHASE_DONE ? SNAPSHOT_DONE : SNAPSHOT_GOES_ON;
}

/* --- The end. --- */

/* The store keeps nothing more for it. */
static void close_moments(struct snapshot *s)
{
    for (size_t i = 0; i < s->space_count; i++) {
        close_tree(&s->spaces[i]);
        session_moment_end(&s->spaces[i].sessions);
    }
    for (size_t i = 0; i < s->keymap_count; i++)
        keymap_moment_end(&s->keymaps[i], &s->store->forgotten);
    s->keymap_count = 0;
}

static bool holds_events(const struct snapshot *s)
{
    return ANY(FOREACH(const struct space_moment, m, s->spaces, s->space_count),
               m->events.next < m->events.count);
}

void snapshot_yield(struct snapshot *s, size_t need)
{
    size_t kept = s->cow.bytes;

    for (size_t i = 0; i < s->keymap_count; i++)
        kept += s->keymaps[i].bytes;
    if (s->cow.failed || (!holds_events(s) && (kept < need || kept < YIELDS_FROM)))
        return;
    s->cow.failed = true;
    for (size_t i = 0; i < s->space_count; i++) {
        while (s->spaces[i].events.next < s->spaces[i].events.count)
            release_event(&s->spaces[i].events);
    }
    close_moments(s);
}

static size_t snapshot_free_some(struct lazy_free *f, struct lazy *l, size_t)
{
    struct snapshot *s = (struct snapshot *)l;
    size_t before = s->cow.bytes;

    if (cow_free_one(&s->cow)) {
        lazy_free_count(f, l, before - s->cow.bytes);
        return 1;
    }
    for (; s->space_count > 0; s->space_count--) {
        struct event_refs *e = &s->spaces[s->space_count - 1].events;

        if (e->next < e->count) {
            release_event(e);
            return 1;
        }
        account_free(ACCOUNT_SNAPSHOT, e->items, e->count * sizeof *e->items);
        *e = (struct event_refs){0};
    }
    lazy_free_remove(f, l);
    account_free(ACCOUNT_SNAPSHOT, s, s->size);
    return 1;
}

void snapshot_end(struct snapshot *s)
{
    if (s == NULL)
        return;
    close_moments(s);
    if (s->store->snapshot == s)
        s->store->snapshot = NULL;
    s->lazy.free_some = snapshot_free_some;
    lazy_free_add(&s->store->lazy_free, &s->lazy, s->cow.bytes);
}

/* --- The way back. --- */

/* Tables get room for a snapshot's counts only up to this; larger ones grow by themselves. */
#define EXPECTED_MAX (16u << 20)

static size_t expected_size(uint64_t count)
{
    return count < EXPECTED_MAX ? (size_t)count : EXPECTED_MAX;
}

static bool load_space(struct space *space, const struct space_state *state)
{
    if (state->last_worker_store < space->worker_stores.last_id ||
        !tree_load_state(&space->tree, state))
        return false;
    table_expect(&space->tree.nodes, expected_size(state->nodes));
    space->worker_stores.last_id = state->last_worker_store;
    return true;
}

static bool expect_keys(struct space *space, const struct change *change)
{
    struct keymap *m = space_keys(space, change->worker_store);

    if (m != NULL)
        table_expect(&m->keys, expected_size(change->records));
    return m != NULL;
}

/* Applies a change of a kind that a journal can also hold. */
static bool load_change(struct store *s, struct space *space, const struct change *change)
{
    struct store_result result = {0};

    if (!store_can_apply(s, space, change))
        return false;
    store_apply(s, space, change, &result);
    return true;
}

static bool load_record(struct store *s, const struct record *r)
{
    const struct change *c = &r->change;
    struct space *space;

    if (c->kind == CHANGE_SNAPSHOT_END) {
        s->loading.is_done = c->records == s->loading.records;
        return s->loading.is_done;
    }
    if (!space_is_name(r->space))
        return false;
    space = store_space(s, r->space);
    switch (c->kind) {
    case CHANGE_KEY_PUT:
    case CHANGE_QUEUE_PUSH:
    case CHANGE_WORKER_STORE_OPEN:
    case CHANGE_RUN_PUT:
        return load_change(s, space, c);
    case CHANGE_SNAPSHOT_SPACE:
        return load_space(space, &c->space_state);
    case CHANGE_SNAPSHOT_KEYS:
        return expect_keys(space, c);
    case CHANGE_SNAPSHOT_NODE:
        return tree_load_node(&space->tree, &c->node_state);
    case CHANGE_SNAPSHOT_EVENT:
        return watch_load(&space->tree.hub, &c->event_state);
    case CHANGE_SNAPSHOT_SESSION:
        return session_load(&space->sessions, &c->session_state);
    case CHANGE_SNAPSHOT_HELD:
        return session_load_held(&space->sessions, &c->put);
    default:
        return false;
    }
}

bool snapshot_load(struct store *s, struct slice batch_bytes)
{
    struct record_reader reader;
    struct record record;
    bool ok = !s->loading.is_done;

    record_reader_init(&reader, batch_bytes);
    while (ok && record_next(&reader, &record)) {
        ok = !s->loading.is_done && load_record(s, &record);
        s->loading.records++;
    }
    if (reader.time_ns > s->loading.time_ns)
        s->loading.time_ns = reader.time_ns;
    return ok && !reader.failed;
}

int64_t snapshot_time(const struct store *s)
{
    return s->loading.time_ns;
}

bool snapshot_is_loaded(const struct store *s)
{
    return s->loading.is_done;
}
