/* The etcd v2 tree of a space: its nodes, and the application of changes. See tree.h for the
 * contract; tree_check.c decides about changes, and tree_read.c reads. */
#include "store/tree/tree.h"

#include <assert.h>

#include "store/tree/tree_snapshot.h"

/* --- Nodes. --- */

/* More nodes are below a directory now, and count for so many bytes; or fewer: numbers wrap. */
static void count_below(struct tree *t, struct node *dir, size_t nodes, size_t bytes)
{
    t->count += nodes;
    quota_keep(t->quota, &t->bytes, bytes, 0);
    for (; dir != NULL; dir = dir->parent) {
        dir->below += nodes;
        dir->below_bytes += bytes;
    }
}

/* Creates a node below `parent`, without counting it. `value` NULL: a directory; else takes over
 * the reference. `parent` must exist without a child of this name. */
static struct node *node_make(struct tree *t, struct node *parent, struct slice path,
                              struct blob *value, uint64_t index)
{
    struct node *n = reserve_alloc(t->reserve, ACCOUNT_TREES, sizeof *n + path.len);

    *n = (struct node){.by_path = {.key = slice_copy(n + 1, path)},
                       .parent = parent,
                       .value = value,
                       .created = index,
                       .modified = index};
    TAILQ_INIT(&n->children);
    table_add(&t->nodes, &n->by_path);
    if (parent != NULL)
        TAILQ_INSERT_TAIL(&parent->children, n, sibling);
    return n;
}

struct node *tree_add_node(struct tree *t, struct node *parent, struct slice path,
                           struct blob *value, uint64_t index)
{
    struct node *n = node_make(t, parent, path, value, index);

    count_below(t, parent, 1, tree_node_cost(n));
    return n;
}

void tree_free_node(struct node *n)
{
    blob_leave(n->value, ACCOUNT_HISTORY);
    account_free(ACCOUNT_TREES, n, sizeof *n + n->by_path.key.len);
}

/* Frees a node without children that the tree does not count any more. */
static void node_release(struct tree *t, struct node *n, struct node_list *siblings)
{
    assert(TAILQ_EMPTY(&n->children));
    expiry_remove(&t->expiry, &n->expiry);
    if (siblings != NULL)
        TAILQ_REMOVE(siblings, n, sibling);
    table_remove(&t->nodes, &n->by_path);
    tree_free_node(n);
}

static void node_free(struct tree *t, struct node *n)
{
    count_below(t, n->parent, (size_t)-1, -tree_node_cost(n));
    node_release(t, n, n->parent == NULL ? NULL : &n->parent->children);
}

/* Frees a node and its subtree, deepest nodes first, and notifies the watches of each node. Walks
 * with the nodes' own links: a tree may be deeper than the stack. */
static void remove_all(struct tree *t, struct node *top, struct tree_event *e)
{
    struct node *n = top;

    for (;;) {
        struct node *child = TAILQ_FIRST(&n->children), *up = n->parent;

        if (child != NULL) {
            n = child;
            continue;
        }
        if (e != NULL)
            watch_notify_removed(&t->hub, e, n->by_path.key);
        node_free(t, n);
        if (n == top)
            return;
        n = up;
    }
}

/* --- What is removed with all below it. --- */

static bool is_living(const struct tree *t, const struct node *n)
{
    while (n->parent != NULL)
        n = n->parent;
    return n == t->root;
}

struct node *tree_find_living(const struct tree *t, struct node *n)
{
    while (n != NULL && !is_living(t, n))
        n = (struct node *)table_find_next(&t->nodes, &n->by_path);
    return n;
}

/* Notifies the watches at `top` and below. */
static void notify_all(struct tree *t, const struct node *top, struct tree_event *e)
{
    struct slice prefix = top->by_path.key, path;
    struct watch_walk walk = {0};
    bool all = top == t->root; /* whoever watches the root itself is told once, as of any event */

    while (watch_next_path(&t->hub, &walk, &path)) {
        bool below = slice_starts_with(path, prefix) &&
                     (path.len == prefix.len || path.ptr[prefix.len] == '/');

        if ((all ? !tree_is_root(path) : below) && tree_find(t, path) != NULL)
            watch_notify_removed(&t->hub, e, path);
    }
}

