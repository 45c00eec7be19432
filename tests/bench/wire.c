/* The wires of a process: one epoll, sockets of single clients, and links of simulated relays. See
 * bench.h. */
#include "tests/bench/bench.h"

#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "rdzv/relay/relay.h"

#define EVENTS_MAX 256
#define READ_MAX   (256u << 10)
/* A larger buffer is freed when it is empty. */
#define KEPT_MAX (16u << 10)
/* Connections from one address. The kernel has 28,000 ports, and looks long for the second half. */
#define PORTS_OF_ADDRESS 8000u
/* A relay sends PING when it has heard nothing for so long. */
#define PING_NS 5000000000u

#define QUEUED_MAX (64u << 20) /* of a link, on this side */

#define IDLE_BATCH 1000u /* connections that are opened before their answers are read */

static struct out_pool pool; /* of relays */

static void wire_grow(struct writer *w, size_t len)
{
    size_t cap = w->cap < 256 ? 256 : w->cap;

    while (cap < len)
        cap *= 2;
    w->ptr = need(realloc(w->ptr, cap));
    w->cap = cap;
}

/* --- Sending. --- */

static void wire_watch(struct wire *w, int op, uint32_t events)
{
    struct epoll_event on = {.events = events, .data.ptr = w};

    if (epoll_ctl(bench.epoll, op, w->fd, &on) < 0)
        err(1, "epoll_ctl");
}

static bool wire_is_empty(const struct wire *w)
{
    return w->relay != NULL ? w->queue.bytes == 0 : w->sent == w->out.len;
}

static void wire_emptied(struct wire *w)
{
    w->out.len = w->sent = 0;
    if (w->out.cap > KEPT_MAX) {
        free(w->out.ptr);
        w->out.ptr = NULL;
        w->out.cap = 0;
    }
    if (w->blocked)
        wire_watch(w, EPOLL_CTL_MOD, EPOLLIN);
    w->blocked = false;
}

/* Links whose polls wait for others, see RELAY_POLL_HOLD_NS. */
static TAILQ_HEAD(, wire) held = TAILQ_HEAD_INITIALIZER(held);

/* The end of a relay's iteration: what its sessions have to say goes out. */
static void relay_flush(struct wire *w)
{
    struct relay *r = w->relay;

    r->now_ns = bench.now_ns = clock_ns();
    relay_send(r, &w->queue, QUEUED_MAX);
    if (w->due_ns != 0 || TAILQ_EMPTY(&r->sending))
        return;
    w->due_ns = r->due_ns;
    TAILQ_INSERT_TAIL(&held, w, holds);
}

static void flush_due(void)
{
    struct wire *w;

    while ((w = TAILQ_FIRST(&held)) != NULL && w->due_ns <= bench.now_ns) {
        TAILQ_REMOVE(&held, w, holds);
        w->due_ns = 0;
        wire_flush(w);
    }
}

/* As send(). */
static ssize_t send_some(struct wire *w)
{
    size_t had = w->queue.bytes;
    int result;

    if (w->relay == NULL)
        return send(w->fd, w->out.ptr + w->sent, w->out.len - w->sent, MSG_NOSIGNAL);
    result = outq_send(&w->queue, &pool, w->fd, had);
    errno = -result;
    return had > w->queue.bytes ? (ssize_t)(had - w->queue.bytes) : -1;
}

void wire_flush(struct wire *w)
{
    if (w->relay != NULL && w->state == WIRE_UP && !TAILQ_EMPTY(&w->relay->sending))
        relay_flush(w);
    if (w->state == WIRE_CONNECTS || wire_is_empty(w))
        return;
    while (!wire_is_empty(w)) {
        ssize_t n = send_some(w);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno != EAGAIN)
            err(1, "send");
        if (n < 0) {
            if (!w->blocked)
                wire_watch(w, EPOLL_CTL_MOD, EPOLLIN | EPOLLOUT);
            w->blocked = true;
            return;
        }
        w->sent += w->relay == NULL ? (size_t)n : 0;
        bench.result->up += (uint64_t)n;
    }
    wire_emptied(w);
}

static void put_frame(struct wire *w, const struct relay_frame *frame)
{
    uint8_t head[RELAY_HEAD_SIZE];

    relay_put_head(head, frame);
    outq_put(&w->queue, &pool, head, sizeof head);
    outq_put(&w->queue, &pool, frame->payload.ptr, frame->payload.len);
}

