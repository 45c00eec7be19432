/* Links: frames by hand against a real server. What a relay may send, what it gets for it and when;
 * what becomes of its clients' sessions when the link is lost, or the server starts anew; and what
 * a relay that keeps to no rules can do. */
#include <ftw.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "proto/relay.h"
#include "proto/relay.pb-c.h"
#include "rdzv/net/input.h"
#include "rdzv/relay/link_session.h"
#include "rdzv/rendezvous/shell.h"
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
        frame.number != number ||
        !slice_equal(frame.payload, (struct slice){(void *)(uintptr_t)payload, len}))
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
    open.pings = true;
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
#define FOLDER "/tmp/rdzv-link-XXXXXX"
static char folder[sizeof FOLDER];

static void open_durable(void)
{
    strcpy(folder, FOLDER);
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
    LOOP_UNTIL(&loop, loop.server.store.links.sessions.count == 0);
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

    TAILQ_FOREACH(s, &loop.server.store.links.detached, entry)
        s->detached_ms -= ms;
    loop.server.store.links.started_ms -= ms;
    relay_links_tick(&loop.server.store.links);
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
    assert_int_equal(loop.server.store.links.sessions.count, 1);
    tick_after(1000);
    assert_int_equal(loop.server.store.links.sessions.count, 0);
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

/* Many such sessions end bit by bit, as soon as the journal takes that. */
static void sessions_that_no_relay_opens_end_bit_by_bit(void **state)
{
    enum { MANY = 2500 };
    struct engine *e = &loop.server.engine;
    struct engine_space *space;
    int fd;

    (void)state;
    open_durable();
    space = TAILQ_FIRST(&e->spaces);
    for (uint64_t id = 1; id <= MANY; id++)
        assert_int_equal(engine_session_bind(e, space, id, false, 0), STORE_OK);
    loop_iterate(&loop);
    fd = loop_connect(&loop, false);
    restart(fd);
    space = TAILQ_FIRST(&e->spaces);
    assert_int_equal(space->store->sessions.table.count, MANY);
    fd = link_connect();
    resume_session(fd, 1, 1500, RELAY_KNOWN, 0, NOTHING);
    e->batch.refuses = true;
    tick_after(60000);
    assert_int_equal(space->store->sessions.table.count, MANY);
    e->batch.refuses = false;
    for (size_t left = MANY - 1000; left > 1000; left -= 1000) {
        tick_after(0);
        assert_int_equal(space->store->sessions.table.count, left);
    }
    tick_after(0);
    tick_after(0);
    assert_int_equal(space->store->sessions.table.count, 1);
    assert_false(loop.server.store.links.sweeps);
    lose_link(fd);
    close_durable();
}

/* --- Large requests and answers. --- */

static uint8_t *filled(size_t len, int seed)
{
    uint8_t *bytes = malloc(len);

    assert_non_null(bytes);
    for (size_t i = 0; i < len; i++)
        bytes[i] = (uint8_t)(i * 31 + (size_t)seed);
    return bytes;
}

/* A request of that many bytes, in as many frames as it takes. */
static void request_in_parts(int fd, uint32_t channel, uint64_t number, const uint8_t *bytes,
                             size_t len)
{
    while (len > RELAY_PAYLOAD_MAX) {
        send_frame(fd, RELAY_REQUEST, RELAY_MORE, channel, number, bytes, RELAY_PAYLOAD_MAX);
        bytes += RELAY_PAYLOAD_MAX;
        len -= RELAY_PAYLOAD_MAX;
    }
    send_frame(fd, RELAY_REQUEST, 0, channel, number, bytes, len);
}

/* SET of `key` (two letters), or QUEUE_PUSH, to a value that begins behind the returned head. */
static uint8_t *large_request(uint8_t op, const char *key, size_t len)
{
    uint8_t *bytes = filled(19 + len, 1);

    bytes[0] = op;
    bytes_put_u64(bytes + 1, 2);
    memcpy(bytes + 9, key, 2);
    bytes_put_u64(bytes + 11, len);
    return bytes;
}

/* The answer, with its length before it, in whatever frames it comes. */
static void expect_large(int fd, enum relay_kind kind, uint64_t number, size_t skip,
                         const uint8_t *value, size_t len)
{
    size_t have = 0, whole = skip + 8 + len;
    bool more = true;

    while (more) {
        struct relay_frame frame = next_frame(fd);

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
        uint8_t *set = large_request(1, "/k", lengths[i]);
        int fd;

        loop_open(&loop, NULL);
        fd = link_connect();
        open_session(fd, 1, 11);
        request_in_parts(fd, 1, 1, set, 19 + lengths[i]);
        expect(fd, RELAY_DONE, RELAY_KNOWN, 1, 1, NOTHING);
        request(fd, 1, 2, TEXT(GET_K));
        expect_large(fd, RELAY_ANSWER, 2, 0, set + 19, lengths[i]);
        lose_link(fd);
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
        uint8_t *push = large_request(0x0e, "/q", lengths[i]);
        int fd;

        open_durable();
        fd = link_connect();
        open_session(fd, 1, 11);
        request_in_parts(fd, 1, 1, push, 19 + lengths[i]);
        request(fd, 1, 2, TEXT(POP_Q));
        expect_carried_out(fd);
        lose_link(fd);
        fd = link_connect();
        send_open(fd, 1, 11, true);
        expect_large(fd, RELAY_OPENED, 2, 8, push + 19, lengths[i]);
        restart(fd);
        fd = link_connect();
        send_open(fd, 1, 11, true);
        expect_large(fd, RELAY_OPENED, 2, 8, push + 19, lengths[i]);
        request(fd, 1, 3, TEXT(LEN_Q));
        expect(fd, RELAY_ANSWER, RELAY_KNOWN, 1, 3, TEXT("\0\0\0\0\0\0\0\0"));
        lose_link(fd);
        close_durable();
        free(push);
    }
}

/* The link is lost in the middle of a request, and of one that takes several turns. */
static void half_a_request_is_forgotten(void **state)
{
    size_t len = 2000000;
    uint8_t *set = large_request(1, "/k", len);

    (void)state;
    for (int turns = 0; turns < 3; turns++) {
        int fd;

        loop_open(&loop, NULL);
        fd = link_connect();
        open_session(fd, 1, 11);
        send_frame(fd, RELAY_REQUEST, RELAY_MORE, 1, 1, set, 1000);
        if (turns > 0)
            request_in_parts(fd, 1, 1, set + 1000, 19 + len - 1000);
        if (turns > 1)
            expect(fd, RELAY_DONE, RELAY_KNOWN, 1, 1, NOTHING);
        lose_link(fd);
        fd = link_connect();
        send_open(fd, 1, 11, true);
        if (next_frame(fd).number == 0) {
            request_in_parts(fd, 1, 1, set, 19 + len);
            expect(fd, RELAY_DONE, RELAY_KNOWN, 1, 1, NOTHING);
        }
        request(fd, 1, 2, TEXT(GET_K));
        expect_large(fd, RELAY_ANSWER, 2, 0, set + 19, len);
        lose_link(fd);
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
    uint8_t *set = large_request(1, "/k", len);
    size_t have[SESSIONS] = {0};
    int slow, other, small = 32768;

    (void)state;
    loop_open(&loop, NULL);
    slow = link_connect();
    setsockopt(slow, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    setsockopt(conn_fd(loop_conn(&loop, slow)), SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
    other = link_connect();
    open_session(other, 1, 99);
    request_in_parts(other, 1, 1, set, 19 + len);
    expect(other, RELAY_DONE, RELAY_KNOWN, 1, 1, NOTHING);
    for (uint32_t i = 0; i < SESSIONS; i++)
        open_session(slow, i + 1, i + 1);
    for (uint32_t i = 0; i < SESSIONS; i++)
        request(slow, i + 1, 1, TEXT(GET_K));
    LOOP_UNTIL(&loop, loop_conn(&loop, slow)->output == OUTPUT_BLOCKED);
    assert_in_range(loop_conn(&loop, slow)->out.bytes, 1, 2 * RELAY_LINK_QUEUE_MAX);
    request(other, 1, 2, TEXT(ADD_N));
    expect(other, RELAY_ANSWER, RELAY_KNOWN, 1, 2, TEXT(ONE));
    for (size_t left = SESSIONS; left > 0;) {
        struct relay_frame frame = next_frame(slow);

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
    expect_nothing(slow);
    lose_link(slow);
    lose_link(other);
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
    loop_open(&loop, NULL);
    fd = link_connect();
    open_session(fd, 1, 11);
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
    expect(fd, RELAY_DONE, RELAY_KNOWN, 1, 64, NOTHING);
    expect_nothing(fd);
    lose_link(fd);
    loop_close(&loop);
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
    loop_open(&loop, NULL);
    fd = link_connect();
    other = link_connect();
    open_session(fd, 1, 11);
    open_session(fd, 2, 12);
    kept = e->committed;
    e->options.journal.commit = slow_commit;
    request(fd, 1, 1, TEXT(SET_K));
    request(fd, 2, 1, TEXT(ADD_N));
    request(fd, 2, 2, TEXT(WAIT_J));
    expect_nothing(fd); /* but PONG, which shows nothing */
    send_open(other, 3, 12, true);
    expect(fd, RELAY_ENDED, 0, 2, 0, TEXT("it has been opened again"));
    expect_nothing(other);
    kept = UINT64_MAX;
    engine_committed(e, e->batch.number - 1);
    expect(fd, RELAY_DONE, RELAY_KNOWN, 1, 1, NOTHING);
    expect_nothing(fd);
    expect(other, RELAY_OPENED, RELAY_KNOWN | RELAY_ANSWERED, 3, 1, TEXT(ONE));
    e->options.journal.commit = NULL;
    lose_link(fd);
    lose_link(other);
    loop_close(&loop);
}

/* --- Relays that keep to no rules. --- */

static void expect_dropped(int fd, const char *why)
{
    char byte;

    LOOP_UNTIL(&loop, loop.server.engine.stats.relay_links == 0);
    while (recv(fd, &byte, 1, 0) == 1)
        ;
    close(fd);
    assert_true(loop_logged(&loop, why));
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
        {"space", "other", 1, 1, "this listener has another space"},
        {"name of a space", "../x", 1, 1, "this listener has another space"},
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
        fd = link_say_hello(rows[i].space, rows[i].min, rows[i].max);
        frame = next_frame(fd);
        assert_int_equal(frame.kind, RELAY_REFUSED);
        assert_int_not_equal(frame.payload.len, 0);
        loop_expect_end(&loop, fd);
        assert_true(loop_logged(&loop, rows[i].why));
        close(fd);
        loop_close(&loop);
    }
}

static void a_relay_may_have_a_space_of_its_own(void **state)
{
    int fd, other;

    (void)state;
    loop_open(&loop, NULL);
    fd = link_say_hello("jobA", 1, 1);
    assert_int_equal(next_frame(fd).kind, RELAY_WELCOME);
    other = link_connect();
    open_session(fd, 1, 11);
    open_session(other, 1, 11); /* the same number, and another session */
    request(fd, 1, 1, TEXT(SET_K));
    expect(fd, RELAY_DONE, RELAY_KNOWN, 1, 1, NOTHING);
    request(other, 1, 1, TEXT(GET_K));
    expect(other, RELAY_ANSWER, RELAY_KNOWN, 1, 1, TEXT("\0\0\0\0\0\0\0\0"));
    lose_link(fd);
    lose_link(other);
    loop_close(&loop);
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
            bool fine = welcome && (kind == RELAY_REQUEST || kind == RELAY_CLOSE ||
                                    kind == RELAY_PING || kind == RELAY_PONG);
            int fd;

            loop_open(&loop, NULL);
            if (welcome) {
                fd = link_connect();
            } else {
                fd = loop_connect(&loop, false);
                loop_send(&loop, fd, TEXT(RELAY_MAGIC));
            }
            send_frame(fd, kind, 0, 1, 1, TEXT("\xff\xff"));
            if (fine)
                lose_link(fd);
            else
                expect_gone(fd);
            loop_close(&loop);
        }
    }
}

static void hostile_frames_end_the_link(void **state)
{
    static const struct {
        const char *name;
        uint32_t channel;
        uint64_t number;
        uint8_t flags;
        const char *request;
        size_t len;
        const char *why;
    } rows[] = {
        {"no channel", 0, 1, 0, TEXT(SET_K), "a request on no channel"},
        {"number 0", 1, 0, 0, TEXT(SET_K), "a frame of another request"},
        {"a number again", 1, 1, 0, TEXT(SET_K), "the number of a request"},
        {"half a request", 1, 2, 0, "\1\2\0\0", 4, "ends within a request"},
        {"nothing", 1, 2, 0, "", 0, "ends within a request"},
        {"more than there is", 1, 2, RELAY_MORE, TEXT(SET_K), "two requests in one frame"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        int fd;

        print_message("  %s\n", rows[i].name);
        loop_open(&loop, NULL);
        fd = link_connect();
        open_session(fd, 1, 11);
        request(fd, 1, 1, TEXT(SET_K));
        expect(fd, RELAY_DONE, RELAY_KNOWN, 1, 1, NOTHING);
        send_frame(fd, RELAY_REQUEST, rows[i].flags, rows[i].channel, rows[i].number,
                   rows[i].request, rows[i].len);
        if (rows[i].flags & RELAY_MORE) { /* it ends the session alone */
            assert_int_equal(next_frame(fd).kind, RELAY_ENDED);
            lose_link(fd);
        } else {
            expect_dropped(fd, rows[i].why);
        }
        loop_close(&loop);
    }
}

static void two_requests_in_one_frame_end_the_session(void **state)
{
    int fd;

    (void)state;
    loop_open(&loop, NULL);
    fd = link_connect();
    open_session(fd, 1, 11);
    request(fd, 1, 1, TEXT(ADD_N ADD_N));
    expect(fd, RELAY_ANSWER, RELAY_KNOWN, 1, 1, TEXT(ONE));
    assert_int_equal(next_frame(fd).kind, RELAY_ENDED);
    open_session(fd, 2, 12);
    request(fd, 2, 1, TEXT(GET_N));
    expect(fd, RELAY_ANSWER, RELAY_KNOWN, 2, 1, TEXT(ONE "1"));
    lose_link(fd);
    loop_close(&loop);
}

/* What has been carried out is not, when it is sent again. */
static void a_request_that_was_carried_out_is_not_carried_out_again(void **state)
{
    int fd;

    (void)state;
    loop_open(&loop, NULL);
    fd = link_connect();
    open_session(fd, 1, 11);
    request(fd, 1, 1, TEXT(ADD_N));
    expect_carried_out(fd);
    lose_link(fd);
    fd = link_connect();
    resume_session(fd, 1, 11, RELAY_KNOWN | RELAY_ANSWERED, 1, TEXT(ONE));
    request(fd, 1, 1, TEXT(ADD_N));
    assert_int_equal(next_frame(fd).kind, RELAY_ENDED);
    open_session(fd, 2, 12);
    request(fd, 2, 1, TEXT(GET_N));
    expect(fd, RELAY_ANSWER, RELAY_KNOWN, 2, 1, TEXT(ONE "1"));
    lose_link(fd);
    loop_close(&loop);
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
            fd = link_connect();
            memcpy(fields, "\x09\x0b\0\0\0\0\0\0\0\x10", 10); /* session 11, version 0 */
        } else {
            fd = loop_connect(&loop, false);
            loop_send(&loop, fd, TEXT(RELAY_MAGIC));
        }
        send_frame(fd, welcome ? RELAY_OPEN : RELAY_HELLO, 0, 2, 0, fields, sizeof fields);
        expect_dropped(fd, welcome ? "an OPEN that no relay sends" : "no HELLO");
        loop_close(&loop);
    }
}

/* Numbers only grow, up to the last one that there is. */
static void no_number_comes_behind_the_last(void **state)
{
    int fd;

    (void)state;
    loop_open(&loop, NULL);
    fd = link_connect();
    open_session(fd, 1, 11);
    request(fd, 1, UINT64_MAX, TEXT(SET_K));
    expect(fd, RELAY_DONE, RELAY_KNOWN, 1, UINT64_MAX, NOTHING);
    request(fd, 1, 5, TEXT(SET_K));
    expect_dropped(fd, "the number of a request");
    loop_close(&loop);
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
        fd = link_connect();
        open_session(fd, 2, 12);
        request(fd, 2, 1, TEXT(PUSH_Q));
        expect(fd, RELAY_DONE, RELAY_KNOWN, 2, 1, NOTHING);
        open_session(fd, 1, 11);
        request(fd, 1, 1, TEXT(WAIT_J));
        request(fd, 1, 2, rows[i].bytes, rows[i].len);
        expect(fd, RELAY_ENDED, 0, 1, 0, TEXT("a change while its WAIT is open"));
        request(fd, 2, 2, TEXT(GET_N));
        expect(fd, RELAY_ANSWER, RELAY_KNOWN, 2, 2, TEXT("\0\0\0\0\0\0\0\0"));
        request(fd, 2, 3, TEXT(LEN_Q));
        expect(fd, RELAY_ANSWER, RELAY_KNOWN, 2, 3, TEXT(ONE));
        lose_link(fd);
        loop_close(&loop);
    }
}

