/* The queue of output for one peer. See outq.h for the contract. */
#include "rdzv/net/outq.h"

#include <assert.h>
#include <errno.h>
#include <sys/socket.h>
#include <sys/uio.h>

/* The sizes of memory for copied bytes, and the number of each that is kept for reuse: 740 KiB. A
 * c10d answer fits the small one, the text that an agent of a crowd reads the small and the middle
 * one: thousands of clients that wake at once must not take a page each. */
#define LARGE_SIZE 4096u
static const struct {
    uint32_t cap;
    uint32_t kept;
} shelves[OUT_SHELVES] = {{128, 512}, {528, 256}, {LARGE_SIZE, 128}};

#define SHARE_FROM    1024u /* shorter values are copied: sending is quicker so */
#define PIECES_A_CALL 256
#define SHORT_QUEUE   4096u /* a queue up to this length holds small answers */

enum part_kind {
    PART_COPIED,  /* bytes */
    PART_SHARED,  /* pointers to blobs */
    PART_COUNTED, /* pointers to blobs, of which blob_counted() is sent */
    PART_PIECES,  /* pieces of blobs */
};

/* A part of a value that goes in several frames. */
struct out_piece {
    struct blob *blob; /* the first member: elsewhere there is only that */
    struct slice bytes;
};

struct out_part {
    TAILQ_ENTRY(out_part) entry;
    enum part_kind kind;
    uint32_t cap;                           /* bytes of `room` */
    uint32_t start;                         /* of `room`: what is before it has been sent */
    uint32_t end;                           /* of `room`: what is before it is in use */
    size_t sent;                            /* of the first blob: so many bytes */
    _Alignas(struct blob *) uint8_t room[]; /* bytes, or pointers */
};

/* For a part that refers to blobs: the size of one reference. */
static uint32_t entry_size(const struct out_part *p)
{
    return p->kind == PART_PIECES ? sizeof(struct out_piece) : sizeof(struct blob *);
}

static struct blob **blob_at(const struct out_part *p, uint32_t at)
{
    return (struct blob **)(uintptr_t)(p->room + at);
}

void out_pool_init(struct out_pool *pool)
{
    *pool = (struct out_pool){0};
    for (size_t i = 0; i < OUT_SHELVES; i++)
        TAILQ_INIT(&pool->shelves[i].free);
}

static void out_shelf_trim(struct out_shelf *shelf, size_t count)
{
    while (shelf->count > count) {
        struct out_part *p = TAILQ_FIRST(&shelf->free);

        TAILQ_REMOVE(&shelf->free, p, entry);
        shelf->count--;
        account_free(ACCOUNT_ANSWERS, p, sizeof *p + p->cap);
    }
}

void out_pool_fini(struct out_pool *pool)
{
    for (size_t i = 0; i < OUT_SHELVES; i++)
        out_shelf_trim(&pool->shelves[i], 0);
}

/* A busy daemon allocates them again with the next answers, at no measurable cost. */
void out_pool_trim(struct out_pool *pool)
{
    for (size_t i = 0; i < OUT_SHELVES; i++)
        out_shelf_trim(&pool->shelves[i], pool->shelves[i].count / 2);
}

void outq_init(struct outq *q)
{
    *q = (struct outq){0};
    TAILQ_INIT(&q->parts);
}

/* The shelf whose parts have so much room: at most LARGE_SIZE. */
static size_t shelf_of(size_t room)
{
    return (size_t)(room > shelves[0].cap) + (room > shelves[1].cap);
}

