/* When the next transaction is sent: with a clock in hand. */
#include "rdzv/etcd3/journal_etcd_internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define TOOK 1000000u

/* Sends one transaction with all pending requests, and answers it. */
static void carry_out(struct coalesce *c, uint64_t now_ns)
{
    coalesce_send(c, true);
    coalesce_answer(c, TOOK, now_ns);
}

static void one_client_never_waits(void **state)
{
    struct coalesce c = {0};

    (void)state;
    for (uint64_t now = 0; now < 10; now++) {
        coalesce_take(&c, 1);
        assert_false(coalesce_waits(&c, now));
        carry_out(&c, now);
        assert_false(coalesce_waits(&c, now));
    }
}

/* Of eight clients, five were answered just now, and three have asked meanwhile. */
static void those_who_were_answered_are_waited_for(void **state)
{
    struct coalesce c = {0};

    (void)state;
    coalesce_take(&c, 5);
    coalesce_send(&c, true);
    coalesce_take(&c, 3);
    coalesce_answer(&c, TOOK, 0);
    assert_true(coalesce_waits(&c, 0));
    coalesce_take(&c, 4);
    assert_true(coalesce_waits(&c, TOOK - 1));
    coalesce_take(&c, 1);
    assert_false(coalesce_waits(&c, TOOK - 1));
    carry_out(&c, TOOK);
    assert_true(coalesce_waits(&c, TOOK)); /* from now on for all eight */
    coalesce_take(&c, 8);
    assert_false(coalesce_waits(&c, TOOK));
}

static void a_wait_in_vain_is_followed_by_none(void **state)
{
    struct coalesce c = {0};
    unsigned count = 0;

    (void)state;
    coalesce_take(&c, 2);
    carry_out(&c, 0);
    coalesce_take(&c, 1);
    assert_true(coalesce_waits(&c, TOOK - 1));
    assert_false(coalesce_waits(&c, TOOK));
    for (;; count++) {
        coalesce_take(&c, 2);
        carry_out(&c, 0);
        if (coalesce_waits(&c, 0))
            break;
    }
    assert_in_range(count, 10, 100);
}

static void nobody_waits_for_long(void **state)
{
    struct coalesce c = {0};

    (void)state;
    coalesce_take(&c, 2);
    coalesce_send(&c, true);
    coalesce_answer(&c, UINT64_MAX / 2, 7);
    assert_true(coalesce_waits(&c, 7));
    assert_false(coalesce_waits(&c, 7 + 2000000));
}

/* There is more than a transaction holds. */
static void a_part_is_followed_by_the_rest_at_once(void **state)
{
    struct coalesce c = {0};

    (void)state;
    coalesce_take(&c, 1000);
    coalesce_send(&c, false);
    coalesce_answer(&c, TOOK, 0);
    assert_false(coalesce_waits(&c, 0));
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
