/* HTTP through a relay: the relay is a server in the test's hands, and so is what it takes for its
 * store, byte by byte; at the end a real store. */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#include "proto/relay.h"
#include "proto/relay.pb-c.h"
#include "rdzv/relay/forward.h"
#include "tests/loop/harness.h"

static const struct http_route routes[] = {
    {"", ROUTE_ALL, NULL, forwards_http_handle, ROUTE_USES_STORE | ROUTE_FAST, NULL},
    {.path = NULL},
};

struct scene {
    struct loop loop; /* the relay */
    struct forward forward;
    struct forwards forwards;
    int listening; /* of the store; -1: it is away */
    struct sockaddr_in at;
};

static int plain_text(void *arg, int fd, SSL **tls)
{
    static const struct certificate plain;

    (void)arg;
    return certificate_connect(&plain, fd, "localhost", tls);
}

static int dial(void *arg)
{
    const struct scene *s = arg;
    int fd;

    if (s->listening < 0)
        return -1;
    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (connect(fd, (const struct sockaddr *)(const void *)&s->at, sizeof s->at) == 0 ||
        errno == EINPROGRESS)
        return fd;
    close(fd);
    return -1;
}

static void open_store(struct scene *s)
{
    socklen_t len = sizeof s->at;

    s->listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    s->at = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    assert_int_equal(bind(s->listening, (struct sockaddr *)(void *)&s->at, len), 0);
    assert_int_equal(listen(s->listening, 16), 0);
    assert_int_equal(getsockname(s->listening, (struct sockaddr *)(void *)&s->at, &len), 0);
}

static void close_store(struct scene *s)
{
    if (s->listening >= 0)
        close(s->listening);
    s->listening = -1;
}

static void open_relay(struct scene *s, uint64_t wait_ms)
{
    loop_open(&s->loop, (const char *const[]){"--log-level=debug", NULL});
    relay_http_init(&s->forward.http,
                    &(struct relay_http_options){.net = &s->loop.server.net,
                                                 .space = "job-a",
                                                 .name = "here",
                                                 .wait_ms = wait_ms,
                                                 .dial = dial,
                                                 .secure = plain_text,
                                                 .arg = s,
                                                 .cluster_id = &s->loop.server.http.cluster_id});
    s->loop.server.http.routes = routes;
    s->forward.space = CONFIG_DEFAULT_SPACE;
    s->forwards = (struct forwards){.list = &s->forward, .count = 1};
    s->loop.server.http.forwards = &s->forwards;
}

static struct scene begin(void)
{
    return (struct scene){.listening = -1};
}

static void end(struct scene *s)
{
    while (!TAILQ_EMPTY(&s->loop.server.net.conns))
        conn_close(TAILQ_FIRST(&s->loop.server.net.conns), "the test is over");
    relay_http_fini(&s->forward.http);
    close_store(s);
    loop_close(&s->loop);
}

/* --- The store, in the test's hands. --- */

static void expect_bytes(struct scene *s, int fd, void *out, size_t len)
{
    for (size_t i = 0; i < len; i++)
        ((uint8_t *)out)[i] = loop_next_byte(&s->loop, fd);
}

/* Accepts the relay's next connection. Held clients try again without waiting for the timer. */
static int accept_one(struct scene *s)
{
    int fd;

    LOOP_UNTIL(&s->loop, (relay_http_try_held(&s->forward.http),
                          (fd = accept4(s->listening, NULL, NULL, SOCK_NONBLOCK)) >= 0));
    return fd;
}

/* The next connection of the relay, welcomed. */
static int welcome(struct scene *s)
{
    uint8_t bytes[512], reply[RELAY_HEAD_SIZE + 2] = {0};
    struct relay_frame frame = {.kind = RELAY_WELCOME, .payload = {reply + RELAY_HEAD_SIZE, 2}};
    int fd = accept_one(s);
    Rdzv__RelayHello *hello;
    size_t size;

    expect_bytes(s, fd, bytes, RELAY_MAGIC_SIZE + RELAY_HEAD_SIZE);
    assert_memory_equal(bytes, RELAY_MAGIC, RELAY_MAGIC_SIZE);
    size = bytes_get_u32(bytes + RELAY_MAGIC_SIZE);
    assert_in_range(size, 1, 256);
    expect_bytes(s, fd, bytes, size);
    hello = rdzv__relay_hello__unpack(NULL, size, bytes);
    assert_non_null(hello);
    assert_true(hello->http);
    assert_string_equal(hello->space, "job-a");
    rdzv__relay_hello__free_unpacked(hello, NULL);
    reply[RELAY_HEAD_SIZE] = 8; /* version = 1 */
    reply[RELAY_HEAD_SIZE + 1] = 1;
    relay_put_head(reply, &frame);
    loop_send(&s->loop, fd, reply, sizeof reply);
    return fd;
}