/* NULL: memory is short, and the queue is broken. */
static struct out_part *add_part(struct outq *q, struct out_pool *pool, enum part_kind kind,
                                 size_t room)
{
    struct out_shelf *shelf = &pool->shelves[shelf_of(room)];
    uint32_t cap = shelves[shelf_of(room)].cap;
    struct out_part *p = TAILQ_FIRST(&shelf->free);

    if (p != NULL) {
        TAILQ_REMOVE(&shelf->free, p, entry);
        shelf->count--;
    } else {
        p = account_request(ACCOUNT_ANSWERS,
                            q->bytes <= SHORT_QUEUE ? ACCOUNT_SMALL : ACCOUNT_ORDINARY,
                            sizeof *p + cap);
        q->broken = q->broken || p == NULL;
        if (p == NULL)
            return NULL;
    }
    p->kind = kind;
    p->start = p->end = 0;
    p->cap = cap;
    p->sent = 0;
    TAILQ_INSERT_TAIL(&q->parts, p, entry);
    return p;
}

static void drop_first_blob(struct out_part *p)
{
    blob_unref(*blob_at(p, p->start));
    p->start += entry_size(p);
    p->sent = 0;
}

/* The part is done with: it holds no blobs any more. */
static void drop_first(struct outq *q, struct out_pool *pool)
{
    struct out_part *p = TAILQ_FIRST(&q->parts);
    struct out_shelf *shelf = &pool->shelves[shelf_of(p->cap)];

    TAILQ_REMOVE(&q->parts, p, entry);
    if (shelf->count >= shelves[shelf_of(p->cap)].kept) {
        account_free(ACCOUNT_ANSWERS, p, sizeof *p + p->cap);
        return;
    }
    TAILQ_INSERT_HEAD(&shelf->free, p, entry);
    shelf->count++;
}

bool outq_drop(struct outq *q, struct out_pool *pool, size_t max)
{
    size_t least = max == SIZE_MAX || account.total < OUTQ_DROPPED_BYTES
                       ? 0
                       : account.total - OUTQ_DROPPED_BYTES;
    struct out_part *p;

    q->bytes = 0;
    while (max > 0 && account.total >= least && (p = TAILQ_FIRST(&q->parts)) != NULL) {
        for (; max > 0 && account.total >= least && p->kind != PART_COPIED && p->start < p->end;
             max--)
            drop_first_blob(p);
        if (p->kind == PART_COPIED || p->start == p->end)
            drop_first(q, pool);
        max -= max > 0;
    }
    return TAILQ_EMPTY(&q->parts);
}

void outq_fini(struct outq *q, struct out_pool *pool)
{
    outq_drop(q, pool, SIZE_MAX);
}

/* Returns the last part if it has this kind and enough room, else appends a new part. If the last
 * part has the same kind and is full, the queue is likely to grow, so the new part is larger.
 * Behind a part of another kind the new part is small: between two values of a list stand a few
 * bytes, which must not take a page each. */
static struct out_part *part_with(struct outq *q, struct out_pool *pool, enum part_kind kind,
                                  size_t room)
{
    struct out_part *p = TAILQ_LAST(&q->parts, out_list);
    bool same = p != NULL && p->kind == kind;

    if (same && p->cap - p->end >= room)
        return p;
    return add_part(q, pool, kind, same && p->cap >= room ? p->cap + 1 : room);
}

/* q->bytes has 63 bits. */
static void add_bytes(struct outq *q, size_t n)
{
    q->bytes = (q->bytes + n) & SIZE_MAX >> 1;
}

uint8_t *outq_reserve(struct outq *q, struct out_pool *pool, size_t len)
{
    struct out_part *p;
    uint8_t *at;

    assert(len <= OUTQ_RESERVE_MAX);
    p = q->broken ? NULL : part_with(q, pool, PART_COPIED, len);
    if (p == NULL)
        return pool->nowhere;
    at = p->room + p->end;
    p->end += (uint32_t)len;
    add_bytes(q, len);
    return at;
}

