/* What is still to be sent to one peer. See outq.h for the contract. */
#include "rdzv/net/outq.h"

#include <assert.h>
#include <errno.h>
#include <sys/socket.h>
#include <sys/uio.h>

/* Two sizes of memory for what is copied. A c10d answer fits the small one, and a thousand waiters
 * that wake at once must not take a page each. */
#define SMALL_SIZE   128u
#define LARGE_SIZE   4096u
#define SMALL_KEPT   512u  /* kept for reuse: 88 KiB */
#define LARGE_KEPT   128u  /* 512 KiB */
#define SHARE_FROM   1024u /* shorter values are copied: a reference costs a part of its own */
#define PARTS_A_CALL 64
#define SHORT_QUEUE  4096u /* a queue up to this length holds small answers */

struct out_part {
    TAILQ_ENTRY(out_part) entry;
    struct blob *blob; /* NULL: the bytes are in `copied` */
    size_t start;      /* sent up to here */
    size_t end;
    size_t cap; /* of `copied` */
    uint8_t copied[];
};

void out_pool_init(struct out_pool *pool)
{
    *pool = (struct out_pool){0};
    TAILQ_INIT(&pool->small.free);
    TAILQ_INIT(&pool->large.free);
}

static void free_all(struct out_shelf *shelf)
{
    struct out_part *p;

    while ((p = TAILQ_FIRST(&shelf->free)) != NULL) {
        TAILQ_REMOVE(&shelf->free, p, entry);
        account_free(ACCOUNT_ANSWERS, p, sizeof *p + p->cap);
    }
    shelf->count = 0;
}

void out_pool_fini(struct out_pool *pool)
{
    free_all(&pool->small);
    free_all(&pool->large);
}

void outq_init(struct outq *q)
{
    *q = (struct outq){0};
    TAILQ_INIT(&q->parts);
}

static struct out_part *part_alloc(struct outq *q, size_t cap)
{
    enum account_class class = q->bytes <= SHORT_QUEUE ? ACCOUNT_SMALL : ACCOUNT_ORDINARY;
    struct out_part *p = account_request(ACCOUNT_ANSWERS, class, sizeof *p + cap);

    if (p == NULL)
        q->broken = true;
    return p;
}

/* NULL: memory is short, and the queue is broken. */
static struct out_part *add_part(struct outq *q, struct out_pool *pool, size_t room)
{
    struct out_shelf *shelf = room <= SMALL_SIZE ? &pool->small : &pool->large;
    size_t cap = room <= SMALL_SIZE ? SMALL_SIZE : LARGE_SIZE;
    struct out_part *p = TAILQ_FIRST(&shelf->free);

    if (p != NULL) {
        TAILQ_REMOVE(&shelf->free, p, entry);
        shelf->count--;
    } else {
        p = part_alloc(q, cap);
        if (p == NULL)
            return NULL;
    }
    p->blob = NULL;
    p->start = p->end = 0;
    p->cap = cap;
    TAILQ_INSERT_TAIL(&q->parts, p, entry);
    return p;
}

static void drop_first(struct outq *q, struct out_pool *pool)
{
    struct out_part *p = TAILQ_FIRST(&q->parts);
    struct out_shelf *shelf = p->cap == SMALL_SIZE ? &pool->small : &pool->large;
    size_t kept = p->cap == SMALL_SIZE ? SMALL_KEPT : LARGE_KEPT;

    TAILQ_REMOVE(&q->parts, p, entry);
    if (p->blob != NULL || shelf->count >= kept) {
        blob_unref(p->blob);
        account_free(ACCOUNT_ANSWERS, p, sizeof *p + p->cap);
        return;
    }
    TAILQ_INSERT_HEAD(&shelf->free, p, entry);
    shelf->count++;
}

void outq_fini(struct outq *q, struct out_pool *pool)
{
    while (!TAILQ_EMPTY(&q->parts))
        drop_first(q, pool);
    q->bytes = 0;
}

/* The last part with room for that much; a new one when there is none. A queue whose copied part is
 * full is going to be longer, so its next one is large. Behind a blob it is not: between two blobs
 * there are a few bytes, and a list of small values must not take a page for each of them. */
static struct out_part *part_with(struct outq *q, struct out_pool *pool, size_t room)
{
    struct out_part *p = TAILQ_LAST(&q->parts, out_list);

    if (p != NULL && p->blob == NULL && p->cap - p->end >= room)
        return p;
    return add_part(q, pool, p != NULL && p->blob == NULL ? LARGE_SIZE : room);
}

uint8_t *outq_reserve(struct outq *q, struct out_pool *pool, size_t len)
{
    struct out_part *p;
    uint8_t *at;

    assert(len <= OUTQ_RESERVE_MAX);
    p = q->broken ? NULL : part_with(q, pool, len);
    if (p == NULL)
        return pool->nowhere;
    at = p->copied + p->end;
    p->end += len;
    q->bytes += len;
    return at;
}

void outq_put(struct outq *q, struct out_pool *pool, const void *bytes, size_t len)
{
    const uint8_t *from = bytes;

    while (len > 0 && !q->broken) {
        struct out_part *p = TAILQ_LAST(&q->parts, out_list);
        size_t n;

        if (p == NULL || p->blob != NULL || p->cap == p->end)
            p = part_with(q, pool, len < LARGE_SIZE ? len : LARGE_SIZE);
        if (p == NULL)
            return;
        n = p->cap - p->end < len ? p->cap - p->end : len;
        memcpy(p->copied + p->end, from, n);
        p->end += n;
        q->bytes += n;
        from += n;
        len -= n;
    }
}

void outq_put_blob(struct outq *q, struct out_pool *pool, struct blob *b)
{
    struct out_part *p;

    if (blob_slice(b).len < SHARE_FROM) {
        outq_put(q, pool, blob_slice(b).ptr, blob_slice(b).len);
        return;
    }
    p = q->broken ? NULL : part_alloc(q, 0);
    if (p == NULL)
        return;
    *p = (struct out_part){.blob = blob_ref(b), .end = b->len};
    q->bytes += b->len;
    TAILQ_INSERT_TAIL(&q->parts, p, entry);
}

/* Takes n sent bytes off the front. */
static void advance(struct outq *q, struct out_pool *pool, size_t n)
{
    q->bytes -= n;
    while (n > 0) {
        struct out_part *p = TAILQ_FIRST(&q->parts);
        size_t left = p->end - p->start;

        if (n < left) {
            p->start += n;
            return;
        }
        n -= left;
        drop_first(q, pool);
    }
}

int outq_send(struct outq *q, struct out_pool *pool, int fd)
{
    while (q->bytes > 0) {
        struct iovec iov[PARTS_A_CALL];
        struct msghdr msg = {.msg_iov = iov};
        struct out_part *p;
        size_t offered = 0;
        ssize_t n;

        TAILQ_FOREACH(p, &q->parts, entry) {
            uint8_t *bytes = p->blob != NULL ? p->blob->bytes : p->copied;

            if (msg.msg_iovlen == PARTS_A_CALL)
                break;
            iov[msg.msg_iovlen++] = (struct iovec){bytes + p->start, p->end - p->start};
            offered += p->end - p->start;
        }
        n = msg.msg_iovlen == 1 ? send(fd, iov[0].iov_base, iov[0].iov_len, MSG_NOSIGNAL)
                                : sendmsg(fd, &msg, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        advance(q, pool, (size_t)n);
        if ((size_t)n < offered)
            return -EAGAIN; /* the socket is full; the next call would only say so */
    }
    return 0;
}