static void expect_text(struct scene *s, int fd, const char *text)
{
    loop_expect(&s->loop, fd, text, strlen(text));
}

/* The pieces of a watch's answer. */
#define WATCH_HEAD(index)                                                       \
    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nX-Etcd-Index: " index \
    "\r\nTransfer-Encoding: chunked\r\n\r\n"
#define EVENT(index)                                                                      \
    "{\"action\":\"set\",\"node\":{\"key\":\"/a\",\"value\":\"\\\"modifiedIndex\\\":9\"," \
    "\"modifiedIndex\":" index ",\"createdIndex\":" index "}}\n"

static void send_chunk(struct scene *s, int fd, const char *text)
{
    char size[32];

    snprintf(size, sizeof size, "%zx\r\n", strlen(text));
    loop_send_text(&s->loop, fd, size);
    loop_send_text(&s->loop, fd, text);
    loop_send_text(&s->loop, fd, "\r\n");
}

/* The client gets this text, however it is cut into chunks. */
static void expect_chunks(struct scene *s, int fd, const char *text)
{
    while (*text != '\0') {
        char line[16] = "";
        size_t len = 0;

        do
            line[len++] = (char)loop_next_byte(&s->loop, fd);
        while (line[len - 1] != '\n' && len + 1 < sizeof line);
        len = strtoul(line, NULL, 16);
        assert_in_range(len, 1, strlen(text));
        loop_expect(&s->loop, fd, text, len);
        expect_text(s, fd, "\r\n");
        text += len;
    }
}

#define GET(target) "GET " target " HTTP/1.1\r\nHost: x\r\n\r\n"
#define OK_2        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

/* --- Plain requests. --- */