/* A request is held, and the relay sends on and on behind it. */
static void a_relay_that_is_too_far_ahead_is_dropped(void **state)
{
    size_t len = 60000;
    uint8_t *set = large_request(1, "/k", len);
    struct conn *c;
    int fd;

    (void)state;
    loop_open(&loop, NULL);
    fd = link_connect();
    open_session(fd, 1, 11);
    send_frame(fd, RELAY_REQUEST, RELAY_MORE, 1, 1, set, 1000);
    c = TAILQ_FIRST(&loop.server.net.conns);
    while (!conn_is_carried(c))
        c = TAILQ_NEXT(c, entry);
    LOOP_UNTIL(&loop, c->in != NULL);
    conn_set_input(c, INPUT_PARKED);
    for (int i = 0; loop.server.engine.stats.relay_links == 1; i++) {
        assert_in_range(i, 0, (INPUT_AHEAD_MAX + len) / len + 2);
        send_frame(fd, RELAY_REQUEST, RELAY_MORE, 1, 1, set, len);
        loop_iterate(&loop);
    }
    assert_true(loop_logged(&loop, "more requests than a session may have open"));
    close(fd);
    loop_close(&loop);
    free(set);
}

static void a_session_may_be_one_too_many(void **state)
{
    int fd;

    (void)state;
    loop_open(&loop, (const char *const[]){"--connection-limit=3", NULL});
    fd = link_connect();
    open_session(fd, 1, 11);
    open_session(fd, 2, 12);
    send_open(fd, 3, 13, false);
    assert_int_equal(next_frame(fd).kind, RELAY_ENDED);
    send_frame(fd, RELAY_CLOSE, 0, 1, 0, NOTHING);
    open_session(fd, 4, 13);
    lose_link(fd);
    loop_close(&loop);
}

