/* Torch's runs over HTTP, for operators.
 *
 *     GET /rdzv/v1/spaces/NAME/runs       {"runs":[{"id":…,"state":…,"round":…,"nodes_joined":…,
 *                                         "last_call_ends":…,"worker_store":…,"address":…,
 *                                         "port":…,"agents":…,"agents_waiting":…,
 *                                         "nodes":[{"addr":…,"pid":…,"local_id":…,"role":…,
 *                                         "rank":…,"heartbeat":…,"peer":…},…]},…]}
 *     GET /rdzv/v1/spaces/NAME/runs/R     one of them
 *     DELETE /rdzv/v1/spaces/NAME/runs/R  forgets a run and ends its agents' connections:
 *                                         {"run":R,"removed":N}, N being its keys
 *
 * A node without a peer has no connection: its agent is gone, or one that rdzvd has not heard
 * writing since it started. */
#pragma once

#include "rdzv/http/reply.h"

/* `rest` is what stands behind "runs": empty, or "/R". `space` is NULL when there is none of that
 * name, which `name` is. */
void admin_runs_handle(const struct http_request *r, struct engine_space *space, struct slice name,
                       struct slice rest);
