/* Memory that is given back all at once: a verb reads, builds and prints, and then is done. Nothing
 * that lies here is freed alone, so trees may share parts. Running out of memory aborts. */
#pragma once

#include <stdarg.h>
#include <stddef.h>

struct arena_block;

struct arena {
    struct arena_block *blocks; /* the newest first */
};

/* Zeroed, and aligned for anything. */
void *arena_alloc(struct arena *a, size_t size);

/* A larger copy of an array for which there is no room any more; the old one stays where it is. */
void *arena_grow(struct arena *a, const void *old, size_t old_size, size_t new_size);

/* A copy of len bytes with a NUL behind them. */
char *arena_copy(struct arena *a, const char *text, size_t len);
char *arena_text(struct arena *a, const char *format, ...) __attribute__((format(printf, 2, 3)));
char *arena_vtext(struct arena *a, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));

void arena_free(struct arena *a);
