/* Decides what comes of the commands that change the etcd tree: which node, which error, which
 * limit. Nothing is changed here but counters. See tree.h for the contract.
 *
 * Upstream: etcd 3.4.23, etcdserver/api/v2store (store.go, node.go). */
#include <inttypes.h>
#include <stdio.h>

#include "store/tree/tree_node.h"

/* 2000-01-01: set and create treat an earlier deadline as "none", as etcd does. */
#define EARLIEST_DEADLINE_NS INT64_C(946684800000000000)

static bool tree_fail(struct tree *t, enum etcd_action action, enum etcd_code code,
                      struct slice path, struct tree_result *out)
{
    if (action != ETCD_EXPIRE)
        t->failed[tree_counter_of(action)]++;
    *out = (struct tree_result){.code = code, .path = path};
    return false;
}

void tree_refuse(struct tree *t, const struct change *change, struct tree_result *out)
{
    if (change->kind == CHANGE_TREE_REMOVE)
        tree_fail(t, change->tree_remove.action, ETCD_INTERNAL, change->tree_remove.path, out);
    else
        tree_fail(t, change->tree_put.action, ETCD_INTERNAL, change->tree_put.path, out);
}

bool tree_path_fits(struct slice path)
{
    size_t depth = 0;

    if (path.len <= TREE_DEPTH_MAX)
        return true;
    for (size_t i = 1; i < path.len && path.len <= TREE_PATH_MAX; i++)
        depth += path.ptr[i] == '/';
    return path.len <= TREE_PATH_MAX && depth < TREE_DEPTH_MAX;
}

/* True when the node fits into the space, in place of `old` if there is one, with the directories
 * above it when `parents` are missing. A node keeps its whole path, so a deep path costs more than
 * it is long. */
static bool node_has_room(const struct tree *t, struct slice path, const struct node *old,
                          bool parents, size_t value_len)
{
    size_t more = NODE_COST + path.len + value_len;
    size_t less = old == NULL ? 0 : NODE_COST + path.len + blob_slice(old->value).len;

    if (!tree_path_fits(path))
        return false;
    for (size_t i = 1; i < path.len && parents; i++)
        more += path.ptr[i] == '/' ? NODE_COST + i : 0;
    return quota_has_room(t->quota, less, more);
}

/* --- A new node: set, create, create in order. --- */

/* Why the node cannot be made, which is at `path` what `change` says; *where is to blame. */
static enum etcd_code why_not_put(const struct tree *t, const struct tree_put *c, size_t value_len,
                                  struct slice *where)
{
    struct node *parent;

    *where = c->path;
    if (tree_is_root(c->path))
        return ETCD_ROOT_READ_ONLY;
    if (c->node != NULL && c->action == ETCD_CREATE)
        return ETCD_KEY_EXISTS;
    if (c->node != NULL && c->node->value == NULL)
        return ETCD_NOT_A_FILE;
    if (!node_has_room(t, c->path, c->node, c->parent == NULL, value_len))
        return ETCD_INTERNAL;
    *where = tree_parent_path(c->path);
    if (c->parent != NULL)
        return c->parent->value == NULL ? ETCD_OK : ETCD_NOT_A_DIRECTORY;
    return tree_walk(t, *where, &parent, where) == ETCD_NOT_A_DIRECTORY ? ETCD_NOT_A_DIRECTORY
                                                                        : ETCD_OK;
}

/* `old` is the present node of the path. */
static bool check_new(struct tree *t, const struct command *c, struct slice path,
                      enum etcd_action action, struct node *old, struct change *change,
                      struct tree_result *out)
{
    bool keep_value = c->refresh && action == ETCD_SET && !c->dir && old->value != NULL;
    struct slice value = c->dir || keep_value ? (struct slice){0} : c->value, where;
    enum etcd_code code;

    change->kind = CHANGE_TREE_PUT;
    change->tree_put = (struct tree_put){
        .action = action,
        .path = path,
        .value = value,
        .keep_value = keep_value,
        .dir = c->dir,
        .refresh = c->refresh && action == ETCD_SET,
        .expires_ns = c->expires_ns < EARLIEST_DEADLINE_NS ? 0 : c->expires_ns, /* as etcd does */
        .now_ns = c->now_ns,
        .parent = old != NULL ? old->parent : tree_find(t, tree_parent_path(path)),
        .node = old,
    };
    code = why_not_put(t, &change->tree_put, keep_value ? blob_slice(old->value).len : value.len,
                       &where);
    return code == ETCD_OK || tree_fail(t, action, code, where, out);
}

