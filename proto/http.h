/* HTTP/1.x requests: the head, and how long the body is. It reads what Go's net/http reads, and
 * where that refuses, says so in the same words, since it is what etcd's clients talk to. No I/O,
 * no allocation, no clock: every slice points into the caller's input and ends with it. */
#pragma once

#include "proto/bytes.h"
#include "proto/url.h"

#define HTTP_HEAD_MAX       (1u << 20) /* of a server: request line, headers and empty line */
#define HTTP_CHUNK_LINE_MAX 4095       /* a chunk's size with extensions and line end */
#define HTTP_TRAILER_MAX    4096 /* the trailers behind the last chunk, with their empty line */

enum http_method {
    HTTP_OTHER, /* see method_text; methods are case sensitive */
    HTTP_GET,
    HTTP_HEAD,
    HTTP_PUT,
    HTTP_POST,
    HTTP_DELETE,
    HTTP_OPTIONS,
    HTTP_CONNECT,
    HTTP_PATCH,
    HTTP_METHODS, /* how many */
};

/* "GET"; "other" of HTTP_OTHER. */
extern const char *const http_method_names[HTTP_METHODS];

enum http_body {
    HTTP_BODY_NONE,   /* the next request follows the head */
    HTTP_BODY_LENGTH, /* content_length bytes, at least one */
    HTTP_BODY_CHUNKED,
};

enum http_expect {
    HTTP_EXPECT_NOTHING,
    HTTP_EXPECT_CONTINUE, /* send a 100 before the body is read; a reply without having read the
                           * body ends the connection, since the body may come or not */
    HTTP_EXPECT_OTHER,    /* the reply is an empty 417 with Connection: close */
};

struct http_head {
    enum http_method method;
    unsigned minor;  /* HTTP/1.minor; the reply to 0 says 1.0, and to all others 1.1 */
    bool keep_alive; /* false: the reply ends the connection, and says so when minor > 0. True for
                      * 1.0: the reply says keep-alive, if it has a Content-Length */
    enum http_body body;
    enum http_expect expect;
    uint64_t content_length; /* 0 unless body is HTTP_BODY_LENGTH */
    struct slice method_text;
    struct slice target_text;
    struct url_target target;
    struct slice host;         /* of an absolute target, else the Host header; may be empty */
    struct slice content_type; /* these three: the first of that name; empty when absent */
    struct slice authorization;
    struct slice origin;
    struct slice headers; /* every header line, for http_next_header() */
};

/* The reply to a request that Go cannot read; the connection ends after it. Static texts. */
struct http_refusal {
    const char *status; /* for the status line: "400 Bad Request: missing required Host header" */
    const char *body;   /* text/plain; charset=utf-8 */
    const char *reason; /* for the log: "malformed request line" */
    bool silent;        /* close without a reply: etcd's port sniffer took it for no HTTP */
};

/* How far the head has been checked. One per connection, zero when the connection opens. */
struct http_parser {
    size_t line;     /* start of the first unchecked line */
    size_t searched; /* no line end in [line, searched) */
    size_t headers;  /* start of the first header line, 0 while the request line is not here */
    bool later;      /* this connection had a request before */
    bool after_post; /* and it was a POST, after which Go passes over an empty line */
};

/* Parses the head that starts at in.ptr[0] and has at most `head_max` bytes.
 * PARSE_DONE: *out is filled, *size is the length of the head with its empty line, *p is ready for
 *   the next head.
 * PARSE_MORE: call again with the same start when `in` has at least *size bytes. Each byte is
 *   read a bounded number of times, however the input is cut.
 * PARSE_BAD: *why. A fault is reported with its line, before the rest arrives.
 * Only PARSE_DONE touches *out, and only PARSE_BAD touches *why. */
enum parse_result http_parse_head(struct http_parser *p, struct slice in, size_t head_max,
                                  struct http_head *out, size_t *size, struct http_refusal *why);

/* The reply when the input ends inside a head: `in` is the last input, not empty. */
void http_refuse_unfinished(const struct http_parser *p, struct slice in, struct http_refusal *why);

/* One header. The value has no surrounding blanks; a value that was folded over several lines still
 * contains the line ends, each of which means a space. */
struct http_header {
    struct slice name;
    struct slice value;
};

/* Takes the next header off *rest (start with head.headers); false at the end. */
bool http_next_header(struct slice *rest, struct http_header *out);

/* The first header of that name (given in lower case), case ignored. */
bool http_find_header(const struct http_head *head, const char *lower, struct slice *value);

/* Is `name` that name (given in lower case)? */
bool http_name_is(struct slice name, const char *lower);

/* Is `token` in a comma-separated list, case ignored? */
bool http_list_names(struct slice list, struct slice token);

/* The whole reply: status line, headers, body. Nothing when it is silent. */
void http_write_refusal(struct writer *w, const struct http_refusal *why);

/* How far a chunked body has been read. One per body, zero before it. */
struct http_chunks {
    uint64_t left;   /* bytes of the present chunk that have not come */
    size_t searched; /* of the input: no line end, and no end of the trailers, before this offset */
    int state;
};

/* Takes the next piece of a chunked body off the front of `in`, which starts where the last *size
 * ended.
 * PARSE_DONE, *data not empty: a part of the body; *data ends where *size does.
 * PARSE_DONE, *data empty: the body is over, and the next request follows after *size.
 * PARSE_MORE: call again with more bytes. *size, often 0, is framing that was used up all the same.
 * PARSE_BAD: *why is what Go's reader says, which etcd sends as the cause of error 210. Static;
 *   of a bad trailer Go quotes the line too.
 * In the first three cases the caller drops *size bytes before it calls again. */
enum parse_result http_next_chunk(struct http_chunks *c, struct slice in, struct slice *data,
                                  size_t *size, const char **why);