/* Also without --connection-limit. */
static void a_link_has_so_many_sessions_at_most(void **state)
{
    struct relay_frame frame;
    int fd;

    (void)state;
    loop_open(&loop, NULL);
    assert_int_equal(loop.server.store.links.clients_max, RELAY_CLIENTS_MAX);
    loop.server.store.links.clients_max = 3;
    fd = link_connect();
    for (uint32_t i = 1; i <= 3; i++)
        open_session(fd, i, i);
    send_open(fd, 4, 4, false);
    frame = next_frame(fd);
    assert_int_equal(frame.kind, RELAY_ENDED);
    assert_true(slice_is(frame.payload, "its relay has as many clients as one may have"));
    send_frame(fd, RELAY_CLOSE, 0, 1, 0, NOTHING);
    open_session(fd, 5, 4);
    lose_link(fd);
    loop_close(&loop);
}

/* Channels with any numbers; one link, one session each. */
static void many_sessions_are_opened_and_closed(void **state)
{
    enum { MANY = 20000 };
    int fd;

    (void)state;
    loop_open(&loop, (const char *const[]){"--memory-limit=40MiB", NULL});
    fd = link_connect();
    for (uint32_t i = 1; i <= MANY; i++) {
        send_open(fd, i * 0x9e3779b1u, i, false);
        if (next_frame(fd).kind == RELAY_ENDED)
            break;
    }
    assert_in_range(loop.server.engine.stats.sessions_attached, 1000, MANY);
    send_frame(fd, RELAY_PING, 0, 0, 5, NOTHING);
    expect(fd, RELAY_PONG, 0, 0, 5, NOTHING);
    lose_link(fd);
    tick_after(60000);
    while (loop.server.store.links.sessions.count > 0)
        tick_after(60000);
    loop_close(&loop);
}

