/* The store: spaces and the one door through which they change. See store.h for the contract. */
#include "store/store.h"

#include "proto/c10d.h"
#include "store/xalloc.h"

void store_init(struct store *s, const struct store_options *options)
{
    *s = (struct store){.options = *options};
    TAILQ_INIT(&s->spaces);
    TAILQ_INIT(&s->ready);
}

void store_fini(struct store *s)
{
    struct space *space;

    while ((space = TAILQ_FIRST(&s->spaces)) != NULL) {
        TAILQ_REMOVE(&s->spaces, space, entry);
        auth_fini(&space->auth);
        tree_fini(&space->tree);
        runs_fini(&space->runs);
        worlds_fini(&space->worlds);
        keymap_fini(&space->keys);
        free(space->name);
        free(space);
    }
}

struct space *store_find_space(const struct store *s, struct slice name)
{
    struct space *space;

    TAILQ_FOREACH(space, &s->spaces, entry) {
        if (slice_is(name, space->name))
            return space;
    }
    return NULL;
}

struct space *store_space(struct store *s, const char *name)
{
    struct space *space = store_find_space(s, slice_str(name));

    if (space != NULL)
        return space;
    space = xcalloc(1, sizeof *space);
    space->name = xcalloc(1, strlen(name) + 1);
    memcpy(space->name, name, strlen(name));
    keymap_init(&space->keys, &s->ready, s->options.seed, s->options.space_bytes_max);
    worlds_init(&space->worlds);
    runs_init(&space->runs, s->options.seed);
    tree_init(&space->tree, &s->ready, s->options.seed, s->options.space_bytes_max);
    auth_init(&space->auth);
    TAILQ_INSERT_TAIL(&s->spaces, space, entry);
    return space;
}

/* --- Each world's commands; true: something changed. --- */

static bool apply_key(struct keymap *m, const struct command *c, struct store_result *out)
{
    switch (c->kind) {
    case COMMAND_KEY_SET:
        out->status = keymap_set(m, c->key, c->value);
        break;
    case COMMAND_KEY_ADD:
        out->status = keymap_add(m, c->key, c->number, &out->number);
        break;
    case COMMAND_KEY_COMPARE_SET:
        out->status = keymap_compare_set(m, c->key, c->expected, c->value, &out->value);
        break;
    case COMMAND_KEY_APPEND:
        out->status = keymap_append(m, c->key, c->value);
        break;
    case COMMAND_KEY_DELETE:
        out->status = keymap_delete(m, c->key);
        break;
    case COMMAND_KEY_MULTI_SET:
        out->status = keymap_multi_set(m, c->items);
        break;
    case COMMAND_QUEUE_PUSH:
        out->status = keymap_queue_push(m, c->key, c->value);
        break;
    case COMMAND_QUEUE_POP:
        out->status = keymap_queue_pop(m, c->key, &out->value, &out->count);
        break;
    case COMMAND_BARRIER:
        out->status = keymap_barrier(m, c->key, c->number, &out->open);
        break;
    default:
        return false;
    }
    return out->status == STORE_OK;
}

/* The keys of the world that the command names, or those of the space. */
static bool apply_keys(struct space *space, const struct command *c, struct store_result *out)
{
    struct world *world;

    if (c->world == 0)
        return apply_key(&space->keys, c, out);
    world = worlds_find(&space->worlds, c->world);
    out->status = STORE_ABSENT;
    return world != NULL && apply_key(&world->keys, c, out);
}

/* What has happened to a key, for whoever reads runs in values. */
static void observe(struct space *space, const struct command *c, struct store_result *out)
{
    struct slice rest = c->items, key, value;

    if (c->kind != COMMAND_KEY_MULTI_SET) {
        if (run_is_agents_key(c->key) &&
            runs_observe(&space->runs, c->key, keymap_get(&space->keys, c->key)))
            out->run = runs_find(&space->runs, c->key);
        return;
    }
    while (c10d_next_blob(&rest, &key) && c10d_next_blob(&rest, &value)) {
        if (run_is_agents_key(key))
            runs_observe(&space->runs, key, keymap_get(&space->keys, key));
    }
}

/* --- Runs. --- */

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

static bool apply_run(struct store *s, struct space *space, const struct command *c,
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

static bool apply_tree(struct tree *t, const struct command *c, struct store_result *out)
{
    static void (*const operations[])(struct tree *, const struct tree_change *,
                                      struct tree_result *) = {
        [COMMAND_TREE_SET] = tree_set,
        [COMMAND_TREE_CREATE] = tree_create,
        [COMMAND_TREE_CREATE_IN_ORDER] = tree_create_in_order,
        [COMMAND_TREE_UPDATE] = tree_update,
        [COMMAND_TREE_COMPARE_AND_SWAP] = tree_compare_and_swap,
        [COMMAND_TREE_DELETE] = tree_delete,
        [COMMAND_TREE_COMPARE_AND_DELETE] = tree_compare_and_delete,
    };
    struct tree_change change = {
        .path = c->key,
        .value = c->value,
        .prev_value = c->expected,
        .prev_index = c->prev_index,
        .expires_ns = c->expires_ns,
        .now_ns = c->now_ns,
        .dir = c->dir,
        .recursive = c->recursive,
        .refresh = c->refresh,
    };

    if (c->kind == COMMAND_TREE_EXPIRE) {
        out->count = tree_expire(t, c->now_ns);
        return out->count != 0;
    }
    operations[c->kind](t, &change, &out->tree);
    return out->tree.code == ETCD_OK;
}

static bool apply_space(struct space *space, const struct command *c, struct store_result *out)
{
    out->count = space->keys.present + space->keys.queues.count;
    runs_clear(&space->runs);
    keymap_clear(&space->keys);
    out->count += worlds_clear(&space->worlds);
    if (c->kind == COMMAND_SPACE_RESET)
        out->count += tree_clear(&space->tree, c->now_ns);
    return out->count != 0;
}

void store_apply(struct store *s, struct space *space, const struct command *command,
                 struct store_result *out)
{
    bool changed = false;

    *out = (struct store_result){0};
    if (command_is_key(command->kind)) {
        changed = apply_keys(space, command, out);
        if (changed && s->options.knows_runs && command->world == 0 &&
            command->kind <= COMMAND_KEY_MULTI_SET)
            observe(space, command, out);
    } else if (command_is_tree(command->kind))
        changed = apply_tree(&space->tree, command, out);
    else if (command_is_auth(command->kind))
        changed = auth_apply(&space->auth, &space->tree, command, &out->auth);
    else if (command_is_space(command->kind))
        changed = apply_space(space, command, out);
    else if (command_is_run(command->kind))
        changed = apply_run(s, space, command, out);
    if (changed && s->options.sink.add != NULL)
        s->options.sink.add(s->options.sink.to, space, command);
}

static void count(struct space_usage *use, const struct keymap *m)
{
    use->keys += m->present;
    use->queues += m->queues.count;
    use->bytes += m->bytes;
    use->waiters += m->waiters;
}

struct space_usage store_usage(const struct space *space)
{
    struct space_usage use = {.bytes = space->tree.bytes};

    count(&use, &space->keys);
    for (size_t i = 0; i < space->worlds.count; i++)
        count(&use, &space->worlds.items[i]->keys);
    return use;
}

struct wake *store_next_ready(struct store *s)
{
    struct wake *w = TAILQ_FIRST(&s->ready);

    if (w != NULL)
        wake_remove(&s->ready, w);
    return w;
}
