/* Changes to bytes that leave all others as they are: a list of replacements, applied at once. */
#pragma once

#include "deploy/yaml/arena.h"

#include <stdbool.h>
#include <stddef.h>

struct text_edit {
    size_t at, len; /* the bytes of the old text that go; len 0 inserts in front of `at` */
    const char *text;
    size_t text_len;
    size_t order; /* insertions at one place stand in the order in which they were added */
};

struct text_edits {
    struct text_edit *list;
    size_t count, cap;
};

/* Where an edit has been, in the old and in the new text. */
struct text_region {
    size_t old_start, old_end;
    size_t new_start, new_end;
};

struct text_result {
    char *bytes; /* a NUL behind them */
    size_t len;
    struct text_region *regions; /* in order, apart from one another */
    size_t count;
};

/* The text is copied. A replacement that is already in the list is not added again. */
void text_edits_add(struct text_edits *e, struct arena *a, size_t at, size_t len, const char *text,
                    size_t text_len);

/* False, and *where is the place, when two edits want the same bytes; else *out lies in the arena.
 * Sorts the list. */
bool text_edits_apply(struct text_edits *e, struct arena *a, const char *bytes, size_t len,
                      struct text_result *out, size_t *where);
