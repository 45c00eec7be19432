/* The etcd v2 world of a space: its nodes and what changes them. See tree.h for the contract;
 * tree_read.c has what only looks. */
#include "store/tree.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#include "store/tree_node.h"
#include "store/xalloc.h"

#define NODE_COST sizeof(struct node)

/* 2000-01-01: set and create take a deadline before it for "none", as etcd does. */
#define EARLIEST_DEADLINE_NS INT64_C(946684800000000000)

/* --- Nodes. --- */

/* Makes a node and hangs it in; NULL when memory is short. `value` NULL: a directory; else the
 * reference is taken. The parent is there and has no such child. */
static struct node *node_add(struct tree *t, struct node *parent, struct slice path,
                             struct blob *value, uint64_t index)
{
    struct node *n = malloc(sizeof *n + path.len);
    uint8_t *copy;

    if (n == NULL)
        return NULL;
    copy = (uint8_t *)(n + 1);
    memcpy(copy, path.ptr, path.len);
    *n = (struct node){.by_path = {.key = {copy, path.len}},
                       .parent = parent,
                       .value = value,
                       .created = index,
                       .modified = index};
    TAILQ_INIT(&n->children);
    table_add(&t->nodes, &n->by_path);
    if (parent != NULL)
        TAILQ_INSERT_TAIL(&parent->children, n, sibling);
    t->bytes += NODE_COST + path.len + blob_slice(value).len;
    return n;
}

static void node_free(struct tree *t, struct node *n)
{
    assert(TAILQ_EMPTY(&n->children));
    t->bytes -= NODE_COST + n->by_path.key.len + blob_slice(n->value).len;
    expiry_remove(&t->expiry, &n->expiry);
    if (n->parent != NULL)
        TAILQ_REMOVE(&n->parent->children, n, sibling);
    table_remove(&t->nodes, &n->by_path);
    blob_unref(n->value);
    free(n);
}

/* Frees a node and all below it, deepest first, and tells those who watch each of them. Walks with
 * the nodes' own links: a tree may be deeper than the stack. */
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
            watch_tell_removed(&t->hub, e, n->by_path.key);
        node_free(t, n);
        if (n == top)
            return;
        n = up;
    }
}

/* --- Where a path leads. --- */

static struct slice parent_path(struct slice path)
{
    size_t len = path.len;

    while (len > 0 && path.ptr[len - 1] != '/')
        len--;
    return (struct slice){path.ptr, len > 1 ? len - 1 : 1}; /* "/a" is below "/" */
}

static bool is_root(struct slice path)
{
    return path.len <= 1;
}

enum etcd_code tree_walk(const struct tree *t, struct slice path, struct node **out,
                         struct slice *where)
{
    *out = tree_find(t, path);
    if (*out != NULL)
        return ETCD_OK;
    /* The fast way failed: go down from the root to the component that is to blame. */
    for (size_t i = 2; i <= path.len; i++) {
        struct slice part = {path.ptr, i};
        const struct node *n;

        if (i < path.len && path.ptr[i] != '/')
            continue;
        n = tree_find(t, part);
        *where = part;
        if (n == NULL)
            return ETCD_KEY_NOT_FOUND;
        if (n->value != NULL)
            return ETCD_NOT_A_DIRECTORY;
    }
    return ETCD_KEY_NOT_FOUND;
}

/* --- Deadlines. --- */

static void set_deadline(struct tree *t, struct node *n, int64_t expires_ns)
{
    expiry_remove(&t->expiry, &n->expiry);
    if (expires_ns != 0)
        expiry_add(&t->expiry, &n->expiry, expires_ns);
}

/* --- The parts that changes share. --- */

static void fail(struct tree *t, struct tree_result *out, enum tree_counter counter,
                 enum etcd_code code, struct slice path)
{
    t->failed[counter]++;
    *out = (struct tree_result){.code = code, .path = path};
}

static void publish(struct tree *t, struct tree_result *out, enum tree_counter counter,
                    struct tree_event *e)
{
    t->index++;
    assert(e->node.modified == t->index);
    t->succeeded[counter]++;
    watch_publish(&t->hub, e);
    tree_event_unref(e); /* the history holds it for a thousand more */
    *out = (struct tree_result){.event = e};
}

/* An event of the next index, with the node as it is now for its prevNode. */
static struct tree_event *event_about(struct tree *t, enum etcd_action action, const struct node *n,
                                      int64_t now_ns)
{
    struct tree_event *e = tree_event_new(action, n->by_path.key);

    e->has_prev = true;
    e->prev_value = blob_ref(n->value);
    tree_show(n, now_ns, &e->prev);
    e->prev.key = e->node.key;
    e->node.modified = t->index + 1;
    e->node.created = n->created;
    e->node.dir = n->value == NULL;
    return e;
}

