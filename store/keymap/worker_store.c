/* Opens, finds and drops the worker stores of a space. See worker_store.h for the contract. */
#include "store/keymap/worker_store.h"

void worker_stores_init(struct worker_stores *w, struct ready_list *ready, struct reserve *reserve,
                        uint64_t seed, struct quota *quota)
{
    *w = (struct worker_stores){.ready = ready, .reserve = reserve, .seed = seed, .quota = quota};
}

void worker_stores_fini(struct worker_stores *w)
{
    while (w->count > 0)
        worker_stores_drop(w, w->items[w->count - 1]->id);
    account_free(ACCOUNT_WORKER_STORES, w->items, w->room * sizeof *w->items);
}

/* The index of the first worker store whose id is at least `id`. */
static size_t worker_stores_place(const struct worker_stores *w, uint64_t id)
{
    size_t low = 0, high = w->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (w->items[middle]->id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct worker_store *worker_stores_find(const struct worker_stores *w, uint64_t id)
{
    size_t at = worker_stores_place(w, id);

    return at < w->count && w->items[at]->id == id ? w->items[at] : NULL;
}

size_t worker_stores_memory(const struct worker_stores *w)
{
    return reserve_cost((w->count + 1) * sizeof *w->items) +
           reserve_cost(sizeof(struct worker_store));
}

struct worker_store *worker_stores_open(struct worker_stores *w, uint64_t id)
{
    struct worker_store *store = reserve_alloc(w->reserve, ACCOUNT_WORKER_STORES, sizeof *store);

    w->items = reserve_realloc(w->reserve, ACCOUNT_WORKER_STORES, w->items,
                               w->room * sizeof *w->items, (w->count + 1) * sizeof *w->items);
    w->room = w->count + 1;
    w->items[w->count++] = store;
    w->last_id = id;
    quota_keep(w->quota, &w->bytes, WORKER_STORE_COST, 0);
    *store = (struct worker_store){.id = id};
    keymap_init(&store->keys, ACCOUNT_WORKER_STORES, w->ready, w->reserve, w->seed, w->quota);
    store->keys.forgotten = w->forgotten;
    return store;
}

void worker_stores_drop(struct worker_stores *w, uint64_t id)
{
    size_t at = worker_stores_place(w, id);

    keymap_fini(&w->items[at]->keys);
    account_free(ACCOUNT_WORKER_STORES, w->items[at], sizeof *w->items[at]);
    quota_keep(w->quota, &w->bytes, 0, WORKER_STORE_COST);
    w->count--;
    memmove(w->items + at, w->items + at + 1, (w->count - at) * sizeof *w->items);
}

uint64_t worker_stores_clear(struct worker_stores *w)
{
    uint64_t gone = 0;

    for (size_t i = 0; i < w->count; i++) {
        struct keymap *keys = &w->items[i]->keys;

        gone += keys->present + keys->queues.count;
        keymap_clear(keys);
    }
    return gone;
}
