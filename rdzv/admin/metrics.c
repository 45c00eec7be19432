/* GET /metrics of a store, of a replica that does not lead, and of a relay. See handlers.h. */
#include "rdzv/admin/metrics.h"

#include <stdlib.h>

#include "rdzv/admin/handlers.h"
#include "rdzv/config/config.h"
#include "rdzv/engine/data_dir.h"
#include "rdzv/etcd3/journal_etcd.h"
#include "rdzv/http/access.h"
#include "rdzv/http/session.h"
#include "rdzv/relay/forward.h"

/* --- etcd's own metrics, as far as they mean something here: those of etcd 3.4's /metrics that
 * contrib/mixin of etcd asks for, and the dashboard that came with 3.4. There is no gRPC and no
 * peer. --- */

static void write_etcd_tree(FILE *out, const struct tree *t)
{
    metric_value(out, METRIC_etcd_debugging_store_expires_total, t->expired);
    metric_head(out, METRIC_etcd_debugging_store_reads_total);
    metric_line(out, METRIC_etcd_debugging_store_reads_total, t->succeeded[TREE_GETS],
                "action=\"get\"");
    metric_value(out, METRIC_etcd_debugging_store_watchers, t->hub.registered);
    metric_head(out, METRIC_etcd_debugging_store_writes_total);
    for (enum etcd_action action = ETCD_SET; action < ETCD_EXPIRE; action++)
        metric_line(out, METRIC_etcd_debugging_store_writes_total,
                    t->succeeded[tree_counter_of(action)], "action=\"%s\"",
                    etcd_action_names[action]);
}

/* The space stands for the database: --space-limit limits its size, with c10d's keys. */
static void write_etcd_database(FILE *out, const struct http_request *r)
{
    uint64_t bytes = space_usage(r->space->store).bytes;

    metric_value(out, METRIC_etcd_debugging_mvcc_db_total_size_in_bytes, bytes);
    metric_value(out, METRIC_etcd_mvcc_db_total_size_in_bytes, bytes);
    metric_value(out, METRIC_etcd_mvcc_db_total_size_in_use_in_bytes, bytes);
    metric_value(out, METRIC_etcd_server_quota_backend_bytes,
                 r->http->config->limits.space_bytes_max);
}

/* Those of the space of the request's listener. */
static void write_etcd_space(FILE *out, const struct http_request *r)
{
    const struct tree *t = &r->space->store->tree;

    metric_head(out, METRIC_etcd_cluster_version);
    metric_line(out, METRIC_etcd_cluster_version, 1, "cluster_version=\"3.4\"");
    write_etcd_tree(out, t);
    write_etcd_database(out, r);
    metric_value(out, METRIC_etcd_server_has_leader, 1);
    metric_head(out, METRIC_etcd_server_id);
    metric_line(out, METRIC_etcd_server_id, 1, "server_id=\"%s\"", ETCD_ID(r->http->member_id));
    metric_value(out, METRIC_etcd_server_is_leader, 1);
    metric_value(out, METRIC_etcd_server_leader_changes_seen_total, 1);
    metric_value(out, METRIC_etcd_server_proposals_applied_total, t->index + 1);
    metric_value(out, METRIC_etcd_server_proposals_committed_total, t->index + 1);
    metric_value(out, METRIC_etcd_server_proposals_failed_total, 0);
    metric_value(out, METRIC_etcd_server_proposals_pending, 0);
    metric_head(out, METRIC_etcd_server_version);
    metric_line(out, METRIC_etcd_server_version, 1, "server_version=\"3.4.23\"");
}

static void write_etcd_received(FILE *out, const struct http *http)
{
    static const enum http_method methods[] = {HTTP_DELETE, HTTP_GET, HTTP_POST, HTTP_PUT};
    const struct http_route *keys = http_find_route(http->routes, slice_str("/v2/keys"), false);

    metric_head(out, METRIC_etcd_http_received_total);
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++)
        metric_line(out, METRIC_etcd_http_received_total,
                    http->engine->stats.http_operations[keys - http->routes][methods[i]],
                    "method=\"%s\"", http_method_names[methods[i]]);
}

/* Those of the daemon. */
static void write_etcd_server(FILE *out, const struct http *http)
{
    struct journal_writer_disk disk;

    write_etcd_received(out, http);
    if (http->engine->data_dir == NULL)
        return;
    journal_writer_disk(http->engine->data_dir->writer, &disk);
    metric_histogram(out, METRIC_etcd_disk_wal_fsync_duration_seconds, &disk.syncs, SYNC_FIRST_NS);
}

