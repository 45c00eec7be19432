/* Links: the frames that a relay may send, and the store's answers; and the sessions of its
 * clients, which are opened, move, end, and outlive a stop. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "proto/relay.h"
#include "rdzv/net/input.h"
#include "rdzv/relay/link_session.h"
#include "tests/loop/hand.h"

/* --- Requests. --- */

static void requests_are_answered_and_confirmed(void **state)
{
    int fd = hand_connect();

    (void)state;
    hand_open(fd, 1, 11);
    hand_request(fd, 1, 1, TEXT(SET_K));
    hand_expect(fd, RELAY_DONE, CHANGED, 1, 1, NOTHING);
    hand_request(fd, 1, 2, TEXT(GET_K));
    hand_expect(fd, RELAY_ANSWER, RELAY_KNOWN, 1, 2, TEXT(VALUE_V));
    hand_request(fd, 1, 3, TEXT(ADD_N));
    hand_expect(fd, RELAY_ANSWER, CHANGED, 1, 3, TEXT(ONE));
    hand_expect_nothing(fd);
    hand_send(fd, RELAY_CLOSE, 0, 1, 0, NOTHING);
    LOOP_UNTIL(&loop, loop.server.store.links.sessions.count == 0);
    hand_lose_link(fd);
}

/* Also by a request of a session that has ended. */
static void a_request_that_is_kept_comes_without_its_bytes(void **state)
{
    int fd = hand_connect(), other = hand_connect();

    (void)state;
    hand_open(fd, 1, 11);
    hand_open(fd, 2, 12);
    hand_open(other, 1, 13);
    hand_request(fd, 1, 1, TEXT(SET_K));
    hand_expect(fd, RELAY_DONE, CHANGED, 1, 1, NOTHING);
    hand_send(fd, RELAY_REQUEST, RELAY_SAME, 1, 2, TEXT(GET_K));
    hand_expect(fd, RELAY_ANSWER, RELAY_KNOWN, 1, 2, TEXT(VALUE_V));
    hand_send(fd, RELAY_REQUEST, RELAY_SAME, 2, 1, NOTHING);
    hand_expect(fd, RELAY_ANSWER, RELAY_KNOWN, 2, 1, TEXT(VALUE_V));
    hand_send(other, RELAY_REQUEST, RELAY_SAME, 1, 1, TEXT(GET_K));
    hand_expect(other, RELAY_ANSWER, RELAY_KNOWN, 1, 1, TEXT(VALUE_V));
    hand_send(fd, RELAY_REQUEST, RELAY_SAME, 77, 1, TEXT(GET_N));
    hand_request(fd, 1, 3, TEXT(ADD_N));
    hand_expect(fd, RELAY_ANSWER, CHANGED, 1, 3, TEXT(ONE));
    hand_send(fd, RELAY_REQUEST, RELAY_SAME, 2, 2, NOTHING);
    hand_expect(fd, RELAY_ANSWER, RELAY_KNOWN, 2, 2,
                "\1\0\0\0\0\0\0\0"
                "1",
                9);
    hand_send(other, RELAY_REQUEST, RELAY_SAME, 1, 2, NOTHING);
    hand_expect(other, RELAY_ANSWER, RELAY_KNOWN, 1, 2, TEXT(VALUE_V));
    hand_lose_link(fd);
    hand_lose_link(other);
    hand_end_all_sessions();
}

/* The relay has to know which request was the last that changed something. */
static void a_change_is_told_by_its_own_number(void **state)
{
    uint8_t bytes[3 * RELAY_HEAD_SIZE + 200];
    static const struct slice requests[] = {{(const uint8_t *)SET_K, sizeof SET_K - 1},
                                            {(const uint8_t *)GET_K, sizeof GET_K - 1}};
    size_t len = 0;
    int fd;

    (void)state;
    fd = hand_connect();
    hand_open(fd, 1, 11);
    for (size_t i = 0; i < COUNT(requests); i++) { /* in one iteration */
        const struct relay_frame frame = {
            .kind = RELAY_REQUEST, .channel = 1, .number = i + 1, .payload = requests[i]};

        relay_put_head(bytes + len, &frame);
        memcpy(bytes + len + RELAY_HEAD_SIZE, requests[i].ptr, requests[i].len);
        len += RELAY_HEAD_SIZE + requests[i].len;
    }
    assert_int_equal(send(fd, bytes, len, 0), len);
    hand_expect(fd, RELAY_DONE, CHANGED, 1, 1, NOTHING);
    hand_expect(fd, RELAY_ANSWER, RELAY_KNOWN, 1, 2, TEXT(VALUE_V));
    hand_lose_link(fd);
}

