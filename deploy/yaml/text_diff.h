/* A unified diff of a text and its edited self, as `diff -u` prints it and `patch` reads it. */
#pragma once

#include "deploy/yaml/text_edit.h"

#include <stdio.h>

/* Prints nothing when nothing differs. The regions of the result say where to look: what lies
 * between them is equal. */
void text_diff_print(FILE *out, const char *old_name, const char *new_name, const char *old_bytes,
                     size_t old_len, const struct text_result *result);
