/* etcd's own metrics. See metric_etcd.h for the contract.
 *
 * Which ones: those of etcd 3.4's /metrics that contrib/mixin of etcd asks for, and the dashboard
 * that came with 3.4, as far as there is something behind them. There is no gRPC and no peer. */
#include "rdzv/admin/metric_etcd.h"

#include "rdzv/admin/metric.h"
#include "rdzv/config/etcd_ids.h"
#include "rdzv/engine/data_dir.h"
#include "rdzv/http/route.h"

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

    metric_counter(out, "etcd_debugging_store_expires_total", "Total number of expired keys.",
                   t->expired);
    metric_head(out, "etcd_debugging_store_reads_total", "counter",
                "Total number of reads of keys.");
    fprintf(out, "etcd_debugging_store_reads_total{action=\"get\"} %" PRIu64 "\n",
            t->succeeded[TREE_GETS]);
    metric_gauge(out, "etcd_debugging_store_watchers", "Count of currently active watchers.",
                 t->hub.registered);
    metric_head(out, "etcd_debugging_store_writes_total", "counter",
                "Total number of writes of keys.");
    for (size_t i = 0; i < sizeof writes / sizeof writes[0]; i++)
        fprintf(out, "etcd_debugging_store_writes_total{action=\"%s\"} %" PRIu64 "\n",
                writes[i].action, t->succeeded[writes[i].counter]);
}

/* The space is the database: what it keeps, of c10d too, is what --space-limit is about. */
static void write_database(FILE *out, const struct http_request *r)
{
    uint64_t bytes = space_usage(r->space->store).bytes;

    metric_gauge(out, "etcd_debugging_mvcc_db_total_size_in_bytes",
                 "Total size of the space in bytes.", bytes);
    metric_gauge(out, "etcd_mvcc_db_total_size_in_bytes", "Total size of the space in bytes.",
                 bytes);
    metric_gauge(out, "etcd_mvcc_db_total_size_in_use_in_bytes",
                 "Total size of the space in bytes.", bytes);
    metric_gauge(out, "etcd_server_quota_backend_bytes",
                 "What a space may keep, see --space-limit; 0: there is no limit.",
                 r->http->config->limits.space_bytes_max);
}

void metrics_write_etcd(FILE *out, const struct http_request *r)
{
    const struct tree *t = &r->space->store->tree;
    char id[17];

    etcd_format_id(r->http->member_id, id);
    metric_head(out, "etcd_cluster_version", "gauge", "Which version of etcd's cluster is spoken.");
    fputs("etcd_cluster_version{cluster_version=\"3.4\"} 1\n", out);
    write_tree(out, t);
    write_database(out, r);
    metric_gauge(out, "etcd_server_has_leader", "Whether or not a leader exists.", 1);
    metric_head(out, "etcd_server_id", "gauge", "Server or member ID in hexadecimal format.");
    fprintf(out, "etcd_server_id{server_id=\"%s\"} 1\n", id);
    metric_gauge(out, "etcd_server_is_leader", "Whether or not this member is a leader.", 1);
    metric_counter(out, "etcd_server_leader_changes_seen_total",
                   "The number of leader changes seen.", 1);
    metric_counter(out, "etcd_server_proposals_applied_total",
                   "The total number of changes applied.", t->index + 1);
    metric_counter(out, "etcd_server_proposals_committed_total",
                   "The total number of changes committed.", t->index + 1);
    metric_counter(out, "etcd_server_proposals_failed_total",
                   "The total number of failed proposals.", 0);
    metric_gauge(out, "etcd_server_proposals_pending", "The number of pending proposals.", 0);
    metric_head(out, "etcd_server_version", "gauge", "Which version of etcd's server is spoken.");
    fputs("etcd_server_version{server_version=\"3.4.23\"} 1\n", out);
}

/* --- Of the daemon. --- */

static void write_received(FILE *out, const struct http *http)
{
    static const char name[] = "etcd_http_received_total";
    static const enum http_method methods[] = {HTTP_DELETE, HTTP_GET, HTTP_POST, HTTP_PUT};
    const struct http_route *keys = http_find_route(http->routes, slice_str("/v2/keys"), false);

    metric_head(out, name, "counter", "Requests for keys of etcd's API, by method.");
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++)
        fprintf(out, "%s{method=\"%s\"} %" PRIu64 "\n", name, http_method_name(methods[i]),
                http->engine->stats.http_operations[keys - http->routes][methods[i]]);
}

void metrics_write_etcd_server(FILE *out, const struct http *http)
{
    static const char fsync[] = "etcd_disk_wal_fsync_duration_seconds";
    struct journal_writer_disk disk;

    write_received(out, http);
    if (http->engine->data_dir == NULL)
        return;
    data_dir_disk(http->engine->data_dir, &disk);
    metric_head(out, fsync, "histogram", "How long syncs of the journal took.");
    metric_durations(out, fsync, "", &disk.syncs, SYNC_FIRST_NS);
}
