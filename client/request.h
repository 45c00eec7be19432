/* One request of the library: its bytes, how many of them are sent and answered, and its result.
 * Knows neither sockets nor other requests; client.c moves the bytes. */
#pragma once

#include "client/rdzv_client.h"
#include "proto/c10d_client.h"
#include "proto/queue.h"

TAILQ_HEAD(request_list, rdzv_request);

/* One message of c10d. Most requests take one; SET and its like take a PING behind it, whose answer
 * says that it was carried out; a GET asks first whether the key is there, since some servers of
 * torch close the connection if it is not; a WAIT has its CANCEL_WAIT ready. */
struct request_part {
    enum c10d_op op;
    size_t end; /* in `out` */
};

struct rdzv_request {
    TAILQ_ENTRY(rdzv_request) entry;       /* in the client's queue */
    TAILQ_ENTRY(rdzv_request) ended_entry; /* in the client's list of callbacks to call */
    struct rdzv_client *client;            /* outlives the request's stay in a list */
    const char *where;                     /* the client's: the store's address */
    struct slice prefix;                   /* the client's: of all keys */
    enum rdzv_kind kind;
    rdzv_done_fn *done;
    void *arg;
    int64_t timeout_ms, deadline_ms; /* INT64_MAX: none */
    uint64_t count;                  /* of keys */

    uint8_t *out;
    struct request_part parts[2];
    unsigned part;  /* whose answer is awaited */
    size_t sent;    /* of `out` */
    size_t send_to; /* how far may be sent now */
    struct c10d_progress progress;

    bool queued;    /* in the client's queue */
    bool has_ended; /* `result` is set. A queued request may end before its answer arrives */
    bool in_ended;  /* its callback must be called */
    bool freed;     /* by the caller */

    struct rdzv_result result;
    char *message;             /* what result.message is; NULL: that is static text */
    uint8_t *data;             /* what result.value and result.values lie in */
    struct rdzv_bytes *values; /* what result.values is */
};

/* A request with its bytes made. Both borrowed texts outlive its stay in a queue. RDZV_INVALID or
 * RDZV_NO_MEMORY as rdzv_submit(). */
enum rdzv_status request_new(const struct rdzv_op *op, const char *prefix, const char *where,
                             struct rdzv_request **out);

/* Frees it, in no list any more. */
void request_delete(struct rdzv_request *r);

/* Requests behind it must stay unsent until it has ended. */
bool request_holds_others(const struct rdzv_request *r);

enum request_answer {
    REQUEST_MORE,     /* the answer is not whole: *size bytes are wanted */
    REQUEST_GOES_ON,  /* *used bytes of the answer were taken; more may be sent, more will come */
    REQUEST_ANSWERED, /* all of it: *used bytes were taken, the result is there */
    REQUEST_WRONG,    /* this is no answer to it */
};

/* Parses the answer as far as `in` has it. The answer to an ended request is dropped. */
enum request_answer request_take(struct rdzv_request *r, struct slice in,
                                 const struct c10d_reply_limits *limits, size_t *used,
                                 size_t *size);

/* Ends it with this status. `why` is a clause: "the store closed the connection". */
void request_end(struct rdzv_request *r, enum rdzv_status status, const char *why);
