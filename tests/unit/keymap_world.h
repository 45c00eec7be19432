/* A c10d world of a test's own, and the least that its tests say all the time. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "store/keymap.h"

/* One world and its ready list. */
struct world {
    struct ready_list ready;
    struct keymap m;
};

static inline void world_init(struct world *w, size_t bytes_max)
{
    TAILQ_INIT(&w->ready);
    keymap_init(&w->m, &w->ready, 7, bytes_max);
}

/* Everything is gone, and nothing is counted any more. */
static inline void world_fini(struct world *w)
{
    assert_int_equal(w->m.waiters, 0);
    keymap_clear(&w->m);
    assert_int_equal(w->m.bytes, 0);
    assert_int_equal(w->m.present, 0);
    assert_int_equal(w->m.keys.count, 0);
    assert_int_equal(w->m.queues.count, 0);
    assert_true(TAILQ_EMPTY(&w->ready));
    keymap_fini(&w->m);
}

static inline struct slice s(const char *text)
{
    return slice_str(text);
}

static inline void set(struct world *w, const char *key, const char *value)
{
    assert_int_equal(keymap_set(&w->m, s(key), s(value)), STORE_OK);
}

static inline void check_value(const struct world *w, const char *key, const char *value)
{
    struct blob *b = keymap_get(&w->m, s(key));

    if (value == NULL) {
        assert_null(b);
        return;
    }
    assert_non_null(b);
    if (!slice_is(blob_slice(b), value))
        print_error("%s is %.*s, expected %s\n", key, (int)b->len, (const char *)b->bytes, value);
    assert_true(slice_is(blob_slice(b), value));
}

/* A list as it stands on the wire; names are separated by blanks. */
static inline struct slice list_of(const char *names, uint64_t *count, uint8_t *buf, size_t cap)
{
    struct writer w = {.ptr = buf, .cap = cap};
    const char *at = names;

    *count = 0;
    while (*at != '\0') {
        size_t len = strcspn(at, " ");
        uint8_t header[8];

        bytes_put_u64(header, len);
        writer_put(&w, header, 8);
        writer_put(&w, at, len);
        (*count)++;
        at += len + strspn(at + len, " ");
    }
    assert_true(w.len <= cap);
    return (struct slice){buf, w.len};
}
