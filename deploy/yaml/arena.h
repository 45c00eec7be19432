/* An arena: memory that a verb frees all at once at its end, and growing texts inside. Single
 * blocks are never freed, so trees may share nodes. If memory runs out, the program aborts. */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/queue.h"

struct arena_block;

struct arena {
    struct arena_block *blocks; /* the newest first */
};

/* The memory is zeroed, and aligned for any type. */
void *arena_alloc(struct arena *a, size_t size);

/* The list with room for one more item: itself, or a larger copy. *cap is how many it has room
 * for. */
void *arena_room(struct arena *a, void *list, size_t count, size_t *cap, size_t item_size);

/* The next item of such a list, to be assigned: arena_push(a, l->list, l->count, l->cap) = item. */
#define arena_push(a, list, count, cap) \
    (*((list) = arena_room(a, list, count, &(cap), sizeof *(list)), &(list)[(count)++]))

/* A copy of len bytes, with a NUL after them. */
char *arena_copy(struct arena *a, const char *text, size_t len);

/* A formatted text in the arena; `args` is used up. */
char *arena_text(struct arena *a, const char *format, ...) __attribute__((format(printf, 2, 3)));
char *arena_vtext(struct arena *a, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));

/* Both texts, with `between` between them; if the left one is empty, the right one alone. */
const char *arena_joined(struct arena *a, const char *left, const char *between, const char *right);

void arena_free(struct arena *a);

/* FNV-1a. */
uint64_t text_hash(const char *text, size_t len);

/* A list of words with the NULL at its end, and a loop over words. */
#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define FOREACH_WORD(word, ...)                                                                 \
    for (const char *const *word##_at = WORDS(__VA_ARGS__), *word; (word = *word##_at) != NULL; \
         word##_at++)

/* Whether the text is one of the words, which end with NULL. */
bool text_is_one_of(const char *text, const char *const *words);
/* The same for its beginning, and for a part of it. */
bool text_begins_with_one_of(const char *text, const char *const *words);
bool text_has_one_of(const char *text, const char *const *words);
/* The same for words that are written here: text_is(text, "command", "args"). */
#define text_is(text, ...)     text_is_one_of(text, WORDS(__VA_ARGS__))
#define text_begins(text, ...) text_begins_with_one_of(text, WORDS(__VA_ARGS__))
#define text_has(text, ...)    text_has_one_of(text, WORDS(__VA_ARGS__))
bool text_ends_with(const char *text, const char *end);
/* A copy with small letters of ASCII. */
char *text_lower(struct arena *a, const char *text);

/* A text that grows. */
struct buf {
    struct arena *arena;
    char *text; /* NULL while it is empty; else it ends with a NUL */
    size_t len, cap;
};

void buf_add(struct buf *b, const char *text, size_t len);
void buf_put(struct buf *b, const char *text);
void buf_print(struct buf *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