static void what_came_before_close_is_carried_out(void **state)
{
    int fd;

    (void)state;
    loop_open(&loop, NULL);
    fd = link_connect();
    open_session(fd, 1, 11);
    open_session(fd, 2, 12);
    request(fd, 1, 1, TEXT(ADD_N));
    send_frame(fd, RELAY_CLOSE, 0, 1, 0, NOTHING);
    send_frame(fd, RELAY_CLOSE, 0, 1, 0, NOTHING);
    request(fd, 2, 1, TEXT(GET_N));
    do
        assert_int_not_equal(loop.server.engine.stats.relay_links, 0);
    while (next_frame(fd).channel != 2);
    assert_int_equal(loop.server.store.links.sessions.count, 1);
    lose_link(fd);
    loop_close(&loop);
}

/* A stop ends no session: the next start goes on with it. */
static void a_stop_lets_sessions_live(void **state)
{
    int fd, other;

    (void)state;
    open_durable();
    fd = link_connect();
    open_session(fd, 1, 11);
    request(fd, 1, 1, TEXT(ADD_N));
    expect(fd, RELAY_ANSWER, RELAY_KNOWN, 1, 1, TEXT(ONE));
    other = link_connect();
    open_session(other, 1, 12);
    request(other, 1, 1, TEXT(WAIT_K));
    lose_link(other);
    assert_int_equal(kill(getpid(), SIGTERM), 0);
    LOOP_UNTIL(&loop, loop.server.net.conn_count == 0); /* one had a link, and one had none */
    restart(fd);
    fd = link_connect();
    resume_session(fd, 1, 11, RELAY_KNOWN | RELAY_ANSWERED, 1, TEXT(ONE));
    send_frame(fd, RELAY_CLOSE, 0, 1, 0, NOTHING);
    expect_nothing(fd);
    restart(fd);
    fd = link_connect();
    resume_session(fd, 1, 11, 0, 0, NOTHING); /* it has ended for good */
    lose_link(fd);
    close_durable();
}

