/* The visible children of a directory by name, collected in slices, for a reader. Children that do
 * not come in order are kept in a heap: each costs some comparisons when it comes, and some when it
 * is taken, so no step takes longer than the others.
 */
#pragma once

#include "store/tree/tree_snapshot.h"

struct tree_sort {
    const struct node **list; /* a heap; of children that came in order, all in order */
    size_t count;
    size_t cap;
    size_t at;      /* of those in order: so many are taken */
    bool is_ready;  /* all are collected */
    bool is_a_heap; /* they came in another order */
};

void tree_sort_fini(struct tree_sort *s);

/* Collects for *work nanoseconds what the walk of the snapshot gives. False: memory is short. */
bool tree_sort_run(struct tree_sort *s, struct tree_snapshot *walk, int64_t *work);

/* The next node in order, when all are collected; NULL behind the last. */
const struct node *tree_sort_next(struct tree_sort *s, int64_t *work);
