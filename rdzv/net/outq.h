/* The queue of output for one peer: small answers are copied into chunks that are reused, large
 * values and events are references, so all readers of a value share one copy. An empty queue owns
 * nothing.
 *
 * The hard part is its bound. A peer that does not read makes rdzvd keep its answers, so a few
 * clients could fill the memory of the store. A small fixed limit fails, because one value may be
 * longer than the limit; a large one fails, because there are thousands of connections; and waiting
 * for the peer fails, because events come from the writes of other clients. The invariants: each
 * byte of a queue is counted in the account of memory, and a queue with a gap is `broken`. Three
 * functions keep them. conn_can_reply() stops the protocol before it carries out a request, if the
 * queue has reached the output limit or memory is short. conn_can_push() drops a peer that does not
 * read its events. And if the account refuses memory for an answer, the queue becomes broken: it
 * takes nothing more, and its connection must end, because its peer would read an answer with a
 * hole. */
#pragma once

#include "proto/queue.h"
#include "store/memory/blob.h"

struct out_part;

TAILQ_HEAD(out_list, out_part);

struct outq {
    struct out_list parts;
    size_t bytes : 63; /* not sent yet */
    bool broken : 1;   /* memory was short, so bytes are missing */
};

/* The most that outq_reserve() gives. */
#define OUTQ_RESERVE_MAX 2048

/* Unused memory of one size, ready for queues. */
struct out_shelf {
    struct out_list free;
    size_t count;
};

/* One for the whole daemon: small, middle and large memory. */
#define OUT_SHELVES 3
struct out_pool {
    struct out_shelf shelves[OUT_SHELVES];
    uint8_t nowhere[OUTQ_RESERVE_MAX]; /* what is written to a broken queue */
};

void out_pool_init(struct out_pool *pool);
void out_pool_fini(struct out_pool *pool);

/* Called now and then: frees half of the unused memory. */
void out_pool_trim(struct out_pool *pool);

void outq_init(struct outq *q);

/* Frees at most `max` values and chunks of an abandoned queue, and stops after OUTQ_DROPPED_BYTES.
 * True if the queue is empty then. SIZE_MAX frees all. */
#define OUTQ_DROPPED_BYTES (1u << 20)
bool outq_drop(struct outq *q, struct out_pool *pool, size_t max);

/* Drops everything. */
void outq_fini(struct outq *q, struct out_pool *pool);

/* Copies bytes to the end of the queue. */
void outq_put(struct outq *q, struct out_pool *pool, const void *bytes, size_t len);

/* Room for `len` bytes (at most OUTQ_RESERVE_MAX) at the end, to be written by the caller now. */
uint8_t *outq_reserve(struct outq *q, struct out_pool *pool, size_t len);

/* Appends a value: copies a small one, refers to a large one. NULL appends nothing. */
void outq_put_blob(struct outq *q, struct out_pool *pool, struct blob *b);

/* The same with a part of the value; of no value (NULL), the bytes are copied. */
void outq_put_part(struct outq *q, struct out_pool *pool, struct blob *b, struct slice bytes);

/* Queues a value by reference, regardless of its size; many in a row take eight bytes each. */
void outq_share(struct outq *q, struct out_pool *pool, struct blob *b);

/* The same with blob_counted(): its length, and the value. */
void outq_share_counted(struct outq *q, struct out_pool *pool, struct blob *b);

/* Moves the first `len` bytes of one queue to the end of another; what is large is not copied. */
void outq_move(struct outq *to, struct outq *from, struct out_pool *pool, size_t len);

/* The last `len` bytes, borrowed until the queue changes. Empty if the queue is broken, or if the
 * bytes lie in several pieces (those of one outq_reserve() do not). */
struct slice outq_tail(const struct outq *q, size_t len);

/* The first bytes of the queue, `len` at most: where they lie, if that much lies in one piece, or
 * copied into `room`. Borrowed until the queue changes. */
struct slice outq_front(const struct outq *q, uint8_t *room, size_t len);

/* So many of them have been sent. */
void outq_sent(struct outq *q, struct out_pool *pool, size_t n);

/* Sends as much as the socket takes, but at most `max` bytes, many parts in one system call.
 * 0: that much, or all, is sent. -EAGAIN: the rest has to wait until the socket is writable.
 * Another -errno: the connection is lost. */
int outq_send(struct outq *q, struct out_pool *pool, int fd, size_t max);
