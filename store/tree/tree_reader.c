/* The etcd tree in slices. See tree_reader.h for the contract. */
#include "store/tree/tree_reader.h"

#include <assert.h>
#include <stdlib.h>

#include "proto/json.h"
#include "store/tree/tree_snapshot.h"

/* Nodes and bytes up to which a node is small. */
#define SMALL_BELOW 128
#define SMALL_BYTES (32u << 10)

/* A value up to this size is written together with its node. */
#define SHORT_VALUE 4096

/* The text is written to pieces of this size: any node fits into one, but for a long value. */
#define PIECE_SIZE (64u << 10)
_Static_assert(64 + ETCD_NODE_ROOM(TREE_PATH_MAX) + 6 * SHORT_VALUE + ETCD_NODE_ROOM(0) <=
                   PIECE_SIZE,
               "a node fits");

/* Nanoseconds, about. */
#define NODE_COST_NS 400
#define BYTE_COST_NS 2 /* of a value */

/* --- The visible children of a directory by name, collected in slices. They are sorted in pieces
 * while they come, and a heap of the pieces gives the next one. A heap of all children would need
 * less code, and three times the time: of a million names, each comparison reads two that are in no
 * cache. --- */

#define FIRST_CAP 64
#define PIECE     512

/* Nanoseconds, about. */
#define COLLECT_COST 60
#define COMPARE_COST 60
#define PIECE_COST   (PIECE * 9 * COMPARE_COST)

struct tree_sort {
    const struct node **list;
    size_t count, cap;
    size_t sorted; /* so many are in pieces */
    struct sorted_piece {
        size_t at, end; /* of the list: from the next one to give */
    } * pieces;         /* a heap by the names of their next ones */
    size_t piece_count, piece_cap;
    bool is_ready; /* all are collected */
};

static int sort_by_name(const void *a, const void *b)
{
    const struct node *const *x = a, *const *y = b;

    return slice_compare((*x)->by_path.key, (*y)->by_path.key);
}

/* Room for one more of `size` bytes behind the `count` that the list has. */
static void *sort_widen(void *list, size_t size, size_t count, size_t *cap)
{
    size_t next = *cap == 0 ? FIRST_CAP : 2 * *cap;
    void *wider;

    if (count < *cap)
        return list;
    wider = account_resize(ACCOUNT_ANSWERS, account_class_of(next * size), list, *cap * size,
                           next * size);
    if (wider != NULL)
        *cap = next;
    return wider;
}

static bool is_before(const struct tree_sort *s, size_t a, size_t b)
{
    return sort_by_name(&s->list[s->pieces[a].at], &s->list[s->pieces[b].at]) < 0;
}

static void swap_pieces(struct tree_sort *s, size_t a, size_t b)
{
    struct sorted_piece kept = s->pieces[a];

    s->pieces[a] = s->pieces[b];
    s->pieces[b] = kept;
}

/* Sorts the nodes that were collected last, and puts their piece into the heap. */
static bool end_piece(struct tree_sort *s, int64_t *work)
{
    size_t begin = s->sorted, at = s->piece_count;
    struct sorted_piece *pieces = sort_widen(s->pieces, sizeof *pieces, at, &s->piece_cap);

    if (pieces == NULL)
        return false;
    s->pieces = pieces;
    qsort((void *)(uintptr_t)(s->list + begin), s->count - begin, sizeof *s->list, sort_by_name);
    *work -= PIECE_COST;
    s->sorted = s->count;
    s->pieces[s->piece_count++] = (struct sorted_piece){begin, s->count};
    for (; at > 0 && is_before(s, at, (at - 1) / 2); at = (at - 1) / 2)
        swap_pieces(s, at, (at - 1) / 2);
    return true;
}

