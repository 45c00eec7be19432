/* Moments of the etcd tree, and the tree that a snapshot becomes. See tree_snapshot.h and tree.h
 * for the contracts. */
#include "store/tree/tree_snapshot.h"

#include <assert.h>

/* Of a walk's work, what it takes to pass a node that the snapshot does not see. */
#define PASS_COST 30

static void update_keeps_past(struct tree *t)
{
    t->keeps_past = !TAILQ_EMPTY(&t->snapshots) || !STAILQ_EMPTY(&t->pasts);
}

/* --- What is seen. --- */

void tree_snapshot_open(struct tree_snapshot *s, struct tree *t)
{
    *s = (struct tree_snapshot){.tree = t, .index = t->index};
    TAILQ_INSERT_TAIL(&t->snapshots, s, entry);
    t->keeps_past = true;
}

static bool tree_snapshot_sees(const struct tree_snapshot *s, const struct node *n)
{
    return n->created <= s->index &&
           !(n->past != NULL && n->past->removed && n->past->until <= s->index);
}

void tree_snapshot_state(const struct tree_snapshot *s, const struct node *n,
                         struct tree_state *out)
{
    const struct tree_past *was = NULL;

    for (const struct tree_past *p = n->past; p != NULL && p->until > s->index; p = p->older)
        was = p;
    if (was == NULL || was->removed)
        *out = (struct tree_state){n->value, n->expiry.at_ns, n->expiry.order, n->modified};
    else
        *out = (struct tree_state){was->value, was->expires_ns, was->deadline, was->modified};
}

void tree_snapshot_view(const struct tree_snapshot *s, const struct node *n, int64_t now_ns,
                        struct etcd_node *out, struct blob **value)
{
    struct tree_state was;

    tree_snapshot_state(s, n, &was);
    *value = was.value;
    tree_state_view(n, was.value, was.expires_ns, was.modified, now_ns, out);
}

/* --- Walking. --- */

/* Either the snapshot sees the next node, which then stays; or the node was removed earlier; then
 * its `next_to` counts this walk, and freeing the node moves the walk on. */
static void walk_set_next(struct tree_snapshot *s, struct node *n)
{
    if (s->next != NULL && !tree_snapshot_sees(s, s->next))
        s->next->past->next_to--;
    s->next = n != NULL && n->created <= s->index ? n : NULL;
    if (s->next != NULL && !tree_snapshot_sees(s, s->next))
        s->next->past->next_to++;
}

void tree_snapshot_walk(struct tree_snapshot *s, const struct node *dir, const struct node *after)
{
    walk_set_next(s, after == NULL ? TAILQ_FIRST(&dir->children) : TAILQ_NEXT(after, sibling));
}

/* Children stand in the order of their creation. */
struct node *tree_snapshot_next(struct tree_snapshot *s, int64_t *work)
{
    struct node *n = s->next;
    bool sees = true;

    while (n != NULL && n->created <= s->index && !(sees = tree_snapshot_sees(s, n)) && *work > 0) {
        n = TAILQ_NEXT(n, sibling);
        *work -= PASS_COST;
    }
    if (n == NULL || n->created > s->index || !sees) {
        walk_set_next(s, n);
        return NULL;
    }
    walk_set_next(s, TAILQ_NEXT(n, sibling));
    return n;
}

/* --- What was. --- */

/* True if a snapshot sees the node's present state. */
static bool is_seen(const struct tree *t, const struct node *n)
{
    const struct tree_snapshot *newest = TAILQ_LAST(&t->snapshots, tree_snapshot_list);
    uint64_t since = n->past != NULL ? n->past->until : n->created;

    return newest != NULL && newest->index >= since;
}

static struct tree_past *add_past(struct tree *t, struct node *n)
{
    struct tree_past *p = reserve_alloc(t->reserve, ACCOUNT_TREES, sizeof *p);

    *p = (struct tree_past){.node = n, .older = n->past, .until = t->index + 1};
    if (n->past != NULL)
        n->past->newer = p;
    n->past = p;
    STAILQ_INSERT_TAIL(&t->pasts, p, entry);
    t->keeps_past = true; /* spare_memory() may have closed the snapshots */
    return p;
}

