/* How bytes flow over a link: requests and answers in parts, relays that do not read,
 * confirmations, and a slow journal. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "proto/relay.h"
#include "rdzv/relay/link_session.h"
#include "tests/loop/hand.h"

/* --- Large requests and answers. --- */

/* The answer, with its length before it, in whatever frames it comes. */
static void expect_large(int fd, enum relay_kind kind, uint64_t number, size_t skip,
                         const uint8_t *value, size_t len)
{
    size_t have = 0, whole = skip + 8 + len;
    bool more = true;

    while (more) {
        struct relay_frame frame = hand_next(fd);

        assert_int_equal(frame.kind, kind);
        assert_int_equal(frame.number, number);
        assert_true(have + frame.payload.len <= whole);
        for (size_t i = 0; i < frame.payload.len; i++, have++) {
            if (have >= skip + 8)
                assert_int_equal(frame.payload.ptr[i], value[have - skip - 8]);
        }
        more = (frame.flags & RELAY_MORE) != 0;
        kind = RELAY_ANSWER;
    }
    assert_int_equal(have, whole);
}

static void large_values_go_in_parts(void **state)
{
    static const size_t lengths[] = {300, 5000, RELAY_PAYLOAD_MAX - 8, RELAY_PAYLOAD_MAX, 3000000};

    (void)state;
    for (size_t i = 0; i < COUNT(lengths); i++) {
        uint8_t *set = hand_large_request(1, "/k", lengths[i]);
        int fd;

        loop_open(&loop, NULL);
        fd = hand_connect();
        hand_open(fd, 1, 11);
        hand_request_in_parts(fd, 1, 1, set, 19 + lengths[i]);
        hand_expect(fd, RELAY_DONE, CHANGED, 1, 1, NOTHING);
        hand_request(fd, 1, 2, TEXT(GET_K));
        expect_large(fd, RELAY_ANSWER, 2, 0, set + 19, lengths[i]);
        hand_lose_link(fd);
        loop_close(&loop);
        free(set);
    }
}

/* The element that was taken off a queue, and whose answer was lost. */
static void a_large_element_is_told_again(void **state)
{
    static const size_t lengths[] = {300, 5000, 200000};

    (void)state;
    for (size_t i = 0; i < COUNT(lengths); i++) {
        uint8_t *push = hand_large_request(0x0e, "/q", lengths[i]);
        int fd;

        hand_store_open();
        fd = hand_connect();
        hand_open(fd, 1, 11);
        hand_request_in_parts(fd, 1, 1, push, 19 + lengths[i]);
        hand_request(fd, 1, 2, TEXT(POP_Q));
        hand_expect_executed(fd);
        hand_lose_link(fd);
        fd = hand_connect();
        hand_send_open(fd, 1, 11, true);
        expect_large(fd, RELAY_OPENED, 2, 8, push + 19, lengths[i]);
        hand_store_restart(fd);
        fd = hand_connect();
        hand_send_open(fd, 1, 11, true);
        expect_large(fd, RELAY_OPENED, 2, 8, push + 19, lengths[i]);
        hand_request(fd, 1, 3, TEXT(LEN_Q));
        hand_expect(fd, RELAY_ANSWER, RELAY_KNOWN, 1, 3, TEXT("\0\0\0\0\0\0\0\0"));
        hand_lose_link(fd);
        hand_store_close();
        free(push);
    }
}

/* The link is lost in the middle of a request, and of one that takes several turns. */
static void half_a_request_is_forgotten(void **state)
{
    size_t len = 2000000;
    uint8_t *set = hand_large_request(1, "/k", len);

    (void)state;
    for (int turns = 0; turns < 3; turns++) {
        int fd;

        loop_open(&loop, NULL);
        fd = hand_connect();
        hand_open(fd, 1, 11);
        hand_send(fd, RELAY_REQUEST, RELAY_MORE, 1, 1, set, 1000);
        if (turns > 0)
            hand_request_in_parts(fd, 1, 1, set + 1000, 19 + len - 1000);
        if (turns > 1)
            hand_expect(fd, RELAY_DONE, CHANGED, 1, 1, NOTHING);
        hand_lose_link(fd);
        fd = hand_connect();
        hand_send_open(fd, 1, 11, true);
        if (hand_next(fd).number == 0) {
            hand_request_in_parts(fd, 1, 1, set, 19 + len);
            hand_expect(fd, RELAY_DONE, CHANGED, 1, 1, NOTHING);
        }
        hand_request(fd, 1, 2, TEXT(GET_K));
        expect_large(fd, RELAY_ANSWER, 2, 0, set + 19, len);
        hand_lose_link(fd);
        loop_close(&loop);
    }
    free(set);
}

/* --- Flow. --- */

/* A relay does not read: its sessions wait, those of others do not; and all goes on when it does.
 */
