/* HTTP through a relay: the relay passes each request that is not about itself to its store, and
 * the answer back, over separate connections (http_store.h). A client of etcd that talks to a relay
 * notices a restart of the store only by the time that it takes:
 *
 * - While the store is away, requests are held for up to RELAY_HTTP_WAIT_MS; then they get a 503,
 *   and below /v2/keys an error of etcd's form.
 * - A request whose connection broke is retried only if that is safe. An incomplete request is
 * safe, since the store executes only whole requests. So is a request that only reads, as long as
 * the client has got no byte of the answer. One kind of change is retried, too: a refresh
 * (`refresh=true`, without prevIndex). It sets a TTL and no value, tells no watch, and its client
 * wants the key to live from now on for that time: said twice, that is said once, later; and
 * clients that hold a lease (torch's etcd rendezvous is one) lose it with one failed refresh.
 * - Other requests are not sent again, since the store may have executed them: the client's
 *   connection ends, as etcd's would. The same holds for conditional requests. With
 * prevIndex, prevValue or prevExist=false a repeat changes nothing if the first was carried out,
 * but its answer then says that it failed: whoever has just got a lock would take it for somebody
 * else's.
 * - A watch goes on where it was (http_text.h). If that cannot be, since the store's history does
 *   not reach back, or the store has lost its memory, the client's connection ends, and the client
 *   reads and watches again, as after an end of etcd.
 *
 * A request is kept until its answer begins, since the relay may have to repeat it: with its body
 * it may be as large as the store allows (--http-form-limit). Answers are passed on as they arrive;
 * the store is not read while a client has more than RELAY_HTTP_AHEAD unread. */
#pragma once

#include "rdzv/http/reply.h"
#include "rdzv/relay/http_store.h"

/* What a client may leave unread of an answer before the store is not read. */
#define RELAY_HTTP_AHEAD (256u << 10)

void relay_http_init(struct relay_http *h, const struct relay_http_options *options);

/* All connections of clients have ended. */
void relay_http_fini(struct relay_http *h);

/* Passes on the request of a client; from within its endpoint. */
void relay_http_pass(struct relay_http *h, const struct http_request *r);

/* Sends each held request if there is a connection for it, and refuses those held for wait_ms. Call
 * it when a store is connected, and from the timer. */
void relay_http_try_held(struct relay_http *h);

/* Requests that are held get a 503 now, and watches end. */
void relay_http_give_up(struct relay_http *h);
