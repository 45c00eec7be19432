/* The etcd tree as a snapshot has it becomes a tree again. See tree.h for the contract. */
#include "store/tree/tree_node.h"

_Static_assert(SPACE_STATE_COUNTERS == TREE_COUNTERS, "a snapshot has each of them");

/* The oldest event to keep. The file may name any index, but the history has a limited size. */
static uint64_t oldest_of(const struct space_state *state)
{
    uint64_t least =
        state->tree_index < HISTORY_EVENTS ? 1 : state->tree_index - HISTORY_EVENTS + 1;

    return state->oldest_event > least ? state->oldest_event : least;
}

bool tree_load_state(struct tree *t, const struct space_state *state)
{
    if (t->index != TREE_FIRST_INDEX || t->count != 1 || state->tree_index < TREE_FIRST_INDEX ||
        state->oldest_event == 0 || state->oldest_event > state->tree_index + 1)
        return false;
    t->index = t->hub.last = state->tree_index;
    t->hub.oldest = oldest_of(state);
    t->expiry.next_order = state->next_deadline;
    t->expired = state->expired;
    for (int i = 0; i < TREE_COUNTERS; i++) {
        t->succeeded[i] = state->succeeded[i];
        t->failed[i] = state->failed[i];
    }
    return true;
}

/* The directory of the node; NULL: the snapshot is wrong, because the node exists already, has an
 * impossible index or deadline, or its parent is no directory. */
static struct node *node_place(const struct tree *t, const struct node_state *state)
{
    struct node *dir;

    if (!tree_is_path(state->path) || tree_find(t, state->path) != NULL ||
        state->created > t->index || state->modified > t->index ||
        (state->expires_ns != 0 && state->deadline >= t->expiry.next_order))
        return NULL;
    dir = tree_find(t, tree_parent_path(state->path));
    return dir == NULL || dir->value != NULL ? NULL : dir;
}

/* The event that made the value has it, too. */
static struct blob *loaded_value(struct tree *t, const struct node_state *state)
{
    struct tree_event *e = watch_find_event(&t->hub, state->modified, state->path, state->value);

    if (state->dir)
        return NULL;
    if (e == NULL)
        return reserve_blob(t->reserve, ACCOUNT_TREES, state->value);
    blob_hold(e->value, ACCOUNT_TREES);
    return blob_ref(e->value);
}

bool tree_load_node(struct tree *t, const struct node_state *state)
{
    struct node *dir = node_place(t, state), *n;

    if (dir == NULL || !reserve_hold(t->reserve, reserve_cost(sizeof *n + state->path.len) +
                                                     reserve_blob_cost(state->value.len) +
                                                     expiry_memory(&t->expiry)))
        return false;
    n = tree_add_node(t, dir, state->path, loaded_value(t, state), state->created);
    n->modified = state->modified;
    if (state->expires_ns != 0)
        expiry_add_again(&t->expiry, &n->expiry, state->expires_ns, state->deadline);
    reserve_settle(t->reserve);
    return true;
}
