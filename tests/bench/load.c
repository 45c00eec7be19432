/* bench_load: puts load on one server and prints what it took, as one line of name=value.
 *
 * The server's own CPU time per request, from the kernel's books, is what comparisons should use:
 * unlike requests per second it does not depend on how fast this program is. */
#include "tests/bench/drive.h"
#include "tests/bench/proc.h"

#include <arpa/inet.h>
#include <err.h>
#include <getopt.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define FILES_BESIDE 100 /* descriptors besides those of connections */

struct options {
    struct sockaddr_in to;
    struct work work;
    unsigned connections;
    unsigned depth;
    unsigned idle;
    double warmup_s;
    double seconds;
    uint64_t exchanges;
    pid_t server;
    int core;
    bool prepare;
    bool sizes;
};

static const char usage[] =
    "usage: bench_load --connect 127.0.0.1:PORT --mode MODE [OPTION]...\n"
    "  --mode MODE        add, get, set-get (c10d); etcd-get, etcd-put (etcd v2 over HTTP)\n"
    "  --connections N    busy connections (64)\n"
    "  --depth N          exchanges under way on each (1: lock step)\n"
    "  --keys N           different keys (and at most: one per connection)\n"
    "  --key-len N        bytes of a key (32)\n"
    "  --value-len N      bytes of a value (64)\n"
    "  --warmup SECONDS   load before the figures begin (0.5)\n"
    "  --seconds SECONDS  length of a measurement (2)\n"
    "  --exchanges N      measure N exchanges instead\n"
    "  --server-pid PID   report this process's CPU time per request\n"
    "  --core N           run on this core only\n"
    "  --no-prepare       do not set the keys first (for bench_bare)\n"
    "  --idle N           measure with no, N and again no idle c10d connections beside the busy\n"
    "                     ones, and the server's memory for them; needs --server-pid\n"
    "  --sizes            print the bytes of a request and of its answer, and end\n";

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
    if (inet_pton(AF_INET, host, &to.sin_addr) != 1 ||
        ntohl(to.sin_addr.s_addr) >> 24 != IN_LOOPBACKNET)
        errx(2, "--connect %s: only an address in 127.0.0.0/8 is taken", text);
    to.sin_port = htons((uint16_t)number("connect", colon + 1, 1, 65535));
    return to;
}

