/* A server in the test's hands. See harness.h. */
#include "tests/loop/harness.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/loop/requests.h"

/* A case that takes so long waits for something that does not come, or for the machine. */
#define LONG_CASE_S 5.0

struct loop loop; /* large */

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

void loop_configure(struct loop *l, const char *const *flags)
{
    char *argv[32] = {(char *)(uintptr_t) "rdzvd", (char *)(uintptr_t) "--listen",
                      (char *)(uintptr_t) "127.0.0.1:0", (char *)(uintptr_t) "--host-whitelist=*"};
    char *const no_environment[] = {NULL};
    struct log_options log = {.format = LOG_FORMAT_LOGFMT, .level = LOG_WARN};
    struct config_error error;
    int argc = 4;

    l->began_s = now_s();
    for (size_t i = 0; flags != NULL && flags[i] != NULL; i++)
        argv[argc++] = (char *)(uintptr_t)flags[i];
    if (!config_parse(argc, argv, no_environment, &l->config, &error))
        fail_msg("%s", error.text);
    l->log_fd = memfd_create("log", MFD_CLOEXEC);
    assert_true(l->log_fd >= 0);
    log.fd = l->log_fd;
    log_init(&log);
    signal(SIGPIPE, SIG_IGN); /* as main() does */
}

void loop_forget(struct loop *l)
{
    server_fini(&l->server);
    for (int i = 0; i < ACCOUNT_LOOP; i++) /* libevent keeps some for the next base */
        assert_int_equal(account.bytes[i], 0);
    config_free(&l->config);
    close(l->log_fd);
    if (now_s() - l->began_s > LONG_CASE_S)
        print_message("  this server was there for %.1f s\n", now_s() - l->began_s);
}

void loop_open(struct loop *l, const char *const *flags)
{
    loop_configure(l, flags);
    assert_int_equal(server_init(&l->server, &l->config), 0);
}

void loop_close(struct loop *l)
{
    struct space *space;

    while (!TAILQ_EMPTY(&l->server.net.conns))
        conn_close(TAILQ_FIRST(&l->server.net.conns), "the test is over");
    LOOP_UNTIL(l,
               l->server.net.conn_count == 0); /* an iteration frees as many as it has time for */
    TAILQ_FOREACH(space, &l->server.engine.store.spaces, entry) {
        assert_int_equal(space->keys.waiters, 0);
        assert_int_equal(space->tree.hub.registered, 0);
    }
    loop_forget(l);
}

int loop_set_up(void **state)
{
    (void)state;
    loop_open(&loop, NULL);
    return 0;
}

int loop_tear_down(void **state)
{
    (void)state;
    loop_close(&loop);
    return 0;
}

static void on_stop(evutil_socket_t fd, short what, void *arg)
{
    struct server *s = arg;

    (void)fd;
    (void)what;
    s->stop = true;
}

void loop_iterate(struct loop *l)
{
    const struct timeval now = {0};

    /* Stops the loop after the pass that this event is a part of. */
    l->server.stop = false;
    assert_int_equal(event_base_once(l->server.base, -1, EV_TIMEOUT, on_stop, &l->server, &now), 0);
    assert_int_equal(server_run(&l->server), 0);
}

void loop_iterate_again(struct loop *l, int count)
{
    if (count > 2000)
        poll(NULL, 0, 1);
    loop_iterate(l);
}

int loop_dial(struct loop *l, bool slow)
{
    const struct listener *listener = TAILQ_FIRST(&l->server.net.listeners);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), small = 32768, on = 1;
    struct sockaddr_in address;
    socklen_t len = sizeof address;

    assert_true(fd >= 0);
    assert_int_equal(
        getsockname(event_get_fd(&listener->event), (struct sockaddr *)(void *)&address, &len), 0);
    /* As torch's clients do; without it, later bytes wait until the server has acknowledged earlier
     * ones. */
    assert_int_equal(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on), 0);
    if (slow)
        assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)(void *)&address, len), 0);
    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    return fd;
}

int loop_connect(struct loop *l, bool slow)
{
    int fd = loop_dial(l, slow), small = 32768;

    LOOP_UNTIL(l, loop_conn(l, fd) != NULL);
    if (slow) {
        int server_fd = loop_conn(l, fd)->fd;

        assert_int_equal(setsockopt(server_fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small), 0);
    }
    return fd;
}

struct conn *loop_conn(struct loop *l, int fd)
{
    struct sockaddr_in address;
    socklen_t len = sizeof address;
    struct conn *c;

    assert_int_equal(getsockname(fd, (struct sockaddr *)(void *)&address, &len), 0);
    TAILQ_FOREACH(c, &l->server.net.conns, entry) {
        if (c->peer.port == ntohs(address.sin_port))
            return c;
    }
    return NULL;
}

void loop_leave(struct loop *l, int fd)
{
    const struct conn *gone = loop_conn(l, fd), *c;

    assert_non_null(gone);
    close(fd);
    do {
        loop_iterate(l);
        TAILQ_FOREACH(c, &l->server.net.conns, entry) {
            if (c == gone)
                break;
        }
    } while (c != NULL);
}

/* How long a peer has waited. The kernel may take 0.2 s to open a window that was closed, and the
 * server's own threads what the machine leaves them: only a time that neither takes is a failure.
 */
struct patience {
    int iterations;
    struct timespec since;
};