/* The opcodes of the classic dialect, and one more. */
static uint8_t classic_opcode(enum c10d_op op)
{
    static const uint8_t opcodes[C10D_OP_COUNT] = {
        [C10D_SET] = 1,   [C10D_COMPARE_SET] = 2, [C10D_GET] = 3,        [C10D_ADD] = 4,
        [C10D_CHECK] = 5, [C10D_WAIT] = 6,        [C10D_GETNUMKEYS] = 7, [C10D_DELETE_KEY] = 9};

    if (opcodes[op] == 0)
        errx(1, "the classic dialect has no %s", c10d_op_name(op));
    return (uint8_t)(opcodes[op] - 1);
}

/* As rdzvd's relay takes a request from its client. */
/* False: its relay holds the request, until it says on_go_on(). */
static bool offer_relay(struct client *c, struct slice bytes)
{
    const enum c10d_version version = bench.options.classic ? C10D_LEGACY : C10D_MODERN;
    struct c10d_progress progress = {0};
    struct c10d_refusal refusal;
    struct c10d_request req;
    enum relay_taken taken;
    size_t size;

    if (c10d_parse(bytes, version, &c->wire->relay->limits, &progress, &req, &size, &refusal) !=
        PARSE_DONE)
        errx(1, "a relay refuses the request: %s", refusal.reason);
    c->wire->relay->now_ns = clock_ns();
    taken = relay_take(c->session, &req, bytes.ptr, size);
    while (taken == RELAY_TAKING)
        taken = relay_take_more(c->session, bytes.ptr, &size);
    if (taken == RELAY_NO_MEMORY)
        errx(1, "no memory");
    return taken == RELAY_TAKEN;
}

static void give_relay(struct client *c, struct slice bytes)
{
    const enum c10d_version version = bench.options.classic ? C10D_LEGACY : C10D_MODERN;
    struct peer peer = {.port = (uint16_t)(30000 + c->index % 30000)}, local = {.port = 29500};

    if (c->session == NULL) {
        c->session = need(relay_client_new(c->wire->relay, version, &peer, &local, c));
        c->session->pings = !bench.options.classic;
    }
    if (!offer_relay(c, bytes))
        c->held = (struct slice){memcpy(need(malloc(bytes.len)), bytes.ptr, bytes.len), bytes.len};
}

void ask_written(struct client *c, enum c10d_op op, unsigned count, struct slice bytes)
{
    c->op = (uint8_t)op;
    c->asked = count;
    if (bench.options.relays > 0)
        give_relay(c, bytes);
    else
        writer_slice(&c->wire->out, bytes);
}

void ask(struct client *c, const struct c10d_request *req)
{
    static struct writer bytes = {.grow = wire_grow};

    bytes.len = 0;
    c10d_write_request(&bytes, req);
    if (bench.options.classic)
        bytes.ptr[0] = classic_opcode(req->op);
    ask_written(c, req->op, (unsigned)req->count, (struct slice){bytes.ptr, bytes.len});
}

void ask_bytes(struct client *c, const void *bytes, size_t len)
{
    writer_put(&c->wire->out, bytes, len);
}

/* --- Receiving. --- */

/* The wire is ready for requests. */
static void wire_up(struct wire *w)
{
    w->state = WIRE_UP;
    bench.pending--;
    bench.result->exchanges++;
    hist_add(&bench.result->latency, clock_ns() - bench.began_ns);
}

/* The bytes that the client's own answers take; the rest is an incomplete one. */
static size_t take_answers(struct wire *w, const uint8_t *in, size_t len)
{
    struct client *c = w->clients;
    size_t at = 0, size;

    if (w->state == WIRE_HELLO) {
        if (len < PONG_LEN)
            return 0;
        if (bytes_get_u32(in) != c->index)
            errx(1, "PING was not answered with its nonce");
        wire_up(w);
        at = PONG_LEN;
    }
    while (at < len && (size = work_answer_end(c, in + at, len - at)) != 0) {
        client_answered(c, (struct slice){in + at, size});
        at += size;
    }
    return at;
}

/* Clients with a whole answer. They act on it when the relay has handled the frame. */
static struct client **answered;
static unsigned answered_count, answered_room;

