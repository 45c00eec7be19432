/* What is done about a run. See run_apply.h for the contract. */
#include "rdzv/rendezvous/run_apply.h"

#include <stdlib.h>

#include "proto/c10d.h"
#include "store/xalloc.h"

static const char *const place_names[RUN_PLACES] = {"MASTER_ADDR", "MASTER_PORT"};

static enum store_status apply(struct server *s, struct space *space, const struct command *c)
{
    struct store_result result;

    server_apply(s, space, c, &result);
    return result.status;
}

/* --- What has happened. --- */

static void follow_key(struct server *s, struct space *space, struct slice key)
{
    struct runs *runs;

    if (!run_is_agents_key(key))
        return;
    runs = &server_space_of(s, space)->runs;
    runs_observe(runs, key, keymap_get(&space->keys, key));
    if (runs_find(runs, key) == NULL && run_records_find(&space->runs, key) != NULL)
        apply(s, space, &(struct command){.kind = COMMAND_RUN_DELETE, .key = key});
}

void run_follow(struct server *s, struct space *space, const struct command *c,
                const struct store_result *result)
{
    struct slice rest = c->items, key, value;

    if (c->kind == COMMAND_SPACE_RESET || c->kind == COMMAND_SPACE_FORGET)
        runs_clear(&server_space_of(s, space)->runs);
    if (c->kind > COMMAND_KEY_MULTI_SET || c->worker_store != 0 || result->status != STORE_OK)
        return;
    if (c->kind != COMMAND_KEY_MULTI_SET)
        follow_key(s, space, c->key);
    while (c10d_next_blob(&rest, &key) && c10d_next_blob(&rest, &value))
        follow_key(s, space, key);
}

/* --- What is done. --- */

/* Writes the two keys that say where the workers' store is; both or none. */
static enum store_status tell_places(struct server *s, struct space *space, const struct run *run,
                                     struct blob *const places[RUN_PLACES])
{
    size_t size = RUN_PLACES * (2 * sizeof(uint64_t) + run->node.key.len + RUN_KEY_ROOM) +
                  places[RUN_ADDR]->len + places[RUN_PORT]->len;
    uint8_t *pairs = malloc(size), *at = pairs;
    struct command c = {.kind = COMMAND_KEY_MULTI_SET};
    enum store_status status;

    if (pairs == NULL)
        return STORE_NO_MEMORY;
    for (int i = 0; i < RUN_PLACES; i++) {
        struct slice value = blob_slice(places[i]);
        size_t len =
            run_round_key(run, run->world_then.round, place_names[i], at + sizeof(uint64_t));

        bytes_put_u64(at, len);
        at += sizeof(uint64_t) + len;
        bytes_put_u64(at, value.len);
        at += sizeof(uint64_t);
        if (value.len != 0)
            memcpy(at, value.ptr, value.len);
        at += value.len;
    }
    c.items = (struct slice){pairs, (size_t)(at - pairs)};
    status = apply(s, space, &c);
    free(pairs);
    return status;
}

static void put_record(struct server *s, struct space *space, const struct run *run)
{
    struct command c = {
        .kind = COMMAND_RUN_PUT,
        .key = run->node.key,
        .value = blob_slice(run->place[RUN_ADDR]),
        .placement = run->workers,
        .worker_store = run->worker_store,
        .number = run->completed ? run->world_then.round : 0,
    };
    uint64_t port;

    if (slice_to_u64(blob_slice(run->place[RUN_PORT]), UINT16_MAX, &port))
        c.port = (uint16_t)port;
    apply(s, space, &c);
}

enum store_status run_open_worker_store(struct server *s, struct space *space, struct run *run)
{
    struct command c = {.kind = COMMAND_WORKER_STORE_OPEN};
    struct store_result result;
    enum store_status status;

    if (!run->completed)
        return STORE_ABSENT;
    server_apply(s, space, &c, &result);
    status = result.status;
    if (status != STORE_OK)
        return status;
    if (run->workers == WORKER_STORE_RDZVD)
        status = tell_places(s, space, run, run->place);
    if (status != STORE_OK) {
        c = (struct command){.kind = COMMAND_WORKER_STORE_DROP, .worker_store = result.count};
        apply(s, space, &c);
        return status;
    }
    run->worker_store = result.count;
    put_record(s, space, run);
    return STORE_OK;
}

enum store_status run_take_offer(struct runs *runs, struct slice key, struct slice value)
{
    struct slice name;
    int64_t round;
    struct run *run = runs_find_round(runs, key, &round, &name);

    if (run == NULL || run->workers != WORKER_STORE_UNKNOWN)
        return STORE_ABSENT;
    for (int i = 0; i < RUN_PLACES; i++) {
        struct blob *copy;

        if (!slice_is(name, place_names[i]))
            continue;
        copy = blob_new(value);
        if (copy == NULL)
            return STORE_NO_MEMORY;
        blob_unref(run->offered[i]);
        run->offered[i] = copy;
        return STORE_OK;
    }
    return STORE_ABSENT;
}

enum store_status run_decide(struct server *s, struct space *space, struct run *run,
                             enum worker_store_placement placement, struct slice address,
                             struct slice port)
{
    struct blob *place[RUN_PLACES] = {blob_new(address), blob_new(port)};
    bool here = placement == WORKER_STORE_RDZVD;
    struct blob *const *told = here ? place : run->offered;
    enum store_status status = STORE_OK;

    if (place[RUN_ADDR] == NULL || place[RUN_PORT] == NULL)
        status = STORE_NO_MEMORY;
    else if (run->completed && told[RUN_ADDR] != NULL && told[RUN_PORT] != NULL)
        status = tell_places(s, space, run, told);
    if (status != STORE_OK) {
        blob_unref(place[RUN_ADDR]);
        blob_unref(place[RUN_PORT]);
        return status;
    }
    run->workers = placement;
    for (int i = 0; i < RUN_PLACES; i++) {
        blob_unref(run->place[i]);
        run->place[i] = place[i];
    }
    if (!here)
        run->worker_store = 0;
    put_record(s, space, run);
    return STORE_OK;
}

/* Of a copy: the key's own bytes go with it, and those who follow look at it. */
static uint64_t delete_key(struct server *s, struct space *space, struct slice key)
{
    uint8_t *copy = xmalloc(key.len + 1);
    struct command c = {.kind = COMMAND_KEY_DELETE, .key = {copy, key.len}};
    enum store_status status;

    memcpy(copy, key.ptr, key.len);
    status = apply(s, space, &c);
    free(copy);
    return status == STORE_OK;
}

uint64_t run_forget(struct server *s, struct space *space, struct run *run)
{
    struct runs *runs = &server_space_of(s, space)->runs;
    struct entry *e, *next;
    uint64_t gone = 0;

    for (e = TAILQ_FIRST(&space->keys.entries); e != NULL; e = next) {
        next = TAILQ_NEXT(e, order);
        if (e->value != NULL && runs_owner(runs, e->node.key) == run &&
            !slice_equal(e->node.key, run->node.key))
            gone += delete_key(s, space, e->node.key);
    }
    return gone + delete_key(s, space, run->node.key); /* last, as the run goes with it */
}