static void sessions_wait_for_each_other(void **state)
{
    int fd = hand_connect();

    (void)state;
    hand_open(fd, 1, 11);
    hand_open(fd, 2, 12);
    hand_request(fd, 1, 1, TEXT(WAIT_K));
    hand_expect_nothing(fd);
    hand_request(fd, 2, 1, TEXT(SET_K));
    hand_expect(fd, RELAY_DONE, CHANGED, 2, 1, NOTHING);
    hand_expect(fd, RELAY_ANSWER, RELAY_KNOWN, 1, 1, "\0", 1);
    hand_request(fd, 1, 2, TEXT(BARRIER_2));
    hand_expect_nothing(fd);
    hand_request(fd, 2, 2, TEXT(BARRIER_2));
    hand_expect(fd, RELAY_ANSWER, CHANGED, 2, 2, "\0", 1);
    hand_expect(fd, RELAY_ANSWER, CHANGED, 1, 2, "\0", 1);
    hand_lose_link(fd);
}

static void a_wait_is_cancelled(void **state)
{
    int fd = hand_connect();

    (void)state;
    hand_open(fd, 1, 11);
    hand_request(fd, 1, 1, TEXT(WAIT_K));
    hand_request(fd, 1, 2, TEXT(CANCEL));
    hand_expect(fd, RELAY_ANSWER, RELAY_KNOWN, 1, 2, "\1", 1);
    hand_request(fd, 1, 3, TEXT(SET_K));
    hand_expect(fd, RELAY_DONE, CHANGED, 1, 3, NOTHING);
    hand_lose_link(fd);
}

static void a_relay_may_have_a_space_of_its_own(void **state)
{
    int fd, other;

    (void)state;
    fd = hand_say_hello("jobA", 1, 1);
    assert_int_equal(hand_next(fd).kind, RELAY_WELCOME);
    other = hand_connect();
    hand_open(fd, 1, 11);
    hand_open(other, 1, 11); /* the same number, and another session */
    hand_request(fd, 1, 1, TEXT(SET_K));
    hand_expect(fd, RELAY_DONE, CHANGED, 1, 1, NOTHING);
    hand_request(other, 1, 1, TEXT(GET_K));
    hand_expect(other, RELAY_ANSWER, RELAY_KNOWN, 1, 1, TEXT("\0\0\0\0\0\0\0\0"));
    hand_lose_link(fd);
    hand_lose_link(other);
}

/* --- Sessions and their links. --- */

static void a_session_moves_to_another_link(void **state)
{
    int fd, other;

    (void)state;
    fd = hand_connect();
    hand_open(fd, 1, 11);
    hand_request(fd, 1, 1, TEXT(ADD_N));
    hand_expect(fd, RELAY_ANSWER, CHANGED, 1, 1, TEXT(ONE));
    other = hand_connect();
    hand_resume(other, 9, 11, RELAY_KNOWN | RELAY_ANSWERED, 1, TEXT(ONE));
    assert_int_equal(hand_next(fd).kind, RELAY_ENDED);
    hand_request(fd, 1, 2, TEXT(ADD_N)); /* of a relay that has not heard yet */
    hand_expect_nothing(fd);
    hand_request(other, 9, 2, TEXT(ADD_N));
    hand_expect(other, RELAY_ANSWER, CHANGED, 9, 2, TEXT(TWO));
    hand_lose_link(fd);
    hand_lose_link(other);
}

