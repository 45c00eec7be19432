/* The account of memory: the bytes of each kind, and the limit at which each class is refused. */
#include "store/memory/account.h"

#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "store/store.h"

#define MIB ((size_t)1 << 20)

/* Whatever a test has left behind shows here, and in the next one. */
static int begin(void **state)
{
    (void)state;
    assert_int_equal(account.total, 0);
    account_set_limit(0);
    account.refused = 0;
    return 0;
}

static int end(void **state)
{
    (void)state;
    account_set_limit(0);
    for (int i = 0; i < ACCOUNT_KINDS; i++)
        assert_int_equal(account.bytes[i], 0);
    assert_int_equal(account.total, 0);
    return 0;
}

/* --- Counting. --- */

static void memory_of_malloc_is_counted(void **state)
{
    void *a = account_alloc(ACCOUNT_KEYS, 100), *b = account_alloc(ACCOUNT_INPUT, 100000);

    (void)state;
    assert_in_range(account.bytes[ACCOUNT_KEYS], 100, 130);
    assert_in_range(account.bytes[ACCOUNT_INPUT], 100000, 110000);
    b = account_realloc(ACCOUNT_INPUT, b, 100000, 50);
    assert_in_range(account.bytes[ACCOUNT_INPUT], 50, 80);
    account_move(ACCOUNT_INPUT, ACCOUNT_ANSWERS, 50);
    assert_int_equal(account.bytes[ACCOUNT_INPUT], 0);
    assert_in_range(account.bytes[ACCOUNT_ANSWERS], 50, 80);
    assert_int_equal(account.total, account.bytes[ACCOUNT_KEYS] + account.bytes[ACCOUNT_ANSWERS]);
    account_free(ACCOUNT_ANSWERS, b, 50);
    account_free(ACCOUNT_KEYS, a, 100);
    account_free(ACCOUNT_KEYS, NULL, 0);
}

static void every_kind_has_a_name(void **state)
{
    (void)state;
    for (int i = 0; i < ACCOUNT_KINDS; i++)
        assert_non_null(account_kind_name((enum account_kind)i));
}

#ifdef __GLIBC__
/* With what malloc() really takes. */
static void the_cost_is_that_of_malloc(void **state)
{
    (void)state;
    for (size_t len = 0; len < 100000; len += len < 200 ? 1 : 997) {
        void *p = malloc(len);
        size_t usable = malloc_usable_size(p);

        free(p);
        if (len == 0 && usable < 24) /* a sanitizer's, which gives just that */
            return;
        assert_in_range(account_cost(len), len, usable + sizeof(size_t));
    }
}
#endif

/* --- The limit. --- */

static void a_part_is_kept_back(void **state)
{
    void *most;

    (void)state;
    account_set_limit(100 * MIB);
    assert_int_equal(account_room(ACCOUNT_ORDINARY), 95 * MIB);
    assert_int_equal(account_room(ACCOUNT_SMALL), 97 * MIB + MIB / 2);
    assert_int_equal(account_room(ACCOUNT_WATCHING), 100 * MIB);
    assert_null(account_request(ACCOUNT_KEYS, ACCOUNT_ORDINARY, 96 * MIB));
    assert_int_equal(account.refused, 1);
    most = account_request(ACCOUNT_KEYS, ACCOUNT_WATCHING, 98 * MIB);
    assert_non_null(most);
    assert_false(account_has_room(ACCOUNT_SMALL, 1));
    assert_true(account_has_room(ACCOUNT_WATCHING, MIB));
    account_begin_watching();
    assert_true(account_has_room(ACCOUNT_ORDINARY, MIB));
    account_end_watching();
    assert_false(account_has_room(ACCOUNT_ORDINARY, 1));
    account_free(ACCOUNT_KEYS, most, 98 * MIB);
}

static void a_spare_is_kept_while_there_is_room(void **state)
{
    (void)state;
    account_set_limit(100 * MIB);
    account_keep_spare();
    account_keep_spare();
    assert_non_null(account.spare);
    assert_in_range(account.bytes[ACCOUNT_LOOP], ACCOUNT_SPARE, ACCOUNT_SPARE + 8192);
    account_give_spare();
    account_give_spare();
    assert_int_equal(account.bytes[ACCOUNT_LOOP], 0);
    account_set_limit(ACCOUNT_SPARE);
    account_keep_spare();
    assert_null(account.spare);
    assert_int_equal(account.refused, 0);
    account_set_limit(0);
}