static void add_part(struct client *c, struct slice bytes)
{
    if (c->part_cap < c->part_len + bytes.len) {
        c->part_cap = c->part_len + bytes.len + 64;
        c->part = need(realloc(c->part, c->part_cap));
    }
    if (bytes.len > 0)
        memcpy(c->part + c->part_len, bytes.ptr, bytes.len);
    c->part_len += bytes.len;
}

/* The last part. */
static void on_answer(void *client, struct slice bytes)
{
    struct client *c = client;

    add_part(c, bytes);
    if (work_answer_end(c, c->part, c->part_len) != c->part_len)
        return;
    if (answered_count == answered_room) {
        answered_room = answered_room * 2 + 16;
        answered = need(realloc(answered, answered_room * sizeof(struct client *)));
    }
    answered[answered_count++] = c;
}

static void on_answer_queue(void *client, struct outq *q)
{
    static uint8_t room[READ_MAX];

    while (q->bytes > 0) {
        struct slice bytes = outq_front(q, room, q->bytes < sizeof room ? q->bytes : sizeof room);

        add_part(client, bytes);
        outq_sent(q, &pool, bytes.len);
    }
}

static void on_go_on(void *client)
{
    struct client *c = client;

    if (c->held.ptr == NULL || !offer_relay(c, c->held))
        return;
    free((void *)(uintptr_t)c->held.ptr);
    c->held = (struct slice){0};
}

static void on_end(void *, enum drop_reason, const char *reason)
{
    errx(1, "a relay has ended a session: %s", reason);
}

static const struct relay_calls calls = {
    .answer = on_answer, .answer_queue = on_answer_queue, .go_on = on_go_on, .end = on_end};

static void act_on_answers(void)
{
    for (unsigned i = 0; i < answered_count; i++) {
        struct client *c = answered[i];
        size_t len = c->part_len;

        c->part_len = 0;
        client_answered(c, (struct slice){c->part, len});
        if (c->part_cap > KEPT_MAX && c->part_len == 0) {
            free(c->part);
            c->part = NULL;
            c->part_cap = 0;
        }
    }
    answered_count = 0;
}

static void take_frame(struct wire *w, const struct relay_frame *frame)
{
    Rdzv__RelayWelcome *welcome;
    const char *wrong = NULL;

    w->relay->now_ns = bench.now_ns;
    if (frame->kind == RELAY_REFUSED)
        wrong = "the store refuses a relay";
    else if (frame->kind == RELAY_WELCOME) {
        welcome = need(rdzv__relay_welcome__unpack(NULL, frame->payload.len, frame->payload.ptr));
        relay_link_up(w->relay, welcome);
        rdzv__relay_welcome__free_unpacked(welcome, NULL);
        wire_up(w);
    } else if (frame->kind != RELAY_PONG) {
        wrong = relay_receive(w->relay, frame);
    }
    if (wrong != NULL)
        errx(1, "%s", wrong);
    act_on_answers();
}

static size_t take_frames(struct wire *w, const uint8_t *in, size_t len)
{
    size_t at = 0, size;

    while (at < len) {
        struct relay_frame frame;

        switch (relay_parse((struct slice){in + at, len - at}, &frame, &size)) {
        case PARSE_DONE:
            take_frame(w, &frame);
            at += size;
            break;
        case PARSE_MORE:
            return at;
        default:
            errx(1, "no frame of a store");
        }
    }
    return at;
}

static void keep_rest(struct wire *w, const uint8_t *rest, size_t len)
{
    if (len > 0) {
        w->in = need(realloc(w->in, len));
        memcpy(w->in, rest, len);
    } else if (w->in != NULL) {
        free(w->in);
        w->in = NULL;
    }
    w->in_len = len;
}

static void wire_receive(struct wire *w)
{
    static uint8_t *in;
    static size_t cap;
    ssize_t n;
    size_t used;

    if (cap < w->in_len + READ_MAX) {
        cap = w->in_len * 2 + READ_MAX;
        free(in);
        in = need(malloc(cap));
    }
    n = recv(w->fd, in + w->in_len, cap - w->in_len, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n < 0)
        err(1, "recv");
    if (n == 0)
        errx(1, "%s has closed a connection; the log of the server may say why",
             bench.options.connect);
    if (w->in_len > 0)
        memcpy(in, w->in, w->in_len);
    bench.result->down += (uint64_t)n;
    w->heard_ns = bench.now_ns = clock_ns();
    used = (bench.options.relays > 0 ? take_frames : take_answers)(w, in, w->in_len + (size_t)n);
    keep_rest(w, in + used, w->in_len + (size_t)n - used);
}

