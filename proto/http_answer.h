/* HTTP/1.x answers, as a relay reads those of a store: the head, and how long the body is. It is
 * strict: whatever two readers could take for different things is refused, since what follows would
 * be taken for the next answer. No I/O, no allocation: all slices point into the caller's input. */
#pragma once

#include "proto/http.h"

struct http_answer {
    unsigned status; /* 100 to 999; one below 200 is not the answer yet: the next head follows */
    unsigned minor;  /* HTTP/1.minor */
    bool keep_alive; /* another request may be sent behind it */
    enum http_body body;
    uint64_t content_length; /* as the head announces it; no body follows the answer to a HEAD */
    bool has_length;
    bool has_index;       /* X-Etcd-Index */
    uint64_t etcd_index;  /* that */
    struct slice cluster; /* X-Etcd-Cluster-Id; empty: there is none */
    struct slice reason;  /* of the status line; may be empty */
    struct slice headers; /* every header line, for http_next_header() */
};

/* Parses the head that starts at in.ptr[0]. `to_head`: the request was a HEAD, so no body follows.
 * PARSE_DONE: *out is filled, *size is the length of the head with its empty line. PARSE_MORE: call
 * again with the same start when more bytes have arrived. Each call parses the head from its start;
 * *searched, 0 at first, is the offset up to which it found no end. PARSE_BAD: it is no answer, its
 * head is longer than head_max, or the end of its body is unknowable. */
enum parse_result http_parse_answer(struct slice in, size_t head_max, bool to_head,
                                    size_t *searched, struct http_answer *out, size_t *size);

/* True for header fields of one connection, which a proxy does not pass on (RFC 9110, 7.6.1):
 * Connection, Keep-Alive, Proxy-Connection, TE, Trailer, Transfer-Encoding, Upgrade. It does not
 * read which other fields a Connection header names. */
bool http_is_hop_by_hop(struct slice name);