/* --- The journal. --- */

static void add_journal_files(FILE *out, const struct data_dir *data)
{
    const struct journal_writer_stats *s = journal_writer_stats(data->writer);
    struct journal_writer_disk disk;

    journal_writer_disk(data->writer, &disk);
    metric_value(out, METRIC_rdzvd_journal_batches_total, s->batches);
    metric_value(out, METRIC_rdzvd_journal_bytes_total, s->bytes);
    metric_value(out, METRIC_rdzvd_journal_failures_total, s->failures);
    metric_value(out, METRIC_rdzvd_journal_refuses_changes, data->engine->refusal != NULL);
    metric_value(out, METRIC_rdzvd_journal_snapshot_bytes, s->journal.snapshot_bytes);
    metric_value(out, METRIC_rdzvd_journal_snapshots_total, s->snapshots);
    metric_histogram(out, METRIC_rdzvd_journal_sync_seconds, &disk.syncs, SYNC_FIRST_NS);
    metric_seconds(out, METRIC_rdzvd_journal_slowest_sync_seconds, 6, s->slowest_sync_ns);
    metric_value(out, METRIC_rdzvd_journal_uncovered_bytes, s->journal.bytes_behind);
    metric_value(out, METRIC_rdzvd_journal_unsynced_bytes, s->pending_bytes);
    metric_value(out, METRIC_rdzvd_data_dir_free_bytes, disk.free);
    metric_value(out, METRIC_rdzvd_data_dir_size_bytes, disk.size);
}

static void add_journal_etcd(FILE *out, const struct engine *e)
{
    const struct journal_etcd_stats *s = journal_etcd_stats(e->journal_etcd);

    metric_value(out, METRIC_rdzvd_journal_leads, s->leads);
    metric_value(out, METRIC_rdzvd_journal_batches_total, s->batches);
    metric_value(out, METRIC_rdzvd_journal_bytes_total, s->bytes);
    metric_value(out, METRIC_rdzvd_journal_commits_total, s->commits);
    metric_value(out, METRIC_rdzvd_journal_commits_repeated_total, s->repeats);
    metric_value(out, METRIC_rdzvd_journal_failures_total, s->failures);
    metric_seconds(out, METRIC_rdzvd_journal_slowest_commit_seconds, 6, s->slowest_ns);
    metric_value(out, METRIC_rdzvd_journal_refuses_changes, e->refusal != NULL);
    metric_value(out, METRIC_rdzvd_journal_index, s->index);
    metric_value(out, METRIC_rdzvd_journal_snapshot_bytes, s->snapshot_bytes);
    metric_value(out, METRIC_rdzvd_journal_snapshots_total, s->snapshots);
    metric_value(out, METRIC_rdzvd_journal_uncovered_bytes, s->bytes_behind);
    metric_value(out, METRIC_rdzvd_journal_unsynced_bytes, s->pending_bytes);
}

static void write_journal(FILE *out, const struct engine *e)
{
    if (e->data_dir != NULL)
        add_journal_files(out, e->data_dir);
    else if (e->journal_etcd != NULL)
        add_journal_etcd(out, e);
}

/* --- What is passed on to a store: by a relay, or by a replica that does not lead. --- */

/* Of all links together. */
struct relay_sums {
    bool linked; /* all of them */
    uint64_t reconnects, away_ns, lag_ns;
    size_t sessions, pending_count, pending_bytes;
    struct relay_stats relay;
    struct relay_http_stats http;
};

static void add_relay(struct relay_sums *sums, const struct relay *r)
{
    uint64_t lag_ns = relay_lag_ns(r);

    sums->linked = sums->linked && r->link;
    sums->away_ns += relay_away_ns(r);
    sums->lag_ns = lag_ns > sums->lag_ns ? lag_ns : sums->lag_ns;
    sums->sessions += r->session_count;
    sums->pending_count += r->pending_count;
    sums->pending_bytes += r->pending_bytes;
    counters_add(&sums->relay, &r->stats, sizeof r->stats);
}

