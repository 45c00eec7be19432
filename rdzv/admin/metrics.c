/* /metrics in Prometheus's text format. See metrics.h. */
#include "rdzv/admin/metrics.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rdzv/admin/access.h"
#include "rdzv/config/etcd_ids.h"
#include "rdzv/engine/data_dir.h"
#include "rdzv/engine/log.h"
#include "rdzv/net/conn.h"
#include "rdzv/net/refusal.h"
#include "rdzv/rendezvous/rendezvous.h"

#define DESCRIPTORS "/proc/self/fd"

/* What a request is charged for the system calls that it takes, and for each run that is counted.
 */
#define METRICS_COST (32u << 10)
#define RUN_COST     64u

/* The head of a metric: what it is and which kind. */
static void head(FILE *out, const char *name, const char *type, const char *help)
{
    fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void counter(FILE *out, const char *name, const char *help, uint64_t value)
{
    head(out, name, "counter", help);
    fprintf(out, "%s %" PRIu64 "\n", name, value);
}

static void gauge(FILE *out, const char *name, const char *help, uint64_t value)
{
    head(out, name, "gauge", help);
    fprintf(out, "%s %" PRIu64 "\n", name, value);
}

/* --- etcd's names. --- */

static void write_tree(FILE *out, const struct tree *t)
{
    static const struct {
        const char *action;
        enum tree_counter counter;
    } writes[] = {
        {"compareAndDelete", TREE_SWAP_DELETES},
        {"compareAndSwap", TREE_SWAPS},
        {"create", TREE_CREATES},
        {"delete", TREE_DELETES},
        {"set", TREE_SETS},
        {"update", TREE_UPDATES},
    };

    counter(out, "etcd_debugging_store_expires_total", "Total number of expired keys.", t->expired);
    head(out, "etcd_debugging_store_reads_total", "counter", "Total number of reads of keys.");
    fprintf(out, "etcd_debugging_store_reads_total{action=\"get\"} %" PRIu64 "\n",
            t->succeeded[TREE_GETS]);
    gauge(out, "etcd_debugging_store_watchers", "Count of currently active watchers.",
          t->hub.registered);
    head(out, "etcd_debugging_store_writes_total", "counter", "Total number of writes of keys.");
    for (size_t i = 0; i < sizeof writes / sizeof writes[0]; i++)
        fprintf(out, "etcd_debugging_store_writes_total{action=\"%s\"} %" PRIu64 "\n",
                writes[i].action, t->succeeded[writes[i].counter]);
}

static void write_etcd(FILE *out, uint64_t member_id, const struct space *space)
{
    char id[17];

    etcd_format_id(member_id, id);
    head(out, "etcd_cluster_version", "gauge", "Which version of etcd's cluster is spoken.");
    fputs("etcd_cluster_version{cluster_version=\"3.4\"} 1\n", out);
    write_tree(out, &space->tree);
    gauge(out, "etcd_server_has_leader", "Whether or not a leader exists.", 1);
    head(out, "etcd_server_id", "gauge", "Server or member ID in hexadecimal format.");
    fprintf(out, "etcd_server_id{server_id=\"%s\"} 1\n", id);
    gauge(out, "etcd_server_is_leader", "Whether or not this member is a leader.", 1);
    counter(out, "etcd_server_leader_changes_seen_total", "The number of leader changes seen.", 1);
    gauge(out, "etcd_server_proposals_applied_total", "The total number of changes applied.",
          space->tree.index + 1);
    gauge(out, "etcd_server_proposals_committed_total", "The total number of changes committed.",
          space->tree.index + 1);
    counter(out, "etcd_server_proposals_failed_total", "The total number of failed proposals.", 0);
    gauge(out, "etcd_server_proposals_pending", "The number of pending proposals.", 0);
    head(out, "etcd_server_version", "gauge", "Which version of etcd's server is spoken.");
    fputs("etcd_server_version{server_version=\"3.4.23\"} 1\n", out);
}

/* --- Ours. --- */

static uint64_t space_connections(const struct engine_space *space)
{
    return space->c10d_sessions;
}

static uint64_t space_key_count(const struct engine_space *space)
{
    return space_usage(space->store).keys;
}

static uint64_t space_queues(const struct engine_space *space)
{
    return space_usage(space->store).queues;
}

/* Without the root, which is always there. */
static uint64_t space_nodes(const struct engine_space *space)
{
    return space->store->tree.count - 1;
}

static uint64_t space_bytes(const struct engine_space *space)
{
    return space_usage(space->store).bytes;
}

static uint64_t space_waiters(const struct engine_space *space)
{
    return space_usage(space->store).waiters;
}

static uint64_t space_worker_stores(const struct engine_space *space)
{
    return space->store->worker_stores.count;
}

static uint64_t space_runs(const struct engine_space *space)
{
    const struct run *run;
    uint64_t count = 0;

    for (run = rendezvous_first(space); run != NULL; run = rendezvous_next(run))
        count++;
    return count;
}

static uint64_t space_watchers(const struct engine_space *space)
{
    return space->store->tree.hub.registered;
}

/* Those that are shown: all, or `only` that one. */
static const struct engine_space *next_space(const struct engine *e,
                                             const struct engine_space *only,
                                             const struct engine_space *space)
{
    if (only != NULL)
        return space == NULL ? only : NULL;
    return space == NULL ? TAILQ_FIRST(&e->spaces) : TAILQ_NEXT(space, entry);
}

/* `only` NULL: of all spaces. */
static void write_spaces(FILE *out, const struct engine *e, const struct engine_space *only)
{
    static const struct {
        const char *name, *help;
        uint64_t (*value)(const struct engine_space *space);
    } gauges[] = {
        {"rdzvd_space_c10d_connections", "Open connections that speak c10d.", space_connections},
        {"rdzvd_space_bytes", "Bytes that a space holds, by --space-limit.", space_bytes},
        {"rdzvd_space_etcd_nodes", "Keys and directories of etcd's tree.", space_nodes},
        {"rdzvd_space_etcd_watchers", "Open etcd watches.", space_watchers},
        {"rdzvd_space_keys", "c10d keys that have a value.", space_key_count},
        {"rdzvd_space_queues", "c10d queues that are not empty.", space_queues},
        {"rdzvd_space_runs", "Torch rendezvous that are known.", space_runs},
        {"rdzvd_space_waiters", "Open WAITs, BARRIERs and watches of c10d.", space_waiters},
        {"rdzvd_space_worker_stores", "Worker stores of torch's runs.", space_worker_stores},
    };
    const struct engine_space *space;

    for (size_t i = 0; i < sizeof gauges / sizeof gauges[0]; i++) {
        head(out, gauges[i].name, "gauge", gauges[i].help);
        for (space = next_space(e, only, NULL); space != NULL; space = next_space(e, only, space))
            fprintf(out, "%s{space=\"%s\"} %" PRIu64 "\n", gauges[i].name, space->store->name,
                    gauges[i].value(space));
    }
}

static void write_journal(FILE *out, const struct data_dir *data)
{
    const struct journal_writer_stats *s = data_dir_stats(data);

    counter(out, "rdzvd_journal_batches_total", "Batches of changes that were appended.",
            s->batches);
    counter(out, "rdzvd_journal_bytes_total", "Bytes of those.", s->bytes);
    counter(out, "rdzvd_journal_failures_total", "Writes and syncs that failed, each try.",
            s->failures);
    gauge(out, "rdzvd_journal_refuses_changes", "1 while the disk has failed.",
          data_dir_refuses(data) != NULL);
    gauge(out, "rdzvd_journal_snapshot_bytes", "Size of the newest snapshot.", s->snapshot_bytes);
    counter(out, "rdzvd_journal_snapshots_total", "Snapshots that were written.", s->snapshots);
    head(out, "rdzvd_journal_sync_seconds", "summary", "Syncs of the journal, and their time.");
    fprintf(out,
            "rdzvd_journal_sync_seconds_sum %.6f\nrdzvd_journal_sync_seconds_count %" PRIu64 "\n",
            (double)s->sync_ns / 1e9, s->syncs);
    head(out, "rdzvd_journal_slowest_sync_seconds", "gauge", "The longest of them.");
    fprintf(out, "rdzvd_journal_slowest_sync_seconds %.6f\n", (double)s->slowest_sync_ns / 1e9);
    gauge(out, "rdzvd_journal_uncovered_bytes", "Bytes that a start would replay.",
          s->bytes_behind);
    gauge(out, "rdzvd_journal_unsynced_bytes", "Bytes that no sync has covered yet.",
          s->pending_bytes);
}

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
    };

    head(out, "rdzvd_connections_dropped_total", "counter",
         "Connections that rdzvd ended before their time, by reason.");
    for (int i = 0; i < DROP_REASONS; i++)
        fprintf(out, "rdzvd_connections_dropped_total{reason=\"%s\"} %" PRIu64 "\n", reasons[i],
                stats->dropped[i]);
}

