/* What only looks at the etcd tree: gets, listings, the next deadline. See tree.h. */
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

enum etcd_code tree_get(struct tree *t, struct slice path, const struct node **out,
                        struct slice *where)
{
    struct node *n;
    enum etcd_code code = tree_walk(t, path, &n, where);

    (code == ETCD_OK ? t->succeeded : t->failed)[TREE_GETS]++;
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