/* Collects for *work nanoseconds what the walk of the snapshot gives. False: memory is short. */
static bool tree_sort_run(struct tree_sort *s, struct tree_snapshot *walk, int64_t *work)
{
    const struct node *n = NULL;

    while (*work > 0 && (n = tree_snapshot_next(walk, work)) != NULL) {
        const struct node **list;

        *work -= COLLECT_COST;
        if (tree_is_hidden(n))
            continue;
        list = sort_widen((void *)(uintptr_t)s->list, sizeof *list, s->count, &s->cap);
        if (list == NULL)
            return false;
        s->list = list;
        s->list[s->count++] = n;
        if (s->count - s->sorted == PIECE && !end_piece(s, work))
            return false;
    }
    if (*work <= 0)
        return true;
    s->is_ready = true;
    return s->sorted == s->count || end_piece(s, work);
}

/* The next node in order, when all are collected; NULL behind the last. */
static const struct node *tree_sort_next(struct tree_sort *s, int64_t *work)
{
    const struct node *first;
    size_t at = 0, child;

    if (s->piece_count == 0)
        return NULL;
    first = s->list[s->pieces[0].at++];
    if (s->pieces[0].at == s->pieces[0].end)
        s->pieces[0] = s->pieces[--s->piece_count];
    for (; (child = 2 * at + 1) < s->piece_count; at = child) {
        *work -= 2 * COMPARE_COST;
        child += child + 1 < s->piece_count && is_before(s, child + 1, child);
        if (!is_before(s, child, at))
            break;
        swap_pieces(s, at, child);
    }
    return first;
}

/* --- The reader. --- */

/* One open directory; on the heap, as a tree may be deeper than the stack. */
struct level {
    const struct node *dir;
    const struct node *at; /* the child that was written last */
    bool begun;            /* this level's walk has begun, and continues where it stopped */
    struct tree_sort sort;
    struct level *above;
};

struct tree_reader {
    struct tree_snapshot snapshot;
    struct blob *piece; /* is being written; NULL: none */
    struct writer w;    /* its room */
    struct blob *full;  /* the finished piece until the caller takes it; NULL: none */
    bool failed;        /* memory was short */
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

/* --- Pieces. --- */

/* The piece keeps the written bytes; the rest is spare. */
static struct blob *take_piece(struct tree_reader *r)
{
    struct blob *piece = r->piece;

