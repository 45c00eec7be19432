/* How a space is made, ended and measured. See space.h for the contract. */
#include "store/space.h"

#include "store/memory/xalloc.h"

struct space *space_new(const char *name, struct ready_list *ready, struct reserve *reserve,
                        struct forgotten_keys *forgotten, uint64_t seed, size_t bytes_max)
{
    struct space *space = xcalloc(1, sizeof *space);

    space->quota.max = bytes_max;
    space->name = xcalloc(1, strlen(name) + 1);
    memcpy(space->name, name, strlen(name));
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
