/* The store as a whole: spaces apart from each other, the one door for changes, what is written
 * down of them, and who is ready. */
#include "store/store.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))

#define BYTES(s)                            \
    {                                       \
        (const uint8_t *)(s), sizeof(s) - 1 \
    }

/* Keeps the kinds and keys of what was written down. */
struct sink {
    struct {
        const struct space *space;
        enum command_kind kind;
        char key[16];
    } entries[64];
    size_t count;
};

static void note(void *to, const struct space *space, const struct command *c)
{
    struct sink *sink = to;

    assert_in_range(sink->count, 0, COUNT(sink->entries) - 1);
    sink->entries[sink->count].space = space;
    sink->entries[sink->count].kind = c->kind;
    snprintf(sink->entries[sink->count].key, sizeof sink->entries[0].key, "%.*s", (int)c->key.len,
             (const char *)c->key.ptr);
    sink->count++;
}

static void open_store(struct store *s, struct sink *sink)
{
    const struct store_options options = {.seed = 5, .sink = {.add = note, .to = sink}};

    *sink = (struct sink){.count = 0};
    store_init(s, &options);
}

static struct store_result apply(struct store *s, struct space *space, struct command c)
{
    struct store_result r;

    memset(&r, 0x5a, sizeof r);
    store_apply(s, space, &c, &r);
    return r;
}

#define COMMAND(...) ((struct command){__VA_ARGS__})

static void spaces_are_found_by_their_names(void **state)
{
    struct store s;
    struct sink sink;
    struct space *a, *b;

    (void)state;
    open_store(&s, &sink);
    assert_null(store_find_space(&s, slice_str("a")));
    a = store_space(&s, "a");
    b = store_space(&s, "ab");
    assert_ptr_not_equal(a, b);
    assert_ptr_equal(store_space(&s, "a"), a);
    assert_ptr_equal(store_find_space(&s, (struct slice)BYTES("ab")), b);
    assert_null(store_find_space(&s, (struct slice)BYTES("b")));
    assert_null(store_find_space(&s, (struct slice){0}));
    assert_ptr_equal(TAILQ_FIRST(&s.spaces), a); /* in the order in which they were made */
    assert_string_equal(a->name, "a");
    store_fini(&s);
}

static void spaces_do_not_see_each_other(void **state)
{
    struct store s;
    struct sink sink;
    struct space *a, *b;

    (void)state;
    open_store(&s, &sink);
    a = store_space(&s, "a");
    b = store_space(&s, "b");
    apply(&s, a, COMMAND(.kind = COMMAND_KEY_SET, .key = BYTES("/k"), .value = BYTES("v")));
    apply(&s, a, COMMAND(.kind = COMMAND_QUEUE_PUSH, .key = BYTES("/q"), .value = BYTES("v")));
    apply(&s, a, COMMAND(.kind = COMMAND_TREE_SET, .key = BYTES("/t"), .value = BYTES("v")));
    apply(&s, a, COMMAND(.kind = COMMAND_AUTH_USER_PUT, .key = BYTES("root")));
    assert_null(keymap_get(&b->keys, slice_str("/k")));
    assert_int_equal(keymap_queue_len(&b->keys, slice_str("/q")), 0);
    assert_int_equal(b->tree.index, 3);
    assert_null(auth_find_user(&b->auth, slice_str("root")));
    assert_int_equal(apply(&s, b, COMMAND(.kind = COMMAND_SPACE_RESET)).count, 0);
    assert_non_null(keymap_get(&a->keys, slice_str("/k")));
    assert_int_equal(a->tree.index, 4 + 5);
    store_fini(&s);
}

