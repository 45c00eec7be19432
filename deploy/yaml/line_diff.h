/* Where two texts differ, line by line. */
#pragma once

#include "deploy/yaml/text_edit.h"

/* The regions that make `next` of `old`, as text_edits_apply() would have them, for
 * text_diff_print(). Texts of many thousand lines that have little in common make one large region.
 */
struct text_result line_diff(struct arena *a, const char *old, size_t old_len, char *next,
                             size_t next_len);
