/* Connections of a real server, iteration by iteration: idle and half-closed peers, those who wait,
 * spaces that are left, and answers that wait for their commit. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/loop/harness.h"
#include "tests/loop/requests.h"

/* --- Idle. --- */

static void an_idle_peer_costs_its_struct_alone(void **state)
{
    int fd;
    struct conn *c;

    (void)state;
    fd = loop_connect_modern(&loop);
    loop_send(&loop, fd, TEXT(SET_K GET_K));
    loop_expect(&loop, fd, TEXT(VALUE_V));
    c = loop_conn(&loop, fd);
    assert_null(c->in);
    assert_true(TAILQ_EMPTY(&c->out.parts));
    assert_int_equal(c->stalled_ms, 0);
    transport_drop_stalled(&loop.server.net, UINT64_MAX); /* no peer is stalled */
    loop_iterate(&loop);
    assert_ptr_equal(loop_conn(&loop, fd), c);
    loop_leave(&loop, fd);
}

static void clients_that_come_and_go_leave_no_trace(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++)
        loop_leave(&loop, loop_connect(&loop, false));
    assert_int_equal(lseek(loop.log_fd, 0, SEEK_END), 0);
    assert_int_equal(loop.server.net.conn_count, 0);
}

static void a_silent_peer_is_undecided_for_ever(void **state)
{
    int fd = loop_connect(&loop, false);

    (void)state;
    transport_drop_stalled(&loop.server.net, UINT64_MAX);
    loop_expect_silence(&loop, fd);
    loop_send(&loop, fd, TEXT("\5\0\0\0\0\0\0\0\0")); /* a legacy WAIT for nothing */
    loop_expect(&loop, fd, "\0", 1);
    loop_leave(&loop, fd);
}

static void an_announced_length_takes_no_memory(void **state)
{
    struct conn *c;
    int fd;

    (void)state;
    fd = loop_connect_modern(&loop);
    loop_send(&loop, fd,
              TEXT("\1\2\0\0\0\0\0\0\0/k\0\0\x80\0\0\0\0\0"
                   "ab")); /* of 8 MiB */
    c = loop_conn(&loop, fd);
    assert_non_null(c->in);
    assert_in_range(c->in->cap, 1, 64 << 10);
    loop_send(&loop, fd, TEXT("cdefgh"));
    assert_in_range(c->in->cap, 1, 64 << 10);
    loop_leave(&loop, fd);
}

/* --- Half-closed. --- */

static void requests_before_the_end_are_answered(void **state)
{
    static const struct {
        const char *name, *request;
        size_t len;
        const char *answer;
        size_t answer_len;
    } rows[] = {
        {"c10d", TEXT(VALIDATE SET_K GET_K PING), TEXT(VALUE_V "abcd")},
        {"c10d, half a request behind", TEXT(VALIDATE SET_K GET_K "\1\2\0"), TEXT(VALUE_V)},
        {"c10d-legacy", TEXT("\6"), TEXT("\0\0\0\0\0\0\0\0")},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        int fd;

        print_message("  %s\n", rows[i].name);
        loop_open(&loop, NULL);
        fd = loop_connect(&loop, false);
        loop_send(&loop, fd, rows[i].request, rows[i].len);
        shutdown(fd, SHUT_WR);
        loop_expect(&loop, fd, rows[i].answer, rows[i].answer_len);
        loop_expect_end(&loop, fd);
        LOOP_UNTIL(&loop, loop_conn(&loop, fd) == NULL);
        close(fd);
        loop_close(&loop);
    }
}

/* All of it in one segment with the FIN, so that the end may be seen with the bytes. */
static void a_set_just_before_the_end_is_kept(void **state)
{
    int fd, other;

    (void)state;
    fd = loop_connect(&loop, false);
    assert_int_equal(send(fd, TEXT(VALIDATE SET_K), 0), sizeof VALIDATE SET_K - 1);
    close(fd);
    other = loop_connect_modern(&loop);
    loop_send(&loop, other, TEXT(GET_K));
    loop_expect(&loop, other, TEXT(VALUE_V));
    loop_leave(&loop, other);
}

