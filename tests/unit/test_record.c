/* Commands as bytes and back: every kind and field, and bytes that are no command, which are
 * refused or change a store as a command would. */
#include "store/record.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "store/store.h"
#include "tests/unit/exact.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

#define BYTES(s)                            \
    {                                       \
        (const uint8_t *)(s), sizeof(s) - 1 \
    }

static const struct slice some_names[] = {BYTES("one"), BYTES(""), BYTES("\0three\xff")};

/* Two pairs: "/a" and "1", "" and "". */
#define PAIRS "\2\0\0\0\0\0\0\0/a\1\0\0\0\0\0\0\0001\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"

static const struct command commands[] = {
    {.kind = COMMAND_KEY_SET, .key = BYTES("/k\0\xff"), .value = BYTES("a value\0with a NUL")},
    {.kind = COMMAND_KEY_SET},
    {.kind = COMMAND_KEY_ADD, .key = BYTES("/n"), .number = INT64_MIN},
    {.kind = COMMAND_KEY_ADD, .key = BYTES("/n"), .number = INT64_MAX},
    {.kind = COMMAND_KEY_ADD, .key = BYTES("/n"), .number = -1},
    {.kind = COMMAND_KEY_COMPARE_SET,
     .key = BYTES("/k"),
     .expected = BYTES("old"),
     .value = BYTES("new")},
    {.kind = COMMAND_KEY_APPEND, .key = BYTES("/k"), .value = BYTES("more")},
    {.kind = COMMAND_KEY_DELETE, .key = BYTES("/k")},
    {.kind = COMMAND_KEY_MULTI_SET, .items = BYTES(PAIRS)},
    {.kind = COMMAND_KEY_MULTI_SET},
    {.kind = COMMAND_QUEUE_PUSH, .key = BYTES("/q"), .value = BYTES("")},
    {.kind = COMMAND_QUEUE_POP, .key = BYTES("/q")},
    {.kind = COMMAND_BARRIER, .key = BYTES("/b"), .number = 64},
    {.kind = COMMAND_TREE_SET,
     .key = BYTES("/a/b"),
     .value = BYTES("v"),
     .expires_ns = INT64_MAX,
     .now_ns = INT64_C(1800000000000000000)},
    {.kind = COMMAND_TREE_SET, .key = BYTES("/d"), .dir = true, .now_ns = -1},
    {.kind = COMMAND_TREE_SET, .key = BYTES("/a"), .refresh = true, .expires_ns = INT64_MIN},
    {.kind = COMMAND_TREE_CREATE, .key = BYTES("/"), .value = BYTES("v"), .now_ns = 1},
    {.kind = COMMAND_TREE_CREATE_IN_ORDER, .key = BYTES("/q"), .value = BYTES("v"), .now_ns = 1},
    {.kind = COMMAND_TREE_UPDATE, .key = BYTES("/a"), .value = BYTES("w"), .now_ns = 1},
    {.kind = COMMAND_TREE_COMPARE_AND_SWAP,
     .key = BYTES("/a"),
     .value = BYTES("x"),
     .expected = BYTES("w"),
     .prev_index = UINT64_MAX,
     .now_ns = 1},
    {.kind = COMMAND_TREE_DELETE, .key = BYTES("/a"), .recursive = true, .now_ns = 1},
    {.kind = COMMAND_TREE_COMPARE_AND_DELETE, .key = BYTES("/a"), .prev_index = 1, .now_ns = 1},
    {.kind = COMMAND_TREE_EXPIRE, .now_ns = INT64_C(1900000000000000000)},
    {.kind = COMMAND_AUTH_USER_PUT,
     .key = BYTES("user"),
     .value = BYTES("hash"),
     .names = {some_names, 3, false}},
    {.kind = COMMAND_AUTH_USER_PUT, .key = BYTES("root"), .names = {NULL, 0, true}},
    {.kind = COMMAND_AUTH_USER_DELETE, .key = BYTES("user")},
    {.kind = COMMAND_AUTH_ROLE_PUT,
     .key = BYTES("role"),
     .names = {some_names, 1, false},
     .writes = {some_names, 3, false}},
    {.kind = COMMAND_AUTH_ROLE_PUT, .key = BYTES("role"), .writes = {NULL, 0, true}},
    {.kind = COMMAND_AUTH_ROLE_DELETE, .key = BYTES("role")},
    {.kind = COMMAND_AUTH_ENABLE},
    {.kind = COMMAND_AUTH_DISABLE},
    {.kind = COMMAND_AUTH_TOUCH},
    {.kind = COMMAND_SPACE_RESET, .now_ns = 1},
    {.kind = COMMAND_SPACE_FORGET},
    {.kind = COMMAND_KEY_SET, .key = BYTES("/k"), .value = BYTES("v"), .world = UINT64_MAX},
    {.kind = COMMAND_RUN_WORLD, .key = BYTES("torch.rendezvous.R")},
    {.kind = COMMAND_RUN_OFFER, .key = BYTES("torch.rendezvous.R/0")},
    {.kind = COMMAND_RUN_WORKERS,
     .key = BYTES("torch.rendezvous.R"),
     .value = BYTES("127.0.0.1"),
     .expected = BYTES("29400"),
     .number = 1},
    {.kind = COMMAND_RUN_FORGET, .key = BYTES("torch.rendezvous.R")},
    {.kind = COMMAND_WORLD_FORGET, .world = 1},
};