/* Between two looks. False: it has been too long. */
static bool be_patient(struct loop *l, struct patience *p, int fd, short awaited)
{
    enum { AT_ONCE = 1000, LONGEST_S = 60 };
    struct pollfd what = {.fd = fd, .events = awaited};
    struct timespec now;

    loop_iterate(l);
    if (p->iterations++ < AT_ONCE)
        return true;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (p->iterations == AT_ONCE + 1)
        p->since = now;
    poll(&what, 1, 1); /* the processor is for others, too */
    return now.tv_sec - p->since.tv_sec < LONGEST_S;
}

void loop_send(struct loop *l, int fd, const void *bytes, size_t len)
{
    struct patience patience = {0};
    const char *at = bytes;

    while (len > 0) {
        ssize_t n = send(fd, at, len, MSG_NOSIGNAL);

        if (n < 0 && errno != EAGAIN)
            fail_msg("send: %s", strerror(errno));
        if (n > 0) {
            at += n;
            len -= (size_t)n;
            patience.iterations = 0;
        }
        if (!be_patient(l, &patience, fd, POLLOUT))
            fail_msg("the server does not read: %zu bytes are left", len);
    }
}

void loop_send_text(struct loop *l, int fd, const char *text)
{
    loop_send(l, fd, text, strlen(text));
}

/* The next bytes of a peer; 0 at the end of its stream. */
static size_t next_bytes(struct loop *l, int fd, void *out, size_t cap)
{
    struct patience patience = {0};

    do {
        ssize_t n = recv(fd, out, cap, 0);

        if (n >= 0)
            return (size_t)n;
        if (errno == ECONNRESET)
            return 0;
        assert_int_equal(errno, EAGAIN);
    } while (be_patient(l, &patience, fd, POLLIN));
    fail_msg("nothing comes");
    return 0;
}

uint8_t loop_next_byte(struct loop *l, int fd)
{
    uint8_t byte;

    if (next_bytes(l, fd, &byte, 1) == 0)
        fail_msg("the end comes instead of a byte");
    return byte;
}

void loop_receive(struct loop *l, int fd, void *out, size_t len)
{
    size_t have = 0;

    while (have < len) {
        size_t n = next_bytes(l, fd, (uint8_t *)out + have, len - have);

        if (n == 0)
            fail_msg("the end comes after %zu of %zu bytes", have, len);
        have += n;
    }
}

void loop_expect(struct loop *l, int fd, const void *bytes, size_t len)
{
    uint8_t *got = malloc(len + 1);

    assert_non_null(got);
    loop_receive(l, fd, got, len);
    assert_memory_equal(got, bytes, len);
    free(got);
}

void loop_expect_end(struct loop *l, int fd)
{
    char byte;
    size_t n = next_bytes(l, fd, &byte, 1);

    if (n != 0)
        fail_msg("0x%02x comes instead of the end", (unsigned char)byte);
}

void loop_expect_silence(struct loop *l, int fd)
{
    static const char ping[] = "\0\xce\xf7\x85\x3c\x0d"
                               "1234";
    int other = loop_connect(l, false);
    char byte;

    loop_send(l, other, ping, sizeof ping - 1);
    loop_expect(l, other, "1234", 4);
    close(other);
    if (recv(fd, &byte, 1, 0) >= 0)
        fail_msg("0x%02x comes, and nothing should", (unsigned char)byte);
    assert_int_equal(errno, EAGAIN);
}

unsigned loop_expect_answer(struct loop *l, int fd, char *body, size_t cap)
{
    char head[4096], byte;
    size_t len = 0, left;
    const char *length;
    unsigned status;

    do {
        if (next_bytes(l, fd, head + len, 1) == 0)
            fail_msg("the end comes within the head: %.*s", (int)len, head);
        head[++len] = '\0';
        assert_in_range(len, 1, sizeof head - 2);
    } while (len < 4 || memcmp(head + len - 4, "\r\n\r\n", 4) != 0);
    assert_int_equal(sscanf(head, "HTTP/1.%*d %u", &status), 1);
    length = strstr(head, "Content-Length: ");
    if (length == NULL)
        fail_msg("no Content-Length: %s", head);
    left = strtoul(length + strlen("Content-Length: "), NULL, 10);
    for (size_t i = 0; i < left; i++) {
        if (next_bytes(l, fd, &byte, 1) == 0)
            fail_msg("the end comes within the body");
        if (i + 1 < cap)
            body[i] = byte;
    }
    if (cap > 0)
        body[left < cap ? left : cap - 1] = '\0';
    return status;
}

int loop_connect_modern(struct loop *l)
{
    int fd = loop_connect(l, false);

    loop_send(l, fd, TEXT(VALIDATE PING));
    loop_expect(l, fd, "abcd", 4);
    return fd;
}

void loop_set_large(struct loop *l, int fd, size_t len)
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

void loop_set_key(struct loop *l, const char *key, const char *value)
{
    struct engine *e = &l->server.engine;
    struct store_result r;

    engine_apply(e, TAILQ_FIRST(&e->spaces),
                 &(struct command){
                     .kind = COMMAND_KEY_SET, .key = slice_str(key), .value = slice_str(value)},
                 &r);
    assert_int_equal(r.status, STORE_OK);
}

bool loop_logged(struct loop *l, const char *text)
{
    off_t size = lseek(l->log_fd, 0, SEEK_END);
    char *all = calloc(1, (size_t)size + 1);
    bool found;

    assert_non_null(all);
    assert_int_equal(pread(l->log_fd, all, (size_t)size, 0), size);
    found = strstr(all, text) != NULL;
    if (!found)
        print_error("the log has no '%s':\n%s", text, all);
    free(all);
    return found;
}
