/* What only looks at the etcd tree: gets, listings, the next deadline. See tree.h. */
#include <limits.h>
#include <stdlib.h>

#include "proto/json.h"
#include "store/tree/tree_snapshot.h"

/* Seconds until `at`, rounded up, as Go's time.Sub saturates and truncates: 0 in the moment of
 * expiration, -1, -2, … when the removal is late. */
static int64_t seconds_left(int64_t at_ns, int64_t now_ns)
{
    int64_t left;

    if (__builtin_sub_overflow(at_ns, now_ns, &left))
        left = at_ns < now_ns ? INT64_MIN : INT64_MAX;
    return left / 1000000000 + (left % 1000000000 > 0 ? 1 : 0);
}

void tree_state_view(const struct node *n, const struct blob *value, int64_t expires_ns,
                     uint64_t modified, int64_t now_ns, struct etcd_node *out)
{
    *out = (struct etcd_node){
        .key = tree_is_root(n->by_path.key) ? (struct slice){0} : n->by_path.key,
        .value = blob_slice(value),
        .has_value = value != NULL,
        .dir = value == NULL,
        .has_expiration = expires_ns != 0,
        .expires_ns = expires_ns,
        .ttl_s = expires_ns != 0 ? seconds_left(expires_ns, now_ns) : 0,
        .modified = modified,
        .created = n->created,
    };
}

void tree_node_view(const struct node *n, int64_t now_ns, struct etcd_node *out)
{
    tree_state_view(n, n->value, n->expiry.at_ns, n->modified, now_ns, out);
}

bool tree_is_hidden(const struct node *n)
{
    size_t name = n->by_path.key.len;

    while (n->by_path.key.ptr[name - 1] != '/')
        name--;
    return n->by_path.key.ptr[name] == '_'; /* a name is never empty, except the root's */
}

static int node_by_key(const void *a, const void *b)
{
    const struct node *const *left = a, *const *right = b;

    return slice_compare((*left)->by_path.key, (*right)->by_path.key);
}

/* The same of a child of `dir`, where its name begins at a place that is known. */
static inline bool is_hidden_in(const struct node *dir, const struct node *child)
{
    size_t name = tree_is_root(dir->by_path.key) ? 1 : dir->by_path.key.len + 1;

    return child->by_path.key.ptr[name] == '_';
}

/* The visible children, sorted or in order of creation, ending with NULL; the caller frees them. */
static struct node **children(const struct node *n, bool sorted, size_t *room)
{
    struct node *child, **list;
    size_t count = 0;

    TAILQ_FOREACH(child, &n->children, sibling)
        count++;
    *room = (count + 1) * sizeof(struct node *);
    list = account_request_zeroed(ACCOUNT_ANSWERS, account_class_of(*room), *room);
    if (list == NULL)
        return NULL;
    count = 0;
    TAILQ_FOREACH(child, &n->children, sibling) {
        if (!is_hidden_in(n, child) && !tree_is_removed(child))
            list[count++] = child;
    }
    if (sorted)
        qsort(list, count, sizeof(struct node *), node_by_key);
    return list;
}

/* One open directory of a listing; kept on the heap, as a tree may be deeper than the stack. */
struct level {
    const struct node *dir;
    struct node **list;
    size_t room; /* of the list, in bytes */
    size_t at;
    struct level *above;
};

static struct level *listing_descend(const struct node *dir, bool sorted, struct level *above)
{
    struct level *l = account_request(ACCOUNT_ANSWERS, ACCOUNT_SMALL, sizeof *l);

    if (l == NULL)
        return NULL;
    *l = (struct level){.dir = dir, .above = above};
    l->list = children(dir, sorted, &l->room);
    if (l->list == NULL) {
        account_free(ACCOUNT_ANSWERS, l, sizeof *l);
        return NULL;
    }
    return l;
}

static void write_children(const struct node *top, bool recursive, bool sorted, int64_t now_ns,
                           struct writer *w, bool *ok)
{
    struct level *l = listing_descend(top, sorted, NULL);

    *ok = l != NULL;
    while (l != NULL) {
        const struct node *n = l->list[l->at];
        struct etcd_node shown;

        if (n == NULL) { /* this directory is through */
            struct level *above = l->above;

            if (l->at > 0)
                writer_u8(w, ']');
            if (above != NULL) {
                tree_node_view(l->dir, now_ns, &shown);
                etcd_write_node_close(w, &shown);
            }
            account_free(ACCOUNT_ANSWERS, l->list, l->room);
            account_free(ACCOUNT_ANSWERS, l, sizeof *l);
            l = above;
            continue;
        }
        writer_str(w, l->at == 0 ? ",\"nodes\":[" : ",");
        l->at++;
        tree_node_view(n, now_ns, &shown);
        etcd_write_node_open(w, &shown);
        if (n->value == NULL && recursive) {
            struct level *below = listing_descend(n, sorted, l);

            if (below == NULL)
                *ok = false;
            else
                l = below;
            continue;
        }
        etcd_write_node_close(w, &shown);
    }
}

bool tree_write_get(const struct tree *t, const struct node *n, bool recursive, bool sorted,
                    int64_t now_ns, struct writer *w)
{
    struct etcd_node shown;
    bool ok = true;

    (void)t;
    tree_node_view(n, now_ns, &shown);
    writer_str(w, "{\"action\":\"get\",\"node\":");
    etcd_write_node_open(w, &shown);
    if (n->value == NULL)
        write_children(n, recursive, sorted, now_ns, w, &ok);
    etcd_write_node_close(w, &shown);
    writer_str(w, "}\n");
    return ok;
}

enum etcd_code tree_get(struct tree *t, struct slice path, const struct node **out,
                        struct slice *where)
{
    struct node *n;
    enum etcd_code code = tree_walk(t, path, &n, where);

    if (code == ETCD_OK)
        t->succeeded[TREE_GETS]++;
    else
        t->failed[TREE_GETS]++;
    *out = n;
    return code;
}

void tree_take_back_get(struct tree *t)
{
    t->succeeded[TREE_GETS]--;
}

bool tree_next_expiry(struct tree *t, int64_t *at_ns)
{
    const struct expiry_node *first;

    if (t->cuts != 0)
        tree_first_to_expire(t); /* takes those out that were removed */
    first = expiry_first(&t->expiry);
    if (first == NULL)
        return false;
    *at_ns = first->at_ns;
    return true;
}

enum etcd_code tree_watch(struct tree *t, struct slice path, bool recursive, bool stream,
                          uint64_t since, void *owner, struct watch **out)
{
    if (since == 0)
        since = t->index + 1;
    return watch_open(&t->hub, path, recursive, stream, since, owner, out);
}
