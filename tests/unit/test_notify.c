/* What systemd would hear, and which of its sockets we take. */
#include "rdzv/notify.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

/* The manager's end: a datagram socket under `path`, or under an abstract name for @... */
static int listen_for_states(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t len = strlen(path);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    memcpy(address.sun_path, path, len);
    if (path[0] == '@')
        address.sun_path[0] = '\0';
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address,
                          (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)),
                     0);
    return fd;
}

static void expect_state(int fd, const char *state)
{
    char text[100];
    ssize_t n = recv(fd, text, sizeof text - 1, 0);

    assert_true(n >= 0);
    text[n] = '\0';
    assert_string_equal(text, state);
}

static void readiness_reaches_a_path_and_an_abstract_name(void **state)
{
    char dir[] = "/tmp/rdzv-notify-XXXXXX", path[64], name[64];
    int fd;

    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/notify", dir);
    snprintf(name, sizeof name, "@%s", dir);

    fd = listen_for_states(path);
    assert_int_equal(notify_send(path, "READY=1\nSTATUS=serving"), 0);
    expect_state(fd, "READY=1\nSTATUS=serving");
    close(fd);
    assert_int_equal(notify_send(path, "STOPPING=1"), -ECONNREFUSED);
    unlink(path);
    assert_int_equal(notify_send(path, "STOPPING=1"), -ENOENT);
    rmdir(dir);

    fd = listen_for_states(name);
    assert_int_equal(notify_send(name, "STOPPING=1"), 0);
    expect_state(fd, "STOPPING=1");
    close(fd);
}

static void without_a_manager_nothing_is_sent(void **state)
{
    (void)state;
    assert_int_equal(notify_send(NULL, "READY=1"), 0);
    assert_int_equal(notify_send("", "READY=1"), 0);
}

static void an_address_of_another_kind_is_refused(void **state)
{
    char longest[200];

    (void)state;
    memset(longest, 'a', sizeof longest - 1);
    longest[0] = '/';
    longest[sizeof longest - 1] = '\0';
    assert_int_equal(notify_send("vsock:2:1234", "READY=1"), -EAFNOSUPPORT);
    assert_int_equal(notify_send("relative", "READY=1"), -EAFNOSUPPORT);
    assert_int_equal(notify_send(longest, "READY=1"), -ENAMETOOLONG);
}

/* Descriptors far from those of the test program, one behind the other as systemd passes them. */
#define FIRST 500

static uint16_t put_socket(int fd, int family, bool v6_only, bool any, bool listening, int type)
{
    struct sockaddr_in in = {.sin_family = AF_INET};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};
    struct sockaddr_storage bound;
    socklen_t len = sizeof bound;
    int on = v6_only, s = socket(family, type, 0);

    assert_true(s >= 0);
    in.sin_addr.s_addr = htonl(any ? INADDR_ANY : INADDR_LOOPBACK);
    in6.sin6_addr = any ? in6addr_any : in6addr_loopback;
    if (family == AF_INET6)
        assert_int_equal(setsockopt(s, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on), 0);
    assert_int_equal(bind(s, family == AF_INET ? (void *)&in : (void *)&in6,
                          family == AF_INET ? sizeof in : sizeof in6),
                     0);
    if (listening)
        assert_int_equal(listen(s, 1), 0);
    assert_int_equal(getsockname(s, (struct sockaddr *)&bound, &len), 0);
    memcpy(&in, &bound, sizeof in); /* the port is at the same place in both */
    assert_int_equal(dup2(s, fd), fd);
    close(s);
    return ntohs(in.sin_port);
}

static struct notify_env passed(const char *pid, const char *fds, const char *names)
{
    return (struct notify_env){.listen_pid = pid,
                               .listen_fds = fds,
                               .listen_fdnames = names,
                               .self = 4711,
                               .first_fd = FIRST};
}

