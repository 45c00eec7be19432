/* The store as a whole: separate spaces, the results of commands, their records in the journal, and
 * the list of woken clients. */
#include "store/store.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "tests/support/record_batch.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

#define BYTES(s)                            \
    {                                       \
        (const uint8_t *)(s), sizeof(s) - 1 \
    }

static void open_store(struct store *s)
{
    const struct store_options options = {.seed = 5};

    store_init(s, &options);
}

static struct store_result apply(struct store *s, struct space *space, struct command c)
{
    struct store_result r;

    memset(&r, 0x5a, sizeof r);
    store_execute(s, space, &c, NULL, &r);
    return r;
}

#define COMMAND(...) ((struct command){__VA_ARGS__})

static void spaces_are_found_by_their_names(void **state)
{
    struct store s;
    struct space *a, *b;

    (void)state;
    open_store(&s);
    assert_null(store_find_space(&s, slice_str("a")));
    a = store_space(&s, slice_str("a"));
    b = store_space(&s, slice_str("ab"));
    assert_ptr_not_equal(a, b);
    assert_ptr_equal(store_space(&s, slice_str("a")), a);
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
    struct space *a, *b;

    (void)state;
    open_store(&s);
    a = store_space(&s, slice_str("a"));
    b = store_space(&s, slice_str("b"));
    apply(&s, a, COMMAND(.kind = COMMAND_KEY_SET, .key = BYTES("/k"), .value = BYTES("v")));
    apply(&s, a, COMMAND(.kind = COMMAND_QUEUE_PUSH, .key = BYTES("/q"), .value = BYTES("v")));
    apply(&s, a, COMMAND(.kind = COMMAND_TREE_SET, .key = BYTES("/t"), .value = BYTES("v")));
    assert_null(keymap_get(&b->keys, slice_str("/k")));
    assert_int_equal(keymap_queue_len(&b->keys, slice_str("/q")), 0);
    assert_int_equal(b->tree.index, 3);
    assert_int_equal(apply(&s, b, COMMAND(.kind = COMMAND_SPACE_RESET)).count, 0);
    assert_non_null(keymap_get(&a->keys, slice_str("/k")));
    assert_int_equal(a->tree.index, 4);
    store_fini(&s);
}

/* What the command comes to, as it is written down; CHANGE_NONE: nothing is. */
static enum change_kind written(struct store *s, struct space *space, const struct command *c)
{
    enum change_kind kind = CHANGE_NONE;
    struct record_batch records;
    struct store_result r;
    struct batch batch;

    batch_init(&batch);
    batch_begin(&batch, 7);
    store_execute(s, space, c, &batch, &r);
    if (c->kind == COMMAND_QUEUE_POP && r.status == STORE_OK)
        blob_unref(r.value);
    if (batch.count != 0) {
        assert_true(record_decode(batch_bytes(&batch), &records));
        assert_true(records.count == 1 && records.number == 7);
        assert_true(slice_is(records.records[0].space, space->name));
        kind = records.records[0].change.kind;
        assert_int_equal(change_part(kind), command_part(c->kind)); /* who decides applies */
        record_free(&records);
    }
    batch_fini(&batch);
    return kind;
}