static void write_refused(FILE *out, const struct stats *stats)
{
    head(out, "rdzvd_refused_total", "counter",
         "Connections and requests that were refused, by reason.");
    for (int i = 0; i < REFUSAL_REASONS; i++)
        fprintf(out, "rdzvd_refused_total{reason=\"%s\"} %" PRIu64 "\n",
                refusal_name((enum refusal_reason)i), stats->refused[i]);
}

static void write_connections(FILE *out, const struct net *n)
{
    const struct stats *stats = &n->engine->stats;

    gauge(out, "rdzvd_connections", "Open connections.", n->conn_count);
    counter(out, "rdzvd_connections_accepted_total", "Connections that were accepted.",
            stats->accepted);
    counter(out, "rdzvd_connections_closed_total", "Connections that have ended.", stats->closed);
    write_dropped(out, stats);
    write_refused(out, stats);
}

static void write_relays(FILE *out, const struct stats *stats)
{
    gauge(out, "rdzvd_relay_links", "Relays that are connected.", stats->relay_links);
    head(out, "rdzvd_relay_sessions", "gauge",
         "Clients of relays; detached: their relay is not connected just now.");
    fprintf(out, "rdzvd_relay_sessions{state=\"attached\"} %" PRIu64 "\n",
            stats->sessions_attached);
    fprintf(out, "rdzvd_relay_sessions{state=\"detached\"} %" PRIu64 "\n",
            stats->sessions_detached);
    counter(out, "rdzvd_relay_sessions_resumed_total",
            "Times that a relay has gone on with a client's session.", stats->sessions_resumed);
    counter(out, "rdzvd_relay_sessions_timed_out_total",
            "Sessions that ended without their relay, see --session-timeout.",
            stats->sessions_timed_out);
}

