/* A replica that does not lead. See standby.h for the contract. */
#include "rdzv/admin/standby.h"

#include "rdzv/admin/health.h"
#include "rdzv/admin/metric_daemon.h"
#include "rdzv/admin/metric_journal.h"
#include "rdzv/admin/relay_status.h"

/* What a request is charged for the system calls that it takes. */
#define METRICS_COST (32u << 10)

void standby_refuse_handle(const struct http_request *r)
{
    reply_unavailable(r, "this replica does not lead; see /readyz");
}

void standby_metrics_handle(const struct http_request *r)
{
    const struct net *n = conn_net(r->conn);
    const struct daemon_state state = {.role = "standby",
                                       .is_ready = health_is_ready(n, r->http->forwards)};
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    bool ok = out != NULL;

    if (ok) {
        metrics_write_daemon(out, n, r->http->routes, &state);
        metrics_write_journal(out, n->engine);
        if (r->http->forwards != NULL)
            metrics_write_forwards(out, r->http->forwards);
        metrics_write_process(out, n->engine);
        ok = fclose(out) == 0;
    }
    conn_charge(r->conn, METRICS_COST + len);
    if (ok)
        reply_send(r, &(struct reply){.status = 200,
                                      .content_type = "text/plain; version=0.0.4; charset=utf-8",
                                      .body = {(const uint8_t *)text, len}});
    else
        reply_send(r, &(struct reply){.status = 500});
    free(text);
}