static void show_value(struct tree_event *e, struct node *n)
{
    if (n->value == NULL)
        return;
    e->value = blob_ref(n->value);
    e->node.has_value = true;
    e->node.value = blob_slice(n->value);
}

static void show_deadline(struct tree_event *e, const struct node *n, int64_t now_ns)
{
    struct etcd_node shown;

    tree_show(n, now_ns, &shown);
    e->node.has_expiration = shown.has_expiration;
    e->node.expires_ns = shown.expires_ns;
    e->node.ttl_s = shown.ttl_s;
}

/* True when the path is not too deep, and the node and the parents it may lack fit into the space,
 * in place of `old` if there is one. A node keeps its whole path, so a deep path costs more than it
 * is long. */
static bool has_room(const struct tree *t, struct slice path, const struct node *old,
                     size_t value_len)
{
    size_t more = NODE_COST + path.len + value_len, depth = 0;
    size_t less = old == NULL ? 0 : NODE_COST + path.len + blob_slice(old->value).len;
    bool parents = old == NULL && path.len > 1 && tree_find(t, parent_path(path)) == NULL;

    for (size_t i = 1; i < path.len; i++) {
        if (path.ptr[i] != '/')
            continue;
        more += parents ? NODE_COST + i : 0;
        depth++;
    }
    return depth < TREE_DEPTH_MAX &&
           (t->bytes_max == 0 || (more <= t->bytes_max && t->bytes - less <= t->bytes_max - more));
}

/* The directory that `path` lies in; the missing ones on the way are made. NULL: see *code. */
static struct node *need_parent(struct tree *t, struct slice path, uint64_t index,
                                enum etcd_code *code, struct slice *where)
{
    struct slice above = parent_path(path);
    struct node *n = tree_find(t, above);

    *code = ETCD_OK;
    if (n == NULL) {
        *code = tree_walk(t, above, &n, where);
        if (*code == ETCD_NOT_A_DIRECTORY)
            return NULL;
        *code = ETCD_OK;
        n = t->root;
        for (size_t i = 2; i <= above.len; i++) {
            struct slice part = {path.ptr, i};
            struct node *next;

            if (i < above.len && above.ptr[i] != '/')
                continue;
            next = tree_find(t, part);
            if (next == NULL)
                next = node_add(t, n, part, NULL, index);
            if (next == NULL) {
                *code = ETCD_INTERNAL;
                return NULL;
            }
            n = next;
        }
    } else if (n->value != NULL) {
        *code = ETCD_NOT_A_DIRECTORY;
        *where = above;
        return NULL;
    }
    return n;
}

/* What set, create and create in order have in common (internalCreate in etcd). `value` is a
 * reference that this takes, NULL for a directory. */
static void put(struct tree *t, const struct tree_change *c, struct slice path, struct blob *value,
                bool replace, enum etcd_action action, struct tree_result *out)
{
    enum tree_counter counter = action == ETCD_SET ? TREE_SETS : TREE_CREATES;
    struct node *old = tree_find(t, path), *parent, *n;
    struct slice where = path;
    enum etcd_code code = ETCD_OK;
    struct tree_event *e = NULL;

    if (is_root(path))
        code = ETCD_ROOT_READ_ONLY;
    else if (old != NULL && !replace)
        code = ETCD_KEY_EXISTS;
    else if (old != NULL && old->value == NULL)
        code = ETCD_NOT_A_FILE;
    else if (!has_room(t, path, old, blob_slice(value).len))
        code = ETCD_INTERNAL;
    if (code != ETCD_OK) {
        fail(t, out, counter, code, path);
        blob_unref(value);
        return;
    }
    parent = need_parent(t, path, t->index + 1, &code, &where);
    if (parent == NULL) {
        fail(t, out, counter, code, where);
        blob_unref(value);
        return;
    }

    if (old != NULL) {
        e = event_about(t, action, old, c->now_ns);
        e->node.dir = value == NULL;
        node_free(t, old);
    } else {
        e = tree_event_new(action, path);
        e->node.modified = t->index + 1;
        e->node.dir = value == NULL;
    }
    e->node.created = t->index + 1;
    n = node_add(t, parent, path, value, t->index + 1);
    if (n == NULL)
        abort(); /* a few hundred bytes; the old node is gone, and the journal has all */
    if (c->expires_ns >= EARLIEST_DEADLINE_NS)
        set_deadline(t, n, c->expires_ns);
    show_value(e, n);
    show_deadline(e, n, c->now_ns);
    e->refresh = c->refresh;
    publish(t, out, counter, e);
}

