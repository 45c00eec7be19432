/* Relays that break the protocol: the server closes their links, serves other clients, and keeps no
 * memory of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "proto/relay.h"
#include "proto/relay.pb-c.h"
#include "rdzv/net/input.h"
#include "tests/loop/hand.h"

static void expect_dropped(int fd, const char *why)
{
    char byte;

    LOOP_UNTIL(&loop, loop.server.engine.stats.relay_links == 0);
    while (recv(fd, &byte, 1, 0) == 1)
        ;
    close(fd);
    assert_true(loop_logged(&loop, why));
}

/* The session of channel 1 ends, and the link goes on. */
static void expect_ended(int fd, const char *why)
{
    struct relay_frame frame = hand_next(fd);

    assert_int_equal(frame.kind, RELAY_ENDED);
    assert_int_equal(frame.channel, 1);
    assert_true(loop_logged(&loop, why));
    hand_open(fd, 2, 12);
    hand_request(fd, 2, 1, TEXT(SET_K));
    hand_expect(fd, RELAY_DONE, CHANGED, 2, 1, NOTHING);
    hand_lose_link(fd);
}

static void a_relay_is_refused(void **state)
{
    static const struct {
        const char *name, *space;
        uint32_t min, max;
        const char *why;
    } rows[] = {
        {"version", "default", 2, 9, "no version of the frames in common"},
        {"old version", "default", 0, 0, "upgrade the relay"},
        {"no version", "default", 2, 1, "no version of the frames in common"},
        {"space", "other", 1, 1,
         "--space=other, and this listener of the store takes only relays of space default"},
        {"name of a space", "../x", 1, 1, "is no valid name"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct relay_frame frame;
        struct listener *l;
        int fd;

        print_message("  %s\n", rows[i].name);
        loop_open(&loop, NULL);
        TAILQ_FOREACH(l, &loop.server.net.listeners, entry)
            ((struct listen_spec *)(uintptr_t)l->spec)->space_named = true;
        fd = hand_say_hello(rows[i].space, rows[i].min, rows[i].max);
        frame = hand_next(fd);
        assert_int_equal(frame.kind, RELAY_REFUSED);
        assert_int_not_equal(frame.payload.len, 0);
        loop_expect_end(&loop, fd);
        assert_true(loop_logged(&loop, rows[i].why));
        close(fd);
        loop_close(&loop);
    }
}

static void expect_gone(int fd)
{
    LOOP_UNTIL(&loop, loop_conn(&loop, fd) == NULL);
    close(fd);
    assert_true(loop_logged(&loop, "event=dropped"));
}

/* Each kind of frame before HELLO, and behind it. */
static void frames_of_no_relay_end_the_link(void **state)
{
    (void)state;
    for (uint8_t kind = 0; kind <= RELAY_KINDS; kind++) {
        for (int welcome = 0; welcome < 2; welcome++) {
            bool fine =
                welcome && (kind == RELAY_REQUEST || kind == RELAY_CLOSE || kind == RELAY_PING);
            int fd;

            loop_open(&loop, NULL);
            if (welcome) {
                fd = hand_connect();
            } else {
                fd = loop_connect(&loop, false);
                loop_send(&loop, fd, TEXT(RELAY_MAGIC));
            }
            hand_send(fd, kind, 0, 1, 1, TEXT("\xff\xff"));
            if (fine)
                hand_lose_link(fd);
            else
                expect_gone(fd);
            loop_close(&loop);
        }
    }
}

static void hostile_frames_end_the_session_or_the_link(void **state)
{
    static const struct {
        const char *name;
        uint32_t channel;
        uint64_t number;
        uint8_t flags;
        const char *request;
        size_t len;
        const char *why;
        bool alone; /* it ends the session, and not the link */
    } rows[] = {
        {"no channel", 0, 1, 0, TEXT(SET_K), "a request on no channel", false},
        {"number 0", 1, 0, 0, TEXT(SET_K), "a frame of another request", true},
        {"a number again", 1, 1, 0, TEXT(SET_K), "the number of a request", true},
        {"a number left out", 1, 3, 0, TEXT(SET_K), "the number of a request", true},
        {"half a request", 1, 2, 0, "\1\2\0\0", 4, "ends within a request", false},
        {"nothing", 1, 2, 0, "", 0, "ends within a request", false},
        {"like none", 1, 2, RELAY_SAME, "", 0, "a request like one that is not kept", false},
        {"more than there is", 1, 2, RELAY_MORE, TEXT(SET_K), "two requests in one frame", true},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        int fd;

        print_message("  %s\n", rows[i].name);
        loop_open(&loop, NULL);
        fd = hand_connect();
        hand_open(fd, 1, 11);
        hand_request(fd, 1, 1, TEXT(SET_K));
        hand_expect(fd, RELAY_DONE, CHANGED, 1, 1, NOTHING);
        hand_send(fd, RELAY_REQUEST, rows[i].flags, rows[i].channel, rows[i].number,
                  rows[i].request, rows[i].len);
        (rows[i].alone ? expect_ended : expect_dropped)(fd, rows[i].why);
        loop_close(&loop);
    }
}

static void two_requests_in_one_frame_end_the_session(void **state)
{
    int fd = hand_connect();

    (void)state;
    hand_open(fd, 1, 11);
    hand_request(fd, 1, 1, TEXT(ADD_N ADD_N));
    hand_expect(fd, RELAY_ANSWER, CHANGED, 1, 1, TEXT(ONE));
    assert_int_equal(hand_next(fd).kind, RELAY_ENDED);
    hand_open(fd, 2, 12);
    hand_request(fd, 2, 1, TEXT(GET_N));
    hand_expect(fd, RELAY_ANSWER, RELAY_KNOWN, 2, 1, TEXT(ONE "1"));
    hand_lose_link(fd);
}

/* Fields that nobody knows, of two bytes each: decoded, they are many times as long. */
static void a_long_hello_or_open_is_not_decoded(void **state)
{
    static uint8_t fields[RELAY_MESSAGE_MAX + 2];

    (void)state;
    for (size_t i = 0; i < sizeof fields; i += 2)
        fields[i] = 0x78; /* field 15, a number: 0 */
    for (int welcome = 0; welcome < 2; welcome++) {
        int fd;

        loop_open(&loop, NULL);
        if (welcome) {
            fd = hand_connect();
            memcpy(fields, "\x09\x0b\0\0\0\0\0\0\0\x10", 10); /* session 11, version 0 */
        } else {
            fd = loop_connect(&loop, false);
            loop_send(&loop, fd, TEXT(RELAY_MAGIC));
        }
        hand_send(fd, welcome ? RELAY_OPEN : RELAY_HELLO, 0, 2, 0, fields, sizeof fields);
        expect_dropped(fd, welcome ? "an OPEN that no relay sends" : "not HELLO");
        loop_close(&loop);
    }
}

/* The same, of a relay that brings HTTP, whether it comes bit by bit or at once. */
static void nor_is_one_before_http(void **state)
{
    static uint8_t bytes[RELAY_MAGIC_SIZE + RELAY_HEAD_SIZE + RELAY_MESSAGE_MAX + 2];
    const size_t start = RELAY_MAGIC_SIZE + RELAY_HEAD_SIZE, room = sizeof bytes - start;

    (void)state;
    for (int too_long = 0; too_long < 2; too_long++) {
        size_t len = room - (too_long ? 0 : 2);
        int fd;

        memcpy(bytes, RELAY_MAGIC, RELAY_MAGIC_SIZE);
        relay_put_head(bytes + RELAY_MAGIC_SIZE,
                       &(struct relay_frame){.kind = RELAY_HELLO, .payload = {NULL, len}});
        memcpy(bytes + start,
               "\x08\1\x10\1\x28\1\x1a\x07"
               "default",
               15);
        bytes[start + 15] = 0x7a; /* field 15: bytes, up to the end */
        bytes[start + 16] = (uint8_t)((len - 18) | 0x80);
        bytes[start + 17] = (uint8_t)((len - 18) >> 7);
        loop_open(&loop, NULL);
        fd = loop_connect(&loop, false);
        loop_send(&loop, fd, bytes, start + len);
        if (too_long)
            expect_dropped(fd, "not HELLO");
        else
            assert_int_equal(hand_next(fd).kind, RELAY_WELCOME);
        if (!too_long)
            loop_leave(&loop, fd);
        loop_close(&loop);
    }
}

/* Numbers only grow, up to the last one that there is. */
static void no_number_comes_behind_the_last(void **state)
{
    int fd = hand_connect();

    (void)state;
    hand_open(fd, 1, 11);
    hand_request(fd, 1, UINT64_MAX, TEXT(SET_K));
    hand_expect(fd, RELAY_DONE, CHANGED, 1, UINT64_MAX, NOTHING);
    hand_request(fd, 1, 5, TEXT(SET_K));
    expect_ended(fd, "the number of a request");
}

/* Else the WAIT could be sent again behind the change, and then the change. */
static void a_change_behind_an_open_wait_ends_the_session(void **state)
{
    static const struct {
        const char *bytes;
        size_t len;
    } rows[] = {{TEXT(SET_K)}, {TEXT(ADD_N)},     {TEXT(MULTI_SET)},
                {TEXT(POP_Q)}, {TEXT(BARRIER_2)}, {TEXT(DELETE_K)}};

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        int fd;

        loop_open(&loop, NULL);
        fd = hand_connect();
        hand_open(fd, 2, 12);
        hand_request(fd, 2, 1, TEXT(PUSH_Q));
        hand_expect(fd, RELAY_DONE, CHANGED, 2, 1, NOTHING);
        hand_open(fd, 1, 11);
        hand_request(fd, 1, 1, TEXT(WAIT_J));
        hand_request(fd, 1, 2, rows[i].bytes, rows[i].len);
        hand_expect(fd, RELAY_ENDED, 0, 1, 0, TEXT("a change while its WAIT is open"));
        hand_request(fd, 2, 2, TEXT(GET_N));
        hand_expect(fd, RELAY_ANSWER, RELAY_KNOWN, 2, 2, TEXT("\0\0\0\0\0\0\0\0"));
        hand_request(fd, 2, 3, TEXT(LEN_Q));
        hand_expect(fd, RELAY_ANSWER, RELAY_KNOWN, 2, 3, TEXT(ONE));
        hand_lose_link(fd);
        loop_close(&loop);
    }
}

