/* A reply that is not finished when its endpoint returns: it is computed in slices, or waits for a
 * thread. The endpoint starts a job instead of replying; the session keeps it, and the request with
 * it, and calls it until it is done. Requests behind it wait. */
#pragma once

#include "rdzv/http/reply.h"

enum http_job_state {
    HTTP_JOB_DONE,    /* it has replied, as an endpoint does */
    HTTP_JOB_GOES_ON, /* it is called again in the next costly turn of its connection */
    HTTP_JOB_WAITS,   /* it is called again after http_wake_job() */
};

/* The first member of what a job keeps. */
struct http_job {
    /* Goes on with the request that started it: `r` has the same bytes, at other addresses. In a
     * costly turn it takes about HTTP_SLICE_NS. Woken, it has no costly turn, and may begin one. */
    enum http_job_state (*run)(struct http_job *job, const struct http_request *r);
    /* The last call: it is done, or its connection ends before. */
    void (*free)(struct http_job *job);
    /* The client has sent its last byte, but may still read. NULL: the job goes on. */
    void (*eof)(struct http_job *job);
    /* As struct protocol's. NULL: nothing is missing when the connection ends here. */
    void (*stop)(struct http_job *job);
    /* As struct protocol's. NULL: the job does not wait for that. */
    void (*drained)(struct http_job *job);
    bool no_use;  /* it is no use of the store: see engine_use_began() */
    bool endless; /* it may wait for ever, as a watch does: a daemon that stops does not wait for it
                   */
};

/* How long a slice may take: others get their turn between two of them. */
#define HTTP_SLICE_NS 500000u

/* Instead of a reply; `next` is when the job is called. The session owns it from here on. */
void http_start_job(const struct http_request *r, struct http_job *job, enum http_job_state next);

/* The job of this connection, which waits, is called in the next iteration. */
void http_wake_job(struct conn *c);

/* The body of its request, until anything else happens to the connection; for a job that waits, and
 * is not being called. */
struct slice http_job_body(const struct conn *c);

/* For a job that goes on by handling its request again, from the beginning and with what it has
 * found out (http_request's `job`). False: that waits for a costly turn, HTTP_JOB_GOES_ON. */
bool http_handle_again(const struct http_request *r, struct http_job *job);
