/* Links: frames by hand against a real server. What a relay may send, what it gets for it and when;
 * what becomes of its clients' sessions when the link is lost, or the server starts anew; and what
 * a relay that keeps to no rules can do. */
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "proto/relay.h"
#include "proto/relay.pb-c.h"
#include "rdzv/relay/link_session.h"
#include "tests/loop/harness.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define TEXT(s)  (s), sizeof(s) - 1 /* a literal that may have NULs in it */

/* Requests of the modern version, and answers. */
#define SET_K     "\1\2\0\0\0\0\0\0\0/k\1\0\0\0\0\0\0\0v"
#define SET_J     "\1\2\0\0\0\0\0\0\0/j\1\0\0\0\0\0\0\0w"
#define GET_K     "\3\2\0\0\0\0\0\0\0/k"
#define GET_N     "\3\2\0\0\0\0\0\0\0/n"
#define GET_A     "\3\2\0\0\0\0\0\0\0/a"
#define WAIT_K    "\6\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0/k"
#define CANCEL    "\x0c"
#define VALUE_V   "\1\0\0\0\0\0\0\0v"
#define ADD_N     "\4\2\0\0\0\0\0\0\0/n\1\0\0\0\0\0\0\0"
#define ONE       "\1\0\0\0\0\0\0\0"
#define TWO       "\2\0\0\0\0\0\0\0"
#define DELETE_K  "\x08\2\0\0\0\0\0\0\0/k"
#define APPEND_A  "\x09\2\0\0\0\0\0\0\0/a\1\0\0\0\0\0\0\0x"
#define CAS_K     "\2\2\0\0\0\0\0\0\0/k\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0v"
#define MULTI_SET "\x0b\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0/k\1\0\0\0\0\0\0\0v"
#define PUSH_Q    "\x0e\2\0\0\0\0\0\0\0/q\1\0\0\0\0\0\0\0e"
#define POP_Q     "\x0f\2\0\0\0\0\0\0\0/q"
#define LEN_Q     "\x10\2\0\0\0\0\0\0\0/q"
#define BARRIER_2 "\x12\2\0\0\0\0\0\0\0/b\2\0\0\0\0\0\0\0"
#define WAIT_J    "\6\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0/j"
#define CAS_J_K   "\2\2\0\0\0\0\0\0\0/k\1\0\0\0\0\0\0\0x\1\0\0\0\0\0\0\0y"
#define DELETE_J  "\x08\2\0\0\0\0\0\0\0/j"
#define GET_B     "\3\2\0\0\0\0\0\0\0/b"
#define BARRIER_1 "\x12\2\0\0\0\0\0\0\0/b\1\0\0\0\0\0\0\0"

static struct loop loop; /* large */

/* --- Frames. --- */

static void send_frame(int fd, enum relay_kind kind, uint8_t flags, uint32_t channel,
                       uint64_t number, const void *payload, size_t len)
{
    uint8_t *bytes = malloc(RELAY_HEAD_SIZE + len);

    assert_non_null(bytes);
    relay_put_head(bytes, &(struct relay_frame){.kind = (uint8_t)kind,
                                                .flags = flags,
                                                .channel = channel,
                                                .number = number,
                                                .payload = {payload, len}});
    if (len != 0)
        memcpy(bytes + RELAY_HEAD_SIZE, payload, len);
    loop_send(&loop, fd, bytes, RELAY_HEAD_SIZE + len);
    free(bytes);
}

static void request(int fd, uint32_t channel, uint64_t number, const char *bytes, size_t len)
{
    send_frame(fd, RELAY_REQUEST, 0, channel, number, bytes, len);
}

/* The next frame; its payload lies in `room`. */
static struct relay_frame next_frame(int fd)
{
    static uint8_t room[RELAY_HEAD_SIZE + RELAY_PAYLOAD_MAX];
    struct relay_frame frame;
    size_t size;

    loop_receive(&loop, fd, room, RELAY_HEAD_SIZE);
    if (relay_parse((struct slice){room, RELAY_HEAD_SIZE}, &frame, &size) == PARSE_MORE) {
        loop_receive(&loop, fd, room + RELAY_HEAD_SIZE, size - RELAY_HEAD_SIZE);
    }
    assert_int_equal(relay_parse((struct slice){room, size}, &frame, &size), PARSE_DONE);
    return frame;
}

