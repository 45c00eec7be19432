/* The store: its spaces, and the one way in which they change. What a command means is known to the
 * part of the space that it is about; see part.h. See store.h for the contract. */
#include "store/store.h"

#include "store/part.h"

/* --- Spaces. --- */

void store_init(struct store *s, const struct store_options *options)
{
    *s = (struct store){.options = *options};
    TAILQ_INIT(&s->spaces);
    TAILQ_INIT(&s->ready);
    reserve_init(&s->reserve);
    graveyard_init(&s->graveyard);
}

void store_fini(struct store *s)
{
    struct space *space;

    while ((space = TAILQ_FIRST(&s->spaces)) != NULL) {
        TAILQ_REMOVE(&s->spaces, space, entry);
        space_free(space);
    }
    graveyard_free(&s->graveyard, SIZE_MAX);
    reserve_fini(&s->reserve);
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
    space = space_new(name, &s->ready, &s->reserve, &s->graveyard, s->options.seed,
                      s->options.space_bytes_max);
    keymap_group_by(&space->keys, s->options.key_groups);
    TAILQ_INSERT_TAIL(&s->spaces, space, entry);
    return space;
}

/* --- Commands and changes. --- */

static const struct part *const parts[] = {
    [PART_KEYS] = &part_keys,
    [PART_TREE] = &part_tree,
    [PART_AUTH] = &part_auth,
    [PART_SPACE] = &part_space,
};

bool store_check(struct store *s, struct space *space, const struct command *command,
                 struct change *change, struct store_result *out)
{
    const struct part *part = parts[command_part(command->kind)];

    *out = (struct store_result){0};
    change->worker_store = 0;
    if (!part->decide(space, command, change, out))
        return false;
    if (reserve_hold(&s->reserve, part->memory(space, change)))
        return true;
    part->out_of_memory(space, change, out);
    return false;
}

bool store_can_apply(struct store *s, struct space *space, const struct change *change)
{
    const struct part *part = parts[change_part(change->kind)];

    return part->can_apply(space, change) && reserve_hold(&s->reserve, part->memory(space, change));
}

void store_apply(struct store *s, struct space *space, const struct change *change,
                 struct store_result *out)
{
    parts[change_part(change->kind)]->apply(space, change, out);
    reserve_settle(&s->reserve);
}

bool store_execute(struct store *s, struct space *space, const struct command *command,
                   struct batch *batch, struct store_result *out)
{
    struct change change;

    if (!store_check(s, space, command, &change, out))
        return false;
    if (batch != NULL && !batch_add(batch, space->name, &change)) {
        parts[command_part(command->kind)]->out_of_memory(space, &change, out);
        reserve_settle(&s->reserve);
        return false;
    }
    store_apply(s, space, &change, out);
    return true;
}

struct wake *store_next_ready(struct store *s)
{
    struct wake *w = TAILQ_FIRST(&s->ready);

    if (w != NULL)
        wake_remove(&s->ready, w);
    return w;
}