static void of_a_small_limit_one_mib_is_kept(void **state)
{
    (void)state;
    account_set_limit(4 * MIB);
    assert_int_equal(account_room(ACCOUNT_ORDINARY), 3 * MIB);
    account_set_limit(100);
    assert_int_equal(account_room(ACCOUNT_ORDINARY), 0);
    assert_int_equal(account_room(ACCOUNT_WATCHING), 100);
    account_set_limit(0);
    assert_true(account_has_room(ACCOUNT_ORDINARY, SIZE_MAX / 2));
}

/* While it is moved, there are both. */
static void what_grows_needs_room_for_the_new(void **state)
{
    void *p;

    (void)state;
    account_set_limit(10 * MIB);
    p = account_request(ACCOUNT_INPUT, ACCOUNT_ORDINARY, 4 * MIB);
    assert_non_null(p);
    assert_null(account_resize(ACCOUNT_INPUT, ACCOUNT_ORDINARY, p, 4 * MIB, 6 * MIB));
    p = account_resize(ACCOUNT_INPUT, ACCOUNT_ORDINARY, p, 4 * MIB, 4 * MIB + MIB / 2);
    assert_non_null(p);
    account_free(ACCOUNT_INPUT, p, 4 * MIB + MIB / 2);
}

/* --- The store. --- */

static struct store_result set(struct store *s, struct space *space, const char *key, size_t len)
{
    uint8_t *bytes = calloc(1, len + 1);
    const struct command c = {
        .kind = COMMAND_KEY_SET, .key = slice_str(key), .value = {bytes, len}};
    struct store_result out;

    store_execute(s, space, &c, NULL, &out);
    free(bytes);
    return out;
}

static struct store_result put(struct store *s, struct space *space, const char *path, size_t len)
{
    uint8_t *bytes = calloc(1, len + 1);
    const struct command c = {
        .kind = COMMAND_TREE_SET, .key = slice_str(path), .value = {bytes, len}};
    struct store_result out;

    store_execute(s, space, &c, NULL, &out);
    free(bytes);
    return out;
}

static void begin_store(struct store *s, struct space **space, size_t limit)
{
    store_init(s, &(struct store_options){.seed = 1});
    *space = store_space(s, slice_str("default"));
    account_set_limit(limit);
}

/* Over the limit a change is refused, what is there stays, and a deletion makes room. */
static void keys_stop_at_the_limit(void **state)
{
    struct store_result out = {0};
    struct space *space;
    struct store s;
    char key[8];
    int n = 0;

    (void)state;
    begin_store(&s, &space, 8 * MIB);
    while (out.status == STORE_OK && n < 100) {
        snprintf(key, sizeof key, "k%d", n++);
        out = set(&s, space, key, MIB);
    }
    assert_int_equal(out.status, STORE_NO_MEMORY);
    assert_int_equal(n - 1, 6); /* of 7 MiB, and each has a head */
    assert_int_equal(space->keys.present, 6);
    assert_true(account.total <= account.bound[ACCOUNT_ORDINARY]);
    store_execute(&s, space, &(struct command){.kind = COMMAND_KEY_DELETE, .key = slice_str("k0")},
                  NULL, &out);
    assert_int_equal(out.status, STORE_OK);
    assert_int_equal(set(&s, space, key, MIB).status, STORE_OK);
    store_fini(&s);
}

/* What the history still holds goes before a change is refused. */
static void history_makes_room(void **state)
{
    struct space *space;
    struct store s;

    (void)state;
    begin_store(&s, &space, 8 * MIB);
    for (int i = 0; i < 50; i++)
        assert_int_equal(put(&s, space, "/k", MIB).tree.code, ETCD_OK);
    assert_true(account.bytes[ACCOUNT_HISTORY] > 3 * MIB);
    assert_int_equal(set(&s, space, "k", 4 * MIB).status, STORE_OK);
    assert_true(account.total <= account.bound[ACCOUNT_ORDINARY]);
    assert_int_equal(put(&s, space, "/l", 3 * MIB).tree.code, ETCD_INTERNAL);
    store_fini(&s);
}

/* A deletion of a full tree needs an event, and gets it. */
static void a_full_tree_can_be_emptied(void **state)
{
    struct store_result out;
    struct space *space;
    struct store s;
    char path[16];
    int n = 0;

    (void)state;
    begin_store(&s, &space, 8 * MIB);
    do {
        snprintf(path, sizeof path, "/d/%d", n++);
        out = put(&s, space, path, 1000);
    } while (out.tree.code == ETCD_OK);
    assert_int_equal(out.tree.code, ETCD_INTERNAL);
    assert_int_equal(out.status, STORE_NO_MEMORY);
    while (n-- > 1) {
        snprintf(path, sizeof path, "/d/%d", n - 1);
        store_execute(&s, space,
                      &(struct command){.kind = COMMAND_TREE_DELETE, .key = slice_str(path)}, NULL,
                      &out);
        assert_int_equal(out.tree.code, ETCD_OK);
    }
    assert_int_equal(space->tree.nodes.count, 2); /* the root and /d */
    store_fini(&s);
}

