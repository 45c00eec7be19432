/* Children by name. See tree_sort.h for the contract. */
#include "store/tree/tree_sort.h"

#include <stdlib.h>

#define FIRST_CAP 64
#define PIECE     512

/* Nanoseconds, about. */
#define COLLECT_COST 60
#define COMPARE_COST 60
#define PIECE_COST   (PIECE * 9 * COMPARE_COST)

void tree_sort_fini(struct tree_sort *s)
{
    account_free(ACCOUNT_ANSWERS, (void *)(uintptr_t)s->list, s->cap * sizeof *s->list);
    account_free(ACCOUNT_ANSWERS, s->pieces, s->piece_cap * sizeof *s->pieces);
    *s = (struct tree_sort){0};
}

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

bool tree_sort_run(struct tree_sort *s, struct tree_snapshot *walk, int64_t *work)
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

const struct node *tree_sort_next(struct tree_sort *s, int64_t *work)
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
