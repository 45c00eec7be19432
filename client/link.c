/* A client's connection: finds the store, connects, says hello, receives. See client.h. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/client.h"

#define READ_MIN 16384
#define READS_MOST \
    16 /* of one rdzv_client_process(), so that a store that keeps sending cannot hold it */
#define KEEP_MOST (1u << 20)

#define IS_FOLLOWER "Is it a replica that does not lead (see its /readyz)?"

/* A store whose machine is gone is noticed after a minute. */
#define KEEPALIVE_IDLE_S  30
#define KEEPALIVE_EVERY_S 10
#define KEEPALIVE_COUNT   3

static void link_close_socket(struct link *l)
{
    if (l->fd >= 0)
        close(l->fd); /* which takes it out of the epoll */
    l->fd = -1;
}

static void end_lookup(struct link *l)
{
    if (l->lookup_fd >= 0)
        epoll_ctl(l->epoll, EPOLL_CTL_DEL, l->lookup_fd, NULL);
    l->lookup_fd = -1;
}

void link_close(struct link *l)
{
    tls_free(l->ssl); /* which tells the store */
    l->ssl = NULL;
    free(l->out);
    l->out = NULL;
    link_close_socket(l);
    end_lookup(l);
    lookup_cancel(l->lookup);
    l->lookup = NULL;
    if (l->list != NULL)
        freeaddrinfo(l->list);
    l->list = l->next = NULL;
    free(l->in);
    l->in = NULL;
    l->in_len = l->in_cap = l->in_need = 0;
    l->wants_out = false;
    l->state = LINK_DOWN;
}

static bool link_watch(struct link *l, int fd, unsigned events, int how)
{
    struct epoll_event on = {.events = events, .data.fd = fd};

    return epoll_ctl(l->epoll, how, fd, &on) == 0;
}

void link_want_out(struct link *l, bool on)
{
    if (l->wants_out == on || l->fd < 0)
        return;
    l->wants_out = on;
    link_watch(l, l->fd, EPOLLIN | (on ? EPOLLOUT : 0u), EPOLL_CTL_MOD);
}

static void link_fail(struct link *l, const char *what, const char *hint)
{
    char why[512];

    snprintf(why, sizeof why, "%s; %s", what, hint);
    l->calls->lost(l, RDZV_UNREACHABLE, RDZV_UNREACHABLE, why);
}

/* --- Connecting. --- */

/* Small requests leave at once, and a store that has vanished is noticed after the same time
 * whether the connection is idle or a request is under way. Options that the kernel lacks are
 * left out. */
static void set_socket_options(int fd)
{
    const struct {
        int option, value;
    } tcp[] = {
        {TCP_NODELAY, 1},
        {TCP_KEEPIDLE, KEEPALIVE_IDLE_S},
        {TCP_KEEPINTVL, KEEPALIVE_EVERY_S},
        {TCP_KEEPCNT, KEEPALIVE_COUNT},
        {TCP_USER_TIMEOUT, (KEEPALIVE_IDLE_S + KEEPALIVE_COUNT * KEEPALIVE_EVERY_S) * 1000},
    };
    int on = 1;

    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    for (size_t i = 0; i < sizeof tcp / sizeof *tcp; i++)
        setsockopt(fd, IPPROTO_TCP, tcp[i].option, &tcp[i].value, sizeof tcp[i].value);
}

/* 0: it is under way. */
static int begin_connect(struct link *l, const struct addrinfo *to)
{
    int error = 0;

    l->fd = socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (l->fd < 0)
        return errno;
    set_socket_options(l->fd);
    if (connect(l->fd, to->ai_addr, to->ai_addrlen) < 0 && errno != EINPROGRESS)
        error = errno;
    else if (!link_watch(l, l->fd, EPOLLIN | EPOLLOUT, EPOLL_CTL_ADD))
        error = errno;
    if (error != 0) {
        link_close_socket(l);
        return error;
    }
    l->wants_out = true;
    l->state = LINK_CONNECTING;
    return 0;
}

