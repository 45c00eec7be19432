/* The client side of a run: one thread, epoll, one write and one read per exchange; see drive.h. */
#include "tests/bench/drive.h"

#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* Silence after which a run is given up. */
#define STALL_MS 20000

/* Connections that are opened before their answers are read: the ranks of a job come in such
 * bursts, and whatever a burst leaves behind in the server counts as memory of its connections. */
#define OPEN_BATCH 1000

/* What is in flight on a connection has to fit into a socket buffer. */
#define FLIGHT_MAX 65536

#define EVENTS_MAX 256

struct conn {
    int fd;
    uint8_t *requests; /* `depth` times the same exchange */
    uint8_t *in;
    size_t in_len;
    uint64_t *sent_ns; /* a ring of `depth`: when the exchanges under way were sent */
    unsigned oldest;
    unsigned due;
};

struct drive {
    struct work work;
    int epoll;
    unsigned count;
    unsigned depth;
    size_t request_len;
    size_t in_cap;
    struct conn *conns;
};

uint64_t drive_now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void *need(void *memory)
{
    if (memory == NULL)
        err(1, "memory");
    return memory;
}

static int connect_to(const struct sockaddr_in *to)
{
    const struct timeval patience = {.tv_sec = STALL_MS / 1000};
    const int one = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        err(1, "socket");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    if (connect(fd, (const struct sockaddr *)to, sizeof *to) < 0)
        err(1, "connect to port %d", ntohs(to->sin_port));
    return fd;
}

static void say_hello(int fd, uint32_t nonce)
{
    uint8_t hello[WORK_HELLO_LEN];

    work_hello(hello, nonce);
    if (write(fd, hello, sizeof hello) != sizeof hello)
        err(1, "write of VALIDATE and PING");
}

static void hear_hello(int fd, uint32_t nonce)
{
    uint8_t hello[WORK_HELLO_LEN], pong[WORK_PONG_LEN];
    ssize_t n = recv(fd, pong, sizeof pong, MSG_WAITALL);

    work_hello(hello, nonce);
    if (n < 0)
        err(1, "PING was not answered");
    if (n != sizeof pong || memcmp(pong, hello + WORK_HELLO_LEN - WORK_PONG_LEN, sizeof pong) != 0)
        errx(1, "PING was not answered with its nonce (%zd bytes came)", n);
}

void drive_open_idle(const struct sockaddr_in *to, unsigned count, int *fds)
{
    for (unsigned at = 0; at < count; at += OPEN_BATCH) {
        unsigned end = at + OPEN_BATCH < count ? at + OPEN_BATCH : count;

        for (unsigned i = at; i < end; i++) {
            fds[i] = connect_to(to);
            say_hello(fds[i], i);
        }
        for (unsigned i = at; i < end; i++)
            hear_hello(fds[i], i);
    }
}

static void conn_init(struct conn *c, const struct drive *d, const struct sockaddr_in *to,
                      unsigned i)
{
    struct epoll_event on = {.events = EPOLLIN, .data.ptr = c};
    size_t len;
    uint8_t *request = work_make(&d->work, i, &len);

    c->requests = need(malloc(len * d->depth));
    for (unsigned k = 0; k < d->depth; k++)
        memcpy(c->requests + k * len, request, len);
    free(request);
    c->in = need(malloc(d->in_cap));
    c->sent_ns = need(calloc(d->depth, sizeof *c->sent_ns));
    c->fd = connect_to(to);
    if (work_is_c10d(d->work.kind)) {
        say_hello(c->fd, i);
        hear_hello(c->fd, i);
    }
    if (fcntl(c->fd, F_SETFL, O_NONBLOCK) < 0 || epoll_ctl(d->epoll, EPOLL_CTL_ADD, c->fd, &on) < 0)
        err(1, "connection %u", i);
}

