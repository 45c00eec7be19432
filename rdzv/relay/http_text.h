/* HTTP's text on its way through a relay: the heads of requests and answers, and the events of a
 * watch. Pure. */
#pragma once

#include "proto/http_answer.h"

/* --- Heads: header fields that are about one connection stay here (RFC 9110, 7.6.1), since each
 * side of the relay has connections of its own, kept open by rules of its own. --- */

/* The request that the relay sends: HTTP/1.1, the original Host, and the length of the body if it
 * has one. `watch`: puts a waitIndex of 0, which means none, before the rest of its query, since
 * the first one counts. */
void relay_write_request(struct writer *w, const struct http_head *head, struct slice body,
                         bool watch);

/* Sets the waitIndex of such a head, in place. */
void relay_set_wait_index(uint8_t *request, size_t len, uint64_t index);

/* The head of an answer for the client: HTTP/1.minor; `keep_alive`: the connection stays. */
void relay_write_answer(struct writer *w, unsigned minor, bool keep_alive,
                        const struct http_answer *answer);

/* --- Watches. --- */

/* The progress of a watch as its relay sees it: enough to continue the watch on a restarted store,
 * so that the client gets each event once and whole.
 *
 * The body of a watch is events, each one JSON object and a line feed; in no JSON text is another
 * line feed. An event's index is the first "modifiedIndex" in it, the one of its node: within a
 * string a quote has a backslash before it, so these characters cannot be part of a value.
 *
 * A watch goes on with waitIndex = the last whole event's + 1. Before there was one: what the
 * client asked for, else the X-Etcd-Index of the first head + 1, since that is what "from now on"
 * was. Of an event of which the client has a part, the same event comes again, and that part is
 * left out; a checksum tells whether it is the same. */
struct watch_trace {
    uint64_t asked;    /* the waitIndex of the request; 0: none */
    uint64_t from;     /* the X-Etcd-Index of the first head */
    uint64_t last;     /* of the last whole event; 0: none */
    uint64_t current;  /* of the current event, as far as its digits have arrived */
    uint64_t partial;  /* bytes of it that have passed */
    uint32_t sum;      /* of those */
    uint64_t skip;     /* bytes of the current event that the client already has */
    uint32_t skip_sum; /* of those */
    uint8_t matched;   /* characters of the name that were seen just now */
    uint8_t reading;   /* of the number */
};

/* The waitIndex to go on with. */
uint64_t watch_trace_next(const struct watch_trace *t);

/* The body starts again, at the next event. */
void watch_trace_restart(struct watch_trace *t);

/* Takes the bytes of one event from the front of *in. *out becomes the part that the client lacks.
 * *whole: the event ends here, and t->last is its index. False: the store sent another event than
 * before its restart, so the client cannot continue. */
bool watch_trace_take(struct watch_trace *t, struct slice *in, struct slice *out, bool *whole);
