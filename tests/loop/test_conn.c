/* Connections of a real server, iteration by iteration: half-closed peers, slow readers, pauses,
 * parked watches with requests behind them, and those who are cut for being late. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/loop/harness.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define VALIDATE "\0\xce\xf7\x85\x3c"
#define TEXT(s)  (s), sizeof(s) - 1 /* a literal that may have NULs in it */

/* Requests of the modern version. */
#define SET_K  "\1\2\0\0\0\0\0\0\0/k\1\0\0\0\0\0\0\0v"
#define GET_K  "\3\2\0\0\0\0\0\0\0/k"
#define WAIT_K "\6\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0/k"
#define WAIT_J "\6\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0/j"
#define CANCEL "\x0c"
#define PING \
    "\x0d"   \
    "abcd"
#define VALUE_V   "\1\0\0\0\0\0\0\0v"
#define ADD_N     "\4\2\0\0\0\0\0\0\0/n\1\0\0\0\0\0\0\0"
#define BARRIER_2 "\x12\2\0\0\0\0\0\0\0/b\2\0\0\0\0\0\0\0"

static struct loop loop; /* large */

static int open_modern(struct loop *l)
{
    int fd = loop_connect(l, false);

    loop_send(l, fd, TEXT(VALIDATE PING));
    loop_expect(l, fd, "abcd", 4);
    return fd;
}

/* A key of that many bytes of value, set through the front door. */
static void set_large(struct loop *l, int fd, size_t len)
{
    uint8_t head[11 + 8] = "\1\2\0\0\0\0\0\0\0/k";
    char *value = malloc(len);

    assert_non_null(value);
    memset(value, 'x', len);
    bytes_put_u64(head + 11, len);
    loop_send(l, fd, head, sizeof head);
    loop_send(l, fd, value, len);
    loop_send(l, fd, TEXT(PING));
    loop_expect(l, fd, "abcd", 4);
    free(value);
}

static void set_key(const char *key, const char *value)
{
    struct engine *e = &loop.server.engine;
    struct store_result r;

    engine_apply(e, TAILQ_FIRST(&e->spaces),
                 &(struct command){
                     .kind = COMMAND_KEY_SET, .key = slice_str(key), .value = slice_str(value)},
                 &r);
    assert_int_equal(r.status, STORE_OK);
}

/* --- Idle. --- */

static void an_idle_peer_costs_its_struct_alone(void **state)
{
    int fd;
    struct conn *c;

    (void)state;
    loop_open(&loop, NULL);
    fd = open_modern(&loop);
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
    loop_close(&loop);
}

static void who_comes_and_goes_leaves_no_trace(void **state)
{
    (void)state;
    loop_open(&loop, NULL);
    for (int i = 0; i < 3; i++)
        loop_leave(&loop, loop_connect(&loop, false));
    assert_int_equal(lseek(loop.log_fd, 0, SEEK_END), 0);
    assert_int_equal(loop.server.net.conn_count, 0);
    loop_close(&loop);
}

static void a_silent_peer_is_undecided_for_ever(void **state)
{
    int fd;

    (void)state;
    loop_open(&loop, NULL);
    fd = loop_connect(&loop, false);
    transport_drop_stalled(&loop.server.net, UINT64_MAX);
    loop_expect_silence(&loop, fd);
    loop_send(&loop, fd, TEXT("\5\0\0\0\0\0\0\0\0")); /* a legacy WAIT for nothing */
    loop_expect(&loop, fd, "\0", 1);
    loop_leave(&loop, fd);
    loop_close(&loop);
}

/* --- Half-closed. --- */

static void what_came_before_the_end_is_answered(void **state)
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
    loop_open(&loop, NULL);
    fd = loop_connect(&loop, false);
    assert_int_equal(send(fd, TEXT(VALIDATE SET_K), 0), sizeof VALIDATE SET_K - 1);
    close(fd);
    other = open_modern(&loop);
    loop_send(&loop, other, TEXT(GET_K));
    loop_expect(&loop, other, TEXT(VALUE_V));
    loop_leave(&loop, other);
    loop_close(&loop);
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
    loop_open(&loop, NULL);
    writer = open_modern(&loop);
    set_large(&loop, writer, LEN);
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
    loop_close(&loop);
}