static void expect(int fd, enum relay_kind kind, int flags, uint32_t channel, uint64_t number,
                   const char *payload, size_t len)
{
    struct relay_frame frame = next_frame(fd);

    if (frame.kind != kind || frame.flags != flags || frame.channel != channel ||
        frame.number != number || !slice_equal(frame.payload, (struct slice){(void *)(uintptr_t)payload, len}))
        fail_msg("kind %d flags %d channel %u number %lu, %zu bytes: '%.*s'; and not kind %d flags "
                 "%d channel %u number %lu",
                 frame.kind, frame.flags, frame.channel, (unsigned long)frame.number,
                 frame.payload.len, (int)frame.payload.len, (const char *)frame.payload.ptr, kind,
                 flags, channel, (unsigned long)number);
}

#define NOTHING "", 0

static int link_say_hello(const char *space, uint32_t min, uint32_t max)
{
    Rdzv__RelayHello hello = RDZV__RELAY_HELLO__INIT;
    int fd = loop_connect(&loop, false);
    uint8_t payload[512];

    hello.version_min = min;
    hello.version_max = max;
    hello.space = (ProtobufCBinaryData){strlen(space), (uint8_t *)(uintptr_t)space};
    hello.name = (ProtobufCBinaryData){6, (uint8_t *)(uintptr_t) "node-7"};
    loop_send(&loop, fd, TEXT(RELAY_MAGIC));
    send_frame(fd, RELAY_HELLO, 0, 0, 0, payload, rdzv__relay_hello__pack(&hello, payload));
    return fd;
}

static int link_connect(void)
{
    int fd = link_say_hello("default", 1, 1);

    assert_int_equal(next_frame(fd).kind, RELAY_WELCOME);
    return fd;
}

static void send_open(int fd, uint32_t channel, uint64_t id, bool resumes)
{
    Rdzv__RelayOpen open = RDZV__RELAY_OPEN__INIT;
    uint8_t payload[256];

    open.session = id;
    open.c10d_version = C10D_MODERN;
    open.peer_host = (ProtobufCBinaryData){9, (uint8_t *)(uintptr_t) "127.0.0.1"};
    open.peer_port = 7;
    open.local_host = (ProtobufCBinaryData){9, (uint8_t *)(uintptr_t) "127.0.0.1"};
    open.local_port = 29400;
    open.resumes = resumes;
    send_frame(fd, RELAY_OPEN, 0, channel, 0, payload, rdzv__relay_open__pack(&open, payload));
}

static void open_session(int fd, uint32_t channel, uint64_t id)
{
    send_open(fd, channel, id, false);
    expect(fd, RELAY_OPENED, 0, channel, 0, NOTHING);
}

static void resume_session(int fd, uint32_t channel, uint64_t id, int flags, uint64_t number,
                           const char *answer, size_t len)
{
    send_open(fd, channel, id, true);
    expect(fd, RELAY_OPENED, flags, channel, number, answer, len);
}

/* All that was sent so far has been carried out, and nothing but this has come of it. */
static void expect_nothing(int fd)
{
    send_frame(fd, RELAY_PING, 0, 0, 99, NOTHING);
    expect(fd, RELAY_PONG, 0, 0, 99, NOTHING);
    loop_iterate(&loop);
    loop_iterate(&loop);
    send_frame(fd, RELAY_PING, 0, 0, 98, NOTHING);
    expect(fd, RELAY_PONG, 0, 0, 98, NOTHING);
}

static void lose_link(int fd)
{
    uint64_t links = loop.server.engine.stats.relay_links;

    close(fd);
    LOOP_UNTIL(&loop, loop.server.engine.stats.relay_links == links - 1);
}

/* A store that outlives its process. */
static char folder[] = "/tmp/rdzv-link-XXXXXX";

static void open_durable(void)
{
    strcpy(strchr(folder, 'k'), "k-XXXXXX");
    assert_non_null(mkdtemp(folder));
    loop_open(&loop, (const char *const[]){"--data-dir", folder, NULL});
}

static void restart(int fd)
{
    loop_forget(&loop);
    close(fd);
    loop_open(&loop, (const char *const[]){"--data-dir", folder, NULL});
}

static int remove_one(const char *path, const struct stat *what, int kind, struct FTW *at)
{
    (void)what;
    (void)kind;
    (void)at;
    return remove(path);
}

