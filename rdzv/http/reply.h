/* What an HTTP endpoint is asked and how it replies. The HTTP session (session.c) reads the
 * request, finds the endpoint, and writes the reply: endpoints see no sockets, no framing and no
 * CORS. An endpoint calls one reply function exactly once, or starts a watch or a job (session.h),
 * or asks to be called again. */
#pragma once

#include "proto/etcd_types.h"
#include "proto/http.h"
#include "rdzv/net/conn.h"
#include "store/memory/blob.h"

struct backoff;
struct forwards;
struct http_job;
struct http_request;
struct http_route;
struct monitor;
struct status_feeds;

/* Watches each request before its execution. */
struct request_watch {
    void (*tell)(void *arg, const struct http_request *r); /* NULL: nobody is */
    void *arg;
};

/* Who may hold or change a request to a key of etcd's tree before it is carried out. */
struct key_gate {
    /* The request reads the key (`value`: ptr NULL), or swaps its value, which has the index
     * `prev_index`, for *value. True: a job has been started for it (session.h). False: *value may
     * be another one now, which lives until the next call. */
    bool (*holds)(void *arg, const struct http_request *r, struct slice key, struct slice *value,
                  uint64_t prev_index);
    void *arg;
};

/* What all HTTP sessions share. */
struct http {
    const struct config *config;
    struct engine *engine;
    const struct http_route *routes;   /* rdzv/routes.c */
    struct backoff *backoff;           /* of wrong tokens */
    struct status_feeds *status_feeds; /* of a store; else NULL */
    struct monitor *monitor;           /* the same */
    struct request_watch *request_watch;
    const struct key_gate *key_gate; /* of a store; NULL: no request is held */
    const struct forwards *forwards; /* what passes requests on to the store; NULL: nothing does */
    uint64_t member_id, cluster_id;  /* as etcd derives them */
    /* Of connections that come from relays. Those have looked at the Host header: it is about the
     * listener that the client came to. */
    bool behind_relay;
    bool of_tls_clients; /* and the client speaks TLS with the relay */
};

/* One request, whole. Slices live until the endpoint returns. */
struct http_request {
    const struct http *http;
    struct conn *conn;
    struct engine_space *space;
    const struct http_head *head;
    struct slice path;  /* cleaned and unescaped, with the trailing slash it came with */
    struct slice query; /* still escaped */
    struct slice body;
    struct http_job
        *job; /* the one that calls the endpoint again, see session.h; NULL: none does */
};

static inline struct engine *http_engine(const struct http_request *r)
{
    return r->http->engine;
}

/* Does the client speak TLS? */
static inline bool http_is_over_tls(const struct http_request *r)
{
    return r->http->behind_relay ? r->http->of_tls_clients : r->conn->tls != NULL;
}

/* For probes: `?exclude=NAME`, as often as needed, as in kube-apiserver and etcd: that check or
 * alarm does not count. */
bool http_excludes(const struct http_request *r, const char *name);

static inline bool http_is_reading(const struct http_request *r)
{
    return r->head->method == HTTP_GET || r->head->method == HTTP_HEAD;
}

/* Is its method one of these? They stand as in the header Allow: "GET,HEAD". */
static inline bool http_allows(const struct http_request *r, const char *methods)
{
    return strstr(methods, http_method_names[r->head->method]) != NULL;
}

/* Which of etcd's headers a reply carries. */
enum http_etcd_headers {
    HTTP_ETCD_NONE,    /* machines, version, health, stats, and what is not etcd's */
    HTTP_ETCD_CLUSTER, /* X-Etcd-Cluster-Id: members, auth */
    HTTP_ETCD_ERROR,   /* and X-Etcd-Index: errors of /v2/keys */
    HTTP_ETCD_KEYS,    /* and X-Raft-Index, X-Raft-Term: successes of /v2/keys */
};

