/* A list of blocks that are filled from the front. A large allocation gets a block of its own. */
#include "deploy/yaml/arena.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct arena_block {
    struct arena_block *next;
    size_t used, size;
    _Alignas(max_align_t) unsigned char bytes[];
};

#define BLOCK_SIZE ((size_t)64 << 10)

void *arena_alloc(struct arena *a, size_t size)
{
    struct arena_block *b = a->blocks;
    void *p;

    if (size > SIZE_MAX / 2)
        abort();
    size = (size + _Alignof(max_align_t) - 1) & ~(_Alignof(max_align_t) - 1);
    if (b == NULL || b->size - b->used < size) {
        size_t room = size > BLOCK_SIZE / 4 ? size : BLOCK_SIZE;

        b = calloc(1, sizeof *b + room);
        if (b == NULL)
            abort();
        b->size = room;
        if (size > BLOCK_SIZE / 4 && a->blocks != NULL) {
            b->next = a->blocks->next; /* the block that still has room stays first */
            a->blocks->next = b;
        } else {
            b->next = a->blocks;
            a->blocks = b;
        }
    }
    p = b->bytes + b->used;
    b->used += size;
    return p;
}

/* Returns a larger copy of an array that is full. The old array stays where it is. */
static void *arena_grow(struct arena *a, const void *old, size_t old_size, size_t new_size)
{
    void *p = arena_alloc(a, new_size);

    if (old_size > 0)
        memcpy(p, old, old_size);
    return p;
}

void *arena_room(struct arena *a, void *list, size_t count, size_t *cap, size_t item_size)
{
    if (count < *cap)
        return list;
    *cap = *cap == 0 ? 4 : *cap * 2;
    return arena_grow(a, list, count * item_size, *cap * item_size);
}

char *arena_copy(struct arena *a, const char *text, size_t len)
{
    char *copy = arena_alloc(a, len + 1);

    if (len > 0)
        memcpy(copy, text, len);
    return copy;
}

char *arena_vtext(struct arena *a, const char *format, va_list args)
{
    va_list again;
    char *text;
    int len;

    va_copy(again, args);
    len = vsnprintf(NULL, 0, format, again);
    va_end(again);
    if (len < 0)
        abort();
    text = arena_alloc(a, (size_t)len + 1);
    vsnprintf(text, (size_t)len + 1, format, args);
    return text;
}

char *arena_text(struct arena *a, const char *format, ...)
{
    va_list args;
    char *text;

    va_start(args, format);
    text = arena_vtext(a, format, args);
    va_end(args);
    return text;
}

const char *arena_joined(struct arena *a, const char *left, const char *between, const char *right)
{
    return *left == '\0' ? right : arena_text(a, "%s%s%s", left, between, right);
}

void arena_free(struct arena *a)
{
    while (a->blocks != NULL) {
        struct arena_block *next = a->blocks->next;

        free(a->blocks);
        a->blocks = next;
    }
}

/* --- Texts. --- */

uint64_t text_hash(const char *text, size_t len)
{
    uint64_t h = 14695981039346656037u;

    for (size_t i = 0; i < len; i++)
        h = (h ^ (unsigned char)text[i]) * 1099511628211u;
    return h ^ h >> 32;
}

bool text_is_one_of(const char *text, const char *const *words)
{
    return ANY(for (; *words != NULL; words++), strcmp(text, *words) == 0);
}

bool text_begins_with_one_of(const char *text, const char *const *words)
{
    return ANY(for (; *words != NULL; words++), strncmp(text, *words, strlen(*words)) == 0);
}

bool text_has_one_of(const char *text, const char *const *words)
{
    return ANY(for (; *words != NULL; words++), strstr(text, *words) != NULL);
}

bool text_ends_with(const char *text, const char *end)
{
    size_t len = strlen(text), end_len = strlen(end);

    return len >= end_len && strcmp(text + len - end_len, end) == 0;
}

char *text_lower(struct arena *a, const char *text)
{
    char *copy = arena_copy(a, text, strlen(text));

    for (char *c = copy; *c != '\0'; c++)
        *c = (char)(*c >= 'A' && *c <= 'Z' ? *c + 'a' - 'A' : *c);
    return copy;
}

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

void buf_put(struct buf *b, const char *text)
{
    buf_add(b, text, strlen(text));
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