/* The next of the addresses, until one can be tried; `error` is that of the one before. */
static void try_next(struct link *l, int error)
{
    link_close_socket(l);
    while (l->next != NULL) {
        const struct addrinfo *to = l->next;

        l->next = to->ai_next;
        error = begin_connect(l, to);
        if (error == 0)
            return;
    }
    link_fail(l, strerror(error),
              error == ECONNREFUSED || error == ECONNRESET
                  ? "does a store listen there?"
                  : "is the address right, and does no firewall or NetworkPolicy stand between?");
}

void link_start(struct link *l)
{
    l->tls_text[0] = '\0';
    if (lookup_digits(&l->address, &l->list) == 0) {
        l->next = l->list;
        try_next(l, 0);
        return;
    }
    l->lookup = lookup_start(&l->address, &l->lookup_fd);
    if (l->lookup == NULL || !link_watch(l, l->lookup_fd, EPOLLIN, EPOLL_CTL_ADD)) {
        l->lookup_fd = -1;
        l->calls->lost(l, RDZV_NO_MEMORY, RDZV_NO_MEMORY,
                       "no memory, thread or descriptor is left to look its host name up");
        return;
    }
    l->state = LINK_LOOKING_UP;
}

void link_on_lookup(struct link *l)
{
    int error;

    end_lookup(l);
    error = lookup_finish(l->lookup, &l->list);
    l->lookup = NULL;
    if (error != 0) {
        link_fail(l, gai_strerror(error), "is the host name right, and does its Service exist?");
        return;
    }
    l->next = l->list;
    try_next(l, 0);
}

/* --- Greeting. --- */

static uint32_t make_nonce(void)
{
    return (uint32_t)getpid();
}

static void send_hello(struct link *l)
{
    uint8_t hello[C10D_HELLO_LEN];
    struct writer w = {.ptr = hello, .cap = sizeof hello};
    ssize_t n;

    c10d_write_hello(&w, make_nonce());
    n = tls_or_send(l->ssl, l->fd, hello + l->hello_sent, sizeof hello - l->hello_sent);
    if (n > 0)
        l->hello_sent += (size_t)n;
    link_want_out(l, l->hello_sent < sizeof hello); /* an error is found by the next recv() */
}

static void link_hello(struct link *l)
{
    l->state = LINK_HELLO;
    l->hello_sent = 0;
    send_hello(l);
}

/* --- TLS. --- */

static void link_fail_tls(struct link *l)
{
    char why[SECURE_WHY_MAX];

    secure_why(l->ssl, why);
    l->calls->lost(l, RDZV_TLS, RDZV_TLS, why);
}

static void link_fail_tls_memory(struct link *l)
{
    l->calls->lost(l, RDZV_NO_MEMORY, RDZV_NO_MEMORY, "there is no memory for TLS");
}

static void continue_securing(struct link *l)
{
    int error = tls_handshake(l->ssl);

    if (error == -EAGAIN) {
        link_want_out(l, tls_wants_write(l->ssl));
    } else if (error == -ENOMEM) {
        link_fail_tls_memory(l);
    } else if (error != 0) {
        link_fail_tls(l);
    } else {
        secure_peer(l->ssl, l->tls_text);
        link_hello(l);
    }
}

static void begin_tls(struct link *l)
{
    char why[SECURE_WHY_MAX];
    enum rdzv_status status = secure_open(&l->secure, l->fd, l->address.host, &l->ssl, why);

    if (status == RDZV_TLS) {
        l->calls->lost(l, RDZV_TLS, RDZV_TLS, why);
        return;
    }
    l->out = malloc(sizeof *l->out);
    if (l->out != NULL)
        l->out->len = 0;
    if (status != RDZV_OK || l->out == NULL) {
        link_fail_tls_memory(l);
        return;
    }
    l->state = LINK_SECURING;
    continue_securing(l);
}

