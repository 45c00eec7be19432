/* Runs as the keys of a space tell of them. See view.h for the contract. */
#include "rdzv/rendezvous/view.h"

void run_view_init(struct run_view *v, struct slice key)
{
    *v = (struct run_view){.node = {.key = key}, .id = slice_from(key, strlen(TORCH_RUN_PREFIX))};
}

void run_view_fini(struct run_view *v)
{
    torch_state_free(&v->state);
    torch_state_free(&v->before);
    torch_state_free(&v->last_completed);
    torch_state_free(&v->absent);
    run_view_drop(&v->record.address);
    v->record = (struct view_record){0};
    run_view_drop(&v->ranks);
    v->exists = v->is_state = v->has_completed = v->unread = v->is_ahead = v->is_ours = false;
    v->late = 0;
    v->waiting = v->participants = v->completed_participants = 0;
}

bool run_view_has_record(const struct run_view *v)
{
    return v->record.placement != WORKER_STORE_UNKNOWN || v->record.worker_store != 0;
}

/* False: no memory. */
static bool note_completed(struct run_view *v, const struct torch_state *state)
{
    if (!absent_nodes_keep(state, v->has_completed, &v->last_completed, &v->absent))
        return false;
    v->has_completed = true;
    v->completed_participants = torch_state_participants(state);
    v->completions++;
    return true;
}

/* Forgets a round that the view had completed, and whose value the store could not keep. */
static void forget_unkept_round(struct run_view *v)
{
    const struct torch_state *state = &v->state, *last = &v->last_completed;

    if (!v->is_state || !v->has_completed || last->round < state->round ||
        (last->round == state->round && state->complete))
        return;
    torch_state_free(&v->last_completed);
    v->has_completed = false;
    v->completed_participants = 0;
}

static size_t first_waiting(const struct torch_state *state)
{
    const struct torch_node *first = FIND(node, NODES_FOREACH(node, state), node->waiting);

    return first == NULL ? 0 : (size_t)(first - state->nodes) + 1;
}

/* The value has been read as `next`, which is the view's from now on. */
static void take(struct run_view *v, struct slice value, enum torch_state_status status,
                 struct torch_state next)
{
    v->changes++;
    v->is_ahead = v->is_ours = false;
    v->late = 0;
    v->unread = status == TORCH_STATE_NO_MEMORY ||
                (next.complete && !(v->state.complete && v->state.round == next.round) &&
                 !note_completed(v, &next));
    if (v->unread) {
        torch_state_free(&next);
        return;
    }
    v->is_state = status == TORCH_STATE_OK;
    v->exists = v->is_state || slice_is(value, TORCH_RUN_SENTINEL) || run_view_has_record(v);
    torch_state_free(&v->before);
    v->before = v->state;
    v->state = next;
    v->waiting = first_waiting(&v->state);
    v->participants = torch_state_participants(&v->state);
    forget_unkept_round(v);
}

void run_view_update(struct run_view *v, struct slice value)
{
    struct torch_state next = {0};
    enum torch_state_status status;

    if (value.ptr == NULL) {
        v->changes++;
        run_view_fini(v);
        return;
    }
    status = torch_state_read(value, &next);
    take(v, value, status, next);
}

void run_view_adopt(struct run_view *v, struct slice value, struct torch_state *state)
{
    if (value.len > TORCH_STATE_MAX || !torch_state_settle(state, 0, state->count)) {
        run_view_update(v, value);
        return;
    }
    take(v, value, TORCH_STATE_OK, *state);
    v->is_ours = true;
    *state = (struct torch_state){0};
}

bool run_view_advance(struct run_view *v)
{
    const struct torch_node *was = v->before.nodes;
    struct torch_node *is = torch_state_find(&v->state, was);
    size_t at = (size_t)(is - v->state.nodes), waiting = v->waiting + is->waiting;
    bool ok;

    v->changes++;
    v->late++;
    v->is_ahead = true;
    v->participants = v->participants + is->participant - was->participant;
    ok = torch_state_settle(&v->state, at, at + 1);
    if (waiting != 0)
        v->waiting = first_waiting(&v->state);
    return ok;
}

