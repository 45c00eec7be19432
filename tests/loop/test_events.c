/* A server whose event_add() fails: it refuses to start, and later goes on accepting. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/loop/harness.h"

#define PATIENCE_MS 20000

static int skip, failures; /* of the calls to come: so many succeed, then so many fail */

int __real_event_add(struct event *event, const struct timeval *after);
int __wrap_event_add(struct event *event, const struct timeval *after);

int __wrap_event_add(struct event *event, const struct timeval *after)
{
    if (skip > 0) {
        skip--;
    } else if (failures > 0) {
        failures--;
        errno = ENOSPC;
        return -1;
    }
    return __real_event_add(event, after);
}

/* The n-th call fails, for each n there is; the one after the last does not come. */
static void without_an_event_there_is_no_start(void **state)
{
    int n = 0;

    (void)state;
    for (;; n++) {
        loop_configure(&loop, NULL);
        skip = n;
        failures = 1;
        if (server_init(&loop.server, &loop.config) == 0)
            break;
        assert_int_equal(failures, 0);
        assert_true(loop_logged(&loop, "event=event_failed"));
        loop_forget(&loop);
    }
    assert_int_equal(failures, 1);
    assert_true(n > 2); /* signals, the tick, a listener */
    failures = 0;
    loop_close(&loop);
}

static uint64_t set_descriptors(uint64_t count)
{
    struct rlimit limit;
    uint64_t before;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    before = limit.rlim_cur;
    limit.rlim_cur = count;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    return before;
}

/* A listener that had to pause while descriptors were short, and whose events then fail: those of
 * the pause's end, or those of the listener. */
static void a_paused_listener_accepts_again(void **state)
{
    (void)state;
    for (int first = 0; first < 2; first++) {
        uint64_t before, begin;
        int fd;

        loop_open(&loop, NULL);
        fd = loop_dial(&loop, false);
        before = set_descriptors((uint64_t)dup(fd)); /* all below are in use */
        close(fd + 1);
        skip = first;
        failures = 1;
        begin = engine_now_ms(&loop.server.engine);
        while (failures > 0 && engine_now_ms(&loop.server.engine) - begin < PATIENCE_MS)
            loop_iterate(&loop);
        set_descriptors(before);
        assert_int_equal(failures, 0);
        assert_true(loop_logged(&loop, "event=accept_failed"));
        while (loop_conn(&loop, fd) == NULL &&
               engine_now_ms(&loop.server.engine) - begin < PATIENCE_MS)
            loop_iterate(&loop);
        assert_non_null(loop_conn(&loop, fd));
        close(fd);
        loop_close(&loop);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_an_event_there_is_no_start),
        cmocka_unit_test(a_paused_listener_accepts_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
