/* The yardstick: a plain epoll loop that reads, counts bytes and writes an answer of the right
 * length: the cost of any single-threaded server, without the work of a store.
 *
 * The command line gives the length of a request, so the server only counts bytes. The only bytes
 * that it reads are the nonce of the PING in the hello of a c10d connection. See bench.h. */
#include "tests/bench/bench.h"

#include <arpa/inet.h>
#include <endian.h>
#include <err.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define EVENTS_MAX 256
#define IN_CAP     65536

struct peer {
    bool greeted;
    size_t in_len; /* bytes of a request that has begun */
};

struct bare {
    int epoll;
    int listener;
    size_t request_len;
    size_t answer_len;
    uint8_t *answers;   /* as many as one read can ask for */
    struct peer *peers; /* by descriptor */
    size_t peers_max;
    size_t arrivals; /* a barrier opens when so many requests are here; 0: there is none */
    size_t arrived;
    bool is_set; /* of `wake`, once for each server: the key */
};

static void watch(const struct bare *b, int fd)
{
    struct epoll_event on = {.events = EPOLLIN, .data.fd = fd};

    if (epoll_ctl(b->epoll, EPOLL_CTL_ADD, fd, &on) < 0)
        err(1, "epoll_ctl");
}

static void start_listening(struct bare *b)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;

    b->listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (b->listener < 0 || bind(b->listener, (struct sockaddr *)&at, sizeof at) < 0 ||
        listen(b->listener, SOMAXCONN) < 0 ||
        getsockname(b->listener, (struct sockaddr *)&at, &len) < 0)
        err(1, "listen");
    watch(b, b->listener);
    fprintf(stderr, "event=listening address=127.0.0.1:%d\n", ntohs(at.sin_port));
}

static void accept_peers(struct bare *b)
{
    const int one = 1;
    int fd;

    while ((fd = accept4(b->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        if ((size_t)fd >= b->peers_max)
            errx(1, "descriptor %d is beyond the limit of open files", fd);
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        b->peers[fd] = (struct peer){0};
        watch(b, fd);
    }
    if (errno != EAGAIN && errno != ECONNABORTED)
        err(1, "accept4");
}

static void answer_all(struct bare *b)
{
    for (size_t fd = 0; fd < b->peers_max; fd++) {
        if (b->peers[fd].in_len > 0 &&
            write((int)fd, b->answers, b->answer_len) != (ssize_t)b->answer_len)
            err(1, "write");
        b->peers[fd].in_len = 0;
    }
}

/* Of `wake`: the client that sets the awaited key sends that behind its hello. The others wait, as
 * their requests are shorter than the server was given. The kernel may deliver a request later that
 * was sent before the key was set. */
static void serve(struct bare *b, int fd)
{
    static uint8_t in[IN_CAP];
    struct peer *p = &b->peers[fd];
    ssize_t n = read(fd, in, sizeof in);
    size_t count;

    if (n <= 0) {
        *p = (struct peer){0};
        close(fd);
        return;
    }
    if (!p->greeted && n > HELLO_LEN) {
        b->is_set = true;
        answer_all(b);
        return;
    }
    if (!p->greeted) {
        if (n != HELLO_LEN)
            errx(1, "a hello has to come in one segment, %zd bytes came", n);
        p->greeted = true;
        if (write(fd, in + HELLO_LEN - PONG_LEN, PONG_LEN) != PONG_LEN)
            err(1, "write");
        return;
    }
    p->in_len += (size_t)n;
    if (p->in_len < b->request_len && !b->is_set)
        return;
    if (b->arrivals > 0) {
        if (++b->arrived % b->arrivals == 0)
            answer_all(b);
        return;
    }
    count = b->is_set ? 1 : p->in_len / b->request_len;
    p->in_len = b->is_set ? 0 : p->in_len % b->request_len;
    if (write(fd, b->answers, count * b->answer_len) != (ssize_t)(count * b->answer_len))
        err(1, "write of %zu answers at once", count);
}

__attribute__((noreturn)) static void loop(struct bare *b)
{
    struct epoll_event events[EVENTS_MAX];

    for (;;) {
        int n = epoll_wait(b->epoll, events, EVENTS_MAX, -1);

        if (n < 0 && errno != EINTR)
            err(1, "epoll_wait");
        for (int i = 0; i < n; i++) {
            if (events[i].data.fd == b->listener)
                accept_peers(b);
            else
                serve(b, events[i].data.fd);
        }
    }
}

/* Each answer begins with the length of what follows it, as a GET's does. An ADD's is only those
 * eight bytes, and a CHECK's is a zero. */
static void make_answers(struct bare *b)
{
    size_t count = IN_CAP / b->request_len + 2;
    uint64_t len = htole64(b->answer_len - sizeof len);

    b->answers = need(calloc(count, b->answer_len));
    for (size_t i = 0; i < count && b->answer_len >= sizeof len; i++)
        memcpy(b->answers + i * b->answer_len, &len, sizeof len);
}

void bare_serve(size_t request_len, size_t answer_len, size_t arrivals)
{
    struct bare b = {.request_len = request_len, .answer_len = answer_len, .arrivals = arrivals};
    struct rlimit files;

    if (b.request_len == 0 || b.answer_len == 0)
        errx(2,
             "usage: rdzv-bench bare REQUEST-BYTES ANSWER-BYTES [ARRIVALS] (--sizes prints both)");
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    b.peers_max = files.rlim_max < 1000000 ? files.rlim_max : 1000000;
    b.peers = need(calloc(b.peers_max, sizeof *b.peers));
    b.epoll = epoll_create1(EPOLL_CLOEXEC);
    if (b.epoll < 0)
        err(1, "start");
    make_answers(&b);
    start_listening(&b);
    loop(&b);
}
