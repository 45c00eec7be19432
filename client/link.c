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
#define READS_MOST                                                                \
    16 /* of one rdzv_client_process(), so that one store cannot hold it for ever \
        */
#define KEEP_MOST (1u << 20)

#define IS_FOLLOWER "Is it a replica that does not lead (see its /readyz)?"

/* A store whose machine is gone is noticed after a minute. */
#define KEEPALIVE_IDLE_S  30
#define KEEPALIVE_EVERY_S 10
#define KEEPALIVE_COUNT   3

static void end_tls(struct link *l)
{
    tls_free(l->ssl);
    l->ssl = NULL;
    free(l->out);
    l->out = NULL;
}

static void close_socket(struct link *l)
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

void link_close(struct rdzv_client *c)
{
    struct link *l = &c->link;

    end_tls(l); /* which tells the store */
    close_socket(l);
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

static bool watch(struct link *l, int fd, unsigned events, int how)
{
    struct epoll_event on = {.events = events, .data.fd = fd};

    return epoll_ctl(l->epoll, how, fd, &on) == 0;
}

void link_want_out(struct rdzv_client *c, bool on)
{
    struct link *l = &c->link;

    if (l->wants_out == on || l->fd < 0)
        return;
    l->wants_out = on;
    watch(l, l->fd, EPOLLIN | (on ? EPOLLOUT : 0u), EPOLL_CTL_MOD);
}

static void unreachable(struct rdzv_client *c, const char *what, const char *hint)
{
    char why[512];

    snprintf(why, sizeof why, "%s; %s", what, hint);
    client_lost(c, RDZV_UNREACHABLE, RDZV_UNREACHABLE, why);
}

static void no_connection(struct rdzv_client *c, int error)
{
    const char *hint = "is the address right, and does no firewall or NetworkPolicy stand between?";

    if (error == ECONNREFUSED || error == ECONNRESET)
        hint = "does a store listen there?";
    unreachable(c, strerror(error), hint);
}

/* --- Connecting. --- */

static void set_options(int fd)
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
    set_options(l->fd);
    if (connect(l->fd, to->ai_addr, to->ai_addrlen) < 0 && errno != EINPROGRESS)
        error = errno;
    else if (!watch(l, l->fd, EPOLLIN | EPOLLOUT, EPOLL_CTL_ADD))
        error = errno;
    if (error != 0) {
        close_socket(l);
        return error;
    }
    l->wants_out = true;
    l->state = LINK_CONNECTING;
    return 0;
}

/* The next of the addresses, until one can be tried; `error` is that of the one before. */
static void try_next(struct rdzv_client *c, int error)
{
    struct link *l = &c->link;

    close_socket(l);
    while (l->next != NULL) {
        const struct addrinfo *to = l->next;

        l->next = to->ai_next;
        error = begin_connect(l, to);
        if (error == 0)
            return;
    }
    no_connection(c, error);
}

void link_start(struct rdzv_client *c)
{
    struct link *l = &c->link;

    c->tls_text[0] = '\0';
    if (lookup_digits(&c->address, &l->list) == 0) {
        l->next = l->list;
        try_next(c, 0);
        return;
    }
    l->list = NULL;
    l->lookup = lookup_start(&c->address, &l->lookup_fd);
    if (l->lookup == NULL || !watch(l, l->lookup_fd, EPOLLIN, EPOLL_CTL_ADD)) {
        l->lookup_fd = -1;
        client_lost(c, RDZV_NO_MEMORY, RDZV_NO_MEMORY,
                    "no memory, thread or descriptor is left to look its host name up");
        return;
    }
    l->state = LINK_LOOKING_UP;
}

void link_on_lookup(struct rdzv_client *c)
{
    struct link *l = &c->link;
    int error;

    end_lookup(l);
    error = lookup_finish(l->lookup, &l->list);
    l->lookup = NULL;
    if (error != 0) {
        l->list = NULL;
        unreachable(c, gai_strerror(error), "is the host name right, and does its Service exist?");
        return;
    }
    l->next = l->list;
    try_next(c, 0);
}

/* --- Greeting. --- */

static uint32_t nonce(void)
{
    return (uint32_t)getpid();
}

static void send_hello(struct rdzv_client *c)
{
    struct link *l = &c->link;
    uint8_t hello[C10D_HELLO_LEN];
    struct writer w = {.ptr = hello, .cap = sizeof hello};
    ssize_t n;

    c10d_write_hello(&w, nonce());
    n = tls_or_send(l->ssl, l->fd, hello + l->hello_sent, sizeof hello - l->hello_sent);
    if (n > 0)
        l->hello_sent += (size_t)n;
    link_want_out(c, l->hello_sent < sizeof hello); /* an error is found by the next recv() */
}

static void greet(struct rdzv_client *c)
{
    c->link.state = LINK_GREETING;
    c->link.hello_sent = 0;
    send_hello(c);
}

/* --- TLS. --- */

static void no_tls(struct rdzv_client *c)
{
    char why[SECURE_WHY_MAX];

    secure_why(c->link.ssl, why);
    client_lost(c, RDZV_TLS, RDZV_TLS, why);
}

static void no_memory_for_tls(struct rdzv_client *c)
{
    client_lost(c, RDZV_NO_MEMORY, RDZV_NO_MEMORY, "there is no memory for TLS");
}

