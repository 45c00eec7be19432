/* A keymap of a test's own, commands on it from the check to the end, and the least that its tests
 * say all the time. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "store/keymap/keymap.h"

/* A keymap and what it shares with others. */
struct fixture {
    struct ready_list ready;
    struct reserve reserve;
    struct quota quota;
    struct keymap m;
};

static inline void fixture_init(struct fixture *w, size_t bytes_max)
{
    ready_list_init(&w->ready);
    reserve_init(&w->reserve);
    w->quota = (struct quota){.max = bytes_max};
    keymap_init(&w->m, ACCOUNT_KEYS, &w->ready, &w->reserve, 7, &w->quota);
}

/* Clears the keymap, and checks that all of its counts are 0. */
static inline void fixture_fini(struct fixture *w)
{
    assert_int_equal(w->m.waiters, 0);
    keymap_clear(&w->m);
    assert_int_equal(w->m.bytes, 0);
    assert_int_equal(w->m.waiting_bytes, 0);
    assert_int_equal(w->quota.kept + w->quota.waiting, 0);
    assert_int_equal(w->m.present, 0);
    assert_int_equal(w->m.keys.count, 0);
    assert_int_equal(w->m.awaited.count, 0);
    assert_int_equal(w->m.queues.count, 0);
    assert_true(TAILQ_EMPTY(&w->ready));
    keymap_fini(&w->m);
    reserve_fini(&w->reserve);
}

/* --- Commands. --- */

static inline enum store_status execute(struct keymap *m, const struct command *c,
                                        struct store_result *out)
{
    enum store_status status;
    struct change change;

    *out = (struct store_result){0};
    status = keymap_check(m, c, &change, out);
    if (status != STORE_OK)
        return status;
    assert_true(keymap_can_apply(m, &change));
    assert_true(reserve_hold(m->reserve, keymap_memory(m, &change)));
    keymap_apply(m, &change, out);
    reserve_settle(m->reserve);
    return STORE_OK;
}

static inline enum store_status keymap_set(struct keymap *m, struct slice key, struct slice value)
{
    const struct command c = {.kind = COMMAND_KEY_SET, .key = key, .value = value};
    struct store_result r;

    return execute(m, &c, &r);
}

static inline enum store_status keymap_append(struct keymap *m, struct slice key, struct slice more)
{
    const struct command c = {.kind = COMMAND_KEY_APPEND, .key = key, .value = more};
    struct store_result r;

    return execute(m, &c, &r);
}

static inline enum store_status keymap_add(struct keymap *m, struct slice key, int64_t delta,
                                           int64_t *sum)
{
    const struct command c = {.kind = COMMAND_KEY_ADD, .key = key, .number = delta};
    struct store_result r;
    enum store_status status = execute(m, &c, &r);

    *sum = status == STORE_OK ? r.number : *sum;
    return status;
}

static inline enum store_status keymap_compare_set(struct keymap *m, struct slice key,
                                                   struct slice expected, struct slice desired,
                                                   struct blob **current)
{
    const struct command c = {
        .kind = COMMAND_KEY_COMPARE_SET, .key = key, .expected = expected, .value = desired};
    struct store_result r;
    enum store_status status = execute(m, &c, &r);

    *current = status == STORE_MISMATCH ? r.value : *current;
    return status;
}

static inline enum store_status keymap_delete(struct keymap *m, struct slice key)
{
    const struct command c = {.kind = COMMAND_KEY_DELETE, .key = key};
    struct store_result r;

    return execute(m, &c, &r);
}

static inline enum store_status keymap_multi_set(struct keymap *m, struct slice pairs)
{
    const struct command c = {.kind = COMMAND_KEY_MULTI_SET, .items = pairs};
    struct store_result r;

    return execute(m, &c, &r);
}

static inline enum store_status keymap_queue_push(struct keymap *m, struct slice name,
                                                  struct slice value)
{
    const struct command c = {.kind = COMMAND_QUEUE_PUSH, .key = name, .value = value};
    struct store_result r;

    return execute(m, &c, &r);
}

static inline enum store_status keymap_queue_pop(struct keymap *m, struct slice name,
                                                 struct blob **out, uint64_t *len)
{
    const struct command c = {.kind = COMMAND_QUEUE_POP, .key = name};
    struct store_result r;
    enum store_status status = execute(m, &c, &r);

    if (status != STORE_OK)
        return status;
    *out = r.value;
    *len = r.count;
    return STORE_OK;
}

static inline enum store_status keymap_barrier(struct keymap *m, struct slice key, int64_t world,
                                               bool *open)
{
    const struct command c = {.kind = COMMAND_BARRIER, .key = key, .number = world};
    struct store_result r;
    enum store_status status = execute(m, &c, &r);

    *open = status == STORE_OK ? r.open : *open;
    return status;
}

/* --- What tests say. --- */

static inline struct slice s(const char *text)
{
    return slice_str(text);
}

static inline void set(struct fixture *w, const char *key, const char *value)
{
    assert_int_equal(keymap_set(&w->m, s(key), s(value)), STORE_OK);
}

static inline void check_value(const struct fixture *w, const char *key, const char *value)
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
