/* Stalled peers, which do not read their answers or send half a request. The server closes their
 * connections after the timeout, and no others. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/loop/harness.h"
#include "tests/loop/requests.h"

/* --- Slow readers. --- */

static void a_c10d_peer_that_does_not_read_is_cut(void **state)
{
    const char *const flags[] = {"--output-limit", "1MiB", NULL};
    uint64_t cut;
    int fd, writer;

    (void)state;
    loop_open(&loop, flags);
    writer = loop_connect_modern(&loop);
    loop_set_large(&loop, writer, 400000);
    fd = loop_connect(&loop, true);
    loop_send(&loop, fd, TEXT(VALIDATE));
    cut = loop.server.engine.stats.dropped[DROP_STALLED];
    for (int i = 0; i < 100 && loop_conn(&loop, fd) != NULL; i++) {
        struct conn *c = loop_conn(&loop, fd);

        assert_in_range(c->out.bytes, 0, (1 << 20) + 400008);
        send(fd, TEXT(GET_K), MSG_NOSIGNAL);
        loop_iterate(&loop);
        loop_iterate(&loop);
    }
    assert_null(loop_conn(&loop, fd));
    assert_int_equal(loop.server.engine.stats.dropped[DROP_STALLED], cut + 1);
    assert_true(loop_logged(&loop, "reason=\"does not read its answers"));
    loop_send(&loop, writer, TEXT(PING)); /* nobody else is disturbed */
    loop_expect(&loop, writer, "abcd", 4);
    close(fd);
    loop_leave(&loop, writer);
    loop_close(&loop);
}

/* HTTP peers may pipeline: over the limit their next request waits until they have read. */
static void an_http_peer_that_reads_late_gets_all_its_answers(void **state)
{
    enum { REQUESTS = 60, LEN = 50000 };
    const char *const flags[] = {"--output-limit", "256KiB", NULL};
    char *request = malloc(LEN + 256), *body = malloc(LEN + 256);
    struct conn *c;
    int fd, len, paused = 0;

    (void)state;
    assert_non_null(request);
    assert_non_null(body);
    loop_open(&loop, flags);
    fd = loop_connect(&loop, true);
    len = sprintf(request,
                  "PUT /v2/keys/k HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n"
                  "Content-Type: application/x-www-form-urlencoded\r\n\r\nvalue=",
                  LEN + 6);
    memset(request + len, 'x', LEN);
    loop_send(&loop, fd, request, (size_t)len + LEN);
    assert_int_equal(loop_expect_answer(&loop, fd, body, LEN + 256), 201);

    for (int i = 0; i < REQUESTS; i++) {
        len = sprintf(request, "GET /v2/keys/k?n=%d HTTP/1.1\r\nHost: x\r\n\r\n", i);
        loop_send(&loop, fd, request, (size_t)len);
        c = loop_conn(&loop, fd);
        assert_non_null(c);
        paused += c->input == INPUT_PAUSED;
        assert_in_range(c->out.bytes, 0, (256 << 10) + LEN + 1024);
    }
    assert_in_range(paused, 1, REQUESTS);
    for (int i = 0; i < REQUESTS; i++) {
        assert_int_equal(loop_expect_answer(&loop, fd, body, LEN + 256), 200);
        assert_int_equal(strspn(strstr(body, "xxx"), "x"), LEN);
    }
    c = loop_conn(&loop, fd);
    assert_int_equal(c->input, INPUT_READY);
    assert_int_equal(c->output, OUTPUT_IDLE);
    assert_null(c->in);
    loop_expect_silence(&loop, fd);
    loop_leave(&loop, fd);
    free(request);
    free(body);
    loop_close(&loop);
}

