/* /metrics in Prometheus's text format. See metrics.h. */
#include "rdzv/admin/metrics.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "rdzv/admin/access.h"
#include "rdzv/admin/metric_text.h"
#include "rdzv/config/etcd_ids.h"
#include "rdzv/engine/data_dir.h"
#include "rdzv/net/conn.h"
#include "rdzv/rendezvous/rendezvous.h"

/* What a request is charged for the system calls that it takes, and for each run that is counted.
 */
#define METRICS_COST (32u << 10)
#define RUN_COST     64u

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

static void write_etcd(FILE *out, uint64_t member_id, const struct space *space)
{
    char id[17];

    etcd_format_id(member_id, id);
    metric_head(out, "etcd_cluster_version", "gauge", "Which version of etcd's cluster is spoken.");
    fputs("etcd_cluster_version{cluster_version=\"3.4\"} 1\n", out);
    write_tree(out, &space->tree);
    metric_gauge(out, "etcd_server_has_leader", "Whether or not a leader exists.", 1);
    metric_head(out, "etcd_server_id", "gauge", "Server or member ID in hexadecimal format.");
    fprintf(out, "etcd_server_id{server_id=\"%s\"} 1\n", id);
    metric_gauge(out, "etcd_server_is_leader", "Whether or not this member is a leader.", 1);
    metric_counter(out, "etcd_server_leader_changes_seen_total",
                   "The number of leader changes seen.", 1);
    metric_gauge(out, "etcd_server_proposals_applied_total", "The total number of changes applied.",
                 space->tree.index + 1);
    metric_gauge(out, "etcd_server_proposals_committed_total",
                 "The total number of changes committed.", space->tree.index + 1);
    metric_counter(out, "etcd_server_proposals_failed_total",
                   "The total number of failed proposals.", 0);
    metric_gauge(out, "etcd_server_proposals_pending", "The number of pending proposals.", 0);
    metric_head(out, "etcd_server_version", "gauge", "Which version of etcd's server is spoken.");
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
        metric_head(out, gauges[i].name, "gauge", gauges[i].help);
        for (space = next_space(e, only, NULL); space != NULL; space = next_space(e, only, space))
            fprintf(out, "%s{space=\"%s\"} %" PRIu64 "\n", gauges[i].name, space->store->name,
                    gauges[i].value(space));
    }
}

static void write_journal(FILE *out, const struct data_dir *data)
{
    const struct journal_writer_stats *s = data_dir_stats(data);

    metric_counter(out, "rdzvd_journal_batches_total", "Batches of changes that were appended.",
                   s->batches);
    metric_counter(out, "rdzvd_journal_bytes_total", "Bytes of those.", s->bytes);
    metric_counter(out, "rdzvd_journal_failures_total", "Writes and syncs that failed, each try.",
                   s->failures);
    metric_gauge(out, "rdzvd_journal_refuses_changes", "1 while the disk has failed.",
                 data_dir_refuses(data) != NULL);
    metric_gauge(out, "rdzvd_journal_snapshot_bytes", "Size of the newest snapshot.",
                 s->snapshot_bytes);
    metric_counter(out, "rdzvd_journal_snapshots_total", "Snapshots that were written.",
                   s->snapshots);
    metric_head(out, "rdzvd_journal_sync_seconds", "summary",
                "Syncs of the journal, and their time.");
    fprintf(out,
            "rdzvd_journal_sync_seconds_sum %.6f\nrdzvd_journal_sync_seconds_count %" PRIu64 "\n",
            (double)s->sync_ns / 1e9, s->syncs);
    metric_head(out, "rdzvd_journal_slowest_sync_seconds", "gauge", "The longest of them.");
    fprintf(out, "rdzvd_journal_slowest_sync_seconds %.6f\n", (double)s->slowest_sync_ns / 1e9);
    metric_gauge(out, "rdzvd_journal_uncovered_bytes", "Bytes that a start would replay.",
                 s->bytes_behind);
    metric_gauge(out, "rdzvd_journal_unsynced_bytes", "Bytes that no sync has covered yet.",
                 s->pending_bytes);
}

static void write_relays(FILE *out, const struct stats *stats)
{
    metric_gauge(out, "rdzvd_relay_links", "Relays that are connected.", stats->relay_links);
    metric_head(out, "rdzvd_relay_sessions", "gauge",
                "Clients of relays; detached: their relay is not connected just now.");
    fprintf(out, "rdzvd_relay_sessions{state=\"attached\"} %" PRIu64 "\n",
            stats->sessions_attached);
    fprintf(out, "rdzvd_relay_sessions{state=\"detached\"} %" PRIu64 "\n",
            stats->sessions_detached);
    metric_counter(out, "rdzvd_relay_sessions_resumed_total",
                   "Times that a relay has gone on with a client's session.",
                   stats->sessions_resumed);
    metric_counter(out, "rdzvd_relay_sessions_timed_out_total",
                   "Sessions that ended without their relay, see --session-timeout.",
                   stats->sessions_timed_out);
}

/* What only a store counts. */
static void write_store(FILE *out, const struct net *n)
{
    const struct stats *stats = &n->engine->stats;

    write_relays(out, stats);
    metric_counter(out, "rdzvd_torch_writes_merged_total",
                   "Writes of torch's agents that were merged instead of refused.",
                   stats->writes_merged);
    metric_counter(out, "rdzvd_torch_rounds_completed_total",
                   "Rounds of torch's runs that were completed.", stats->rounds_completed);
    metric_counter(out, "rdzvd_torch_runs_closed_total", "Runs that an agent has closed.",
                   stats->runs_closed);
    metric_counter(out, "rdzvd_torch_nodes_disconnected_total",
                   "Agents whose connection ended while their run was open.",
                   stats->nodes_disconnected);
    metric_counter(out, "rdzvd_torch_nodes_silent_total",
                   "Nodes that were taken out of their run for --silent-node-timeout.",
                   stats->nodes_silent);
    metric_counter(out, "rdzvd_torch_restarts_total",
                   "Rounds whose nodes were made to meet again because one was lost.",
                   stats->restarts_asked);
    metric_counter(out, "rdzvd_torch_runs_repaired_total",
                   "Times that a run's state was repaired; the log says what and why.",
                   stats->runs_repaired);
    metric_counter(out, "rdzvd_password_hashes_total", "Hashes of passwords that were computed.",
                   stats->hashes_computed);
    metric_gauge(out, "rdzvd_password_hashes_waiting", "Passwords that wait to be hashed.",
                 stats->hashes_waiting);
    if (n->engine->data_dir != NULL)
        write_journal(out, n->engine->data_dir);
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
            metrics_write_daemon(out, conn_net(r->conn));
            write_store(out, conn_net(r->conn));
            metrics_write_process(out, http_engine(r));
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