static void what_changes_is_written_down_as_its_outcome(void **state)
{
    static const struct {
        struct command command;
        enum change_kind kind;
    } rows[] = {
        {{.kind = COMMAND_KEY_DELETE, .key = BYTES("/k")}, CHANGE_NONE},
        {{.kind = COMMAND_KEY_SET, .key = BYTES("/k"), .value = BYTES("text")}, CHANGE_KEY_PUT},
        {{.kind = COMMAND_KEY_SET, .key = BYTES("/k"), .value = BYTES("text")}, CHANGE_KEY_PUT},
        {{.kind = COMMAND_KEY_ADD, .key = BYTES("/k"), .number = 1}, CHANGE_NONE},
        {{.kind = COMMAND_BARRIER, .key = BYTES("/k"), .number = 1}, CHANGE_NONE},
        {{.kind = COMMAND_KEY_COMPARE_SET, .key = BYTES("/k"), .expected = BYTES("no")},
         CHANGE_NONE},
        {{.kind = COMMAND_KEY_COMPARE_SET, .key = BYTES("/x"), .expected = BYTES("no")},
         CHANGE_NONE},
        {{.kind = COMMAND_KEY_COMPARE_SET, .key = BYTES("/k"), .expected = BYTES("text")},
         CHANGE_KEY_PUT},
        {{.kind = COMMAND_KEY_APPEND, .key = BYTES("/k"), .value = BYTES("12")}, CHANGE_KEY_APPEND},
        {{.kind = COMMAND_KEY_ADD, .key = BYTES("/k"), .number = 0}, CHANGE_KEY_PUT},
        {{.kind = COMMAND_KEY_MULTI_SET}, CHANGE_KEY_PUT_ALL},
        {{.kind = COMMAND_QUEUE_POP, .key = BYTES("/q")}, CHANGE_NONE},
        {{.kind = COMMAND_QUEUE_PUSH, .key = BYTES("/q")}, CHANGE_QUEUE_PUSH},
        {{.kind = COMMAND_QUEUE_POP, .key = BYTES("/q")}, CHANGE_QUEUE_POP},
        {{.kind = COMMAND_BARRIER, .key = BYTES("/b"), .number = 9}, CHANGE_KEY_PUT},
        {{.kind = COMMAND_KEY_DELETE, .key = BYTES("/k")}, CHANGE_KEY_DELETE},
        {{.kind = COMMAND_TREE_DELETE, .key = BYTES("/t")}, CHANGE_NONE},
        {{.kind = COMMAND_TREE_SET, .key = BYTES("/t"), .expires_ns = INT64_MAX}, CHANGE_TREE_PUT},
        {{.kind = COMMAND_TREE_CREATE, .key = BYTES("/t")}, CHANGE_NONE},
        {{.kind = COMMAND_TREE_CREATE_IN_ORDER, .key = BYTES("/o")}, CHANGE_TREE_PUT},
        {{.kind = COMMAND_TREE_EXPIRE, .now_ns = 5}, CHANGE_NONE},
        {{.kind = COMMAND_TREE_POSTPONE, .number = 0}, CHANGE_NONE},
        {{.kind = COMMAND_TREE_POSTPONE, .number = 1}, CHANGE_TREE_POSTPONE},
        {{.kind = COMMAND_TREE_EXPIRE, .now_ns = INT64_MAX}, CHANGE_TREE_REMOVE},
        {{.kind = COMMAND_TREE_EXPIRE, .now_ns = INT64_MAX}, CHANGE_NONE},
        {{.kind = COMMAND_TREE_POSTPONE, .number = 1}, CHANGE_NONE}, /* there is no deadline */
        {{.kind = COMMAND_SPACE_FORGET}, CHANGE_SPACE_FORGET},
        {{.kind = COMMAND_SPACE_FORGET}, CHANGE_NONE},
        {{.kind = COMMAND_TREE_SET, .key = BYTES("/t")}, CHANGE_TREE_PUT},
        {{.kind = COMMAND_SPACE_FORGET}, CHANGE_NONE},
        {{.kind = COMMAND_SPACE_RESET}, CHANGE_SPACE_RESET},
        {{.kind = COMMAND_SPACE_RESET}, CHANGE_NONE},
        {{.kind = COMMAND_RUN_PUT, .key = BYTES("r"), .worker_store = 1}, CHANGE_NONE},
        {{.kind = COMMAND_WORKER_STORE_OPEN}, CHANGE_WORKER_STORE_OPEN},
        {{.kind = COMMAND_KEY_SET, .key = BYTES("/k"), .worker_store = 1}, CHANGE_KEY_PUT},
        {{.kind = COMMAND_KEY_SET, .key = BYTES("/k"), .worker_store = 2}, CHANGE_NONE},
        {{.kind = COMMAND_RUN_PUT, .key = BYTES("r"), .worker_store = 1}, CHANGE_RUN_PUT},
        {{.kind = COMMAND_WORKER_STORE_DROP, .worker_store = 1}, CHANGE_NONE},
        {{.kind = COMMAND_RUN_DELETE, .key = BYTES("r")}, CHANGE_RUN_DELETE},
        {{.kind = COMMAND_RUN_DELETE, .key = BYTES("r")}, CHANGE_NONE},
        {{.kind = COMMAND_WORKER_STORE_DROP, .worker_store = 1}, CHANGE_WORKER_STORE_DROP},
        {{.kind = COMMAND_WORKER_STORE_DROP, .worker_store = 1}, CHANGE_NONE},
    };
    struct store s;
    struct space *space;

    (void)state;
    open_store(&s);
    store_space(&s, slice_str("other"));
    space = store_space(&s, slice_str("a"));
    for (size_t i = 0; i < COUNT(rows); i++) {
        print_message("  row %zu\n", i);
        assert_int_equal(written(&s, space, &rows[i].command), rows[i].kind);
    }
    store_fini(&s);
}