static void a_stream_that_is_not_read_is_cut(void **state)
{
    const char *const flags[] = {"--output-limit", "256KiB", NULL};
    struct command set = {.kind = COMMAND_TREE_SET, .key = slice_str("/k")};
    uint8_t *value = calloc(1, 100000);
    struct space *space;
    int fd;

    (void)state;
    assert_non_null(value);
    memset(value, 'x', 100000);
    set.value = (struct slice){value, 100000};
    loop_open(&loop, flags);
    fd = loop_connect(&loop, true);
    space = TAILQ_FIRST(&loop.server.engine.store.spaces);
    loop_send_text(&loop, fd, "GET /v2/keys/k?wait=true&stream=true HTTP/1.1\r\nHost: x\r\n\r\n");
    LOOP_UNTIL(&loop, space->tree.hub.registered == 1);
    for (int i = 0; i < 50 && loop_conn(&loop, fd) != NULL; i++) {
        struct store_result result;

        engine_apply(&loop.server.engine, TAILQ_FIRST(&loop.server.engine.spaces), &set, &result);
        loop_iterate(&loop);
    }
    assert_null(loop_conn(&loop, fd));
    assert_int_equal(space->tree.hub.registered, 0);
    assert_true(loop_logged(&loop, "reason=\"does not read its answers"));
    close(fd);
    free(value);
    loop_close(&loop);
}

