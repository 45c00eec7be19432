/* rdzv-bench: puts load on one server and prints what each work took, as a line of name=value.
 *
 * The server's own CPU time, from the kernel's books, is what comparisons should use: unlike
 * requests per second it does not depend on how fast this program is. */
#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <getopt.h>
#include <malloc.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/bench/bench.h"

#define FILES_BESIDE  100u /* descriptors besides those of connections */
#define PROCESSES_MAX 64u
#define SLOW_MS       2000

struct bench bench;

static const char usage[] =
    "usage: rdzv-bench --connect 127.0.0.1:PORT [OPTION]... WORK...\n"
    "       rdzv-bench --version\n"
    "       rdzv-bench --sizes WORK              the bytes of a request and of its answer\n"
    "       rdzv-bench bare REQUEST-BYTES ANSWER-BYTES [ARRIVALS]   a server that only counts "
    "bytes\n"
    "  --connect ADDRESS  of a server on this machine\n"
    "  --clients N        ranks, or busy connections (64)\n"
    "  --relays N         simulated relays of rdzvd, each with the same part of the clients (0: "
    "none)\n"
    "  --agents N         agents for join, steady, again and rest; through relays, at most one in "
    "each (0)\n"
    "  --processes N      processes that share the clients (1)\n"
    "  --burst N          connections of a process that are being opened at a time (500)\n"
    "  --classic          the dialect of torch 1.9 to 2.0\n"
    "  --depth N          exchanges under way on each connection (1: lock step)\n"
    "  --rate N           open loop: so many single operations per second of all together\n"
    "  --scatter          at a rate, the clients of a relay act at different times\n"
    "  --keys N           different keys (one for each client)\n"
    "  --key-len N        bytes of a key (32)\n"
    "  --value-len N      bytes of a value (64)\n"
    "  --batch N          keys of multi-get and multi-set (64)\n"
    "  --warmup SECONDS   load before the figures of an operation begin (0.5)\n"
    "  --seconds SECONDS  length of a measurement (2)\n"
    "  --exchanges N      measure N exchanges instead\n"
    "  --idle N           connections that idle opens and leave closes (10000)\n"
    "  --server-pid PID   report this process's CPU time and memory\n"
    "  --core N           run on this core only\n"
    "  --no-prepare       do not set the keys first (for a bare server)\n"
    "works:";

/* What the processes share. */
struct shared {
    uint64_t woken_ns;
    struct result results[];
};

/* What a process has to do; it answers with a byte when it is done, or all its clients wait. */
struct order {
    enum order_kind { ORDER_OPEN, ORDER_RUN, ORDER_FINISH } kind;
    const struct work *work;
    unsigned phase;
    uint64_t ns, exchanges;
};

static struct {
    struct shared *shared;
    size_t shared_len;
    int orders[PROCESSES_MAX], answers[PROCESSES_MAX];
    unsigned phase;
} parent;

void *need(void *memory)
{
    if (memory == NULL)
        err(1, "memory");
    return memory;
}