/* After a start, who is back first does not have the space forgotten for the others when it goes.
 */
static void a_space_is_in_use_while_sessions_are_to_come_back(void **state)
{
    struct engine_space *space;
    int fd;

    (void)state;
    open_durable();
    fd = link_connect();
    open_session(fd, 1, 11);
    open_session(fd, 2, 12);
    request(fd, 1, 1, TEXT(SET_K));
    request(fd, 2, 1, TEXT(ADD_N));
    expect_carried_out(fd);
    restart(fd);
    loop.server.engine.options.space_idle_timeout_ms = 1;
    space = TAILQ_FIRST(&loop.server.engine.spaces);
    fd = link_connect();
    resume_session(fd, 1, 11, RELAY_KNOWN, 1, NOTHING);
    send_frame(fd, RELAY_CLOSE, 0, 1, 0, NOTHING);
    expect_nothing(fd);
    space->idle_since_ms -= 1000;
    engine_tick(&loop.server.engine);
    assert_non_null(keymap_get(&space->store->keys, slice_str("/k")));
    resume_session(fd, 2, 12, RELAY_KNOWN | RELAY_ANSWERED, 1, TEXT(ONE));
    send_frame(fd, RELAY_CLOSE, 0, 2, 0, NOTHING);
    expect_nothing(fd);
    space->idle_since_ms -= 1000;
    engine_tick(&loop.server.engine);
    assert_null(keymap_get(&space->store->keys, slice_str("/k")));
    lose_link(fd);
    close_durable();
}

/* --- Any request, any moment. --- */