bool run_view_keep(struct slice *kept, struct slice bytes)
{
    uint8_t *copy =
        account_heap_copy(ACCOUNT_RUNS, account_class_of(bytes.len), bytes.ptr, bytes.len);

    if (copy == NULL)
        return false;
    run_view_drop(kept);
    *kept = (struct slice){copy, bytes.len};
    return true;
}

void run_view_drop(struct slice *kept)
{
    account_heap_free(ACCOUNT_RUNS, (void *)(uintptr_t)kept->ptr);
    *kept = (struct slice){0};
}

bool run_view_set_record(struct run_view *v, const struct view_record *record)
{
    struct slice address = v->record.address;

    if (!run_view_keep(&address, record->address))
        return false;
    v->record = *record;
    v->record.address = address;
    return true;
}

/* --- All runs of a space. --- */

void run_views_init(struct run_views *views, uint64_t seed)
{
    table_init(&views->table, ACCOUNT_RUNS, seed, NULL);
    TAILQ_INIT(&views->list);
}

void run_views_fini(struct run_views *views)
{
    table_fini(&views->table);
}

void run_views_add(struct run_views *views, struct run_view *v)
{
    table_add(&views->table, &v->node);
    TAILQ_INSERT_TAIL(&views->list, v, order);
}

void run_views_remove(struct run_views *views, struct run_view *v)
{
    TAILQ_REMOVE(&views->list, v, order);
    table_remove(&views->table, &v->node);
}

struct run_view *run_views_find(const struct run_views *views, struct slice key)
{
    return (struct run_view *)table_find(&views->table, key); /* node is the first member */
}

static size_t key_fronts(struct slice key, size_t lengths[KEY_GROUPS_MAX])
{
    return torch_key_fronts(key, lengths, KEY_GROUPS_MAX);
}

const struct key_groups run_key_groups = {
    .prefix = {(const uint8_t *)TORCH_RUN_PREFIX, sizeof TORCH_RUN_PREFIX - 1}, .name = key_fronts};

/* The longest front that is the key of a run counts. */
struct run_view *run_views_find_round(const struct run_views *views, struct slice key,
                                      int64_t *round, struct slice *rest)
{
    size_t lengths[KEY_GROUPS_MAX], count = key_fronts(key, lengths);

    for (size_t i = 0; i < count; i++) {
        struct run_view *v = run_views_find(views, (struct slice){key.ptr, lengths[i]});

        if (v == NULL || !v->exists)
            continue;
        torch_key_split(key, lengths[i], round, rest);
        return v;
    }
    return NULL;
}

struct run_view *run_views_owner(const struct run_views *views, struct slice key)
{
    struct run_view *v = run_views_find(views, key);
    struct slice rest;
    int64_t round;

    return v != NULL && v->exists ? v : run_views_find_round(views, key, &round, &rest);
}

struct run_view *run_views_find_entry(const struct run_views *views, const struct entry *e)
{
    return (struct run_view *)table_find_like(&views->table, (struct table_node *)&e->node);
}

struct run_view *run_views_entry_owner(const struct run_views *views, const struct entry *e)
{
    struct run_view *v = run_views_find_entry(views, e);

    for (size_t i = 0; i < e->group_count && (v == NULL || !v->exists); i++)
        v = (struct run_view *)table_find_like(&views->table,
                                               (const struct table_node *)&e->groups[i].node);
    return v != NULL && v->exists ? v : NULL;
}

bool run_views_owns(const struct run_views *views, struct run_view *v, struct slice key)
{
    bool exists = v->exists, owns;

    v->exists = true; /* the view may say already that the run is gone */
    owns = run_views_owner(views, key) == v;
    v->exists = exists;
    return owns;
}

/* A key that is neither yet may be the state that is about to be made. */
struct slice run_key_of(const struct run_views *views, struct slice key, bool compared)
{
    const struct run_view *v = compared ? NULL : run_views_owner(views, key);

    return v == NULL ? key : v->node.key;
}