/* A heartbeat in the state of 256 nodes, which torch's agents write as a whole each few seconds. */
static void a_small_part_of_a_large_value_is_a_small_record(void **state)
{
    static uint8_t value[80000], expected[80000];
    struct command c = {.kind = COMMAND_KEY_SET,
                        .key = BYTES("/torch.rendezvous.job"),
                        .value = {value, sizeof value}};
    struct store_result r;
    struct batch batch;
    struct store s;
    struct space *space;

    (void)state;
    for (size_t i = 0; i < sizeof value; i++)
        value[i] = (uint8_t)('A' + i % 61);
    open_store(&s);
    space = store_space(&s, slice_str("default"));
    apply(&s, space, c);
    memcpy(expected, value, sizeof value);
    memset(value + 40000, '+', 16);
    c.kind = COMMAND_KEY_COMPARE_SET;
    c.expected = (struct slice){expected, sizeof expected};
    batch_init(&batch);
    batch_begin(&batch, UINT32_MAX);
    store_execute(&s, space, &c, &batch, &r);
    assert_int_equal(r.status, STORE_OK);
    assert_in_range(batch.len, 1, 60 + c.key.len);
    assert_true(slice_equal(blob_slice(keymap_get(&space->keys, c.key)), c.value));
    batch_fini(&batch);
    store_fini(&s);
}

/* A client that waits changes nothing of what the others' commands come to. */
static void those_who_wait_change_no_outcome(void **state)
{
    static const uint8_t keys[] = "\1\0\0\0\0\0\0\0a\1\0\0\0\0\0\0\0b";
    const struct store_options options = {.seed = 1, .space_bytes_max = 700};
    static uint8_t value[400];
    const struct command set = {
        .kind = COMMAND_KEY_SET, .key = BYTES("k"), .value = {value, sizeof value}};
    struct waiter *waiter;
    struct store s;
    struct space *space;

    (void)state;
    store_init(&s, &options);
    space = store_space(&s, slice_str("a"));
    assert_int_equal(keymap_wait(&space->keys, (struct slice){keys, 18}, 2, NULL, &waiter),
                     STORE_OK);
    assert_non_null(waiter);
    assert_int_equal(apply(&s, space, set).status, STORE_OK);
    keymap_cancel(&space->keys, waiter);
    store_fini(&s);
}

