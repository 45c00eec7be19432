/* A list of replacements of byte ranges, applied at once; all other bytes stay unchanged.
 * And unified diffs, as `diff -u` prints them and `patch` reads them. */
#pragma once

#include "deploy/yaml/arena.h"

#include <stdio.h>

struct text_edit {
    size_t at, len; /* the bytes of the old text to remove; len 0 inserts before `at` */
    const char *text;
    size_t order; /* insertions at one place keep their order */
};

struct text_edits {
    struct text_edit *list;
    size_t count, cap;
};

/* The text is copied. An edit that is in the list already is not made twice. */
void text_edits_add(struct text_edits *e, struct arena *a, size_t at, size_t len, const char *text);

/* Applies the edits, sorting the list and dropping repetitions; *out lies in the arena. False: two
 * edits change the same bytes, at *where. */
bool text_edits_apply(struct text_edits *e, struct arena *a, const char *bytes, size_t len,
                      struct buf *out, size_t *where);

/* Prints how two texts differ, which both have the name; false if they do not. */
bool text_diff_print(FILE *out, const char *name, const char *old_bytes, size_t old_len,
                     const char *new_bytes, size_t new_len);