/* A request is held, and the relay sends on and on behind it. */
static void a_session_that_is_too_far_ahead_is_dropped(void **state)
{
    size_t len = 60000;
    uint8_t *set = hand_large_request(1, "/k", len);
    struct conn *c;
    int fd;

    (void)state;
    loop_open(&loop, NULL);
    fd = hand_connect();
    hand_open(fd, 1, 11);
    hand_send(fd, RELAY_REQUEST, RELAY_MORE, 1, 1, set, 1000);
    c = TAILQ_FIRST(&loop.server.net.conns);
    while (!conn_is_relayed(c))
        c = TAILQ_NEXT(c, entry);
    LOOP_UNTIL(&loop, c->in != NULL);
    conn_set_input(c, INPUT_PARKED);
    for (int i = 0; !loop_logged(&loop, "more requests than a session may have open"); i++) {
        assert_in_range(i, 0, (INPUT_AHEAD_MAX + len) / len + 2);
        hand_send(fd, RELAY_REQUEST, RELAY_MORE, 1, 1, set, len);
        loop_iterate(&loop);
    }
    assert_int_equal(loop.server.engine.stats.relay_links, 1); /* others are not to blame */
    close(fd);
    loop_close(&loop);
    free(set);
}

/* --- Any frame at any time. --- */