static bool check_tree_set(struct tree *t, const struct command *c, struct change *change,
                           struct tree_result *out)
{
    struct slice where;
    struct node *old;
    enum etcd_code code = tree_walk(t, c->key, &old, &where);

    if (code == ETCD_NOT_A_DIRECTORY || (code != ETCD_OK && c->refresh))
        return tree_fail(t, ETCD_SET, code, where, out);
    return check_new(t, c, c->key, ETCD_SET, old, change, out);
}

static bool check_create_in_order(struct tree *t, const struct command *c, struct change *change,
                                  struct tree_result *out)
{
    static const size_t name_len = 21; /* '/' and twenty digits */
    size_t base = tree_is_root(c->key) ? 0 : c->key.len;
    uint8_t *path = account_resize(ACCOUNT_TREES, ACCOUNT_ORDINARY, t->in_order_path,
                                   t->in_order_room, base + name_len + 1);
    struct slice whole;

    if (path == NULL)
        return tree_fail(t, ETCD_CREATE, ETCD_INTERNAL, c->key, out);
    t->in_order_path = path;
    t->in_order_room = base + name_len + 1;
    slice_copy(path, (struct slice){c->key.ptr, base});
    snprintf((char *)path + base, name_len + 1, "/%020" PRIu64, t->index + 1);
    whole = (struct slice){path, base + name_len};
    return check_new(t, c, whole, ETCD_CREATE, tree_find(t, whole), change, out);
}

/* --- A node that stays: update, compare and swap. --- */

static bool check_change(struct tree *t, const struct command *c, struct node *n,
                         enum etcd_action action, struct change *change, struct tree_result *out)
{
    bool keep_value = n->value == NULL || c->refresh;

    if (!keep_value && !node_has_room(t, c->key, n, false, c->value.len))
        return tree_fail(t, action, ETCD_INTERNAL, c->key, out);
    change->kind = CHANGE_TREE_PUT;
    change->tree_put = (struct tree_put){
        .action = action,
        .path = c->key,
        .value = keep_value ? (struct slice){0} : c->value,
        .keep_value = keep_value,
        .refresh = c->refresh,
        .expires_ns = c->expires_ns,
        .now_ns = c->now_ns,
        .parent = n->parent,
        .node = n,
    };
    return true;
}

static bool check_update(struct tree *t, const struct command *c, struct change *change,
                         struct tree_result *out)
{
    struct slice where = c->key;
    struct node *n;
    enum etcd_code code =
        tree_is_root(c->key) ? ETCD_ROOT_READ_ONLY : tree_walk(t, c->key, &n, &where);

    if (code == ETCD_OK && n->value == NULL && c->value.len != 0)
        return tree_fail(t, ETCD_UPDATE, ETCD_NOT_A_FILE, c->key, out);
    if (code != ETCD_OK)
        return tree_fail(t, ETCD_UPDATE, code, where, out);
    return check_change(t, c, n, ETCD_UPDATE, change, out);
}

/* True: the key exists, and has the value and the index that the command expects; *n is its node.
 * Otherwise *out says what differs. An empty value, or an index of 0, is not compared. */
static bool compare_node(struct tree *t, const struct command *c, enum etcd_action action,
                         struct node **n, struct tree_result *out)
{
    struct slice where = c->key;
    enum etcd_code code = tree_walk(t, c->key, n, &where);
    bool value_differs, index_differs;

    if (code == ETCD_OK && (*n)->value == NULL) {
        code = ETCD_NOT_A_FILE;
        /* etcd names no cause for the root. */
        where = tree_is_root(c->key) ? (struct slice){0} : c->key;
    }
    if (code != ETCD_OK)
        return tree_fail(t, action, code, where, out);
    value_differs = c->expected.len != 0 && !slice_equal(c->expected, blob_slice((*n)->value));
    index_differs = c->prev_index != 0 && c->prev_index != (*n)->modified;
    if (!value_differs && !index_differs)
        return true;
    tree_fail(t, action, ETCD_COMPARE_FAILED, c->key, out);
    out->value_differs = value_differs;
    out->index_differs = index_differs;
    out->actual_value = blob_slice((*n)->value);
    out->actual_index = (*n)->modified;
    return false;
}

/* --- A node that goes. --- */

