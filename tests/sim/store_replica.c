/* The replica of sim_store, which applies the records of the store; and snapshots of the store,
 * written in slices. */
#include "tests/sim/store_sim.h"

#include "store/snapshot.h"

/* --- The replica. --- */

static void report_difference(const char *a, const char *b)
{
    while (*a != '\0' && *b != '\0') {
        size_t a_len = strcspn(a, "\n"), b_len = strcspn(b, "\n");

        if (a_len != b_len || memcmp(a, b, a_len) != 0)
            break;
        a += a_len + 1;
        b += b_len + 1;
    }
    fail("it is another store\n  expected: %.*s\n  found:    %.*s", (int)strcspn(a, "\n"), a,
         (int)strcspn(b, "\n"), b);
}

void compare_stores(struct sim *sim)
{
    char *a = dump_text(&sim->store), *b = dump_text(&sim->replica);

    if (strcmp(a, b) != 0)
        report_difference(a, b);
    free(a);
    free(b);
    sim->tally[TALLY_COMPARED]++;
}

static const struct keymap *keys_in(const struct space *space, uint64_t worker_store)
{
    return worker_store == 0 ? &space->keys
                             : &worker_stores_find(&space->worker_stores, worker_store)->keys;
}

static void compare_key(const struct keymap *a, const struct keymap *b, struct slice key)
{
    CHECK(slice_equal(blob_slice(keymap_get(a, key)), blob_slice(keymap_get(b, key))));
    CHECK(keymap_exists(a, key) == keymap_exists(b, key));
    CHECK(keymap_queue_len(a, key) == keymap_queue_len(b, key));
    CHECK(a->bytes == b->bytes && a->present == b->present);
}

static void compare_trees(struct tree *a, struct tree *b)
{
    struct tree_event *x = a->hub.history[a->index % HISTORY_EVENTS];
    struct tree_event *y = b->hub.history[b->index % HISTORY_EVENTS];

    CHECK(a->index == b->index && a->bytes == b->bytes && a->count == b->count);
    CHECK(a->cuts != 0 || b->cuts != 0 || a->expiry.count == b->expiry.count);
    CHECK(a->hub.oldest == b->hub.oldest);
    CHECK((x == NULL) == (y == NULL));
    if (x != NULL && (x->refresh != y->refresh || !slice_equal(blob_slice(tree_event_chunk(x)),
                                                               blob_slice(tree_event_chunk(y)))))
        fail("another event\n  store:   %.*s\n  replica: %.*s", (int)x->chunk->len,
             (const char *)x->chunk->bytes, (int)y->chunk->len, (const char *)y->chunk->bytes);
}

/* After a batch: the key or node that a change touched is equal in the store and in its replica. */
static void compare_touched(struct sim *sim, const struct record *r)
{
    struct space *a = store_find_space(&sim->store, r->space);
    struct space *b = store_find_space(&sim->replica, r->space);
    const struct change *c = &r->change;
    struct slice key = c->kind == CHANGE_KEY_PUT_ALL ? (struct slice){0} : c->put.key;

    CHECK(a->worker_stores.count == b->worker_stores.count);
    CHECK(a->worker_stores.last_id == b->worker_stores.last_id && a->runs.bytes == b->runs.bytes);
    /* Each of these begins with the key; and the store may have been dropped since. */
    if (change_part(c->kind) == PART_KEYS &&
        (c->worker_store == 0 || worker_stores_find(&a->worker_stores, c->worker_store) != NULL))
        compare_key(keys_in(a, c->worker_store), keys_in(b, c->worker_store), key);
    if (change_part(c->kind) == PART_TREE)
        compare_trees(&a->tree, &b->tree);
}

/* The end of an iteration: the replica gets what has been written down. */
void commit(struct sim *sim)
{
    struct record_batch batch;

    if (sim->batch.count == 0)
        return;
    CHECK(record_decode(batch_bytes(&sim->batch), &batch));
    CHECK(batch.number == sim->batch.number && batch.count == sim->batch.count);
    for (size_t i = 0; i < batch.count; i++) {
        const struct record *r = &batch.records[i];
        struct space *space = store_find_space(&sim->replica, r->space);
        struct store_result result = {0};

        CHECK(space != NULL && store_can_apply(&sim->replica, space, &r->change));
        store_apply(&sim->replica, space, &r->change, &result);
        blob_unref(result.value); /* of a QUEUE_POP */
        sim->tally[TALLY_PATCHES] += r->change.kind == CHANGE_KEY_PATCH;
    }
    CHECK(TAILQ_EMPTY(&sim->replica.ready));
    for (size_t i = 0; i < batch.count; i++)
        compare_touched(sim, &batch.records[i]);
    record_free(&batch);
    sim->tally[TALLY_BATCHES]++;
    batch_begin(&sim->batch, sim->batch.number + 1);
}

/* --- Snapshots. --- */

static void begin_snapshot(struct sim *sim)
{
    const struct store_options options = {.seed = next_random(sim),
                                          .key_groups = sim->store.options.key_groups,
                                          .space_bytes_max = sim->store.options.space_bytes_max};

    store_init(&sim->loaded, &options);
    sim->moment = dump_snapshot_text(&sim->store);
    sim->snapshot = snapshot_begin(&sim->store);
    CHECK(sim->snapshot != NULL);
}

void end_snapshot(struct sim *sim)
{
    snapshot_end(sim->snapshot);
    sim->snapshot = NULL;
    store_fini(&sim->loaded);
    free(sim->moment);
}

static void compare_snapshot(struct sim *sim)
{
    char *text = dump_snapshot_text(&sim->loaded);

    CHECK(snapshot_is_loaded(&sim->loaded));
    if (strcmp(sim->moment, text) != 0)
        report_difference(sim->moment, text);
    free(text);
    sim->tally[TALLY_SNAPSHOTS]++;
}

/* The next slice of a snapshot, and the last one now and then before it is whole. */
void step_snapshot(struct sim *sim)
{
    enum snapshot_state state;
    struct batch out;

    if (sim->snapshot == NULL) {
        begin_snapshot(sim);
        return;
    }
    if (one_in(sim, 500)) {
        end_snapshot(sim);
        return;
    }
    batch_init(&out);
    state = snapshot_write(sim->snapshot, 1 + below(sim, 4000), &out);
    CHECK(state != SNAPSHOT_FAILED && snapshot_load(&sim->loaded, batch_bytes(&out)));
    batch_fini(&out);
    if (state == SNAPSHOT_GOES_ON)
        return;
    compare_snapshot(sim);
    end_snapshot(sim);
}