static void write_relay(FILE *out, const struct relay_sums *r)
{
    static const char trip[] = "rdzvd_relay_request_seconds";

    metric_value(out, METRIC_rdzvd_relay_upstream_connected, r->linked);
    metric_value(out, METRIC_rdzvd_relay_reconnects_total, r->reconnects);
    metric_seconds(out, METRIC_rdzvd_relay_away_seconds_total, 6, r->away_ns);
    metric_value(out, METRIC_rdzvd_relay_clients, r->sessions);
    metric_value(out, METRIC_rdzvd_relay_unconfirmed_requests, r->pending_count);
    metric_value(out, METRIC_rdzvd_relay_unconfirmed_bytes, r->pending_bytes);
    metric_seconds(out, METRIC_rdzvd_relay_lag_seconds, 6, r->lag_ns);
    metric_value(out, METRIC_rdzvd_relay_requests_shared_total, r->relay.shared);
    metric_value(out, METRIC_rdzvd_relay_requests_resumed_total, r->relay.resumed);
    metric_head(out, METRIC_rdzvd_relay_clients_lost_total);
    for (int i = 0; i < LOSSES; i++)
        metric_line(out, METRIC_rdzvd_relay_clients_lost_total, r->relay.lost[i], "reason=\"%s\"",
                    relay_loss_name((enum relay_loss)i));
    metric_head(out, METRIC_rdzvd_relay_request_seconds);
    fprintf(out, "%s_sum %.6f\n%s_count %" PRIu64 "\n", trip, (double)r->relay.confirmed_ns / 1e9,
            trip, r->relay.confirmed);
    metric_value(out, METRIC_rdzvd_relay_http_requests_total, r->http.requests);
    metric_value(out, METRIC_rdzvd_relay_http_retried_total, r->http.retried);
    metric_value(out, METRIC_rdzvd_relay_http_cut_total, r->http.cut);
    metric_value(out, METRIC_rdzvd_relay_http_unavailable_total, r->http.unavailable);
    metric_value(out, METRIC_rdzvd_relay_http_watches_moved_total, r->http.watches_moved);
}

static void write_forwards(FILE *out, const struct forwards *f)
{
    struct relay_sums sums = {.linked = true};
    uint64_t now_ns = clock_monotonic_ns(f->net->engine->options.clock);

    for (size_t i = 0; i < f->count; i++) {
        f->list[i].relay.now_ns = now_ns;
        add_relay(&sums, &f->list[i].relay);
        sums.reconnects += f->list[i].upstream.reconnects;
        counters_add(&sums.http, &f->list[i].http.stats, sizeof sums.http);
    }
    write_relay(out, &sums);
}

/* --- What only a store counts. --- */

static void write_links(FILE *out, const struct stats *stats)
{
    metric_value(out, METRIC_rdzvd_relay_links, stats->relay_links);
    metric_head(out, METRIC_rdzvd_relay_sessions);
    metric_line(out, METRIC_rdzvd_relay_sessions, stats->sessions_attached, "state=\"attached\"");
    metric_line(out, METRIC_rdzvd_relay_sessions, stats->sessions_detached, "state=\"detached\"");
    metric_value(out, METRIC_rdzvd_relay_sessions_resumed_total, stats->sessions_resumed);
    metric_value(out, METRIC_rdzvd_relay_sessions_timed_out_total, stats->sessions_timed_out);
}

static void write_store_counts(FILE *out, const struct net *n)
{
    const struct stats *stats = &n->engine->stats;

    metric_value(out, METRIC_rdzvd_space_limit_bytes, n->engine->options.space_bytes_max);
    write_links(out, stats);
    metric_value(out, METRIC_rdzvd_torch_writes_merged_total, stats->jobs.writes_merged);
    metric_value(out, METRIC_rdzvd_torch_rounds_completed_total, stats->jobs.rounds_completed);
    metric_histogram(out, METRIC_rdzvd_torch_round_seconds, &stats->rounds, RECOVERY_FIRST_NS);
    metric_histogram(out, METRIC_rdzvd_torch_recovery_seconds, &stats->recoveries,
                     RECOVERY_FIRST_NS);
    metric_value(out, METRIC_rdzvd_torch_runs_closed_total, stats->jobs.runs_closed);
    metric_value(out, METRIC_rdzvd_torch_runs_failed_total, stats->jobs.runs_failed);
    metric_value(out, METRIC_rdzvd_torch_runs_stopped_total, stats->jobs.runs_stopped);
    metric_value(out, METRIC_rdzvd_torch_nodes_disconnected_total, stats->jobs.nodes_disconnected);
    metric_value(out, METRIC_rdzvd_torch_nodes_silent_total, stats->jobs.nodes_silent);
    metric_value(out, METRIC_rdzvd_torch_restarts_total, stats->jobs.restarts_asked);
    metric_value(out, METRIC_rdzvd_torch_runs_repaired_total, stats->jobs.runs_repaired);
    write_journal(out, n->engine);
}

/* --- The answer: it must also work when malloc() has little left. --- */

/* What a request is charged for the system calls that it takes. */
#define METRICS_COST (32u << 10)