static void results_say_what_came_of_it(void **state)
{
    struct store s;
    struct space *a;
    struct store_result r;

    (void)state;
    open_store(&s);
    a = store_space(&s, slice_str("a"));
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
    struct space *a;

    (void)state;
    open_store(&s);
    a = store_space(&s, slice_str("a"));
    apply(&s, a, COMMAND(.kind = COMMAND_KEY_SET, .key = BYTES("/k")));
    apply(&s, a, COMMAND(.kind = COMMAND_TREE_SET, .key = BYTES("/t")));
    apply(&s, a, COMMAND(.kind = COMMAND_SPACE_FORGET));
    assert_int_equal(a->keys.present, 0);
    assert_int_equal(a->tree.count, 2);
    apply(&s, a, COMMAND(.kind = COMMAND_SPACE_RESET));
    assert_int_equal(a->tree.count, 1);
    assert_int_equal(a->tree.index, 5);
    store_fini(&s);
}

/* The keys, queues and usage are gone with the command, their memory comes back bit by bit, and
 * what is written meanwhile stays. */
static void forgotten_state_is_freed_in_slices(void **state)
{
    struct space *space;
    struct store s;
    size_t bytes, empty;
    char key[16];

    (void)state;
    open_store(&s);
    space = store_space(&s, slice_str("a"));
    assert_int_equal(apply(&s, space, COMMAND(.kind = COMMAND_WORKER_STORE_OPEN)).count, 1);
    empty = space_usage(space).bytes;
    for (int i = 0; i < 1000; i++) {
        struct command c = {.kind = i % 3 == 0   ? COMMAND_QUEUE_PUSH
                                    : i % 3 == 1 ? COMMAND_KEY_SET
                                                 : COMMAND_KEY_ADD,
                            .worker_store = i % 2 == 0 ? 1 : 0};

        snprintf(key, sizeof key, "/%d", i / 7);
        c.key = c.value = slice_str(key);
        apply(&s, space, c);
    }
    bytes = space_usage(space).bytes;
    assert_true(bytes > 10000);
    assert_true(lazy_free_is_empty(&s.lazy_free));
    apply(&s, space, COMMAND(.kind = COMMAND_SPACE_FORGET));
    assert_int_equal(space_usage(space).keys + space_usage(space).queues, 0);
    assert_int_equal(space_usage(space).bytes, empty);
    assert_int_equal(s.lazy_free.bytes, bytes - empty);
    for (int i = 0; !lazy_free_is_empty(&s.lazy_free); i++) {
        size_t before = s.lazy_free.bytes;

        snprintf(key, sizeof key, "/%d", i);
        apply(&s, space,
              COMMAND(.kind = COMMAND_KEY_SET, .key = slice_str(key), .value = slice_str("v")));
        lazy_free_run(&s.lazy_free, 10);
        assert_in_range(before - s.lazy_free.bytes, 1, 2500);
        assert_int_equal(space_usage(space).keys, i + 1);
    }
    assert_int_equal(s.lazy_free.bytes, 0);
    assert_int_equal(
        apply(&s, space,
              COMMAND(.kind = COMMAND_KEY_SET, .key = slice_str("/in the worker store"),
                      .value = slice_str("v"), .worker_store = 1))
            .status,
        STORE_OK);
    apply(&s, space, COMMAND(.kind = COMMAND_WORKER_STORE_DROP, .worker_store = 1));
    assert_false(lazy_free_is_empty(&s.lazy_free));
    store_fini(&s); /* frees the rest */
}

