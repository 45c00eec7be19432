/* A text that grows, in an arena. */
#pragma once

#include "deploy/yaml/arena.h"

struct buf {
    struct arena *arena;
    char *text; /* NULL while it is empty; else it ends with a NUL */
    size_t len, cap;
};

void buf_add(struct buf *b, const char *text, size_t len);
void buf_print(struct buf *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
void buf_spaces(struct buf *b, size_t n);
