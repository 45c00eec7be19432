/* Worker stores: each has its own keys and a number that is never used again. */
#include "store/keymap/worker_store.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/keymap_fixture.h"

#define STORES 32

static struct ready_list ready = {.tqh_last = &ready.tqh_first};
static struct reserve reserve;
static struct quota quota;

static struct worker_store *open_one(struct worker_stores *w)
{
    return worker_stores_open(w, w->last_id + 1);
}

static void numbers_begin_with_1_and_are_never_used_again(void **state)
{
    struct worker_stores w;
    struct worker_store *first, *second;

    (void)state;
    worker_stores_init(&w, &ready, &reserve, 1, &quota);
    assert_null(worker_stores_find(&w, 0));
    assert_null(worker_stores_find(&w, 1));
    first = open_one(&w);
    second = open_one(&w);
    assert_int_equal(first->id, 1);
    assert_int_equal(second->id, 2);
    worker_stores_drop(&w, second->id);
    worker_stores_drop(&w, first->id);
    assert_int_equal(w.count, 0);
    assert_int_equal(open_one(&w)->id, 3);
    assert_null(worker_stores_find(&w, 2));
    worker_stores_fini(&w);
}

/* Whichever are gone, the others are found; in every order of going. */
static void they_are_found_whoever_else_is_gone(void **state)
{
    (void)state;
    for (uint64_t step = 1; step < STORES; step += 2) { /* odd: each comes by once */
        struct worker_stores w;
        bool gone[STORES + 1] = {false};

        worker_stores_init(&w, &ready, &reserve, 1, &quota);
        for (size_t i = 0; i < STORES; i++)
            open_one(&w);
        for (uint64_t i = 0; i < STORES; i++) {
            uint64_t id = i * step % STORES + 1;

            worker_stores_drop(&w, id);
            gone[id] = true;
            for (uint64_t k = 0; k <= STORES + 1; k++) {
                const struct worker_store *found = worker_stores_find(&w, k);

                if (k == 0 || k == STORES + 1 || gone[k])
                    assert_null(found);
                else
                    assert_int_equal(found->id, k);
            }
        }
        assert_int_equal(w.count, 0);
        worker_stores_fini(&w);
    }
}

static void their_keys_are_apart(void **state)
{
    struct worker_stores w;
    struct worker_store *a, *b;

    (void)state;
    worker_stores_init(&w, &ready, &reserve, 1, &quota);
    a = open_one(&w);
    b = open_one(&w);
    assert_int_equal(keymap_set(&a->keys, slice_str("/k"), slice_str("a")), STORE_OK);
    assert_null(keymap_get(&b->keys, slice_str("/k")));
    assert_int_equal(keymap_set(&b->keys, slice_str("/k"), slice_str("b")), STORE_OK);
    assert_true(slice_is(blob_slice(keymap_get(&a->keys, slice_str("/k"))), "a"));
    worker_stores_drop(&w, a->id);
    assert_true(slice_is(blob_slice(keymap_get(&b->keys, slice_str("/k"))), "b"));
    worker_stores_fini(&w);
}

/* However many there are, together they hold no more than the space may. */
static void they_share_the_limit_of_their_space(void **state)
{
    struct quota limited = {.max = 400 + 2 * WORKER_STORE_COST};
    struct worker_stores w;
    struct worker_store *a, *b;

    (void)state;
    worker_stores_init(&w, &ready, &reserve, 1, &limited);
    a = open_one(&w);
    b = open_one(&w);
    for (int i = 0; i < 100; i++)
        keymap_append(&a->keys, slice_str("/k"), slice_str("0123456789"));
    assert_int_equal(keymap_set(&a->keys, slice_str("/l"), slice_str("v")), STORE_FULL);
    assert_int_equal(keymap_set(&b->keys, slice_str("/k"), slice_str("v")), STORE_FULL);
    worker_stores_drop(&w, a->id);
    assert_int_equal(keymap_set(&b->keys, slice_str("/k"), slice_str("v")), STORE_OK);
    worker_stores_fini(&w);
    assert_int_equal(limited.kept, 0);
}

/* As SPACE_RESET does: connected clients stay in their worker store, which is empty. */
static void cleared_ones_stay(void **state)
{
    static const uint8_t key[] = {2, 0, 0, 0, 0, 0, 0, 0, '/', 'k'};
    struct waiter *waiter;
    struct worker_stores w;
    struct worker_store *a, *b;

    (void)state;
    worker_stores_init(&w, &ready, &reserve, 1, &quota);
    a = open_one(&w);
    b = open_one(&w);
    keymap_set(&a->keys, slice_str("/1"), slice_str("v"));
    keymap_set(&a->keys, slice_str("/2"), slice_str("v"));
    keymap_queue_push(&b->keys, slice_str("/q"), slice_str("v"));
    assert_int_equal(keymap_wait(&b->keys, (struct slice){key, sizeof key}, 1, NULL, &waiter),
                     STORE_OK);
    assert_non_null(waiter);
    assert_int_equal(worker_stores_clear(&w), 3);
    assert_int_equal(w.count, 2);
    assert_null(keymap_get(&a->keys, slice_str("/1")));
    assert_true(TAILQ_EMPTY(&ready));
    keymap_set(&b->keys, slice_str("/k"), slice_str("v"));
    assert_ptr_equal(TAILQ_FIRST(&ready), &waiter->wake);
    keymap_cancel(&b->keys, waiter);
    assert_true(TAILQ_EMPTY(&ready));
    assert_int_equal(worker_stores_clear(&w), 1);
    worker_stores_fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_begin_with_1_and_are_never_used_again),
        cmocka_unit_test(they_are_found_whoever_else_is_gone),
        cmocka_unit_test(their_keys_are_apart),
        cmocka_unit_test(they_share_the_limit_of_their_space),
        cmocka_unit_test(cleared_ones_stay),
    };

    return cmocka_run_group_tests_name("store/worker_store", tests, NULL, NULL);
}