typedef void metric_write_fn(FILE *out, const struct http_request *r, const void *arg);

/* NULL: there is no memory for it. The caller frees the text. */
static char *metric_text(const struct http_request *r, metric_write_fn *write, const void *arg,
                         size_t *len)
{
    char *text = NULL;
    FILE *out = open_memstream(&text, len);

    if (out == NULL)
        return NULL;
    write(out, r, arg);
    if (fclose(out) == 0)
        return text;
    free(text);
    return NULL;
}

/* Answers with the text that `write` writes, which is given `arg`; 500 if there is no memory for
 * it. The connection is charged `cost` beside the length of the text. */
static void metric_reply(const struct http_request *r, uint64_t cost, metric_write_fn *write,
                         const void *arg)
{
    size_t len = 0;
    char *text;

    account_give_spare();
    text = metric_text(r, write, arg, &len);
    conn_charge(r->conn, METRICS_COST + cost + len);
    if (text == NULL)
        reply_send(r, &(struct reply){.status = 500});
    else
        reply_send(r, &(struct reply){
                          .status = 200,
                          .content_type = "text/plain; version=0.0.4; charset=utf-8",
                          .body = {(const uint8_t *)text, len},
                      });
    free(text);
    account_keep_spare();
}

/* --- Without spaces: a relay, and a replica that does not lead. --- */

/* The charge of a relay's /metrics per client, for the search for the oldest request. */
#define CLIENT_COST 8u

static void write_own_metrics(FILE *out, const struct http_request *r, const void *)
{
    bool is_relay = config_is_relay(r->http->config);

    metrics_write_daemon(out, r, is_relay ? "relay" : "standby", health_is_ready(r));
    write_journal(out, http_engine(r));
    if (r->http->forwards != NULL)
        write_forwards(out, r->http->forwards);
    metrics_write_process(out, http_engine(r));
}

void admin_own_metrics_handle(const struct http_request *r)
{
    bool is_relay = config_is_relay(r->http->config);

    metric_reply(r, is_relay ? CLIENT_COST * r->http->forwards->list[0].relay.session_count : 0,
                 write_own_metrics, NULL);
}

/* --- A store. --- */

struct metrics_job {
    struct http_job job; /* the first member */
    struct metric_spaces spaces;
    bool with_daemon;
};

static void write_store_metrics(FILE *out, const struct http_request *r, const void *arg)
{
    const struct metrics_job *j = arg;
    const struct net *n = conn_net(r->conn);

    write_etcd_space(out, r);
    metric_spaces_write(out, &j->spaces);
    if (!j->with_daemon)
        return;
    metrics_write_daemon(out, r, "store", health_is_ready(r));
    write_etcd_server(out, r->http);
    write_store_counts(out, n);
    if (r->http->forwards != NULL)
        write_forwards(out, r->http->forwards);
    metrics_write_process(out, n->engine);
}

static void metrics_job_free(struct http_job *job)
{
    struct metrics_job *j = (struct metrics_job *)(void *)job; /* its first member */

    run_walk_end(&j->spaces.walk);
    account_free(ACCOUNT_ANSWERS, j, sizeof *j);
}

static enum http_job_state metrics_job_run(struct http_job *job, const struct http_request *r)
{
    struct metrics_job *j = (struct metrics_job *)(void *)job;
    bool is_whole;

    account_begin_watching(); /* in each slice; the session does it only for the first one */
    is_whole = run_walk_continue(&j->spaces.walk, HTTP_SLICE_NS);
    if (is_whole)
        metric_reply(r, 0, write_store_metrics, j);
    account_end_watching();
    return is_whole ? HTTP_JOB_DONE : HTTP_JOB_CONTINUES;
}

/* It may use the memory that is kept in reserve: the metrics must tell that memory is short. */
static struct metrics_job *metrics_job_new(void)
{
    struct metrics_job *j;

    account_give_spare();
    j = account_request(ACCOUNT_ANSWERS, ACCOUNT_SMALL, sizeof *j);
    account_keep_spare();
    return j;
}

void admin_metrics_handle(const struct http_request *r)
{
    struct metrics_job *j = metrics_job_new();
    bool all_spaces = http_shows_all_spaces(r);

    if (j == NULL) {
        reply_no_memory(r);
        return;
    }
    j->job = (struct http_job){.run = metrics_job_run, .free = metrics_job_free, .no_use = true};
    j->with_daemon = http_shows_daemon(r, all_spaces);
    metric_spaces_begin(&j->spaces, http_engine(r), all_spaces ? NULL : r->space);
    http_run_job(r, &j->job);
}
