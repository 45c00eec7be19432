/* The heap of deadlines against a naive search for the least. */
#include "store/tree/expiry.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { NODES = 300, STEPS = 40000 };

struct item {
    struct expiry_node node;
    int64_t at_ns;
    uint64_t age;
    bool in;
};

static uint64_t next_random(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return *seed >> 33;
}

/* The one with the earliest deadline; of several, the one that was added first. */
static struct item *least(struct item *items)
{
    struct item *best = NULL;

    for (size_t i = 0; i < NODES; i++) {
        if (items[i].in && (best == NULL || items[i].at_ns < best->at_ns ||
                            (items[i].at_ns == best->at_ns && items[i].age < best->age)))
            best = &items[i];
    }
    return best;
}

/* Moves all deadlines into the future; no deadline becomes 0 or exceeds INT64_MAX. */
static void postpone(struct expiry *e, struct item *items, int64_t by_ns)
{
    expiry_postpone(e, by_ns);
    for (size_t i = 0; i < NODES; i++) {
        if (!items[i].in)
            continue;
        if (__builtin_add_overflow(items[i].at_ns, by_ns, &items[i].at_ns))
            items[i].at_ns = INT64_MAX;
        else if (items[i].at_ns == 0)
            items[i].at_ns = 1;
        assert_true(items[i].node.at_ns == items[i].at_ns);
    }
}

static void the_first_is_the_earliest_and_then_the_oldest(void **state)
{
    static const int64_t extremes[] = {INT64_MIN, INT64_MAX, 0, -1};

    (void)state;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        struct item items[NODES] = {0};
        uint64_t random = seed, age = 0;
        size_t count = 0;
        struct reserve reserve;
        struct expiry e;

        reserve_init(&reserve);
        expiry_init(&e, &reserve);
        for (size_t step = 0; step < STEPS; step++) {
            struct item *item = &items[next_random(&random) % NODES], *best;

            if (item->in) {
                expiry_remove(&e, &item->node);
                item->in = false;
                count--;
            } else {
                /* Only a few different deadlines, so that some are equal; sometimes an extreme one.
                 */
                item->at_ns = next_random(&random) % 16 == 0 ? extremes[next_random(&random) % 4]
                                                             : (int64_t)(next_random(&random) % 20);
                item->age = age++;
                expiry_add(&e, &item->node, item->at_ns);
                item->in = true;
                count++;
            }
            if (next_random(&random) % 64 == 0)
                postpone(&e, items, 1 + (int64_t)(next_random(&random) % 7));
            best = least(items);
            if (expiry_first(&e) != (best == NULL ? NULL : &best->node))
                fail_msg("seed %d, step %zu: another one comes first", (int)seed, step);
            assert_int_equal(e.count, count);
        }
        /* Removing the first node again and again returns all nodes in order. */
        for (; count > 0; count--) {
            struct item *best = least(items);

            assert_ptr_equal(expiry_first(&e), &best->node);
            expiry_remove(&e, &best->node);
            best->in = false;
        }
        assert_null(expiry_first(&e));
        expiry_fini(&e);
        reserve_fini(&reserve);
    }
}

static void removing_what_is_not_in_does_nothing(void **state)
{
    struct expiry_node a = {0}, b = {0};
    struct reserve reserve;
    struct expiry e;

    (void)state;
    reserve_init(&reserve);
    expiry_init(&e, &reserve);
    expiry_remove(&e, &a);
    expiry_add(&e, &a, 5);
    expiry_remove(&e, &b);
    assert_ptr_equal(expiry_first(&e), &a);
    expiry_remove(&e, &a);
    expiry_remove(&e, &a);
    assert_null(expiry_first(&e));
    assert_int_equal(a.slot, 0);
    expiry_fini(&e);
    reserve_fini(&reserve);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_is_the_earliest_and_then_the_oldest),
        cmocka_unit_test(removing_what_is_not_in_does_nothing),
    };

    return cmocka_run_group_tests_name("store/expiry", tests, NULL, NULL);
}
