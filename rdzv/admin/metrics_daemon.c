/* How metrics are written, and the metrics that each daemon has in every role. See metrics.h. */
#include "rdzv/admin/metrics.h"

#include <dirent.h>
#include <stdarg.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rdzv/engine/log.h"
#include "rdzv/http/session.h"
#include "rdzv/net/listen.h"
#include "rdzv/net/refusal.h"

#define DESCRIPTORS "/proc/self/fd"

/* --- Lines. --- */

void metric_head(FILE *out, enum metric m)
{
    const struct metric_row *row = &metric_rows[m];

    fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", row->name, row->help, row->name, row->type);
}

void metric_line(FILE *out, enum metric m, uint64_t value, const char *labels, ...)
{
    va_list args;

    fprintf(out, "%s{", metric_rows[m].name);
    va_start(args, labels);
    vfprintf(out, labels, args);
    va_end(args);
    fprintf(out, "} %" PRIu64 "\n", value);
}

void metric_value(FILE *out, enum metric m, uint64_t value)
{
    metric_head(out, m);
    fprintf(out, "%s %" PRIu64 "\n", metric_rows[m].name, value);
}

void metric_seconds(FILE *out, enum metric m, int digits, uint64_t ns)
{
    metric_head(out, m);
    fprintf(out, "%s %.*f\n", metric_rows[m].name, digits, (double)ns / 1e9);
}

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

