/* Which requests may change what other clients rely on. */
#pragma once

#include "rdzv/http/reply.h"

/* True when the request comes from this machine, and not from a web page that a browser shows here.
 * Otherwise a 403 has been sent that says why. */
bool admin_may_change(const struct http_request *r);
