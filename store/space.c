/* How a space is made, ended and measured; and its parts: its c10d keys, its etcd tree, its
 * sessions, and the space as a whole with its worker stores and run records. See space.h for
 * the contracts. */
#include "store/space.h"

#include "store/memory/xalloc.h"

struct space *space_new(struct slice name, struct ready_list *ready, struct reserve *reserve,
                        struct forgotten_keys *forgotten, uint64_t seed, size_t bytes_max)
{
    struct space *space = xcalloc(1, sizeof *space);

    space->quota.max = bytes_max;
    space->name = xcalloc(1, name.len + 1);
    slice_copy(space->name, name);
    keymap_init(&space->keys, ACCOUNT_KEYS, ready, reserve, seed, &space->quota);
    space->keys.forgotten = forgotten;
    worker_stores_init(&space->worker_stores, ready, reserve, seed, &space->quota);
    space->worker_stores.forgotten = forgotten;
    run_records_init(&space->runs, reserve, seed, &space->quota);
    tree_init(&space->tree, ready, reserve, seed, &space->quota);
    space->tree.lazy_free = forgotten->lazy_free;
    sessions_init(&space->sessions, &space->keys, &space->worker_stores, reserve, seed,
                  &space->quota);
    return space;
}

void space_free(struct space *space)
{
    sessions_fini(&space->sessions);
    tree_fini(&space->tree);
    run_records_fini(&space->runs);
    worker_stores_fini(&space->worker_stores);
    keymap_fini(&space->keys);
    free(space->name);
    free(space);
}

void space_end_replay(struct space *space)
{
    blob_unref(keymap_take_popped(&space->keys));
    for (size_t i = 0; i < space->worker_stores.count; i++)
        blob_unref(keymap_take_popped(&space->worker_stores.items[i]->keys));
}

static void add_usage(struct space_usage *use, const struct keymap *m)
{
    use->keys += m->present;
    use->queues += m->queues.count;
    use->waiters += m->waiters;
}

struct space_usage space_usage(const struct space *space)
{
    struct space_usage use = {.bytes =
                                  space->quota.kept + space->quota.waiting + space->tree.hub.bytes};

    add_usage(&use, &space->keys);
    for (size_t i = 0; i < space->worker_stores.count; i++)
        add_usage(&use, &space->worker_stores.items[i]->keys);
    return use;
}

/* --- c10d keys, queues and barriers: of the space itself, or of a worker store. --- */

static bool decide_keys(struct space *space, const struct command *c, struct change *change,
                        struct store_result *out)
{
    const struct keymap *keys = space_keys(space, c->worker_store);

    change->worker_store = c->worker_store;
    out->status = keys == NULL ? STORE_ABSENT : keymap_check(keys, c, change, out);
    return out->status == STORE_OK;
}

static bool can_apply_keys(struct space *space, const struct change *change)
{
    const struct keymap *keys = space_keys(space, change->worker_store);

    return keys != NULL && keymap_can_apply(keys, change);
}

static size_t memory_for_keys(struct space *space, const struct change *change)
{
    return keymap_memory(space_keys(space, change->worker_store), change);
}

static void apply_keys(struct space *space, const struct change *change, struct store_result *out)
{
    keymap_apply(space_keys(space, change->worker_store), change, out);
}

const struct part part_keys = {
    .decide = decide_keys,
    .can_apply = can_apply_keys,
    .memory = memory_for_keys,
    .apply = apply_keys,
};

/* --- Commands about the etcd tree. --- */

static bool decide_tree(struct space *space, const struct command *c, struct change *change,
                        struct store_result *out)
{
    bool changes = tree_check(&space->tree, c, change, &out->tree);

    out->count = changes && c->kind == COMMAND_TREE_EXPIRE;
    if (!changes && out->tree.code == ETCD_INTERNAL)
        out->status = tree_path_fits(out->tree.path) ? STORE_FULL : STORE_TOO_LONG;
    return changes;
}

static bool can_apply_tree(struct space *space, const struct change *change)
{
    return tree_can_apply(&space->tree, change);
}

static size_t memory_for_tree(struct space *space, const struct change *change)
{
    if (change->kind == CHANGE_TREE_PUT && change->tree_put.expires_ns != 0)
        expiry_make_room(&space->tree.expiry);
    return tree_memory(&space->tree, change);
}

static void apply_tree(struct space *space, const struct change *change, struct store_result *out)
{
    tree_apply(&space->tree, change, &out->tree);
}

const struct part part_tree = {
    .decide = decide_tree,
    .can_apply = can_apply_tree,
    .memory = memory_for_tree,
    .apply = apply_tree,
};

/* --- Changes of sessions. No command is about them: the code that has carried out a request of a
 * session says so itself, with store_change(). --- */

static bool can_apply_session(struct space *space, const struct change *change)
{
    struct sessions *s = &space->sessions;

    switch (change->kind) {
    case CHANGE_SESSION_DONE:
        return session_can_be_done(s, &change->done);
    case CHANGE_SESSION_BIND:
        return session_check_bind(s, &change->bind) == STORE_OK &&
               session_hold_memory(s, session_find(s, change->bind.id) == NULL, NULL);
    case CHANGE_SESSION_HINT:
        return change->hint.bytes.len <= SESSION_HINT_MAX &&
               session_find(s, change->hint.id) != NULL;
    case CHANGE_SESSION_END:
        return session_find(s, change->session) != NULL;
    default:
        return false;
    }
}

/* can_apply_session() holds the memory of the other changes. */
static size_t memory_for_session(struct space *, const struct change *change)
{
    return change->kind == CHANGE_SESSION_HINT ? reserve_blob_cost(change->hint.bytes.len) : 0;
}

