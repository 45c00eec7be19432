/* The visible children of a directory by name, collected in slices, for a reader. They are sorted
 * in pieces while they come, and a heap of the pieces gives the next one. A heap of all children
 * would need less code, and three times the time: of a million names, each comparison reads two
 * that are in no cache.
 */
#pragma once

#include "store/tree/tree_snapshot.h"

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

void tree_sort_fini(struct tree_sort *s);

/* Collects for *work nanoseconds what the walk of the snapshot gives. False: memory is short. */
bool tree_sort_run(struct tree_sort *s, struct tree_snapshot *walk, int64_t *work);

/* The next node in order, when all are collected; NULL behind the last. */
const struct node *tree_sort_next(struct tree_sort *s, int64_t *work);
