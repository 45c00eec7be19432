/* What rewrite_edit.c and rewrite_value.c share: edits of bytes. */
#pragma once

#include "deploy/rewrite/rewrite_edit.h"

static inline bool edit_is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Replaces `len` bytes of the file by the text, which is copied. */
void edit_bytes(struct rewrite *w, struct rewrite_file *f, size_t at, size_t len, const char *text,
                size_t text_len);

size_t edit_line_start(const struct rewrite_file *f, size_t at);

/* True, with an error in the diag: other places share the value. */
bool edit_refuse_alias(struct rewrite *w, const struct yaml_node *n);