void metric_durations(FILE *out, enum metric m, const char *labels, const struct durations *d,
                      uint64_t first_ns)
{
    const char *name = metric_rows[m].name;
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

void metric_histogram(FILE *out, enum metric m, const struct durations *d, uint64_t first_ns)
{
    metric_head(out, m);
    metric_durations(out, m, "", d, first_ns);
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

    metric_head(out, METRIC_rdzvd_connections_dropped_total);
    for (int i = 0; i < DROP_REASONS; i++)
        metric_line(out, METRIC_rdzvd_connections_dropped_total, stats->dropped[i], "reason=\"%s\"",
                    reasons[i]);
}

static void write_refused(FILE *out, const struct stats *stats)
{
    metric_head(out, METRIC_rdzvd_refused_total);
    for (int i = 0; i < REFUSAL_REASONS; i++)
        metric_line(out, METRIC_rdzvd_refused_total, stats->refused[i], "reason=\"%s\"",
                    refusal_name((enum refusal_reason)i));
}

static void write_connections(FILE *out, const struct net *n)
{
    const struct stats *stats = &n->engine->stats;

    metric_value(out, METRIC_rdzvd_connections, n->conn_count);
    metric_value(out, METRIC_rdzvd_connections_limit, n->limits->connections_max);
    metric_value(out, METRIC_rdzvd_connections_accepted_total, stats->accepted);
    metric_value(out, METRIC_rdzvd_connections_closed_total, stats->closed);
    write_dropped(out, stats);
    write_refused(out, stats);
}

static void write_memory_account(FILE *out, const struct net *n)
{
    metric_head(out, METRIC_rdzvd_memory_bytes);
    for (int i = 0; i < ACCOUNT_KINDS; i++)
        metric_line(out, METRIC_rdzvd_memory_bytes, account.bytes[i], "kind=\"%s\"",
                    account_kind_name((enum account_kind)i));
    metric_value(out, METRIC_rdzvd_memory_limit_bytes,
                 account.limit == SIZE_MAX ? 0 : account.limit);
    metric_value(out, METRIC_rdzvd_memory_removed_bytes, n->engine->store.lazy_free.bytes);
    metric_value(out, METRIC_rdzvd_memory_refused_total, account.refused);
}

static void write_iterations(FILE *out, const struct stats *stats)
{
    static const char name[] = "rdzvd_loop_iteration_seconds";
    uint64_t count = 0;

    metric_head(out, METRIC_rdzvd_loop_iteration_seconds);
    for (int i = 0; i < ITERATION_BOUNDS; i++) {
        count += stats->iterations[i];
        fprintf(out, "%s_bucket{le=\"%g\"} %" PRIu64 "\n", name, (double)latency_bounds_ns[i] / 1e9,
                count);
    }
    count += stats->iterations[ITERATION_BOUNDS];
    fprintf(out, "%s_bucket{le=\"+Inf\"} %" PRIu64 "\n%s_sum %.9f\n%s_count %" PRIu64 "\n", name,
            count, name, (double)stats->iterations_ns / 1e9, name, count);
    metric_seconds(out, METRIC_rdzvd_loop_iteration_longest_seconds, 9,
                   stats->longest_iteration_ns);
}

/* --- TLS. --- */

static void write_tls(FILE *out, const struct handshakes *all)
{
    metric_head(out, METRIC_rdzvd_tls_handshakes_total);
    metric_line(out, METRIC_rdzvd_tls_handshakes_total, all->done - all->resumed,
                "resumed=\"false\"");
    metric_line(out, METRIC_rdzvd_tls_handshakes_total, all->resumed, "resumed=\"true\"");
    metric_value(out, METRIC_rdzvd_tls_handshakes_failed_total, all->failed);
    metric_value(out, METRIC_rdzvd_tls_handshakes_open, all->count);
    metric_value(out, METRIC_rdzvd_tls_certificate_expiry_timestamp_seconds,
                 all->certificate.expires_s);
}

/* --- Requests. --- */

static void write_http_requests(FILE *out, const struct stats *stats,
                                const struct http_route *routes)
{
    uint64_t rest = stats->http_requests;

    for (size_t i = 0; routes[i].path != NULL; i++) {
        for (int method = 0; method < HTTP_METHODS; method++) {
            uint64_t count = stats->http_operations[i][method];
            const char *path = routes[i].path;

            rest -= count;
            if (count != 0)
                metric_line(out, METRIC_rdzvd_requests_total, count,
                            "protocol=\"http\",operation=\"%s %s\"", http_method_names[method],
                            *path == '\0' ? "*" : path);
        }
    }
    metric_line(out, METRIC_rdzvd_requests_total, rest, "protocol=\"http\",operation=\"other\"");
}

static void write_requests(FILE *out, const struct stats *stats, const struct http_route *routes)
{
    metric_head(out, METRIC_rdzvd_requests_total);
    for (int op = C10D_VALIDATE + 1; op < C10D_OP_COUNT; op++)
        metric_line(out, METRIC_rdzvd_requests_total, stats->c10d_requests[op],
                    "protocol=\"c10d\",operation=\"%s\"", c10d_op_name((enum c10d_op)op));
    write_http_requests(out, stats, routes);
    metric_head(out, METRIC_rdzvd_request_seconds);
    metric_durations(out, METRIC_rdzvd_request_seconds, "protocol=\"c10d\"", &stats->c10d_durations,
                     REQUEST_FIRST_NS);
    metric_durations(out, METRIC_rdzvd_request_seconds, "protocol=\"http\"", &stats->http_durations,
                     REQUEST_FIRST_NS);
    metric_head(out, METRIC_rdzvd_http_responses_total);
    for (int status = 0; status < STATS_STATUSES; status++) {
        if (status == 200 || stats->http_replies[status] != 0)
            metric_line(out, METRIC_rdzvd_http_responses_total, stats->http_replies[status],
                        "code=\"%d\"", status);
    }
}

/* --- Listeners. Those of worker stores come and go: they are one. --- */

#define LISTENERS_LISTED 100

/* The overflows of all queues, or their lengths. */
static void write_listen_queues(FILE *out, enum metric m, const struct net *n, bool overflows)
{
    uint64_t others = overflows ? n->overflows_ended : 0;
    bool any_other = n->overflows_ended != 0;
    char address[LISTEN_ADDRESS_MAX];
    struct listen_queue queue;
    size_t listed = 0;

    metric_head(out, m);
    TAILQ_EACH(const struct listener, l, &n->listeners, entry) {
        uint64_t value;

        if (!listen_queue(l, &queue))
            continue;
        value = overflows ? queue.overflows : queue.length;
        if (!l->temporary && listed++ < LISTENERS_LISTED) {
            metric_line(out, m, value, "listener=\"%s\"", listen_address(l, address));
            continue;
        }
        any_other = true;
        others += value;
    }
    if (any_other)
        metric_line(out, m, others, "listener=\"\"");
}

/* --- All. --- */

void metrics_write_daemon(FILE *out, const struct http_request *r, const char *role, bool is_ready)
{
    const struct net *n = conn_net(r->conn);
    const struct stats *stats = &n->engine->stats;

    metric_head(out, METRIC_rdzvd_build_info);
    metric_line(out, METRIC_rdzvd_build_info, 1, "version=\"" RDZV_VERSION "\",role=\"%s\"", role);
    metric_value(out, METRIC_rdzvd_ready, is_ready);
    write_connections(out, n);
    write_listen_queues(out, METRIC_rdzvd_listen_overflows_total, n, true);
    write_listen_queues(out, METRIC_rdzvd_listen_queue_connections, n, false);
    write_tls(out, &n->handshakes);
    write_requests(out, stats, r->http->routes);
    metric_value(out, METRIC_rdzvd_loop_iterations_total, stats->loop_iterations);
    write_iterations(out, stats);
    metric_value(out, METRIC_rdzvd_log_lines_dropped_total, log_dropped());
    metric_value(out, METRIC_rdzvd_log_lines_suppressed_total, log_suppressed());
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
        metric_value(out, METRIC_process_resident_memory_bytes, resident * page);
        metric_value(out, METRIC_process_virtual_memory_bytes, size * page);
    }
    fclose(statm);
}

void metrics_write_process(FILE *out, const struct engine *e)
{
    struct rusage usage;
    struct rlimit limit;
    uint64_t open;

    if (getrusage(RUSAGE_SELF, &usage) == 0) {
        metric_head(out, METRIC_process_cpu_seconds_total);
        fprintf(out, "process_cpu_seconds_total %.6f\n",
                (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                    (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6);
    }
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
        metric_value(out, METRIC_process_max_fds, (uint64_t)limit.rlim_cur);
    if (count_descriptors(engine_now_ms(e), &open))
        metric_value(out, METRIC_process_open_fds, open);
    write_memory(out);
    metric_seconds(out, METRIC_process_start_time_seconds, 3, (uint64_t)e->started_ns);
}
