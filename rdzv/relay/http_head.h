/* Heads on their way through a relay: what of a request goes on to the store, and what of an answer
 * to the client. Header fields that are about one connection alone stay here (RFC 9110, 7.6.1):
 * each side of the relay has connections of its own, kept open by rules of its own. Pure. */
#pragma once

#include "proto/http_answer.h"

/* The head of a request, as the relay sends it: HTTP/1.1, the Host as it came, and the length of
 * the body if there is one. `watch`: with a waitIndex of 0, which is none, before all of its query,
 * where the first one counts. */
void relay_write_request(struct writer *w, const struct http_head *head, size_t body_len,
                         bool watch);

/* Sets the waitIndex of such a head, in place. */
void relay_set_wait_index(uint8_t *request, size_t len, uint64_t index);

/* The head of an answer, as the client gets it: one of HTTP/1.minor, to which `keep_alive` says
 * that its connection stays. */
void relay_write_answer(struct writer *w, unsigned minor, bool keep_alive,
                        const struct http_answer *answer);