static void expect_list(const struct command_list *a, const struct command_list *b)
{
    assert_int_equal(a->count, b->count);
    assert_int_equal(a->absent, b->absent);
    for (size_t i = 0; i < a->count; i++)
        assert_true(slice_equal(a->items[i], b->items[i]));
}

static void expect_same(const struct command *a, const struct command *b)
{
    assert_int_equal(a->kind, b->kind);
    assert_true(slice_equal(a->key, b->key));
    assert_true(slice_equal(a->value, b->value));
    assert_true(slice_equal(a->expected, b->expected));
    assert_true(slice_equal(a->items, b->items));
    assert_true(a->number == b->number);
    assert_true(a->world == b->world);
    assert_true(a->prev_index == b->prev_index);
    assert_true(a->expires_ns == b->expires_ns);
    assert_true(a->now_ns == b->now_ns);
    assert_int_equal(a->dir, b->dir);
    assert_int_equal(a->recursive, b->recursive);
    assert_int_equal(a->refresh, b->refresh);
    expect_list(&a->names, &b->names);
    expect_list(&a->writes, &b->writes);
}

static struct slice encode(const char *space, const struct command *c)
{
    uint8_t *bytes;
    size_t len;

    assert_true(record_encode(space, c, &bytes, &len));
    return (struct slice){bytes, len};
}

static void every_kind_comes_back_as_it_was(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(commands); i++) {
        struct slice bytes = encode("a space", &commands[i]);
        struct slice copy = exact(bytes.ptr, bytes.len);
        struct record r;

        print_message("  command %zu, kind %d\n", i, (int)commands[i].kind);
        exact_free(bytes);
        assert_true(record_decode(copy, &r));
        exact_free(copy); /* what is decoded has its own memory */
        assert_true(slice_is(r.space, "a space"));
        expect_same(&r.command, &commands[i]);
        record_free(&r);
        assert_null(r.memory);
    }
}

static void the_same_command_gives_the_same_bytes(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(commands); i++) {
        struct slice a = encode("s", &commands[i]), b = encode("s", &commands[i]);
        struct slice again;
        struct record r;

        assert_true(slice_equal(a, b));
        assert_true(record_decode(a, &r));
        again = encode("s", &r.command);
        assert_true(slice_equal(a, again));
        record_free(&r);
        exact_free(a);
        exact_free(b);
        exact_free(again);
    }
}