/* A blob for the value, or a failure. */
static bool copy_value(struct tree *t, const struct tree_change *c, enum tree_counter counter,
                       struct blob **out, struct tree_result *result)
{
    *out = c->dir ? NULL : blob_new(c->value);
    if (*out != NULL || c->dir)
        return true;
    fail(t, result, counter, ETCD_INTERNAL, c->path);
    return false;
}

/* --- Changes. --- */

void tree_set(struct tree *t, const struct tree_change *c, struct tree_result *out)
{
    struct blob *value;
    struct node *old;
    struct slice where;
    enum etcd_code code = tree_walk(t, c->path, &old, &where);

    if (code == ETCD_NOT_A_DIRECTORY || (code != ETCD_OK && c->refresh)) {
        fail(t, out, TREE_SETS, code, where);
        return;
    }
    if (c->refresh && !c->dir && old->value != NULL)
        value = blob_ref(old->value);
    else if (!copy_value(t, c, TREE_SETS, &value, out))
        return;
    put(t, c, c->path, value, true, ETCD_SET, out);
}

void tree_create(struct tree *t, const struct tree_change *c, struct tree_result *out)
{
    struct blob *value;
    struct tree_change plain = *c;

    plain.refresh = false;
    if (copy_value(t, c, TREE_CREATES, &value, out))
        put(t, &plain, c->path, value, false, ETCD_CREATE, out);
}

void tree_create_in_order(struct tree *t, const struct tree_change *c, struct tree_result *out)
{
    static const size_t name_len = 21; /* '/' and twenty digits */
    size_t base = is_root(c->path) ? 0 : c->path.len;
    char name[32];
    uint8_t *path;
    struct blob *value;
    struct tree_change plain = *c;

    plain.refresh = false;
    path = malloc(base + name_len);
    if (path == NULL) {
        fail(t, out, TREE_CREATES, ETCD_INTERNAL, c->path);
        return;
    }
    if (base != 0)
        memcpy(path, c->path.ptr, base);
    snprintf(name, sizeof name, "/%020" PRIu64, t->index + 1);
    memcpy(path + base, name, name_len);
    if (copy_value(t, c, TREE_CREATES, &value, out))
        put(t, &plain, (struct slice){path, base + name_len}, value, false, ETCD_CREATE, out);
    /* What is to blame may be the new key itself: somebody else can have made one of that name. */
    free(t->refused_path);
    t->refused_path = out->code == ETCD_OK ? NULL : path;
    if (out->code == ETCD_OK)
        free(path);
}

/* Puts a new value and deadline on a node that stays; for update and compare-and-swap. */
static void change_in_place(struct tree *t, const struct tree_change *c, struct node *n,
                            enum etcd_action action, enum tree_counter counter,
                            struct tree_result *out)
{
    struct blob *value = NULL;
    struct tree_event *e;

    if (n->value != NULL && !c->refresh) {
        value = has_room(t, c->path, n, c->value.len) ? blob_new(c->value) : NULL;
        if (value == NULL) {
            fail(t, out, counter, ETCD_INTERNAL, c->path);
            return;
        }
    }
    e = event_about(t, action, n, c->now_ns);
    if (value != NULL) {
        t->bytes = t->bytes - n->value->len + value->len;
        blob_unref(n->value);
        n->value = value;
    }
    if (n->value != NULL)
        n->modified = t->index + 1; /* a directory keeps its own, as in etcd */
    set_deadline(t, n, c->expires_ns);
    show_value(e, n);
    show_deadline(e, n, c->now_ns);
    e->refresh = c->refresh;
    publish(t, out, counter, e);
}

void tree_update(struct tree *t, const struct tree_change *c, struct tree_result *out)
{
    struct node *n;
    struct slice where = c->path;
    enum etcd_code code =
        is_root(c->path) ? ETCD_ROOT_READ_ONLY : tree_walk(t, c->path, &n, &where);

    if (code == ETCD_OK && n->value == NULL && c->value.len != 0)
        code = ETCD_NOT_A_FILE;
    if (code != ETCD_OK)
        fail(t, out, TREE_UPDATES, code, code == ETCD_NOT_A_FILE ? c->path : where);
    else
        change_in_place(t, c, n, ETCD_UPDATE, TREE_UPDATES, out);
}

/* True when the node is a key that is what the request compares with; else *out is filled. */
static bool compare(struct tree *t, const struct tree_change *c, enum tree_counter counter,
                    struct node **n, struct tree_result *out)
{
    struct slice where = c->path;
    enum etcd_code code = tree_walk(t, c->path, n, &where);
    bool value_differs, index_differs;