enum { ACTORS = 4, ROUNDS = 400 };

/* A relay's view of a client that adds to a key. */
struct actor {
    uint64_t number; /* of the request that is open; 0: none */
    uint64_t last;   /* of the one before */
};

/* Each answer is the next number of a count that all of them share. */
struct tally {
    struct actor actors[ACTORS];
    uint64_t sent, answered;
    bool seen[ACTORS * ROUNDS + 1];
};

static void take_sum(struct tally *t, struct actor *a, struct slice payload)
{
    uint64_t sum;

    assert_int_equal(payload.len, 8);
    sum = bytes_get_u64(payload.ptr);
    assert_in_range(sum, 1, t->sent);
    assert_false(t->seen[sum]); /* two ADDs never come to the same */
    t->seen[sum] = true;
    t->answered++;
    a->last = a->number;
    a->number = 0;
}

static void take_any(struct tally *t, int fd)
{
    struct relay_frame frame = next_frame(fd);
    struct actor *a = &t->actors[frame.channel - 1];

    assert_in_range(frame.channel, 1, ACTORS);
    if (frame.kind == RELAY_ANSWER) {
        assert_int_equal(frame.number, a->number);
        take_sum(t, a, frame.payload);
    } else {
        assert_int_equal(frame.kind, RELAY_OPENED);
        if (a->number != 0 && frame.number == a->number)
            take_sum(t, a, frame.payload);
        else if (a->number != 0)
            request(fd, frame.channel, a->number, TEXT(ADD_N));
    }
}

/* The relay begins anew, and asks what has become of what it had sent. */
static int begin_anew(struct tally *t, int fd, bool with_store)
{
    if (with_store)
        restart(fd);
    else
        lose_link(fd);
    fd = link_connect();
    for (uint32_t i = 0; i < ACTORS; i++)
        send_open(fd, i + 1, i + 1, true);
    for (uint32_t i = 0; i < ACTORS; i++)
        take_any(t, fd);
    return fd;
}

static bool is_waiting(const struct tally *t)
{
    for (size_t i = 0; i < ACTORS; i++) {
        if (t->actors[i].number != 0)
            return true;
    }
    return false;
}

static void whenever_the_link_is_lost_each_request_counts_once(void **state)
{
    static struct tally t;
    uint64_t random = 1;
    int fd;

    (void)state;
    t = (struct tally){0};
    open_durable();
    fd = link_connect();
    for (uint32_t i = 0; i < ACTORS; i++)
        open_session(fd, i + 1, i + 1);
    for (int round = 0; round < ROUNDS; round++) {
        struct actor *a;

        random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
        a = &t.actors[random >> 60 & (ACTORS - 1)];
        if (a->number == 0) {
            a->number = a->last + 1;
            t.sent++;
            request(fd, (uint32_t)(a - t.actors) + 1, a->number, TEXT(ADD_N));
        } else {
            take_any(&t, fd);
        }
        if ((random >> 40 & 7) == 0)
            fd = begin_anew(&t, fd, (random >> 50 & 7) == 0);
    }
    while (is_waiting(&t))
        take_any(&t, fd);
    assert_int_equal(t.answered, t.sent);
    for (uint64_t i = 1; i <= t.sent; i++)
        assert_true(t.seen[i]);
    lose_link(fd);
    close_durable();
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
                fd = link_connect();
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

/* --- Elastic jobs. --- */

#define RUN_KEY   "/torch.rendezvous.job"
#define CAS_RUN   "\2\x15\0\0\0\0\0\0\0" RUN_KEY "\0\0\0\0\0\0\0\0\x0c\0\0\0\0\0\0\0Y2FuaW1hZGFt"
#define GET_RUN   "\3\x15\0\0\0\0\0\0\0" RUN_KEY
#define THE_VALUE "\x0c\0\0\0\0\0\0\0Y2FuaW1hZGFt"

/* The agent of session 11; NULL: it is none. */
static const struct conn_agent *the_agent(void)
{
    struct conn *c;

    TAILQ_FOREACH(c, &loop.server.net.conns, entry) {
        if (conn_is_carried(c))
            return c10d_session(c)->role == C10D_AGENT ? c10d_session(c)->bound.agent : NULL;
    }
    return NULL;
}

static void an_agent_lives_while_its_relay_is_away(void **state)
{
    const struct live_run *run;
    const struct agent *a;
    int fd;

    (void)state;
    loop_open(&loop, NULL);
    fd = link_connect();
    open_session(fd, 1, 11);
    request(fd, 1, 1, TEXT(CAS_RUN));
    expect(fd, RELAY_ANSWER, RELAY_KNOWN, 1, 1, TEXT(THE_VALUE));
    assert_non_null(the_agent());
    a = &the_agent()->agent;
    run = the_agent()->run;
    assert_string_equal(a->local_host, "127.0.0.1"); /* as the client sees it */
    assert_int_equal(a->local_port, 29400);
    assert_true(a->pings);
    lose_link(fd);
    assert_int_equal(run->run.agent_count, 1);
    assert_true(a->away);
    fd = link_connect();
    resume_session(fd, 1, 11, RELAY_KNOWN | RELAY_TOOK, 1, NOTHING);
    assert_false(a->away);
    request(fd, 1, 2, TEXT(GET_RUN));
    expect(fd, RELAY_ANSWER, RELAY_KNOWN, 1, 2, TEXT(THE_VALUE));
    send_frame(fd, RELAY_CLOSE, 0, 1, 0, NOTHING);
    LOOP_UNTIL(&loop, run->run.agent_count == 0);
    lose_link(fd);
    loop_close(&loop);
}

/* As a process that is killed leaves its sockets. */
static void reset_link(int fd)
{
    const struct linger at_once = {.l_onoff = 1};
    uint64_t links = loop.server.engine.stats.relay_links;

    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once), 0);
    close(fd);
    LOOP_UNTIL(&loop, loop.server.engine.stats.relay_links == links - 1);
}

