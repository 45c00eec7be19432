/* The commands that concern runs and worlds. See run_apply.h and store.h. */
#include "store/run_apply.h"

#include <stdlib.h>

static const char *const place_names[RUN_PLACES] = {"MASTER_ADDR", "MASTER_PORT"};

/* Writes the two keys that say where the workers' store is. Both are there or neither: the first
 * waits for room for the second. */
static enum store_status tell_places(struct keymap *m, const struct run *run, int64_t round,
                                     struct blob *const places[RUN_PLACES])
{
    uint8_t *key = malloc(run->node.key.len + RUN_KEY_ROOM);
    enum store_status status = key == NULL ? STORE_NO_MEMORY : STORE_OK;

    for (int i = 0; i < RUN_PLACES && status == STORE_OK; i++) {
        size_t len = run_round_key(run, round, place_names[i], key);

        status = keymap_set(m, (struct slice){key, len}, blob_slice(places[i]));
    }
    free(key);
    return status;
}

static enum store_status open_world(struct store *s, struct space *space, struct run *run)
{
    struct world *world =
        worlds_open(&space->worlds, &s->ready, s->options.seed, s->options.space_bytes_max);

    if (world == NULL)
        return STORE_NO_MEMORY;
    if (run->world != NULL)
        run->world->current = false;
    run->world = world;
    return run->workers == RUN_HERE
               ? tell_places(&space->keys, run, run->world_then.round, run->place)
               : STORE_OK;
}

static enum store_status take_offer(struct space *space, const struct command *c)
{
    struct slice name;
    int64_t round;
    struct run *run = runs_find_round(&space->runs, c->key, &round, &name);

    if (run == NULL || run->workers != RUN_UNDECIDED)
        return STORE_ABSENT;
    for (int i = 0; i < RUN_PLACES; i++) {
        struct blob *copy;

        if (!slice_is(name, place_names[i]))
            continue;
        copy = blob_new(c->value);
        if (copy == NULL)
            return STORE_NO_MEMORY;
        blob_unref(run->offered[i]);
        run->offered[i] = copy;
        return STORE_OK;
    }
    return STORE_ABSENT;
}

static enum store_status decide_workers(struct space *space, struct run *run,
                                        const struct command *c)
{
    struct blob *place[RUN_PLACES] = {blob_new(c->value), blob_new(c->expected)};
    bool here = c->number == RUN_HERE;

    if (place[RUN_ADDR] == NULL || place[RUN_PORT] == NULL) {
        blob_unref(place[RUN_ADDR]);
        blob_unref(place[RUN_PORT]);
        return STORE_NO_MEMORY;
    }
    run->workers = here ? RUN_HERE : RUN_OWN_STORE;
    for (int i = 0; i < RUN_PLACES; i++) {
        blob_unref(run->place[i]);
        run->place[i] = place[i];
    }
    if (!here && run->world != NULL) {
        run->world->current = false;
        run->world = NULL;
    }
    if (!run->completed)
        return STORE_OK;
    if (here)
        return tell_places(&space->keys, run, run->world_then.round, run->place);
    if (run->offered[RUN_ADDR] == NULL || run->offered[RUN_PORT] == NULL)
        return STORE_OK;
    return tell_places(&space->keys, run, run->world_then.round, run->offered);
}

bool run_apply(struct store *s, struct space *space, const struct command *c,
               struct store_result *out)
{
    struct run *run = runs_find(&space->runs, c->key);
    struct world *world = worlds_find(&space->worlds, c->world);

    out->status = STORE_ABSENT;
    if (c->kind == COMMAND_RUN_OFFER) {
        out->status = take_offer(space, c);
    } else if (c->kind == COMMAND_WORLD_FORGET && world != NULL && !world->current) {
        worlds_drop(&space->worlds, world);
        out->status = STORE_OK;
    } else if (c->kind == COMMAND_RUN_WORLD && run != NULL && run->completed) {
        out->status = open_world(s, space, run);
    } else if (c->kind == COMMAND_RUN_WORKERS && run != NULL) {
        out->status = decide_workers(space, run, c);
    } else if (c->kind == COMMAND_RUN_FORGET && run != NULL) {
        out->count = runs_forget(&space->runs, run, &space->keys);
        out->status = STORE_OK;
    }
    return out->status == STORE_OK;
}
