/* A link is lost that has thousands of sessions: they are detached over many iterations, with a
 * clock in hand, and each of them may come back before that. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "rdzv/relay/link.h"
#include "rdzv/relay/link_session.h"
#include "tests/loop/hand.h"
#include "tests/loop/stepping.h"

#define SESSIONS 2000u

/* Who asks this is an agent. */
#define INTRODUCTION                                            \
    "\2\x15\0\0\0\0\0\0\0/torch.rendezvous.job\0\0\0\0\0\0\0\0" \
    "\x0c\0\0\0\0\0\0\0Y2FuaW1hZGFt"

static const struct stats *stats(void)
{
    return &loop.server.engine.stats;
}

/* A link with that many sessions, 1 to `count`, each on the channel of its number. */
static int open_sessions(uint32_t count)
{
    int fd;

    now_ns = UINT64_C(100000000000);
    step_ns = 0;
    loop_open(&loop, NULL);
    loop.server.engine.options.clock = loop.server.net.budget.clock = &stepping;
    fd = hand_connect();
    for (uint32_t i = 1; i <= count; i++)
        hand_open(fd, i, i);
    assert_int_equal(stats()->sessions_attached, count);
    return fd;
}

/* The part of an iteration that detaches is over at the second look at the clock. */
static void lose_slowly(int fd)
{
    step_ns = BUDGET_SMALL_NS;
    hand_lose_link(fd);
    assert_int_not_equal(stats()->sessions_attached, 0);
}

static void close_all(void)
{
    step_ns = 0;
    LOOP_UNTIL(&loop, stats()->sessions_attached == 0);
    loop_close(&loop);
}

static void many_sessions_are_detached_over_several_iterations(void **state)
{
    uint64_t iterations, before = SESSIONS;
    int fd = open_sessions(SESSIONS), other;

    (void)state;
    other = loop_connect_modern(&loop);
    iterations = stats()->loop_iterations;
    lose_slowly(fd);
    while (stats()->sessions_attached > 0) {
        loop_send(&loop, other, TEXT(PING));
        loop_expect(&loop, other, "abcd", 4);
        assert_in_range(before - stats()->sessions_attached, 0,
                        101 * (stats()->loop_iterations - iterations));
        assert_int_equal(stats()->sessions_attached + stats()->sessions_detached, SESSIONS);
        before = stats()->sessions_attached;
        iterations = stats()->loop_iterations;
    }
    loop_leave(&loop, other);
    close_all();
}

/* All sessions of a lost link are detached at the same time. */
static void they_have_lost_it_at_one_time(void **state)
{
    const struct relay_session_list *detached = &loop.server.store.links.detached;
    const struct relay_session *s;
    int fd = open_sessions(SESSIONS);

    (void)state;
    lose_slowly(fd);
    LOOP_UNTIL(&loop, stats()->sessions_attached == 0);
    TAILQ_FOREACH(s, detached, entry)
        assert_int_equal(s->detached_ms, TAILQ_FIRST(detached)->detached_ms);
    close_all();
}

/* The last session has a WAIT. Its link is lost, the WAIT is fulfilled, and the session is not
 * detached yet. The client receives the answer after the session has returned. */
static void who_comes_back_before_its_turn_goes_on(void **state)
{
    int fd = open_sessions(SESSIONS);

    (void)state;
    hand_request(fd, SESSIONS, 1, TEXT(WAIT_K));
    hand_expect_nothing(fd);
    lose_slowly(fd);
    loop_set_key(&loop, "/k", "v");
    loop_iterate(&loop);
    fd = hand_connect();
    hand_resume(fd, 1, SESSIONS, RELAY_KNOWN, 0, NOTHING);
    assert_in_range(stats()->sessions_attached, 2, SESSIONS);
    hand_request(fd, 1, 1, TEXT(WAIT_K));
    hand_expect(fd, RELAY_ANSWER, RELAY_KNOWN, 1, 1, "\0", 1);
    LOOP_UNTIL(&loop, stats()->sessions_attached == 1);
    hand_request(fd, 1, 2, TEXT(SET_K));
    hand_expect(fd, RELAY_DONE, CHANGED, 1, 2, NOTHING);
    hand_lose_link(fd);
    close_all();
}

/* Another link is lost meanwhile: its sessions come behind, however few they are. */
static void links_are_lost_in_order(void **state)
{
    const struct relay_session_list *detached = &loop.server.store.links.detached;
    int fd = open_sessions(SESSIONS), few = hand_connect();

    (void)state;
    hand_open(few, 1, SESSIONS + 1);
    lose_slowly(fd);
    hand_lose_link(few);
    LOOP_UNTIL(&loop, stats()->sessions_attached == 0);
    assert_int_equal(TAILQ_LAST(detached, relay_session_list)->id, SESSIONS + 1);
    assert_true(TAILQ_EMPTY(&loop.server.store.links.lost));
    close_all();
}

static size_t awaited(void)
{
    const struct relay_session *s;
    size_t count = 0;

    TAILQ_FOREACH(s, &loop.server.store.links.awaited, waiting)
        count++;
    return count;
}

/* Their relay stays away. */
static void agents_are_given_up_over_several_iterations(void **state)
{
    enum { AGENTS = 5000, GIVEN_UP_AT_A_TIME = 4096 };
    int fd = open_sessions(AGENTS);

    (void)state;
    for (uint32_t i = 1; i <= AGENTS; i++)
        hand_request(fd, i, 1, TEXT(INTRODUCTION));
    hand_expect_executed(fd);
    hand_lose_link(fd);
    LOOP_UNTIL(&loop, stats()->sessions_attached == 0);
    assert_int_equal(awaited(), AGENTS);
    hand_pass_time(RELAY_RETURN_MS);
    relay_links_tick(&loop.server.store.links);
    assert_int_equal(awaited(), AGENTS - GIVEN_UP_AT_A_TIME);
    LOOP_UNTIL(&loop, awaited() == 0);
    close_all();
}

/* Those that are not detached yet end with the daemon, and nothing of the link is left. */
static void the_daemon_may_stop_meanwhile(void **state)
{
    int fd = open_sessions(SESSIONS);

    (void)state;
    lose_slowly(fd);
    step_ns = 0;
    loop_close(&loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_sessions_are_detached_over_several_iterations),
        cmocka_unit_test(they_have_lost_it_at_one_time),
        cmocka_unit_test(who_comes_back_before_its_turn_goes_on),
        cmocka_unit_test(links_are_lost_in_order),
        cmocka_unit_test(agents_are_given_up_over_several_iterations),
        cmocka_unit_test(the_daemon_may_stop_meanwhile),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