    if (code == ETCD_OK && (*n)->value == NULL) {
        code = ETCD_NOT_A_FILE;
        /* etcd names no cause for the root. */
        where = is_root(c->path) ? (struct slice){0} : c->path;
    }
    if (code != ETCD_OK) {
        fail(t, out, counter, code, where);
        return false;
    }
    value_differs = c->prev_value.len != 0 && !slice_equal(c->prev_value, blob_slice((*n)->value));
    index_differs = c->prev_index != 0 && c->prev_index != (*n)->modified;
    if (!value_differs && !index_differs)
        return true;
    fail(t, out, counter, ETCD_COMPARE_FAILED, c->path);
    out->value_differs = value_differs;
    out->index_differs = index_differs;
    out->actual_value = blob_slice((*n)->value);
    out->actual_index = (*n)->modified;
    return false;
}

void tree_compare_and_swap(struct tree *t, const struct tree_change *c, struct tree_result *out)
{
    struct node *n;

    if (is_root(c->path))
        fail(t, out, TREE_SWAPS, ETCD_ROOT_READ_ONLY, c->path);
    else if (compare(t, c, TREE_SWAPS, &n, out))
        change_in_place(t, c, n, ETCD_COMPARE_AND_SWAP, TREE_SWAPS, out);
}

static void remove_node(struct tree *t, const struct tree_change *c, struct node *n,
                        enum etcd_action action, enum tree_counter counter, struct tree_result *out)
{
    struct tree_event *e = event_about(t, action, n, c->now_ns);

    remove_all(t, n, e);
    publish(t, out, counter, e);
}

void tree_delete(struct tree *t, const struct tree_change *c, struct tree_result *out)
{
    struct node *n;
    struct slice where = c->path;
    enum etcd_code code =
        is_root(c->path) ? ETCD_ROOT_READ_ONLY : tree_walk(t, c->path, &n, &where);

    if (code == ETCD_OK && n->value == NULL && !c->recursive) {
        where = c->path;
        if (!c->dir)
            code = ETCD_NOT_A_FILE;
        else if (!TAILQ_EMPTY(&n->children))
            code = ETCD_DIRECTORY_NOT_EMPTY;
    }
    if (code != ETCD_OK)
        fail(t, out, TREE_DELETES, code, where);
    else
        remove_node(t, c, n, ETCD_DELETE, TREE_DELETES, out);
}

void tree_compare_and_delete(struct tree *t, const struct tree_change *c, struct tree_result *out)
{
    struct node *n;

    if (compare(t, c, TREE_SWAP_DELETES, &n, out))
        remove_node(t, c, n, ETCD_COMPARE_AND_DELETE, TREE_SWAP_DELETES, out);
}

uint64_t tree_expire(struct tree *t, int64_t now_ns)
{
    struct expiry_node *first;
    uint64_t count = 0;

    while ((first = expiry_first(&t->expiry)) != NULL && first->at_ns <= now_ns) {
        struct node *n = (struct node *)((char *)first - offsetof(struct node, expiry));
        struct tree_event *e = event_about(t, ETCD_EXPIRE, n, now_ns);

        remove_all(t, n, e);
        t->index++;
        t->expired++;
        watch_publish(&t->hub, e);
        tree_event_unref(e);
        count++;
    }
    return count;
}

uint64_t tree_clear(struct tree *t, int64_t now_ns)
{
    uint64_t count = 0;
    struct node *n;

    while ((n = TAILQ_FIRST(&t->root->children)) != NULL) {
        struct tree_change c = {.now_ns = now_ns};
        struct tree_result result;

        remove_node(t, &c, n, ETCD_DELETE, TREE_DELETES, &result);
        count++;
    }
    return count;
}

void tree_take_index(struct tree *t)
{
    watch_skip_index(&t->hub, ++t->index);
}

/* --- The whole. --- */

void tree_init(struct tree *t, struct ready_list *ready, uint64_t seed, size_t bytes_max)
{
    *t = (struct tree){.index = TREE_FIRST_INDEX, .bytes_max = bytes_max};
    table_init(&t->nodes, seed);
    expiry_init(&t->expiry);
    watch_hub_init(&t->hub, ready, seed, TREE_FIRST_INDEX);
    t->root = node_add(t, NULL, slice_str("/"), NULL, 0);
    if (t->root == NULL)
        abort();
}

void tree_fini(struct tree *t)
{
    remove_all(t, t->root, NULL);
    free(t->refused_path);
    watch_hub_fini(&t->hub);
    expiry_fini(&t->expiry);
    table_fini(&t->nodes);
}