static void apply_session(struct space *space, const struct change *change, struct store_result *)
{
    struct sessions *s = &space->sessions;

    if (change->kind == CHANGE_SESSION_DONE)
        session_do(s, &change->done);
    else if (change->kind == CHANGE_SESSION_BIND)
        session_bind(s, &change->bind);
    else if (change->kind == CHANGE_SESSION_HINT)
        session_set_hint(s, &change->hint);
    else
        session_end(s, session_find(s, change->session));
}

const struct part part_session = {
    .can_apply = can_apply_session,
    .memory = memory_for_session,
    .apply = apply_session,
};

/* --- Commands about the space as a whole, its worker stores and its run records. --- */

static bool is_empty(const struct space *space)
{
    const struct space_usage use = space_usage(space);

    return use.keys + use.queues == 0 && TAILQ_EMPTY(&space->runs.list);
}

static enum store_status check_drop(const struct space *space, uint64_t id)
{
    const struct worker_store *store = worker_stores_find(&space->worker_stores, id);

    if (store == NULL)
        return STORE_ABSENT;
    return store->keys.waiters != 0 || store->sessions != 0 || run_records_name(&space->runs, id)
               ? STORE_IN_USE
               : STORE_OK;
}

static enum store_status check_run_put(struct space *space, const struct command *c,
                                       struct change *change)
{
    change->run_put = (struct run_put){
        .key = c->key,
        .placement = c->placement,
        .address = c->value,
        .port = c->port,
        .worker_store = c->worker_store,
        .round = c->number,
    };
    if (space_keys(space, c->worker_store) == NULL)
        return STORE_ABSENT;
    return run_records_have_room(&space->runs, &change->run_put) ? STORE_OK : STORE_FULL;
}

static bool decide_space(struct space *space, const struct command *c, struct change *change,
                         struct store_result *out)
{
    switch (c->kind) {
    case COMMAND_SPACE_FORGET:
        change->kind = CHANGE_SPACE_FORGET;
        change->now_ns = 0; /* its record has one, which says nothing */
        return !is_empty(space);
    case COMMAND_SPACE_RESET:
        change->kind = CHANGE_SPACE_RESET;
        change->now_ns = c->now_ns;
        return !is_empty(space) || space->tree.root->below != 0;
    case COMMAND_WORKER_STORE_OPEN:
        change->kind = CHANGE_WORKER_STORE_OPEN;
        change->store_id = out->count = space->worker_stores.last_id + 1;
        out->status = quota_has_room(&space->quota, 0, WORKER_STORE_COST) ? STORE_OK : STORE_FULL;
        break;
    case COMMAND_WORKER_STORE_DROP:
        change->kind = CHANGE_WORKER_STORE_DROP;
        change->store_id = c->worker_store;
        out->status = check_drop(space, c->worker_store);
        break;
    case COMMAND_RUN_PUT:
        change->kind = CHANGE_RUN_PUT;
        out->status = check_run_put(space, c, change);
        break;
    case COMMAND_RUN_DELETE:
        change->kind = CHANGE_RUN_DELETE;
        change->name = c->key;
        out->status = run_records_find(&space->runs, c->key) == NULL ? STORE_ABSENT : STORE_OK;
        break;
    default:
        return false;
    }
    return out->status == STORE_OK;
}

static bool can_apply_space(struct space *space, const struct change *change)
{
    switch (change->kind) {
    case CHANGE_SPACE_RESET:
    case CHANGE_SPACE_FORGET:
        return true;
    case CHANGE_WORKER_STORE_OPEN:
        return change->store_id > space->worker_stores.last_id && change->store_id < UINT64_MAX;
    case CHANGE_WORKER_STORE_DROP:
        return check_drop(space, change->store_id) == STORE_OK;
    case CHANGE_RUN_PUT:
        return space_keys(space, change->run_put.worker_store) != NULL;
    case CHANGE_RUN_DELETE:
        return run_records_find(&space->runs, change->name) != NULL;
    default:
        return false;
    }
}

static size_t memory_for_space(struct space *space, const struct change *change)
{
    switch (change->kind) {
    case CHANGE_SPACE_RESET:
        return tree_memory(&space->tree, change);
    case CHANGE_WORKER_STORE_OPEN:
        return worker_stores_memory(&space->worker_stores);
    case CHANGE_RUN_PUT:
        return run_records_memory(&change->run_put);
    default:
        return 0;
    }
}

static uint64_t forget_keys(struct space *space)
{
    uint64_t gone = space->keys.present + space->keys.queues.count;

    run_records_clear(&space->runs, false);
    keymap_clear(&space->keys);
    return gone + worker_stores_clear(&space->worker_stores);
}

static void apply_space(struct space *space, const struct change *change, struct store_result *out)
{
    switch (change->kind) {
    case CHANGE_SPACE_RESET:
        out->count = forget_keys(space) + tree_clear(&space->tree, change->now_ns);
        break;
    case CHANGE_SPACE_FORGET:
        out->count = forget_keys(space);
        break;
    case CHANGE_WORKER_STORE_OPEN:
        worker_stores_open(&space->worker_stores, change->store_id);
        break;
    case CHANGE_WORKER_STORE_DROP:
        worker_stores_drop(&space->worker_stores, change->store_id);
        break;
    case CHANGE_RUN_PUT:
        run_records_put(&space->runs, &change->run_put);
        break;
    default: /* CHANGE_RUN_DELETE */
        run_records_delete(&space->runs, change->name);
    }
}

const struct part part_space = {
    .decide = decide_space,
    .can_apply = can_apply_space,
    .memory = memory_for_space,
    .apply = apply_space,
};
