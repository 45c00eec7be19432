/* What a space may hold, all its parts together: --space-limit. Each part counts its own bytes;
 * this is their sum. Bytes are counted by length and not by malloc()'s cost (that is account.h), so
 * that equal changes give equal sums on every machine.
 *
 * Kept bytes and waiting bytes are two sums, each with this limit: a waiting client must not change
 * the result of another client's SET. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct quota {
    size_t kept;    /* keys, queues, worker stores, run records, etcd's tree */
    size_t waiting; /* waiters and watches, with the absent keys that they wait for */
    size_t max;     /* of each of the two sums; 0: no limit */
};

/* True when `more` bytes fit in the place of `less`, which are counted in `sum` now. */
static inline bool quota_fits(const struct quota *q, size_t sum, size_t less, size_t more)
{
    return q->max == 0 || more <= less || (more <= q->max && sum - less <= q->max - more);
}

static inline bool quota_has_room(const struct quota *q, size_t less, size_t more)
{
    return quota_fits(q, q->kept, less, more);
}

/* The same of what waits. */
static inline bool quota_may_wait(const struct quota *q, size_t more)
{
    return quota_fits(q, q->waiting, 0, more);
}

/* Replaces `less` kept bytes by `more`; `own` is the sum of the part that keeps them. */
static inline void quota_keep(struct quota *q, size_t *own, size_t more, size_t less)
{
    *own += more - less;
    q->kept += more - less;
}

static inline void quota_wait(struct quota *q, size_t *own, size_t more, size_t less)
{
    *own += more - less;
    q->waiting += more - less;
}

/* What may be kept beyond what is. */
static inline size_t quota_room(const struct quota *q)
{
    if (q->max == 0)
        return SIZE_MAX;
    return q->kept < q->max ? q->max - q->kept : 0;
}