void outq_put(struct outq *q, struct out_pool *pool, const void *bytes, size_t len)
{
    const uint8_t *from = bytes;

    while (len > 0 && !q->broken) {
        struct out_part *p = TAILQ_LAST(&q->parts, out_list);
        size_t n;

        if (p == NULL || p->kind != PART_COPIED || p->cap == p->end)
            p = part_with(q, pool, PART_COPIED, len < LARGE_SIZE ? len : LARGE_SIZE);
        if (p == NULL)
            return;
        n = p->cap - p->end < len ? p->cap - p->end : len;
        memcpy(p->room + p->end, from, n);
        p->end += (uint32_t)n;
        add_bytes(q, n);
        from += n;
        len -= n;
    }
}

/* The bytes to send of the blob at that place of the part. */
static struct slice part_bytes(const struct out_part *p, uint32_t at)
{
    const struct blob *b = *blob_at(p, at);

    if (p->kind == PART_PIECES)
        return ((const struct out_piece *)(const void *)(p->room + at))->bytes;
    return p->kind == PART_COUNTED ? blob_counted(b) : blob_slice(b);
}

static void outq_add_shared(struct outq *q, struct out_pool *pool, enum part_kind kind,
                            struct blob *b)
{
    struct out_part *p = q->broken ? NULL : part_with(q, pool, kind, sizeof b);

    if (p == NULL)
        return;
    *blob_at(p, p->end) = blob_ref(b);
    add_bytes(q, part_bytes(p, p->end).len);
    p->end += (uint32_t)sizeof b;
}

void outq_put_part(struct outq *q, struct out_pool *pool, struct blob *b, struct slice bytes)
{
    struct out_piece piece = {.blob = b, .bytes = bytes};
    struct out_part *p;

    if (b == NULL || bytes.len < SHARE_FROM) {
        outq_put(q, pool, bytes.ptr, bytes.len);
        return;
    }
    p = q->broken ? NULL : part_with(q, pool, PART_PIECES, sizeof piece);
    if (p == NULL)
        return;
    blob_ref(b);
    memcpy(p->room + p->end, &piece, sizeof piece);
    p->end += (uint32_t)sizeof piece;
    add_bytes(q, bytes.len);
}

void outq_put_blob(struct outq *q, struct out_pool *pool, struct blob *b)
{
    if (blob_slice(b).len < SHARE_FROM)
        outq_put(q, pool, blob_slice(b).ptr, blob_slice(b).len);
    else
        outq_add_shared(q, pool, PART_SHARED, b);
}

void outq_share(struct outq *q, struct out_pool *pool, struct blob *b)
{
    if (b->len != 0)
        outq_add_shared(q, pool, PART_SHARED, b);
}

void outq_share_counted(struct outq *q, struct out_pool *pool, struct blob *b)
{
    outq_add_shared(q, pool, PART_COUNTED, b);
}

/* --- Sending. --- */

void outq_sent(struct outq *q, struct out_pool *pool, size_t n)
{
    add_bytes(q, 0 - n);
    while (n > 0) {
        struct out_part *p = TAILQ_FIRST(&q->parts);
        bool copied = p->kind == PART_COPIED;
        size_t left = copied ? p->end - p->start : part_bytes(p, p->start).len - p->sent;

        if (n < left && copied)
            p->start += (uint32_t)n;
        else if (n < left)
            p->sent += n;
        if (n < left)
            return;
        n -= left;
        if (!copied)
            drop_first_blob(p);
        if (copied || p->start == p->end)
            drop_first(q, pool);
    }
}

/* The first unsent bytes of the first part; *of: their blob, or NULL for copied bytes. */
static struct slice first_bytes(const struct out_part *p, struct blob **of)
{
    *of = p->kind == PART_COPIED ? NULL : *blob_at(p, p->start);
    if (p->kind == PART_COPIED)
        return (struct slice){p->room + p->start, p->end - p->start};
    return slice_from(part_bytes(p, p->start), p->sent);
}

void outq_move(struct outq *to, struct outq *from, struct out_pool *pool, size_t len)
{
    while (len > 0) {
        struct blob *of;
        struct slice s = first_bytes(TAILQ_FIRST(&from->parts), &of);

        if (s.len > len)
            s.len = len;
        outq_put_part(to, pool, of, s);
        len -= s.len;
        outq_sent(from, pool, s.len);
    }
}