static uint64_t any(uint64_t *seed, uint64_t below)
{
    *seed = *seed * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (*seed >> 33) % below;
}

static size_t any_payload(uint64_t *seed, enum relay_kind kind, uint8_t out[256])
{
    static const struct {
        const char *bytes;
        size_t len;
    } requests[] = {
        {TEXT(SET_K)},     {TEXT(GET_K)},    {TEXT(WAIT_K)}, {TEXT(CANCEL)}, {TEXT(ADD_N)},
        {TEXT(BARRIER_2)}, {TEXT(DELETE_K)}, {TEXT(POP_Q)},  {TEXT(PUSH_Q)}, {TEXT(MULTI_SET)},
        {TEXT(CAS_K)},     {TEXT(APPEND_A)}, {TEXT(LEN_Q)},
    };
    Rdzv__RelayOpen open = RDZV__RELAY_OPEN__INIT;
    size_t i = any(seed, COUNT(requests)), len = requests[i].len;

    if (kind == RELAY_OPEN) {
        open.session = any(seed, 4);
        open.c10d_version = any(seed, 8) == 0 ? 7 : C10D_MODERN;
        open.resumes = any(seed, 2) == 0;
        len = rdzv__relay_open__pack(&open, out);
    } else {
        memcpy(out, requests[i].bytes, len);
    }
    if (any(seed, 16) == 0)
        out[any(seed, len)] = (uint8_t)any(seed, 256);
    return any(seed, 16) == 0 ? any(seed, len + 1) : len;
}

