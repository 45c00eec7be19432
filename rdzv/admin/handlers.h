/* What the daemon says of itself over HTTP: probes, metrics, the status page, and /rdzv/v1.
 * rdzv/routes.c has the paths. */
#pragma once

#include "rdzv/http/reply.h"

/* --- Probes, health.c. Their checks are written as Kubernetes writes its own: 503 if a check has
 * failed; ?verbose names all checks; ?exclude=NAME, once or more often, ignores that one. --- */

/* GET /livez: the loop runs. */
void admin_livez_handle(const struct http_request *r);

/* GET /readyz of a store: the store accepts clients. 503 while it shuts down, or while another
 * replica leads and the link to that replica is missing. `?exclude=leader` also takes a replica
 * that could lead. Of a relay: 503 while it shuts down, and until it has reached a store for the
 * first time. If the store goes away later, the relay stays ready, since it holds its clients'
 * requests: a pod must not be restarted, or lose its name in DNS, because its store restarts.
 * ?verbose says how long the store has been away. */
void admin_readyz_handle(const struct http_request *r);

/* GET /startz of a relay: 503 until the relay has reached a store and, with --exit-on-restart,
 * until all relays of the run are here. */
void relay_startz_handle(const struct http_request *r);

/* What /readyz of the daemon that has the request says. */
bool health_is_ready(const struct http_request *r);
/* Of a store; `forwards` is that of its struct http. */
bool health_is_store_ready(const struct net *n, const struct forwards *forwards);

/* A replica that does not lead answers most requests with 503, and the reason that /readyz has. */
void standby_refuse_handle(const struct http_request *r);

/* --- GET /metrics, metrics.c: in Prometheus's text format. --- */

/* Of a store: etcd's names, as far as they mean something here, of the listener's space; our own of
 * the spaces that the request may see; and, if it may see them (http/access.h), those of the whole
 * daemon, and of the process as every exporter has them. */
void admin_metrics_handle(const struct http_request *r);

/* Of a relay, and of a replica that does not lead: without keys, which are the store's. */
void admin_own_metrics_handle(const struct http_request *r);

/* --- The status page, page.c. --- */

/* GET /: one HTML file that shows /rdzv/v1/status and its changes. Its sources are in page/. A
 * relay serves it as well, so that it opens while the store is away. */
void admin_page_handle(const struct http_request *r);

/* --- /rdzv/v1. A listener shows its own space; an operator sees all spaces. --- */

/* spaces.c: a space, and one run of torch over c10d in it.
 *     DELETE /rdzv/v1/spaces/NAME              empties the space: {"space":NAME,"removed":N}, N
 *                                              being its keys, queues and etcd nodes
 *     GET /rdzv/v1/spaces/NAME/runs/ID?rank=N  the node of its round with that rank, as the status
 *                                              lists nodes: for runs that have more nodes than
 *                                              their status lists
 *     DELETE /rdzv/v1/spaces/NAME/runs/ID      forgets the run and ends its agents' connections:
 *                                              {"run":ID,"removed":N}, N being its keys */
void admin_spaces_handle(const struct http_request *r);

/* status.c: how the runs stand, for operators and for the status page.
 *     GET /rdzv/v1/status               the daemon, and each space that may be seen here
 *     GET /rdzv/v1/spaces/NAME/status   one of these spaces
 * Each with ?watch=true: server-sent events, see status.h. */
void admin_status_handle(const struct http_request *r);

/* `single`: that space alone, and nothing of the daemon. Else `space` NULL means all. */
void admin_status_reply(const struct http_request *r, const struct engine_space *space,
                        bool single);

/* monitor.c: GET /rdzv/v1/monitor: requests as they are carried out, see monitor.h. */
void admin_monitor_handle(const struct http_request *r);