/* --- Bytes that are no command. --- */

/* A store with something of everything in it. */
static void fill(struct store *s)
{
    const struct store_options options = {.seed = 1};
    struct store_result result;
    struct space *space;

    store_init(s, &options);
    space = store_space(s, "s");
    for (size_t i = 0; i < COUNT(commands); i++) {
        if (commands[i].kind == COMMAND_SPACE_RESET || commands[i].kind == COMMAND_SPACE_FORGET)
            continue;
        store_apply(s, space, &commands[i], &result);
        if (commands[i].kind == COMMAND_QUEUE_POP && result.status == STORE_OK)
            blob_unref(result.value);
    }
}

static void list(struct space *space)
{
    const struct node *n;
    struct slice where;
    struct writer count = {0};

    assert_int_equal(tree_get(&space->tree, slice_str("/"), &n, &where), ETCD_OK);
    assert_true(tree_write_get(&space->tree, n, true, true, 0, &count));
}

/* Refused, or a command that a store takes as any other. True: it was taken. */
static bool try_bytes(struct store *s, struct slice bytes)
{
    struct slice copy = exact(bytes.ptr, bytes.len);
    struct store_result result;
    struct record r;
    bool ok = record_decode(copy, &r);

    if (ok) {
        struct space *space = store_space(s, "s");

        store_apply(s, space, &r.command, &result);
        if (r.command.kind == COMMAND_QUEUE_POP && result.status == STORE_OK)
            blob_unref(result.value);
        list(space);
        record_free(&r);
    }
    exact_free(copy);
    return ok;
}

static void a_part_of_a_record_does_no_harm(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(commands); i++) {
        struct slice bytes = encode("s", &commands[i]);
        struct store s;

        fill(&s);
        for (size_t len = 0; len < bytes.len; len++)
            try_bytes(&s, (struct slice){bytes.ptr, len});
        store_fini(&s);
        exact_free(bytes);
    }
}

static void a_record_with_any_bit_wrong_does_no_harm(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(commands); i++) {
        struct slice bytes = encode("s", &commands[i]);
        uint8_t *wrong = malloc(bytes.len);
        struct store s;

        assert_non_null(wrong);
        fill(&s);
        for (size_t bit = 0; bit < 8 * bytes.len; bit++) {
            memcpy(wrong, bytes.ptr, bytes.len);
            wrong[bit / 8] = (uint8_t)(wrong[bit / 8] ^ 1u << bit % 8);
            try_bytes(&s, (struct slice){wrong, bytes.len});
        }
        store_fini(&s);
        free(wrong);
        exact_free(bytes);
    }
}

/* An empty record, or one of a newer version, must not be taken for something else. */
static void a_kind_that_is_not_known_is_refused(void **state)
{
    (void)state;
    for (int kind = -3; kind < 300; kind++) {
        const struct command c = {.kind = (enum command_kind)kind, .key = BYTES("/k")};
        struct slice bytes = encode("s", &c);
        bool known = false;
        struct record r;

        for (size_t i = 0; i < COUNT(commands); i++)
            known = known || (int)commands[i].kind == kind;
        if (record_decode(bytes, &r) != known)
            fail_msg("kind %d is %s", kind, known ? "refused" : "taken");
        if (known)
            record_free(&r);
        exact_free(bytes);
    }
}

