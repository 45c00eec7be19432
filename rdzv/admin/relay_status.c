/* /readyz and /metrics of a relay. See relay_status.h for the contract. */
#include "rdzv/admin/relay_status.h"

#include "rdzv/admin/health.h"
#include "rdzv/admin/metric.h"
#include "rdzv/admin/metric_daemon.h"
#include "rdzv/relay/forward.h"

/* What /metrics is charged for each client: the search for the oldest request. */
#define CLIENT_COST 8u

/* Of a relay, which has one. */
static const struct upstream *upstream_of(const struct http_request *r)
{
    return &r->http->forwards->list[0].upstream;
}

static bool is_ready(const struct net *n, const struct upstream *u)
{
    return !n->draining && health_has_listener(n) && u->relay->welcomed;
}

void relay_readyz_handle(const struct http_request *r)
{
    const struct net *n = conn_net(r->conn);
    const struct upstream *u = upstream_of(r);
    char says[UPSTREAM_SAYS_MAX];
    const struct health_check checks[] = {
        {"loop", true, NULL},
        {"listeners", n->draining || health_has_listener(n), NULL},
        {"shutdown", !n->draining, NULL},
        {"upstream", u->relay->welcomed, upstream_says(u, says)},
    };

    health_reply(r, "readyz", checks, sizeof checks / sizeof checks[0]);
}

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
    sums->relay.resumed += r->stats.resumed;
    sums->relay.confirmed += r->stats.confirmed;
    sums->relay.confirmed_ns += r->stats.confirmed_ns;
    for (int i = 0; i < LOSSES; i++)
        sums->relay.lost[i] += r->stats.lost[i];
}

static void add_http(struct relay_http_stats *sum, const struct relay_http_stats *s)
{
    sum->requests += s->requests;
    sum->retried += s->retried;
    sum->cut += s->cut;
    sum->unavailable += s->unavailable;
    sum->watches_moved += s->watches_moved;
}

static void write_relay(FILE *out, const struct relay_sums *r)
{
    static const char trip[] = "rdzvd_relay_request_seconds";
    static const char lost[] = "rdzvd_relay_clients_lost_total";

    metric_gauge(out, "rdzvd_relay_upstream_connected",
                 "1 while the relay has a link to its store, a replica one for each space.",
                 r->linked);
    metric_counter(out, "rdzvd_relay_reconnects_total", "Links but the first.", r->reconnects);
    metric_head(out, "rdzvd_relay_away_seconds_total", "counter",
                "How long the store was away, in all, since it was there for the first time.");
    fprintf(out, "rdzvd_relay_away_seconds_total %.6f\n", (double)r->away_ns / 1e9);
    metric_gauge(
        out, "rdzvd_relay_clients",
        "c10d clients of the relay, and those that have gone while the store has to be told.",
        r->sessions);
    metric_gauge(out, "rdzvd_relay_unconfirmed_requests",
                 "Requests that the store has not confirmed, with open waits.", r->pending_count);
    metric_gauge(out, "rdzvd_relay_unconfirmed_bytes", "Bytes of those, without open waits.",
                 r->pending_bytes);
    metric_head(out, "rdzvd_relay_lag_seconds", "gauge",
                "Age of the oldest request that the store should have confirmed by now: of waits, "
                "those that it has not got, since the link was lost.");
    fprintf(out, "rdzvd_relay_lag_seconds %.6f\n", (double)r->lag_ns / 1e9);
    metric_counter(out, "rdzvd_relay_requests_resumed_total",
                   "Requests that were sent again over a new link.", r->relay.resumed);
    metric_head(
        out, lost, "counter",
        "Clients that were ended because of the store: it has ended their sessions, does not "
        "know them any more, or has gone back to an older state.");
    for (int i = 0; i < LOSSES; i++)
        fprintf(out, "%s{reason=\"%s\"} %" PRIu64 "\n", lost, relay_loss_name((enum relay_loss)i),
                r->relay.lost[i]);
    metric_head(out, trip, "summary",
                "From when a request came until the store confirmed it, without waits.");
    fprintf(out, "%s_sum %.6f\n%s_count %" PRIu64 "\n", trip, (double)r->relay.confirmed_ns / 1e9,
            trip, r->relay.confirmed);
}

static void write_http(FILE *out, const struct relay_http_stats *s)
{
    metric_counter(out, "rdzvd_relay_http_requests_total",
                   "HTTP requests that the relay has passed on, or holds.", s->requests);
    metric_counter(out, "rdzvd_relay_http_retried_total",
                   "Times that one was sent again, since its connection to the store had broken.",
                   s->retried);
    metric_counter(out, "rdzvd_relay_http_cut_total",
                   "HTTP requests whose answer the relay could not give, or not all of it.",
                   s->cut);
    metric_counter(out, "rdzvd_relay_http_unavailable_total",
                   "HTTP requests that the relay answered with 503 after 50 s without a store.",
                   s->unavailable);
    metric_counter(out, "rdzvd_relay_http_watches_moved_total",
                   "Times that a watch went on over a new connection to the store.",
                   s->watches_moved);
}

void metrics_write_forwards(FILE *out, const struct forwards *f)
{
    struct relay_sums sums = {.linked = true};
    uint64_t now_ns = clock_monotonic_ns(f->net->engine->options.clock);

    for (size_t i = 0; i < f->count; i++) {
        f->list[i].relay.now_ns = now_ns;
        add_relay(&sums, &f->list[i].relay);
        sums.reconnects += f->list[i].upstream.reconnects;
        add_http(&sums.http, &f->list[i].http.stats);
    }
    write_relay(out, &sums);
    write_http(out, &sums.http);
}

static void write_all(FILE *out, const struct http_request *r, const void *arg)
{
    const struct net *n = conn_net(r->conn);
    const struct daemon_state state = {.role = "relay", .is_ready = is_ready(n, upstream_of(r))};

    (void)arg;
    metrics_write_forwards(out, r->http->forwards);
    metrics_write_daemon(out, n, r->http->routes, &state);
    metrics_write_process(out, http_engine(r));
}

void relay_metrics_handle(const struct http_request *r)
{
    metric_reply(r, CLIENT_COST * upstream_of(r)->relay->session_count, write_all, NULL);
}
