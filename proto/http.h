/* HTTP/1.x requests: the head, and how long the body is. It reads what Go's net/http reads, and where
 * that refuses, says so in the same words, since etcd's clients have been talking to it. No I/O, no
 * allocation, no clock: every slice points into the caller's input and ends with it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/bytes.h"
#include "proto/url.h"

#define HTTP_HEAD_MAX ((1u << 20) + 4096u) /* Go's limit for one head */
#define HTTP_CHUNK_LINE_MAX 4096u          /* a chunk's size with its extensions, line end included */
#define HTTP_TRAILER_MAX 4096u             /* the trailers behind the last chunk */

struct http_limits {
    size_t head_max; /* bytes of request line and headers, with the empty line */
};

enum http_method {
    HTTP_OTHER, /* see the slice; methods are case sensitive */
    HTTP_GET,
    HTTP_HEAD,
    HTTP_PUT,
    HTTP_POST,
    HTTP_DELETE,
    HTTP_OPTIONS,
    HTTP_CONNECT,
    HTTP_PATCH,
};

enum http_body {
    HTTP_BODY_NONE,   /* the next request follows the head */
    HTTP_BODY_LENGTH, /* content_length bytes, at least one */
    HTTP_BODY_CHUNKED,
};

enum http_expect {
    HTTP_EXPECT_NOTHING,
    HTTP_EXPECT_CONTINUE, /* 100-continue, on HTTP/1.1 and with a body: say 100 before reading it */
    HTTP_EXPECT_OTHER,    /* answer 417, empty, and close */
};

struct http_head {
    enum http_method method;
    unsigned minor; /* HTTP/1.minor; answers say 1.0 to 0 and 1.1 to everything else */
    bool keep_alive; /* false: the connection ends after this request's answer */
    bool asked_close;      /* `Connection: close` was there */
    enum http_body body;
    enum http_expect expect;
    uint64_t content_length; /* 0 unless body is HTTP_BODY_LENGTH */
    struct slice method_text;
    struct slice target_text;
    struct url_target target;
    struct slice host;          /* of an absolute target, else the Host header; may be empty */
    struct slice content_type;  /* the first of each; empty when absent */
    struct slice authorization;
    struct slice origin;
    struct slice headers; /* every header line, for http_next_header() */
};

/* What Go answers to a request that it cannot read. The connection ends after it. */
struct http_refusal {
    const char *status; /* "400 Bad Request: missing required Host header", for the status line */
    const char *body;
    const char *reason; /* for the log */
    bool silent;        /* Go (or etcd's port sniffer) closes without an answer */
};

/* Where the search for the end of the head stopped. One per connection, zeroed when the connection
 * opens; input that was dropped before the head is complete breaks it. */
struct http_parser {
    size_t line;     /* start of the first line that is not checked yet */
    size_t searched; /* no line end in [line, searched) */
    bool later;      /* a request was read before on this connection */
    bool after_post; /* it was a POST: an empty line before the next one is passed over */
};

/* Parses the head that starts at in.ptr[0]. PARSE_DONE: *out is filled, *size is the length of the
 * head with its empty line, *p is ready for the next head. PARSE_MORE: call again with the same start
 * and at least *size bytes; every byte is looked at a bounded number of times, however it is cut. A
 * fault is reported with the line that it is in, and does not wait for the rest. PARSE_BAD: *why.
 * *out is touched by PARSE_DONE only, *why by PARSE_BAD only. */
enum parse_result http_parse_head(struct http_parser *p, struct slice in,
                                  const struct http_limits *limits, struct http_head *out,
                                  size_t *size, struct http_refusal *why);

/* One header, in the order of the wire. The value has no spaces around it; `folded` says that it
 * spans lines, whose ends are still in it. */
struct http_header {
    struct slice name;
    struct slice value;
    bool folded;
};

/* Takes the next header off *rest (start with head.headers); false at the end. */
bool http_next_header(struct slice *rest, struct http_header *out);

/* The first header of that name (given in lower case), case ignored. */
bool http_find_header(const struct http_head *head, const char *lower, struct slice *value);

/* The whole answer: status line, Content-Type, Connection: close, body. Nothing when silent. */
void http_write_refusal(struct writer *w, const struct http_refusal *why);

/* Reads a chunked body piece by piece. One per request, zeroed before it. */
struct http_chunks {
    uint64_t left;   /* bytes of the present chunk that have not come */
    size_t searched; /* no line end in [0, searched) of the input */
    unsigned state;
};

/* Takes the next piece off the front of `in`, which starts where the last *size ended. PARSE_DONE with
 * *end false: *data (never empty) is part of the body, drop *size bytes and call again. With *end
 * true: the body is over, drop *size bytes, the next request follows. PARSE_MORE: drop *size bytes
 * (framing that is used up, often 0), and call again when there are more; no data was given.
 * PARSE_BAD: *why is what Go's reader says, which etcd puts into the cause of error 210. */
enum parse_result http_next_chunk(struct http_chunks *c, struct slice in, struct slice *data,
                                  bool *end, size_t *size, const char **why);
