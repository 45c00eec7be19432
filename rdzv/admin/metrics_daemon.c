/* How metrics are written, and the metrics that each daemon has in every role. See metrics.h. */
#include "rdzv/admin/metrics.h"

#include <dirent.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rdzv/engine/log.h"
#include "rdzv/http/session.h"
#include "rdzv/net/listen.h"
#include "rdzv/net/refusal.h"

#define DESCRIPTORS "/proc/self/fd"

/* --- Lines. --- */

void metric_label(FILE *out, struct slice value)
{
    for (size_t i = 0; i < value.len; i++) {
        uint8_t byte = value.ptr[i];

        if (byte == '\n')
            fputs("\\n", out);
        else if (byte == '"' || byte == '\\')
            fprintf(out, "\\%c", byte);
        else
            putc(byte, out);
    }
}

void metric_durations(FILE *out, const char *name, const char *labels, const struct durations *d,
                      uint64_t first_ns)
{
    const char *comma = *labels == '\0' ? "" : ",", *open = *labels == '\0' ? "" : "{",
               *close = *labels == '\0' ? "" : "}";
    uint64_t count = 0;

    for (int i = 0; i < DURATIONS_BOUNDS; i++) {
        count += d->counts[i];
        fprintf(out, "%s_bucket{%s%sle=\"%.9g\"} %" PRIu64 "\n", name, labels, comma,
                (double)(first_ns << i) / 1e9, count);
    }
    count += d->counts[DURATIONS_BOUNDS];
    fprintf(out, "%s_bucket{%s%sle=\"+Inf\"} %" PRIu64 "\n", name, labels, comma, count);
    fprintf(out, "%s_sum%s%s%s %.9f\n", name, open, labels, close, (double)d->sum_ns / 1e9);
    fprintf(out, "%s_count%s%s%s %" PRIu64 "\n", name, open, labels, close, count);
}

/* --- Connections, memory, iterations. --- */

static void write_dropped(FILE *out, const struct stats *stats)
{
    static const char *const reasons[DROP_REASONS] = {
        [DROP_MALFORMED] = "malformed",
        [DROP_LIMIT] = "limit",
        [DROP_STALLED] = "stalled",
        [DROP_SPACE_FULL] = "space_full",
        [DROP_READ_ONLY] = "read_only",
        [DROP_NO_MEMORY] = "no_memory",
        [DROP_RUN] = "run",
        [DROP_UPSTREAM] = "upstream",
    };

    metric_head(out, "rdzvd_connections_dropped_total", "counter",
                "Connections that rdzvd ended before their time, by reason.");
    for (int i = 0; i < DROP_REASONS; i++)
        fprintf(out, "rdzvd_connections_dropped_total{reason=\"%s\"} %" PRIu64 "\n", reasons[i],
                stats->dropped[i]);
}

static void write_refused(FILE *out, const struct stats *stats)
{
    metric_head(out, "rdzvd_refused_total", "counter",
                "Refused connections and requests, by reason.");
    for (int i = 0; i < REFUSAL_REASONS; i++)
        fprintf(out, "rdzvd_refused_total{reason=\"%s\"} %" PRIu64 "\n",
                refusal_name((enum refusal_reason)i), stats->refused[i]);
}

static void write_connections(FILE *out, const struct net *n)
{
    const struct stats *stats = &n->engine->stats;

    metric_gauge(out, "rdzvd_connections",
                 "Open connections, including those of clients behind relays.", n->conn_count);
    metric_gauge(out, "rdzvd_connections_limit", "Limit of open connections; 0: no limit.",
                 n->limits->connections_max);
    metric_counter(out, "rdzvd_connections_accepted_total",
                   "Accepted connections, including those of clients behind relays.",
                   stats->accepted);
    metric_counter(out, "rdzvd_connections_closed_total", "Connections that have ended.",
                   stats->closed);
    write_dropped(out, stats);
    write_refused(out, stats);
}

static void write_memory_account(FILE *out, const struct net *n)
{
    metric_head(out, "rdzvd_memory_bytes", "gauge", "Memory that rdzvd holds, by purpose.");
    for (int i = 0; i < ACCOUNT_KINDS; i++)
        fprintf(out, "rdzvd_memory_bytes{kind=\"%s\"} %zu\n",
                account_kind_name((enum account_kind)i), account.bytes[i]);
    metric_gauge(out, "rdzvd_memory_limit_bytes", "Limit of rdzvd's memory; 0: no limit.",
                 account.limit == SIZE_MAX ? 0 : account.limit);
    metric_gauge(out, "rdzvd_memory_removed_bytes",
                 "Estimated memory of removed keys that rdzvd has yet to free.",
                 n->engine->store.lazy_free.bytes);
    metric_counter(
        out, "rdzvd_memory_refused_total",
        "Refused allocations, because of the limit or because the machine had no memory.",
        account.refused);
}