static void write_memory_account(FILE *out, const struct net *n)
{
    head(out, "rdzvd_memory_bytes", "gauge", "Memory that rdzvd holds, by what for.");
    for (int i = 0; i < ACCOUNT_KINDS; i++)
        fprintf(out, "rdzvd_memory_bytes{kind=\"%s\"} %zu\n",
                account_kind_name((enum account_kind)i), account.bytes[i]);
    gauge(out, "rdzvd_memory_limit_bytes", "What it may hold in all; 0: there is no limit.",
          account.limit == SIZE_MAX ? 0 : account.limit);
    gauge(out, "rdzvd_memory_removed_bytes",
          "Memory of what was removed that is not given back yet, about.",
          n->engine->store.graveyard.bytes);
    counter(out, "rdzvd_memory_refused_total",
            "Times that memory was refused, to keep the limit or since there was none.",
            account.refused);
}

static void write_iterations(FILE *out, const struct stats *stats)
{
    static const char name[] = "rdzvd_loop_iteration_seconds";
    uint64_t count = 0;

    head(out, name, "histogram", "How long iterations took, without waiting for events.");
    for (int i = 0; i < ITERATION_BOUNDS; i++) {
        count += stats->iterations[i];
        fprintf(out, "%s_bucket{le=\"%g\"} %" PRIu64 "\n", name, (double)pace_bounds_ns[i] / 1e9,
                count);
    }
    count += stats->iterations[ITERATION_BOUNDS];
    fprintf(out, "%s_bucket{le=\"+Inf\"} %" PRIu64 "\n%s_sum %.9f\n%s_count %" PRIu64 "\n", name,
            count, name, (double)stats->iterations_ns / 1e9, name, count);
    head(out, "rdzvd_loop_iteration_longest_seconds", "gauge", "The longest one since the start.");
    fprintf(out, "rdzvd_loop_iteration_longest_seconds %.9f\n",
            (double)stats->longest_iteration_ns / 1e9);
}

