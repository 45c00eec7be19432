/* Who is an operator: whoever comes over a Unix socket, whose file says who may, or has the token
 * of
 * --admin-token-file. An address says nothing: on a host's network, and behind a mesh's proxy,
 * neighbours come from 127.0.0.1, too. */
#pragma once

#include "rdzv/http/reply.h"

bool admin_is_operator(const struct http_request *r);

/* True when the request may change what other clients rely on: an operator's, and not from a web
 * page. Otherwise a 403 has been sent that says why. */
bool admin_may_change(const struct http_request *r);

/* A listener shows its own space alone, to whoever may come there. Operators see all spaces, as do
 * those who come to a listener for metrics. */
bool admin_shows_all_spaces(const struct http_request *r);

/* Are the numbers of the whole daemon shown? They name no space, but with several spaces they tell
 * of all of them: then only to those who see all, and in the space of the first listener, for
 * whoever watches the daemon. */
bool admin_shows_daemon(const struct http_request *r);

/* Once at the start: warns when the token's file is of no use. */
void admin_check_token_file(const struct config *config);
