/* Worlds: found by numbers that are never used again, each with keys of its own. */
#include "store/world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "store/wake.h"

#define WORLDS 32

static struct ready_list ready = TAILQ_HEAD_INITIALIZER(ready);

static struct world *open_one(struct worlds *w)
{
    struct world *world = worlds_open(w, &ready, 1, 0);

    assert_non_null(world);
    return world;
}

static void numbers_begin_with_1_and_are_never_used_again(void **state)
{
    struct worlds w;
    struct world *first, *second;

    (void)state;
    worlds_init(&w);
    assert_null(worlds_find(&w, 0));
    assert_null(worlds_find(&w, 1));
    first = open_one(&w);
    second = open_one(&w);
    assert_int_equal(first->id, 1);
    assert_int_equal(second->id, 2);
    assert_true(first->current && second->current);
    assert_int_equal(first->sessions, 0);
    worlds_drop(&w, second);
    worlds_drop(&w, first);
    assert_int_equal(w.count, 0);
    assert_int_equal(open_one(&w)->id, 3);
    assert_null(worlds_find(&w, 2));
    worlds_fini(&w);
}

static void one_taken_back_has_never_been(void **state)
{
    struct worlds w;

    (void)state;
    worlds_init(&w);
    open_one(&w);
    open_one(&w);
    worlds_undo(&w);
    assert_int_equal(w.count, 1);
    assert_null(worlds_find(&w, 2));
    assert_int_equal(open_one(&w)->id, 2);
    worlds_fini(&w);
}

/* Whichever are gone, the others are found; in every order of going. */
static void they_are_found_whoever_else_is_gone(void **state)
{
    (void)state;
    for (uint64_t step = 1; step < WORLDS; step += 2) { /* odd: each comes by once */
        struct worlds w;
        bool gone[WORLDS + 1] = {false};

        worlds_init(&w);
        for (size_t i = 0; i < WORLDS; i++)
            open_one(&w);
        for (uint64_t i = 0; i < WORLDS; i++) {
            uint64_t id = i * step % WORLDS + 1;

            worlds_drop(&w, worlds_find(&w, id));
            gone[id] = true;
            for (uint64_t k = 0; k <= WORLDS + 1; k++) {
                const struct world *found = worlds_find(&w, k);

                if (k == 0 || k == WORLDS + 1 || gone[k])
                    assert_null(found);
                else
                    assert_int_equal(found->id, k);
            }
        }
        assert_int_equal(w.count, 0);
        worlds_fini(&w);
    }
}

static void their_keys_are_apart(void **state)
{
    struct worlds w;
    struct world *a, *b;

    (void)state;
    worlds_init(&w);
    a = open_one(&w);
    b = open_one(&w);
    assert_int_equal(keymap_set(&a->keys, slice_str("/k"), slice_str("a")), STORE_OK);
    assert_null(keymap_get(&b->keys, slice_str("/k")));
    assert_int_equal(keymap_set(&b->keys, slice_str("/k"), slice_str("b")), STORE_OK);
    assert_true(slice_is(blob_slice(keymap_get(&a->keys, slice_str("/k"))), "a"));
    worlds_drop(&w, a);
    assert_true(slice_is(blob_slice(keymap_get(&b->keys, slice_str("/k"))), "b"));
    worlds_fini(&w);
}

static void each_has_its_own_limit(void **state)
{
    struct worlds w;
    struct world *a, *b;

    (void)state;
    worlds_init(&w);
    a = worlds_open(&w, &ready, 1, 400);
    b = worlds_open(&w, &ready, 1, 400);
    for (int i = 0; i < 100; i++)
        keymap_append(&a->keys, slice_str("/k"), slice_str("0123456789"));
    assert_int_equal(keymap_set(&a->keys, slice_str("/l"), slice_str("v")), STORE_FULL);
    assert_int_equal(keymap_set(&b->keys, slice_str("/k"), slice_str("v")), STORE_OK);
    worlds_fini(&w);
}

/* What SPACE_RESET does: those who are in there go on, with nothing. */
static void cleared_ones_stay_and_are_nobodys(void **state)
{
    static const uint8_t key[] = {2, 0, 0, 0, 0, 0, 0, 0, '/', 'k'};
    struct waiter *waiter;
    struct worlds w;
    struct world *a, *b;

    (void)state;
    worlds_init(&w);
    a = open_one(&w);
    b = open_one(&w);
    keymap_set(&a->keys, slice_str("/1"), slice_str("v"));
    keymap_set(&a->keys, slice_str("/2"), slice_str("v"));
    keymap_queue_push(&b->keys, slice_str("/q"), slice_str("v"));
    assert_int_equal(keymap_wait(&b->keys, (struct slice){key, sizeof key}, 1, NULL, &waiter),
                     STORE_OK);
    assert_non_null(waiter);
    assert_int_equal(worlds_clear(&w), 3);
    assert_int_equal(w.count, 2);
    assert_false(a->current || b->current);
    assert_null(keymap_get(&a->keys, slice_str("/1")));
    assert_true(TAILQ_EMPTY(&ready));
    keymap_set(&b->keys, slice_str("/k"), slice_str("v"));
    assert_ptr_equal(TAILQ_FIRST(&ready), &waiter->wake);
    keymap_cancel(&b->keys, waiter);
    assert_true(TAILQ_EMPTY(&ready));
    assert_int_equal(worlds_clear(&w), 1);
    worlds_fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_begin_with_1_and_are_never_used_again),
        cmocka_unit_test(one_taken_back_has_never_been),
        cmocka_unit_test(they_are_found_whoever_else_is_gone),
        cmocka_unit_test(their_keys_are_apart),
        cmocka_unit_test(each_has_its_own_limit),
        cmocka_unit_test(cleared_ones_stay_and_are_nobodys),
    };

    return cmocka_run_group_tests_name("store/world", tests, NULL, NULL);
}
