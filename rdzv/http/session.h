/* HTTP/1.x on a connection: the protocol that finds the endpoint for each request, and what an
 * endpoint may do beside a reply (reply.h): a watch, or a job. */
#pragma once

#include "rdzv/http/reply.h"

struct watch;

/* Bytes of a form, as etcd takes them. */
#define HTTP_FORM_MAX (10u << 20)

/* The table that connections get; `http` outlives it. */
struct protocol http_protocol(struct http *http);

/* As struct protocol's begin(), of the opening of HTTP/2: http2.c. */
enum parse_result http2_begin(struct conn *c, struct slice in, struct protocol_progress *progress);

/* --- Which endpoint handles which path. The table itself is rdzv/routes.c. --- */

enum http_route_kind {
    ROUTE_EXACT, /* this path alone */
    ROUTE_BELOW, /* this path, and all paths that continue it with '/' */
    ROUTE_ALL,   /* every path */
};

enum http_route_flags {
    ROUTE_USES_STORE = 1 << 0,           /* counts as a use, see --exit-when-idle */
    ROUTE_ON_METRICS_LISTENERS = 1 << 1, /* is served on --listen-metrics-urls, too */
    ROUTE_IS_PROBE = 1 << 2,             /* is served even if all descriptors are in use */
    ROUTE_FAST = 1 << 3,                 /* takes microseconds */
    ROUTE_FOR_READERS = 1 << 4,          /* is refused to others, see access.h */
    ROUTE_TAKES_ADDRESSES = 1 << 5,      /* a Host that is an address, or localhost, is welcome */
};

struct http_route {
    const char *path;
    enum http_route_kind kind;
    const char *allow; /* the methods, as the header Allow names them; NULL: `handle` looks */
    /* Replies once, or starts a watch or a job. */
    void (*handle)(const struct http_request *r);
    unsigned flags; /* of enum http_route_flags */
    /* Handles it while another replica leads. NULL: then it is refused. */
    void (*standby)(const struct http_request *r);
};

/* The first route of a table (which ends with a NULL path) that covers a path; NULL: there is none.
 * `metrics`: only those of metrics listeners. */
const struct http_route *http_find_route(const struct http_route *table, struct slice path,
                                         bool metrics);

/* --- Instead of a reply. --- */

/* Instead of a reply, before anything has changed: the request is handled again from its beginning
 * in the next iteration, since conn_begin_slice() has said no. */
void reply_later(const struct http_request *r);

/* Starts a long poll or a stream: the headers go out now, each event when it comes, and the session
 * owns the watch from here on. */
void http_start_watch(const struct http_request *r, struct watch *watch, uint64_t index);

/* A job is a reply that its endpoint has not finished when it returns: the reply is computed in
 * slices, or waits for an event. The session keeps the job and its request, and calls the job until
 * it is done. Later requests of the connection wait. */

enum http_job_state {
    HTTP_JOB_DONE,      /* it has replied, as an endpoint does */
    HTTP_JOB_CONTINUES, /* call it again in the next slice of its connection */
    HTTP_JOB_WAITS,     /* it is called again after http_wake_job() */
};

/* The first member of what a job keeps. */
struct http_job {
    /* Continues the request that started it: `r` has the same bytes at other addresses. In a slice
     * it runs for about HTTP_SLICE_NS. A wake-up gives it no slice, but it may begin one. */
    enum http_job_state (*run)(struct http_job *job, const struct http_request *r);
    /* The last call, when the job is done or its connection ends. */
    void (*free)(struct http_job *job);
    /* The client has sent its last byte, but may still read. NULL: the job goes on. */
    void (*eof)(struct http_job *job);
    /* As struct protocol's. NULL: nothing is missing when the connection ends here. */
    void (*stop)(struct http_job *job);
    /* As struct protocol's. NULL: the job does not wait for that. */
    void (*drained)(struct http_job *job);
    bool no_use;  /* it is no use of the store: see engine_use_began() */
    bool endless; /* may wait without limit, as a watch; a daemon that stops ends it */
};

/* The longest time of a slice: other clients come between two slices. */
#define HTTP_SLICE_NS 500000u

/* Instead of a reply; `next` is when the job is called. The session owns it from here on. */
void http_start_job(const struct http_request *r, struct http_job *job, enum http_job_state next);

/* Runs the first slice of a new job, which may be all of it; else starts it. */
void http_run_job(const struct http_request *r, struct http_job *job);

/* The job of this connection, which waits, is called in the next iteration. */
void http_wake_job(struct conn *c);

/* For a job that continues by handling its request again from the start, with its findings
 * (http_request's `job`). False: the job must wait for a slice, HTTP_JOB_CONTINUES. */
bool http_handle_again(const struct http_request *r, struct http_job *job);
