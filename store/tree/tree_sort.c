/* Children by name. See tree_sort.h for the contract. */
#include "store/tree/tree_sort.h"

#include <stdlib.h>

#define FIRST_CAP 64
#define RUN       256

/* Nanoseconds, about. */
#define COLLECT_COST 60
#define COMPARE_COST 60
#define RUN_COST     (RUN * 8 * COMPARE_COST / 2)

void tree_sort_init(struct tree_sort *s)
{
    *s = (struct tree_sort){.in_order = true};
}

static void free_list(const struct node **list, size_t cap)
{
    account_free(ACCOUNT_ANSWERS, (void *)(uintptr_t)list, cap * sizeof(struct node *));
}

void tree_sort_fini(struct tree_sort *s)
{
    free_list(s->list, s->cap);
    free_list(s->other, s->cap);
    tree_sort_init(s);
}

static int compare_names(const struct node *a, const struct node *b)
{
    return slice_compare(a->by_path.key, b->by_path.key);
}

static int sort_by_key(const void *a, const void *b)
{
    return compare_names(*(const struct node *const *)a, *(const struct node *const *)b);
}

/* --- Collecting. --- */

static bool sort_widen(struct tree_sort *s)
{
    size_t cap = s->cap == 0 ? FIRST_CAP : 2 * s->cap;
    const struct node **wider;

    if (s->count < s->cap)
        return true;
    wider = account_resize(ACCOUNT_ANSWERS, account_class_of(cap * sizeof *wider),
                           (void *)(uintptr_t)s->list, s->cap * sizeof *wider, cap * sizeof *wider);
    if (wider == NULL)
        return false;
    s->list = wider;
    s->cap = cap;
    return true;
}

static bool collect_children(struct tree_sort *s, struct tree_snapshot *walk, int64_t *work)
{
    const struct node *n = NULL;

    while (*work > 0 && (n = tree_snapshot_next(walk, work)) != NULL) {
        *work -= COLLECT_COST;
        if (tree_is_hidden(n))
            continue;
        if (!sort_widen(s))
            return false;
        if (s->count > 0 && compare_names(s->list[s->count - 1], n) > 0)
            s->in_order = false;
        s->list[s->count++] = n;
    }
    if (*work > 0)
        s->step = s->in_order ? TREE_SORT_READY : TREE_SORT_RUNS;
    return true;
}

/* --- Sorting. --- */

static size_t smaller_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* The pair of pieces that begins at `start`. */
static void begin_pair(struct tree_sort *s, size_t start)
{
    s->start = s->left = s->write = start;
    s->right = smaller_size(start + s->width, s->count);
}

/* False: memory is short. */
static bool begin_merging(struct tree_sort *s)
{
    s->width = RUN;
    if (s->count <= RUN) {
        s->step = TREE_SORT_READY;
        return true;
    }
    s->other = account_request(ACCOUNT_ANSWERS, ACCOUNT_ORDINARY, s->cap * sizeof(struct node *));
    s->step = TREE_SORT_MERGES;
    begin_pair(s, 0);
    return s->other != NULL;
}

static bool sort_run(struct tree_sort *s, int64_t *work)
{
    size_t len = smaller_size(RUN, s->count - s->start);

    qsort((void *)(uintptr_t)(s->list + s->start), len, sizeof(struct node *), sort_by_key);
    s->start += len;
    *work -= RUN_COST;
    return s->start < s->count || begin_merging(s);
}

/* All pairs are merged: the pieces are twice as long. */
static void end_pass(struct tree_sort *s)
{
    const struct node **merged = s->other;

    s->other = s->list;
    s->list = merged;
    s->width *= 2;
    if (s->width >= s->count)
        s->step = TREE_SORT_READY;
    begin_pair(s, 0);
}

static void merge_pair(struct tree_sort *s, int64_t *work)
{
    size_t middle = smaller_size(s->start + s->width, s->count);
    size_t end = smaller_size(s->start + 2 * s->width, s->count);

    while (s->write<end && * work> 0) {
        bool left = s->right == end ||
                    (s->left < middle && compare_names(s->list[s->left], s->list[s->right]) <= 0);

        s->other[s->write++] = s->list[left ? s->left++ : s->right++];
        *work -= COMPARE_COST;
    }
    if (s->write < end)
        return;
    if (end < s->count)
        begin_pair(s, end);
    else
        end_pass(s);
}

bool tree_sort_run(struct tree_sort *s, struct tree_snapshot *walk, int64_t *work)
{
    bool ok = true;

    while (ok && *work > 0 && s->step != TREE_SORT_READY) {
        if (s->step == TREE_SORT_COLLECTS)
            ok = collect_children(s, walk, work);
        else if (s->step == TREE_SORT_RUNS)
            ok = sort_run(s, work);
        else
            merge_pair(s, work);
    }
    return ok;
}