/* A frame that makes sense as often as not; `number` is that of the next request. */
static void send_any(uint64_t *seed, int fd, uint64_t number)
{
    static const enum relay_kind kinds[] = {RELAY_OPEN,    RELAY_REQUEST, RELAY_REQUEST,
                                            RELAY_REQUEST, RELAY_REQUEST, RELAY_CLOSE,
                                            RELAY_PING};
    enum relay_kind kind = kinds[any(seed, COUNT(kinds))];
    uint8_t payload[256], bytes[RELAY_HEAD_SIZE + sizeof payload];
    size_t len = any_payload(seed, kind, payload);
    struct relay_frame frame = {.kind = (uint8_t)kind,
                                .flags = any(seed, 8) == 0 ? RELAY_MORE : 0,
                                .channel = any(seed, 64) == 0 ? 0 : (uint32_t)any(seed, 4) + 1,
                                .number = any(seed, 8) == 0 ? any(seed, 9) : number,
                                .payload = {payload, len}};

    if (any(seed, 200) == 0)
        frame.kind = (uint8_t)any(seed, 256);
    relay_put_head(bytes, &frame);
    if (any(seed, 200) == 0)
        bytes[any(seed, 8)] = (uint8_t)any(seed, 256);
    memcpy(bytes + RELAY_HEAD_SIZE, payload, len);
    send(fd, bytes, RELAY_HEAD_SIZE + len, MSG_NOSIGNAL);
}

/* Sessions are opened twice, on channels that are in use, while others wait; requests come in any
 * order, cut and joined; links go at any time. The server serves others, and keeps nothing. */
static void no_order_of_frames_hurts_the_server(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        uint64_t random = seed;
        char bytes[4096];
        int fd = -1, other;

        loop_open(&loop, NULL);
        for (int i = 0; i < 400; i++) {
            if (fd < 0)
                fd = hand_connect();
            send_any(&random, fd, (uint64_t)i / 4 + 1);
            if (any(&random, 3) == 0)
                loop_iterate(&loop);
            if (recv(fd, bytes, sizeof bytes, MSG_DONTWAIT) == 0 || any(&random, 60) == 0) {
                close(fd);
                fd = -1;
            }
        }
        if (fd >= 0)
            close(fd);
        other = loop_connect(&loop, false);
        loop_send(&loop, other, TEXT("\0\xce\xf7\x85\x3c" SET_J GET_K));
        loop_next_byte(&loop, other);
        close(other);
        LOOP_UNTIL(&loop, loop.server.engine.stats.relay_links == 0);
        loop_close(&loop);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_relay_is_refused),
        cmocka_unit_test(frames_of_no_relay_end_the_link),
        cmocka_unit_test(hostile_frames_end_the_session_or_the_link),
        LOOP_TEST(two_requests_in_one_frame_end_the_session),
        cmocka_unit_test(a_long_hello_or_open_is_not_decoded),
        cmocka_unit_test(nor_is_one_before_http),
        LOOP_TEST(no_number_comes_behind_the_last),
        cmocka_unit_test(a_change_behind_an_open_wait_ends_the_session),
        cmocka_unit_test(a_session_that_is_too_far_ahead_is_dropped),
        cmocka_unit_test(no_order_of_frames_hurts_the_server),
    };

    return cmocka_run_group_tests_name("rdzv/relay/link, hostile", tests, NULL, NULL);
}