/* Returns the first living node from `n` on. Visits at most *left nodes. */
static struct node *first_living(struct node *n, size_t *left)
{
    for (; n != NULL && tree_is_removed(n) && *left > 0; --*left)
        n = TAILQ_NEXT(n, sibling);
    return *left > 0 ? n : NULL;
}

/* Returns the next node below `top`; parents come before their children. NULL: the subtree ends
 * here, or *left nodes were visited. */
static struct node *next_below(const struct node *top, struct node *n, size_t *left)
{
    struct node *next = first_living(TAILQ_FIRST(&n->children), left);

    for (; next == NULL && n != top && *left > 0; n = n->parent)
        next = first_living(TAILQ_NEXT(n, sibling), left);
    *left -= next != NULL;
    return next;
}

/* Notifies the watchers node by node, if the directory has few nodes; else the watched paths are
 * fewer than the nodes. */
static void notify_below(struct tree *t, struct node *top, struct tree_event *e)
{
    size_t left = t->cut_from;

    for (struct node *n = top; n != NULL; n = next_below(top, n, &left))
        continue;
    if (left == 0) {
        notify_all(t, top, e);
        return;
    }
    left = SIZE_MAX;
    for (struct node *n = top; n != NULL; n = next_below(top, n, &left))
        watch_notify_removed(&t->hub, e, n->by_path.key);
}

/* What is removed counts no more. */
static void uncount_nodes(struct tree *t, const struct node *top)
{
    count_below(t, top->parent, -(top->below + 1), -(tree_node_cost(top) + top->below_bytes));
}

/* Cuts off a directory, which is in no list, with its subtree. The nodes stay in the table until
 * they are freed; a lookup recognizes them, because their chain of parents does not reach the
 * root. */
static void drop_directory(struct tree *t, struct node *top)
{
    TAILQ_INSERT_TAIL(&t->dead, top, sibling);
    top->parent = NULL;
    t->cuts++;
    t->past_bytes += tree_node_cost(top) + top->below_bytes;
    tree_free_later(t);
}

/* Takes a node that snapshots may see off the tree. */
static void bury_node(struct tree *t, struct node *n)
{
    uncount_nodes(t, n);
    tree_past_bury(t, n);
}

void tree_free_later(struct tree *t)
{
    size_t bytes = t->past_bytes;

    t->past_bytes = 0;
    lazy_free_add(t->lazy_free, &t->lazy, bytes);
}

/* Frees at most `count` removed nodes; returns how many, and the bytes they counted for. */
static size_t free_dead(struct tree *t, size_t count, size_t *bytes)
{
    size_t freed = 0;
    struct node *n;

    *bytes = 0;
    for (; freed < count && tree_past_is_due(t); freed++)
        *bytes += tree_past_release(t);
    n = TAILQ_FIRST(&t->dead);
    for (; n != NULL && freed < count; freed++) {
        struct node *child, *up;

        while ((child = TAILQ_FIRST(&n->children)) != NULL)
            n = child;
        up = n->parent;
        *bytes += tree_node_cost(n);
        t->cuts -= up == NULL;
        node_release(t, n, up == NULL ? &t->dead : &up->children);
        n = up != NULL ? up : TAILQ_FIRST(&t->dead);
    }
    return freed;
}

/* A few nodes. */
static size_t tree_free_some(struct lazy_free *f, struct lazy *l, size_t count)
{
    struct tree *t = (struct tree *)((char *)l - offsetof(struct tree, lazy));
    size_t freed, bytes;

    freed = free_dead(t, count < 4 ? count : 4, &bytes);
    if (TAILQ_EMPTY(&t->dead) && !tree_past_is_due(t))
        lazy_free_remove(f, l);
    else
        lazy_free_count(f, l, bytes);
    return freed;
}

/* --- Where a path leads. --- */

struct slice tree_parent_path(struct slice path)
{
    size_t len = path.len;

    while (len > 0 && path.ptr[len - 1] != '/')
        len--;
    return (struct slice){path.ptr, len > 1 ? len - 1 : 1};
}