static void parse_options(int argc, char **argv, struct options *o)
{
    static const struct option known[] = {{"connect", required_argument, NULL, 'a'},
                                          {"mode", required_argument, NULL, 'm'},
                                          {"connections", required_argument, NULL, 'c'},
                                          {"depth", required_argument, NULL, 'd'},
                                          {"keys", required_argument, NULL, 'k'},
                                          {"key-len", required_argument, NULL, 'l'},
                                          {"value-len", required_argument, NULL, 'v'},
                                          {"warmup", required_argument, NULL, 'w'},
                                          {"seconds", required_argument, NULL, 's'},
                                          {"exchanges", required_argument, NULL, 'n'},
                                          {"server-pid", required_argument, NULL, 'p'},
                                          {"core", required_argument, NULL, 'o'},
                                          {"no-prepare", no_argument, NULL, 'r'},
                                          {"idle", required_argument, NULL, 'i'},
                                          {"sizes", no_argument, NULL, 'z'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    bool mode = false;
    int c, at = 0;

    while ((c = getopt_long(argc, argv, "", known, &at)) != -1) {
        const char *name = c == '?' ? "" : known[at].name;

        switch (c) {
        case 'a':
            o->to = loopback(optarg);
            break;
        case 'm':
            mode = work_find(optarg, &o->work.kind);
            break;
        case 'c':
            o->connections = (unsigned)number(name, optarg, 1, 50000);
            break;
        case 'd':
            o->depth = (unsigned)number(name, optarg, 1, 1000);
            break;
        case 'k':
            o->work.keys = (unsigned)number(name, optarg, 1, 999999);
            break;
        case 'l':
            o->work.key_len = (size_t)number(name, optarg, WORK_KEY_MIN, 4000);
            break;
        case 'v':
            o->work.value_len = (size_t)number(name, optarg, 0, 60000);
            break;
        case 'w':
            o->warmup_s = number(name, optarg, 0, 600);
            break;
        case 's':
            o->seconds = number(name, optarg, 0, 600);
            break;
        case 'n':
            o->exchanges = (uint64_t)number(name, optarg, 1, 1e12);
            break;
        case 'p':
            o->server = (pid_t)number(name, optarg, 1, 1 << 22);
            break;
        case 'o':
            o->core = (int)number(name, optarg, 0, CPU_SETSIZE - 1);
            break;
        case 'r':
            o->prepare = false;
            break;
        case 'i':
            o->idle = (unsigned)number(name, optarg, 1, 1e6);
            break;
        case 'z':
            o->sizes = true;
            break;
        case 'h':
            fputs(usage, stdout);
            exit(0);
        default:
            fputs(usage, stderr);
            exit(2);
        }
    }
    if (!mode || optind != argc || (o->to.sin_port == 0 && !o->sizes) ||
        (o->idle > 0 && (o->server == 0 || !work_is_c10d(o->work.kind)))) {
        fputs(usage, stderr);
        exit(2);
    }
    if (o->work.keys == 0)
        o->work.keys = o->connections;
    /* A count ends the run by itself; the time then only bounds it. */
    if (o->exchanges == 0)
        o->exchanges = UINT64_MAX;
    else
        o->seconds = 600;
}

static void run_on(int core)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET((size_t)core, &set);
    if (sched_setaffinity(0, sizeof set, &set) < 0)
        err(1, "--core %d", core);
}

static void raise_nofile(unsigned connections)
{
    struct rlimit files;

    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &files) < 0)
        err(1, "raising the limit of open files");
    if (files.rlim_cur < connections + FILES_BESIDE)
        errx(1, "%u connections need a limit of open files (ulimit -n) of %u; it is %llu",
             connections, connections + FILES_BESIDE, (unsigned long long)files.rlim_cur);
}

struct figures {
    struct drive_result run;
    struct proc_time server; /* what the run took of the server */
    uint64_t own_ns;         /* and of this program */
};

static uint64_t own_cpu_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* The kernel books a thread's time when it leaves the CPU. The run is over and the server about to
 * sleep: a moment later its books are complete. */
static struct proc_time server_time(pid_t server)
{
    const struct timespec moment = {.tv_nsec = 5000000};

    if (server == 0)
        return (struct proc_time){0};
    nanosleep(&moment, NULL);
    return proc_time(server);
}

static void measure(struct drive *d, const struct options *o, struct figures *f)
{
    struct proc_time before = server_time(o->server), after;
    uint64_t own = own_cpu_ns();

    drive_run(d, (uint64_t)(o->seconds * 1e9), o->exchanges, &f->run);
    f->own_ns = own_cpu_ns() - own;
    after = server_time(o->server);
    f->server.run_ns = after.run_ns - before.run_ns;
    f->server.wait_ns = after.wait_ns - before.wait_ns;
}

static double us(uint64_t ns)
{
    return (double)ns / 1e3;
}

/* Names end in `suffix`, so that one line can hold several measurements. */
static void print_figures(const struct options *o, const struct figures *f, const char *suffix)
{
    const struct hist *h = &f->run.latency;
    double requests = (double)f->run.exchanges * work_requests(o->work.kind);

    printf(" requests%s=%.0f seconds%s=%.3f rps%s=%.0f", suffix, requests, suffix,
           (double)f->run.ns / 1e9, suffix, requests / ((double)f->run.ns / 1e9));
    printf(" p50_us%s=%.1f p90_us%s=%.1f p99_us%s=%.1f p999_us%s=%.1f max_us%s=%.1f", suffix,
           us(hist_percentile(h, 0.5)), suffix, us(hist_percentile(h, 0.9)), suffix,
           us(hist_percentile(h, 0.99)), suffix, us(hist_percentile(h, 0.999)), suffix,
           us(h->max_ns));
    printf(" load_busy%s=%.3f", suffix, (double)f->own_ns / (double)f->run.ns);
    if (o->server != 0)
        printf(" cpu_us%s=%.4f server_busy%s=%.3f server_waited%s=%.3f", suffix,
               us(f->server.run_ns) / requests, suffix,
               (double)f->server.run_ns / (double)f->run.ns, suffix,
               (double)f->server.wait_ns / (double)f->run.ns);
}

