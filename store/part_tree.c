/* Commands about the etcd tree of a space. See part.h for the contract. */
#include "store/part.h"

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

static void no_memory_for_tree(struct space *space, const struct change *change,
                               struct store_result *out)
{
    *out = (struct store_result){.status = STORE_NO_MEMORY};
    tree_refuse(&space->tree, change, &out->tree);
}

static void apply_tree(struct space *space, const struct change *change, struct store_result *out)
{
    tree_apply(&space->tree, change, &out->tree);
}

const struct part part_tree = {
    .decide = decide_tree,
    .can_apply = can_apply_tree,
    .memory = memory_for_tree,
    .out_of_memory = no_memory_for_tree,
    .apply = apply_tree,
};