struct reply {
    unsigned status;
    const char *content_type; /* NULL: none */
    enum http_etcd_headers etcd;
    uint64_t index;        /* X-Etcd-Index */
    const char *allow;     /* of a 405; NULL: none */
    bool nosniff;          /* X-Content-Type-Options: nosniff, as Go's http.Error() sets it */
    bool no_store;         /* Cache-Control: no-store */
    const char *headers;   /* more of them, whole lines; NULL: none */
    struct slice location; /* of a 301; empty: none */
    struct slice body;     /* a HEAD gets its length and not the bytes */
    struct blob *shared;   /* holds the body, which is sent by reference when it is large; NULL: it
                              is copied */
};

#define HTTP_JSON "application/json"
#define HTTP_TEXT "text/plain; charset=utf-8"
#define HTTP_HTML "text/html; charset=utf-8"

void reply_send(const struct http_request *r, const struct reply *reply);

/* The head of a reply whose body the caller sends in chunks and frames itself: true. False for
 * HTTP/1.0: without frames, the end of the connection is the end of the body. */
bool reply_begin_stream(const struct http_request *r, const struct reply *reply);

/* One chunk more of it, which `b` holds (NULL: it is copied); its end, behind which a connection
 * without frames is finished. */
void reply_stream_put(struct conn *c, bool chunked, struct blob *b, struct slice data);
void reply_stream_end(struct conn *c, bool chunked);

/* Replies {"errorCode":…} with the status of that error. */
void reply_etcd_error(const struct http_request *r, enum etcd_code code, struct slice cause,
                      uint64_t index);

/* Replies 503 and a message; below /v2/keys the body is an error as etcd's. reply_no_memory() is
 * the same with a message about memory. */
void reply_unavailable(const struct http_request *r, const char *message);
void reply_no_memory(const struct http_request *r);

/* A plain text, as Go's http.Error() sends it. */
void reply_text(const struct http_request *r, unsigned status, const char *text);

/* Go's own: 404 `404 page not found`, 405 `Method Not Allowed` with its Allow list (NULL:
 * without one; `etcd` as in struct reply). */
void reply_not_found(const struct http_request *r);
void reply_not_allowed(const struct http_request *r, const char *allow,
                       enum http_etcd_headers etcd);

/* True if `path` is `root` or below it. */
bool http_is_below(struct slice path, const char *root);

/* --- A reply's body, which grows while it is written: an endpoint need not know beforehand
 * how long it becomes. ---
 *
 *     struct reply_body body;
 *
 *     reply_body_begin(&body);
 *     writer_str(&body.w, "…");
 *     reply_body_send(r, &(struct reply){.status = 200, …}, &body); */

/* Stays where it is, from reply_body_begin() on: it points into itself. */
struct reply_body {
    struct writer w;   /* after memory runs short, it only counts */
    struct blob *blob; /* of a large one; NULL: all is in `small` */
    uint8_t small[1024];
};

void reply_body_begin(struct reply_body *b);

/* True if the body has everything that was written. */
static inline bool reply_body_is_whole(const struct reply_body *b)
{
    return b->w.len <= b->w.cap;
}

/* Frees a body that is not sent. */
void reply_body_drop(struct reply_body *b);

/* Replies with the body and frees it. If memory was short, replies with that error. */
void reply_body_send(const struct http_request *r, const struct reply *reply, struct reply_body *b);

/* --- Replies of {"message":"…"}, without a newline, as etcd's members and auth endpoints send
 * them. --- */

/* The message is put together of slices, which may be long and hold any bytes that a peer sent:
 * REPLY_MESSAGE(r, 404, HTTP_ETCD_CLUSTER, slice_str("No such member: "), id); */
#define REPLY_MESSAGE(r, status, etcd, ...)                                         \
    reply_message_parts((r), (status), (etcd), (const struct slice[]){__VA_ARGS__}, \
                        sizeof((const struct slice[]){__VA_ARGS__}) / sizeof(struct slice))

void reply_message_parts(const struct http_request *r, unsigned status, enum http_etcd_headers etcd,
                         const struct slice *parts, size_t count);

/* The same of one terminated text. */
void reply_message(const struct http_request *r, unsigned status, const char *message,
                   enum http_etcd_headers etcd);