/* What a relay had sent before it lost that link comes behind what it says on the next one. */
static void a_session_does_not_move_back_to_a_link_that_was_lost(void **state)
{
    int lost = hand_connect(), next = hand_connect();

    (void)state;
    hand_send_open_of(next, 2, 1, 11, true);
    hand_expect(next, RELAY_OPENED, 0, 1, 0, NOTHING);
    hand_request(next, 1, 1, TEXT(ADD_N));
    hand_expect(next, RELAY_ANSWER, CHANGED, 1, 1, TEXT(ONE));
    hand_send_open_of(lost, 1, 5, 11, false);
    hand_request(lost, 5, 1, TEXT(ADD_N));
    hand_expect_nothing(lost);
    hand_lose_link(lost);
    hand_request(next, 1, 2, TEXT(ADD_N));
    hand_expect(next, RELAY_ANSWER, CHANGED, 1, 2, TEXT(TWO));
    hand_lose_link(next);
}

static void a_session_without_its_relay_ends_in_time(void **state)
{
    int fd = hand_connect();

    (void)state;
    hand_open(fd, 1, 11);
    hand_request(fd, 1, 1, TEXT(SET_K));
    hand_request(fd, 1, 2, TEXT(WAIT_J));
    hand_expect_executed(fd);
    hand_lose_link(fd);
    hand_tick_after(44000);
    assert_int_equal(loop.server.store.links.sessions.count, 1);
    hand_tick_after(1000);
    assert_int_equal(loop.server.store.links.sessions.count, 0);
    assert_true(loop_logged(&loop, "session_timeout"));
    assert_true(loop_logged(&loop, "127.0.0.1:7 via node-7"));
    fd = hand_connect();
    hand_resume(fd, 1, 11, 0, 0, NOTHING); /* it is not known any more */
    hand_lose_link(fd);
}

static void a_session_that_no_relay_opens_after_a_start_ends_in_time(void **state)
{
    int fd;

    (void)state;
    hand_store_open();
    fd = hand_connect();
    hand_open(fd, 1, 11);
    hand_open(fd, 2, 12);
    hand_request(fd, 1, 1, TEXT(SET_K));
    hand_request(fd, 2, 1, TEXT(SET_K));
    hand_expect_executed(fd);
    hand_store_restart(fd);
    fd = hand_connect();
    hand_resume(fd, 1, 12, RELAY_KNOWN, 1, NOTHING);
    hand_tick_after(60000);
    hand_resume(fd, 2, 11, 0, 0, NOTHING);
    hand_expect_nothing(fd);
    hand_lose_link(fd);
    fd = hand_connect();
    hand_resume(fd, 1, 12, RELAY_KNOWN, 1, NOTHING);
    hand_lose_link(fd);
    hand_store_close();
}

/* Many such sessions end bit by bit, as soon as the journal takes that. */
static void sessions_that_no_relay_opens_end_bit_by_bit(void **state)
{
    enum { MANY = 2500 };
    struct engine *e = &loop.server.engine;
    struct engine_space *space;
    int fd;

    (void)state;
    hand_store_open();
    space = TAILQ_FIRST(&e->spaces);
    for (uint64_t id = 1; id <= MANY; id++)
        assert_int_equal(engine_session_bind(e, space, id, false, 0), STORE_OK);
    loop_iterate(&loop);
    fd = loop_connect(&loop, false);
    hand_store_restart(fd);
    space = TAILQ_FIRST(&e->spaces);
    assert_int_equal(space->store->sessions.table.count, MANY);
    fd = hand_connect();
    hand_resume(fd, 1, 1500, RELAY_KNOWN, 0, NOTHING);
    e->batch.refuses = true;
    hand_tick_after(60000);
    assert_int_equal(space->store->sessions.table.count, MANY);
    e->batch.refuses = false;
    for (size_t left = MANY - 1000; left > 1000; left -= 1000) {
        hand_tick_after(0);
        assert_int_equal(space->store->sessions.table.count, left);
    }
    hand_tick_after(0);
    hand_tick_after(0);
    assert_int_equal(space->store->sessions.table.count, 1);
    assert_false(loop.server.store.links.sweeps);
    hand_lose_link(fd);
    hand_store_close();
}

static size_t count_held(void)
{
    const struct conn *c;
    size_t count = 0;

    TAILQ_FOREACH(c, &loop.server.net.held, deferred)
        count++;
    return count;
}

