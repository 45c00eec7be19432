/* A snapshot becomes a store again. See snapshot.h for the contract. */
#include "store/snapshot.h"

#include "store/memory/xalloc.h"
#include "store/store.h"

/* The space of that name; NULL: it is none. */
static struct space *find_space(struct store *s, struct slice name)
{
    struct space *space = store_find_space(s, name);
    char *text;

    if (space != NULL || name.len == 0 || memchr(name.ptr, 0, name.len) != NULL)
        return space;
    text = xcalloc(1, name.len + 1);
    memcpy(text, name.ptr, name.len);
    space = store_space(s, text);
    free(text);
    return space;
}

/* Nobody is taken at his word beyond that: tables grow by themselves, too. */
#define EXPECTED_MAX (16u << 20)

static size_t expected(uint64_t count)
{
    return count < EXPECTED_MAX ? (size_t)count : EXPECTED_MAX;
}

static bool load_space(struct space *space, const struct space_state *state)
{
    if (state->last_worker_store < space->worker_stores.last_id ||
        !tree_load_state(&space->tree, state))
        return false;
    table_expect(&space->tree.nodes, expected(state->nodes));
    space->worker_stores.last_id = state->last_worker_store;
    return true;
}

static bool expect_keys(struct space *space, const struct change *change)
{
    struct keymap *m = space_keys(space, change->worker_store);

    if (m != NULL)
        table_expect(&m->keys, expected(change->records));
    return m != NULL;
}

/* One of the changes that a journal has, too. */
static bool load_change(struct store *s, struct space *space, const struct change *change)
{
    struct store_result result = {0};

    if (!store_can_apply(s, space, change))
        return false;
    store_apply(s, space, change, &result);
    return true;
}

static bool load(struct store *s, const struct record *r)
{
    const struct change *c = &r->change;
    struct space *space = c->kind == CHANGE_SNAPSHOT_END ? NULL : find_space(s, r->space);

    if (c->kind == CHANGE_SNAPSHOT_END) {
        s->loading.is_done = c->records == s->loading.records;
        return s->loading.is_done;
    }
    if (space == NULL)
        return false;
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
        return tree_load_event(&space->tree, &c->event_state);
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
    struct record_batch batch;
    bool ok = !s->loading.is_done && record_decode(batch_bytes, &batch);

    if (!ok)
        return false;
    for (size_t i = 0; ok && i < batch.count; i++) {
        ok = !s->loading.is_done && load(s, &batch.records[i]);
        s->loading.records++;
    }
    if (batch.time_ns > s->loading.time_ns)
        s->loading.time_ns = batch.time_ns;
    record_free(&batch);
    return ok;
}

int64_t snapshot_time(const struct store *s)
{
    return s->loading.time_ns;
}

bool snapshot_is_loaded(const struct store *s)
{
    return s->loading.is_done;
}