/* The store ends the link, and the relay has not said that it ends. */
static void break_link(int fd)
{
    uint64_t links = loop.server.engine.stats.relay_links;

    send_frame(fd, RELAY_WELCOME, 0, 0, 0, NOTHING);
    LOOP_UNTIL(&loop, loop.server.engine.stats.relay_links == links - 1);
    close(fd);
}

static void an_agent_ends_with_its_relay(void **state)
{
    static const struct {
        const char *name;
        void (*end)(int fd);
        bool is_awaited;
    } rows[] = {
        {"closed", lose_link, true}, {"reset", reset_link, true}, {"broken", break_link, false}};

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        const struct live_run *run;
        const struct agent *a;
        int fd;

        print_message("  %s\n", rows[i].name);
        loop_open(&loop, NULL);
        fd = link_connect();
        open_session(fd, 1, 11);
        request(fd, 1, 1, TEXT(CAS_RUN));
        expect(fd, RELAY_ANSWER, RELAY_KNOWN, 1, 1, TEXT(THE_VALUE));
        a = &the_agent()->agent;
        run = the_agent()->run;
        rows[i].end(fd);
        assert_true(a->away);
        tick_after(RELAY_RETURN_MS - 100);
        assert_false(a->gone);
        tick_after(100);
        assert_int_equal(a->gone, rows[i].is_awaited);
        assert_int_equal(run->run.agent_count, !rows[i].is_awaited);
        fd = link_connect(); /* it comes back after all */
        resume_session(fd, 1, 11, RELAY_KNOWN | RELAY_TOOK, 1, NOTHING);
        assert_false(a->gone);
        assert_int_equal(run->run.agent_count, 1);
        request(fd, 1, 2, TEXT(GET_RUN));
        expect(fd, RELAY_ANSWER, RELAY_KNOWN, 1, 2, TEXT(THE_VALUE));
        rows[i].end(fd);
        fd = link_connect(); /* or in time */
        resume_session(fd, 1, 11, RELAY_KNOWN | RELAY_TOOK, 1, NOTHING);
        tick_after(RELAY_RETURN_MS);
        assert_false(a->gone);
        lose_link(fd);
        loop_close(&loop);
    }
}

/* All sessions from before the start that come back have: that is known when the last one has
 * asked, or ended, and does not take --session-timeout. */
static void after_a_start_sessions_are_counted_that_come_back(void **state)
{
    int fd;

    (void)state;
    open_durable();
    fd = link_connect();
    open_session(fd, 1, 11);
    open_session(fd, 2, 12);
    request(fd, 1, 1, TEXT(CAS_RUN));
    expect(fd, RELAY_ANSWER, RELAY_KNOWN, 1, 1, TEXT(THE_VALUE));
    request(fd, 2, 1, TEXT(CAS_RUN));
    expect(fd, RELAY_ANSWER, RELAY_KNOWN, 2, 1, TEXT(THE_VALUE));
    restart(fd);
    assert_int_equal(TAILQ_FIRST(&loop.server.engine.spaces)->sessions_missing, 2);
    fd = link_connect();
    resume_session(fd, 1, 11, RELAY_KNOWN | RELAY_TOOK, 1, NOTHING);
    tick_after(0);
    assert_int_equal(TAILQ_FIRST(&loop.server.engine.spaces)->sessions_missing, 2);
    request(fd, 1, 2, TEXT(GET_RUN));
    expect(fd, RELAY_ANSWER, RELAY_KNOWN, 1, 2, TEXT(THE_VALUE));
    tick_after(0);
    assert_int_equal(TAILQ_FIRST(&loop.server.engine.spaces)->sessions_missing, 1);
    assert_false(the_agent()->run->run.has_absent);
    resume_session(fd, 2, 12, RELAY_KNOWN | RELAY_TOOK, 1, NOTHING);
    send_frame(fd, RELAY_CLOSE, 0, 2, 0, NOTHING); /* its client has ended meanwhile */
    expect_nothing(fd);
    tick_after(0);
    assert_int_equal(TAILQ_FIRST(&loop.server.engine.spaces)->sessions_missing, 0);
    assert_true(the_agent()->run->run.has_absent); /* the first is not known by its node yet */
    lose_link(fd);
    close_durable();
}