/* They wait for the journal, and go on bit by bit. */
static void held_sessions_go_on_bit_by_bit(void **state)
{
    enum { MANY = 9000, AT_A_TIME = 4096 };
    struct engine *e = &loop.server.engine;
    size_t held = 0;
    int fd;

    (void)state;
    hand_store_open();
    fd = hand_connect();
    for (uint32_t i = 1; i <= MANY; i++)
        hand_open(fd, i, i);
    e->batch.refuses = true;
    for (uint32_t i = 1; i <= MANY; i++)
        hand_request(fd, i, 1, TEXT(ADD_N));
    LOOP_UNTIL(&loop, count_held() == MANY);
    e->batch.refuses = false;
    for (held = MANY; held > AT_A_TIME; held -= AT_A_TIME) {
        loop_iterate(&loop);
        assert_int_equal(count_held(), held - AT_A_TIME);
    }
    loop_iterate(&loop);
    assert_int_equal(count_held(), 0);
    for (uint32_t i = 1; i <= MANY; i++)
        assert_int_equal(hand_next(fd).kind, RELAY_ANSWER);
    hand_lose_link(fd);
    hand_end_all_sessions();
    hand_store_close();
}

static void a_session_may_be_one_too_many(void **state)
{
    int fd;

    (void)state;
    loop_open(&loop, (const char *const[]){"--connection-limit=3", NULL});
    fd = hand_connect();
    hand_open(fd, 1, 11);
    hand_open(fd, 2, 12);
    hand_send_open(fd, 3, 13, false);
    assert_int_equal(hand_next(fd).kind, RELAY_ENDED);
    hand_send(fd, RELAY_CLOSE, 0, 1, 0, NOTHING);
    hand_open(fd, 4, 13);
    hand_lose_link(fd);
    loop_close(&loop);
}

/* Also without --connection-limit. */
static void a_link_has_so_many_sessions_at_most(void **state)
{
    struct relay_frame frame;
    int fd;

    (void)state;
    assert_int_equal(loop.server.store.links.clients_max, RELAY_CLIENTS_MAX);
    loop.server.store.links.clients_max = 3;
    fd = hand_connect();
    for (uint32_t i = 1; i <= 3; i++)
        hand_open(fd, i, i);
    hand_send_open(fd, 4, 4, false);
    frame = hand_next(fd);
    assert_int_equal(frame.kind, RELAY_ENDED);
    assert_true(slice_is(frame.payload, "its relay has reached the limit of clients"));
    hand_send(fd, RELAY_CLOSE, 0, 1, 0, NOTHING);
    hand_open(fd, 5, 4);
    hand_lose_link(fd);
}

/* Channels with any numbers; one link, one session each. */
static void many_sessions_are_opened_and_closed(void **state)
{
    enum { MANY = 20000 };
    int fd;

    (void)state;
    loop_open(&loop, (const char *const[]){"--memory-limit=40MiB", NULL});
    fd = hand_connect();
    for (uint32_t i = 1; i <= MANY; i++) {
        hand_send_open(fd, i * 0x9e3779b1u, i, false);
        if (hand_next(fd).kind == RELAY_ENDED)
            break;
    }
    assert_in_range(loop.server.engine.stats.sessions_attached, 1000, MANY);
    hand_send(fd, RELAY_PING, 0, 0, 5, NOTHING);
    hand_expect(fd, RELAY_PONG, 0, 0, 5, NOTHING);
    hand_lose_link(fd);
    hand_end_all_sessions();
    loop_close(&loop);
}

static void requests_before_close_are_executed(void **state)
{
    int fd = hand_connect();

    (void)state;
    hand_open(fd, 1, 11);
    hand_open(fd, 2, 12);
    hand_request(fd, 1, 1, TEXT(ADD_N));
    hand_send(fd, RELAY_CLOSE, 0, 1, 0, NOTHING);
    hand_send(fd, RELAY_CLOSE, 0, 1, 0, NOTHING);
    hand_request(fd, 2, 1, TEXT(GET_N));
    do
        assert_int_not_equal(loop.server.engine.stats.relay_links, 0);
    while (hand_next(fd).channel != 2);
    assert_int_equal(loop.server.store.links.sessions.count, 1);
    hand_lose_link(fd);
}