static void a_relay_that_does_not_read_holds_up_no_other(void **state)
{
    enum { SESSIONS = 8 };
    size_t len = 1000000;
    uint8_t *set = hand_large_request(1, "/k", len);
    size_t have[SESSIONS] = {0};
    int slow, other, small = 32768;

    (void)state;
    loop_open(&loop, NULL);
    slow = hand_connect();
    setsockopt(slow, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    setsockopt(loop_conn(&loop, slow)->fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
    other = hand_connect();
    hand_open(other, 1, 99);
    hand_request_in_parts(other, 1, 1, set, 19 + len);
    hand_expect(other, RELAY_DONE, CHANGED, 1, 1, NOTHING);
    for (uint32_t i = 0; i < SESSIONS; i++)
        hand_open(slow, i + 1, i + 1);
    for (uint32_t i = 0; i < SESSIONS; i++)
        hand_request(slow, i + 1, 1, TEXT(GET_K));
    LOOP_UNTIL(&loop, loop_conn(&loop, slow)->output == OUTPUT_BLOCKED);
    assert_in_range(loop_conn(&loop, slow)->out.bytes, 1, 2 * RELAY_LINK_QUEUE_MAX);
    hand_request(other, 1, 2, TEXT(ADD_N));
    hand_expect(other, RELAY_ANSWER, CHANGED, 1, 2, TEXT(ONE));
    for (size_t left = SESSIONS; left > 0;) {
        struct relay_frame frame = hand_next(slow);

        assert_int_equal(frame.kind, RELAY_ANSWER);
        assert_in_range(frame.channel, 1, SESSIONS);
        have[frame.channel - 1] += frame.payload.len;
        left -= (frame.flags & RELAY_MORE) == 0;
        for (uint32_t i = 1; i < SESSIONS; i++) /* they take turns; the first was alone at first */
            assert_true(frame.channel == 1 ||
                        have[i] + 3 * RELAY_PAYLOAD_MAX >= have[frame.channel - 1]);
    }
    for (size_t i = 0; i < SESSIONS; i++)
        assert_int_equal(have[i], 8 + len);
    hand_expect_nothing(slow);
    hand_lose_link(slow);
    hand_lose_link(other);
    loop_close(&loop);
    free(set);
}

/* Many requests without an answer are confirmed together. */
static void confirmations_of_one_iteration_are_one(void **state)
{
    uint8_t bytes[64 * (RELAY_HEAD_SIZE + sizeof SET_K - 1)];
    size_t len = 0;
    int fd;

    (void)state;
    fd = hand_connect();
    hand_open(fd, 1, 11);
    for (uint64_t i = 1; i <= 64; i++) {
        relay_put_head(bytes + len, &(struct relay_frame){
                                        .kind = RELAY_REQUEST,
                                        .channel = 1,
                                        .number = i,
                                        .payload = {(const uint8_t *)SET_K, sizeof SET_K - 1}});
        memcpy(bytes + len + RELAY_HEAD_SIZE, SET_K, sizeof SET_K - 1);
        len += RELAY_HEAD_SIZE + sizeof SET_K - 1;
    }
    assert_int_equal(send(fd, bytes, len, 0), len);
    hand_expect(fd, RELAY_DONE, CHANGED, 1, 64, NOTHING);
    hand_expect_nothing(fd);
    hand_lose_link(fd);
}

/* The journal is slow: nothing of it is told, and what comes first goes first. */
static uint64_t kept; /* the batch up to which the journal is durable */

static uint64_t slow_commit(void *arg, struct batch *batch)
{
    (void)arg;
    (void)batch;
    return kept;
}

static void nothing_is_told_before_it_is_committed(void **state)
{
    struct engine *e = &loop.server.engine;
    int fd, other;

    (void)state;
    fd = hand_connect();
    other = hand_connect();
    hand_open(fd, 1, 11);
    hand_open(fd, 2, 12);
    kept = e->committed;
    e->options.journal.commit = slow_commit;
    hand_request(fd, 1, 1, TEXT(SET_K));
    hand_request(fd, 2, 1, TEXT(ADD_N));
    hand_request(fd, 2, 2, TEXT(WAIT_J));
    hand_expect_nothing(fd); /* but PONG, which shows nothing */
    hand_send_open(other, 3, 12, true);
    hand_expect(fd, RELAY_ENDED, 0, 2, 0, TEXT("another link has opened the session"));
    hand_expect_nothing(other);
    kept = UINT64_MAX;
    engine_committed(e, e->batch.number - 1);
    hand_expect(fd, RELAY_DONE, CHANGED, 1, 1, NOTHING);
    hand_expect_nothing(fd);
    hand_expect(other, RELAY_OPENED, RELAY_KNOWN | RELAY_ANSWERED, 3, 1, TEXT(ONE));
    e->options.journal.commit = NULL;
    hand_lose_link(fd);
    hand_lose_link(other);
}

/* A disk is full: what changes something waits, and reads go on, those of a session that was there
 * before a start of the store, too. */
static void reads_go_on_while_nothing_may_change(void **state)
{
    struct engine *e = &loop.server.engine;

    (void)state;
    for (int restart = 0; restart < 2; restart++) {
        int fd;

        hand_store_open();
        fd = hand_connect();
        hand_open(fd, 1, 11);
        hand_request(fd, 1, 1, TEXT(ADD_N));
        hand_expect(fd, RELAY_ANSWER, CHANGED, 1, 1, TEXT(ONE));
        if (restart) {
            hand_store_restart(fd);
            fd = hand_connect();
            hand_send_open(fd, 1, 11, true);
            assert_int_equal(hand_next(fd).kind, RELAY_OPENED);
        }
        e->batch.refuses = true;
        hand_request(fd, 1, 2, TEXT(GET_K));
        assert_int_equal(hand_next(fd).number, 2);
        hand_request(fd, 1, 3, TEXT(SET_K));
        hand_expect_nothing(fd);
        e->batch.refuses = false;
        hand_lose_link(fd);
        hand_store_close();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(large_values_go_in_parts),
        cmocka_unit_test(a_large_element_is_told_again),
        cmocka_unit_test(half_a_request_is_forgotten),
        cmocka_unit_test(a_relay_that_does_not_read_holds_up_no_other),
        LOOP_TEST(confirmations_of_one_iteration_are_one),
        LOOP_TEST(nothing_is_told_before_it_is_committed),
        cmocka_unit_test(reads_go_on_while_nothing_may_change),
    };

    return cmocka_run_group_tests_name("rdzv/relay/link, flow", tests, NULL, NULL);
}
