/* c10d as a client speaks it, in the modern version: requests from structs to bytes, answers from
 * bytes to structs. c10d.h has the other direction, and the names and limits.
 *
 * An answer says neither how long it is nor what it answers: who reads it knows what was asked. */
#pragma once

#include "proto/c10d.h"

#define C10D_HELLO_LEN 10

/* What opens a connection: VALIDATE and PING. The answer is that of PING: the nonce. */
void c10d_write_hello(struct writer *w, uint32_t nonce);

/* Writes one request, as c10d_parse() reads it: `items` of a list is what c10d_write_blob() wrote,
 * `count` entries (a key and its value are one entry of a MULTI_SET). `op` belongs to the modern
 * version, and is not VALIDATE. */
void c10d_write_request(struct writer *w, const struct c10d_request *req);

/* A key or a value: its length, then its bytes. */
void c10d_write_blob(struct writer *w, struct slice blob);
/* The same of bytes that lie in two places: a prefix and the rest of a key. */
void c10d_write_joined(struct writer *w, struct slice head, struct slice tail);

/* False: a SET, APPEND, MULTI_SET or QUEUE_PUSH, which no server answers. */
bool c10d_is_answered(enum c10d_op op);

struct c10d_reply {
    int64_t number; /* ADD: the sum. GETNUMKEYS, QUEUE_LEN: how many. DELETE_KEY: 1, or 0. PING: the
                     * nonce. QUEUE_POP: how many there were. CHECK, WAIT, CANCEL_WAIT, BARRIER: the
                     * byte, C10D_READY and so on */
    struct slice value; /* GET, COMPARE_SET, QUEUE_POP */
    uint64_t count;     /* MULTI_GET, LIST_KEYS: entries in `items` */
    struct slice items; /* a list, checked; c10d_next_blob() walks it */
};

/* The largest sizes that a client accepts. A server that announces more is broken or hostile. */
struct c10d_reply_limits {
    size_t value_max; /* bytes of one value or key */
    size_t reply_max; /* bytes of a whole answer */
};

/* Parses the answer to a request of `op` from the start of `in`. `asked` is how many keys a
 * MULTI_GET had. `progress` is as in c10d_parse(). PARSE_DONE: *out is filled, its slices point
 * into `in`, *size is the answer's length (0 where no server answers), *progress is zero again.
 * PARSE_MORE: call again with the same progress when `in` has at least *size bytes. PARSE_BAD: no
 * such answer; the connection is lost. *out is untouched unless PARSE_DONE. */
enum parse_result c10d_parse_reply(struct slice in, enum c10d_op op, uint64_t asked,
                                   const struct c10d_reply_limits *limits,
                                   struct c10d_progress *progress, struct c10d_reply *out,
                                   size_t *size);