/* Memory counts as the kind of its holder, whatever part of the server allocated it. */
static void values_change_hands(void **state)
{
    struct store_result out;
    struct space *space;
    struct blob *held;
    struct store s;

    (void)state;
    begin_store(&s, &space, 0);
    set(&s, space, "k", MIB);
    assert_in_range(account.bytes[ACCOUNT_KEYS], MIB, MIB + MIB / 8);
    held = blob_ref(keymap_get(&space->keys, slice_str("k")));
    set(&s, space, "k", 10);
    assert_in_range(account.bytes[ACCOUNT_ANSWERS], MIB, MIB + MIB / 8);
    assert_in_range(account.bytes[ACCOUNT_KEYS], 10, 4096);
    blob_unref(held);
    assert_int_equal(account.bytes[ACCOUNT_ANSWERS], 0);

    put(&s, space, "/k", MIB);
    assert_in_range(account.bytes[ACCOUNT_TREES], MIB, MIB + MIB / 8);
    store_execute(&s, space, &(struct command){.kind = COMMAND_TREE_DELETE, .key = slice_str("/k")},
                  NULL, &out);
    assert_in_range(account.bytes[ACCOUNT_TREES], 1, 4096);
    assert_in_range(account.bytes[ACCOUNT_HISTORY], MIB, MIB + MIB / 8);
    store_fini(&s);
}

/* Lengths that nobody keeps. */
static void the_heap_knows_how_long_it_is(void **state)
{
    size_t before = account.total;
    void *p, *q;

    (void)state;
    p = account_heap_alloc(ACCOUNT_LOOP, 1000);
    assert_in_range(account.total - before, 1000, 1100);
    p = account_heap_realloc(ACCOUNT_LOOP, p, 5000);
    assert_in_range(account.bytes[ACCOUNT_LOOP], 5000, 5100);
    q = account_heap_realloc(ACCOUNT_LOOP, NULL, 100);
    assert_in_range(account.bytes[ACCOUNT_LOOP], 5100, 5300);
    account_heap_free(ACCOUNT_LOOP, p);
    account_heap_free(ACCOUNT_LOOP, q);
    account_heap_free(ACCOUNT_LOOP, NULL);
    assert_int_equal(account.bytes[ACCOUNT_LOOP], 0);
    assert_int_equal(account.total, before);

    account_set_limit(2 * ACCOUNT_KEPT_MIN);
    assert_null(account_heap_request(ACCOUNT_LOOP, ACCOUNT_ORDINARY, ACCOUNT_KEPT_MIN + 1));
    assert_null(account_heap_request_zeroed(ACCOUNT_LOOP, ACCOUNT_ORDINARY, ACCOUNT_KEPT_MIN + 1));
    p = account_heap_request_zeroed(ACCOUNT_LOOP, ACCOUNT_ORDINARY, 100);
    assert_non_null(p);
    assert_null(account_heap_resize(ACCOUNT_LOOP, ACCOUNT_ORDINARY, p, ACCOUNT_KEPT_MIN + 1));
    p = account_heap_resize(ACCOUNT_LOOP, ACCOUNT_ORDINARY, p, 200);
    assert_non_null(p);
    account_heap_free(ACCOUNT_LOOP, p);
    account_set_limit(0);
    assert_int_equal(account.total, before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_heap_knows_how_long_it_is),
        cmocka_unit_test_setup_teardown(memory_of_malloc_is_counted, begin, end),
#ifdef __GLIBC__
        cmocka_unit_test(the_cost_is_that_of_malloc),
#endif
        cmocka_unit_test_setup_teardown(every_kind_has_a_name, begin, end),
        cmocka_unit_test_setup_teardown(a_part_is_kept_back, begin, end),
        cmocka_unit_test_setup_teardown(a_spare_is_kept_while_there_is_room, begin, end),
        cmocka_unit_test_setup_teardown(of_a_small_limit_one_mib_is_kept, begin, end),
        cmocka_unit_test_setup_teardown(what_grows_needs_room_for_the_new, begin, end),
        cmocka_unit_test_setup_teardown(keys_stop_at_the_limit, begin, end),
        cmocka_unit_test_setup_teardown(history_makes_room, begin, end),
        cmocka_unit_test_setup_teardown(a_full_tree_can_be_emptied, begin, end),
        cmocka_unit_test_setup_teardown(values_change_hands, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