static void a_half_closed_slow_reader_gets_everything(void **state)
{
    enum { LEN = 3000000 };
    uint8_t length[8];
    char *value = malloc(LEN);
    int fd, writer;

    (void)state;
    assert_non_null(value);
    memset(value, 'x', LEN);
    bytes_put_u64(length, LEN);
    writer = loop_connect_modern(&loop);
    loop_set_large(&loop, writer, LEN);
    fd = loop_connect(&loop, true);
    loop_send(&loop, fd, TEXT(VALIDATE GET_K));
    shutdown(fd, SHUT_WR);
    LOOP_UNTIL(&loop, loop_conn(&loop, fd)->end == CONN_FINISHING);
    assert_int_equal(loop_conn(&loop, fd)->output, OUTPUT_BLOCKED);
    loop_expect(&loop, fd, length, 8);
    loop_expect(&loop, fd, value, LEN);
    loop_expect_end(&loop, fd);
    loop_leave(&loop, writer);
    close(fd);
    free(value);
}

static void a_client_that_leaves_ends_its_wait(void **state)
{
    struct space *space;
    int fd, barrier, writer;

    (void)state;
    writer = loop_connect_modern(&loop);
    fd = loop_connect_modern(&loop);
    barrier = loop_connect_modern(&loop);
    loop_send(&loop, fd, TEXT(WAIT_K));
    loop_send(&loop, barrier, TEXT(BARRIER_2));
    space = TAILQ_FIRST(&loop.server.engine.store.spaces);
    LOOP_UNTIL(&loop, space->keys.waiters == 2);
    shutdown(fd, SHUT_WR);
    loop_expect_end(&loop, fd);
    close(fd);
    loop_leave(&loop, barrier);
    assert_int_equal(space->keys.waiters, 0);
    assert_int_equal(space->keys.keys.count, 1); /* the barrier's count */
    loop_send(&loop, writer, TEXT(SET_K PING));
    loop_expect(&loop, writer, "abcd", 4);
    loop_leave(&loop, writer);
}

/* A peer that is woken and leaves in the same iteration. */
static void a_woken_peer_may_be_gone_already(void **state)
{
    (void)state;
    for (int order = 0; order < 2; order++) {
        int fd, writer;

        loop_open(&loop, NULL);
        fd = loop_connect_modern(&loop);
        writer = loop_connect_modern(&loop);
        loop_send(&loop, fd, TEXT(WAIT_K));
        loop_expect_silence(&loop, fd);
        if (order == 0)
            close(fd);
        assert_int_equal(send(writer, TEXT(SET_K PING), 0), sizeof SET_K PING - 1);
        if (order == 1)
            close(fd);
        loop_iterate(&loop);
        loop_expect(&loop, writer, "abcd", 4);
        loop_leave(&loop, writer);
        LOOP_UNTIL(&loop, loop.server.net.conn_count == 0);
        loop_close(&loop);
    }
}

/* --- Waiting. --- */

static void all_who_wait_are_woken_once(void **state)
{
    int fds[20], writer;

    (void)state;
    writer = loop_connect_modern(&loop);
    for (size_t i = 0; i < COUNT(fds); i++) {
        fds[i] = loop_connect_modern(&loop);
        loop_send(&loop, fds[i], TEXT(WAIT_K));
    }
    loop_expect_silence(&loop, fds[0]);
    loop_send(&loop, writer, TEXT(SET_K SET_K PING));
    loop_expect(&loop, writer, "abcd", 4);
    for (size_t i = 0; i < COUNT(fds); i++) {
        loop_expect(&loop, fds[i], "\0", 1);
        loop_expect_silence(&loop, fds[i]);
        loop_send(&loop, fds[i], TEXT(GET_K));
        loop_expect(&loop, fds[i], TEXT(VALUE_V));
        loop_leave(&loop, fds[i]);
    }
    loop_leave(&loop, writer);
}

/* The wait is fulfilled and cancelled in one iteration: 0, then 1, the one order that clients
 * accept. */
static void a_cancel_that_comes_too_late_is_answered_behind_the_wake(void **state)
{
    (void)state;
    for (int order = 0; order < 2; order++) {
        int fd, writer;

        loop_open(&loop, NULL);
        fd = loop_connect_modern(&loop);
        writer = loop_connect_modern(&loop);
        loop_send(&loop, fd, TEXT(WAIT_K));
        loop_expect_silence(&loop, fd);
        if (order == 0)
            assert_int_equal(send(fd, CANCEL, 1, 0), 1);
        assert_int_equal(send(writer, TEXT(SET_K), 0), sizeof SET_K - 1);
        if (order == 1)
            assert_int_equal(send(fd, CANCEL, 1, 0), 1);
        /* Which of the two comes first is the kernel's choice; a 0 behind the 1 is always wrong. */
        if (loop_next_byte(&loop, fd) == 0)
            assert_int_equal(loop_next_byte(&loop, fd), 1);
        loop_expect_silence(&loop, fd);
        loop_send(&loop, fd, TEXT(PING));
        loop_expect(&loop, fd, "abcd", 4);
        loop_leave(&loop, fd);
        loop_leave(&loop, writer);
        loop_close(&loop);
    }
}