    blob_leave_spare(piece, r->w.cap - r->w.len);
    r->piece = NULL;
    r->w = (struct writer){0};
    return piece;
}

/* A writer with room for `len` bytes in one piece. If memory is short, the writer has no room and
 * only counts the bytes. One step fills at most one piece. */
static struct writer *room_for(struct tree_reader *r, size_t len)
{
    if (r->w.cap - r->w.len >= len)
        return &r->w;
    if (r->piece != NULL) {
        assert(r->full == NULL);
        r->full = take_piece(r);
    }
    r->piece = r->failed ? NULL : blob_alloc(ACCOUNT_ANSWERS, PIECE_SIZE);
    if (r->piece != NULL)
        r->w = (struct writer){.ptr = r->piece->bytes, .cap = PIECE_SIZE};
    else
        r->failed = true;
    return &r->w;
}

/* The last piece may be small, and may be queued for long. False: memory is short. */
static bool shrink_last(struct tree_reader *r)
{
    struct blob *b =
        account_realloc(ACCOUNT_ANSWERS, r->piece, blob_size(r->piece), sizeof *b + r->w.len);

    if (b == NULL)
        return false;
    r->piece = blob_begin(b, ACCOUNT_ANSWERS, r->w.len);
    r->w.cap = r->w.len;
    return true;
}

/* --- Levels. --- */

static void reader_descend(struct tree_reader *r, const struct node *dir)
{
    struct level *l = account_request(ACCOUNT_ANSWERS, ACCOUNT_SMALL, sizeof *l);

    if (l == NULL) {
        r->failed = true;
        return;
    }
    *l = (struct level){.dir = dir, .above = r->level};
    r->level = l;
}

static void leave_level(struct tree_reader *r)
{
    struct level *l = r->level;
    struct tree_sort *s = &l->sort;

    r->level = l->above;
    if (r->level != NULL && !r->sorted)
        r->level->begun = false; /* the walk was elsewhere */
    account_free(ACCOUNT_ANSWERS, (void *)(uintptr_t)s->list, s->cap * sizeof *s->list);
    account_free(ACCOUNT_ANSWERS, s->pieces, s->piece_cap * sizeof *s->pieces);
    account_free(ACCOUNT_ANSWERS, l, sizeof *l);
}

/* --- Nodes. --- */

/* A node and the text before it; of a directory its first half, of a long value the start. */
static void visit_node(struct tree_reader *r, const struct node *n, bool descends,
                       const char *before)
{
    struct etcd_node shown;
    struct blob *value;
    struct writer *w;

    tree_snapshot_view(&r->snapshot, n, r->now_ns, &shown, &value);
    if (shown.value.len > SHORT_VALUE) {
        w = room_for(r, 64 + ETCD_NODE_ROOM(shown.key.len));
        writer_str(w, before);
        etcd_write_node_begin(w, &shown);
        r->shown = shown;
        r->value = blob_ref(value);
        r->value_at = 0;
        return;
    }
    w = room_for(r, 64 + ETCD_NODE_ROOM(shown.key.len) + 6 * shown.value.len);
    writer_str(w, before);
    etcd_write_node_open(w, &shown);
    if (shown.dir && descends)
        reader_descend(r, n);
    else
        etcd_write_node_close(shown.dir ? room_for(r, ETCD_NODE_ROOM(0)) : w, &shown);
}

/* A part of a long value, as much as a blob takes. */
static int64_t write_value_part(struct tree_reader *r)
{
    size_t from = r->value_at;
    struct writer *w = room_for(r, 16);

    if (r->full != NULL)
        return 0; /* the rest may fill the new piece, and its end needs another one */
    r->value_at = json_text_part(w, r->shown.value, from);
    if (r->value_at == r->shown.value.len) {
        w = room_for(r, ETCD_NODE_ROOM(0));
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
    struct writer *w = room_for(r, ETCD_NODE_ROOM(0));
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
    const struct node *n;

    do {
        n = tree_snapshot_next(&r->snapshot, work);
        *work -= NODE_COST_NS / 4;
    } while (n != NULL && tree_is_hidden(n) && *work > 0);
    return n == NULL || tree_is_hidden(n) ? NULL : n;
}

static const struct node *next_sorted(struct tree_reader *r, int64_t *work)
{
    struct level *l = r->level;

    if (!l->sort.is_ready) /* opens no subdirectory until the children are collected */
        r->failed = !tree_sort_run(&l->sort, &r->snapshot, work);
    return l->sort.is_ready ? tree_sort_next(&l->sort, work) : NULL;
}

/* One child, or the end of a directory. */
static void reader_step(struct tree_reader *r, int64_t *work)
{
    struct level *l = r->level;
    const struct node *n;
    bool first = l->at == NULL;

    if (!l->begun)
        tree_snapshot_walk(&r->snapshot, l->dir, l->at);
    l->begun = true;
    n = r->sorted ? next_sorted(r, work) : next_unsorted(r, work);
    if (r->failed || (n == NULL && *work <= 0))
        return; /* the slice is used up: the next call goes on here */
    *work -= NODE_COST_NS;
    if (n == NULL) {
        close_directory(r);
        return;
    }
    l->at = n;
    visit_node(r, n, r->recursive, first ? ",\"nodes\":[" : ",");
}

/* False: memory is short. */
static bool reader_run_slice(struct tree_reader *r, int64_t *work)
{
    while (*work > 0 && r->full == NULL && !r->done && !r->failed) {
        if (r->value != NULL) {
            *work -= write_value_part(r);
        } else if (r->level != NULL) {
            reader_step(r, work);
        } else {
            writer_str(room_for(r, 2), "}\n");
            r->done = true;
        }
    }
    return !r->failed;
}

enum tree_read tree_reader_run(struct tree_reader *r, int64_t *work_ns, struct blob **piece)
{
    *piece = NULL;
    if (r->snapshot.closed || !reader_run_slice(r, work_ns))
        return TREE_READ_FAILED;
    if (r->full != NULL || !r->done) {
        *piece = r->full;
        r->full = NULL;
        return TREE_READ_MORE;
    }
    if (!shrink_last(r))
        return TREE_READ_FAILED;
    *piece = take_piece(r);
    tree_snapshot_close(&r->snapshot);
    return TREE_READ_DONE;
}

struct tree_reader *tree_reader_open(struct tree *t, const struct node *n, bool recursive,
                                     bool sorted, int64_t now_ns)
{
    struct tree_reader *r = account_request(ACCOUNT_ANSWERS, ACCOUNT_SMALL, sizeof *r);

    if (r == NULL)
        return NULL;
    *r = (struct tree_reader){.recursive = recursive, .sorted = sorted, .now_ns = now_ns};
    tree_snapshot_open(&r->snapshot, t);
    visit_node(r, n, true, "{\"action\":\"get\",\"node\":");
    if (r->failed) {
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
    blob_unref(r->piece);
    blob_unref(r->full);
    tree_snapshot_close(&r->snapshot);
    account_free(ACCOUNT_ANSWERS, r, sizeof *r);
}

/* --- The whole at once. --- */

/* The first of these children of `dir` that a listing shows. */
static const struct node *first_shown(const struct node *dir, const struct node *child)
{
    size_t name = tree_is_root(dir->by_path.key) ? 1 : dir->by_path.key.len + 1;

    while (child != NULL && (child->by_path.key.ptr[name] == '_' || tree_is_removed(child)))
        child = TAILQ_NEXT(child, sibling);
    return child;
}

/* In order of creation, with the nodes' own links: so it takes no memory. */
static void write_children(const struct node *top, bool recursive, int64_t now_ns, struct writer *w)
{
    const struct node *dir = top, *n = first_shown(top, TAILQ_FIRST(&top->children));
    bool first = true; /* of its directory */
    struct etcd_node shown;

    for (;;) {
        if (n == NULL) { /* the directory is through */
            if (!first)
                writer_u8(w, ']');
            if (dir == top)
                return;
            n = dir;
            dir = dir->parent;
            tree_node_view(n, now_ns, &shown);
        } else {
            writer_str(w, first ? ",\"nodes\":[" : ",");
            tree_node_view(n, now_ns, &shown);
            etcd_write_node_open(w, &shown);
            if (shown.dir && recursive) {
                dir = n;
                n = first_shown(dir, TAILQ_FIRST(&dir->children));
                first = true;
                continue;
            }
        }
        etcd_write_node_close(w, &shown);
        first = false;
        n = first_shown(dir, TAILQ_NEXT(n, sibling));
    }
}

static bool write_sorted(struct tree *t, const struct node *n, bool recursive, int64_t now_ns,
                         struct writer *w)
{
    struct tree_reader *r = tree_reader_open(t, n, recursive, true, now_ns);
    enum tree_read state = TREE_READ_MORE;

    while (r != NULL && state == TREE_READ_MORE) {
        int64_t work_ns = INT64_MAX;
        struct blob *piece;

        state = tree_reader_run(r, &work_ns, &piece);
        writer_slice(w, blob_slice(piece));
        blob_unref(piece);
    }
    tree_reader_close(r);
    return state == TREE_READ_DONE;
}

bool tree_write_get(struct tree *t, const struct node *n, bool recursive, bool sorted,
                    int64_t now_ns, struct writer *w)
{
    struct etcd_node shown;

    if (n->value == NULL && sorted)
        return write_sorted(t, n, recursive, now_ns, w);
    tree_node_view(n, now_ns, &shown);
    writer_str(w, "{\"action\":\"get\",\"node\":");
    etcd_write_node_open(w, &shown);
    if (shown.dir)
        write_children(n, recursive, now_ns, w);
    etcd_write_node_close(w, &shown);
    writer_str(w, "}\n");
    return true;
}