static void close_durable(void)
{
    loop_close(&loop);
    assert_int_equal(nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

/* What was sent so far has been carried out, whatever has come of it. */
static void expect_carried_out(int fd)
{
    send_frame(fd, RELAY_PING, 0, 0, 97, NOTHING);
    while (next_frame(fd).kind != RELAY_PONG)
        ;
    loop_iterate(&loop);
    loop_iterate(&loop);
}

/* One frame of each of these channels, in any order. */
static void expect_both(int fd, uint32_t one, enum relay_kind of_one, uint32_t two,
                        enum relay_kind of_two)
{
    struct relay_frame first = next_frame(fd), second = next_frame(fd);

    if (first.channel == two) {
        struct relay_frame other = first;

        first = second;
        second = other;
    }
    assert_int_equal(first.channel, one);
    assert_int_equal(first.kind, of_one);
    assert_int_equal(second.channel, two);
    assert_int_equal(second.kind, of_two);
}

/* --- The happy path. --- */

static void requests_are_answered_and_confirmed(void **state)
{
    int fd;

    (void)state;
    loop_open(&loop, NULL);
    fd = link_connect();
    open_session(fd, 1, 11);
    request(fd, 1, 1, TEXT(SET_K));
    expect(fd, RELAY_DONE, RELAY_KNOWN, 1, 1, NOTHING);
    request(fd, 1, 2, TEXT(GET_K));
    expect(fd, RELAY_ANSWER, RELAY_KNOWN, 1, 2, TEXT(VALUE_V));
    request(fd, 1, 3, TEXT(ADD_N));
    expect(fd, RELAY_ANSWER, RELAY_KNOWN, 1, 3, TEXT(ONE));
    expect_nothing(fd);
    send_frame(fd, RELAY_CLOSE, 0, 1, 0, NOTHING);
    LOOP_UNTIL(&loop, loop.server.links.sessions.count == 0);
    lose_link(fd);
    loop_close(&loop);
}

static void sessions_wait_for_each_other(void **state)
{
    int fd;

    (void)state;
    loop_open(&loop, NULL);
    fd = link_connect();
    open_session(fd, 1, 11);
    open_session(fd, 2, 12);
    request(fd, 1, 1, TEXT(WAIT_K));
    expect_nothing(fd);
    request(fd, 2, 1, TEXT(SET_K));
    expect(fd, RELAY_DONE, RELAY_KNOWN, 2, 1, NOTHING);
    expect(fd, RELAY_ANSWER, RELAY_KNOWN, 1, 1, "\0", 1);
    request(fd, 1, 2, TEXT(BARRIER_2));
    expect_nothing(fd);
    request(fd, 2, 2, TEXT(BARRIER_2));
    expect(fd, RELAY_ANSWER, RELAY_KNOWN, 2, 2, "\0", 1);
    expect(fd, RELAY_ANSWER, RELAY_KNOWN, 1, 2, "\0", 1);
    lose_link(fd);
    loop_close(&loop);
}

/* --- Exactly once. --- */

/* A request that changes something, and what a relay that opens its session again is told of it. */
static const struct deed {
    const char *name, *before; /* NULL: nothing is asked before */
    size_t before_len;
    const char *request;
    size_t len;
    int flags;
    const char *answer;
    size_t answer_len;
    const char *look; /* what shows that it has been carried out once */
    size_t look_len;
    const char *seen;
    size_t seen_len;
} changes[] = {
    {"SET", NULL, 0, TEXT(SET_K), 0, NOTHING, TEXT(GET_K), TEXT(VALUE_V)},
    {"ADD", NULL, 0, TEXT(ADD_N), RELAY_ANSWERED, TEXT(ONE), TEXT(GET_N), TEXT(ONE "1")},
    {"APPEND", NULL, 0, TEXT(APPEND_A), 0, NOTHING, TEXT(GET_A), TEXT(ONE "x")},
    {"COMPARE_SET", NULL, 0, TEXT(CAS_K), RELAY_TOOK, NOTHING, TEXT(GET_K), TEXT(VALUE_V)},
    {"MULTI_SET", NULL, 0, TEXT(MULTI_SET), 0, NOTHING, TEXT(GET_K), TEXT(VALUE_V)},
    {"DELETE", TEXT(SET_K), TEXT(DELETE_K), RELAY_ANSWERED, TEXT(ONE), TEXT(GET_K),
     TEXT("\0\0\0\0\0\0\0\0")},
    {"QUEUE_PUSH", NULL, 0, TEXT(PUSH_Q), 0, NOTHING, TEXT(LEN_Q), TEXT(ONE)},
    {"QUEUE_POP", TEXT(PUSH_Q), TEXT(POP_Q), RELAY_ANSWERED, TEXT(ONE ONE "e"), TEXT(LEN_Q),
     TEXT("\0\0\0\0\0\0\0\0")},
    {"BARRIER", NULL, 0, TEXT(BARRIER_1), RELAY_ANSWERED, "\0", 1, TEXT(GET_B), TEXT(ONE "1")},
    {"BARRIER that waits", NULL, 0, TEXT(BARRIER_2), RELAY_ARRIVED, NOTHING, TEXT(GET_B),
     TEXT(ONE "1")},
};

/* The request is the last of session 11; returns its number. */
static uint64_t carry_out_deed(int fd, const struct deed *row)
{
    uint64_t number = 1;

    open_session(fd, 1, 11);
    if (row->before != NULL)
        request(fd, 1, number++, row->before, row->before_len);
    request(fd, 1, number, row->request, row->len);
    expect_carried_out(fd);
    return number;
}

/* A session that is opened again is told of the request, and it has been carried out once. */
static void look_again(int fd, const struct deed *row, uint64_t number)
{
    resume_session(fd, 5, 11, RELAY_KNOWN | row->flags, number, row->answer, row->answer_len);
    open_session(fd, 6, 12);
    request(fd, 6, 1, row->look, row->look_len);
    expect(fd, RELAY_ANSWER, RELAY_KNOWN, 6, 1, row->seen, row->seen_len);
}

static void a_lost_answer_is_told_when_the_session_is_opened_again(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(changes); i++) {
        uint64_t number;
        int fd;

        print_message("  %s\n", changes[i].name);
        loop_open(&loop, NULL);
        fd = link_connect();
        number = carry_out_deed(fd, &changes[i]);
        lose_link(fd);
        assert_int_equal(loop.server.engine.stats.sessions_detached, 1);
        fd = link_connect();
        look_again(fd, &changes[i], number);
        assert_int_equal(loop.server.engine.stats.sessions_resumed, 1);
        lose_link(fd);
        loop_close(&loop);
    }
}

static void a_lost_answer_is_told_after_a_restart(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(changes); i++) {
        uint64_t number;
        int fd;

        print_message("  %s\n", changes[i].name);
        open_durable();
        fd = link_connect();
        number = carry_out_deed(fd, &changes[i]);
        restart(fd);
        fd = link_connect();
        look_again(fd, &changes[i], number);
        lose_link(fd);
        close_durable();
    }
}