static void write_iterations(FILE *out, const struct stats *stats)
{
    static const char name[] = "rdzvd_loop_iteration_seconds";
    uint64_t count = 0;

    metric_head(out, name, "histogram", "How long iterations took, without waiting for events.");
    for (int i = 0; i < ITERATION_BOUNDS; i++) {
        count += stats->iterations[i];
        fprintf(out, "%s_bucket{le=\"%g\"} %" PRIu64 "\n", name, (double)latency_bounds_ns[i] / 1e9,
                count);
    }
    count += stats->iterations[ITERATION_BOUNDS];
    fprintf(out, "%s_bucket{le=\"+Inf\"} %" PRIu64 "\n%s_sum %.9f\n%s_count %" PRIu64 "\n", name,
            count, name, (double)stats->iterations_ns / 1e9, name, count);
    metric_seconds(out, "rdzvd_loop_iteration_longest_seconds", "gauge",
                   "The longest one since the start.", 9, stats->longest_iteration_ns);
}

/* --- TLS. --- */

static void write_tls(FILE *out, const struct handshakes *all)
{
    static const char name[] = "rdzvd_tls_handshakes_total";

    metric_head(out, name, "counter", "Completed TLS handshakes of clients.");
    fprintf(out, "%s{resumed=\"false\"} %" PRIu64 "\n%s{resumed=\"true\"} %" PRIu64 "\n", name,
            all->done - all->resumed, name, all->resumed);
    metric_counter(out, "rdzvd_tls_handshakes_failed_total",
                   "TLS handshakes of clients that failed or took too long, and certificates that "
                   "were refused.",
                   all->failed);
    metric_gauge(out, "rdzvd_tls_handshakes_open", "Handshakes that are under way.", all->count);
    metric_gauge(out, "rdzvd_tls_certificate_expiry_timestamp_seconds",
                 "End of the certificate of --cert, in seconds since 1970; 0: no certificate.",
                 all->certificate.expires_s);
}

/* --- Requests. --- */

static void write_http_requests(FILE *out, const char *name, const struct stats *stats,
                                const struct http_route *routes)
{
    uint64_t rest = stats->http_requests;

    for (size_t i = 0; routes[i].path != NULL; i++) {
        for (int method = 0; method < HTTP_METHODS; method++) {
            uint64_t count = stats->http_operations[i][method];
            const char *path = routes[i].path;

            rest -= count;
            if (count != 0)
                fprintf(out, "%s{protocol=\"http\",operation=\"%s %s\"} %" PRIu64 "\n", name,
                        http_method_name((enum http_method)method), *path == '\0' ? "*" : path,
                        count);
        }
    }
    fprintf(out, "%s{protocol=\"http\",operation=\"other\"} %" PRIu64 "\n", name, rest);
}

static void write_requests(FILE *out, const struct stats *stats, const struct http_route *routes)
{
    static const char name[] = "rdzvd_requests_total", durations[] = "rdzvd_request_seconds",
                      replies[] = "rdzvd_http_responses_total";

    metric_head(out, name, "counter", "Requests that were carried out.");
    for (int op = C10D_VALIDATE + 1; op < C10D_OP_COUNT; op++)
        fprintf(out, "%s{protocol=\"c10d\",operation=\"%s\"} %" PRIu64 "\n", name,
                c10d_op_name((enum c10d_op)op), stats->c10d_requests[op]);
    write_http_requests(out, name, stats, routes);
    metric_head(
        out, durations, "histogram",
        "Upper bound of the time that requests took, without waiting, from a sample each second.");
    metric_durations(out, durations, "protocol=\"c10d\"", &stats->c10d_durations, REQUEST_FIRST_NS);
    metric_durations(out, durations, "protocol=\"http\"", &stats->http_durations, REQUEST_FIRST_NS);
    metric_head(out, replies, "counter", "Responses over HTTP, by their status.");
    for (int status = 0; status < STATS_STATUSES; status++) {
        if (status == 200 || stats->http_replies[status] != 0)
            fprintf(out, "%s{code=\"%d\"} %" PRIu64 "\n", replies, status,
                    stats->http_replies[status]);
    }
}

/* --- Listeners. Those of worker stores come and go: they are one. --- */

#define LISTENERS_LISTED 100

struct queues {
    struct {
        char address[LISTEN_ADDRESS_MAX];
        struct listen_queue queue;
    } listed[LISTENERS_LISTED];
    size_t count;
    struct listen_queue others;
    bool any_other;
};

static void read_queues(const struct net *n, struct queues *out)
{
    const struct listener *l;
    struct listen_queue queue;

    *out = (struct queues){.others = {.overflows = n->overflows_ended}};
    out->any_other = n->overflows_ended != 0;
    TAILQ_FOREACH(l, &n->listeners, entry) {
        if (!listen_queue(l, &queue))
            continue;
        if (!l->temporary && out->count < LISTENERS_LISTED) {
            listen_address(l, out->listed[out->count].address);
            out->listed[out->count++].queue = queue;
            continue;
        }
        out->any_other = true;
        out->others.overflows += queue.overflows;
        out->others.length += queue.length;
    }
}