static void sockets_are_taken_with_address_and_name(void **state)
{
    struct notify_env env = passed("4711", "5", "jobA:rdzvd.socket::unknown:x");
    static const char *const hosts[] = {"127.0.0.1", "0.0.0.0", "::1", "", "::"};
    static const char *const names[] = {"jobA", "", "", "", "x"};
    struct notify_socket *sockets;
    uint16_t ports[5];
    size_t count;
    int bad = -1;

    (void)state;
    ports[0] = put_socket(FIRST, AF_INET, false, false, true, SOCK_STREAM);
    ports[1] = put_socket(FIRST + 1, AF_INET, false, true, true, SOCK_STREAM);
    ports[2] = put_socket(FIRST + 2, AF_INET6, false, false, true, SOCK_STREAM);
    ports[3] = put_socket(FIRST + 3, AF_INET6, false, true, true, SOCK_STREAM);
    ports[4] = put_socket(FIRST + 4, AF_INET6, true, true, true, SOCK_STREAM);
    assert_int_equal(notify_take_sockets(&env, &sockets, &count, &bad), 0);
    assert_int_equal(count, 5);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(sockets[i].fd, FIRST + i);
        assert_string_equal(sockets[i].host, hosts[i]);
        assert_int_equal(sockets[i].port, ports[i]);
        assert_string_equal(sockets[i].name, names[i]);
        assert_true(fcntl(FIRST + i, F_GETFD) & FD_CLOEXEC);
        assert_true(fcntl(FIRST + i, F_GETFL) & O_NONBLOCK);
        close(FIRST + i);
    }
    assert_int_equal(bad, -1);
    free(sockets);
}

static void sockets_meant_for_others_are_left_alone(void **state)
{
    static const struct {
        const char *pid, *fds;
    } cases[] = {
        {NULL, NULL},     {"4711", NULL},
        {NULL, "1"},      {"4712", "1"},
        {"4711", "0"},    {"4711", ""},
        {"4711", "-1"},   {"4711", "x"},
        {"4711", "1x"},   {"47110000000000000000", "1"},
        {"", "1"},        {" 4711", "1"},
        {"4711", "4097"}, {"4711", "99999999999999999999"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct notify_env env = passed(cases[i].pid, cases[i].fds, NULL);
        struct notify_socket *sockets = (void *)&env;
        size_t count = 7;
        int bad = -1;

        if (notify_take_sockets(&env, &sockets, &count, &bad) != 0 || count != 0 || sockets != NULL)
            fail_msg("case %zu: LISTEN_PID=%s LISTEN_FDS=%s", i, cases[i].pid, cases[i].fds);
    }
}

static void a_descriptor_that_is_no_listening_tcp_socket_is_refused(void **state)
{
    struct notify_env env = passed("4711", "2", NULL);
    struct notify_socket *sockets = NULL;
    size_t count = 7;
    int bad, pipes[2], pair[2];

    (void)state;
    put_socket(FIRST, AF_INET, false, false, true, SOCK_STREAM);

    assert_int_equal(notify_take_sockets(&env, &sockets, &count, &bad), -EBADF);
    assert_int_equal(bad, FIRST + 1);

    assert_int_equal(pipe(pipes), 0);
    dup2(pipes[0], FIRST + 1);
    assert_int_equal(notify_take_sockets(&env, &sockets, &count, &bad), -ENOTSOCK);
    assert_int_equal(bad, FIRST + 1);

    put_socket(FIRST + 1, AF_INET, false, false, false, SOCK_STREAM);
    assert_int_equal(notify_take_sockets(&env, &sockets, &count, &bad), -EPROTOTYPE);
    put_socket(FIRST + 1, AF_INET, false, false, false, SOCK_DGRAM);
    assert_int_equal(notify_take_sockets(&env, &sockets, &count, &bad), -EPROTOTYPE);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    dup2(pair[0], FIRST + 1);
    assert_int_equal(notify_take_sockets(&env, &sockets, &count, &bad), -EPROTOTYPE);

    assert_null(sockets);
    assert_int_equal(count, 7);
    close(pipes[0]);
    close(pipes[1]);
    close(pair[0]);
    close(pair[1]);
    close(FIRST);
    close(FIRST + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(readiness_reaches_a_path_and_an_abstract_name),
        cmocka_unit_test(without_a_manager_nothing_is_sent),
        cmocka_unit_test(an_address_of_another_kind_is_refused),
        cmocka_unit_test(sockets_are_taken_with_address_and_name),
        cmocka_unit_test(sockets_meant_for_others_are_left_alone),
        cmocka_unit_test(a_descriptor_that_is_no_listening_tcp_socket_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
