/* The requests of one client that its store has not confirmed yet, in their order: each is kept as
 * the client sent it, in the pieces in which it goes upstream, so that it can be sent again. No
 * sockets and no clock. */
#pragma once

#include <sys/queue.h>

#include "proto/c10d.h"
#include "proto/relay.h"
#include "store/memory/blob.h"

struct relay_request {
    TAILQ_ENTRY(relay_request) entry;
    uint64_t number;
    uint64_t since_ns; /* when it came, by the caller's clock */
    size_t size;       /* bytes of the request */
    size_t filled;     /* of those: are here */
    size_t value_at;   /* COMPARE_SET: where the desired value begins */
    size_t value_len;
    uint32_t piece_count;
    uint32_t sent;   /* pieces that the present link was given */
    uint8_t op;      /* enum c10d_op */
    bool has_answer; /* the store answers it */
    bool wanted;     /* and the client gets the answer */
    bool changes;    /* when it is carried out, something has changed for sure */
    bool repeatable; /* what came of it is the same when it is carried out twice */
    bool was_sent;   /* a link was given the last piece of it */
    bool given_up;   /* a WAIT whose client waits no more, but the link has a part of it */
    struct blob *pieces[];
};

TAILQ_HEAD(relay_request_list, relay_request);

struct pending {
    struct relay_request_list list;
    size_t count;
    size_t bytes;        /* of those that are not waited for; see pending_waits() */
    size_t silent;       /* requests without an answer */
    size_t silent_bytes; /* and of those */
};

void pending_init(struct pending *p);

/* True for requests that may be answered much later: they are no burden until then. */
static inline bool pending_waits(const struct relay_request *q)
{
    return q->op == C10D_WAIT || q->op == C10D_BARRIER;
}

/* Adds a request of `size` bytes that begins at `start`, of which none is here yet. NULL when
 * memory is short. */
struct relay_request *pending_add(struct pending *p, const struct c10d_request *req,
                                  const uint8_t *start, size_t size, uint64_t number);

/* Takes over bytes of it, at most `max`; `start` is where the request begins. *more: there are some
 * left. False when memory is short. */
bool pending_fill(struct relay_request *q, const uint8_t *start, size_t max, bool *more);

void pending_remove(struct pending *p, struct relay_request *q);

/* NULL: there is none of that number. */
struct relay_request *pending_find(const struct pending *p, uint64_t number);

static inline struct relay_request *pending_first(const struct pending *p)
{
    return TAILQ_FIRST(&p->list);
}

/* The link has gone: everything is to be sent again. */
void pending_rewind(struct pending *p);

/* The next piece goes to the link: a frame but for its channel. `payload` of it is borrowed from
 * the blob, which is returned. */
struct blob *pending_next_piece(struct relay_request *q, struct relay_frame *frame);
