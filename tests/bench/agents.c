/* bench_agents: N of torch's agents, as the model of the simulation has them (tests/sim), each on a
 * connection of its own to a real daemon, in one process.
 *
 *     bench_agents PORT AGENTS STEADY_SECONDS
 *
 * They meet (MIN = MAX = N), stay for a while, and meet again after the workers of one have failed.
 * What it prints are words and numbers, for agents.py: how long both took, and the bytes of c10d in
 * both directions of each phase. */
#include "tests/sim/model_agent.h"

#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <malloc.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "proto/c10d_client.h"

#define EVENTS_MAX 256
#define LIMIT_MS   300000 /* no phase takes longer */
#define ADDR_TAIL  "-worker-0.training.team-a.svc.cluster.local"

enum awaited { AWAITS_NOTHING, AWAITS_PING, AWAITS_WAIT, AWAITS_BLOB, AWAITS_ROLES };

struct peer {
    struct model_agent agent;
    int fd;
    enum awaited awaited;
    bool looks; /* WAIT, then GET of `key` */
    char key[160];
    uint8_t *in;
    size_t in_len, in_cap;
    uint8_t *out; /* NULL: all has gone */
    size_t out_len, sent;
};

static struct {
    struct peer *peers;
    size_t count;
    int epoll;
    char run_key[64];
    uint64_t up, down;
} bench;

static uint64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static int64_t wall_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* --- Requests. --- */

