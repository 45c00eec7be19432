/* The store: its spaces, and the only function that changes them. Each part of a space knows the
 * meaning of its commands; see space.h. See store.h for the contract. */
#include "store/store.h"

#include "store/snapshot.h"

/* --- Spaces. --- */

void store_init(struct store *s, const struct store_options *options)
{
    *s = (struct store){.options = *options};
    TAILQ_INIT(&s->spaces);
    ready_list_init(&s->ready);
    reserve_init(&s->reserve);
    lazy_free_init(&s->lazy_free);
    forgotten_keys_init(&s->forgotten, &s->lazy_free);
}

void store_fini(struct store *s)
{
    struct space *space;

    while ((space = TAILQ_FIRST(&s->spaces)) != NULL) {
        TAILQ_REMOVE(&s->spaces, space, entry);
        space_free(space);
    }
    lazy_free_run(&s->lazy_free, SIZE_MAX);
    reserve_fini(&s->reserve);
}

struct space *store_find_space(const struct store *s, struct slice name)
{
    return (struct space *)FIND(space, TAILQ_EACH(struct space, space, &s->spaces, entry),
                                slice_is(name, space->name));
}

struct space *store_space(struct store *s, struct slice name)
{
    struct space *space = store_find_space(s, name);

    if (space != NULL)
        return space;
    space = space_new(name, &s->ready, &s->reserve, &s->forgotten, s->options.seed,
                      s->options.space_bytes_max);
    space->keys.groups_of = s->options.key_groups;
    TAILQ_INSERT_TAIL(&s->spaces, space, entry);
    return space;
}

/* --- Memory. --- */

/* Forgets an old event of etcd's trees when memory is short: clients of etcd expect that the
 * history is limited. */
static bool forget_event(struct store *s)
{
    bool any = false;

    TAILQ_EACH(struct space, space, &s->spaces, entry)
        any = watch_forget_oldest(&space->tree.hub) || any;
    return any;
}

bool store_spare_history(struct store *s)
{
    if (s->snapshot != NULL && account_is_short())
        snapshot_yield(s->snapshot, 0);
    while (account_is_short() && forget_event(s))
        continue;
    return !account_is_short();
}

bool store_make_room(struct store *s, enum account_class class, size_t len)
{
    if (s->snapshot != NULL && !account_has_room(class, len))
        snapshot_yield(s->snapshot, len);
    while (!account_has_room(class, len)) {
        if (len > account_room(class) + account.bytes[ACCOUNT_HISTORY] || !forget_event(s))
            return false;
    }
    return true;
}

/* Such a change makes room, or takes little: deletions, and the heartbeats of torch's agents. */
static bool makes_room(const struct change *change)
{
    return change->kind == CHANGE_TREE_REMOVE || change->kind == CHANGE_SPACE_RESET ||
           (change->kind == CHANGE_KEY_PATCH &&
            account_class_of(change->patch.bytes.len) == ACCOUNT_SMALL);
}

/* The size of the answer to a PUT of a large value. Memory for the answer is reserved before the
 * change: after it, a refusal would come too late. */
static inline size_t answer_size(const struct change *change)
{
    const struct node *old = change->kind == CHANGE_TREE_PUT ? change->tree_put.node : NULL;

    if (change->kind != CHANGE_TREE_PUT)
        return 0;
    return change->tree_put.value.len + (old == NULL ? 0 : blob_slice(old->value).len);
}

/* There is not enough at once: history goes, or the change is one that makes room. */
__attribute__((noinline)) static bool find_room(struct store *s, const struct change *change,
                                                size_t need)
{
    if (store_make_room(s, makes_room(change) ? ACCOUNT_SMALL : ACCOUNT_ORDINARY, need))
        return true;
    account.refused++;
    return false;
}

/* What is held is not enough. malloc() has none for a change that makes room, and takes little:
 * history goes, until it has. */
