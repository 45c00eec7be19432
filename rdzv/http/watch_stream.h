/* An open watch of etcd's tree: a long poll or a stream. Each event becomes a chunk of the reply
 * when it happens. The session owns it, and calls it when it can continue. */
#pragma once

#include "rdzv/http/reply.h"
#include "store/tree/watch.h"

struct watch_stream {
    struct watch *watch; /* NULL: none is open */
    bool chunked;        /* HTTP/1.0 gets bare bytes and a close */
    bool keep_alive;     /* of the request that opened it */
};

/* Sends the head of the reply; none is open before. */
void watch_stream_open(struct watch_stream *s, const struct http_request *r, struct watch *watch,
                       uint64_t index);

/* Sends events that the watch has collected, `max` at most, as far as the client reads them. The
 * connection may end. */
void watch_stream_send(struct watch_stream *s, struct conn *c, int max);

/* Ends the reply: the connection can take its next request, or is finished. */
void watch_stream_end(struct watch_stream *s, struct conn *c);

/* Ends the watch without a word to the client. Does nothing if none is open. */
void watch_stream_close(struct watch_stream *s, struct conn *c);
