/* Commands about c10d keys, queues and barriers: finds whose keys a command means, the space's own
 * or a worker store's, and hands it to that keymap. See part.h for the contract. */
#include "store/part.h"

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

static void no_memory_for_keys(struct space *space, const struct change *change,
                               struct store_result *out)
{
    (void)space;
    (void)change;
    *out = (struct store_result){.status = STORE_NO_MEMORY};
}

static void apply_keys(struct space *space, const struct change *change, struct store_result *out)
{
    keymap_apply(space_keys(space, change->worker_store), change, out);
}

const struct part part_keys = {
    .decide = decide_keys,
    .can_apply = can_apply_keys,
    .memory = memory_for_keys,
    .out_of_memory = no_memory_for_keys,
    .apply = apply_keys,
};