static bool make_removal(enum etcd_action action, struct node *n, int64_t now_ns,
                         struct change *change)
{
    change->kind = CHANGE_TREE_REMOVE;
    change->tree_remove =
        (struct tree_remove){.action = action, .path = n->by_path.key, .now_ns = now_ns, .node = n};
    return true;
}

static bool check_tree_delete(struct tree *t, const struct command *c, struct change *change,
                              struct tree_result *out)
{
    struct slice where = c->key;
    struct node *n;
    enum etcd_code code =
        tree_is_root(c->key) ? ETCD_ROOT_READ_ONLY : tree_walk(t, c->key, &n, &where);

    if (code == ETCD_OK && n->value == NULL && !c->recursive) {
        where = c->key;
        if (!c->dir)
            code = ETCD_NOT_A_FILE;
        else if (n->below != 0)
            code = ETCD_DIRECTORY_NOT_EMPTY;
    }
    return code == ETCD_OK ? make_removal(ETCD_DELETE, n, c->now_ns, change)
                           : tree_fail(t, ETCD_DELETE, code, where, out);
}

bool tree_check(struct tree *t, const struct command *c, struct change *change,
                struct tree_result *out)
{
    struct node *n;

    switch (c->kind) {
    case COMMAND_TREE_SET:
        return check_tree_set(t, c, change, out);
    case COMMAND_TREE_CREATE:
        return check_new(t, c, c->key, ETCD_CREATE, tree_find(t, c->key), change, out);
    case COMMAND_TREE_CREATE_IN_ORDER:
        return check_create_in_order(t, c, change, out);
    case COMMAND_TREE_UPDATE:
        return check_update(t, c, change, out);
    case COMMAND_TREE_COMPARE_AND_SWAP:
        if (tree_is_root(c->key))
            return tree_fail(t, ETCD_COMPARE_AND_SWAP, ETCD_ROOT_READ_ONLY, c->key, out);
        return compare_node(t, c, ETCD_COMPARE_AND_SWAP, &n, out) &&
               check_change(t, c, n, ETCD_COMPARE_AND_SWAP, change, out);
    case COMMAND_TREE_DELETE:
        return check_tree_delete(t, c, change, out);
    case COMMAND_TREE_COMPARE_AND_DELETE:
        return compare_node(t, c, ETCD_COMPARE_AND_DELETE, &n, out) &&
               make_removal(ETCD_COMPARE_AND_DELETE, n, c->now_ns, change);
    case COMMAND_TREE_POSTPONE:
        *change = (struct change){.kind = CHANGE_TREE_POSTPONE, .by_ns = c->number};
        return c->number > 0 && t->expiry.count > 0;
    default: /* COMMAND_TREE_EXPIRE */
        n = tree_first_to_expire(t);
        return n != NULL && n->expiry.at_ns <= c->now_ns &&
               make_removal(ETCD_EXPIRE, n, c->now_ns, change);
    }
}

/* --- What was decoded. --- */

bool tree_is_path(struct slice path)
{
    return path.len >= 2 && path.ptr[0] == '/' && path.ptr[path.len - 1] != '/' &&
           tree_path_fits(path) &&
           !ANY(for (size_t i = 1; i < path.len; i++),
                path.ptr[i] == '/' && path.ptr[i - 1] == '/');
}

static bool can_put(const struct tree *t, const struct tree_put *c)
{
    struct slice where = c->path;
    struct node *n, *parent;

    if (tree_walk(t, c->path, &n, &where) == ETCD_NOT_A_DIRECTORY)
        return false;
    if (c->keep_value && (n == NULL || c->dir || c->value.len != 0))
        return false;
    switch (c->action) {
    case ETCD_SET:
        if (n != NULL)
            return n->value != NULL;
        break;
    case ETCD_CREATE:
        if (n != NULL)
            return false;
        break;
    default: /* ETCD_UPDATE, ETCD_COMPARE_AND_SWAP */
        return n != NULL && !c->dir && (n->value != NULL || c->keep_value);
    }
    return tree_walk(t, tree_parent_path(c->path), &parent, &where) != ETCD_NOT_A_DIRECTORY &&
           (parent == NULL || parent->value == NULL);
}

bool tree_can_apply(const struct tree *t, const struct change *change)
{
    if (change->kind == CHANGE_TREE_POSTPONE)
        return true;
    if (change->kind == CHANGE_TREE_REMOVE)
        return tree_is_path(change->tree_remove.path) &&
               tree_find(t, change->tree_remove.path) != NULL;
    return tree_is_path(change->tree_put.path) && can_put(t, &change->tree_put);
}