static void flush(struct peer *p)
{
    ssize_t n = send(p->fd, p->out + p->sent, p->out_len - p->sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    struct epoll_event on = {.events = EPOLLIN, .data.ptr = p};

    if (n < 0 && errno != EAGAIN && errno != EINTR)
        err(1, "send");
    p->sent += n < 0 ? 0 : (size_t)n;
    if (p->sent < p->out_len) {
        on.events |= EPOLLOUT;
    } else {
        free(p->out);
        p->out = NULL;
    }
    if (epoll_ctl(bench.epoll, EPOLL_CTL_MOD, p->fd, &on) < 0)
        err(1, "epoll_ctl");
}

/* Behind what is still to be sent. Takes `bytes`, from malloc(). */
static void send_request(struct peer *p, uint8_t *bytes, size_t len)
{
    bench.up += len;
    if (p->out != NULL) {
        uint8_t *both = malloc(p->out_len - p->sent + len);

        if (both == NULL)
            err(1, "malloc");
        memcpy(both, p->out + p->sent, p->out_len - p->sent);
        memcpy(both + p->out_len - p->sent, bytes, len);
        len += p->out_len - p->sent;
        free(p->out);
        free(bytes);
        bytes = both;
    }
    p->out = bytes;
    p->out_len = len;
    p->sent = 0;
    flush(p);
}

static void ask(struct peer *p, const struct c10d_request *req)
{
    struct writer w = {0};
    uint8_t *out;

    c10d_write_request(&w, req);
    out = malloc(w.len);
    if (out == NULL)
        err(1, "malloc");
    w = (struct writer){.ptr = out, .cap = w.len};
    c10d_write_request(&w, req);
    send_request(p, out, w.len);
}

static void look(struct peer *p)
{
    uint8_t item[8 + sizeof p->key];
    struct writer w = {.ptr = item, .cap = sizeof item};
    struct c10d_request req = {.op = C10D_WAIT, .count = 1};

    c10d_write_blob(&w, slice_str(p->key));
    req.items = (struct slice){item, w.len};
    ask(p, &req);
    p->awaited = AWAITS_WAIT;
}

static void compare_set(struct peer *p)
{
    const struct model_agent *a = &p->agent;
    struct c10d_request req = {
        .op = C10D_COMPARE_SET, .key = slice_str(p->key), .value = {a->text, a->text_len}};

    if (a->phase != MODEL_INTRODUCING)
        req.expected = (struct slice){a->token, a->token_len};
    ask(p, &req);
    p->awaited = AWAITS_BLOB;
}

static void answer(struct peer *p, struct slice value)
{
    model_agent_answer(&p->agent, value, now_ms(), wall_us());
    if (p->agent.phase == MODEL_FAILED)
        errx(1, "%s: %s", p->agent.name, p->agent.failure);
}

static void set_round_key(struct peer *p)
{
    const struct c10d_request req = {
        .op = C10D_SET, .key = slice_str(p->key), .value = {p->agent.text, p->agent.text_len}};

    ask(p, &req);
    answer(p, slice_str(""));
}

/* Agent 0 reads the roles of all, and sets the ranks of all workers. */
static void round_key_of(const struct peer *p, const char *name, size_t rank, char *out,
                         size_t size)
{
    snprintf(out, size, "%s.%lld/torchelastic/%s/%zu", bench.run_key, (long long)p->agent.round,
             name, rank);
}

static void gather_roles(struct peer *p)
{
    size_t count = p->agent.world_size, size = count * (8 + sizeof p->key);
    struct writer w = {.ptr = malloc(size), .cap = size};
    struct c10d_request req = {.op = C10D_WAIT, .count = count};
    char key[sizeof p->key];

    if (w.ptr == NULL)
        err(1, "malloc");
    for (size_t i = 0; i < count; i++) {
        round_key_of(p, "role_info", i, key, sizeof key);
        c10d_write_blob(&w, slice_str(key));
    }
    req.items = (struct slice){w.ptr, w.len};
    ask(p, &req);
    free(w.ptr);
    p->awaited = AWAITS_ROLES;
}

static void set_ranks(struct peer *p)
{
    char key[sizeof p->key];

    for (size_t i = 0; i < p->agent.world_size; i++) {
        round_key_of(p, "assigned_ranks", i, key, sizeof key);
        ask(p, &(struct c10d_request){
                   .op = C10D_SET, .key = slice_str(key), .value = slice_str("[0, 1, 0, 1]")});
    }
    answer(p, slice_str(""));
}

/* Lets it go on until it waits for an answer or for time. */
static void act(struct peer *p)
{
    struct model_agent *a = &p->agent;

    while (p->awaited == AWAITS_NOTHING) {
        model_agent_act(a, now_ms(), wall_us());
        if (a->request == REQUEST_NONE)
            return;
        if (a->request == REQUEST_SET || a->request == REQUEST_READ)
            snprintf(p->key, sizeof p->key, "%s.%lld/%s", bench.run_key, (long long)a->round,
                     a->name_of_key);
        else
            snprintf(p->key, sizeof p->key, "%s", bench.run_key);
        if (a->request == REQUEST_SET)
            set_round_key(p);
        else if (a->request == REQUEST_GATHER)
            gather_roles(p);
        else if (a->request == REQUEST_RANK)
            set_ranks(p);
        else if (a->request == REQUEST_COMPARE_SET)
            compare_set(p);
        else
            look(p);
    }
}

/* --- Answers. --- */

/* How many of the bytes that are here are the answer; 0: it is not whole. */
static size_t answer_size(const struct peer *p)
{
    static const enum c10d_op ops[] = {[AWAITS_PING] = C10D_PING,
                                       [AWAITS_WAIT] = C10D_WAIT,
                                       [AWAITS_BLOB] = C10D_GET,
                                       [AWAITS_ROLES] = C10D_WAIT};
    static const struct c10d_reply_limits limits = {.value_max = 64u << 20};
    struct c10d_progress progress = {0};
    struct c10d_reply reply;
    size_t size;

    if (p->awaited == AWAITS_NOTHING)
        errx(1, "%s: an answer that was not asked for", p->agent.name);
    switch (c10d_parse_reply((struct slice){p->in, p->in_len}, ops[p->awaited], 0, &limits,
                             &progress, &reply, &size)) {
    case PARSE_DONE:
        return size;
    case PARSE_MORE:
        return 0;
    default:
        errx(1, "%s: no answer of c10d", p->agent.name);
    }
}

static void take(struct peer *p, size_t size)
{
    const struct c10d_request get = {.op = C10D_GET, .key = slice_str(p->key)};
    enum awaited was = p->awaited;

    p->awaited = AWAITS_NOTHING;
    if (was == AWAITS_WAIT) {
        ask(p, &get);
        p->awaited = AWAITS_BLOB;
    } else if (was == AWAITS_ROLES) {
        answer(p, slice_str(""));
    } else if (was == AWAITS_BLOB) {
        answer(p, (struct slice){p->in + 8, size - 8});
    }
    memmove(p->in, p->in + size, p->in_len - size);
    p->in_len -= size;
}

static void on_readable(struct peer *p)
{
    ssize_t n;
    size_t size;

    if (p->in_cap - p->in_len < 4096) {
        p->in_cap = p->in_cap * 2 + 8192;
        p->in = realloc(p->in, p->in_cap);
        if (p->in == NULL)
            err(1, "realloc");
    }
    n = recv(p->fd, p->in + p->in_len, p->in_cap - p->in_len, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0)
        errx(1, "%s: its connection has ended", p->agent.name);
    bench.down += (uint64_t)n;
    p->in_len += (size_t)n;
    while (p->in_len > 0 && (size = answer_size(p)) != 0)
        take(p, size);
    act(p);
}

static void on_event(struct peer *p, uint32_t events)
{
    if ((events & EPOLLOUT) != 0 && p->out != NULL)
        flush(p);
    if ((events & ~(uint32_t)EPOLLOUT) != 0)
        on_readable(p);
}

/* --- Phases. --- */

static bool all_train(int64_t round)
{
    for (size_t i = 0; i < bench.count; i++) {
        const struct model_agent *a = &bench.peers[i].agent;

        if (a->phase != MODEL_TRAINING || a->round < round)
            return false;
    }
    return true;
}

__attribute__((noreturn)) static void give_up(void)
{
    for (size_t i = 0; i < bench.count; i++) {
        const struct peer *p = &bench.peers[i];

        if (p->agent.phase != MODEL_TRAINING)
            warnx("%s: phase %d, awaits %d, %zu bytes are here, %zu are to be sent", p->agent.name,
                  p->agent.phase, p->awaited, p->in_len, p->out == NULL ? 0 : p->out_len - p->sent);
    }
    errx(1, "not all train after %d s", LIMIT_MS / 1000);
}

/* Until all of them train in that round; -1: for that time. */
static void run(int64_t round, uint64_t ms)
{
    uint64_t start = now_ms(), next = 0;
    struct epoll_event events[EVENTS_MAX];

    while (round >= 0 ? !all_train(round) : now_ms() - start < ms) {
        int n = epoll_wait(bench.epoll, events, EVENTS_MAX, 10);

        for (int i = 0; i < n; i++)
            on_event(events[i].data.ptr, events[i].events);
        if (now_ms() - start > LIMIT_MS)
            give_up();
        if (now_ms() < next)
            continue;
        for (size_t i = 0; i < bench.count; i++)
            act(&bench.peers[i]);
        next = now_ms() + 20;
    }
}

static void report(const char *phase, uint64_t start_ms, uint64_t up, uint64_t down)
{
    struct rusage used;

    getrusage(RUSAGE_SELF, &used);
    printf("%s %.3f %llu %llu %.3f\n", phase, (double)(now_ms() - start_ms) / 1000,
           (unsigned long long)(bench.up - up), (unsigned long long)(bench.down - down),
           (double)used.ru_utime.tv_sec + (double)used.ru_stime.tv_sec +
               (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6);
    fflush(stdout);
}

static void measure(const char *phase, int64_t round, uint64_t ms)
{
    uint64_t start = now_ms(), up = bench.up, down = bench.down;

    run(round, ms);
    report(phase, start, up, down);
}

/* --- Beginning. --- */

static void start_peer(struct peer *p, size_t i, uint16_t port, const struct model_settings *how)
{
    struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct epoll_event on = {.events = EPOLLIN, .data.ptr = p};
    int one = 1;
    char name[sizeof p->agent.name];
    uint8_t *hello = malloc(C10D_HELLO_LEN);
    struct writer w = {.ptr = hello, .cap = C10D_HELLO_LEN};

    snprintf(name, sizeof name, "node-%05u" ADDR_TAIL, (unsigned)i);
    model_agent_start(&p->agent, how, name, 100, 0, now_ms());
    p->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (p->fd < 0 || connect(p->fd, (struct sockaddr *)&at, sizeof at) < 0 ||
        setsockopt(p->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) < 0 ||
        epoll_ctl(bench.epoll, EPOLL_CTL_ADD, p->fd, &on) < 0)
        err(1, "connect");
    if (hello == NULL)
        err(1, "malloc");
    c10d_write_hello(&w, (uint32_t)i);
    send_request(p, hello, w.len);
    p->awaited = AWAITS_PING;
}

int main(int argc, char **argv)
{
    struct model_settings how = {
        .last_call_ms = 30000, .monitor_ms = 1000, .max_restarts = 100, .sharing = SHARING_ONCE};
    uint64_t steady_ms;

    if (argc != 4)
        errx(2, "usage: bench_agents PORT AGENTS STEADY_SECONDS");
    /* Each agent keeps a value, and each is longer than the one before: in one heap, malloc() would
     * take 40 % of the time of a join. */
    mallopt(M_MMAP_THRESHOLD, 1 << 16);
    bench.count = strtoul(argv[2], NULL, 10);
    steady_ms = strtoul(argv[3], NULL, 10) * 1000;
    how.min_nodes = how.max_nodes = bench.count;
    bench.peers = calloc(bench.count, sizeof *bench.peers);
    bench.epoll = epoll_create1(EPOLL_CLOEXEC);
    if (bench.peers == NULL || bench.epoll < 0)
        err(1, "start");
    snprintf(bench.run_key, sizeof bench.run_key, "/torch.rendezvous.job-%zu", bench.count);
    for (size_t i = 0; i < bench.count; i++)
        start_peer(&bench.peers[i], i, (uint16_t)strtoul(argv[1], NULL, 10), &how);
    measure("join", 0, 0);
    run(-1, 6000); /* the first heartbeat of each has gone */
    measure("steady", -1, steady_ms);
    bench.peers[0].agent.workers_failed = true;
    bench.peers[0].agent.next_ms = now_ms();
    measure("again", bench.peers[0].agent.round + 1, 0);
    return 0;
}
