/* How a server ends: by a signal, also beside the moment in which it was to begin anew. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/loop/harness.h"

static void on_byte(evutil_socket_t fd, short what, void *arg)
{
    char byte;

    (void)what;
    assert_int_equal(read(fd, &byte, 1), 1);
    server_request_restart(arg);
}

/* libevent reports both events in one pass, in the order of their arrival: a byte in `ends`, which
 * calls begin_anew, and SIGTERM. Returns the result of server_run(). */
static int run_with_both(bool anew_first)
{
    struct event event;
    int ends[2], code;

    loop_open(&loop, NULL);
    assert_int_equal(pipe(ends), 0);
    event_assign(&event, loop.server.base, ends[0], EV_READ, on_byte, &loop.server);
    assert_int_equal(event_add(&event, NULL), 0);
    if (anew_first)
        assert_int_equal(write(ends[1], "x", 1), 1);
    kill(getpid(), SIGTERM);
    if (!anew_first)
        assert_int_equal(write(ends[1], "x", 1), 1);
    code = server_run(&loop.server);
    event_del(&event);
    close(ends[0]);
    close(ends[1]);
    loop_close(&loop);
    return code;
}

static void a_signal_ends_a_server_that_was_about_to_restart(void **state)
{
    (void)state;
    assert_int_equal(run_with_both(true), 0);
    assert_int_equal(run_with_both(false), 0);
}

static void without_a_signal_another_one_begins(void **state)
{
    (void)state;
    server_request_restart(&loop.server);
    assert_int_equal(server_run(&loop.server), SERVER_RESTART);
    loop.server.restart = false;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_signal_ends_a_server_that_was_about_to_restart),
        LOOP_TEST(without_a_signal_another_one_begins),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