/* In one segment with the WAIT and its fulfilment by the same peer: 0 1, never 1 0. */
static void requests_behind_a_wait_keep_their_order(void **state)
{
    int fd = loop_connect_modern(&loop);

    (void)state;
    loop_send(&loop, fd, TEXT(WAIT_K SET_K CANCEL PING));
    loop_expect(&loop, fd, "\0\1abcd", 6);
    loop_send(&loop, fd, TEXT(WAIT_J CANCEL PING));
    loop_expect(&loop, fd, "\1abcd", 5);
    loop_leave(&loop, fd);
}

static void a_legacy_peers_next_request_ends_its_wait(void **state)
{
    int fd = loop_connect(&loop, false), writer = loop_connect_modern(&loop);

    (void)state;
    loop_send(&loop, fd, TEXT("\5\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0/k")); /* WAIT */
    loop_expect_silence(&loop, fd);
    /* Only the first byte of it, as legacy clients send it: from now on a 0 would be misread. */
    loop_send(&loop, fd, TEXT("\3"));
    loop_send(&loop, writer, TEXT(SET_K PING));
    loop_expect(&loop, writer, "abcd", 4);
    loop_expect_silence(&loop, fd);
    loop_send(&loop, fd, TEXT("\2\0\0\0\0\0\0\0/n\1\0\0\0\0\0\0\0")); /* the rest of the ADD */
    loop_expect(&loop, fd, "\1\0\0\0\0\0\0\0", 8);
    loop_expect_silence(&loop, fd);
    loop_leave(&loop, fd);
    loop_leave(&loop, writer);
}

/* --- Cut for what it sent. --- */

static void an_offence_is_answered_up_to_it(void **state)
{
    int fd = loop_connect(&loop, false);

    (void)state;
    loop_send(&loop, fd, TEXT(VALIDATE SET_K GET_K "\x7f" PING));
    loop_expect(&loop, fd, TEXT(VALUE_V));
    loop_expect_end(&loop, fd);
    LOOP_UNTIL(&loop, loop_conn(&loop, fd) == NULL);
    assert_true(loop_logged(&loop, "reason=\"unknown opcode\""));
    close(fd);
}

/* --- Spaces that are left. --- */

static void a_space_that_is_left_is_forgotten_after_its_time(void **state)
{
    const char *const flags[] = {"--space-idle-timeout", "20ms", NULL};
    struct space *space;
    int fd;

    (void)state;
    loop_open(&loop, flags);
    space = TAILQ_FIRST(&loop.server.engine.store.spaces);
    fd = loop_connect_modern(&loop);
    loop_send(&loop, fd, TEXT(SET_K PING));
    loop_expect(&loop, fd, "abcd", 4);
    loop_leave(&loop, fd);
    assert_int_equal(space->keys.present, 1);
    fd = loop_connect_modern(&loop); /* somebody is back in time */
    {
        uint64_t later = engine_now_ms(&loop.server.engine) + 60;

        while (engine_now_ms(&loop.server.engine) < later)
            loop_iterate(&loop);
    }
    assert_int_equal(space->keys.present, 1);
    loop_leave(&loop, fd);
    {
        uint64_t patience = engine_now_ms(&loop.server.engine) + 10000;

        while (space->keys.present != 0 && engine_now_ms(&loop.server.engine) < patience)
            loop_iterate(&loop);
    }
    assert_int_equal(space->keys.present, 0);
    loop_close(&loop);
}

/* --- Answers and commits. --- */

static uint64_t nothing_is_durable(void *arg, struct batch *batch)
{
    (void)arg;
    (void)batch;
    return 0;
}

