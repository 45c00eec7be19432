/* Signals reach the server that runs, and those that come between two servers the second one. */
#include "rdzv/signals.h"

#include <event2/event.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

static int told[16];
static size_t count;

static void tell(void *arg, int number)
{
    assert_ptr_equal(arg, told);
    assert_true(count < sizeof told / sizeof told[0]);
    told[count++] = number;
}

/* What is told now. */
static void look(struct event_base *base)
{
    count = 0;
    assert_true(event_base_loop(base, EVLOOP_NONBLOCK) >= 0);
}

static void each_signal_is_told(void **state)
{
    static const int numbers[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2};
    struct event_base *base = event_base_new();
    struct signals signals;

    (void)state;
    assert_true(signals_open(&signals, base, tell, told));
    look(base);
    assert_int_equal(count, 0);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        kill(getpid(), numbers[i]);
        look(base);
        assert_int_equal(count, 1);
        assert_int_equal(told[0], numbers[i]);
    }
    signal(SIGHUP, SIG_IGN); /* as main() does */
    kill(getpid(), SIGHUP);
    kill(getpid(), SIGTERM);
    look(base);
    assert_int_equal(count, 2);
    signals_close(&signals);
    event_base_free(base);
}

static void one_that_comes_between_two_servers_is_told_to_the_second(void **state)
{
    struct event_base *first = event_base_new(), *second = event_base_new();
    struct signals signals;

    (void)state;
    assert_true(signals_open(&signals, first, tell, told));
    kill(getpid(), SIGTERM); /* behind the last iteration */
    signals_close(&signals);
    kill(getpid(), SIGUSR1);
    assert_true(signals_open(&signals, second, tell, told));
    look(second);
    assert_int_equal(count, 2);
    assert_int_equal(told[0] + told[1], SIGTERM + SIGUSR1);
    signals_close(&signals);
    event_base_free(first);
    event_base_free(second);
}

static void what_was_never_opened_is_closed(void **state)
{
    struct signals signals = {0};

    (void)state;
    signals_close(&signals);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_signal_is_told),
        cmocka_unit_test(one_that_comes_between_two_servers_is_told_to_the_second),
        cmocka_unit_test(what_was_never_opened_is_closed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