/* As etcd's does: its client gets what was queued, and then the end; the connection stays. */
static void a_watch_that_cannot_keep_up_ends(void **state)
{
    static uint8_t value[5000];
    struct command set = {.kind = COMMAND_TREE_SET, .key = slice_str("/k")};
    struct space *space;
    struct conn *c;
    char body[20000];
    uint8_t last[5] = "";
    int fd, events = 0;

    (void)state;
    memset(value, 'x', sizeof value);
    set.value = (struct slice){value, sizeof value};
    fd = loop_connect(&loop, true);
    space = TAILQ_FIRST(&loop.server.engine.store.spaces);
    loop_send_text(&loop, fd, "GET /v2/keys/k?wait=true&stream=true HTTP/1.1\r\nHost: x\r\n\r\n");
    LOOP_UNTIL(&loop, space->tree.hub.registered == 1);
    c = loop_conn(&loop, fd);
    for (; space->tree.hub.registered == 1; events++) {
        struct store_result result;

        assert_in_range(events, 0, 20000);
        engine_apply(&loop.server.engine, TAILQ_FIRST(&loop.server.engine.spaces), &set, &result);
        loop_iterate(&loop);
    }
    assert_true(loop_logged(&loop, "event=watch_lost"));
    assert_ptr_equal(loop_conn(&loop, fd), c);
    assert_in_range(c->out.bytes, 1 << 20, (1 << 20) + 3 * sizeof value);
    assert_in_range(events, 100, 20000);
    while (memcmp(last, "0\r\n\r\n", 5) != 0) {
        memmove(last, last + 1, 4);
        last[4] = loop_next_byte(&loop, fd);
    }
    loop_send_text(&loop, fd, "GET /v2/keys/k HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_int_equal(loop_expect_answer(&loop, fd, body, sizeof body), 200);
    loop_leave(&loop, fd);
}

/* --- Late. --- */

static void half_a_request_is_cut_when_its_time_is_over(void **state)
{
    static const struct {
        const char *name, *bytes;
        size_t len;
    } rows[] = {
        {"half of VALIDATE", TEXT("\0\xce")},
        {"an opcode", TEXT(VALIDATE "\1")},
        {"half a length", TEXT(VALIDATE "\1\2\0\0")},
        {"half a value", TEXT(VALIDATE "\1\2\0\0\0\0\0\0\0/k\5\0\0\0\0\0\0\0ab")},
        {"half a list", TEXT(VALIDATE "\6\2\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0/k")},
        {"a letter", TEXT("G")},
        {"half a head", TEXT("GET / HTTP/1.1\r\nHost")},
        {"half a body",
         TEXT("PUT /v2/keys/k HTTP/1.1\r\nHost: x\r\n" FORM "Content-Length: 9\r\n\r\nval")},
        {"half a chunk", TEXT("PUT /v2/keys/k HTTP/1.1\r\nHost: x\r\n" FORM
                              "Transfer-Encoding: chunked\r\n\r\n5\r\nval")},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct conn *c;
        uint64_t since;
        int fd, idle;

        print_message("  %s\n", rows[i].name);
        loop_open(&loop, NULL);
        idle = loop_connect_modern(&loop);
        fd = loop_connect(&loop, false);
        loop_send(&loop, fd, rows[i].bytes, rows[i].len);
        c = loop_conn(&loop, fd);
        assert_true(c->stalled_ms != 0);
        since = c->stalled_ms;
        transport_drop_stalled(&loop.server.net, since - 1);
        loop_iterate(&loop);
        assert_ptr_equal(loop_conn(&loop, fd), c);
        transport_drop_stalled(&loop.server.net, since);
        loop_iterate(&loop);
        assert_null(loop_conn(&loop, fd));
        assert_true(loop_logged(&loop, "half a request for too long"));
        loop_expect_end(&loop, fd);
        close(fd);
        loop_leave(&loop, idle);
        loop_close(&loop);
    }
}

/* Byte by byte does not make it younger: the time is for the whole request. */
static void dripping_does_not_help(void **state)
{
    static const struct {
        const char *bytes;
        size_t len;
    } rows[] = {
        {TEXT("\1\2\0\0\0\0\0\0\0/k\4\0\0\0\0\0\0\0abc")},
        {TEXT("\x0b\2\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0/k\1\0\0\0\0\0\0\0v\2\0\0\0\0\0\0\0/")},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct conn *c;
        int fd;

        loop_open(&loop, NULL);
        fd = loop_connect_modern(&loop);
        c = loop_conn(&loop, fd);
        loop_send(&loop, fd, rows[i].bytes, 1);
        assert_true(c->stalled_ms != 0);
        c->stalled_ms -= 1000; /* a second goes by */
        for (size_t k = 1; k < rows[i].len; k++) {
            uint64_t since = c->stalled_ms;

            loop_send(&loop, fd, rows[i].bytes + k, 1);
            assert_true(c->stalled_ms != 0);
            assert_int_equal(c->stalled_ms, since);
        }
        loop_leave(&loop, fd);
        loop_close(&loop);
    }
}

/* A finished request and the start of another one: the time starts anew. */
static void each_request_has_its_own_time(void **state)
{
    struct conn *c;
    int fd;

    (void)state;
    fd = loop_connect_modern(&loop);
    c = loop_conn(&loop, fd);
    loop_send(&loop, fd,
              TEXT("\x0d"
                   "ab"));
    assert_true(c->stalled_ms != 0);
    c->stalled_ms = 1; /* long ago */
    loop_send(&loop, fd, TEXT("cd\x0d"));
    loop_expect(&loop, fd, "abcd", 4);
    assert_true(c->stalled_ms != 0);
    assert_true(c->stalled_ms > 1);
    loop_send(&loop, fd, TEXT("abcd"));
    loop_expect(&loop, fd, "abcd", 4);
    assert_int_equal(c->stalled_ms, 0);
    loop_leave(&loop, fd);
}

/* Those who owe for the longest time come first, and only they are cut. */
static void only_those_who_are_late_are_cut(void **state)
{
    struct conn *early, *late;
    int fds[2], waiting;

    (void)state;
    waiting = loop_connect_modern(&loop);
    loop_send(&loop, waiting, TEXT(WAIT_K));
    for (size_t i = 0; i < COUNT(fds); i++) {
        fds[i] = loop_connect_modern(&loop);
        loop_send(&loop, fds[i], TEXT("\1"));
    }
    early = loop_conn(&loop, fds[0]);
    late = loop_conn(&loop, fds[1]);
    early->stalled_ms = 5;
    late->stalled_ms = 6;
    transport_drop_stalled(&loop.server.net, 5);
    loop_iterate(&loop);
    assert_null(loop_conn(&loop, fds[0]));
    assert_ptr_equal(loop_conn(&loop, fds[1]), late);
    transport_drop_stalled(&loop.server.net, UINT64_MAX);
    loop_iterate(&loop);
    assert_null(loop_conn(&loop, fds[1]));
    assert_non_null(loop_conn(&loop, waiting)); /* who waits for us owes nothing */
    loop_leave(&loop, waiting);
    close(fds[0]);
    close(fds[1]);
}

/* The rest of its request has come, and the loop has not come to read it. */
static void whose_bytes_are_here_is_not_late(void **state)
{
    struct conn *c;
    int fd;

    (void)state;
    fd = loop_connect_modern(&loop);
    loop_send(&loop, fd, TEXT("\1\2\0\0\0\0\0\0\0/k\1"));
    c = loop_conn(&loop, fd);
    assert_true(c->stalled_ms != 0);
    assert_int_equal(send(fd, "\0\0\0\0\0\0\0v", 8, 0), 8);
    transport_drop_stalled(&loop.server.net, UINT64_MAX);
    transport_end_iteration(&loop.server.net);
    assert_ptr_equal(loop_conn(&loop, fd), c);
    assert_int_equal(c->stalled_ms, 0);
    loop_send(&loop, fd, TEXT(GET_K));
    loop_expect(&loop, fd, TEXT(VALUE_V));
    loop_leave(&loop, fd);
}

/* A peer that reads now and then is never late; one that stops is. */
static void a_reader_that_stops_is_late(void **state)
{
    struct conn *c;
    char bytes[2000];
    int fd, writer;

    (void)state;
    writer = loop_connect_modern(&loop);
    loop_set_large(&loop, writer, 3000000);
    fd = loop_connect(&loop, true);
    loop_send(&loop, fd, TEXT(VALIDATE GET_K));
    c = loop_conn(&loop, fd);
    assert_true(c->output == OUTPUT_BLOCKED && c->stalled_ms != 0);
    for (int i = 0; i < 20; i++) {
        size_t before = c->out.bytes;

        c->stalled_ms = 1;
        while (c->out.bytes == before) {
            while (recv(fd, bytes, sizeof bytes, 0) > 0)
                continue;
            loop_iterate(&loop);
        }
        assert_true(c->stalled_ms > 1); /* it has moved */
        transport_drop_stalled(&loop.server.net, 1);
        assert_ptr_equal(loop_conn(&loop, fd), c);
    }
    while (recv(fd, bytes, sizeof bytes, 0) > 0)
        continue;
    c->stalled_ms = 1; /* the socket has room again, and the server has not noticed it yet */
    transport_drop_stalled(&loop.server.net, 1);
    transport_end_iteration(&loop.server.net);
    assert_ptr_equal(loop_conn(&loop, fd), c);
    assert_true(c->stalled_ms != 1);
    for (int i = 0; i < 5; i++) {
        transport_drop_stalled(&loop.server.net, UINT64_MAX);
        loop_iterate(&loop);
    }
    assert_null(loop_conn(&loop, fd));
    assert_true(loop_logged(&loop, "does not read its answers"));
    close(fd);
    loop_leave(&loop, writer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_c10d_peer_that_does_not_read_is_cut),
        cmocka_unit_test(an_http_peer_that_reads_late_gets_all_its_answers),
        cmocka_unit_test(a_stream_that_is_not_read_is_cut),
        LOOP_TEST(a_watch_that_cannot_keep_up_ends),
        cmocka_unit_test(half_a_request_is_cut_when_its_time_is_over),
        cmocka_unit_test(dripping_does_not_help),
        LOOP_TEST(each_request_has_its_own_time),
        LOOP_TEST(only_those_who_are_late_are_cut),
        LOOP_TEST(whose_bytes_are_here_is_not_late),
        LOOP_TEST(a_reader_that_stops_is_late),
    };

    return cmocka_run_group_tests_name("rdzv/conn, stalled", tests, NULL, NULL);
}