static void write_queue(FILE *out, const char *name, const char *help, const struct queues *q,
                        bool overflows)
{
    metric_head(out, name, overflows ? "counter" : "gauge", help);
    for (size_t i = 0; i < q->count; i++)
        fprintf(out, "%s{listener=\"%s\"} %" PRIu64 "\n", name, q->listed[i].address,
                overflows ? q->listed[i].queue.overflows : q->listed[i].queue.length);
    if (q->any_other)
        fprintf(out, "%s{listener=\"\"} %" PRIu64 "\n", name,
                overflows ? q->others.overflows : q->others.length);
}

static void write_listen_queues(FILE *out, const struct net *n)
{
    struct queues queues;

    read_queues(n, &queues);
    write_queue(out, "rdzvd_listen_overflows_total",
                "Clients that the kernel turned away since the queue of the listener was full.",
                &queues, true);
    write_queue(out, "rdzvd_listen_queue_connections",
                "Clients in the queue, which rdzvd has not accepted yet.", &queues, false);
}

/* --- All. --- */

void metrics_write_daemon(FILE *out, const struct http_request *r, const char *role, bool is_ready)
{
    const struct net *n = conn_net(r->conn);
    const struct stats *stats = &n->engine->stats;

    metric_head(out, "rdzvd_build_info", "gauge",
                "Version and role of this rdzvd; the value is 1.");
    fprintf(out, "rdzvd_build_info{version=\"%s\",role=\"%s\"} 1\n", RDZV_VERSION, role);
    metric_gauge(out, "rdzvd_ready", "1 while /readyz says so.", is_ready);
    write_connections(out, n);
    write_listen_queues(out, n);
    write_tls(out, &n->handshakes);
    write_requests(out, stats, r->http->routes);
    metric_counter(out, "rdzvd_loop_iterations_total", "Iterations of the event loop.",
                   stats->loop_iterations);
    write_iterations(out, stats);
    metric_counter(out, "rdzvd_log_lines_dropped_total",
                   "Log lines dropped because stderr was too slow.", log_dropped());
    metric_counter(out, "rdzvd_log_lines_suppressed_total",
                   "Lines held back so as not to flood the log.", log_suppressed());
    write_memory_account(out, n);
}

/* --- The process. --- */

/* Counts the entries of the directory of descriptors, without the descriptor that reads it. */
static bool list_descriptors(uint64_t *count)
{
    DIR *dir = opendir(DESCRIPTORS);
    const struct dirent *entry;

    if (dir == NULL)
        return false;
    *count = 0;
    while ((entry = readdir(dir)) != NULL)
        *count += entry->d_name[0] != '.';
    --*count;
    closedir(dir);
    return true;
}

/* How many descriptors are open. Linux counts them from 6.2 on: they are the size of the directory.
 * Older kernels list each descriptor, which takes milliseconds if there are many: once a second. */
static bool count_descriptors(uint64_t now_ms, uint64_t *count)
{
    static uint64_t listed, listed_ms;
    struct stat dir;

    if (stat(DESCRIPTORS, &dir) == 0 && dir.st_size > 0) {
        *count = (uint64_t)dir.st_size;
        return true;
    }
    if (listed_ms == 0 || clock_elapsed_ms(listed_ms, now_ms) >= 1000) {
        if (!list_descriptors(&listed))
            return false;
        listed_ms = now_ms;
    }
    *count = listed;
    return true;
}

static void write_memory(FILE *out)
{
    FILE *statm = fopen("/proc/self/statm", "re");
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), size, resident;

    if (statm == NULL)
        return;
    if (fscanf(statm, "%" SCNu64 " %" SCNu64, &size, &resident) == 2) {
        metric_gauge(out, "process_resident_memory_bytes", "Resident memory size in bytes.",
                     resident * page);
        metric_gauge(out, "process_virtual_memory_bytes", "Virtual memory size in bytes.",
                     size * page);
    }
    fclose(statm);
}

void metrics_write_process(FILE *out, const struct engine *e)
{
    struct rusage usage;
    struct rlimit limit;
    uint64_t open;

    if (getrusage(RUSAGE_SELF, &usage) == 0) {
        metric_head(out, "process_cpu_seconds_total", "counter",
                    "User and system CPU time in seconds.");
        fprintf(out, "process_cpu_seconds_total %.6f\n",
                (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                    (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6);
    }
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
        metric_gauge(out, "process_max_fds", "Maximum number of open file descriptors.",
                     (uint64_t)limit.rlim_cur);
    if (count_descriptors(engine_now_ms(e), &open))
        metric_gauge(out, "process_open_fds", "Number of open file descriptors.", open);
    write_memory(out);
    metric_seconds(out, "process_start_time_seconds", "gauge", "Start time since 1970 in seconds.",
                   3, (uint64_t)e->started_ns);
}
