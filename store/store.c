/* The store: spaces and the one door through which they change. See store.h for the contract. */
#include "store/store.h"

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
    keymap_clear(&space->keys);
    if (c->kind == COMMAND_SPACE_RESET)
        out->count += tree_clear(&space->tree, c->now_ns);
    return out->count != 0;
}

void store_apply(struct store *s, struct space *space, const struct command *command,
                 struct store_result *out)
{
    bool changed = false;

    *out = (struct store_result){0};
    if (command_is_key(command->kind))
        changed = apply_key(&space->keys, command, out);
    else if (command_is_tree(command->kind))
        changed = apply_tree(&space->tree, command, out);
    else if (command_is_auth(command->kind))
        changed = auth_apply(&space->auth, &space->tree, command, &out->auth);
    else if (command_is_space(command->kind))
        changed = apply_space(space, command, out);
    if (changed && s->options.sink.add != NULL)
        s->options.sink.add(s->options.sink.to, space, command);
}

struct wake *store_next_ready(struct store *s)
{
    struct wake *w = TAILQ_FIRST(&s->ready);

    if (w != NULL)
        wake_remove(&s->ready, w);
    return w;
}