static void an_agent_is_one_again_after_a_start(void **state)
{
    int fd;

    (void)state;
    open_durable();
    fd = link_connect();
    open_session(fd, 1, 11);
    request(fd, 1, 1, TEXT(CAS_RUN));
    expect(fd, RELAY_ANSWER, RELAY_KNOWN, 1, 1, TEXT(THE_VALUE));
    restart(fd);
    fd = link_connect();
    resume_session(fd, 1, 11, RELAY_KNOWN | RELAY_TOOK, 1, NOTHING);
    assert_null(the_agent());
    request(fd, 1, 2, TEXT(GET_K));
    expect(fd, RELAY_ANSWER, RELAY_KNOWN, 1, 2, TEXT("\0\0\0\0\0\0\0\0"));
    request(fd, 1, 3, TEXT(GET_RUN));
    expect(fd, RELAY_ANSWER, RELAY_KNOWN, 1, 3, TEXT(THE_VALUE));
    assert_non_null(the_agent());
    lose_link(fd);
    close_durable();
}

/* A worker uses the keys of its worker store, before a start and after it; and that goes with it.
 */
static void a_worker_keeps_its_worker_store(void **state)
{
    struct engine *e = &loop.server.engine;
    struct engine_space *space;
    struct store_result result;
    int fd;

    (void)state;
    open_durable();
    space = TAILQ_FIRST(&e->spaces);
    engine_apply(e, space, &(struct command){.kind = COMMAND_WORKER_STORE_OPEN}, &result);
    assert_int_equal(result.status, STORE_OK);
    assert_int_equal(engine_session_bind(e, space, 11, true, 1), STORE_OK);
    loop_iterate(&loop);
    fd = loop_connect(&loop, false);
    restart(fd);
    space = TAILQ_FIRST(&e->spaces);
    fd = link_connect();
    resume_session(fd, 1, 11, RELAY_KNOWN, 0, NOTHING);
    request(fd, 1, 1, TEXT(SET_K));
    expect(fd, RELAY_DONE, RELAY_KNOWN, 1, 1, NOTHING);
    assert_null(keymap_get(&space->store->keys, slice_str("/k")));
    assert_non_null(keymap_get(space_keys(space->store, 1), slice_str("/k")));
    lose_link(fd);
    tick_after(59000);
    assert_int_equal(space->store->worker_stores.count, 1);
    tick_after(1000);
    assert_int_equal(space->store->worker_stores.count, 0);
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
        cmocka_unit_test(sessions_that_no_relay_opens_end_bit_by_bit),
        cmocka_unit_test(large_values_go_in_parts),
        cmocka_unit_test(a_large_element_is_told_again),
        cmocka_unit_test(half_a_request_is_forgotten),
        cmocka_unit_test(a_relay_that_does_not_read_holds_up_no_other),
        cmocka_unit_test(confirmations_of_one_iteration_are_one),
        cmocka_unit_test(nothing_is_told_before_it_is_committed),
        cmocka_unit_test(a_relay_is_refused),
        cmocka_unit_test(a_relay_may_have_a_space_of_its_own),
        cmocka_unit_test(frames_of_no_relay_end_the_link),
        cmocka_unit_test(hostile_frames_end_the_link),
        cmocka_unit_test(two_requests_in_one_frame_end_the_session),
        cmocka_unit_test(a_request_that_was_carried_out_is_not_carried_out_again),
        cmocka_unit_test(a_long_hello_or_open_is_not_decoded),
        cmocka_unit_test(no_number_comes_behind_the_last),
        cmocka_unit_test(a_change_behind_an_open_wait_ends_the_session),
        cmocka_unit_test(a_relay_that_is_too_far_ahead_is_dropped),
        cmocka_unit_test(a_session_may_be_one_too_many),
        cmocka_unit_test(a_link_has_so_many_sessions_at_most),
        cmocka_unit_test(many_sessions_are_opened_and_closed),
        cmocka_unit_test(what_came_before_close_is_carried_out),
        cmocka_unit_test(a_stop_lets_sessions_live),
        cmocka_unit_test(a_space_is_in_use_while_sessions_are_to_come_back),
        cmocka_unit_test(whenever_the_link_is_lost_each_request_counts_once),
        cmocka_unit_test(no_order_of_frames_hurts_the_server),
        cmocka_unit_test(an_agent_lives_while_its_relay_is_away),
        cmocka_unit_test(an_agent_ends_with_its_relay),
        cmocka_unit_test(after_a_start_sessions_are_counted_that_come_back),
        cmocka_unit_test(an_agent_is_one_again_after_a_start),
        cmocka_unit_test(a_worker_keeps_its_worker_store),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
