/* What is still to be sent to one peer: small answers copied into chunks that are reused, large
 * values and events by reference, so that however many read one value there is one copy of it.
 * An empty queue owns nothing. What a peer does not read is memory that it holds, so it can be
 * refused: then the queue is broken, takes no more, and its connection has to end. */
#pragma once

#include <sys/queue.h>

#include "store/memory/blob.h"

struct out_part;

TAILQ_HEAD(out_list, out_part);

struct outq {
    struct out_list parts;
    size_t bytes; /* not sent yet */
    bool broken;  /* memory was short: something that was put is not there */
};

/* The most that outq_reserve() gives. */
#define OUTQ_RESERVE_MAX 2048

/* Memory of one size that no queue uses at the moment. */
struct out_shelf {
    struct out_list free;
    size_t count;
};

/* One for the whole daemon. */
struct out_pool {
    struct out_shelf small;
    struct out_shelf large;
    uint8_t nowhere[OUTQ_RESERVE_MAX]; /* what is written to a broken queue */
};

void out_pool_init(struct out_pool *pool);
void out_pool_fini(struct out_pool *pool);

/* Now and then: half of what no queue uses is freed. */
void out_pool_trim(struct out_pool *pool);

void outq_init(struct outq *q);

/* Drops at most so many values and pieces of bytes, of a queue that is not used any more, and when
 * it has freed OUTQ_DROPPED_BYTES no more. True when it is empty. SIZE_MAX: all. */
#define OUTQ_DROPPED_BYTES (1u << 20)
bool outq_drop(struct outq *q, struct out_pool *pool, size_t max);

/* Drops everything. */
void outq_fini(struct outq *q, struct out_pool *pool);

/* Copies bytes to the end of the queue. */
void outq_put(struct outq *q, struct out_pool *pool, const void *bytes, size_t len);

/* Room for `len` bytes (at most OUTQ_RESERVE_MAX) at the end, to be written by the caller now. */
uint8_t *outq_reserve(struct outq *q, struct out_pool *pool, size_t len);

/* A value: copied when it is small, else one more reference to it. NULL: nothing. */
void outq_put_blob(struct outq *q, struct out_pool *pool, struct blob *b);

/* A value by reference, whatever its size; eight bytes of memory for each of many in a row. */
void outq_share(struct outq *q, struct out_pool *pool, struct blob *b);

/* The same with blob_counted(): its length, and the value. */
void outq_share_counted(struct outq *q, struct out_pool *pool, struct blob *b);

/* Moves the first `len` bytes of one queue to the end of another; what is large is not copied. */
void outq_move(struct outq *to, struct outq *from, struct out_pool *pool, size_t len);

/* The last `len` bytes, borrowed until the queue changes. Empty when they do not lie in one piece,
 * as those of one outq_reserve() do; and of a broken queue. */
struct slice outq_tail(const struct outq *q, size_t len);

/* The first bytes of the queue, `len` at most: where they lie, if that much lies in one piece, or
 * copied into `room`. Borrowed until the queue changes. */
struct slice outq_front(const struct outq *q, uint8_t *room, size_t len);

/* So many of them have been sent. */
void outq_sent(struct outq *q, struct out_pool *pool, size_t len);

/* Sends as much as the socket takes, but at most `max` bytes, many parts in one system call.
 * 0: that much, or all, is sent. -EAGAIN: the rest has to wait until the socket is writable.
 * Another -errno: the connection is lost. */
int outq_send(struct outq *q, struct out_pool *pool, int fd, size_t max);