struct drive *drive_new(const struct sockaddr_in *to, const struct work *w, unsigned connections,
                        unsigned depth)
{
    struct drive *d = need(calloc(1, sizeof *d));

    d->work = *w;
    d->count = connections;
    d->depth = depth;
    free(work_make(w, 0, &d->request_len));
    d->in_cap = work_answer_max(w) * depth;
    if (d->request_len * depth > FLIGHT_MAX)
        errx(1,
             "%u requests of %zu bytes are more than the %d bytes that may be in flight on a "
             "connection: lower --depth or --value-len",
             depth, d->request_len, FLIGHT_MAX);
    d->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (d->epoll < 0)
        err(1, "epoll_create1");
    d->conns = need(calloc(connections, sizeof *d->conns));
    for (unsigned i = 0; i < connections; i++)
        conn_init(&d->conns[i], d, to, i);
    return d;
}

void drive_free(struct drive *d)
{
    if (d == NULL)
        return;
    for (unsigned i = 0; i < d->count; i++) {
        close(d->conns[i].fd);
        free(d->conns[i].requests);
        free(d->conns[i].in);
        free(d->conns[i].sent_ns);
    }
    close(d->epoll);
    free(d->conns);
    free(d);
}

static void conn_send(const struct drive *d, struct conn *c, unsigned count, uint64_t now)
{
    ssize_t n = write(c->fd, c->requests, d->request_len * count);

    if (n < 0)
        err(1, "write of a request");
    if ((size_t)n < d->request_len * count)
        errx(1, "a socket buffer is full: lower --depth or --value-len");
    for (unsigned k = 0; k < count; k++)
        c->sent_ns[(c->oldest + c->due++) % d->depth] = now;
}

/* Reads once and takes the whole answers; how many there were. */
static unsigned conn_receive(const struct drive *d, struct conn *c, struct hist *latency,
                             uint64_t *now)
{
    ssize_t n = read(c->fd, c->in + c->in_len, d->in_cap - c->in_len);
    unsigned done = 0;
    size_t at = 0;

    if (n < 0)
        err(1, "read of an answer");
    if (n == 0)
        errx(1, "the server closed a connection that was due %u answers", c->due);
    c->in_len += (size_t)n;
    *now = drive_now_ns();
    while (at < c->in_len) {
        const char *why = "";
        size_t size;
        enum work_answer answer = work_answer(&d->work, c->in + at, c->in_len - at, &size, &why);

        if (answer == WORK_MORE)
            break;
        if (answer == WORK_WRONG)
            errx(1, "%s: %.*s", why, (int)(c->in_len - at), (const char *)c->in + at);
        if (c->due == 0)
            errx(1, "more answers than requests");
        at += size;
        hist_add(latency, *now - c->sent_ns[c->oldest]);
        c->oldest = (c->oldest + 1) % d->depth;
        c->due--;
        done++;
    }
    if (at > 0)
        memmove(c->in, c->in + at, c->in_len - at);
    c->in_len -= at;
    return done;
}

void drive_run(struct drive *d, uint64_t ns, uint64_t exchanges, struct drive_result *result)
{
    uint64_t begin = drive_now_ns(), now = begin, begun = 0;
    struct epoll_event events[EVENTS_MAX];

    memset(result, 0, sizeof *result);
    for (unsigned i = 0; i < d->count; i++) {
        unsigned count = exchanges - begun < d->depth ? (unsigned)(exchanges - begun) : d->depth;

        if (count > 0)
            conn_send(d, &d->conns[i], count, drive_now_ns());
        begun += count;
    }
    while (result->exchanges < begun) {
        int n = epoll_wait(d->epoll, events, EVENTS_MAX, STALL_MS);

        if (n < 0 && errno != EINTR)
            err(1, "epoll_wait");
        if (n == 0)
            errx(1, "no answer for %d s, %llu are due", STALL_MS / 1000,
                 (unsigned long long)(begun - result->exchanges));
        for (int i = 0; i < n; i++) {
            struct conn *c = events[i].data.ptr;
            uint64_t count = conn_receive(d, c, &result->latency, &now);

            result->exchanges += count;
            if (now - begin >= ns)
                continue;
            if (count > exchanges - begun)
                count = exchanges - begun;
            if (count > 0)
                conn_send(d, c, (unsigned)count, now);
            begun += count;
        }
    }
    result->ns = now - begin;
}