static uint64_t read_clock(clockid_t id)
{
    struct timespec t;

    clock_gettime(id, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t clock_ns(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

/* --- Options. --- */

static double number(const char *name, const char *text, double min, double max)
{
    char *end;
    double v = strtod(text, &end);

    if (end == text || *end != '\0' || !(v >= min && v <= max))
        errx(2, "--%s %s: give a number from %g to %g", name, text, min, max);
    return v;
}

/* Nothing but loopback: this program is for one's own machine. */
static struct sockaddr_in loopback(const char *text)
{
    struct sockaddr_in to = {.sin_family = AF_INET};
    const char *colon = strrchr(text, ':');
    char host[INET_ADDRSTRLEN] = "";

    if (colon == NULL || (size_t)(colon - text) >= sizeof host)
        errx(2, "--connect %s: give 127.0.0.1:PORT", text);
    memcpy(host, text, (size_t)(colon - text));
    if (strcmp(host, "localhost") == 0)
        to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    else if (inet_pton(AF_INET, host, &to.sin_addr) != 1 ||
             ntohl(to.sin_addr.s_addr) >> 24 != IN_LOOPBACKNET)
        errx(2, "--connect %s: only an address in 127.0.0.0/8 is taken", text);
    to.sin_port = htons((uint16_t)number("connect", colon + 1, 1, 65535));
    return to;
}

/* The numbers among the options. */
static const struct {
    const char *name;
    double min, max;
    unsigned *to;
    size_t *to_size;
    double *to_real;
} numbers[] = {
    {"clients", 0, 1e6, &bench.options.clients, NULL, NULL},
    {"relays", 0, 60000, &bench.options.relays, NULL, NULL},
    {"agents", 0, 60000, &bench.options.agents, NULL, NULL},
    {"processes", 1, PROCESSES_MAX, &bench.options.processes, NULL, NULL},
    {"depth", 1, 1000, &bench.options.depth, NULL, NULL},
    {"keys", 1, 999999, &bench.options.keys, NULL, NULL},
    {"burst", 1, 1e6, &bench.options.burst, NULL, NULL},
    {"batch", 1, 131072, &bench.options.batch, NULL, NULL},
    {"idle", 1, 1e6, &bench.options.idle, NULL, NULL},
    {"key-len", 16, 4000, NULL, &bench.options.key_len, NULL},
    {"value-len", 0, 60000, NULL, &bench.options.value_len, NULL},
    {"rate", 1, 1e8, NULL, NULL, &bench.options.rate},
    {"warmup", 0, 600, NULL, NULL, &bench.options.warmup_s},
    {"seconds", 0, 3600, NULL, NULL, &bench.options.seconds},
};

static void take_number(const char *name, const char *text)
{
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        double v;

        if (strcmp(numbers[i].name, name) != 0)
            continue;
        v = number(name, text, numbers[i].min, numbers[i].max);
        if (numbers[i].to != NULL)
            *numbers[i].to = (unsigned)v;
        else if (numbers[i].to_size != NULL)
            *numbers[i].to_size = (size_t)v;
        else
            *numbers[i].to_real = v;
    }
}

static void take_option(int c, const char *name)
{
    struct options *o = &bench.options;

    switch (c) {
    case 'c':
        o->to = loopback(optarg);
        o->connect = optarg;
        break;
    case 'e':
        o->exchanges = (uint64_t)number(name, optarg, 1, 1e12);
        break;
    case 'p':
        o->server = (pid_t)number(name, optarg, 1, 1 << 22);
        if (kill(o->server, 0) < 0 && errno == ESRCH)
            err(2, "--server-pid %s", optarg);
        break;
    case 'o':
        o->core = (int)number(name, optarg, 0, CPU_SETSIZE - 1);
        break;
    case 'n':
        take_number(name, optarg);
        break;
    case 'v':
        printf("rdzv-bench %s\n", RDZV_VERSION);
        exit(0);
    case 'h':
        fputs(usage, stdout);
        work_list();
        exit(0);
    case '?':
        exit(2); /* getopt_long() has said why */
    default:     /* a flag: getopt_long() has set it */
        break;
    }
}

static void parse_options(int argc, char **argv)
{
    static int classic, scatter, no_prepare, sizes;
    struct option known[32] = {{"connect", required_argument, NULL, 'c'},
                               {"exchanges", required_argument, NULL, 'e'},
                               {"server-pid", required_argument, NULL, 'p'},
                               {"core", required_argument, NULL, 'o'},
                               {"help", no_argument, NULL, 'h'},
                               {"version", no_argument, NULL, 'v'},
                               {"classic", no_argument, &classic, 1},
                               {"scatter", no_argument, &scatter, 1},
                               {"no-prepare", no_argument, &no_prepare, 1},
                               {"sizes", no_argument, &sizes, 1}};
    int c, at = 0;

    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        known[10 + i] = (struct option){numbers[i].name, required_argument, NULL, 'n'};
    while ((c = getopt_long(argc, argv, "", known, &at)) != -1)
        take_option(c, known[at].name);
    bench.options.classic = classic;
    bench.options.scatter = scatter;
    bench.options.prepare = !no_prepare;
    bench.options.sizes = sizes;
    if (optind == argc || (bench.options.connect == NULL && !sizes))
        errx(2, "give --connect 127.0.0.1:PORT and a work; --help lists them");
    if (bench.options.clients == 0 && bench.options.agents == 0)
        errx(2, "--clients 0: give clients or agents");
    if (bench.options.relays > 0 && bench.options.agents > bench.options.relays)
        errx(2, "--agents %u: a relay has at most one agent, and there are %u relays",
             bench.options.agents, bench.options.relays);
    if (bench.options.keys == 0)
        bench.options.keys = bench.options.clients + (bench.options.clients == 0);
    bench.options.source = (unsigned)getpid();
}

static const struct work *work_named(const char *name)
{
    const struct work *w = work_find(name);

    if (w == NULL)
        errx(2, "%s: no work; --help lists them", name);
    if (w->flags & WORK_MODERN && bench.options.classic)
        errx(2, "%s: the classic dialect has no such requests", name);
    if (w->flags & WORK_AGENTS && bench.options.agents == 0)
        errx(2, "%s: needs --agents", name);
    if (w->flags & WORK_IDLES && bench.options.server == 0)
        errx(2, "%s: needs --server-pid", name);
    return w;
}

/* --- One of the processes. --- */

static unsigned part_of(unsigned count, unsigned process)
{
    return (unsigned)((uint64_t)count * process / bench.options.processes);
}

static void raise_files(unsigned files)
{
    struct rlimit limit;

    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
        err(1, "raising the limit of open files");
    if (limit.rlim_cur < files + FILES_BESIDE)
        errx(1, "%u connections need a limit of open files (ulimit -n) of %u; it is %llu", files,
             files + FILES_BESIDE, (unsigned long long)limit.rlim_cur);
}

static void give_wire(struct client *c, struct wire *w, uint32_t index)
{
    c->wire = w;
    c->index = index;
}

/* Each relay carries a part of the clients, and perhaps an agent. */
static void make_links(void)
{
    const struct options *o = &bench.options;
    unsigned first = part_of(o->relays, bench.process), agent = 0;

    for (unsigned i = 0; i < bench.wire_count; i++) {
        struct wire *w = &bench.wires[i];
        unsigned link = first + i;
        unsigned begin = (unsigned)((uint64_t)o->clients * link / o->relays);

        w->clients = &bench.clients[begin - bench.clients[0].index];
        w->count = (unsigned)((uint64_t)o->clients * (link + 1) / o->relays) - begin;
        for (unsigned k = 0; k < w->count; k++)
            give_wire(&w->clients[k], w, begin + k);
        if (link >= o->agents)
            continue;
        w->agent = &bench.agents[agent++];
        give_wire(w->agent, w, link);
    }
}

static void make_sockets(void)
{
    unsigned first = part_of(bench.options.clients, bench.process);

    for (unsigned i = 0; i < bench.client_count; i++)
        give_wire(&bench.clients[i], &bench.wires[i], first + i);
    first = part_of(bench.options.agents, bench.process);
    for (unsigned i = 0; i < bench.agent_count; i++)
        give_wire(&bench.agents[i], &bench.wires[bench.client_count + i], first + i);
    for (unsigned i = 0; i < bench.wire_count; i++) {
        bench.wires[i].count = 1;
        bench.wires[i].clients =
            i < bench.client_count ? &bench.clients[i] : &bench.agents[i - bench.client_count];
    }
}

static void make_clients(void)
{
    const struct options *o = &bench.options;
    unsigned p = bench.process, units = o->relays > 0 ? o->relays : o->clients;
    unsigned first = part_of(units, p), end = part_of(units, p + 1);
    uint64_t clients = o->clients;

    bench.client_count = end - first;
    bench.agent_count = part_of(o->agents, p + 1) - part_of(o->agents, p);
    bench.wire_count = bench.client_count + bench.agent_count;
    if (o->relays > 0) {
        bench.wire_count = end - first;
        bench.client_count = (unsigned)(clients * end / units - clients * first / units);
        bench.agent_count =
            (o->agents < end ? o->agents : end) - (o->agents < first ? o->agents : first);
    }
    raise_files(bench.wire_count * (o->classic ? 2 : 1));
    bench.wires = need(calloc(bench.wire_count + 1, sizeof *bench.wires));
    bench.clients = need(calloc(bench.client_count + 1, sizeof *bench.clients));
    bench.agents = need(calloc(bench.agent_count + 1, sizeof *bench.agents));
    bench.clients[0].index = o->relays > 0 ? (unsigned)(clients * first / units) : first;
    if (o->relays > 0)
        make_links();
    else
        make_sockets();
}

static void obey(const struct order *order)
{
    uint64_t own = read_clock(CLOCK_PROCESS_CPUTIME_ID);

    bench.work = order->work;
    bench.phase = order->phase;
    bench.exchanges_max = order->exchanges;
    if (order->kind == ORDER_OPEN)
        wires_open();
    else if (order->kind == ORDER_FINISH)
        drive_finish();
    else if (strcmp(order->work->name, "idle") == 0)
        idle_open();
    else if (strcmp(order->work->name, "leave") == 0)
        idle_close();
    else
        drive_run(order->ns);
    bench.result->own_ns += read_clock(CLOCK_PROCESS_CPUTIME_ID) - own;
}

/* Between two orders, agents go on, and relays stay alive. */
__attribute__((noreturn)) static void serve_orders(int orders, int answers)
{
    struct epoll_event on = {.events = EPOLLIN};
    struct pollfd ready = {.fd = orders, .events = POLLIN};
    struct order order;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    bench.epoll = epoll_create1(EPOLL_CLOEXEC);
    bench.result = &parent.shared->results[bench.process];
    bench.woken_ns = &parent.shared->woken_ns;
    if (bench.epoll < 0 || epoll_ctl(bench.epoll, EPOLL_CTL_ADD, orders, &on) < 0)
        err(1, "epoll");
    make_clients();
    for (;;) {
        while (poll(&ready, 1, 0) == 0)
            wires_turn(20000000);
        if (read(orders, &order, sizeof order) != sizeof order)
            exit(0);
        obey(&order);
        if (write(answers, "", 1) != 1)
            exit(1);
    }
}

static void start_processes(void)
{
    unsigned count = bench.options.processes;

    parent.shared_len = sizeof *parent.shared + count * sizeof(struct result);
    parent.shared =
        mmap(NULL, parent.shared_len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (parent.shared == MAP_FAILED)
        err(1, "mmap");
    for (unsigned i = 0; i < count; i++) {
        int down[2], up[2];
        pid_t pid;

        if (pipe(down) < 0 || pipe(up) < 0 || (pid = fork()) < 0)
            err(1, "starting a process");
        if (pid == 0) {
            bench.process = i;
            for (unsigned k = 0; k < i; k++) {
                close(parent.orders[k]);
                close(parent.answers[k]);
            }
            close(down[1]);
            close(up[0]);
            serve_orders(down[0], up[1]);
        }
        close(down[0]);
        close(up[1]);
        parent.orders[i] = down[1];
        parent.answers[i] = up[0];
    }
}

static void await_processes(enum order_kind kind)
{
    bool waits = kind == ORDER_OPEN;
    char byte;

    for (unsigned i = 0; i < bench.options.processes; i++) {
        struct pollfd answer = {.fd = parent.answers[i], .events = POLLIN};
        int status;

        if (waits && poll(&answer, 1, SLOW_MS) == 0) {
            warnx("%s has not accepted all clients after %d s; waiting", bench.options.connect,
                  SLOW_MS / 1000);
            waits = false;
        }
        if (read(parent.answers[i], &byte, 1) == 1)
            continue;
        if (wait(&status) > 0 && WIFEXITED(status))
            exit(WEXITSTATUS(status)); /* it has said why */
        errx(1, "a process was ended");
    }
}

static void give_order(const struct order *order)
{
    for (unsigned i = 0; i < bench.options.processes; i++) {
        if (write(parent.orders[i], order, sizeof *order) != sizeof *order)
            break; /* it has ended, and await_processes() finds it */
    }
}

/* --- Phases. --- */

struct figures {
    double seconds;
    struct proc_time server;
    struct result sum;
    unsigned files;
    long memory;
};

static void wake(const struct work *w)
{
    struct c10d_request req = {.op = C10D_SET, .value = slice_str("1")};
    int fd = connect_blocking(&bench.options, 0);
    char key[64], text[512];
    struct writer out = {.ptr = (uint8_t *)text, .cap = sizeof text};

    bench.phase = parent.phase;
    work_awaited_key(key);
    req.key = slice_str(key);
    if (w->flags & WORK_HTTP) {
        out.len = (size_t)snprintf(text, sizeof text,
                                   "PUT /v2/keys%s?value=1 HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                                   "Content-Length: 0\r\n\r\n",
                                   key);
    } else {
        if (!bench.options.classic)
            c10d_write_hello(&out, 0);
        c10d_write_request(&out, &req);
        if (bench.options.classic)
            out.ptr[0] = 0;
    }
    parent.shared->woken_ns = clock_ns();
    if (write(fd, text, out.len) != (ssize_t)out.len)
        err(1, "waking");
}

/* The kernel books a thread's time when it leaves the CPU. The run is over and the server about to
 * sleep: a moment later its books are complete. */
static struct proc_time server_time(void)
{
    const struct timespec moment = {.tv_nsec = 5000000};

    if (bench.options.server == 0)
        return (struct proc_time){0};
    nanosleep(&moment, NULL);
    return proc_time(bench.options.server);
}

static void await_parked(void)
{
    const struct timespec moment = {.tv_nsec = 500000000};

    if (bench.options.server != 0)
        proc_await_rest(bench.options.server);
    else
        nanosleep(&moment, NULL);
}

static void sum_results(struct result *sum)
{
    memset(sum, 0, sizeof *sum);
    for (unsigned i = 0; i < bench.options.processes; i++) {
        const struct result *r = &parent.shared->results[i];

        sum->exchanges += r->exchanges;
        sum->up += r->up;
        sum->down += r->down;
        sum->own_ns += r->own_ns;
        hist_merge(&sum->latency, &r->latency);
    }
}

static void run_phase(const struct order *given, struct figures *f)
{
    struct order order = *given;
    struct proc_time before, after;
    uint64_t began;

    order.phase = ++parent.phase;
    memset(parent.shared, 0, parent.shared_len);
    before = server_time();
    began = clock_ns();
    give_order(&order);
    await_processes(order.kind);
    if (order.work->flags & WORK_PARKS && order.kind == ORDER_RUN) {
        await_parked();
        before = server_time();
        order.kind = ORDER_FINISH;
        wake(order.work);
        began = clock_ns();
        give_order(&order);
        await_processes(order.kind);
    }
    f->seconds = (double)(clock_ns() - began) / 1e9;
    after = server_time();
    f->server.run_ns = after.run_ns - before.run_ns;
    f->server.wait_ns = after.wait_ns - before.wait_ns;
    sum_results(&f->sum);
}

static void print_server(const struct figures *f, double requests)
{
    pid_t pid = bench.options.server;

    if (pid == 0)
        return;
    printf(" server_cpu=%.3f cpu_us=%.4f server_busy=%.3f server_waited=%.3f server_threads=%u"
           " rss_mib=%.1f most_mib=%.1f",
           (double)f->server.run_ns / 1e9,
           (double)f->server.run_ns / 1e3 / (requests > 0 ? requests : 1),
           (double)f->server.run_ns / 1e9 / f->seconds,
           (double)f->server.wait_ns / 1e9 / f->seconds, proc_threads(pid),
           (double)proc_size(pid, "status", "VmRSS") / 1048576,
           (double)proc_size(pid, "status", "VmHWM") / 1048576);
}

static void print_figures(const char *name, const struct figures *f, double requests)
{
    const struct options *o = &bench.options;
    const struct hist *h = &f->sum.latency;

    printf("work=%s clients=%u relays=%u agents=%u depth=%u requests=%.0f seconds=%.3f rps=%.0f",
           name, o->clients, o->relays, o->agents, o->depth, requests, f->seconds,
           requests / f->seconds);
    printf(" p50_us=%.1f p90_us=%.1f p99_us=%.1f p999_us=%.1f max_us=%.1f up=%llu down=%llu"
           " load_cpu=%.3f load_busy=%.3f",
           (double)hist_percentile(h, 0.5) / 1e3, (double)hist_percentile(h, 0.9) / 1e3,
           (double)hist_percentile(h, 0.99) / 1e3, (double)hist_percentile(h, 0.999) / 1e3,
           (double)h->max_ns / 1e3, (unsigned long long)f->sum.up, (unsigned long long)f->sum.down,
           (double)f->sum.own_ns / 1e9, (double)f->sum.own_ns / 1e9 / f->seconds);
    print_server(f, requests);
}

/* Memory for idle connections, and the wait until the server has seen them leave. */
static void measure_idle(const struct work *w, struct figures *f)
{
    static unsigned files;
    pid_t pid = bench.options.server;
    bool opens = strcmp(w->name, "idle") == 0;
    const struct timespec pause = {.tv_nsec = 10000000};
    long memory;

    files = opens ? proc_files(pid) : files;
    memory = opens ? proc_settled_memory(pid) : 0;
    run_phase(&(struct order){.kind = ORDER_RUN, .work = w}, f);
    for (int tries = 0; !opens && proc_files(pid) > files; tries++) {
        if (tries == 2000)
            errx(1, "the server still has %u files open, before the idle connections it had %u",
                 proc_files(pid), files);
        nanosleep(&pause, NULL);
    }
    print_figures(w->name, f, bench.options.idle);
    if (opens)
        printf(" bytes_per_idle=%.1f",
               (double)(proc_settled_memory(pid) - memory) / bench.options.idle);
}

static void measure(const struct work *w, struct figures *f)
{
    const struct options *o = &bench.options;
    struct order order = {.kind = ORDER_RUN, .work = w, .exchanges = UINT64_MAX};
    double each;

    if (w->flags & WORK_IDLES) {
        measure_idle(w, f);
        return;
    }
    if (w->flags & WORK_REPEATS && o->prepare && o->clients > 0) {
        order.work = w->before != NULL ? work_find(w->before) : w;
        order.ns = UINT64_MAX / 2;
        order.exchanges = o->clients;
        run_phase(&order, f);
        order.work = w;
        order.exchanges = UINT64_MAX;
    }
    if (w->flags & WORK_REPEATS && o->warmup_s > 0) {
        order.ns = (uint64_t)(o->warmup_s * 1e9);
        run_phase(&order, f);
    }
    order.ns = (uint64_t)((o->exchanges > 0 ? 3600 : o->seconds) * 1e9);
    if (o->exchanges > 0)
        order.exchanges = (o->exchanges + o->processes - 1) / o->processes;
    run_phase(&order, f);
    each = w->requests == WORK_EACH_OTHER ? 3.0 * o->clients : w->requests;
    print_figures(w->name, f, (double)f->sum.exchanges * each);
}

static void print_sizes(const struct work *w)
{
    static struct wire wire;
    static struct client client = {.wire = &wire};
    static uint8_t bytes[128u << 10];

    wire.out = (struct writer){.ptr = bytes, .cap = sizeof bytes};
    bench.work = w;
    w->next(&client, (struct slice){0});
    printf("request=%zu answer=%zu\n", wire.out.len, work_answer_size(w));
}

static void run_on(int core)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET((size_t)core, &set);
    if (sched_setaffinity(0, sizeof set, &set) < 0)
        err(2, "--core %d", core);
}

int main(int argc, char **argv)
{
    struct options defaults = {.clients = 64,
                               .processes = 1,
                               .depth = 1,
                               .batch = 64,
                               .burst = 500,
                               .idle = 10000,
                               .key_len = 32,
                               .value_len = 64,
                               .warmup_s = 0.5,
                               .seconds = 2,
                               .core = -1};
    struct figures *f = need(calloc(1, sizeof *f));

    if ((argc == 4 || argc == 5) && strcmp(argv[1], "bare") == 0)
        bare_serve(strtoul(argv[2], NULL, 10), strtoul(argv[3], NULL, 10),
                   argc == 5 ? strtoul(argv[4], NULL, 10) : 0);
    mallopt(M_MMAP_THRESHOLD, 1 << 30); /* an answer of 139 KB would get fresh pages each time */
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    bench.options = defaults;
    parse_options(argc, argv);
    if (bench.options.sizes) {
        print_sizes(work_named(argv[optind]));
        return 0;
    }
    if (bench.options.core >= 0)
        run_on(bench.options.core);
    for (int i = optind; i < argc; i++)
        work_named(argv[i]);
    signal(SIGPIPE, SIG_IGN);
    start_processes();
    run_phase(&(struct order){.kind = ORDER_OPEN, .work = work_named(argv[optind])}, f);
    print_figures("connect", f, (double)f->sum.exchanges);
    printf("\n");
    fflush(stdout);
    for (int i = optind; i < argc; i++) {
        measure(work_named(argv[i]), f);
        printf("\n");
        if (fflush(stdout) != 0)
            err(1, "writing the figures");
    }
    return 0;
}
