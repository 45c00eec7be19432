/* The store: spaces and the one door through which they change. See store.h for the contract. */
#include "store/store.h"

#include "proto/c10d.h"
#include "store/run_apply.h"
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
        changed = run_apply(s, space, command, out);
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
