/* Watches that are open, and what their peers send behind them: it waits for the end of the watch,
 * in order and within limits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/loop/harness.h"
#include "tests/loop/requests.h"

/* The head of an open watch, then its one event and its end. */
static void expect_chunked_event(struct loop *l, int fd, const char *event)
{
    char chunk[512];
    char head[2048];
    size_t len = 0;

    do {
        head[len++] = (char)loop_next_byte(l, fd);
        head[len] = '\0';
        assert_in_range(len, 1, sizeof head - 2);
    } while (len < 4 || memcmp(head + len - 4, "\r\n\r\n", 4) != 0);
    assert_non_null(strstr(head, "Transfer-Encoding: chunked"));
    if (event != NULL)
        sprintf(chunk, "%08zx\r\n%s\r\n0\r\n\r\n", strlen(event), event);
    else
        sprintf(chunk, "0\r\n\r\n");
    loop_expect(l, fd, chunk, strlen(chunk));
}

#define EVENT                                                                           \
    "{\"action\":\"set\",\"node\":{\"key\":\"/k\",\"value\":\"1\",\"modifiedIndex\":4," \
    "\"createdIndex\":4}}\n"

/* Requests pipelined behind a watch wait until the watch ends, in the same segment or in later
 * ones. They then go on, although libevent reports no further event for the socket. */
static void requests_behind_a_watch_wait_for_its_end(void **state)
{
    static const char *const cuts[][4] = {
        {WATCH GET_1 GET_1},
        {WATCH, GET_1 GET_1},
        {WATCH, GET_1, GET_1},
        {WATCH "GET /ver", "sion HTTP/1.1\r\nHost: x\r\n\r\n" GET_1},
        {WATCH GET_1 "GET /version HT", "TP/1.1\r\nHost: x\r\n\r\n"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cuts); i++) {
        char body[256];
        struct conn *c;
        int fd, writer;

        print_message("  row %zu\n", i);
        loop_open(&loop, NULL);
        fd = loop_connect(&loop, false);
        writer = loop_connect(&loop, false);
        for (size_t k = 0; k < COUNT(cuts[i]) && cuts[i][k] != NULL; k++)
            loop_send_text(&loop, fd, cuts[i][k]);
        c = loop_conn(&loop, fd);
        assert_int_equal(c->input, INPUT_PARKED);
        assert_non_null(c->in);
        assert_int_equal(c->stalled_ms, 0);
        transport_drop_stalled(&loop.server.net, UINT64_MAX); /* a parked peer owes nothing */
        assert_int_equal(c->end, CONN_OPEN);
        loop_send_text(&loop, writer, PUT_K);
        assert_int_equal(loop_expect_answer(&loop, writer, body, sizeof body), 201);
        expect_chunked_event(&loop, fd, EVENT);
        for (int k = 0; k < 2; k++) {
            assert_int_equal(loop_expect_answer(&loop, fd, body, sizeof body), 200);
            assert_non_null(strstr(body, "etcdserver"));
        }
        loop_expect_silence(&loop, fd);
        assert_int_equal(c->input, INPUT_READY);
        assert_null(c->in);
        loop_leave(&loop, fd);
        loop_leave(&loop, writer);
        loop_close(&loop);
    }
}

/* A watch behind a watch: the second is opened when the first is over. */
static void a_watch_behind_a_watch_is_opened_after_it(void **state)
{
    char body[512];
    struct space *space;
    int fd, writer;

    (void)state;
    fd = loop_connect(&loop, false);
    writer = loop_connect(&loop, false);
    space = TAILQ_FIRST(&loop.server.engine.store.spaces);
    loop_send_text(&loop, fd, WATCH WATCH GET_1);
    loop_send_text(&loop, fd, WATCH);
    LOOP_UNTIL(&loop, space->tree.hub.registered == 1);
    loop_send_text(&loop, writer, PUT_K);
    loop_expect_answer(&loop, writer, body, sizeof body);
    expect_chunked_event(&loop, fd, EVENT);
    LOOP_UNTIL(&loop, space->tree.hub.registered == 1);
    loop_send_text(&loop, writer, PUT_K);
    loop_expect_answer(&loop, writer, body, sizeof body);
    expect_chunked_event(&loop, fd,
                         "{\"action\":\"set\",\"node\":{\"key\":\"/k\",\"value\":\"1\","
                         "\"modifiedIndex\":5,\"createdIndex\":5},\"prevNode\":{\"key\":\"/k\","
                         "\"value\":\"1\",\"modifiedIndex\":4,\"createdIndex\":4}}\n");
    assert_int_equal(loop_expect_answer(&loop, fd, body, sizeof body), 200);
    LOOP_UNTIL(&loop, space->tree.hub.registered == 1);
    loop_leave(&loop, fd);
    assert_int_equal(space->tree.hub.registered, 0);
    loop_leave(&loop, writer);
}