/* What changed something is written down, in order; what did not, is not. */
static void changes_are_written_down_and_nothing_else(void **state)
{
    static const struct {
        struct command command;
        bool changes;
    } rows[] = {
        {{.kind = COMMAND_KEY_DELETE, .key = BYTES("/k")}, false},
        {{.kind = COMMAND_KEY_SET, .key = BYTES("/k"), .value = BYTES("text")}, true},
        {{.kind = COMMAND_KEY_SET, .key = BYTES("/k"), .value = BYTES("text")}, true},
        {{.kind = COMMAND_KEY_ADD, .key = BYTES("/k"), .number = 1}, false},
        {{.kind = COMMAND_BARRIER, .key = BYTES("/k"), .number = 1}, false},
        {{.kind = COMMAND_KEY_COMPARE_SET, .key = BYTES("/k"), .expected = BYTES("no")}, false},
        {{.kind = COMMAND_KEY_COMPARE_SET, .key = BYTES("/x"), .expected = BYTES("no")}, false},
        {{.kind = COMMAND_KEY_COMPARE_SET, .key = BYTES("/k"), .expected = BYTES("text")}, true},
        {{.kind = COMMAND_KEY_APPEND, .key = BYTES("/k"), .value = BYTES("12")}, true},
        {{.kind = COMMAND_KEY_ADD, .key = BYTES("/k"), .number = 0}, true},
        {{.kind = COMMAND_QUEUE_POP, .key = BYTES("/q")}, false},
        {{.kind = COMMAND_QUEUE_PUSH, .key = BYTES("/q")}, true},
        {{.kind = COMMAND_QUEUE_POP, .key = BYTES("/q")}, true},
        {{.kind = COMMAND_BARRIER, .key = BYTES("/b"), .number = 9}, true},
        {{.kind = COMMAND_TREE_DELETE, .key = BYTES("/t")}, false},
        {{.kind = COMMAND_TREE_SET, .key = BYTES("/t"), .expires_ns = INT64_MAX}, true},
        {{.kind = COMMAND_TREE_CREATE, .key = BYTES("/t")}, false},
        {{.kind = COMMAND_TREE_EXPIRE, .now_ns = 5}, false},
        {{.kind = COMMAND_TREE_EXPIRE, .now_ns = INT64_MAX}, true},
        {{.kind = COMMAND_AUTH_ENABLE}, false},
        {{.kind = COMMAND_AUTH_USER_DELETE, .key = BYTES("x")}, true}, /* the first takes indexes */
        {{.kind = COMMAND_AUTH_USER_DELETE, .key = BYTES("x")}, false},
        {{.kind = COMMAND_AUTH_USER_PUT, .key = BYTES("root")}, true},
        {{.kind = COMMAND_AUTH_ENABLE}, true},
        {{.kind = COMMAND_AUTH_ENABLE}, false},
        {{.kind = COMMAND_SPACE_FORGET}, true},
        {{.kind = COMMAND_SPACE_FORGET}, false},
        {{.kind = COMMAND_TREE_SET, .key = BYTES("/t")}, true},
        {{.kind = COMMAND_SPACE_FORGET}, false},
        {{.kind = COMMAND_SPACE_RESET}, true},
        {{.kind = COMMAND_SPACE_RESET}, false},
    };
    struct store s;
    struct sink sink;
    struct space *space;

    (void)state;
    open_store(&s, &sink);
    store_space(&s, "other");
    space = store_space(&s, "a");
    for (size_t i = 0; i < COUNT(rows); i++) {
        size_t before = sink.count;
        struct store_result r = apply(&s, space, rows[i].command);

        print_message("  row %zu\n", i);
        if (rows[i].command.kind == COMMAND_QUEUE_POP && r.status == STORE_OK)
            blob_unref(r.value);
        assert_int_equal(sink.count - before, rows[i].changes);
        if (!rows[i].changes)
            continue;
        assert_ptr_equal(sink.entries[before].space, space);
        assert_int_equal(sink.entries[before].kind, rows[i].command.kind);
        assert_int_equal(strlen(sink.entries[before].key), rows[i].command.key.len);
    }
    store_fini(&s);
}

