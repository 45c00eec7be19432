/* The etcd tree in slices. See tree_reader.h for the contract. */
#include "store/tree/tree_reader.h"

#include <assert.h>

#include "proto/json.h"
#include "store/tree/tree_sort.h"

/* Nodes and bytes up to which a node is small. */
#define SMALL_BELOW 128
#define SMALL_BYTES (32u << 10)

/* A value up to this is written together with its node. */
#define SHORT_VALUE 4096

/* Nanoseconds, about. */
#define NODE_COST_NS 400
#define BYTE_COST_NS 2 /* of a value */

/* One open directory; on the heap, as a tree may be deeper than the stack. */
struct level {
    const struct node *dir;
    const struct node *at; /* the child that was written last */
    bool begun;            /* the walk of this level goes on where it was */
    struct tree_sort sort;
    struct level *above;
};

struct tree_reader {
    struct tree_snapshot snapshot;
    struct blob_list out;
    struct lazy_free *lazy_free; /* of the tree: frees what is written and not sent */
    bool recursive;
    bool sorted;
    bool done;
    int64_t now_ns;
    struct level *level;
    struct blob *value; /* is being written; its node is `shown` */
    size_t value_at;
    struct etcd_node shown;
};

bool tree_is_small(const struct tree *t, const struct node *n)
{
    if (n->value != NULL)
        return n->value->len <= SMALL_BYTES;
    return n->below <= SMALL_BELOW && n->below_bytes <= SMALL_BYTES && !t->keeps_past;
}

/* --- Levels. --- */

static bool reader_descend(struct tree_reader *r, const struct node *dir)
{
    struct level *l = account_request(ACCOUNT_ANSWERS, ACCOUNT_SMALL, sizeof *l);

    if (l == NULL)
        return false;
    *l = (struct level){.dir = dir, .above = r->level};
    if (r->sorted)
        tree_sort_init(&l->sort);
    r->level = l;
    return true;
}

static void leave_level(struct tree_reader *r)
{
    struct level *l = r->level;

    r->level = l->above;
    if (r->level != NULL && !r->sorted)
        r->level->begun = false; /* the walk was elsewhere */
    if (r->sorted)
        tree_sort_fini(&l->sort);
    account_free(ACCOUNT_ANSWERS, l, sizeof *l);
}

/* --- Nodes. --- */

static void write_short(struct tree_reader *r, const struct etcd_node *shown, const char *before,
                        size_t value_len)
{
    struct writer *w = blob_list_room(&r->out, 64 + ETCD_NODE_ROOM(shown->key.len) + 6 * value_len);

    writer_str(w, before);
    etcd_write_node_open(w, shown);
    if (!shown->dir)
        etcd_write_node_close(w, shown);
}

/* A node and what stands before it; of a directory its first half, of a long value the beginning.
 */
static bool visit(struct tree_reader *r, const struct node *n, bool descends, const char *before)
{
    struct etcd_node shown;
    struct blob *value;

    tree_snapshot_view(&r->snapshot, n, r->now_ns, &shown, &value);
    if (shown.value.len > SHORT_VALUE) {
        struct writer *w = blob_list_room(&r->out, 64 + ETCD_NODE_ROOM(shown.key.len));

        writer_str(w, before);
        etcd_write_node_begin(w, &shown);
        r->shown = shown;
        r->value = blob_ref(value);
        r->value_at = 0;
        return true;
    }
    write_short(r, &shown, before, shown.value.len);
    if (!shown.dir)
        return true;
    if (descends)
        return reader_descend(r, n);
    etcd_write_node_close(blob_list_room(&r->out, ETCD_NODE_ROOM(0)), &shown);
    return true;
}

/* A part of a long value, as much as a blob takes. */
static int64_t write_value_part(struct tree_reader *r)
{
    size_t from = r->value_at;
    struct writer *w = blob_list_room(&r->out, 16);

    r->value_at = json_text_part(w, r->shown.value, from);
    if (r->value_at == r->shown.value.len) {
        w = blob_list_room(&r->out, ETCD_NODE_ROOM(0));
        etcd_write_node_rest(w, &r->shown);
        etcd_write_node_close(w, &r->shown);
        blob_leave(r->value, ACCOUNT_HISTORY);
        r->value = NULL;
    }
    return (int64_t)(r->value_at - from) * BYTE_COST_NS;
}

