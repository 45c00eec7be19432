/* When the next transaction is sent: with a clock in hand. */
#include "rdzv/etcd3/gather.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define TOOK 1000000u

/* A transaction of all that is there is sent and answered. */
static void carry_out(struct gather *g, uint64_t now_ns)
{
    gather_send(g, true);
    gather_answer(g, TOOK, now_ns);
}

static void one_client_never_waits(void **state)
{
    struct gather g = {0};

    (void)state;
    for (uint64_t now = 0; now < 10; now++) {
        gather_take(&g, 1);
        assert_false(gather_waits(&g, now));
        carry_out(&g, now);
        assert_false(gather_waits(&g, now));
    }
}

/* Of eight clients, five were answered just now, and three have asked meanwhile. */
static void those_who_were_answered_are_waited_for(void **state)
{
    struct gather g = {0};

    (void)state;
    gather_take(&g, 5);
    gather_send(&g, true);
    gather_take(&g, 3);
    gather_answer(&g, TOOK, 0);
    assert_true(gather_waits(&g, 0));
    gather_take(&g, 4);
    assert_true(gather_waits(&g, TOOK - 1));
    gather_take(&g, 1);
    assert_false(gather_waits(&g, TOOK - 1));
    carry_out(&g, TOOK);
    assert_true(gather_waits(&g, TOOK)); /* from now on for all eight */
    gather_take(&g, 8);
    assert_false(gather_waits(&g, TOOK));
}

static void a_wait_in_vain_is_followed_by_none(void **state)
{
    struct gather g = {0};
    unsigned count = 0;

    (void)state;
    gather_take(&g, 2);
    carry_out(&g, 0);
    gather_take(&g, 1);
    assert_true(gather_waits(&g, TOOK - 1));
    assert_false(gather_waits(&g, TOOK));
    for (;; count++) {
        gather_take(&g, 2);
        carry_out(&g, 0);
        if (gather_waits(&g, 0))
            break;
    }
    assert_in_range(count, 10, 100);
}

static void nobody_waits_for_long(void **state)
{
    struct gather g = {0};

    (void)state;
    gather_take(&g, 2);
    gather_send(&g, true);
    gather_answer(&g, UINT64_MAX / 2, 7);
    assert_true(gather_waits(&g, 7));
    assert_false(gather_waits(&g, 7 + 2000000));
}

/* There is more than a transaction holds. */
static void a_part_is_followed_by_the_rest_at_once(void **state)
{
    struct gather g = {0};

    (void)state;
    gather_take(&g, 1000);
    gather_send(&g, false);
    gather_answer(&g, TOOK, 0);
    assert_false(gather_waits(&g, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_client_never_waits),
        cmocka_unit_test(those_who_were_answered_are_waited_for),
        cmocka_unit_test(a_wait_in_vain_is_followed_by_none),
        cmocka_unit_test(nobody_waits_for_long),
        cmocka_unit_test(a_part_is_followed_by_the_rest_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
