/* A unified diff of a text and its edited self, as `diff -u` prints it and `patch` reads it. */
#pragma once

#include "deploy/yaml/text_edit.h"

#include <stdio.h>

/* Prints nothing if the texts are equal. The texts differ only within the regions of the result. */
void text_diff_print(FILE *out, const char *old_name, const char *new_name, const char *old_bytes,
                     size_t old_len, const struct text_result *result);