static void results_say_what_came_of_it(void **state)
{
    struct store s;
    struct sink sink;
    struct space *a;
    struct store_result r;

    (void)state;
    open_store(&s, &sink);
    a = store_space(&s, "a");
    r = apply(&s, a, COMMAND(.kind = COMMAND_KEY_ADD, .key = BYTES("/n"), .number = 7));
    assert_true(r.status == STORE_OK && r.number == 7);
    r = apply(&s, a,
              COMMAND(.kind = COMMAND_KEY_COMPARE_SET, .key = BYTES("/n"), .expected = BYTES("8")));
    assert_true(r.status == STORE_MISMATCH && slice_is(blob_slice(r.value), "7"));
    r = apply(&s, a, COMMAND(.kind = COMMAND_QUEUE_POP, .key = BYTES("/q")));
    assert_true(r.status == STORE_ABSENT && r.count == 0 && r.value == NULL);
    apply(&s, a, COMMAND(.kind = COMMAND_QUEUE_PUSH, .key = BYTES("/q"), .value = BYTES("e")));
    apply(&s, a, COMMAND(.kind = COMMAND_QUEUE_PUSH, .key = BYTES("/q"), .value = BYTES("f")));
    r = apply(&s, a, COMMAND(.kind = COMMAND_QUEUE_POP, .key = BYTES("/q")));
    assert_true(r.status == STORE_OK && r.count == 2 && slice_is(blob_slice(r.value), "e"));
    blob_unref(r.value);
    r = apply(&s, a, COMMAND(.kind = COMMAND_BARRIER, .key = BYTES("/b"), .number = 2));
    assert_true(r.status == STORE_OK && !r.open);
    r = apply(&s, a, COMMAND(.kind = COMMAND_BARRIER, .key = BYTES("/b"), .number = 2));
    assert_true(r.status == STORE_OK && r.open);
    r = apply(&s, a,
              COMMAND(.kind = COMMAND_TREE_SET, .key = BYTES("/t"), .expires_ns = INT64_MAX));
    assert_true(r.tree.code == ETCD_OK && r.tree.event->node.modified == 4);
    r = apply(&s, a, COMMAND(.kind = COMMAND_TREE_CREATE, .key = BYTES("/t")));
    assert_int_equal(r.tree.code, ETCD_KEY_EXISTS);
    r = apply(&s, a, COMMAND(.kind = COMMAND_TREE_EXPIRE, .now_ns = INT64_MAX));
    assert_int_equal(r.count, 1);
    r = apply(&s, a, COMMAND(.kind = COMMAND_AUTH_ENABLE));
    assert_int_equal(r.auth, AUTH_NO_ROOT);
    apply(&s, a, COMMAND(.kind = COMMAND_TREE_SET, .key = BYTES("/t")));
    /* Two keys, one queue, one node. */
    r = apply(&s, a, COMMAND(.kind = COMMAND_SPACE_RESET));
    assert_int_equal(r.count, 4);
    store_fini(&s);
}

/* FORGET is for c10d's keys alone: etcd never forgets. */
static void forgetting_keeps_the_tree_and_resetting_its_index(void **state)
{
    struct store s;
    struct sink sink;
    struct space *a;

    (void)state;
    open_store(&s, &sink);
    a = store_space(&s, "a");
    apply(&s, a, COMMAND(.kind = COMMAND_KEY_SET, .key = BYTES("/k")));
    apply(&s, a, COMMAND(.kind = COMMAND_TREE_SET, .key = BYTES("/t")));
    apply(&s, a, COMMAND(.kind = COMMAND_SPACE_FORGET));
    assert_int_equal(a->keys.present, 0);
    assert_int_equal(a->tree.nodes.count, 2);
    apply(&s, a, COMMAND(.kind = COMMAND_SPACE_RESET));
    assert_int_equal(a->tree.nodes.count, 1);
    assert_int_equal(a->tree.index, 5);
    store_fini(&s);
}

/* A command of a version to come, or none at all. */
static void kinds_that_are_not_known_change_nothing(void **state)
{
    struct store s;
    struct sink sink;
    struct space *a;

    (void)state;
    open_store(&s, &sink);
    a = store_space(&s, "a");
    apply(&s, a, COMMAND(.kind = COMMAND_KEY_SET, .key = BYTES("/k")));
    apply(&s, a, COMMAND(.kind = COMMAND_TREE_SET, .key = BYTES("/k")));
    for (int kind = -2; kind < 300; kind++) {
        if (kind >= COMMAND_KEY_SET && kind <= COMMAND_BARRIER)
            continue;
        if (kind >= COMMAND_TREE_SET && kind <= COMMAND_TREE_EXPIRE)
            continue;
        if (kind >= COMMAND_AUTH_USER_PUT && kind <= COMMAND_AUTH_TOUCH)
            continue;
        if (kind == COMMAND_SPACE_RESET || kind == COMMAND_SPACE_FORGET)
            continue;
        apply(&s, a, COMMAND(.kind = (enum command_kind)kind, .key = BYTES("/k")));
        assert_int_equal(sink.count, 2);
        assert_int_equal(a->keys.present, 1);
        assert_int_equal(a->tree.index, 4);
    }
    store_fini(&s);
}