/* The store does not parse rendezvous states: valid and invalid ones are treated alike. */
static void a_rendezvous_is_a_key_and_a_record_that_know_nothing_of_each_other(void **state)
{
    const struct slice key = slice_str("/torch.rendezvous.job");
    const struct run_record *run;
    struct store s;
    struct space *a;

    (void)state;
    open_store(&s);
    a = store_space(&s, slice_str("a"));
    apply(&s, a, COMMAND(.kind = COMMAND_KEY_SET, .key = key, .value = BYTES("Y2FuaW1hZGFt")));
    assert_true(TAILQ_EMPTY(&a->runs.list));
    assert_int_equal(apply(&s, a, COMMAND(.kind = COMMAND_WORKER_STORE_OPEN)).count, 1);
    apply(&s, a,
          COMMAND(.kind = COMMAND_RUN_PUT, .key = key, .value = BYTES("host"), .port = 29400,
                  .placement = WORKER_STORE_RDZVD, .worker_store = 1, .number = 3));
    apply(&s, a, COMMAND(.kind = COMMAND_KEY_DELETE, .key = key));
    run = TAILQ_FIRST(&a->runs.list);
    assert_non_null(run);
    assert_true(slice_equal(run->node.key, key) && slice_is(run->address, "host"));
    assert_true(run->port == 29400 && run->placement == WORKER_STORE_RDZVD);
    assert_true(run->worker_store == 1 && run->round == 3);
    assert_int_equal(
        apply(&s, a, COMMAND(.kind = COMMAND_WORKER_STORE_DROP, .worker_store = 1)).status,
        STORE_IN_USE);
    apply(&s, a, COMMAND(.kind = COMMAND_SPACE_FORGET));
    assert_true(TAILQ_EMPTY(&a->runs.list) && a->runs.bytes == 0);
    assert_int_equal(
        apply(&s, a, COMMAND(.kind = COMMAND_WORKER_STORE_DROP, .worker_store = 1)).status,
        STORE_OK);
    store_fini(&s);
}

static void kinds_that_are_not_known_change_nothing(void **state)
{
    struct store s;
    struct space *a;

    (void)state;
    open_store(&s);
    a = store_space(&s, slice_str("a"));
    apply(&s, a, COMMAND(.kind = COMMAND_KEY_SET, .key = BYTES("/k")));
    apply(&s, a, COMMAND(.kind = COMMAND_TREE_SET, .key = BYTES("/k")));
    for (int kind = -2; kind < 300; kind++) {
        const struct command c = {.kind = (enum command_kind)kind, .key = BYTES("/k")};

        if (kind > COMMAND_NONE && kind < COMMAND_KINDS)
            continue;
        assert_int_equal(written(&s, a, &c), CHANGE_NONE);
        assert_int_equal(a->keys.present, 1);
        assert_int_equal(a->tree.index, 4);
    }
    store_fini(&s);
}