static void paths_that_no_request_can_have_are_refused(void **state)
{
    static const struct {
        struct slice path;
        bool good;
    } rows[] = {
        {BYTES("/"), true},     {BYTES("/a"), true},     {BYTES("/a/b"), true},
        {BYTES("/a\0b"), true}, {BYTES("/ /."), true},   {BYTES(""), false},
        {BYTES("a"), false},    {BYTES("/a/"), false},   {BYTES("//"), false},
        {BYTES("//a"), false},  {BYTES("/a//b"), false}, {BYTES("a/b"), false},
    };

    (void)state;
    for (int kind = COMMAND_TREE_SET; kind <= COMMAND_TREE_COMPARE_AND_DELETE; kind++) {
        for (size_t i = 0; i < COUNT(rows); i++) {
            const struct command c = {.kind = (enum command_kind)kind, .key = rows[i].path};
            struct slice bytes = encode("s", &c);
            struct store s;

            fill(&s);
            if (try_bytes(&s, bytes) != rows[i].good)
                fail_msg("kind %d, path %zu", kind, i);
            store_fini(&s);
            exact_free(bytes);
        }
    }
}

static void items_that_are_no_pairs_are_refused(void **state)
{
    static const struct {
        struct slice items;
        bool good;
    } rows[] = {
        {BYTES(""), true},
        {BYTES(PAIRS), true},
        {BYTES("\0"), false},
        {BYTES("\1\0\0\0\0\0\0\0a"), false},                   /* a key alone */
        {BYTES("\1\0\0\0\0\0\0\0a\1\0\0\0\0\0\0\0"), false},   /* its value is missing */
        {BYTES("\1\0\0\0\0\0\0\0a\1\0\0\0\0\0\0\0bx"), false}, /* something behind */
        {BYTES("\1\0\0\0\0\0\0\0a\377\377\377\377\377\377\377\377b"), false},
        {BYTES("\377\377\377\377\377\377\377\377a"), false},
        {BYTES("\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"), true},
        {BYTES("\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"), false}, /* three */
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        const struct command c = {.kind = COMMAND_KEY_MULTI_SET, .items = rows[i].items};
        struct slice bytes = encode("s", &c);
        struct store s;

        fill(&s);
        if (try_bytes(&s, bytes) != rows[i].good)
            fail_msg("row %zu", i);
        store_fini(&s);
        exact_free(bytes);
    }
}

/* Random bytes, and records cut, joined and changed at random. */
static void whatever_bytes_do_no_harm(void **state)
{
    uint64_t random = 9;
    size_t taken = 0;

    (void)state;
    for (int round = 0; round < 40; round++) {
        struct store s;

        fill(&s);
        for (int step = 0; step < 500; step++) {
            uint8_t bytes[512];
            size_t len = 0;

            for (int part = 0; part < 3; part++) {
                struct slice record;
                size_t from, n;

                random = random * 6364136223846793005u + 1442695040888963407u;
                record = encode("s", &commands[(random >> 33) % COUNT(commands)]);
                from = (random >> 20) % 2 == 0 ? 0 : (random >> 40) % (record.len + 1);
                n = (random >> 21) % 2 == 0 ? record.len - from
                                            : (random >> 50) % (record.len - from + 1);
                if (n <= sizeof bytes - len) {
                    memcpy(bytes + len, record.ptr + from, n);
                    len += n;
                }
                if (len != 0 && (random >> 22) % 4 == 0)
                    bytes[(random >> 30) % len] = (uint8_t)(random >> 55);
                exact_free(record);
            }
            taken += try_bytes(&s, (struct slice){bytes, len});
        }
        store_fini(&s);
    }
    assert_in_range(taken, 1000, 40 * 500); /* enough of them were commands */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_comes_back_as_it_was),
        cmocka_unit_test(the_same_command_gives_the_same_bytes),
        cmocka_unit_test(a_part_of_a_record_does_no_harm),
        cmocka_unit_test(a_record_with_any_bit_wrong_does_no_harm),
        cmocka_unit_test(a_kind_that_is_not_known_is_refused),
        cmocka_unit_test(paths_that_no_request_can_have_are_refused),
        cmocka_unit_test(items_that_are_no_pairs_are_refused),
        cmocka_unit_test(whatever_bytes_do_no_harm),
    };

    return cmocka_run_group_tests_name("store/record", tests, NULL, NULL);
}
