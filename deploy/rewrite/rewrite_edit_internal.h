/* What rewrite_edit.c and rewrite_value.c share: edits in terms of bytes. */
#pragma once

#include "deploy/rewrite/rewrite_edit.h"

static inline bool edit_is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* The text in the place of `len` bytes of the file; copied. */
void edit_bytes(struct rewrite *w, struct rewrite_file *f, size_t at, size_t len, const char *text,
                size_t text_len);

size_t edit_line_start(const struct rewrite_file *f, size_t at);

/* True, and an error: the value stands for others too. */
bool edit_refuse_alias(struct rewrite *w, const struct yaml_node *n);