enum etcd_code tree_walk(const struct tree *t, struct slice path, struct node **out,
                         struct slice *where)
{
    const struct node *n = t->root;

    *out = tree_find(t, path);
    if (*out != NULL)
        return ETCD_OK;
    /* The fast way failed: go down from the root to the component that is to blame. */
    for (size_t i = 2; i <= path.len; i++) {
        struct slice part = {path.ptr, i};

        if (i < path.len && path.ptr[i] != '/')
            continue;
        n = tree_find_in(t, n, part);
        *where = part;
        if (n == NULL)
            return ETCD_KEY_NOT_FOUND;
        if (n->value != NULL)
            return ETCD_NOT_A_DIRECTORY;
    }
    return ETCD_KEY_NOT_FOUND;
}

const struct node *tree_peek(const struct tree *t, struct slice path)
{
    return tree_find(t, path);
}

/* Makes the directories on the way from `top` to `path` that are missing: all that are below it.
 * They are counted together, or each would be a walk up to the root. */
static struct node *make_directories(struct tree *t, struct node *top, struct slice path)
{
    struct node *last = top, *n;
    size_t count = 0, bytes = 0;

    for (size_t i = top->by_path.key.len + 1; i <= path.len; i++) {
        if (i == path.len || path.ptr[i] == '/')
            last = node_make(t, last, (struct slice){path.ptr, i}, NULL, t->index + 1);
    }
    for (n = last; n != top; n = n->parent) {
        n->below = count++;
        n->below_bytes = bytes;
        bytes += tree_node_cost(n);
    }
    count_below(t, top, count, bytes);
    return last;
}

/* The directory that `path` lies in; the missing ones on the way are made. */
static struct node *get_or_create_parent(struct tree *t, struct slice path)
{
    struct slice above = tree_parent_path(path), at = above;
    struct node *n = tree_find(t, at);

    while (n == NULL) {
        at = tree_parent_path(at);
        n = tree_find(t, at);
    }
    return at.len == above.len ? n : make_directories(t, n, above);
}

/* --- Deadlines. --- */

static void set_deadline(struct tree *t, struct node *n, int64_t expires_ns)
{
    expiry_remove(&t->expiry, &n->expiry);
    n->expiry.at_ns = 0;
    if (expires_ns != 0)
        expiry_add(&t->expiry, &n->expiry, expires_ns);
}

static struct node *first_to_expire(const struct tree *t)
{
    struct expiry_node *first = expiry_first(&t->expiry);

    return first == NULL ? NULL : (struct node *)((char *)first - offsetof(struct node, expiry));
}

#define DEAD_DEADLINES_MAX 32 /* that are looked at at a time */

struct node *tree_first_to_expire(struct tree *t)
{
    struct node *n = first_to_expire(t);

    if (t->cuts == 0)
        return n;
    for (int i = 0; i < DEAD_DEADLINES_MAX && n != NULL && !is_living(t, n); i++) {
        expiry_remove(&t->expiry, &n->expiry);
        n = first_to_expire(t);
    }
    return n != NULL && is_living(t, n) ? n : NULL;
}

/* --- Events. --- */

enum tree_counter tree_counter_of(enum etcd_action action)
{
    static const enum tree_counter counters[] = {
        [ETCD_SET] = TREE_SETS,        [ETCD_CREATE] = TREE_CREATES,
        [ETCD_UPDATE] = TREE_UPDATES,  [ETCD_COMPARE_AND_SWAP] = TREE_SWAPS,
        [ETCD_DELETE] = TREE_DELETES,  [ETCD_COMPARE_AND_DELETE] = TREE_SWAP_DELETES,
        [ETCD_EXPIRE] = TREE_COUNTERS,
    };

    return counters[action];
}

static void publish_event(struct tree *t, struct tree_event *e, struct tree_result *out)
{
    t->index++;
    assert(e->node.modified == t->index);
    if (e->action == ETCD_EXPIRE)
        t->expired++;
    else
        t->succeeded[tree_counter_of(e->action)]++;
    watch_publish(&t->hub, e);
    tree_event_unref(e); /* the history holds it for a thousand more */
    *out = (struct tree_result){.event = e};
}

