/* Commands about a space as a whole, its worker stores and its run records. See part.h for the
 * contract. */
#include "store/part.h"

/* --- Checks. --- */

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

static bool worker_store_exists(const struct space *space, uint64_t id)
{
    return id == 0 || worker_stores_find(&space->worker_stores, id) != NULL;
}

static enum store_status check_run_put(const struct space *space, const struct command *c,
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
    if (!worker_store_exists(space, c->worker_store))
        return STORE_ABSENT;
    return run_records_have_room(&space->runs, &change->run_put) ? STORE_OK : STORE_FULL;
}

static bool decide_space(struct space *space, const struct command *c, struct change *change,
                         struct store_result *out)
{
    switch (c->kind) {
    case COMMAND_SPACE_FORGET:
        change->kind = CHANGE_SPACE_FORGET;
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
        return worker_store_exists(space, change->run_put.worker_store);
    case CHANGE_RUN_DELETE:
        return run_records_find(&space->runs, change->name) != NULL;
    default:
        return false;
    }
}

/* --- Memory. --- */

static size_t memory_for_space(struct space *space, const struct change *change)
{
    switch (change->kind) {
    case CHANGE_SPACE_RESET:
        return tree_clear_memory(&space->tree);
    case CHANGE_WORKER_STORE_OPEN:
        return worker_stores_memory(&space->worker_stores);
    case CHANGE_RUN_PUT:
        return run_records_memory(&change->run_put);
    default:
        return 0;
    }
}

static void no_memory_for_space(struct space *space, const struct change *change,
                                struct store_result *out)
{
    (void)space;
    (void)change;
    *out = (struct store_result){.status = STORE_NO_MEMORY};
}

/* --- Changes. --- */

static uint64_t forget_keys(struct space *space)
{
    uint64_t gone = space->keys.present + space->keys.queues.count;

    run_records_clear(&space->runs);
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
    .out_of_memory = no_memory_for_space,
    .apply = apply_space,
};
