/* Torch's runs over HTTP, for operators: /rdzv/v1/spaces/NAME/runs. */
#pragma once

#include "rdzv/http/reply.h"

/* `rest` is what stands behind "runs": empty, or "/R". `space` is NULL when there is none of that
 * name, which `name` is. Replies. */
void runs_api_handle(const struct http_request *r, struct space *space, struct slice name,
                     struct slice rest);

/* True when a request may change what others rely on: it comes from this machine and not from a web
 * page that a browser shows here. Otherwise it has been answered why not. */
bool runs_api_may_change(const struct http_request *r);