static void a_half_closed_watch_ends_properly(void **state)
{
    struct space *space;
    int fd;

    (void)state;
    fd = loop_connect(&loop, false);
    space = TAILQ_FIRST(&loop.server.engine.store.spaces);
    loop_send_text(&loop, fd, WATCH);
    LOOP_UNTIL(&loop, space->tree.hub.registered == 1);
    shutdown(fd, SHUT_WR);
    expect_chunked_event(&loop, fd, NULL);
    loop_expect_end(&loop, fd);
    assert_int_equal(space->tree.hub.registered, 0);
    close(fd);
}

/* A watch may stay open for ever, and its peer is not timed out meanwhile. */
static void a_watch_does_not_keep_the_room_of_the_request_before(void **state)
{
    static char body[1 << 20];
    char answer[64];
    int fd;

    (void)state;
    memset(body, 'x', sizeof body);
    memcpy(body, "value=", 6);
    fd = loop_connect(&loop, false);
    loop_send_text(&loop, fd,
                   "PUT /v2/keys/k?noValueOnSuccess=true HTTP/1.1\r\nHost: x\r\n" FORM
                   "Transfer-Encoding: chunked\r\n\r\n100000\r\n");
    loop_send(&loop, fd, body, sizeof body);
    /* The end of the body and what follows come as one, into the room of the large request. */
    loop_send_text(&loop, fd, "\r\n0\r\n\r\n" WATCH "G");
    loop_expect_answer(&loop, fd, answer, sizeof answer);
    LOOP_UNTIL(&loop,
               loop_conn(&loop, fd)->input == INPUT_PARKED && loop_conn(&loop, fd)->in != NULL);
    assert_in_range(loop_conn(&loop, fd)->in->cap, 1, 64 * 1024);
    loop_leave(&loop, fd);
}

static void a_flood_behind_a_watch_is_cut(void **state)
{
    enum { FLOOD = 3 << 20 };
    char *bytes = malloc(FLOOD);
    int fd;

    (void)state;
    assert_non_null(bytes);
    memset(bytes, 'x', FLOOD);
    fd = loop_connect(&loop, false);
    loop_send_text(&loop, fd, WATCH);
    for (size_t sent = 0; sent < FLOOD && loop_conn(&loop, fd) != NULL;) {
        ssize_t n = send(fd, bytes + sent, FLOOD - sent, MSG_NOSIGNAL);
        struct conn *c;

        sent += n > 0 ? (size_t)n : 0;
        loop_iterate(&loop);
        c = loop_conn(&loop, fd);
        if (c != NULL && c->in != NULL)
            assert_in_range(c->in->cap, 0, 2 << 20);
    }
    LOOP_UNTIL(&loop, loop_conn(&loop, fd) == NULL);
    assert_true(loop_logged(&loop, "event=dropped"));
    close(fd);
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_behind_a_watch_wait_for_its_end),
        LOOP_TEST(a_watch_behind_a_watch_is_opened_after_it),
        LOOP_TEST(a_half_closed_watch_ends_properly),
        LOOP_TEST(a_watch_does_not_keep_the_room_of_the_request_before),
        LOOP_TEST(a_flood_behind_a_watch_is_cut),
    };

    return cmocka_run_group_tests_name("rdzv/conn, parked", tests, NULL, NULL);
}
