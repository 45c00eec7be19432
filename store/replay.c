/* Changes are looked ahead to. See replay.h for the contract. */
#include "store/replay.h"

#include <assert.h>

#include "store/store.h"

static const struct keymap *keys_of(struct store *s, const struct record *r)
{
    struct space *space = store_find_space(s, r->space);

    return space == NULL ? NULL : space_keys(space, r->change.worker_store);
}

/* The table in which the change looks for *key; NULL: nothing is known of it. */
static const struct table *table_of(struct store *s, const struct record *r, struct slice *key)
{
    const struct change *c = &r->change;
    const struct keymap *keys;
    struct space *space;

    switch (c->kind) {
    case CHANGE_KEY_PUT:
    case CHANGE_BARRIER_OPEN:
    case CHANGE_KEY_PATCH:
    case CHANGE_KEY_APPEND:
    case CHANGE_KEY_DELETE:
        *key = c->put.key; /* each of them begins with the key */
        keys = keys_of(s, r);
        return keys == NULL ? NULL : &keys->keys;
    case CHANGE_TREE_PUT:
    case CHANGE_SNAPSHOT_NODE:
        *key = c->kind == CHANGE_TREE_PUT ? c->tree_put.path : c->node_state.path;
        space = store_find_space(s, r->space);
        return space == NULL ? NULL : &space->tree.nodes;
    default:
        return NULL;
    }
}

_Static_assert(offsetof(struct change, put.key) == offsetof(struct change, patch.key) &&
                   offsetof(struct change, put.key) == offsetof(struct change, append.key) &&
                   offsetof(struct change, put.key) == offsetof(struct change, delete.key),
               "table_of() takes any");

void replay_fetch_place(struct store *s, struct record *r)
{
    struct slice key;
    const struct table *t = table_of(s, r, &key);

    if (t != NULL)
        r->hash = table_prefetch(t, key);
}

void replay_fetch_node(struct store *s, const struct record *r)
{
    struct slice key;
    const struct table *t = table_of(s, r, &key);

    if (t != NULL)
        table_prefetch_node(t, r->hash);
}

/* --- Batches. --- */

static struct record_batch *batch_at(struct replay *r, uint64_t i)
{
    return &r->batches[i % REPLAY_PLACE];
}

void replay_init(struct replay *r, struct store *s)
{
    *r = (struct replay){.store = s};
}

void replay_fini(struct replay *r)
{
    while (r->first < r->end)
        replay_drop(r);
}

/* Of a batch with many changes the first ones will do: they are not the usual ones. */
static size_t looked_at(const struct record_batch *b)
{
    return b->count < REPLAY_NODE ? b->count : REPLAY_NODE;
}

bool replay_put(struct replay *r, struct slice bytes)
{
    struct record_batch *b = batch_at(r, r->end);

    assert(r->end - r->first < REPLAY_PLACE);
    if (!record_decode(bytes, b))
        return false;
    r->end++;
    for (size_t i = 0; i < looked_at(b); i++)
        replay_fetch_place(r->store, &b->records[i]);
    if (r->end - r->first <= REPLAY_NODE)
        return true;
    b = batch_at(r, r->end - 1 - REPLAY_NODE);
    for (size_t i = 0; i < looked_at(b); i++)
        replay_fetch_node(r->store, &b->records[i]);
    return true;
}

const struct record_batch *replay_next(const struct replay *r, bool all)
{
    uint64_t count = r->end - r->first;

    return count == REPLAY_PLACE || (all && count != 0) ? &r->batches[r->first % REPLAY_PLACE]
                                                        : NULL;
}

void replay_drop(struct replay *r)
{
    record_free(batch_at(r, r->first++));
}