/* The store has not got it, or it changed nothing: it is carried out when it is sent again. */
static void reads_and_refused_changes_are_sent_again(void **state)
{
    static const struct {
        const char *name, *request;
        size_t len;
        const char *answer;
        size_t answer_len;
    } rows[] = {
        {"GET", TEXT(GET_K), TEXT(VALUE_V)},
        {"refused COMPARE_SET", TEXT(CAS_J_K), TEXT(VALUE_V)},
        {"DELETE of nothing", TEXT(DELETE_J), TEXT("\0\0\0\0\0\0\0\0")},
        {"POP of nothing", TEXT(POP_Q), TEXT("\0\0\0\0\0\0\0\0")},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        int fd;

        print_message("  %s\n", rows[i].name);
        loop_open(&loop, NULL);
        fd = link_connect();
        open_session(fd, 1, 11);
        request(fd, 1, 1, TEXT(SET_K));
        request(fd, 1, 2, rows[i].request, rows[i].len);
        expect_carried_out(fd);
        lose_link(fd);
        fd = link_connect();
        resume_session(fd, 1, 11, RELAY_KNOWN, 1, NOTHING);
        request(fd, 1, 2, rows[i].request, rows[i].len);
        expect(fd, RELAY_ANSWER, RELAY_KNOWN, 1, 2, rows[i].answer, rows[i].answer_len);
        lose_link(fd);
        loop_close(&loop);
    }
}

/* --- Waiting, across links. --- */