struct slice outq_tail(const struct outq *q, size_t len)
{
    const struct out_part *p = TAILQ_LAST(&q->parts, out_list);

    if (q->broken || p == NULL || p->kind != PART_COPIED || p->end - p->start < len)
        return (struct slice){NULL, 0};
    return (struct slice){p->room + p->end - len, len};
}

/* Pieces of the queue for one system call: at most `max` bytes. */
struct offer {
    struct iovec iov[PIECES_A_CALL];
    size_t count;
    size_t bytes;
    size_t max;
};

/* False: there is no room for more. */
static bool offer_bytes(struct offer *o, const uint8_t *bytes, size_t len)
{
    if (len > o->max - o->bytes)
        len = o->max - o->bytes;
    o->iov[o->count++] = (struct iovec){(void *)(uintptr_t)bytes, len};
    o->bytes += len;
    return o->count < PIECES_A_CALL && o->bytes < o->max;
}

static bool offer_part(struct offer *o, const struct out_part *p)
{
    size_t skip = p->sent;

    if (p->kind == PART_COPIED)
        return offer_bytes(o, p->room + p->start, p->end - p->start);
    for (uint32_t at = p->start; at < p->end; at += entry_size(p)) {
        struct slice s = slice_from(part_bytes(p, at), skip);

        if (!offer_bytes(o, s.ptr, s.len))
            return false;
        skip = 0;
    }
    return true;
}

/* Collects the first bytes of the queue, at most `max` > 0, for sendmsg(). The caller does not zero
 * the array of pieces, because it is large. */
static void offer_front(struct offer *o, const struct outq *q, size_t max)
{
    o->count = o->bytes = 0;
    o->max = max;
    TAILQ_EACH(const struct out_part, p, &q->parts, entry) {
        if (!offer_part(o, p))
            break;
    }
}

struct slice outq_front(const struct outq *q, uint8_t *room, size_t len)
{
    struct offer o;
    size_t at = 0;

    if (q->bytes == 0 || len == 0)
        return (struct slice){room, 0};
    offer_front(&o, q, len);
    if (o.count == 1)
        return (struct slice){o.iov[0].iov_base, o.bytes};
    for (size_t i = 0; i < o.count; i++) {
        memcpy(room + at, o.iov[i].iov_base, o.iov[i].iov_len);
        at += o.iov[i].iov_len;
    }
    return (struct slice){room, at};
}

static int send_parts(struct outq *q, struct out_pool *pool, int fd, size_t max)
{
    while (q->bytes > 0 && max > 0) {
        struct offer o;
        struct msghdr msg = {.msg_iov = o.iov};
        ssize_t n;

        offer_front(&o, q, max);
        msg.msg_iovlen = o.count;
        n = o.count == 1 ? send(fd, o.iov[0].iov_base, o.iov[0].iov_len, MSG_NOSIGNAL)
                         : sendmsg(fd, &msg, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        outq_sent(q, pool, (size_t)n);
        max -= (size_t)n;
        if ((size_t)n < o.bytes)
            return -EAGAIN; /* the socket is full; the next call would only say so */
    }
    return 0;
}

/* Nearly always the queue has only the bytes of one part, and the socket takes all of them. */
int outq_send(struct outq *q, struct out_pool *pool, int fd, size_t max)
{
    const struct out_part *p = TAILQ_FIRST(&q->parts);
    ssize_t n;

    if (q->bytes == 0)
        return 0;
    if (p->kind != PART_COPIED || q->bytes != p->end - p->start || q->bytes > max)
        return send_parts(q, pool, fd, max);
    do
        n = send(fd, p->room + p->start, q->bytes, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    if ((size_t)n < q->bytes) {
        outq_sent(q, pool, (size_t)n);
        return -EAGAIN;
    }
    q->bytes = 0;
    drop_first(q, pool);
    return 0;
}
