/* How long iterations took, with a clock in hand. */
#include "rdzv/net/iteration.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define MS UINT64_C(1000000)

static uint64_t now_ns;
static struct stats stats;
static struct latency latency;

static uint64_t read_monotonic(void *arg)
{
    (void)arg;
    return now_ns;
}

static const struct clock hand = {.monotonic_ns = read_monotonic};

static int set_up(void **state)
{
    (void)state;
    now_ns = 5000 * MS;
    stats = (struct stats){0};
    latency = (struct latency){.clock = &hand, .stats = &stats};
    return 0;
}

static void waiting_for_events_does_not_count(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        now_ns += 1000 * MS; /* asleep */
        latency_note(&latency);
        now_ns += 4 * MS;
        latency_note(&latency);
        now_ns += 3 * MS;
        latency_end(&latency, clock_monotonic_ns(latency.clock), false);
    }
    assert_int_equal(stats.iterations[3], 3); /* up to 10 ms */
    assert_int_equal(stats.iterations_ns, 21 * MS);
    assert_int_equal(stats.longest_iteration_ns, 7 * MS);
}

/* An iteration that continues queued work of earlier ones does not wait for events, with or without
 * callbacks.
 */
static void what_was_left_counts_from_the_end_of_the_last_one(void **state)
{
    (void)state;
    latency_note(&latency);
    latency_end(&latency, clock_monotonic_ns(latency.clock), true);
    now_ns += 15 * MS;
    latency_end(&latency, clock_monotonic_ns(latency.clock), false);
    latency_end(&latency, clock_monotonic_ns(latency.clock), false); /* nothing was called */
    assert_int_equal(stats.iterations[0], 2);
    assert_int_equal(stats.iterations[4], 1);
    assert_int_equal(stats.iterations_ns, 15 * MS);
}

static void each_length_has_its_place(void **state)
{
    (void)state;
    for (int i = 0; i < ITERATION_BOUNDS; i++) {
        latency_note(&latency);
        now_ns += latency_bounds_ns[i];
        latency_end(&latency, clock_monotonic_ns(latency.clock), false);
        latency_note(&latency);
        now_ns += latency_bounds_ns[i] + 1;
        latency_end(&latency, clock_monotonic_ns(latency.clock), false);
    }
    assert_int_equal(stats.iterations[0], 1);
    for (int i = 1; i < ITERATION_BOUNDS; i++)
        assert_int_equal(stats.iterations[i], 2);
    assert_int_equal(stats.iterations[ITERATION_BOUNDS], 1);
    assert_int_equal(stats.longest_iteration_ns, latency_bounds_ns[ITERATION_BOUNDS - 1] + 1);
}

static void one_iteration(unsigned c10d, unsigned http, uint64_t took_ns)
{
    latency_note(&latency);
    stats.c10d_requests[C10D_GET] += c10d;
    stats.http_requests += http;
    now_ns += took_ns;
    latency_end(&latency, clock_monotonic_ns(latency.clock), false);
}

static uint64_t count_of(const struct durations *d)
{
    uint64_t sum = 0;

    for (int i = 0; i <= DURATIONS_BOUNDS; i++)
        sum += d->counts[i];
    return sum;
}

/* Requests before the sample begins, and behind its last iteration, are not counted; nor is a long
 * iteration that is no sample. */
static void requests_of_samples_take_as_long_as_their_iteration(void **state)
{
    (void)state;
    one_iteration(7, 1, MS / 100);
    one_iteration(7, 1, 50 * MS);
    assert_int_equal(count_of(&stats.c10d_durations), 0);

    latency_sample(&latency);
    one_iteration(3, 0, REQUEST_FIRST_NS);
    one_iteration(2, 1, REQUEST_FIRST_NS + 1);
    one_iteration(1, 0, 100 * MS);
    assert_int_equal(stats.c10d_durations.counts[0], 3);
    assert_int_equal(stats.c10d_durations.counts[1], 2);
    assert_int_equal(stats.c10d_durations.counts[12], 1); /* up to 131 ms */
    assert_int_equal(stats.http_durations.counts[1], 1);
    assert_int_equal(stats.c10d_durations.sum_ns,
                     3 * REQUEST_FIRST_NS + 2 * (REQUEST_FIRST_NS + 1) + 100 * MS);

    for (int i = 0; i < 100; i++)
        one_iteration(1, 0, MS / 100);
    assert_int_equal(count_of(&stats.c10d_durations), 6 + 5); /* 8 iterations in all */
    latency_sample(&latency);
    one_iteration(1, 0, MS / 100);
    assert_int_equal(count_of(&stats.c10d_durations), 6 + 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(waiting_for_events_does_not_count, set_up),
        cmocka_unit_test_setup(what_was_left_counts_from_the_end_of_the_last_one, set_up),
        cmocka_unit_test_setup(each_length_has_its_place, set_up),
        cmocka_unit_test_setup(requests_of_samples_take_as_long_as_their_iteration, set_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