/* The key comes and goes while the relay is away: the WAIT has ended all the same. */
static void a_wait_goes_on_without_its_link(void **state)
{
    (void)state;
    for (int when = 0; when < 3; when++) {
        int fd, other;

        loop_open(&loop, NULL);
        fd = link_connect();
        other = link_connect();
        open_session(other, 1, 12);
        open_session(fd, 1, 11);
        request(fd, 1, 1, TEXT(WAIT_K));
        expect_nothing(fd);
        if (when == 0) { /* answered, and the answer lost */
            request(other, 1, 1, TEXT(SET_K));
            expect_carried_out(other);
        }
        lose_link(fd);
        if (when == 1)
            request(other, 1, 1, TEXT(SET_K));
        fd = link_connect();
        resume_session(fd, 1, 11, RELAY_KNOWN, 0, NOTHING);
        if (when == 2)
            request(other, 1, 1, TEXT(SET_K));
        if (when != 0)
            expect(other, RELAY_DONE, RELAY_KNOWN, 1, 1, NOTHING);
        request(other, 1, 2, TEXT(DELETE_K));
        expect(other, RELAY_ANSWER, RELAY_KNOWN, 1, 2, TEXT(ONE));
        request(fd, 1, 1, TEXT(WAIT_K));
        expect(fd, RELAY_ANSWER, RELAY_KNOWN, 1, 1, "\0", 1);
        lose_link(fd);
        lose_link(other);
        loop_close(&loop);
    }
}

static void a_wait_that_is_sent_again_waits_on(void **state)
{
    struct space *space;
    int fd;

    (void)state;
    loop_open(&loop, NULL);
    fd = link_connect();
    open_session(fd, 1, 11);
    open_session(fd, 2, 12);
    request(fd, 1, 1, TEXT(WAIT_K));
    expect_nothing(fd);
    lose_link(fd);
    fd = link_connect();
    resume_session(fd, 1, 11, RELAY_KNOWN, 0, NOTHING);
    resume_session(fd, 2, 12, 0, 0, NOTHING);
    request(fd, 1, 1, TEXT(WAIT_K));
    expect_nothing(fd);
    space = TAILQ_FIRST(&loop.server.engine.store.spaces);
    assert_int_equal(space->keys.waiters, 1);
    request(fd, 2, 1, TEXT(SET_K));
    expect_both(fd, 2, RELAY_DONE, 1, RELAY_ANSWER);
    lose_link(fd);
    loop_close(&loop);
}

/* The relay has cancelled it by itself while it was away. */
static void a_wait_that_is_not_sent_again_has_ended(void **state)
{
    struct space *space;
    int fd;

    (void)state;
    loop_open(&loop, NULL);
    fd = link_connect();
    open_session(fd, 1, 11);
    request(fd, 1, 1, TEXT(WAIT_K));
    expect_nothing(fd);
    lose_link(fd);
    fd = link_connect();
    resume_session(fd, 1, 11, RELAY_KNOWN, 0, NOTHING);
    request(fd, 1, 3, TEXT(SET_K));
    expect(fd, RELAY_DONE, RELAY_KNOWN, 1, 3, NOTHING);
    space = TAILQ_FIRST(&loop.server.engine.store.spaces);
    assert_int_equal(space->keys.waiters, 0);
    expect_nothing(fd);
    lose_link(fd);
    loop_close(&loop);
}

static void a_wait_is_cancelled(void **state)
{
    int fd;

    (void)state;
    loop_open(&loop, NULL);
    fd = link_connect();
    open_session(fd, 1, 11);
    request(fd, 1, 1, TEXT(WAIT_K));
    request(fd, 1, 2, TEXT(CANCEL));
    expect(fd, RELAY_ANSWER, RELAY_KNOWN, 1, 2, "\1", 1);
    request(fd, 1, 3, TEXT(SET_K));
    expect(fd, RELAY_DONE, RELAY_KNOWN, 1, 3, NOTHING);
    lose_link(fd);
    loop_close(&loop);
}

/* A barrier counts each client once, however often that has to ask. */
static void a_barrier_waits_across_links_and_starts(void **state)
{
    (void)state;
    for (int how = 0; how < 4; how++) { /* opens: while away, or later; with a restart, or not */
        int fd;

        print_message("  %d\n", how);
        open_durable();
        fd = link_connect();
        open_session(fd, 1, 11);
        open_session(fd, 2, 12);
        request(fd, 1, 1, TEXT(BARRIER_2));
        expect_carried_out(fd);
        if (how & 1)
            restart(fd);
        else
            lose_link(fd);
        fd = link_connect();
        resume_session(fd, 2, 12, 0, 0, NOTHING);
        if (how & 2) {
            request(fd, 2, 1, TEXT(BARRIER_2));
            expect(fd, RELAY_ANSWER, RELAY_KNOWN, 2, 1, "\0", 1);
        }
        resume_session(fd, 1, 11, RELAY_KNOWN | RELAY_ARRIVED, 1, NOTHING);
        request(fd, 1, 1, TEXT(BARRIER_2));
        if (!(how & 2)) {
            expect_nothing(fd);
            request(fd, 2, 1, TEXT(BARRIER_2));
            expect_both(fd, 2, RELAY_ANSWER, 1, RELAY_ANSWER);
        } else {
            expect(fd, RELAY_ANSWER, RELAY_KNOWN, 1, 1, "\0", 1);
        }
        request(fd, 2, 2, TEXT(GET_B));
        expect(fd, RELAY_ANSWER, RELAY_KNOWN, 2, 2, TEXT(ONE "2"));
        lose_link(fd);
        close_durable();
    }
}