static void link_connected(struct link *l)
{
    int error = 0;
    socklen_t len = sizeof error;

    if (getsockopt(l->fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
        error = errno;
    if (error != 0) {
        try_next(l, error);
        return;
    }
    if (l->secure.is_on)
        begin_tls(l);
    else
        link_hello(l);
}

static void link_take_hello(struct link *l)
{
    struct c10d_progress progress = {0};
    struct c10d_reply reply;
    size_t size;

    if (c10d_parse_reply((struct slice){l->in, l->in_len}, C10D_PING, 0, &l->limits, &progress,
                         &reply, &size) != PARSE_DONE)
        return;
    if (reply.number != (int64_t)make_nonce() || l->in_len > size) {
        l->calls->lost(l, RDZV_PROTOCOL, RDZV_PROTOCOL,
                       "what answers there does not speak c10d; is it the port of another "
                       "service?");
        return;
    }
    l->in_len = 0;
    l->state = LINK_UP;
    l->calls->can_send(l);
}

/* --- Sending and receiving. --- */

ssize_t link_send(struct link *l, struct iovec *pieces, size_t count)
{
    struct msghdr message = {.msg_iov = pieces, .msg_iovlen = count};

    if (l->ssl == NULL)
        return sendmsg(l->fd, &message, MSG_NOSIGNAL);
    return secure_send(l->ssl, l->out, pieces, count);
}

bool link_owes(const struct link *l)
{
    return l->out != NULL && l->out->len > 0;
}

static bool link_make_room(struct link *l)
{
    size_t cap = l->in_len + READ_MIN;
    uint8_t *in;

    if (cap < l->in_need)
        cap = l->in_need;
    if (cap <= l->in_cap)
        return true;
    if (cap < l->in_cap * 2 && l->in_need <= l->in_cap)
        cap = l->in_cap * 2;
    in = realloc(l->in, cap);
    if (in == NULL)
        return false;
    l->in = in;
    l->in_cap = cap;
    return true;
}

static void connection_ended(struct link *l, const char *how)
{
    char why[256];

    if (l->state == LINK_HELLO) {
        link_fail(l, how,
                  l->ssl != NULL
                      ? "it did not greet; is it rdzvd, and does it take this client? " IS_FOLLOWER
                      : "it did not greet; is it a c10d store of torch 2.5 or later, or rdzvd? "
                        "Does it want TLS? " IS_FOLLOWER);
        return;
    }
    snprintf(why, sizeof why,
             "%s before it had answered; the store's log says why, often a limit or its end", how);
    l->calls->lost(l, RDZV_LOST, RDZV_UNREACHABLE, why);
}

static void give_back_room(struct link *l)
{
    if (l->in_len == 0 && l->in_cap > KEEP_MOST) {
        free(l->in);
        l->in = NULL;
        l->in_cap = 0;
    }
}

/* TLS may have bytes, or the end, of which the socket will not tell. */
static bool link_has_more(const struct link *l)
{
    return l->ssl != NULL && tls_has_pending(l->ssl);
}

/* Greeting or up. */
static void link_receive(struct link *l)
{
    for (int i = 0; i < READS_MOST; i++) {
        size_t room;
        ssize_t n;

        if (!link_make_room(l)) {
            l->calls->lost(l, RDZV_NO_MEMORY, RDZV_NO_MEMORY, "there is no memory for the answer");
            return;
        }
        room = l->in_cap - l->in_len;
        n = tls_or_recv(l->ssl, l->fd, l->in + l->in_len, room);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            give_back_room(l);
            return;
        }
        if (n < 0 && errno == EPROTO && l->state == LINK_HELLO) {
            /* With TLS 1.3, a server judges the client's certificate behind the handshake. */
            link_fail_tls(l);
            return;
        }
        if (n <= 0) {
            connection_ended(l, n == 0 ? "the store closed the connection" : strerror(errno));
            return;
        }
        l->in_len += (size_t)n;
        if (l->state == LINK_HELLO)
            link_take_hello(l);
        else if (l->in_len >= l->in_need)
            l->calls->arrived(l);
        if (l->state != LINK_HELLO && l->state != LINK_UP)
            return;
        if ((size_t)n < room && !link_has_more(l))
            break; /* that was all; epoll tells of more */
    }
    give_back_room(l);
    if (link_has_more(l))
        link_want_out(l, true); /* which wakes us */
}

void link_on_socket(struct link *l, unsigned events)
{
    if (l->state == LINK_CONNECTING) {
        link_connected(l);
        return;
    }
    if (l->state == LINK_SECURING) {
        continue_securing(l);
        return;
    }
    if ((events & EPOLLOUT) != 0 && l->state == LINK_HELLO)
        send_hello(l);
    else if ((events & EPOLLOUT) != 0)
        l->calls->can_send(l);
    if (l->fd >= 0 && ((events & ~(unsigned)EPOLLOUT) != 0 || link_has_more(l)))
        link_receive(l);
}