__attribute__((noinline)) static bool hold_more(struct store *s, const struct change *change,
                                                size_t need)
{
    bool held = reserve_grow(&s->reserve, need);

    if (held || need > RESERVE_STANDING || !makes_room(change))
        return held;
    do {
        held = reserve_grow_little(&s->reserve, need);
    } while (!held && forget_event(s));
    return held;
}

/* True when the account and the machine have what the change takes. */
static inline bool has_memory(struct store *s, const struct change *change, size_t need)
{
    if (need == 0)
        return true;
    if (!account_has_room(ACCOUNT_ORDINARY, need + answer_size(change)) &&
        !find_room(s, change, need + answer_size(change)))
        return false;
    return need <= s->reserve.size || hold_more(s, change, need);
}

/* --- Commands and changes. --- */

/* Events of etcd's tree are kept as far as the space has room beside all else. */
static inline void keep_history_within(struct space *space)
{
    const struct watch_hub *hub = &space->tree.hub;

    while (hub->bytes != 0 && hub->bytes > quota_room(&space->quota) &&
           watch_forget_oldest(&space->tree.hub))
        continue;
}

static const struct part *const parts[] = {
    [PART_KEYS] = &part_keys,
    [PART_TREE] = &part_tree,
    [PART_SPACE] = &part_space,
    [PART_SESSION] = &part_session,
};

/* Memory is short for a checked change: *out becomes the refusal. */
static void say_no_memory(struct space *space, const struct change *change,
                          struct store_result *out)
{
    *out = (struct store_result){.status = STORE_NO_MEMORY};
    if (change_part(change->kind) == PART_TREE)
        tree_refuse(&space->tree, change, &out->tree);
}

/* `inline` here and below: into store_execute(), which each request calls. */
inline bool store_check(struct store *s, struct space *space, const struct command *command,
                        struct change *change, struct store_result *out)
{
    const struct part *part = parts[command_part(command->kind)];

    *out = (struct store_result){0};
    change->worker_store = 0;
    if (!part->decide(space, command, change, out))
        return false;
    if (has_memory(s, change, part->memory(space, change)))
        return true;
    say_no_memory(space, change, out);
    return false;
}

bool store_can_apply(struct store *s, struct space *space, const struct change *change)
{
    const struct part *part = parts[change_part(change->kind)];

    return part->can_apply(space, change) && reserve_hold(&s->reserve, part->memory(space, change));
}

inline void store_apply(struct store *s, struct space *space, const struct change *change,
                        struct store_result *out)
{
    parts[change_part(change->kind)]->apply(space, change, out);
    if (space->quota.max != 0)
        keep_history_within(space);
    reserve_settle(&s->reserve);
}

bool store_execute(struct store *s, struct space *space, const struct command *command,
                   struct batch *batch, struct store_result *out)
{
    struct change change;

    if (!store_check(s, space, command, &change, out))
        return false;
    if (batch != NULL && !batch_add(batch, space->name, &change)) {
        say_no_memory(space, &change, out);
        out->status = batch->refuses ? STORE_READ_ONLY : out->status;
        reserve_settle(&s->reserve);
        return false;
    }
    store_apply(s, space, &change, out);
    if (account_is_short() && change_part(change.kind) == PART_TREE)
        store_spare_history(s);
    return true;
}

enum store_status store_change(struct store *s, struct space *space, const struct change *change,
                               struct batch *batch)
{
    const struct part *part = parts[change_part(change->kind)];
    struct store_result out = {0};

    if (!part->can_apply(space, change))
        return STORE_ABSENT;
    if (!has_memory(s, change, part->memory(space, change)))
        return STORE_NO_MEMORY;
    if (batch != NULL && !batch_add(batch, space->name, change)) {
        reserve_settle(&s->reserve);
        return batch->refuses ? STORE_READ_ONLY : STORE_NO_MEMORY;
    }
    store_apply(s, space, change, &out);
    return STORE_OK;
}

struct wake *store_next_ready(struct store *s)
{
    struct wake *w = TAILQ_FIRST(&s->ready);

    if (w != NULL)
        wake_remove(&s->ready, w);
    return w;
}
