/* A protocol as connections know it: a table of functions. A connection asks each protocol of its
 * net, in order, whether it recognizes the received bytes; the first that does keeps the connection
 * until its end. */
#pragma once

#include "proto/bytes.h"

struct conn;
struct wake;

/* What a protocol did with the received bytes. */
enum protocol_result {
    PROTOCOL_MORE,     /* used what it could, and needs more */
    PROTOCOL_SKIPPING, /* the same, and drops what comes next: a body that it does not want */
    PROTOCOL_PARKED, /* does not look at input until input_unpark() or input_process(), but the peer
                        is read */
    PROTOCOL_HELD,   /* the same, and the peer is not read */
    PROTOCOL_PAUSED, /* the output limit is reached: the rest of the input waits for room */
    PROTOCOL_DEFERRED, /* the rest waits for a later iteration: the budget is used up */
    PROTOCOL_ENDED,    /* the connection is finishing or closed */
};

/* How far it came; both count from the start of the received bytes. */
struct protocol_progress {
    size_t used; /* bytes that are done with */
    size_t need; /* bytes that the request behind them needs at least; 0: one more than are here */
};

struct protocol {
    const char *name; /* for logs: "http" */
    /* A client may send a request before it has read the last answer. If it may not, a client whose
     * output queue is full does not read its answers. */
    bool pipelines;
    /* True if a client may send any number of bytes behind a parked request: beyond a small buffer,
     * the bytes stay in the socket until the request resumes. False: such a client is dropped. */
    bool runs_ahead;
    void *arg; /* the protocol's own */

    /* Decides by the first bytes of a connection (at least one) whether its client speaks this
     * protocol. PARSE_DONE: yes, and the session has begun. PARSE_MORE: not clear before *need
     * bytes are here. PARSE_BAD: no, and *why may name the foreign protocol; or this call has
     * dropped the connection. */
    enum parse_result (*begin)(const struct protocol *p, struct conn *c, struct slice in,
                               struct protocol_progress *progress, const char **why);

    /* Carries out the whole requests at the start of `in`, whose bytes it may change (chunked
     * bodies are decoded in place). Nothing is kept of `in` behind `used`; it is shown again. */
    enum protocol_result (*read)(struct conn *c, uint8_t *in, size_t len,
                                 struct protocol_progress *progress);

    /* The peer has sent its last byte. True: the connection stays open to send what is queued. */
    bool (*eof)(struct conn *c);

    /* True while a request is executed and has no answer yet: a daemon that stops waits for the
     * answer. NULL if the protocol has no such requests. */
    bool (*is_busy)(const struct conn *c);

    /* The daemon stops, and the session is not busy: ends an endless reply, such as a stream of
     * events. The caller finishes the connection. NULL if the protocol has no endless replies. */
    void (*stop)(struct conn *c);

    /* A change woke something of this session: queues what it waited for. */
    void (*resume)(struct conn *c, struct wake *wake);

    /* The peer had stopped reading, and has now received the whole queue. NULL if no session of the
     * protocol waits for this. */
    void (*drained)(struct conn *c);

    /* Unregisters everything that the session waits for, and frees it. NULL: it has no session. */
    void (*end)(struct conn *c);

    /* What is spoken, for logs: "c10d-modern". NULL: `name` says it. */
    const char *(*version)(const struct conn *c);
};