static void go_on_securing(struct rdzv_client *c)
{
    struct link *l = &c->link;
    int error = tls_handshake(l->ssl);

    if (error == -EAGAIN) {
        link_want_out(c, tls_wants_write(l->ssl));
    } else if (error == -ENOMEM) {
        no_memory_for_tls(c);
    } else if (error != 0) {
        no_tls(c);
    } else {
        secure_peer(l->ssl, c->tls_text);
        greet(c);
    }
}

static void begin_tls(struct rdzv_client *c)
{
    struct link *l = &c->link;
    char why[SECURE_WHY_MAX];
    enum rdzv_status status = secure_open(&c->secure, l->fd, c->address.host, &l->ssl, why);

    if (status == RDZV_TLS) {
        client_lost(c, RDZV_TLS, RDZV_TLS, why);
        return;
    }
    l->out = malloc(sizeof *l->out);
    if (l->out != NULL)
        l->out->len = 0;
    if (status != RDZV_OK || l->out == NULL) {
        no_memory_for_tls(c);
        return;
    }
    l->state = LINK_SECURING;
    go_on_securing(c);
}

static void connected(struct rdzv_client *c)
{
    int error = 0;
    socklen_t len = sizeof error;

    if (getsockopt(c->link.fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
        error = errno;
    if (error != 0) {
        try_next(c, error);
        return;
    }
    if (c->secure.is_on)
        begin_tls(c);
    else
        greet(c);
}

static void take_hello(struct rdzv_client *c)
{
    struct link *l = &c->link;
    struct c10d_progress progress = {0};
    struct c10d_reply reply;
    size_t size;

    if (c10d_parse_reply((struct slice){l->in, l->in_len}, C10D_PING, 0, &c->limits, &progress,
                         &reply, &size) != PARSE_DONE)
        return;
    if (reply.number != (int64_t)nonce() || l->in_len > size) {
        client_lost(c, RDZV_PROTOCOL, RDZV_PROTOCOL,
                    "what answers there does not speak c10d; is it the port of another service?");
        return;
    }
    l->in_len = 0;
    l->state = LINK_UP;
    client_send(c);
}

/* --- Sending and receiving. --- */

ssize_t link_send(struct rdzv_client *c, struct iovec *pieces, size_t count)
{
    struct msghdr message = {.msg_iov = pieces, .msg_iovlen = count};

    if (c->link.ssl == NULL)
        return sendmsg(c->link.fd, &message, MSG_NOSIGNAL);
    return secure_send(c->link.ssl, c->link.out, pieces, count);
}

bool link_owes(const struct link *l)
{
    return l->out != NULL && l->out->len > 0;
}

static bool make_room(struct link *l)
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

static void connection_ended(struct rdzv_client *c, const char *how)
{
    char why[256];

    if (c->link.state == LINK_GREETING) {
        unreachable(
            c, how,
            c->link.ssl != NULL
                ? "it did not greet; is it rdzvd, and does it take this client? " IS_FOLLOWER
                : "it did not greet; is it a c10d store of torch 2.5 or later, or rdzvd? "
                  "Does it want TLS? " IS_FOLLOWER);
        return;
    }
    snprintf(why, sizeof why,
             "%s before it had answered; the store's log says why, often a limit or its end", how);
    client_lost(c, RDZV_LOST, RDZV_UNREACHABLE, why);
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
static bool has_more(const struct link *l)
{
    return l->ssl != NULL && tls_has_pending(l->ssl);
}

/* Greeting or up. */
static void receive(struct rdzv_client *c)
{
    struct link *l = &c->link;

    for (int i = 0; i < READS_MOST; i++) {
        size_t room;
        ssize_t n;

        if (!make_room(l)) {
            client_lost(c, RDZV_NO_MEMORY, RDZV_NO_MEMORY, "there is no memory for the answer");
            return;
        }
        room = l->in_cap - l->in_len;
        n = tls_or_recv(l->ssl, l->fd, l->in + l->in_len, room);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            give_back_room(l);
            return;
        }
        if (n < 0 && errno == EPROTO && l->state == LINK_GREETING) {
            no_tls(c); /* of TLS 1.3, a server judges a client's certificate behind the handshake */
            return;
        }
        if (n <= 0) {
            connection_ended(c, n == 0 ? "the store closed the connection" : strerror(errno));
            return;
        }
        l->in_len += (size_t)n;
        if (l->state == LINK_GREETING)
            take_hello(c);
        else if (l->in_len >= l->in_need)
            client_take_answers(c);
        if (l->state != LINK_GREETING && l->state != LINK_UP)
            return;
        if ((size_t)n < room && !has_more(l))
            break; /* that was all; epoll tells of more */
    }
    give_back_room(l);
    if (has_more(l))
        link_want_out(c, true); /* which wakes us */
}

void link_on_socket(struct rdzv_client *c, unsigned events)
{
    struct link *l = &c->link;

    if (l->state == LINK_CONNECTING) {
        connected(c);
        return;
    }
    if (l->state == LINK_SECURING) {
        go_on_securing(c);
        return;
    }
    if ((events & EPOLLOUT) != 0 && l->state == LINK_GREETING)
        send_hello(c);
    else if ((events & EPOLLOUT) != 0)
        client_send(c);
    if (l->fd >= 0 && ((events & ~(unsigned)EPOLLOUT) != 0 || has_more(l)))
        receive(c);
}
