/* Who may change what others rely on. */
#pragma once

#include "rdzv/http/reply.h"

/* True when the request comes from this machine, and not from a web page that a browser shows here.
 * Otherwise it has been answered why not. */
bool admin_may_change(const struct http_request *r);
