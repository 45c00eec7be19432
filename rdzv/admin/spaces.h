/* The spaces of the daemon, and what can be done to them.
 *
 * A listener shows its own space alone, but to operators (access.h).
 *
 *     GET /rdzv/v1/spaces           {"spaces":[{"name":…,"keys":…,"bytes":…,"queues":…,
 *                                   "etcd_nodes":…,"connections":…},…]}; the connections are those
 *                                   that speak c10d
 *     DELETE /rdzv/v1/spaces/NAME   empties a space:
 *                                   {"space":NAME,"removed":N}, N being its keys, queues and etcd
 *                                   nodes
 *     …/NAME/runs                   see runs.h
 */
#pragma once

#include "rdzv/http/reply.h"

void admin_spaces_handle(const struct http_request *r);