/* A stop ends no session: the next start goes on with it. */
static void a_stop_lets_sessions_live(void **state)
{
    int fd, other;

    (void)state;
    hand_store_open();
    fd = hand_connect();
    hand_open(fd, 1, 11);
    hand_request(fd, 1, 1, TEXT(ADD_N));
    hand_expect(fd, RELAY_ANSWER, CHANGED, 1, 1, TEXT(ONE));
    other = hand_connect();
    hand_open(other, 1, 12);
    hand_request(other, 1, 1, TEXT(WAIT_K));
    hand_lose_link(other);
    assert_int_equal(kill(getpid(), SIGTERM), 0);
    LOOP_UNTIL(&loop, loop.server.net.conn_count == 0); /* one had a link, and one had none */
    hand_store_restart(fd);
    fd = hand_connect();
    hand_resume(fd, 1, 11, RELAY_KNOWN | RELAY_ANSWERED, 1, TEXT(ONE));
    hand_send(fd, RELAY_CLOSE, 0, 1, 0, NOTHING);
    hand_expect_nothing(fd);
    hand_store_restart(fd);
    fd = hand_connect();
    hand_resume(fd, 1, 11, 0, 0, NOTHING); /* it has ended for good */
    hand_lose_link(fd);
    hand_store_close();
}

/* After a start, who is back first does not have the space forgotten for the others when it goes.
 */
static void a_space_is_in_use_while_sessions_are_to_come_back(void **state)
{
    struct engine_space *space;
    int fd;

    (void)state;
    hand_store_open();
    fd = hand_connect();
    hand_open(fd, 1, 11);
    hand_open(fd, 2, 12);
    hand_request(fd, 1, 1, TEXT(SET_K));
    hand_request(fd, 2, 1, TEXT(ADD_N));
    hand_expect_executed(fd);
    hand_store_restart(fd);
    loop.server.engine.options.space_idle_timeout_ms = 1;
    space = TAILQ_FIRST(&loop.server.engine.spaces);
    fd = hand_connect();
    hand_resume(fd, 1, 11, RELAY_KNOWN, 1, NOTHING);
    hand_send(fd, RELAY_CLOSE, 0, 1, 0, NOTHING);
    hand_expect_nothing(fd);
    space->idle_since_ms -= 1000;
    engine_tick(&loop.server.engine);
    assert_non_null(keymap_get(&space->store->keys, slice_str("/k")));
    hand_resume(fd, 2, 12, RELAY_KNOWN | RELAY_ANSWERED, 1, TEXT(ONE));
    hand_send(fd, RELAY_CLOSE, 0, 2, 0, NOTHING);
    hand_expect_nothing(fd);
    space->idle_since_ms -= 1000;
    engine_tick(&loop.server.engine);
    assert_null(keymap_get(&space->store->keys, slice_str("/k")));
    hand_lose_link(fd);
    hand_store_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LOOP_TEST(requests_are_answered_and_confirmed),
        LOOP_TEST(a_request_that_is_kept_comes_without_its_bytes),
        LOOP_TEST(a_change_is_told_by_its_own_number),
        LOOP_TEST(sessions_wait_for_each_other),
        LOOP_TEST(a_wait_is_cancelled),
        LOOP_TEST(a_relay_may_have_a_space_of_its_own),
        LOOP_TEST(a_session_moves_to_another_link),
        LOOP_TEST(a_session_does_not_move_back_to_a_link_that_was_lost),
        LOOP_TEST(a_session_without_its_relay_ends_in_time),
        cmocka_unit_test(a_session_that_no_relay_opens_after_a_start_ends_in_time),
        cmocka_unit_test(sessions_that_no_relay_opens_end_bit_by_bit),
        cmocka_unit_test(held_sessions_go_on_bit_by_bit),
        cmocka_unit_test(a_session_may_be_one_too_many),
        LOOP_TEST(a_link_has_so_many_sessions_at_most),
        cmocka_unit_test(many_sessions_are_opened_and_closed),
        LOOP_TEST(requests_before_close_are_executed),
        cmocka_unit_test(a_stop_lets_sessions_live),
        cmocka_unit_test(a_space_is_in_use_while_sessions_are_to_come_back),
    };

    return cmocka_run_group_tests_name("rdzv/relay/link", tests, NULL, NULL);
}
