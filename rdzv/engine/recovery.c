/* From the bytes of a data directory to an engine. See recovery.h for the contract. */
#include "rdzv/engine/recovery.h"

#include "store/snapshot.h"

void recovery_begin(struct recovery *r, struct engine *engine)
{
    *r = (struct recovery){.engine = engine};
}

static bool recovery_stop(struct recovery *r, const char *fault)
{
    r->fault = fault;
    return false;
}

bool recovery_take_snapshot(void *recovery, struct slice bytes)
{
    struct recovery *r = recovery;

    return snapshot_load(&r->engine->store, bytes) ||
           recovery_stop(r, "a part of the snapshot cannot be read, or memory is short");
}

bool recovery_end_snapshot(void *recovery)
{
    struct recovery *r = recovery;

    return snapshot_is_loaded(&r->engine->store) || recovery_stop(r, "the snapshot is incomplete");
}

/* The journal may contain spaces that no listener names; those are made here. */
static struct engine_space *space_of(struct recovery *r, struct slice name)
{
    if (r->space != NULL && slice_is(name, r->space->store->name))
        return r->space;
    r->space = space_is_name(name) ? engine_space(r->engine, name) : NULL;
    return r->space;
}

static bool recovery_take_record(struct recovery *r, const struct record *record)
{
    struct engine_space *space = space_of(r, record->space);
    struct store_result result = {0};

    if (space == NULL)
        return recovery_stop(r, "a change names no space");
    if (!store_can_apply(&r->engine->store, space->store, &record->change))
        return recovery_stop(r, "a change contradicts earlier changes, or memory is short");
    store_apply(&r->engine->store, space->store, &record->change, &result);
    if (record->change.kind == CHANGE_QUEUE_POP)
        blob_unref(result.value);
    r->changes++;
    return true;
}

bool recovery_take_batch(void *recovery, uint64_t, struct slice bytes)
{
    struct recovery *r = recovery;
    struct record_reader reader;
    struct record record;

    record_reader_init(&reader, bytes);
    while (record_next(&reader, &record)) {
        if (!recovery_take_record(r, &record))
            return false;
    }
    if (reader.failed)
        return recovery_stop(r, "a batch cannot be read by this version");
    lazy_free_run(&r->engine->store.lazy_free, SIZE_MAX); /* no client waits yet */
    if (reader.time_ns != 0)
        r->last_ns = reader.time_ns;
    r->batches++;
    return true;
}

void recovery_end(struct recovery *r, uint64_t last)
{
    struct engine *e = r->engine;

    TAILQ_EACH(struct space, space, &e->store.spaces, entry) {
        engine_space(e, slice_str(space->name)); /* those of the snapshot alone */
        space_end_replay(space);
    }
    if (snapshot_time(&e->store) > r->last_ns)
        r->last_ns = snapshot_time(&e->store);
    e->committed = last;
    batch_begin(&e->batch, last + 1);
    e->expiry_moved = true;
}

uint64_t recovery_away_ms(const struct recovery *r)
{
    int64_t now_ns = engine_wall_ns(r->engine);

    return r->last_ns == 0 || now_ns <= r->last_ns ? 0 : (uint64_t)(now_ns - r->last_ns) / 1000000;
}