static void close_all(struct tree *t)
{
    struct tree_snapshot *s;

    while ((s = TAILQ_FIRST(&t->snapshots)) != NULL)
        tree_snapshot_close(s);
}

/* Changes come before those who only read. */
static void spare_memory(struct tree *t)
{
    if (!account_has_room(ACCOUNT_ORDINARY, reserve_cost(sizeof(struct tree_past))))
        close_all(t);
}

bool tree_past_holds(const struct tree *t, const struct node *n)
{
    return n->past != NULL || !TAILQ_EMPTY(&n->children) || is_seen(t, n);
}

void tree_past_bury(struct tree *t, struct node *n)
{
    bool cut = !TAILQ_EMPTY(&n->children);
    struct tree_past *p;

    spare_memory(t);
    p = add_past(t, n);
    p->removed = true;
    p->cut = cut;
    p->dir = n->parent;
    n->parent = NULL;
    expiry_remove(&t->expiry, &n->expiry);
    if (cut)
        t->cuts++;
    else
        table_remove(&t->nodes, &n->by_path);
    t->past_bytes += tree_node_cost(n) + n->below_bytes;
    if (TAILQ_EMPTY(&t->snapshots))
        tree_free_later(t);
}

void tree_past_note(struct tree *t, struct node *n)
{
    struct tree_past *p;

    spare_memory(t);
    if (!is_seen(t, n))
        return;
    p = add_past(t, n);
    p->value = blob_ref(n->value);
    p->expires_ns = n->expiry.at_ns;
    p->deadline = n->expiry.order;
    p->modified = n->modified;
}

/* --- The end. --- */

void tree_snapshot_close(struct tree_snapshot *s)
{
    struct tree *t = s->tree;

    if (s->closed)
        return;
    s->closed = true;
    walk_set_next(s, NULL);
    TAILQ_REMOVE(&t->snapshots, s, entry);
    if (tree_past_is_due(t))
        tree_free_later(t);
    update_keeps_past(t);
}

void tree_snapshots_overtake(struct tree *t)
{
    TAILQ_EACH(struct tree_snapshot, s, &t->snapshots, entry)
        s->overtaken = true;
    close_all(t);
}

bool tree_past_is_due(const struct tree *t)
{
    const struct tree_past *oldest = STAILQ_FIRST(&t->pasts);

    return oldest != NULL &&
           (TAILQ_EMPTY(&t->snapshots) || TAILQ_FIRST(&t->snapshots)->index >= oldest->until);
}

/* Before a node is freed: walks that stand at the node move to its successor. */
static void pass_walks_on(struct tree *t, const struct tree_past *p)
{
    TAILQ_EACH(struct tree_snapshot, s, &t->snapshots, entry) {
        if (s->next == p->node)
            walk_set_next(s, TAILQ_NEXT(p->node, sibling));
    }
    assert(p->next_to == 0);
}

/* Takes the node out of its directory. The subtree of a cut directory is freed in slices. */
static size_t unlink_node(struct tree *t, const struct tree_past *p)
{
    struct node *n = p->node;
    size_t bytes = 0;

    if (p->dir != NULL)
        TAILQ_REMOVE(&p->dir->children, n, sibling);
    if (p->cut) {
        TAILQ_INSERT_TAIL(&t->dead, n, sibling);
    } else {
        bytes = tree_node_cost(n);
        tree_free_node(n);
    }
    return bytes;
}

size_t tree_past_release(struct tree *t)
{
    struct tree_past *p = STAILQ_FIRST(&t->pasts);
    size_t bytes = 0;

    STAILQ_REMOVE_HEAD(&t->pasts, entry);
    assert(p->older == NULL);
    if (p->next_to != 0)
        pass_walks_on(t, p);
    if (p->newer != NULL)
        p->newer->older = NULL;
    else
        p->node->past = NULL;
    if (p->removed)
        bytes = unlink_node(t, p);
    blob_leave(p->value, ACCOUNT_HISTORY);
    account_free(ACCOUNT_TREES, p, sizeof *p);
    update_keeps_past(t);
    return bytes;
}

/* --- The etcd tree as a snapshot has it becomes a tree again. --- */

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
    memcpy(t->succeeded, state->succeeded, sizeof t->succeeded);
    memcpy(t->failed, state->failed, sizeof t->failed);
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
