/* A protocol as connections know it: a table of functions. A connection asks each protocol of its
 * net, in order, whether it speaks what has come in; the first that does has the connection until
 * its end. */
#pragma once

#include "proto/bytes.h"

struct conn;
struct wake;

/* What a protocol did with the bytes it was shown. */
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

/* How far it came. Both are from the start of the bytes that were shown. */
struct protocol_progress {
    size_t used; /* bytes that are done with */
    size_t need; /* bytes that the request behind them needs at least; 0: one more than are here */
};

struct protocol {
    const char *name; /* for logs: "http" */
    /* A client may send a request before it has read the last answer. If it may not, one that fills
     * its output queue does not read. */
    bool pipelines;
    /* A client may send as much as it likes behind a request that is parked: what is more than some
     * of it is not read until then. If it may not, it is dropped. */
    bool runs_ahead;
    void *arg; /* the protocol's own */

    /* Whether the protocol begins with these bytes, of which there is at least one. PARSE_DONE: the
     * session has begun. PARSE_MORE: it may, with *need bytes. PARSE_BAD: it does not, and may say
     * in *why what was seen; or the connection is dropped already. */
    enum parse_result (*begin)(const struct protocol *p, struct conn *c, struct slice in,
                               struct protocol_progress *progress, const char **why);

    /* Carries out the whole requests at the start of `in`, whose bytes it may change (chunked
     * bodies are decoded in place). Nothing is kept of `in` behind `used`; it is shown again. */
    enum protocol_result (*read)(struct conn *c, uint8_t *in, size_t len,
                                 struct protocol_progress *progress);

    /* The peer has sent its last byte. True: the connection stays open to send what is queued. */
    bool (*eof)(struct conn *c);

    /* True: a request has begun and is not answered yet. The daemon, when it stops, waits for that.
     * NULL: there is no such thing. */
    bool (*is_busy)(const struct conn *c);

    /* The daemon stops, and the session is not busy: a reply that goes on for ever gets its end.
     * The connection is finished behind it. NULL: there are none of these. */
    void (*stop)(struct conn *c);

    /* A change woke something of this session: queues what it waited for. */
    void (*resume)(struct conn *c, struct wake *wake);

    /* The peer did not read for a while, and now all that was queued for it is sent. NULL: the
     * session does not wait for that. */
    void (*drained)(struct conn *c);

    /* Unregisters everything that the session waits for, and frees it. */
    void (*end)(struct conn *c);

    /* What is spoken, for logs: "c10d-modern". */
    const char *(*version)(const struct conn *c);
};