/* Waits until the server, too, has seen its idle connections leave. */
static void await_files(pid_t server, unsigned count)
{
    const struct timespec pause = {.tv_nsec = 10000000};

    for (int tries = 0; proc_files(server) > count; tries++) {
        if (tries == 2000)
            errx(1, "the server still has %u files open, before the idle connections it had %u",
                 proc_files(server), count);
        nanosleep(&pause, NULL);
    }
}

static void measure_idle(struct drive *d, const struct options *o)
{
    struct figures *f = calloc(3, sizeof *f);
    int *fds = calloc(o->idle, sizeof *fds);
    unsigned files = proc_files(o->server);
    uint64_t opened_ns;
    long before, after;

    if (f == NULL || fds == NULL)
        err(1, "memory");
    measure(d, o, &f[0]);
    before = proc_settled_memory(o->server);
    opened_ns = drive_now_ns();
    drive_open_idle(&o->to, o->idle, fds);
    opened_ns = drive_now_ns() - opened_ns;
    after = proc_settled_memory(o->server);
    measure(d, o, &f[1]);
    for (unsigned i = 0; i < o->idle; i++)
        close(fds[i]);
    await_files(o->server, files);
    measure(d, o, &f[2]);

    print_figures(o, &f[0], "_none");
    print_figures(o, &f[1], "_idle");
    print_figures(o, &f[2], "_after");
    printf(" idle=%u opened_seconds=%.2f memory_before=%ld memory_after=%ld bytes_per_idle=%.1f",
           o->idle, (double)opened_ns / 1e9, before, after,
           (double)(after - before) / (double)o->idle);
    free(f);
    free(fds);
}

static void measure_busy(struct drive *d, const struct options *o)
{
    struct figures *f = calloc(1, sizeof *f);

    if (f == NULL)
        err(1, "memory");
    measure(d, o, f);
    print_figures(o, f, "");
    if (o->server != 0)
        printf(" server_threads=%u", proc_threads(o->server));
    free(f);
}

/* Every key once, through connections that go again. */
static void prepare(const struct options *o, struct drive_result *result)
{
    unsigned count = o->work.keys < o->connections ? o->work.keys : o->connections;
    struct work before = o->work;
    struct drive *d;

    before.kind = work_before(o->work.kind);
    d = drive_new(&o->to, &before, count, 1);
    drive_run(d, UINT64_MAX, count, result);
    drive_free(d);
}

int main(int argc, char **argv)
{
    struct options o = {.work = {.key_len = 32, .value_len = 64},
                        .connections = 64,
                        .depth = 1,
                        .warmup_s = 0.5,
                        .seconds = 2,
                        .core = -1,
                        .prepare = true};
    struct drive_result *result = malloc(sizeof *result);
    struct drive *d;

    if (result == NULL)
        err(1, "memory");
    parse_options(argc, argv, &o);
    if (o.sizes) {
        size_t len;

        free(work_make(&o.work, 0, &len));
        printf("request=%zu answer=%zu\n", len, work_answer_size(&o.work));
        free(result);
        return 0;
    }
    raise_nofile(o.connections + o.idle);
    if (o.core >= 0)
        run_on(o.core);
    if (o.prepare)
        prepare(&o, result);
    d = drive_new(&o.to, &o.work, o.connections, o.depth);
    drive_run(d, (uint64_t)(o.warmup_s * 1e9), UINT64_MAX, result);
    printf("mode=%s connections=%u depth=%u", work_name(o.work.kind), o.connections, o.depth);
    if (o.idle > 0)
        measure_idle(d, &o);
    else
        measure_busy(d, &o);
    printf("\n");
    drive_free(d);
    free(result);
    return 0;
}