static void test_there_and_back(void **state)
{
    struct scene s = begin();
    int client, store;

    (void)state;
    open_relay(&s, 0);
    open_store(&s);
    client = loop_connect(&s.loop, false);
    loop_send_text(&s.loop, client,
                   "PUT /v2/keys/a?x=1 HTTP/1.1\r\nHost: me:1\r\nConnection: X-Own, keep-alive\r\n"
                   "X-Own: 1\r\nTE: trailers\r\nX-Other: 2\r\n  folded\r\n"
                   "Content-Type: application/x-www-form-urlencoded\r\n"
                   "Transfer-Encoding: chunked\r\n\r\n3\r\nval\r\n4\r\nue=1\r\n0\r\n\r\n");
    store = welcome(&s);
    expect_text(&s, store,
                "PUT /v2/keys/a?x=1 HTTP/1.1\r\nHost: me:1\r\nX-Other: 2    folded\r\n"
                "Content-Type: application/x-www-form-urlencoded\r\n"
                "Content-Length: 7\r\n\r\nvalue=1");
    loop_send_text(&s.loop, store,
                   "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\nX-Etcd-Index: 7\r\n"
                   "X-Etcd-Cluster-Id: 2a\r\n"
                   "Keep-Alive: timeout=1\r\nContent-Length: 2\r\n\r\nok");
    expect_text(&s, client,
                "HTTP/1.1 201 Created\r\nX-Etcd-Index: 7\r\nX-Etcd-Cluster-Id: 2a\r\n"
                "Content-Length: 2\r\n\r\nok");
    assert_int_equal(s.loop.server.http.cluster_id, 0x2a); /* of what the relay says, too */
    /* The same connection carries the next request, of anybody; a HEAD has no body. */
    close(client);
    client = loop_connect(&s.loop, false);
    loop_send_text(&s.loop, client,
                   "HEAD /v2/keys/a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    expect_text(&s, store, "HEAD /v2/keys/a HTTP/1.1\r\nHost: x\r\n\r\n");
    loop_send_text(&s.loop, store, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n");
    expect_text(&s, client, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 9\r\n\r\n");
    loop_expect_end(&s.loop, client);
    close(client);
    close(store);
    end(&s);
}

static void test_held_while_away(void **state)
{
    struct scene s = begin();
    int client, store;

    (void)state;
    open_relay(&s, 0);
    client = loop_connect(&s.loop, false);
    loop_send_text(&s.loop, client, GET("/v2/keys/a"));
    loop_expect_silence(&s.loop, client);
    open_store(&s);
    relay_http_try_held(&s.forward.http);
    store = welcome(&s);
    expect_text(&s, store, GET("/v2/keys/a"));
    /* A read is sent again. */
    close(store);
    store = welcome(&s);
    expect_text(&s, store, GET("/v2/keys/a"));
    loop_send_text(&s.loop, store, OK_2);
    expect_text(&s, client, OK_2);
    close(client);
    close(store);
    end(&s);
}

static void test_held_too_long(void **state)
{
    struct scene s = begin();
    char body[256];
    int client;

    (void)state;
    open_relay(&s, 1);
    client = loop_connect(&s.loop, false);
    loop_send_text(&s.loop, client, GET("/v2/keys/a"));
    assert_int_equal(loop_expect_answer(&s.loop, client, body, sizeof body), 500);
    assert_non_null(strstr(body, "\"errorCode\":300"));
    loop_send_text(&s.loop, client, GET("/version"));
    assert_int_equal(loop_expect_answer(&s.loop, client, body, sizeof body), 503);
    close(client);
    end(&s);
}

#define PUT(query)                                    \
    "PUT /v2/keys/a" query " HTTP/1.1\r\nHost: x\r\n" \
    "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 7\r\n\r\nvalue=1"
#define REFRESH                                                                     \
    "PUT /v2/keys/a HTTP/1.1\r\nHost: x\r\n"                                        \
    "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 33\r\n\r\n" \
    "prevExist=true&refresh=true&ttl=9"

static void test_change_is_not_repeated(void **state)
{
    static const char *const changes[] = {PUT(""), PUT("?prevIndex=7"), PUT("?prevExist=false"),
                                          "DELETE /v2/keys/a HTTP/1.1\r\nHost: x\r\n\r\n"};
    struct scene s = begin();
    int client, store;

    (void)state;
    open_relay(&s, 0);
    open_store(&s);
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        client = loop_connect(&s.loop, false);
        loop_send_text(&s.loop, client, changes[i]);
        /* It was not sent. */
        close(accept_one(&s));
        store = welcome(&s);
        expect_text(&s, store, changes[i]);
        /* It was. */
        close(store);
        loop_expect_end(&s.loop, client);
        close(client);
        assert_true(TAILQ_EMPTY(&s.forward.http.busy) && TAILQ_EMPTY(&s.forward.http.held));
    }
    assert_true(loop_logged(&s.loop, "nobody knows"));
    end(&s);
}

static void test_refresh_is_repeated(void **state)
{
    struct scene s = begin();
    int client, store;

    (void)state;
    open_relay(&s, 0);
    open_store(&s);
    client = loop_connect(&s.loop, false);
    loop_send_text(&s.loop, client, REFRESH);
    for (int i = 0; i < 2; i++) {
        store = welcome(&s);
        expect_text(&s, store, REFRESH);
        close(store);
    }
    store = welcome(&s);
    expect_text(&s, store, REFRESH);
    loop_send_text(&s.loop, store, OK_2);
    expect_text(&s, client, OK_2);
    close(client);
    close(store);
    end(&s);
}

/* An answer of which a part is there cannot be told from another one. */
static void test_half_an_answer(void **state)
{
    struct scene s = begin();
    int client, store;

    (void)state;
    open_relay(&s, 0);
    open_store(&s);
    client = loop_connect(&s.loop, false);
    loop_send_text(&s.loop, client, GET("/v2/keys/a"));
    store = welcome(&s);
    expect_text(&s, store, GET("/v2/keys/a"));
    loop_send_text(&s.loop, store, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf");
    expect_text(&s, client, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf");
    close(store);
    loop_expect_end(&s.loop, client);
    close(client);
    end(&s);
}

/* A body larger than the buffer of its head, in both directions. While the client does not read,
 * the relay does not read from the store. */
static void test_large_and_slow(void **state)
{
    enum { LEN = 24 << 20 };
    struct scene s = begin();
    char head[256], *bytes = malloc(LEN), *got = malloc(LEN);
    size_t sent = 0, taken = 0;
    int client, store;

    (void)state;
    assert_true(bytes != NULL && got != NULL);
    for (size_t i = 0; i < LEN; i++)
        bytes[i] = (char)(i * 7 % 251);
    open_relay(&s, 0);
    open_store(&s);
    client = loop_connect(&s.loop, true);
    snprintf(head, sizeof head,
             "PUT /v2/keys/a HTTP/1.1\r\nHost: x\r\nContent-Type: "
             "application/x-www-form-urlencoded\r\nContent-Length: %d\r\n\r\n",
             1 << 20);
    loop_send_text(&s.loop, client, head);
    loop_send(&s.loop, client, bytes, 1 << 20);
    store = welcome(&s);
    expect_text(&s, store, head);
    loop_expect(&s.loop, store, bytes, 1 << 20);
    snprintf(head, sizeof head, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", LEN);
    loop_send_text(&s.loop, store, head);
    for (int idle = 0; idle < 500; idle++) {
        ssize_t n = send(store, bytes + sent, LEN - sent, MSG_NOSIGNAL);

        if (n > 0) {
            sent += (size_t)n;
            idle = 0;
        }
        loop_iterate(&s.loop);
    }
    assert_true(sent < LEN); /* the rest does not fit between the two */
    assert_in_range(account.bytes[ACCOUNT_ANSWERS], RELAY_HTTP_AHEAD, 4 * RELAY_HTTP_AHEAD);
    expect_text(&s, client, head);
    while (taken < LEN) {
        ssize_t n = send(store, bytes + sent, LEN - sent, MSG_NOSIGNAL);

        sent += n > 0 ? (size_t)n : 0;
        n = recv(client, got + taken, LEN - taken, 0);
        taken += n > 0 ? (size_t)n : 0;
        loop_iterate(&s.loop);
    }
    assert_memory_equal(got, bytes, LEN);
    close(client);
    close(store);
    end(&s);
    free(bytes);
    free(got);
}

/* --- Watches. --- */

#define WATCH_REQUEST(index, query) \
    "GET /v2/keys/a?waitIndex=" index "&" query " HTTP/1.1\r\nHost: x\r\n\r\n"
#define ZEROS_18 "000000000000000000"

static void test_long_poll_goes_on(void **state)
{
    struct scene s = begin();
    int client, store;

    (void)state;
    open_relay(&s, 0);
    open_store(&s);
    client = loop_connect(&s.loop, false);
    loop_send_text(&s.loop, client, GET("/v2/keys/a?wait=true"));
    store = welcome(&s);
    expect_text(&s, store, WATCH_REQUEST(ZEROS_18 "00", "wait=true"));
    loop_send_text(&s.loop, store, WATCH_HEAD("41"));
    expect_text(&s, client, WATCH_HEAD("41"));
    close(store);
    store = welcome(&s);
    expect_text(&s, store, WATCH_REQUEST(ZEROS_18 "42", "wait=true"));
    loop_send_text(&s.loop, store, WATCH_HEAD("45"));
    /* A part of the event; then the same from its start. */
    send_chunk(&s, store, "{\"action\":\"set\",\"no");
    expect_chunks(&s, client, "{\"action\":\"set\",\"no");
    close(store);
    store = welcome(&s);
    expect_text(&s, store, WATCH_REQUEST(ZEROS_18 "42", "wait=true"));
    loop_send_text(&s.loop, store, WATCH_HEAD("46"));
    send_chunk(&s, store, EVENT("43"));
    expect_chunks(&s, client, &EVENT("43")[strlen("{\"action\":\"set\",\"no")]);
    /* The event is whole, so the answer is. */
    close(store);
    expect_text(&s, client, "0\r\n\r\n");
    /* And the connection stays. */
    loop_send_text(&s.loop, client, GET("/v2/keys/a?wait=1&waitIndex=7"));
    store = welcome(&s);
    expect_text(&s, store, WATCH_REQUEST(ZEROS_18 "07", "wait=1&waitIndex=7"));
    loop_send_text(&s.loop, store, WATCH_HEAD("5"));
    expect_text(&s, client, WATCH_HEAD("5"));
    close(store);
    store = welcome(&s);
    expect_text(&s, store, WATCH_REQUEST(ZEROS_18 "07", "wait=1&waitIndex=7"));
    close(client);
    close(store);
    end(&s);
}

/* To HTTP/1.0 the end of the connection is the end of a watch. */
static void test_watch_of_an_old_client(void **state)
{
    struct scene s = begin();
    int client, store;

    (void)state;
    open_relay(&s, 0);
    open_store(&s);
    client = loop_connect(&s.loop, false);
    loop_send_text(&s.loop, client,
                   "GET /v2/keys/a?wait=true HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    store = welcome(&s);
    expect_text(&s, store,
                "GET /v2/keys/a?waitIndex=" ZEROS_18 "00&wait=true HTTP/1.1\r\nHost: \r\n\r\n");
    loop_send_text(&s.loop, store, WATCH_HEAD("41"));
    expect_text(&s, client,
                "HTTP/1.0 200 OK\r\nContent-Type: application/json\r\nX-Etcd-Index: 41\r\n\r\n");
    close(store);
    store = welcome(&s);
    expect_text(&s, store,
                "GET /v2/keys/a?waitIndex=" ZEROS_18 "42&wait=true HTTP/1.1\r\nHost: \r\n\r\n");
    loop_send_text(&s.loop, store, WATCH_HEAD("42"));
    send_chunk(&s, store, EVENT("42"));
    loop_send_text(&s.loop, store, "0\r\n\r\n");
    expect_text(&s, client, EVENT("42"));
    loop_expect_end(&s.loop, client);
    close(client);
    close(store);
    end(&s);
}

/* If a client disconnects, its watch ends, also while the store is away. */
static void test_client_goes(void **state)
{
    struct scene s = begin();
    int client, store;

    (void)state;
    open_relay(&s, 0);
    open_store(&s);
    client = loop_connect(&s.loop, false);
    loop_send_text(&s.loop, client, GET("/v2/keys/a?wait=true"));
    store = welcome(&s);
    expect_text(&s, store, WATCH_REQUEST(ZEROS_18 "00", "wait=true"));
    loop_send_text(&s.loop, store, WATCH_HEAD("41"));
    expect_text(&s, client, WATCH_HEAD("41"));
    close(client);
    loop_expect_end(&s.loop, store);
    close(store);
    LOOP_UNTIL(&s.loop, TAILQ_EMPTY(&s.loop.server.net.conns));
    assert_true(TAILQ_EMPTY(&s.forward.http.busy) && TAILQ_EMPTY(&s.forward.http.held));
    close_store(&s);
    client = loop_connect(&s.loop, false);
    loop_send_text(&s.loop, client, GET("/v2/keys/a?wait=true"));
    LOOP_UNTIL(&s.loop, !TAILQ_EMPTY(&s.forward.http.held));
    loop_leave(&s.loop, client);
    assert_true(TAILQ_EMPTY(&s.forward.http.held));
    end(&s);
}

static void test_stream_goes_on(void **state)
{
    struct scene s = begin();
    int client, store;

    (void)state;
    open_relay(&s, 0);
    open_store(&s);
    client = loop_connect(&s.loop, false);
    loop_send_text(&s.loop, client, GET("/v2/keys/a?wait=true&stream=true"));
    store = welcome(&s);
    expect_text(&s, store, WATCH_REQUEST(ZEROS_18 "00", "wait=true&stream=true"));
    loop_send_text(&s.loop, store, WATCH_HEAD("41"));
    send_chunk(&s, store, EVENT("42") EVENT("44"));
    expect_text(&s, client, WATCH_HEAD("41"));
    expect_chunks(&s, client, EVENT("42") EVENT("44"));
    close(store);
    /* One from the history, behind which a stream is silent: so the next one is asked for. */
    store = welcome(&s);
    expect_text(&s, store, WATCH_REQUEST(ZEROS_18 "45", "wait=true&stream=true"));
    loop_send_text(&s.loop, store, WATCH_HEAD("50"));
    send_chunk(&s, store, EVENT("47"));
    expect_chunks(&s, client, EVENT("47"));
    loop_expect_end(&s.loop, store);
    close(store);
    store = welcome(&s);
    expect_text(&s, store, WATCH_REQUEST(ZEROS_18 "48", "wait=true&stream=true"));
    loop_send_text(&s.loop, store, WATCH_HEAD("50"));
    send_chunk(&s, store, EVENT("51"));
    send_chunk(&s, store, EVENT("52"));
    expect_chunks(&s, client, EVENT("51") EVENT("52"));
    /* A client that shuts its side gets the end of it. */
    assert_int_equal(shutdown(client, SHUT_WR), 0);
    loop_expect_end(&s.loop, store);
    loop_send_text(&s.loop, store, "0\r\n\r\n");
    close(store);
    expect_text(&s, client, "0\r\n\r\n");
    loop_expect_end(&s.loop, client);
    close(client);
    end(&s);
}

/* What a watch cannot go on with. */
static void test_watch_ends(void **state)
{
    static const char *const answers[] = {
        /* a store without its memory */
        WATCH_HEAD("3"),
        /* whose history begins later */
        "HTTP/1.1 400 Bad Request\r\nX-Etcd-Index: 5000\r\nContent-Length: 2\r\n\r\n{}",
        /* another event than that of which a part has gone */
        WATCH_HEAD("41") "80\r\n{\"action\":\"delete\",",
    };
    struct scene s = begin();
    int client, store;

    (void)state;
    open_relay(&s, 0);
    open_store(&s);
    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++) {
        client = loop_connect(&s.loop, false);
        loop_send_text(&s.loop, client, GET("/v2/keys/a?wait=true"));
        store = welcome(&s);
        expect_text(&s, store, WATCH_REQUEST(ZEROS_18 "00", "wait=true"));
        loop_send_text(&s.loop, store, WATCH_HEAD("41"));
        send_chunk(&s, store, "{\"action\":\"set");
        expect_text(&s, client, WATCH_HEAD("41"));
        expect_chunks(&s, client, "{\"action\":\"set");
        close(store);
        store = welcome(&s);
        expect_text(&s, store, WATCH_REQUEST(ZEROS_18 "42", "wait=true"));
        loop_send_text(&s.loop, store, answers[i]);
        loop_expect_end(&s.loop, client);
        close(client);
        loop_expect_end(&s.loop, store);
        close(store);
    }
    end(&s);
}

/* The link has learned that the store's host has gone, of which no connection says anything. */
static void test_store_is_gone(void **state)
{
    struct scene s = begin();
    int watcher, writer, of_watcher, of_writer, store;

    (void)state;
    open_relay(&s, 0);
    open_store(&s);
    watcher = loop_connect(&s.loop, false);
    loop_send_text(&s.loop, watcher, GET("/v2/keys/a?wait=true"));
    of_watcher = welcome(&s);
    expect_text(&s, of_watcher, WATCH_REQUEST(ZEROS_18 "00", "wait=true"));
    loop_send_text(&s.loop, of_watcher, WATCH_HEAD("41"));
    expect_text(&s, watcher, WATCH_HEAD("41"));
    writer = loop_connect(&s.loop, false);
    loop_send_text(&s.loop, writer, PUT(""));
    of_writer = welcome(&s);
    expect_text(&s, of_writer, PUT(""));
    store_conn_lose_all(&s.forward.http);
    loop_expect_end(&s.loop, of_watcher);
    store = welcome(&s);
    expect_text(&s, store, WATCH_REQUEST(ZEROS_18 "42", "wait=true"));
    loop_send_text(&s.loop, of_writer, OK_2); /* it may be there after all */
    expect_text(&s, writer, OK_2);
    close(watcher);
    close(writer);
    close(of_watcher);
    close(of_writer);
    close(store);
    end(&s);
}

/* --- A real store. --- */

static unsigned ask(struct loop *store, int fd, const char *request, char *body, size_t cap)
{
    loop_send_text(store, fd, request);
    return loop_expect_answer(store, fd, body, cap);
}

static size_t hello_bytes(uint8_t *out, const char *space)
{
    Rdzv__RelayHello hello = RDZV__RELAY_HELLO__INIT;
    struct relay_frame frame = {.kind = RELAY_HELLO};
    uint8_t *payload = out + RELAY_MAGIC_SIZE + RELAY_HEAD_SIZE;

    hello.version_min = hello.version_max = 1;
    hello.space = (char *)(uintptr_t)space;
    hello.http = true;
    frame.payload = (struct slice){payload, rdzv__relay_hello__pack(&hello, payload)};
    memcpy(out, RELAY_MAGIC, RELAY_MAGIC_SIZE);
    relay_put_head(out + RELAY_MAGIC_SIZE, &frame);
    return RELAY_MAGIC_SIZE + RELAY_HEAD_SIZE + frame.payload.len;
}

/* The kind of the frame that answers. */
static uint8_t expect_frame(struct loop *store, int fd)
{
    uint8_t head[RELAY_HEAD_SIZE], payload[512];

    for (size_t i = 0; i < sizeof head; i++)
        head[i] = loop_next_byte(store, fd);
    assert_in_range(bytes_get_u32(head), 0, sizeof payload);
    for (size_t i = 0; i < bytes_get_u32(head); i++)
        payload[i] = loop_next_byte(store, fd);
    return head[4];
}

static void expect_refusal(struct loop *store, int fd)
{
    assert_int_equal(expect_frame(store, fd), RELAY_REFUSED);
    loop_expect_end(store, fd);
    close(fd);
}

static void test_entry(void **state)
{
    struct loop store;
    uint8_t hello[256];
    char body[512];
    size_t len = hello_bytes(hello, "job-a");
    int fd, other;

    (void)state;
    loop_open(&store, NULL);
    for (size_t cut = 1; cut < len; cut += 7) { /* wherever the network cuts it */
        fd = loop_connect(&store, false);
        loop_send(&store, fd, hello, cut);
        loop_expect_silence(&store, fd);
        loop_send(&store, fd, hello + cut, len - cut);
        assert_int_equal(expect_frame(&store, fd), RELAY_WELCOME);
        assert_int_equal(ask(&store, fd, PUT(""), body, sizeof body), cut == 1 ? 201 : 200);
        loop_leave(&store, fd);
    }
    /* The listener's own space does not have it. */
    other = loop_connect(&store, false);
    assert_int_equal(ask(&store, other, GET("/v2/keys/a"), body, sizeof body), 404);
    /* What is no name makes no space. */
    len = hello_bytes(hello, "../x");
    fd = loop_connect(&store, false);
    loop_send(&store, fd, hello, len);
    expect_refusal(&store, fd);
    close(other);
    loop_close(&store);
}

static void test_spaces_are_bounded(void **state)
{
    struct loop store;
    uint8_t hello[256];
    char name[32];
    int fd;

    (void)state;
    loop_open(&store, NULL);
    for (unsigned i = 0;; i++) {
        snprintf(name, sizeof name, "s%u", i);
        fd = loop_connect(&store, false);
        loop_send(&store, fd, hello, hello_bytes(hello, name));
        if (i == 1024)
            break;
        assert_int_equal(expect_frame(&store, fd), RELAY_WELCOME);
        loop_leave(&store, fd);
    }
    expect_refusal(&store, fd);
    loop_close(&store);
}

static void test_named_listener(void **state)
{
    static const char *const flags[] = {"--listen", "127.0.0.1:0/own", NULL};
    struct loop store;
    uint8_t hello[256];
    int fd;

    (void)state;
    loop_open(&store, flags);
    /* The harness dials the first listener, which has no name: the second one is made the first. */
    TAILQ_FIRST(&store.server.net.listeners)->spec =
        TAILQ_NEXT(TAILQ_FIRST(&store.server.net.listeners), entry)->spec;
    fd = loop_connect(&store, false);
    loop_send(&store, fd, hello, hello_bytes(hello, "job-a"));
    expect_refusal(&store, fd);
    fd = loop_connect(&store, false);
    loop_send(&store, fd, hello, hello_bytes(hello, "own"));
    assert_int_equal(expect_frame(&store, fd), RELAY_WELCOME);
    loop_leave(&store, fd);
    loop_close(&store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_there_and_back),
        cmocka_unit_test(test_held_while_away),
        cmocka_unit_test(test_held_too_long),
        cmocka_unit_test(test_change_is_not_repeated),
        cmocka_unit_test(test_refresh_is_repeated),
        cmocka_unit_test(test_half_an_answer),
        cmocka_unit_test(test_large_and_slow),
        cmocka_unit_test(test_long_poll_goes_on),
        cmocka_unit_test(test_watch_of_an_old_client),
        cmocka_unit_test(test_client_goes),
        cmocka_unit_test(test_stream_goes_on),
        cmocka_unit_test(test_watch_ends),
        cmocka_unit_test(test_store_is_gone),
        cmocka_unit_test(test_entry),
        cmocka_unit_test(test_spaces_are_bounded),
        cmocka_unit_test(test_named_listener),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