static void who_was_woken_first_is_ready_first_whatever_his_space(void **state)
{
    static const uint8_t keys[] = "\2\0\0\0\0\0\0\0/k";
    struct store s;
    struct space *a, *b;
    struct waiter *in_a, *in_b;
    struct watch *watch;
    int owner_a, owner_b;

    (void)state;
    open_store(&s);
    a = store_space(&s, slice_str("a"));
    b = store_space(&s, slice_str("b"));
    assert_int_equal(keymap_wait(&a->keys, (struct slice){keys, 10}, 1, &owner_a, &in_a), STORE_OK);
    assert_int_equal(keymap_wait(&b->keys, (struct slice){keys, 10}, 1, &owner_b, &in_b), STORE_OK);
    assert_int_equal(watch_open(&a->tree.hub, slice_str("/k"), false, true, 0, &owner_a, &watch),
                     0);
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

/* The limit is for the keys and the tree of a space together, and for each space by itself. */
static void a_full_space_leaves_the_others_their_room(void **state)
{
    static uint8_t big[3000];
    const struct store_options options = {.seed = 1, .space_bytes_max = 4096};
    struct command set = {.kind = COMMAND_KEY_SET, .key = BYTES("/k"), .value = {big, 3000}};
    struct store s;
    struct space *a, *b;

    (void)state;
    store_init(&s, &options);
    a = store_space(&s, slice_str("a"));
    b = store_space(&s, slice_str("b"));
    assert_int_equal(apply(&s, a, set).status, STORE_OK);
    set.key = slice_str("/l");
    assert_int_equal(apply(&s, a, set).status, STORE_FULL);
    assert_int_equal(apply(&s, b, set).status, STORE_OK);
    set.kind = COMMAND_TREE_SET;
    assert_int_equal(apply(&s, a, set).tree.code, ETCD_INTERNAL);
    set.value.len = 100;
    assert_int_equal(apply(&s, a, set).tree.code, ETCD_OK);
    store_fini(&s);
}

/* The newest event is always kept. */
enum { EVENT_MOST = 3000 };

static size_t held(const struct space *space)
{
    return space->quota.kept + space->tree.hub.bytes;
}

/* Whatever part of the space asks for more. */
static void all_parts_of_a_space_have_one_limit(void **state)
{
    static uint8_t big[1000];
    const struct store_options options = {.seed = 1, .space_bytes_max = 20000};
    struct command set = {.key = BYTES("/k"), .value = {big, sizeof big}};
    struct store_result r;
    struct space *space;
    struct store s;
    uint64_t worker_store;
    char key[16];

    (void)state;
    store_init(&s, &options);
    space = store_space(&s, slice_str("a"));
    worker_store = apply(&s, space, COMMAND(.kind = COMMAND_WORKER_STORE_OPEN)).count;
    for (int i = 0; i < 40; i++) {
        snprintf(key, sizeof key, "/%d", i);
        set.key = slice_str(key);
        set.kind = i % 2 == 0 ? COMMAND_KEY_SET : COMMAND_TREE_SET;
        set.worker_store = i % 4 == 0 ? worker_store : 0;
        r = apply(&s, space, set);
        assert_true(r.status == STORE_OK || r.status == STORE_FULL);
        assert_in_range(held(space), 1, options.space_bytes_max + EVENT_MOST);
    }
    assert_in_range(space->quota.kept, options.space_bytes_max - 2000, options.space_bytes_max);
    apply(&s, space, COMMAND(.kind = COMMAND_SPACE_RESET));
    assert_in_range(space->quota.kept, 0, 1000); /* the root, and the worker store */
    for (int i = 0; i < 100; i++) {
        set.key = slice_str("/again");
        set.kind = COMMAND_TREE_SET;
        set.worker_store = 0;
        assert_int_equal(apply(&s, space, set).tree.code, ETCD_OK);
        assert_in_range(held(space), 1, options.space_bytes_max + EVENT_MOST);
    }
    store_fini(&s);
}

/* However often one worker store follows on the other. */
static void worker_stores_have_a_limit(void **state)
{
    const struct store_options options = {.seed = 1, .space_bytes_max = 20000};
    struct store_result r;
    struct space *space;
    struct store s;
    int count = 0;

    (void)state;
    store_init(&s, &options);
    space = store_space(&s, slice_str("a"));
    do
        r = apply(&s, space, COMMAND(.kind = COMMAND_WORKER_STORE_OPEN));
    while (r.status == STORE_OK && ++count < 1000);
    assert_int_equal(r.status, STORE_FULL);
    assert_in_range(count, 10, 200);
    store_fini(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spaces_are_found_by_their_names),
        cmocka_unit_test(spaces_do_not_see_each_other),
        cmocka_unit_test(what_changes_is_written_down_as_its_outcome),
        cmocka_unit_test(a_small_part_of_a_large_value_is_a_small_record),
        cmocka_unit_test(those_who_wait_change_no_outcome),
        cmocka_unit_test(results_say_what_came_of_it),
        cmocka_unit_test(forgetting_keeps_the_tree_and_resetting_its_index),
        cmocka_unit_test(forgotten_state_is_freed_in_slices),
        cmocka_unit_test(a_rendezvous_is_a_key_and_a_record_that_know_nothing_of_each_other),
        cmocka_unit_test(kinds_that_are_not_known_change_nothing),
        cmocka_unit_test(who_was_woken_first_is_ready_first_whatever_his_space),
        cmocka_unit_test(a_full_space_leaves_the_others_their_room),
        cmocka_unit_test(all_parts_of_a_space_have_one_limit),
        cmocka_unit_test(worker_stores_have_a_limit),
    };

    return cmocka_run_group_tests_name("store/store", tests, NULL, NULL);
}
