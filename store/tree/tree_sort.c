/* Children by name. See tree_sort.h for the contract. */
#include "store/tree/tree_sort.h"

#define FIRST_CAP 64

/* Nanoseconds, about. */
#define COLLECT_COST 60
#define COMPARE_COST 60

void tree_sort_fini(struct tree_sort *s)
{
    account_free(ACCOUNT_ANSWERS, (void *)(uintptr_t)s->list, s->cap * sizeof *s->list);
    *s = (struct tree_sort){0};
}

static bool is_before(const struct node *a, const struct node *b)
{
    return slice_compare(a->by_path.key, b->by_path.key) < 0;
}

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

/* Puts the node into the place, or nearer to the first one. */
static void place_child(struct tree_sort *s, size_t place, const struct node *n, int64_t *work)
{
    while (place > 0 && is_before(n, s->list[(place - 1) / 2])) {
        s->list[place] = s->list[(place - 1) / 2];
        place = (place - 1) / 2;
        *work -= COMPARE_COST;
    }
    s->list[place] = n;
}

bool tree_sort_run(struct tree_sort *s, struct tree_snapshot *walk, int64_t *work)
{
    const struct node *n = NULL;

    while (*work > 0 && (n = tree_snapshot_next(walk, work)) != NULL) {
        *work -= COLLECT_COST;
        if (tree_is_hidden(n))
            continue;
        if (!sort_widen(s))
            return false;
        /* A list in order is a heap. */
        s->is_a_heap = s->is_a_heap || (s->count > 0 && is_before(n, s->list[s->count - 1]));
        if (s->is_a_heap)
            place_child(s, s->count, n, work);
        else
            s->list[s->count] = n;
        s->count++;
    }
    s->is_ready = *work > 0;
    return true;
}

/* The gap that the first one leaves goes down to the end, and the last one fills it: so there is
 * one comparison in each level. */
const struct node *tree_sort_next(struct tree_sort *s, int64_t *work)
{
    const struct node *first = s->at < s->count ? s->list[s->at] : NULL;
    size_t gap = 0, child;

    if (first == NULL || !s->is_a_heap) {
        s->at += first != NULL;
        return first;
    }
    s->count--;
    for (; (child = 2 * gap + 1) < s->count; gap = child) {
        child += child + 1 < s->count && is_before(s->list[child + 1], s->list[child]);
        s->list[gap] = s->list[child];
        *work -= COMPARE_COST;
    }
    place_child(s, gap, s->list[s->count], work);
    return first;
}
