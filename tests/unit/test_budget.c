/* The time of an iteration, with a simulated clock: the test checks when the budget reads the
 * clock, and when the time of a part or of the iteration ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "rdzv/net/iteration.h"

static uint64_t now_ns;
static unsigned readings;
static struct budget budget;

static uint64_t read_monotonic(void *arg)
{
    (void)arg;
    readings++;
    return now_ns;
}

static const struct clock hand = {.monotonic_ns = read_monotonic};

static void begin(void)
{
    now_ns = UINT64_C(5000000000);
    readings = 0;
    budget.clock = &hand;
    budget_begin_iteration(&budget, false);
}

static void a_few_fast_requests_read_no_clock(void **state)
{
    (void)state;
    begin();
    for (int i = 0; i < 400; i++)
        budget_spend(&budget, 100);
    assert_int_equal(readings, 0);
    assert_false(budget.over);
}

static void many_fast_requests_seldom_read_the_clock(void **state)
{
    (void)state;
    begin();
    for (int i = 0; i < 50000; i++)
        budget_spend(&budget, 100);
    assert_in_range(readings, 1, 100);
    assert_false(budget.over); /* by the clock no time has passed */
}

static void a_part_is_over_after_its_time(void **state)
{
    (void)state;
    begin();
    budget_spend(&budget, BUDGET_CLOCK_NS);
    now_ns += BUDGET_READ_NS - BUDGET_CLOCK_NS - 1;
    budget_spend(&budget, BUDGET_CLOCK_NS);
    assert_false(budget.over);
    now_ns += 1;
    budget_spend(&budget, BUDGET_CLOCK_NS);
    assert_true(budget.over);
    now_ns -= BUDGET_READ_NS; /* once over, it stays over */
    budget_spend(&budget, BUDGET_CLOCK_NS);
    assert_true(budget.over);
    budget_begin_part(&budget, BUDGET_END_NS);
    assert_false(budget.over);
    budget_spend(&budget, BUDGET_CLOCK_NS);
    assert_false(budget.over);
}

/* Estimates are too low by any factor: the clock decides. */
static void what_was_spent_before_the_first_look_counts(void **state)
{
    (void)state;
    begin();
    budget_spend(&budget, BUDGET_READ_NS);
    assert_int_equal(readings, 1);
    assert_true(budget.over);
}

static void what_is_measured_has_one_limit_in_an_iteration(void **state)
{
    (void)state;
    begin();
    budget_measure(&budget);
    now_ns += BUDGET_SLOW_NS / 2;
    assert_int_equal(budget_measured(&budget), BUDGET_SLOW_NS / 2);
    budget_begin_part(&budget, BUDGET_SLOW_NS);
    assert_false(budget_slow_is_over(&budget));
    budget_measure(&budget);
    now_ns += BUDGET_SLOW_NS / 2;
    budget_measured(&budget);
    assert_true(budget_slow_is_over(&budget));
    assert_false(budget.over); /* fast requests go on */
    begin();
    assert_false(budget_slow_is_over(&budget));
}

static void one_long_request_ends_the_part(void **state)
{
    (void)state;
    begin();
    budget_measure(&budget);
    assert_false(budget.over);
    now_ns += 50 * BUDGET_SLOW_NS;
    budget_measured(&budget);
    assert_true(budget.over);
}

static void a_clock_that_stands_still_or_goes_back_ends_nothing(void **state)
{
    (void)state;
    begin();
    budget_measure(&budget);
    now_ns -= 1000;
    assert_int_equal(budget_measured(&budget), 0);
    now_ns -= 1000;
    budget_spend(&budget, BUDGET_CLOCK_NS);
    assert_false(budget.over);
}

/* One request, whatever it takes. */
static void an_iteration_that_is_behind_runs_one_slow_request(void **state)
{
    (void)state;
    begin();
    budget_begin_iteration(&budget, true);
    assert_false(budget_slow_is_over(&budget));
    budget_measure(&budget);
    now_ns += 1;
    budget_measured(&budget);
    assert_true(budget_slow_is_over(&budget));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_few_fast_requests_read_no_clock),
        cmocka_unit_test(many_fast_requests_seldom_read_the_clock),
        cmocka_unit_test(a_part_is_over_after_its_time),
        cmocka_unit_test(what_was_spent_before_the_first_look_counts),
        cmocka_unit_test(what_is_measured_has_one_limit_in_an_iteration),
        cmocka_unit_test(one_long_request_ends_the_part),
        cmocka_unit_test(an_iteration_that_is_behind_runs_one_slow_request),
        cmocka_unit_test(a_clock_that_stands_still_or_goes_back_ends_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