/* An event of the next index, with the node as it is now for its prevNode. */
static struct tree_event *event_about(struct tree *t, enum etcd_action action, const struct node *n,
                                      int64_t now_ns)
{
    struct tree_event *e = tree_event_new(t->reserve, action, n->by_path.key);

    e->has_prev = true;
    e->prev_value = blob_ref(n->value);
    tree_node_view(n, now_ns, &e->prev);
    e->prev.key = e->node.key;
    e->node.modified = t->index + 1;
    e->node.created = n->created;
    e->node.dir = n->value == NULL;
    return e;
}

/* --- Changes. --- */

/* The value that a change gives to a node; NULL: a directory. */
static struct blob *new_value(struct tree *t, const struct tree_put *c, const struct node *old)
{
    if (c->keep_value)
        return blob_ref(old->value);
    return c->dir ? NULL : reserve_blob(t->reserve, ACCOUNT_TREES, c->value);
}

static void view_outcome(struct tree_event *e, const struct node *n, const struct tree_put *c)
{
    struct etcd_node shown;

    tree_node_view(n, c->now_ns, &shown);
    e->node.has_expiration = shown.has_expiration;
    e->node.expires_ns = shown.expires_ns;
    e->node.ttl_s = shown.ttl_s;
    if (n->value != NULL) {
        e->value = blob_ref(n->value);
        e->node.has_value = true;
        e->node.value = blob_slice(n->value);
    }
    e->refresh = c->refresh;
}

/* Creates a node, in place of the present one if there is one (internalCreate in etcd). */
static struct tree_event *replace_node(struct tree *t, const struct tree_put *c)
{
    struct node *old = c->parent != NULL ? c->node : tree_find(t, c->path), *n;
    struct node *parent = c->parent != NULL ? c->parent : get_or_create_parent(t, c->path);
    struct blob *value = new_value(t, c, old);
    struct tree_event *e;

    if (old != NULL) {
        e = event_about(t, c->action, old, c->now_ns);
        if (t->keeps_past && tree_past_holds(t, old))
            bury_node(t, old);
        else
            node_free(t, old);
    } else {
        e = tree_event_new(t->reserve, c->action, c->path);
        e->node.modified = t->index + 1;
    }
    e->node.dir = value == NULL;
    e->node.created = t->index + 1;
    n = tree_add_node(t, parent, c->path, value, t->index + 1);
    set_deadline(t, n, c->expires_ns);
    view_outcome(e, n, c);
    return e;
}

/* A new value and deadline for a node that stays. */
static struct tree_event *change_in_place(struct tree *t, const struct tree_put *c)
{
    struct node *n = c->node != NULL ? c->node : tree_find(t, c->path);
    struct tree_event *e = event_about(t, c->action, n, c->now_ns);

    if (t->keeps_past)
        tree_past_note(t, n);
    if (!c->keep_value) {
        count_below(t, n->parent, 0, c->value.len - n->value->len);
        blob_leave(n->value, ACCOUNT_HISTORY);
        n->value = new_value(t, c, n);
    }
    if (n->value != NULL)
        n->modified = t->index + 1; /* a directory keeps its own, as in etcd */
    set_deadline(t, n, c->expires_ns);
    view_outcome(e, n, c);
    return e;
}

static void remove_node(struct tree *t, struct node *n, enum etcd_action action, int64_t now_ns,
                        struct tree_result *out)
{
    struct tree_event *e = event_about(t, action, n, now_ns);

    if (t->keeps_past && tree_past_holds(t, n)) {
        notify_below(t, n, e);
        bury_node(t, n);
    } else if (n->below < t->cut_from) {
        remove_all(t, n, e);
    } else {
        notify_all(t, n, e);
        uncount_nodes(t, n);
        TAILQ_REMOVE(&n->parent->children, n, sibling);
        drop_directory(t, n);
    }
    publish_event(t, e, out);
}