static void who_was_woken_first_is_ready_first_whatever_his_space(void **state)
{
    static const uint8_t keys[] = "\2\0\0\0\0\0\0\0/k";
    struct store s;
    struct sink sink;
    struct space *a, *b;
    struct waiter *in_a, *in_b;
    struct watch *watch;
    int owner_a, owner_b;

    (void)state;
    open_store(&s, &sink);
    a = store_space(&s, "a");
    b = store_space(&s, "b");
    assert_int_equal(keymap_wait(&a->keys, (struct slice){keys, 10}, 1, &owner_a, &in_a), STORE_OK);
    assert_int_equal(keymap_wait(&b->keys, (struct slice){keys, 10}, 1, &owner_b, &in_b), STORE_OK);
    assert_int_equal(tree_watch(&a->tree, slice_str("/k"), false, true, 0, &owner_a, &watch), 0);
    assert_null(store_next_ready(&s));
    apply(&s, b, COMMAND(.kind = COMMAND_KEY_SET, .key = BYTES("/k")));
    apply(&s, a, COMMAND(.kind = COMMAND_TREE_SET, .key = BYTES("/k")));
    apply(&s, a, COMMAND(.kind = COMMAND_KEY_SET, .key = BYTES("/k")));
    apply(&s, a, COMMAND(.kind = COMMAND_TREE_SET, .key = BYTES("/k")));
    assert_ptr_equal(store_next_ready(&s)->owner, &owner_b);
    assert_ptr_equal(store_next_ready(&s), &watch->subscription.wake);
    assert_ptr_equal(store_next_ready(&s), &in_a->wake);
    assert_null(store_next_ready(&s));
    assert_int_equal(watch->subscription.queued, 2);
    keymap_cancel(&a->keys, in_a);
    keymap_cancel(&b->keys, in_b);
    watch_close(&a->tree.hub, watch);
    store_fini(&s);
}

/* The limit is for each of the two worlds of a space, and for each space by itself. */
static void a_full_space_leaves_the_others_their_room(void **state)
{
    static uint8_t big[3000];
    const struct store_options options = {.seed = 1, .space_bytes_max = 4096};
    struct command set = {.kind = COMMAND_KEY_SET, .key = BYTES("/k"), .value = {big, 3000}};
    struct store s;
    struct space *a, *b;

    (void)state;
    store_init(&s, &options);
    a = store_space(&s, "a");
    b = store_space(&s, "b");
    assert_int_equal(apply(&s, a, set).status, STORE_OK);
    set.key = slice_str("/l");
    assert_int_equal(apply(&s, a, set).status, STORE_FULL);
    assert_int_equal(apply(&s, b, set).status, STORE_OK);
    set.kind = COMMAND_TREE_SET;
    assert_int_equal(apply(&s, a, set).tree.code, ETCD_OK);
    set.key = slice_str("/m");
    assert_int_equal(apply(&s, a, set).tree.code, ETCD_INTERNAL);
    store_fini(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spaces_are_found_by_their_names),
        cmocka_unit_test(spaces_do_not_see_each_other),
        cmocka_unit_test(changes_are_written_down_and_nothing_else),
        cmocka_unit_test(results_say_what_came_of_it),
        cmocka_unit_test(forgetting_keeps_the_tree_and_resetting_its_index),
        cmocka_unit_test(kinds_that_are_not_known_change_nothing),
        cmocka_unit_test(who_was_woken_first_is_ready_first_whatever_his_space),
        cmocka_unit_test(a_full_space_leaves_the_others_their_room),
    };

    return cmocka_run_group_tests_name("store/store", tests, NULL, NULL);
}