/* --- Sessions and their links. --- */

static void a_session_moves_to_another_link(void **state)
{
    int fd, other;

    (void)state;
    loop_open(&loop, NULL);
    fd = link_connect();
    open_session(fd, 1, 11);
    request(fd, 1, 1, TEXT(ADD_N));
    expect(fd, RELAY_ANSWER, RELAY_KNOWN, 1, 1, TEXT(ONE));
    other = link_connect();
    resume_session(other, 9, 11, RELAY_KNOWN | RELAY_ANSWERED, 1, TEXT(ONE));
    assert_int_equal(next_frame(fd).kind, RELAY_ENDED);
    request(fd, 1, 2, TEXT(ADD_N)); /* of a relay that has not heard yet */
    expect_nothing(fd);
    request(other, 9, 2, TEXT(ADD_N));
    expect(other, RELAY_ANSWER, RELAY_KNOWN, 9, 2, TEXT(TWO));
    lose_link(fd);
    lose_link(other);
    loop_close(&loop);
}

static void tick_after(uint64_t ms)
{
    struct relay_session *s;

    TAILQ_FOREACH(s, &loop.server.links.detached, entry)
        s->detached_ms -= ms;
    loop.server.links.swept_ms -= ms;
    relay_links_tick(&loop.server.links);
    loop_iterate(&loop);
}

static void a_session_without_its_relay_ends_in_time(void **state)
{
    int fd;

    (void)state;
    loop_open(&loop, NULL);
    fd = link_connect();
    open_session(fd, 1, 11);
    request(fd, 1, 1, TEXT(SET_K));
    request(fd, 1, 2, TEXT(WAIT_J));
    expect_carried_out(fd);
    lose_link(fd);
    tick_after(59000);
    assert_int_equal(loop.server.links.sessions.count, 1);
    tick_after(1000);
    assert_int_equal(loop.server.links.sessions.count, 0);
    assert_true(loop_logged(&loop, "session_timeout"));
    assert_true(loop_logged(&loop, "127.0.0.1:7 via node-7"));
    fd = link_connect();
    resume_session(fd, 1, 11, 0, 0, NOTHING); /* it is not known any more */
    lose_link(fd);
    loop_close(&loop);
}

static void a_session_that_no_relay_opens_after_a_start_ends_in_time(void **state)
{
    int fd;

    (void)state;
    open_durable();
    fd = link_connect();
    open_session(fd, 1, 11);
    open_session(fd, 2, 12);
    request(fd, 1, 1, TEXT(SET_K));
    request(fd, 2, 1, TEXT(SET_K));
    expect_carried_out(fd);
    restart(fd);
    fd = link_connect();
    resume_session(fd, 1, 12, RELAY_KNOWN, 1, NOTHING);
    tick_after(60000);
    resume_session(fd, 2, 11, 0, 0, NOTHING);
    expect_nothing(fd);
    lose_link(fd);
    fd = link_connect();
    resume_session(fd, 1, 12, RELAY_KNOWN, 1, NOTHING);
    lose_link(fd);
    close_durable();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_are_answered_and_confirmed),
        cmocka_unit_test(sessions_wait_for_each_other),
        cmocka_unit_test(a_lost_answer_is_told_when_the_session_is_opened_again),
        cmocka_unit_test(a_lost_answer_is_told_after_a_restart),
        cmocka_unit_test(reads_and_refused_changes_are_sent_again),
        cmocka_unit_test(a_wait_goes_on_without_its_link),
        cmocka_unit_test(a_wait_that_is_sent_again_waits_on),
        cmocka_unit_test(a_wait_that_is_not_sent_again_has_ended),
        cmocka_unit_test(a_wait_is_cancelled),
        cmocka_unit_test(a_barrier_waits_across_links_and_starts),
        cmocka_unit_test(a_session_moves_to_another_link),
        cmocka_unit_test(a_session_without_its_relay_ends_in_time),
        cmocka_unit_test(a_session_that_no_relay_opens_after_a_start_ends_in_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