/* --- Opening. --- */

static void relay_make(struct wire *w)
{
    static const struct c10d_limits limits = {.value_max = 64u << 20, .request_max = 256u << 20};
    uint64_t seed = (uint64_t)bench.options.source << 32 | bench.process << 20 | (unsigned)w->fd;

    w->relay = need(malloc(sizeof *w->relay));
    relay_init(w->relay, &calls, &pool, &limits, seed * UINT64_C(0xbf58476d1ce4e5b9));
    outq_init(&w->queue);
}

static void relay_hello(struct wire *w)
{
    Rdzv__RelayHello hello = RDZV__RELAY_HELLO__INIT;
    char name[32], release[] = "bench", space[] = "default";
    uint8_t bytes[160];

    snprintf(name, sizeof name, "node-%05u", bench.process << 16 | (unsigned)(w - bench.wires));
    hello.version_min = RELAY_VERSION_MIN;
    hello.version_max = RELAY_VERSION_MAX;
    hello.space = space;
    hello.name = name;
    hello.release = release;
    hello.shares = true;
    outq_put(&w->queue, &pool, RELAY_MAGIC, RELAY_MAGIC_SIZE);
    put_frame(w, &(struct relay_frame){.kind = RELAY_HELLO,
                                       .payload = {bytes, rdzv__relay_hello__pack(&hello, bytes)}});
}

static void wire_connected(struct wire *w)
{
    w->state = WIRE_HELLO;
    w->heard_ns = bench.now_ns;
    if (bench.options.relays > 0) {
        relay_make(w);
        relay_hello(w);
    } else if ((bench.work->flags & (WORK_HTTP | WORK_GRPC | WORK_TEXT)) == 0 &&
               !bench.options.classic) {
        c10d_write_hello(&w->out, w->clients->index);
    } else {
        wire_up(w);
        if (bench.work->flags & WORK_GRPC)
            etcd3_hello(w);
    }
    wire_flush(w);
}

static int new_socket(const struct options *o, unsigned i, int flags)
{
    struct sockaddr_in from = {.sin_family = AF_INET,
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK + i / PORTS_OF_ADDRESS)};
    const int one = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);

    if (fd < 0)
        err(1, "socket");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof one);
    if (o->to.sin_addr.s_addr == htonl(INADDR_LOOPBACK) && i >= PORTS_OF_ADDRESS &&
        bind(fd, (struct sockaddr *)&from, sizeof from) < 0)
        err(1, "bind");
    return fd;
}

static bool connect_now(int fd)
{
    return connect(fd, (const struct sockaddr *)&bench.options.to, sizeof bench.options.to) == 0;
}

static void wire_connect(struct wire *w, unsigned i)
{
    bool connected;

    w->fd = new_socket(&bench.options, i, SOCK_NONBLOCK);
    w->out.grow = wire_grow;
    connected = connect_now(w->fd);
    if (!connected && errno != EINPROGRESS)
        err(1, "%s", bench.options.connect);
    wire_watch(w, EPOLL_CTL_ADD, connected ? EPOLLIN : EPOLLIN | EPOLLOUT);
    w->blocked = !connected;
    if (connected)
        wire_connected(w);
    if (bench.options.classic && !connect_now(new_socket(&bench.options, i, SOCK_NONBLOCK)) &&
        errno != EINPROGRESS)
        err(1, "%s", bench.options.connect); /* the second connection, which stays silent */
}

void wires_open(void)
{
    unsigned first = bench.process * ((bench.wire_count + 1) & ~1u);

    out_pool_init(&pool);
    bench.pending = bench.wire_count;
    bench.now_ns = bench.began_ns = clock_ns();
    for (unsigned i = 0; i < bench.wire_count; i++) {
        while (i - (bench.wire_count - bench.pending) >= bench.options.burst)
            wires_turn(1000000000);
        wire_connect(&bench.wires[i], first + i);
        if (i % 64 == 63)
            wires_turn(0);
    }
    while (bench.pending > 0)
        wires_turn(1000000000);
}

/* --- Events. --- */

