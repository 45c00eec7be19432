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

/* Once at the start: warns when the token's file is of no use. */
void admin_check_token_file(const struct config *config);
