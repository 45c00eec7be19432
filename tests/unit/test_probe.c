/* Asking a port: somebody listens, nobody does, and no answer; and taking the question back. */
#include "rdzv/net/probe.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define PATIENCE_MS 20000 /* for an answer that comes */

struct told {
    struct event_base *base;
    int count;
    enum probe_answer answer;
};

static void tell(void *arg, enum probe_answer answer)
{
    struct told *t = arg;

    t->count++;
    t->answer = answer;
    event_base_loopbreak(t->base);
}

/* A socket on a loopback address; *port is the kernel's choice. */
static int bound(const char *address, uint16_t *port)
{
    struct sockaddr_in in4 = {.sin_family = AF_INET};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};
    bool v4 = inet_pton(AF_INET, address, &in4.sin_addr) == 1;
    struct sockaddr *at = v4 ? (struct sockaddr *)&in4 : (struct sockaddr *)&in6;
    socklen_t len = v4 ? sizeof in4 : sizeof in6;
    int fd;

    if (!v4)
        assert_int_equal(inet_pton(AF_INET6, address, &in6.sin6_addr), 1);
    fd = socket(at->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, at, len), 0);
    assert_int_equal(getsockname(fd, at, &len), 0);
    *port = ntohs(v4 ? in4.sin_port : in6.sin6_port);
    return fd;
}

static const uint8_t v4_loopback[16] = {[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1};
static const uint8_t v6_loopback[16] = {[15] = 1};

static struct told ask(const uint8_t address[16], uint16_t port, uint32_t patience_ms)
{
    struct told t = {.base = event_base_new()};

    assert_non_null(t.base);
    assert_non_null(probe_start(t.base, address, port, patience_ms, tell, &t));
    assert_int_equal(t.count, 0); /* never before it returns */
    event_base_dispatch(t.base);
    assert_int_equal(t.count, 1);
    assert_int_equal(event_base_loop(t.base, EVLOOP_NONBLOCK), 1); /* nothing is left */
    assert_int_equal(t.count, 1);
    event_base_free(t.base);
    return t;
}

static void a_listening_server_is_found(void **state)
{
    uint16_t port;
    int fd = bound("127.0.0.1", &port), peer;
    char byte;

    (void)state;
    assert_int_equal(listen(fd, 5), 0);
    assert_int_equal(ask(v4_loopback, port, PATIENCE_MS).answer, PROBE_LISTENS);
    peer = accept(fd, NULL, NULL); /* was connected to, and is left at once */
    assert_true(peer >= 0);
    assert_int_equal(read(peer, &byte, 1), 0);
    close(peer);
    close(fd);
    fd = bound("::1", &port);
    assert_int_equal(listen(fd, 5), 0);
    assert_int_equal(ask(v6_loopback, port, PATIENCE_MS).answer, PROBE_LISTENS);
    close(fd);
}

/* Bound, so that the port is nobody else's, and not listening. */
static void a_closed_port_refuses(void **state)
{
    uint16_t port;
    int fd = bound("127.0.0.1", &port);

    (void)state;
    assert_int_equal(ask(v4_loopback, port, PATIENCE_MS).answer, PROBE_REFUSED);
    close(fd);
    fd = bound("::1", &port);
    assert_int_equal(ask(v6_loopback, port, PATIENCE_MS).answer, PROBE_REFUSED);
    close(fd);
}

/* A queue that is full: connections are neither taken nor refused. */
static void no_answer_is_none(void **state)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd, full[8], count = 0;
    uint16_t port;

    (void)state;
    fd = bound("127.0.0.1", &port);
    in.sin_port = htons(port);
    assert_int_equal(listen(fd, 0), 0);
    for (; count < 8; count++) {
        full[count] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        connect(full[count], (struct sockaddr *)&in, sizeof in);
    }
    assert_int_equal(ask(v4_loopback, port, 50).answer, PROBE_UNKNOWN);
    while (count > 0)
        close(full[--count]);
    close(fd);
}

/* 255.255.255.255 is no host: connect() says so at once, and `tell` still comes from the loop. */
static void an_error_at_once_is_told_from_the_loop(void **state)
{
    static const uint8_t everybody[16] = {
        [10] = 0xff, [11] = 0xff, [12] = 0xff, [13] = 0xff, [14] = 0xff, [15] = 0xff};

    (void)state;
    assert_int_equal(ask(everybody, 9, PATIENCE_MS).answer, PROBE_UNKNOWN);
}

static void one_that_is_taken_back_is_not_told(void **state)
{
    struct told t = {.base = event_base_new()};
    struct probe *p;
    uint16_t port;
    int fd = bound("127.0.0.1", &port);

    (void)state;
    probe_cancel(NULL);
    p = probe_start(t.base, v4_loopback, port, PATIENCE_MS, tell, &t);
    assert_non_null(p);
    probe_cancel(p);
    p = probe_start(t.base, v4_loopback, port, PATIENCE_MS, tell, &t);
    assert_non_null(p);
    probe_cancel(p); /* perhaps its answer is already here */
    assert_int_equal(event_base_loop(t.base, EVLOOP_NONBLOCK), 1);
    assert_int_equal(t.count, 0);
    event_base_free(t.base);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_listening_server_is_found),
        cmocka_unit_test(a_closed_port_refuses),
        cmocka_unit_test(no_answer_is_none),
        cmocka_unit_test(an_error_at_once_is_told_from_the_loop),
        cmocka_unit_test(one_that_is_taken_back_is_not_told),
    };

    return cmocka_run_group_tests_name("rdzv/probe", tests, NULL, NULL);
}