static void wire_event(struct wire *w, uint32_t events)
{
    int error = 0;
    socklen_t len = sizeof error;

    if (w->state == WIRE_CONNECTS) {
        getsockopt(w->fd, SOL_SOCKET, SO_ERROR, &error, &len);
        if (error != 0)
            errx(1, "%s: %s", bench.options.connect, strerror(error));
        wire_connected(w);
        if (w->blocked && wire_is_empty(w))
            wire_emptied(w);
        return;
    }
    if (events & EPOLLOUT)
        wire_flush(w);
    if (events & ~(uint32_t)EPOLLOUT)
        wire_receive(w);
    wire_flush(w);
}

/* Relays whose store is silent ask whether it lives; and a run without any answer ends. */
static void look_alive(void)
{
    static uint64_t next_ns, alive_ns;

    if (bench.now_ns < next_ns)
        return;
    next_ns = bench.now_ns + 1000000000;
    if (bench.pending == 0 || alive_ns == 0 || bench.result->down == 0)
        alive_ns = bench.now_ns;
    for (unsigned i = 0; i < bench.wire_count; i++) {
        struct wire *w = &bench.wires[i];

        alive_ns = w->heard_ns > alive_ns ? w->heard_ns : alive_ns;
        if (bench.options.relays == 0 || w->state != WIRE_UP ||
            bench.now_ns - w->heard_ns < PING_NS)
            continue;
        put_frame(w, &(struct relay_frame){.kind = RELAY_PING, .number = 1});
        wire_flush(w);
    }
    if (bench.pending > 0 && bench.now_ns - alive_ns > STALL_S * UINT64_C(1000000000))
        errx(1, "no answer for %d s, and %u clients wait", STALL_S, bench.pending);
}

void wires_turn(uint64_t ns)
{
    struct epoll_event events[EVENTS_MAX];
    struct timespec wait;
    int n;

    bench.now_ns = clock_ns();
    if (!TAILQ_EMPTY(&held)) {
        uint64_t due_ns = TAILQ_FIRST(&held)->due_ns;
        uint64_t left = due_ns > bench.now_ns ? due_ns - bench.now_ns : 0;

        ns = left < ns ? left : ns;
    }
    wait =
        (struct timespec){.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};
    n = epoll_pwait2(bench.epoll, events, EVENTS_MAX, &wait, NULL);

    if (n < 0 && errno != EINTR)
        err(1, "epoll_wait");
    bench.now_ns = clock_ns();
    for (int i = 0; i < n; i++) {
        if (events[i].data.ptr != NULL)
            wire_event(events[i].data.ptr, events[i].events);
    }
    flush_due();
    look_alive();
    agents_act();
}

/* --- Connections that say hello and nothing else. --- */

static struct {
    int *fds;
    unsigned count;
} idle;

int connect_blocking(const struct options *o, unsigned i)
{
    const struct timeval patience = {.tv_sec = STALL_S};
    int fd = new_socket(o, i, 0);

    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (connect(fd, (const struct sockaddr *)&o->to, sizeof o->to) < 0)
        err(1, "%s", o->connect);
    return fd;
}

static void idle_hello(int fd, uint32_t nonce)
{
    uint8_t hello[HELLO_LEN];
    struct writer w = {.ptr = hello, .cap = sizeof hello};

    c10d_write_hello(&w, nonce);
    if (write(fd, hello, sizeof hello) != sizeof hello)
        err(1, "write of VALIDATE and PING");
}

void idle_open(void)
{
    unsigned count = bench.options.idle / bench.options.processes;
    uint8_t pong[PONG_LEN];

    idle.fds = need(calloc(count, sizeof *idle.fds));
    for (idle.count = 0; idle.count < count;) {
        unsigned first = idle.count, end = first + IDLE_BATCH < count ? first + IDLE_BATCH : count;

        for (; idle.count < end; idle.count++) {
            idle.fds[idle.count] =
                connect_blocking(&bench.options, bench.process * count + idle.count);
            idle_hello(idle.fds[idle.count], idle.count);
        }
        for (unsigned i = first; i < end; i++) {
            if (recv(idle.fds[i], pong, sizeof pong, MSG_WAITALL) != sizeof pong)
                err(1, "PING was not answered");
        }
    }
}

void idle_close(void)
{
    while (idle.count > 0)
        close(idle.fds[--idle.count]);
    free(idle.fds);
}
