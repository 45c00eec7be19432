/* The key spaces of workers. See world.h for the contract. */
#include "store/world.h"

#include <stdlib.h>

void worlds_init(struct worlds *w)
{
    *w = (struct worlds){0};
}

void worlds_fini(struct worlds *w)
{
    while (w->count > 0)
        worlds_drop(w, w->items[w->count - 1]);
    free(w->items);
}

/* The place of the first world whose id is not below this one. */
static size_t place_of(const struct worlds *w, uint64_t id)
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

struct world *worlds_find(const struct worlds *w, uint64_t id)
{
    size_t at = place_of(w, id);

    return at < w->count && w->items[at]->id == id ? w->items[at] : NULL;
}

struct world *worlds_open(struct worlds *w, struct ready_list *ready, uint64_t seed,
                          size_t bytes_max)
{
    struct world **wider = realloc(w->items, (w->count + 1) * sizeof(struct world *));
    struct world *world = wider == NULL ? NULL : calloc(1, sizeof *world);

    if (wider != NULL)
        w->items = wider;
    if (world == NULL)
        return NULL;
    world->id = ++w->last_id;
    world->current = true;
    keymap_init(&world->keys, ready, seed, bytes_max);
    w->items[w->count++] = world;
    return world;
}

void worlds_drop(struct worlds *w, struct world *world)
{
    size_t at = place_of(w, world->id);

    keymap_fini(&world->keys);
    free(world);
    w->count--;
    memmove(w->items + at, w->items + at + 1, (w->count - at) * sizeof(struct world *));
}

void worlds_undo(struct worlds *w)
{
    worlds_drop(w, w->items[w->count - 1]);
    w->last_id--;
}

uint64_t worlds_clear(struct worlds *w)
{
    uint64_t gone = 0;

    for (size_t i = 0; i < w->count; i++) {
        struct world *world = w->items[i];

        gone += world->keys.present + world->keys.queues.count;
        keymap_clear(&world->keys);
        world->current = false;
    }
    return gone;
}
