/* The commands that concern runs and worlds. See run_apply.h and store.h. */
#include "store/run_apply.h"

#include <stdlib.h>

static const char *const place_names[RUN_PLACES] = {"MASTER_ADDR", "MASTER_PORT"};

/* Writes the two keys that say where the workers' store is; both or none. */
static enum store_status tell_places(struct keymap *m, const struct run *run, int64_t round,
                                     struct blob *const places[RUN_PLACES])
{
    size_t size = RUN_PLACES * (2 * sizeof(uint64_t) + run->node.key.len + RUN_KEY_ROOM) +
                  places[RUN_ADDR]->len + places[RUN_PORT]->len;
    uint8_t *pairs = malloc(size), *at = pairs;
    enum store_status status;

    if (pairs == NULL)
        return STORE_NO_MEMORY;
    for (int i = 0; i < RUN_PLACES; i++) {
        struct slice value = blob_slice(places[i]);
        size_t len = run_round_key(run, round, place_names[i], at + sizeof(uint64_t));

        bytes_put_u64(at, len);
        at += sizeof(uint64_t) + len;
        bytes_put_u64(at, value.len);
        at += sizeof(uint64_t);
        if (value.len != 0)
            memcpy(at, value.ptr, value.len);
        at += value.len;
    }
    status = keymap_multi_set(m, (struct slice){pairs, (size_t)(at - pairs)});
    free(pairs);
    return status;
}

static enum store_status open_world(struct store *s, struct space *space, struct run *run)
{
    struct world *world =
        worlds_open(&space->worlds, &s->ready, s->options.seed, s->options.space_bytes_max);
    enum store_status status = world == NULL ? STORE_NO_MEMORY : STORE_OK;

    if (world != NULL && run->workers == RUN_HERE)
        status = tell_places(&space->keys, run, run->world_then.round, run->place);
    if (status != STORE_OK) {
        if (world != NULL)
            worlds_undo(&space->worlds);
        return status;
    }
    if (run->world != NULL)
        run->world->current = false;
    run->world = world;
    return STORE_OK;
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
    struct blob *const *told = here ? place : run->offered;
    enum store_status status = STORE_OK;

    if (place[RUN_ADDR] == NULL || place[RUN_PORT] == NULL)
        status = STORE_NO_MEMORY;
    else if (run->completed && told[RUN_ADDR] != NULL && told[RUN_PORT] != NULL)
        status = tell_places(&space->keys, run, run->world_then.round, told);
    if (status != STORE_OK) {
        blob_unref(place[RUN_ADDR]);
        blob_unref(place[RUN_PORT]);
        return status;
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
    return STORE_OK;
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