void tree_apply(struct tree *t, const struct change *change, struct tree_result *out)
{
    const struct tree_remove *gone = &change->tree_remove;
    const struct tree_put *put = &change->tree_put;

    if (change->kind == CHANGE_TREE_POSTPONE) {
        tree_snapshots_overtake(t); /* keeping the past of all nodes would cost too much memory */
        expiry_postpone(&t->expiry, change->by_ns);
    } else if (change->kind == CHANGE_TREE_REMOVE) {
        remove_node(t, gone->node != NULL ? gone->node : tree_find(t, gone->path), gone->action,
                    gone->now_ns, out);
    } else if (put->action == ETCD_SET || put->action == ETCD_CREATE) {
        publish_event(t, replace_node(t, put), out);
    } else {
        publish_event(t, change_in_place(t, put), out);
    }
}

/* As etcd does it if the root directory is removed and created again. */
uint64_t tree_clear(struct tree *t, int64_t now_ns)
{
    struct node *old = t->root;
    uint64_t count = old->below;
    struct tree_result result;
    struct tree_event *e;

    if (count == 0)
        return 0;
    e = event_about(t, ETCD_DELETE, old, now_ns);
    notify_all(t, old, e);
    uncount_nodes(t, old);
    t->root = tree_add_node(t, NULL, slice_str("/"), NULL, 0);
    if (t->keeps_past)
        tree_past_bury(t, old);
    else
        drop_directory(t, old);
    publish_event(t, e, &result);
    return count;
}

/* --- What changes take. --- */

/* Memory for the event, and for the past that snapshots need. */
static size_t event_memory(const struct tree *t, struct slice path)
{
    return reserve_cost(sizeof(struct tree_event) + path.len) +
           (t->keeps_past ? reserve_cost(sizeof(struct tree_past)) : 0);
}

/* Memory for a node and all missing directories above it. */
static size_t nodes_memory(const struct tree *t, const struct tree_put *c)
{
    struct slice path = c->path;
    size_t sum = reserve_cost(sizeof(struct node) + path.len);

    if (c->parent != NULL || tree_find(t, tree_parent_path(path)) != NULL)
        return sum;
    for (size_t i = 1; i < path.len; i++)
        sum += path.ptr[i] == '/' ? reserve_cost(sizeof(struct node) + i) : 0;
    return sum;
}

size_t tree_memory(const struct tree *t, const struct change *change)
{
    const struct tree_put *put = &change->tree_put;

    if (change->kind == CHANGE_TREE_POSTPONE)
        return 0;
    if (change->kind == CHANGE_TREE_REMOVE)
        return event_memory(t, change->tree_remove.path);
    if (change->kind == CHANGE_SPACE_RESET)
        return event_memory(t, slice_str("/")) + reserve_cost(sizeof(struct node) + 1);
    return event_memory(t, put->path) + nodes_memory(t, put) + reserve_blob_cost(put->value.len) +
           expiry_memory(&t->expiry);
}

/* --- The whole. --- */

#define CUT_FROM 64

void tree_init(struct tree *t, struct ready_list *ready, struct reserve *reserve, uint64_t seed,
               struct quota *quota)
{
    *t = (struct tree){
        .index = TREE_FIRST_INDEX, .quota = quota, .reserve = reserve, .cut_from = CUT_FROM};
    t->lazy.free_some = tree_free_some;
    TAILQ_INIT(&t->dead);
    TAILQ_INIT(&t->snapshots);
    STAILQ_INIT(&t->pasts);
    table_init(&t->nodes, ACCOUNT_TREES, seed, reserve);
    expiry_init(&t->expiry, reserve);
    watch_hub_init(&t->hub, ready, reserve, quota, seed, TREE_FIRST_INDEX);
    t->root = tree_add_node(t, NULL, slice_str("/"), NULL, 0);
}

void tree_fini(struct tree *t)
{
    size_t bytes;

    assert(TAILQ_EMPTY(&t->snapshots));
    free_dead(t, SIZE_MAX, &bytes);
    lazy_free_remove(t->lazy_free, &t->lazy);
    remove_all(t, t->root, NULL);
    account_free(ACCOUNT_TREES, t->in_order_path, t->in_order_room);
    watch_hub_fini(&t->hub);
    expiry_fini(&t->expiry);
    table_fini(&t->nodes);
}
