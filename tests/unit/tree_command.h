/* Commands on a tree of a test's own, and the events, nodes and errors that they answer with. */
#pragma once

#include "store/tree/tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "tests/unit/exact.h"
#include "tests/unit/tree_fixture.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

#define SECOND INT64_C(1000000000)
#define NOW    (INT64_C(1800000000) * SECOND) /* some moment of 2027 */

struct fixture {
    struct ready_list ready;
    struct reserve reserve;
    struct quota quota;
    struct tree t;
    size_t bytes; /* of the empty tree */
};

static inline void fixture_init(struct fixture *w, size_t bytes_max)
{
    ready_list_init(&w->ready);
    reserve_init(&w->reserve);
    w->quota = (struct quota){.max = bytes_max};
    tree_init(&w->t, &w->ready, &w->reserve, 7, &w->quota);
    w->bytes = w->t.bytes;
}

/* Clears the tree, and checks that all of its counts are back at their start. */
static inline void fixture_fini(struct fixture *w)
{
    tree_clear(&w->t, NOW);
    assert_int_equal(w->t.bytes, w->bytes);
    assert_int_equal(w->t.count, 1);
    if (w->t.lazy_free == NULL)
        assert_int_equal(w->t.expiry.count, 0);
    assert_int_equal(w->t.hub.registered, 0);
    tree_fini(&w->t);
    reserve_fini(&w->reserve);
}

typedef enum command_kind operation;

/* Carries out a change on exact copies of its bytes, so that nobody keeps or over-reads them. */
static inline struct tree_result change(struct fixture *w, operation op, const char *path,
                                        const char *value, struct command c)
{
    struct slice p = exact(path, strlen(path)), v = exact(value, strlen(value));
    uint64_t before = w->t.index;
    struct tree_result r;

    c.key = p;
    c.value = v;
    if (c.now_ns == 0)
        c.now_ns = NOW;
    c.kind = op;
    tree_execute(&w->t, &c, &r);
    assert_int_equal(w->t.index, before + (r.code == ETCD_OK));
    if (r.code == ETCD_OK) {
        assert_non_null(r.event);
        assert_int_equal(r.event->node.modified, w->t.index);
    } else {
        static char cause[4096];

        assert_in_range(r.path.len, 0, sizeof cause);
        if (r.path.len != 0)
            memcpy(cause, r.path.ptr, r.path.len);
        r.path.ptr = (const uint8_t *)cause; /* outlives the copies */
    }
    exact_free(p);
    exact_free(v);
    return r;
}

#define NONE      ((struct command){0})
#define WITH(...) ((struct command){__VA_ARGS__})

static inline void must(struct fixture *w, operation op, const char *path, const char *value,
                        struct command c)
{
    struct tree_result r = change(w, op, path, value, c);

    if (r.code != ETCD_OK)
        print_error("%s: %d %.*s\n", path, (int)r.code, (int)r.path.len, (const char *)r.path.ptr);
    assert_int_equal(r.code, ETCD_OK);
}

/* Refused, with this cause. */
static inline void must_not(struct fixture *w, operation op, const char *path, const char *value,
                            struct command c, enum etcd_code code, const char *cause)
{
    size_t bytes = w->t.bytes, nodes = w->t.count;
    struct tree_result r = change(w, op, path, value, c);

    assert_int_equal(r.code, code);
    if (!slice_is(r.path, cause))
        print_error("cause %.*s, expected %s\n", (int)r.path.len, (const char *)r.path.ptr, cause);
    assert_true(slice_is(r.path, cause));
    assert_int_equal(w->t.bytes, bytes);
    assert_int_equal(w->t.count, nodes);
}

static inline void expect_event(const struct tree_result *r, const char *json)
{
    struct blob *b = tree_event_chunk(r->event);
    struct slice s;

    assert_non_null(b);
    s = tree_chunk_json(b);
    if (!slice_is(s, json))
        print_error("%.*sexpected\n%s", (int)s.len, (const char *)s.ptr, json);
    assert_true(slice_is(s, json));
}

static inline void expect_get(struct fixture *w, const char *path, bool recursive, bool sorted,
                              int64_t now_ns, const char *json)
{
    const struct node *n;
    struct slice where, p = exact(path, strlen(path));
    struct writer count = {0}, out;

    assert_int_equal(tree_get(&w->t, p, &n, &where), ETCD_OK);
    exact_free(p);
    assert_true(tree_write_get(&w->t, n, recursive, sorted, now_ns, &count));
    out = (struct writer){.ptr = malloc(count.len), .cap = count.len};
    assert_non_null(out.ptr);
    assert_true(tree_write_get(&w->t, n, recursive, sorted, now_ns, &out));
    if (out.len != strlen(json) || memcmp(out.ptr, json, out.len) != 0)
        print_error("%.*sexpected\n%s", (int)out.len, (const char *)out.ptr, json);
    assert_int_equal(out.len, strlen(json));
    assert_memory_equal(out.ptr, json, out.len);
    free(out.ptr);
}

static inline void expect_missing(struct fixture *w, const char *path, enum etcd_code code,
                                  const char *cause)
{
    const struct node *n;
    struct slice where = {0}, p = exact(path, strlen(path));

    assert_int_equal(tree_get(&w->t, p, &n, &where), code);
    assert_null(n);
    assert_true(slice_is(where, cause));
    exact_free(p);
}
