/* The visible children of a directory by name, collected and sorted in slices, for a reader.
 */
#pragma once

#include "store/tree/tree_snapshot.h"

enum tree_sort_step {
    TREE_SORT_COLLECTS,
    TREE_SORT_RUNS,   /* sorts pieces of the list */
    TREE_SORT_MERGES, /* pairs of pieces, from `list` to `other` */
    TREE_SORT_READY,
};

struct tree_sort {
    const struct node **list;
    const struct node **other;
    size_t count;
    size_t cap;
    size_t width;                     /* of the pieces that are sorted */
    size_t start, left, right, write; /* the two pieces being merged, and the positions in them */
    size_t at;                        /* what tree_sort_next() gives next */
    enum tree_sort_step step;
    bool in_order; /* they came so */
};

void tree_sort_init(struct tree_sort *s);
void tree_sort_fini(struct tree_sort *s);

/* Sorts for *work nanoseconds what the walk of the snapshot gives. False: memory is short. */
bool tree_sort_run(struct tree_sort *s, struct tree_snapshot *walk, int64_t *work);

static inline bool tree_sort_is_ready(const struct tree_sort *s)
{
    return s->step == TREE_SORT_READY;
}

/* The next node in order, when tree_sort_run() is done; NULL behind the last. */
static inline const struct node *tree_sort_next(struct tree_sort *s)
{
    return s->at == s->count ? NULL : s->list[s->at++];
}