/* Each queued answer waits for the batch that it may show, and for no later one. */
static void an_answer_waits_for_its_commit(void **state)
{
    struct engine *e = &loop.server.engine;
    int writer, reader, early;

    (void)state;
    writer = loop_connect_modern(&loop);
    reader = loop_connect_modern(&loop);
    early = loop_connect(&loop, false);
    loop_send(&loop, early, TEXT(VALIDATE GET_K)); /* before anything has changed */
    e->options.journal.commit = nothing_is_durable;
    loop_send(&loop, writer, TEXT(SET_K));
    loop_send(&loop, reader, TEXT(GET_K));
    LOOP_UNTIL(&loop, loop_conn(&loop, reader)->output == OUTPUT_UNCOMMITTED);
    loop_expect(&loop, early, TEXT("\0\0\0\0\0\0\0\0"));
    assert_int_equal(loop_conn(&loop, reader)->output, OUTPUT_UNCOMMITTED);
    engine_committed(e, engine_watermark(e));
    loop_expect(&loop, reader, TEXT(VALUE_V));
    e->options.journal.commit = NULL;
    loop_leave(&loop, early);
    loop_leave(&loop, reader);
    loop_leave(&loop, writer);
}

/* One that has gone meanwhile is freed, and nothing is sent. */
static void a_peer_that_leaves_before_the_commit_is_forgotten(void **state)
{
    int writer = loop_connect_modern(&loop), reader = loop_connect_modern(&loop);

    (void)state;
    loop.server.engine.options.journal.commit = nothing_is_durable;
    loop_send(&loop, writer, TEXT(SET_K));
    loop_send(&loop, reader, TEXT(GET_K));
    LOOP_UNTIL(&loop, loop_conn(&loop, reader)->output == OUTPUT_UNCOMMITTED);
    conn_close(loop_conn(&loop, reader), "the test says so");
    loop_expect_end(&loop, reader);
    loop.server.engine.options.journal.commit = NULL;
    loop_leave(&loop, writer);
}

/* --- SIGTERM. --- */

static void a_stop_lets_queued_answers_leave(void **state)
{
    enum { LEN = 2000000 };
    uint8_t length[8];
    char *value = malloc(LEN);
    int slow, idle, waiting;

    (void)state;
    assert_non_null(value);
    memset(value, 'x', LEN);
    bytes_put_u64(length, LEN);
    idle = loop_connect_modern(&loop);
    loop_set_large(&loop, idle, LEN);
    waiting = loop_connect_modern(&loop);
    loop_send(&loop, waiting, TEXT(WAIT_J));
    slow = loop_connect(&loop, true);
    loop_send(&loop, slow, TEXT(VALIDATE GET_K));
    assert_int_equal(loop_conn(&loop, slow)->output, OUTPUT_BLOCKED);
    raise(SIGTERM);
    LOOP_UNTIL(&loop, loop.server.net.draining);
    loop_expect_end(&loop, idle);
    loop_expect_end(&loop, waiting);
    loop_expect(&loop, slow, length, 8);
    loop_expect(&loop, slow, value, LEN);
    loop_expect_end(&loop, slow);
    LOOP_UNTIL(&loop, loop.server.net.conn_count == 0);
    close(idle);
    close(waiting);
    close(slow);
    free(value);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LOOP_TEST(an_idle_peer_costs_its_struct_alone),
        LOOP_TEST(clients_that_come_and_go_leave_no_trace),
        LOOP_TEST(a_silent_peer_is_undecided_for_ever),
        LOOP_TEST(an_announced_length_takes_no_memory),
        cmocka_unit_test(requests_before_the_end_are_answered),
        LOOP_TEST(a_set_just_before_the_end_is_kept),
        LOOP_TEST(a_half_closed_slow_reader_gets_everything),
        LOOP_TEST(a_client_that_leaves_ends_its_wait),
        cmocka_unit_test(a_woken_peer_may_be_gone_already),
        LOOP_TEST(all_who_wait_are_woken_once),
        cmocka_unit_test(a_cancel_that_comes_too_late_is_answered_behind_the_wake),
        LOOP_TEST(requests_behind_a_wait_keep_their_order),
        LOOP_TEST(a_legacy_peers_next_request_ends_its_wait),
        LOOP_TEST(an_offence_is_answered_up_to_it),
        cmocka_unit_test(a_space_that_is_left_is_forgotten_after_its_time),
        LOOP_TEST(an_answer_waits_for_its_commit),
        LOOP_TEST(a_peer_that_leaves_before_the_commit_is_forgotten),
        LOOP_TEST(a_stop_lets_queued_answers_leave),
    };

    return cmocka_run_group_tests_name("rdzv/conn", tests, NULL, NULL);
}