static void close_directory(struct tree_reader *r)
{
    struct level *l = r->level;
    struct writer *w = blob_list_room(&r->out, ETCD_NODE_ROOM(0));
    struct etcd_node shown;
    struct blob *value;

    if (l->at != NULL)
        writer_u8(w, ']');
    tree_snapshot_view(&r->snapshot, l->dir, r->now_ns, &shown, &value);
    etcd_write_node_close(w, &shown);
    leave_level(r);
}

/* --- Slices. --- */

static const struct node *next_unsorted(struct tree_reader *r, int64_t *work)
{
    struct level *l = r->level;
    const struct node *n;

    if (!l->begun)
        tree_snapshot_walk(&r->snapshot, l->dir, l->at);
    l->begun = true;
    do {
        n = tree_snapshot_next(&r->snapshot, work);
        *work -= NODE_COST_NS / 4;
    } while (n != NULL && tree_is_hidden(n) && *work > 0);
    return n == NULL || tree_is_hidden(n) ? NULL : n;
}

/* False: memory is short. */
static bool next_sorted(struct tree_reader *r, int64_t *work, const struct node **n)
{
    struct level *l = r->level;

    *n = NULL;
    if (!l->begun)
        tree_snapshot_walk(&r->snapshot, l->dir, NULL);
    l->begun = true;
    if (!tree_sort_is_ready(&l->sort) && !tree_sort_run(&l->sort, &r->snapshot, work))
        return false; /* no directory below it is open until they are sorted */
    if (tree_sort_is_ready(&l->sort))
        *n = tree_sort_next(&l->sort);
    return true;
}

/* One child, or the end of a directory. False: memory is short. */
static bool reader_step(struct tree_reader *r, int64_t *work)
{
    struct level *l = r->level;
    const struct node *n;
    bool first = l->at == NULL;

    if (!r->sorted)
        n = next_unsorted(r, work);
    else if (!next_sorted(r, work, &n))
        return false;
    if (n == NULL && *work <= 0)
        return true; /* it has looked at many, and goes on later */
    *work -= NODE_COST_NS;
    if (n == NULL) {
        close_directory(r);
        return true;
    }
    l->at = n;
    return visit(r, n, r->recursive, first ? ",\"nodes\":[" : ",");
}

static bool reader_run_slice(struct tree_reader *r, int64_t work)
{
    while (work > 0 && !r->out.failed) {
        if (r->value != NULL) {
            work -= write_value_part(r);
        } else if (r->level != NULL) {
            if (!reader_step(r, &work))
                return false;
        } else {
            writer_str(blob_list_room(&r->out, 2), "}\n");
            r->done = true;
            return blob_list_end(&r->out);
        }
    }
    return !r->out.failed;
}

enum tree_read tree_reader_run(struct tree_reader *r, int64_t work_ns)
{
    if (r->snapshot.closed || !reader_run_slice(r, work_ns))
        return TREE_READ_FAILED;
    if (!r->done)
        return TREE_READ_MORE;
    tree_snapshot_close(&r->snapshot);
    return TREE_READ_DONE;
}

const struct blob_list *tree_reader_result(const struct tree_reader *r)
{
    assert(r->done);
    return &r->out;
}

struct tree_reader *tree_reader_open(struct tree *t, const struct node *n, bool recursive,
                                     bool sorted, int64_t now_ns)
{
    struct tree_reader *r = account_request(ACCOUNT_ANSWERS, ACCOUNT_SMALL, sizeof *r);

    if (r == NULL)
        return NULL;
    *r = (struct tree_reader){
        .lazy_free = t->lazy_free, .recursive = recursive, .sorted = sorted, .now_ns = now_ns};
    blob_list_init(&r->out, ACCOUNT_ANSWERS);
    tree_snapshot_open(&r->snapshot, t);
    if (!visit(r, n, true, "{\"action\":\"get\",\"node\":") || r->out.failed) {
        tree_reader_close(r);
        return NULL;
    }
    return r;
}

void tree_reader_close(struct tree_reader *r)
{
    if (r == NULL)
        return;
    while (r->level != NULL)
        leave_level(r);
    blob_leave(r->value, ACCOUNT_HISTORY);
    blob_list_free(&r->out, r->lazy_free);
    tree_snapshot_close(&r->snapshot);
    account_free(ACCOUNT_ANSWERS, r, sizeof *r);
}
