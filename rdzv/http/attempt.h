/* Passwords and tokens that a request has, and the waits between wrong ones (net/backoff.h). */
#pragma once

#include "rdzv/http/reply.h"

/* May what the request shows be looked at? False: its address has sent wrong ones, and not waited;
 * that has been counted and logged. `scope`: what they are for, such as the space. */
bool http_may_attempt(const struct http_request *r, const void *scope);

/* The same without a count and a line in the log. */
bool http_is_held_off(const struct http *http, const struct peer *peer, const void *scope);

/* Have wrong ones come from its address, not too long ago? */
bool http_is_suspect(const struct http_request *r, const void *scope);

/* It was wrong: a refusal for that reason, and a wait. `detail` as in refusal_note(). */
void http_attempt_failed(const struct http_request *r, const void *scope, enum refusal_reason why,
                         struct slice detail);
