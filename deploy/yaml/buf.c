/* Appends to a text, which doubles when it is full. */
#include "deploy/yaml/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void buf_add(struct buf *b, const char *text, size_t len)
{
    if (b->len + len + 1 > b->cap) {
        size_t cap = b->cap == 0 ? 256 : b->cap * 2;

        while (cap < b->len + len + 1)
            cap *= 2;
        b->text = arena_grow(b->arena, b->text, b->len, cap);
        b->cap = cap;
    }
    memcpy(b->text + b->len, text, len);
    b->len += len;
    b->text[b->len] = '\0';
}

void buf_print(struct buf *b, const char *format, ...)
{
    va_list args;
    char *text;

    va_start(args, format);
    text = arena_vtext(b->arena, format, args);
    va_end(args);
    buf_add(b, text, strlen(text));
}

void buf_spaces(struct buf *b, size_t n)
{
    while (n-- > 0)
        buf_add(b, " ", 1);
}
