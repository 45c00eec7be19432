/* What a request may see of the daemon as a whole. */
#pragma once

#include "rdzv/http/reply.h"

/* A listener shows its own space alone, to whoever may come there. Operators see all spaces, as do
 * those who come to a listener for metrics. Asked once for a request: a wrong token counts. */
bool admin_shows_all_spaces(const struct http_request *r);

/* Are the numbers of the whole daemon shown, given whether all spaces are? They name no space, but
 * with several spaces they tell of all of them: then only to those who see all, and in the space of
 * the first listener, for whoever watches the daemon. */
bool admin_shows_daemon(const struct http_request *r, bool all_spaces);