static void write_daemon(FILE *out, const struct net *n)
{
    const struct stats *stats = &n->engine->stats;

    write_connections(out, n);
    write_relays(out, stats);
    head(out, "rdzvd_requests_total", "counter", "Requests that were carried out.");
    fprintf(out, "rdzvd_requests_total{protocol=\"c10d\"} %" PRIu64 "\n", stats->c10d_requests);
    fprintf(out, "rdzvd_requests_total{protocol=\"http\"} %" PRIu64 "\n", stats->http_requests);
    counter(out, "rdzvd_loop_iterations_total", "Iterations of the event loop.",
            stats->loop_iterations);
    write_iterations(out, stats);
    counter(out, "rdzvd_torch_writes_merged_total",
            "Writes of torch's agents that were merged instead of refused.", stats->writes_merged);
    counter(out, "rdzvd_torch_rounds_completed_total",
            "Rounds of torch's runs that were completed.", stats->rounds_completed);
    counter(out, "rdzvd_torch_runs_closed_total", "Runs that an agent has closed.",
            stats->runs_closed);
    counter(out, "rdzvd_torch_nodes_disconnected_total",
            "Agents whose connection ended while their run was open.", stats->nodes_disconnected);
    counter(out, "rdzvd_torch_nodes_silent_total",
            "Nodes that were taken out of their run for --silent-node-timeout.",
            stats->nodes_silent);
    counter(out, "rdzvd_torch_restarts_total",
            "Rounds whose nodes were made to meet again because one was lost.",
            stats->restarts_asked);
    counter(out, "rdzvd_torch_runs_repaired_total",
            "Times that a run's state was repaired; the log says what and why.",
            stats->runs_repaired);
    counter(out, "rdzvd_log_lines_dropped_total", "Lines that could not be written in time.",
            log_dropped());
    counter(out, "rdzvd_log_lines_suppressed_total", "Lines held back so as not to flood the log.",
            log_suppressed());
    counter(out, "rdzvd_password_hashes_total", "Hashes of passwords that were computed.",
            stats->hashes_computed);
    gauge(out, "rdzvd_password_hashes_waiting", "Passwords that wait to be hashed.",
          stats->hashes_waiting);
    write_memory_account(out, n);
    if (n->engine->data_dir != NULL)
        write_journal(out, n->engine->data_dir);
}

/* --- The process. --- */

/* How many entries the directory of descriptors has; the one that reads it is not counted. */
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
 * Before, each has to be listed, which takes milliseconds when there are many: once a second. */
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
        gauge(out, "process_resident_memory_bytes", "Resident memory size in bytes.",
              resident * page);
        gauge(out, "process_virtual_memory_bytes", "Virtual memory size in bytes.", size * page);
    }
    fclose(statm);
}

static void write_process(FILE *out, const struct engine *e)
{
    struct rusage usage;
    struct rlimit limit;
    uint64_t open;

    if (getrusage(RUSAGE_SELF, &usage) == 0) {
        head(out, "process_cpu_seconds_total", "counter", "User and system CPU time in seconds.");
        fprintf(out, "process_cpu_seconds_total %.6f\n",
                (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                    (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6);
    }
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
        gauge(out, "process_max_fds", "Maximum number of open file descriptors.",
              (uint64_t)limit.rlim_cur);
    if (count_descriptors(engine_now_ms(e), &open))
        gauge(out, "process_open_fds", "Number of open file descriptors.", open);
    write_memory(out);
    head(out, "process_start_time_seconds", "gauge", "Start time since 1970 in seconds.");
    fprintf(out, "process_start_time_seconds %.3f\n", (double)e->started_ns / 1e9);
}

/* What the reply takes beside its bytes. */
static size_t cost_of(const struct engine *e)
{
    const struct engine_space *space;
    size_t cost = METRICS_COST;

    TAILQ_FOREACH(space, &e->spaces, entry)
        cost += RUN_COST * (space_runs(space) + space_worker_stores(space));
    return cost;
}

void admin_metrics_handle(const struct http_request *r)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    bool ok = out != NULL, all_spaces = admin_shows_all_spaces(r);

    if (ok) {
        write_etcd(out, r->http->member_id, r->space->store);
        write_spaces(out, http_engine(r), all_spaces ? NULL : r->space);
        if (admin_shows_daemon(r, all_spaces)) {
            write_daemon(out, conn_net(r->conn));
            write_process(out, http_engine(r));
        }
        ok = fclose(out) == 0;
    }
    conn_charge(r->conn, cost_of(http_engine(r)) + len);
    if (ok)
        reply_send(r, &(struct reply){
                          .status = 200,
                          .content_type = "text/plain; version=0.0.4; charset=utf-8",
                          .body = {(const uint8_t *)text, len},
                      });
    else
        reply_send(r, &(struct reply){.status = 500});
    free(text);
}
