/* /metrics in Prometheus's text format. See metrics.h. */
#include "rdzv/admin/metrics.h"

#include "rdzv/admin/access.h"
#include "rdzv/admin/health.h"
#include "rdzv/admin/metric.h"
#include "rdzv/admin/metric_daemon.h"
#include "rdzv/admin/metric_etcd.h"
#include "rdzv/admin/metric_journal.h"
#include "rdzv/admin/metric_spaces.h"
#include "rdzv/admin/relay_status.h"
#include "rdzv/http/job.h"

/* --- What only a store counts. --- */

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

static void write_store(FILE *out, const struct net *n)
{
    const struct stats *stats = &n->engine->stats;

    metric_gauge(out, "rdzvd_space_limit_bytes",
                 "What each space may hold, see --space-limit; 0: there is no limit.",
                 n->engine->options.space_bytes_max);
    write_relays(out, stats);
    metric_counter(out, "rdzvd_torch_writes_merged_total",
                   "Writes of torch's agents that were merged instead of refused.",
                   stats->writes_merged);
    metric_counter(out, "rdzvd_torch_rounds_completed_total",
                   "Rounds of torch's runs that were completed.", stats->rounds_completed);
    metric_head(out, "rdzvd_torch_round_seconds", "histogram",
                "From the begin of a round until it was complete, over all backends.");
    metric_durations(out, "rdzvd_torch_round_seconds", "", &stats->rounds, RECOVERY_FIRST_NS);
    metric_head(out, "rdzvd_torch_recovery_seconds", "histogram",
                "From when a node was lost until a round was complete again.");
    metric_durations(out, "rdzvd_torch_recovery_seconds", "", &stats->recoveries,
                     RECOVERY_FIRST_NS);
    metric_counter(out, "rdzvd_torch_runs_closed_total", "Runs that an agent has closed.",
                   stats->runs_closed);
    metric_counter(out, "rdzvd_torch_runs_failed_total",
                   "Runs that an agent has closed because its workers failed.", stats->runs_failed);
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
    metrics_write_journal(out, n->engine);
}

/* --- The request. --- */

struct metrics_job {
    struct http_job job; /* the first member */
    struct metric_spaces spaces;
    bool with_daemon;
};

static void write_all(FILE *out, const struct http_request *r, const void *arg)
{
    const struct metrics_job *j = arg;
    const struct net *n = conn_net(r->conn);
    const struct daemon_state state = {.role = "store",
                                       .is_ready = health_is_ready(n, r->http->forwards)};

    metrics_write_etcd(out, r);
    metric_spaces_write(out, &j->spaces);
    if (!j->with_daemon)
        return;
    metrics_write_daemon(out, n, r->http->routes, &state);
    metrics_write_etcd_server(out, r->http);
    write_store(out, n);
    if (r->http->forwards != NULL)
        metrics_write_forwards(out, r->http->forwards);
    metrics_write_process(out, http_engine(r));
}

static void free_job(struct http_job *job)
{
    struct metrics_job *j = (struct metrics_job *)(void *)job; /* its first member */

    metric_spaces_end(&j->spaces);
    account_free(ACCOUNT_ANSWERS, j, sizeof *j);
}

static enum http_job_state run_job(struct http_job *job, const struct http_request *r)
{
    struct metrics_job *j = (struct metrics_job *)(void *)job;

    if (!metric_spaces_go_on(&j->spaces, HTTP_SLICE_NS))
        return HTTP_JOB_GOES_ON;
    metric_reply(r, 0, write_all, j);
    return HTTP_JOB_DONE;
}

/* The slices after the first one, which is a part of admin_metrics_handle(). */
static enum http_job_state go_on(struct http_job *job, const struct http_request *r)
{
    enum http_job_state state;

    account_begin_watching();
    state = run_job(job, r);
    account_end_watching();
    return state;
}

/* It is larger than a page, so what is kept for metrics is for it, too. */
static struct metrics_job *request_job(void)
{
    struct metrics_job *j;

    account_give_spare();
    j = account_request(ACCOUNT_ANSWERS, ACCOUNT_SMALL, sizeof *j);
    account_keep_spare();
    return j;
}

void admin_metrics_handle(const struct http_request *r)
{
    struct metrics_job *j = request_job();
    bool all_spaces = admin_shows_all_spaces(r);

    if (j == NULL) {
        reply_no_memory(r);
        return;
    }
    j->job = (struct http_job){.run = go_on, .free = free_job, .no_use = true};
    j->with_daemon = admin_shows_daemon(r, all_spaces);
    metric_spaces_begin(&j->spaces, http_engine(r), all_spaces ? NULL : r->space);
    if (run_job(&j->job, r) == HTTP_JOB_GOES_ON)
        http_start_job(r, &j->job, HTTP_JOB_GOES_ON);
    else
        free_job(&j->job);
}