static void who_leaves_while_waiting_waits_no_more(void **state)
{
    struct space *space;
    int fd, barrier, writer;

    (void)state;
    loop_open(&loop, NULL);
    writer = open_modern(&loop);
    fd = open_modern(&loop);
    barrier = open_modern(&loop);
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
    loop_close(&loop);
}

/* A peer that is woken and leaves in the same iteration. */
static void a_woken_peer_may_be_gone_already(void **state)
{
    (void)state;
    for (int order = 0; order < 2; order++) {
        int fd, writer;

        loop_open(&loop, NULL);
        fd = open_modern(&loop);
        writer = open_modern(&loop);
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
    loop_open(&loop, NULL);
    writer = open_modern(&loop);
    for (size_t i = 0; i < COUNT(fds); i++) {
        fds[i] = open_modern(&loop);
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
    loop_close(&loop);
}

/* The wait is fulfilled and cancelled in one iteration: 0, then 1, the one order that clients
 * accept. */
static void a_cancel_that_comes_too_late_is_answered_behind_the_wake(void **state)
{
    (void)state;
    for (int order = 0; order < 2; order++) {
        int fd, writer;

        loop_open(&loop, NULL);
        fd = open_modern(&loop);
        writer = open_modern(&loop);
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
    int fd;

    (void)state;
    loop_open(&loop, NULL);
    fd = open_modern(&loop);
    loop_send(&loop, fd, TEXT(WAIT_K SET_K CANCEL PING));
    loop_expect(&loop, fd, "\0\1abcd", 6);
    loop_send(&loop, fd, TEXT(WAIT_J CANCEL PING));
    loop_expect(&loop, fd, "\1abcd", 5);
    loop_leave(&loop, fd);
    loop_close(&loop);
}

static void a_legacy_peers_next_request_ends_its_wait(void **state)
{
    int fd, writer;

    (void)state;
    loop_open(&loop, NULL);
    fd = loop_connect(&loop, false);
    writer = open_modern(&loop);
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
    loop_close(&loop);
}

/* --- Slow readers. --- */

static void a_c10d_peer_that_does_not_read_is_cut(void **state)
{
    const char *const flags[] = {"--output-limit", "1MiB", NULL};
    uint64_t cut;
    int fd, writer;

    (void)state;
    loop_open(&loop, flags);
    writer = open_modern(&loop);
    set_large(&loop, writer, 400000);
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
    loop_open(&loop, NULL);
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
    loop_close(&loop);
}

/* --- Parked. --- */

#define WATCH "GET /v2/keys/k?wait=true HTTP/1.1\r\nHost: x\r\n\r\n"
#define GET_1 "GET /version HTTP/1.1\r\nHost: x\r\n\r\n"
#define FORM  "Content-Type: application/x-www-form-urlencoded\r\n"
#define PUT_K "PUT /v2/keys/k HTTP/1.1\r\nHost: x\r\n" FORM "Content-Length: 7\r\n\r\nvalue=1"

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
        sprintf(chunk, "%zx\r\n%s\r\n0\r\n\r\n", strlen(event), event);
    else
        sprintf(chunk, "0\r\n\r\n");
    loop_expect(l, fd, chunk, strlen(chunk));
}

#define EVENT                                                                           \
    "{\"action\":\"set\",\"node\":{\"key\":\"/k\",\"value\":\"1\",\"modifiedIndex\":4," \
    "\"createdIndex\":4}}\n"

/* What is pipelined behind a watch waits for its end, in one segment with it or in its own, and
 * then goes on, although libevent has nothing more to say about it. */
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
    loop_open(&loop, NULL);
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
    loop_close(&loop);
}

static void a_half_closed_watch_ends_properly(void **state)
{
    struct space *space;
    int fd;

    (void)state;
    loop_open(&loop, NULL);
    fd = loop_connect(&loop, false);
    space = TAILQ_FIRST(&loop.server.engine.store.spaces);
    loop_send_text(&loop, fd, WATCH);
    LOOP_UNTIL(&loop, space->tree.hub.registered == 1);
    shutdown(fd, SHUT_WR);
    expect_chunked_event(&loop, fd, NULL);
    loop_expect_end(&loop, fd);
    assert_int_equal(space->tree.hub.registered, 0);
    close(fd);
    loop_close(&loop);
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
    loop_open(&loop, NULL);
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
    loop_close(&loop);
}

static void a_flood_behind_a_watch_is_cut(void **state)
{
    enum { FLOOD = 3 << 20 };
    char *bytes = malloc(FLOOD);
    int fd;

    (void)state;
    assert_non_null(bytes);
    memset(bytes, 'x', FLOOD);
    loop_open(&loop, NULL);
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
    loop_close(&loop);
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
        idle = open_modern(&loop);
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
        fd = open_modern(&loop);
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
    loop_open(&loop, NULL);
    fd = open_modern(&loop);
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
    loop_close(&loop);
}

/* Those who owe for the longest time come first, and only they are cut. */
static void only_those_who_are_late_are_cut(void **state)
{
    struct conn *early, *late;
    int fds[2], waiting;

    (void)state;
    loop_open(&loop, NULL);
    waiting = open_modern(&loop);
    loop_send(&loop, waiting, TEXT(WAIT_K));
    for (size_t i = 0; i < COUNT(fds); i++) {
        fds[i] = open_modern(&loop);
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
    loop_close(&loop);
}

/* The rest of its request has come, and the loop has not come to read it. */
static void whose_bytes_are_here_is_not_late(void **state)
{
    struct conn *c;
    int fd;

    (void)state;
    loop_open(&loop, NULL);
    fd = open_modern(&loop);
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
    loop_close(&loop);
}

/* A peer that reads now and then is never late; one that stops is. */
static void a_reader_that_stops_is_late(void **state)
{
    struct conn *c;
    char bytes[2000];
    int fd, writer;

    (void)state;
    loop_open(&loop, NULL);
    writer = open_modern(&loop);
    set_large(&loop, writer, 3000000);
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
    c->stalled_ms = 1; /* there is room again, which nobody has seen yet */
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
    loop_close(&loop);
}

/* --- Memory follows what was sent. --- */

static void an_announced_length_takes_no_memory(void **state)
{
    struct conn *c;
    int fd;

    (void)state;
    loop_open(&loop, NULL);
    fd = open_modern(&loop);
    loop_send(&loop, fd,
              TEXT("\1\2\0\0\0\0\0\0\0/k\0\0\x80\0\0\0\0\0"
                   "ab")); /* of 8 MiB */
    c = loop_conn(&loop, fd);
    assert_non_null(c->in);
    assert_in_range(c->in->cap, 1, 64 << 10);
    loop_send(&loop, fd, TEXT("cdefgh"));
    assert_in_range(c->in->cap, 1, 64 << 10);
    loop_leave(&loop, fd);
    loop_close(&loop);
}

/* --- Cut for what it sent. --- */

static void an_offence_is_answered_up_to_it(void **state)
{
    int fd;

    (void)state;
    loop_open(&loop, NULL);
    fd = loop_connect(&loop, false);
    loop_send(&loop, fd, TEXT(VALIDATE SET_K GET_K "\x7f" PING));
    loop_expect(&loop, fd, TEXT(VALUE_V));
    loop_expect_end(&loop, fd);
    LOOP_UNTIL(&loop, loop_conn(&loop, fd) == NULL);
    assert_true(loop_logged(&loop, "reason=\"unknown opcode\""));
    close(fd);
    loop_close(&loop);
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
    fd = open_modern(&loop);
    loop_send(&loop, fd, TEXT(SET_K PING));
    loop_expect(&loop, fd, "abcd", 4);
    loop_leave(&loop, fd);
    assert_int_equal(space->keys.present, 1);
    fd = open_modern(&loop); /* somebody is back in time */
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

/* --- Budgets. --- */

/* Costly requests with small answers do not keep other peers waiting: a peer that has used its
 * budget goes on in the next iteration, and in the end all of them are answered. */
static void one_peer_does_not_take_the_time_of_others(void **state)
{
    static const char heads[] = "HEAD /v2/keys/d?recursive=true HTTP/1.1\r\nHost: x\r\n\r\n";
    static const uint8_t ping[] = {0x00, 0xce, 0xf7, 0x85, 0x3c, 0x0d, 1, 2, 3, 4};
    char value[4096], all[20 * (sizeof heads - 1)];
    int greedy, modest;

    (void)state;
    memset(value, 'v', sizeof value);
    loop_open(&loop, NULL);
    for (int i = 0; i < 1000; i++) { /* 4 MB to render for each HEAD */
        char path[32];
        struct command c = {.kind = COMMAND_TREE_SET, .now_ns = 1};
        struct store_result r;

        snprintf(path, sizeof path, "/d/%d", i);
        c.key = slice_str(path);
        c.value = (struct slice){(const uint8_t *)value, sizeof value};
        engine_apply(&loop.server.engine, TAILQ_FIRST(&loop.server.engine.spaces), &c, &r);
        assert_int_equal(r.tree.code, ETCD_OK);
    }
    greedy = loop_connect(&loop, false);
    modest = loop_connect(&loop, false);
    for (int i = 0; i < 20; i++)
        memcpy(all + (size_t)i * (sizeof heads - 1), heads, sizeof heads - 1);
    loop_send(&loop, greedy, all, sizeof all); /* and one iteration, as with each sending */
    loop_send(&loop, modest, ping, sizeof ping);
    loop_expect(&loop, modest, ping + 6, 4);
    assert_in_range(loop.server.engine.stats.http_requests, 0, 5);
    LOOP_UNTIL(&loop, loop.server.engine.stats.http_requests == 20);
    LOOP_UNTIL(&loop, loop_conn(&loop, greedy)->input != INPUT_DEFERRED);
    loop_leave(&loop, greedy);
    loop_leave(&loop, modest);
    loop_close(&loop);
}

/* Short requests that walk many keys, or are answered with many bytes, are charged for that. */
static void what_a_request_walks_is_charged(void **state)
{
    static const char metrics[] = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
    static const char append[] = "\11\x13\0\0\0\0\0\0\0/torch.rendezvous.j\4\0\0\0\0\0\0\0AAAA";
    static char value[300001];
    enum { KEYS = 5000, TIMES = 200 };
    char appends[TIMES * (sizeof append - 1)];
    uint8_t lists[TIMES], gets[TIMES * 11];
    char all[TIMES * (sizeof metrics - 1)];
    uint64_t before;
    int greedy, modest;

    (void)state;
    loop_open(&loop, NULL);
    modest = open_modern(&loop);
    for (int i = 0; i < KEYS; i++) {
        char key[32];

        snprintf(key, sizeof key, "%d", i);
        set_key(key, "");
    }
    greedy = open_modern(&loop);
    memset(lists, 0x11, sizeof lists);
    before = loop.server.engine.stats.c10d_requests;
    loop_send(&loop, greedy, lists, sizeof lists); /* and one iteration */
    assert_in_range(loop.server.engine.stats.c10d_requests - before, 1, 4);
    loop_send(&loop, modest, TEXT(PING));
    loop_expect(&loop, modest, "abcd", 4);
    loop_leave(&loop, greedy);

    set_large(&loop, modest, 300000);
    greedy = open_modern(&loop);
    for (int i = 0; i < TIMES; i++)
        memcpy(gets + (size_t)i * 11, GET_K, 11);
    before = loop.server.engine.stats.c10d_requests;
    loop_send(&loop, greedy, gets, sizeof gets);
    assert_in_range(loop.server.engine.stats.c10d_requests - before, 1, 4);
    loop_send(&loop, modest, TEXT(PING));
    loop_expect(&loop, modest, "abcd", 4);
    loop_leave(&loop, greedy);

    memset(value, 'A', sizeof value - 1);
    memcpy(value, "gASV", 4);
    set_key("/torch.rendezvous.j", value);
    greedy = open_modern(&loop);
    for (size_t i = 0; i < TIMES; i++)
        memcpy(appends + i * (sizeof append - 1), append, sizeof append - 1);
    before = loop.server.engine.stats.c10d_requests;
    loop_send(&loop, greedy, appends, sizeof appends);
    assert_in_range(loop.server.engine.stats.c10d_requests - before, 1, 4);
    loop_leave(&loop, greedy);

    greedy = loop_connect(&loop, false);
    for (size_t i = 0; i < TIMES; i++)
        memcpy(all + i * (sizeof metrics - 1), metrics, sizeof metrics - 1);
    loop_send(&loop, greedy, all, sizeof all);
    assert_in_range(loop.server.engine.stats.http_requests, 1, 32);
    loop_send(&loop, modest, TEXT(PING));
    loop_expect(&loop, modest, "abcd", 4);
    loop_leave(&loop, greedy);
    loop_leave(&loop, modest);
    loop_close(&loop);
}

/* --- Passwords. --- */

#define WITH(credentials) "Host: x\r\nAuthorization: Basic " credentials "\r\n"
#define WRONG             "GET /v2/keys/ HTTP/1.1\r\n" WITH("cm9vdDp3cm9uZw==") "\r\n"
#define UNKNOWN           "GET /v2/keys/ HTTP/1.1\r\n" WITH("bm9ib2R5Ong=") "\r\n"
#define RIGHT             "GET /v2/keys/ HTTP/1.1\r\n" WITH("cm9vdDpw") "\r\n"

static uint64_t http_requests(void)
{
    return loop.server.engine.stats.http_requests;
}

static void expect_status(int fd, unsigned status)
{
    char body[256];

    assert_int_equal(loop_expect_answer(&loop, fd, body, sizeof body), status);
}

static void expect_answer(int fd, const char *request, unsigned status)
{
    loop_send_text(&loop, fd, request);
    expect_status(fd, status);
}

/* Bodies of both kinds wait, too, and nothing comes out of order. */
static void make_users(int fd)
{
    for (int i = 0; i < 4; i++) {
        loop_send_text(&loop, fd,
                       "PUT /v2/auth/users/root HTTP/1.1\r\nHost: x\r\nContent-Length: 30\r\n\r\n"
                       "{\"user\":\"root\",\"password\":\"p\"}"
                       "GET /version HTTP/1.1\r\nHost: x\r\n\r\n"
                       "PUT /v2/auth/users/root HTTP/1.1\r\nHost: x\r\n"
                       "Transfer-Encoding: chunked\r\n\r\n"
                       "10\r\n{\"user\":\"root\",\"\r\ne\r\npassword\":\"p\"}\r\n0\r\n\r\n");
    }
    for (int i = 0; i < 4; i++) {
        expect_status(fd, i == 0 ? 201 : 200);
        expect_status(fd, 200);
        expect_status(fd, 200);
    }
}

/* A hash takes milliseconds: there is one in each iteration, of all clients, and they take turns.
 * Whether a user exists makes no difference. */
static void hashes_of_passwords_take_turns(void **state)
{
    enum { TIMES = 10 };
    int greedy, modest, other;
    uint64_t before;

    (void)state;
    loop_open(&loop, NULL);
    modest = loop_connect(&loop, false);
    make_users(modest);
    expect_answer(modest, "PUT /v2/auth/enable HTTP/1.1\r\nHost: x\r\n\r\n", 200);
    greedy = loop_connect(&loop, false);
    other = open_modern(&loop);
    before = http_requests();
    loop_send_text(&loop, greedy,
                   WRONG UNKNOWN WRONG UNKNOWN WRONG UNKNOWN WRONG UNKNOWN WRONG UNKNOWN);
    assert_int_equal(http_requests() - before, 1);
    loop_send_text(&loop, modest, RIGHT);
    expect_status(modest, 200);
    assert_in_range(http_requests() - before, 2, 5);
    expect_answer(modest, RIGHT, 200); /* it is remembered, and waits for no other */
    loop_send(&loop, other, TEXT(PING));
    loop_expect(&loop, other, "abcd", 4);
    assert_in_range(http_requests() - before, 3, 8);
    for (int i = 0; i < TIMES; i++)
        expect_status(greedy, 401);
    assert_int_equal(http_requests() - before, TIMES + 2);

    loop_send_text(&loop, greedy, WRONG WRONG WRONG);
    loop_leave(&loop, greedy);           /* while it waits */
    expect_answer(modest, UNKNOWN, 401); /* nobody is before it any more */
    loop_leave(&loop, modest);
    loop_leave(&loop, other);
    loop_close(&loop);
}

/* GETs of one large value go on side by side, in slices: each writes it as JSON. */
static void gets_of_a_large_value_are_sliced(void **state)
{
    enum { CLIENTS = 5, LEN = 1100000 };
    const struct tree *t;
    struct command c = {.kind = COMMAND_TREE_SET, .key = slice_str("/large"), .now_ns = 1};
    char *value = calloc(1, LEN);
    struct store_result r;
    int clients[CLIENTS];

    (void)state;
    assert_non_null(value);
    loop_open(&loop, NULL);
    t = &TAILQ_FIRST(&loop.server.engine.spaces)->store->tree;
    c.value = (struct slice){(uint8_t *)value, LEN};
    engine_apply(&loop.server.engine, TAILQ_FIRST(&loop.server.engine.spaces), &c, &r);
    assert_int_equal(r.tree.code, ETCD_OK);
    for (int i = 0; i < CLIENTS; i++)
        clients[i] = loop_connect(&loop, false);
    for (int i = 0; i < CLIENTS; i++) {
        static const char get[] = "HEAD /v2/keys/large HTTP/1.1\r\nHost: x\r\n\r\n";

        assert_int_equal(write(clients[i], get, strlen(get)), strlen(get));
    }
    for (int i = 0; i < 2; i++) { /* each takes a slice at most in an iteration, and needs some */
        char byte;

        loop_iterate(&loop);
        assert_int_equal(recv(clients[0], &byte, 1, 0), -1);
        assert_int_equal(errno, EAGAIN);
    }
    assert_in_range(http_requests(), 1, CLIENTS);
    for (int i = 0; i < CLIENTS; i++)
        loop_expect(&loop, clients[i], TEXT("HTTP/1.1 200 OK\r\n"));
    assert_int_equal(http_requests(), CLIENTS);
    assert_int_equal(t->succeeded[TREE_GETS], CLIENTS);
    for (int i = 0; i < CLIENTS; i++)
        loop_leave(&loop, clients[i]);
    free(value);
    loop_close(&loop);
}

/* --- Runs. --- */

/* As long as no agent comes, nobody is in them. */
static void make_runs(int count)
{
    for (int i = 0; i < count; i++) {
        char key[64];

        snprintf(key, sizeof key, "/torch.rendezvous.%d", i);
        set_key(key, "Y2FuaW1hZGFt");
    }
}

static size_t runs_due_within(const struct expiry *due, uint64_t now_ms, uint64_t ms)
{
    size_t count = 0;

    for (size_t i = 0; i < due->count; i++)
        count += due->heap[i]->at_ns <= (int64_t)(now_ms + ms) * 1000000;
    return count;
}

/* A client may make many runs with one connection: those that no agent is in cost no tick anything
 * until their time is over. */
static void a_tick_looks_at_runs_that_are_due(void **state)
{
    const struct expiry *due = &loop.server.store.rendezvous.due;
    uint64_t now_ms;
    int fd;

    (void)state;
    loop_open(&loop, NULL);
    make_runs(500);
    now_ms = engine_now_ms(&loop.server.engine);
    assert_int_equal(due->count, 500);
    assert_int_equal(runs_due_within(due, now_ms, 3600 * 1000), 0);
    fd = open_modern(&loop);
    loop_send(&loop, fd, TEXT("\3\x13\0\0\0\0\0\0\0/torch.rendezvous.7"));
    loop_expect(&loop, fd, TEXT("\x0c\0\0\0\0\0\0\0Y2FuaW1hZGFt"));
    assert_int_equal(runs_due_within(due, now_ms, 3600 * 1000), 1);
    rendezvous_tick(&loop.server.store.rendezvous);
    assert_int_equal(runs_due_within(due, now_ms, 3600 * 1000), 1); /* at the next tick again */
    loop_leave(&loop, fd);
    assert_int_equal(runs_due_within(due, now_ms, 3600 * 1000), 0);
    loop_close(&loop);
    assert_int_equal(due->count, 0);
}

/* A tick that finds many runs due goes on in the next iterations. */
static void many_runs_that_are_due_share_iterations(void **state)
{
    static const char *const flags[] = {"--idle-run-ttl", "1ms", NULL};
    const struct expiry *due = &loop.server.store.rendezvous.due;
    uint64_t ended_ms;

    (void)state;
    loop_open(&loop, flags);
    make_runs(500);
    ended_ms = engine_now_ms(&loop.server.engine) + 2;
    while (engine_now_ms(&loop.server.engine) < ended_ms)
        continue;
    rendezvous_tick(&loop.server.store.rendezvous);
    assert_in_range(due->count, 100, 499);
    LOOP_UNTIL(&loop, due->count == 0);
    loop_close(&loop);
}

/* MULTI_SET may name one key many times; the value that is there in the end is large. */
static void a_value_that_is_set_many_times_at_once_is_read_once(void **state)
{
    enum { TIMES = 1000, LEN = 300000 };
    static const char key[] = "/torch.rendezvous.j";
    struct command c = {.kind = COMMAND_KEY_MULTI_SET};
    size_t cap = TIMES * (16 + sizeof key) + LEN + 64;
    struct writer w = {.ptr = malloc(cap), .cap = cap};
    char *large = malloc(LEN + 1);
    struct store_result r;

    (void)state;
    assert_true(w.ptr != NULL && large != NULL);
    memset(large, 'A', LEN);
    memcpy(large, "gASV", 4);
    large[LEN] = '\0';
    loop_open(&loop, NULL);
    for (int i = 0; i <= TIMES; i++) {
        const char *pair[2] = {key, i == TIMES ? large : ""};

        for (size_t j = 0; j < 2; j++) {
            uint8_t len[8];

            bytes_put_u64(len, strlen(pair[j]));
            writer_put(&w, len, sizeof len);
            writer_str(&w, pair[j]);
        }
    }
    assert_true(w.len <= w.cap);
    c.items = (struct slice){w.ptr, w.len};
    engine_apply(&loop.server.engine, TAILQ_FIRST(&loop.server.engine.spaces), &c, &r);
    assert_int_equal(r.status, STORE_OK);
    assert_in_range(loop.server.engine.work, LEN, 2 * LEN);
    loop_close(&loop);
    free(large);
    free(w.ptr);
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
    loop_open(&loop, NULL);
    idle = open_modern(&loop);
    set_large(&loop, idle, LEN);
    waiting = open_modern(&loop);
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
    loop_close(&loop);
}

/* --- Deferred connections. --- */

/* The next requests of a peer find its budget used up. */
static void use_up_budget(int fd)
{
    struct conn *c = loop_conn(&loop, fd);

    c->charged_in = (uint32_t)(loop.server.engine.stats.loop_iterations + 1);
    c->charged = UINT32_MAX;
}

/* A deferred request may end the connection that is deferred last. The requests behind it wait for
 * the next iteration all the same, so each iteration ends. */
static void a_deferred_request_may_close_the_last_deferred_peer(void **state)
{
    static const char forget[] =
        "DELETE /rdzv/v1/spaces/default/runs/job HTTP/1.1\r\nHost: x\r\n"
        "Authorization: Bearer token\r\n\r\n"
        "GET /v2/keys/k HTTP/1.1\r\nHost: x\r\n\r\n" /* as much as a budget */
        "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n";
    static const char join[] = "\2\x15\0\0\0\0\0\0\0/torch.rendezvous.job\0\0\0\0\0\0\0\0"
                               "\x0c\0\0\0\0\0\0\0Y2FuaW1hZGFt";
    static const char look[] = "\3\x15\0\0\0\0\0\0\0/torch.rendezvous.job";
    static char value[2 << 20];
    const struct command put = {.kind = COMMAND_TREE_SET,
                                .key = slice_str("/k"),
                                .value = {(uint8_t *)value, sizeof value}};
    struct store_result result;
    char body[256], flag[64];
    const char *const flags[] = {flag, NULL};
    int agent, http, token = memfd_create("token", MFD_CLOEXEC);

    (void)state;
    memset(value, 'v', sizeof value);
    assert_int_equal(write(token, "token", 5), 5);
    snprintf(flag, sizeof flag, "--admin-token-file=/proc/self/fd/%d", token);
    loop_open(&loop, flags);
    engine_apply(&loop.server.engine, TAILQ_FIRST(&loop.server.engine.spaces), &put, &result);
    agent = open_modern(&loop);
    loop_send(&loop, agent, join, sizeof join - 1);
    loop_expect(&loop, agent, TEXT("\x0c\0\0\0\0\0\0\0Y2FuaW1hZGFt"));
    http = loop_connect(&loop, false);
    use_up_budget(http);
    loop_send(&loop, http, forget, sizeof forget - 1);
    /* Both are deferred now, and go on together. */
    assert_int_equal(loop_conn(&loop, http)->input, INPUT_DEFERRED);
    conn_set_input(loop_conn(&loop, http), INPUT_READY);
    conn_set_input(loop_conn(&loop, http), INPUT_DEFERRED);
    use_up_budget(agent);
    assert_int_equal(send(agent, look, sizeof look - 1, 0), sizeof look - 1);
    use_up_budget(http);
    loop_iterate(&loop);
    LOOP_UNTIL(&loop, loop_conn(&loop, agent) == NULL);
    assert_int_equal(loop_expect_answer(&loop, http, body, sizeof body), 200);
    assert_string_equal(body, "{\"run\":\"job\",\"removed\":1}\n");
    assert_int_equal(loop_expect_answer(&loop, http, body, sizeof body), 200);
    assert_int_equal(loop_expect_answer(&loop, http, body, sizeof body), 200);
    close(agent);
    loop_leave(&loop, http);
    loop_close(&loop);
    close(token);
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
    loop_open(&loop, NULL);
    writer = open_modern(&loop);
    reader = open_modern(&loop);
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
    loop_close(&loop);
}

/* One that has gone meanwhile is freed, and nothing is sent. */
static void a_peer_that_leaves_before_the_commit_is_forgotten(void **state)
{
    int writer, reader;

    (void)state;
    loop_open(&loop, NULL);
    writer = open_modern(&loop);
    reader = open_modern(&loop);
    loop.server.engine.options.journal.commit = nothing_is_durable;
    loop_send(&loop, writer, TEXT(SET_K));
    loop_send(&loop, reader, TEXT(GET_K));
    LOOP_UNTIL(&loop, loop_conn(&loop, reader)->output == OUTPUT_UNCOMMITTED);
    conn_close(loop_conn(&loop, reader), "the test says so");
    loop_expect_end(&loop, reader);
    loop.server.engine.options.journal.commit = NULL;
    loop_leave(&loop, writer);
    loop_close(&loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_idle_peer_costs_its_struct_alone),
        cmocka_unit_test(who_comes_and_goes_leaves_no_trace),
        cmocka_unit_test(a_silent_peer_is_undecided_for_ever),
        cmocka_unit_test(what_came_before_the_end_is_answered),
        cmocka_unit_test(a_set_just_before_the_end_is_kept),
        cmocka_unit_test(a_half_closed_slow_reader_gets_everything),
        cmocka_unit_test(who_leaves_while_waiting_waits_no_more),
        cmocka_unit_test(a_woken_peer_may_be_gone_already),
        cmocka_unit_test(all_who_wait_are_woken_once),
        cmocka_unit_test(a_cancel_that_comes_too_late_is_answered_behind_the_wake),
        cmocka_unit_test(requests_behind_a_wait_keep_their_order),
        cmocka_unit_test(a_legacy_peers_next_request_ends_its_wait),
        cmocka_unit_test(a_c10d_peer_that_does_not_read_is_cut),
        cmocka_unit_test(an_http_peer_that_reads_late_gets_all_its_answers),
        cmocka_unit_test(a_stream_that_is_not_read_is_cut),
        cmocka_unit_test(a_watch_that_cannot_keep_up_ends),
        cmocka_unit_test(requests_behind_a_watch_wait_for_its_end),
        cmocka_unit_test(a_watch_behind_a_watch_is_opened_after_it),
        cmocka_unit_test(a_half_closed_watch_ends_properly),
        cmocka_unit_test(a_watch_does_not_keep_the_room_of_the_request_before),
        cmocka_unit_test(a_flood_behind_a_watch_is_cut),
        cmocka_unit_test(half_a_request_is_cut_when_its_time_is_over),
        cmocka_unit_test(dripping_does_not_help),
        cmocka_unit_test(each_request_has_its_own_time),
        cmocka_unit_test(only_those_who_are_late_are_cut),
        cmocka_unit_test(whose_bytes_are_here_is_not_late),
        cmocka_unit_test(a_reader_that_stops_is_late),
        cmocka_unit_test(an_announced_length_takes_no_memory),
        cmocka_unit_test(an_offence_is_answered_up_to_it),
        cmocka_unit_test(a_space_that_is_left_is_forgotten_after_its_time),
        cmocka_unit_test(one_peer_does_not_take_the_time_of_others),
        cmocka_unit_test(what_a_request_walks_is_charged),
        cmocka_unit_test(hashes_of_passwords_take_turns),
        cmocka_unit_test(gets_of_a_large_value_are_sliced),
        cmocka_unit_test(a_tick_looks_at_runs_that_are_due),
        cmocka_unit_test(many_runs_that_are_due_share_iterations),
        cmocka_unit_test(a_value_that_is_set_many_times_at_once_is_read_once),
        cmocka_unit_test(a_deferred_request_may_close_the_last_deferred_peer),
        cmocka_unit_test(an_answer_waits_for_its_commit),
        cmocka_unit_test(a_peer_that_leaves_before_the_commit_is_forgotten),
        cmocka_unit_test(a_stop_lets_queued_answers_leave),
    };

    return cmocka_run_group_tests_name("rdzv/conn", tests, NULL, NULL);
}
