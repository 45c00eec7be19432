/* What a snapshot keeps of the store before it comes to write it: a key that changes or goes while
 * the snapshot is open is kept as it was. For snapshot.c and keymap_moment.c.
 *
 * Small values are encoded at once, many in one chunk; of large ones a reference is kept, or a copy
 * where the change writes over the value. When memory is short the snapshot fails, and nothing
 * else. */
#pragma once

#include <sys/queue.h>

#include "store/disk/record.h"
#include "store/memory/blob.h"

struct ahead_item;
STAILQ_HEAD(ahead_list, ahead_item);

struct snapshot_ahead {
    struct ahead_list items; /* in the order in which they are to be written */
    struct ahead_item *last; /* a chunk that may have room; NULL: none */
    size_t bytes;            /* what is kept counts for */
    bool failed;             /* memory was short: nothing more is kept */
};

void ahead_init(struct snapshot_ahead *a);

/* Keeps a change that is a KEY_PUT, a QUEUE_PUSH or a SNAPSHOT_HELD of this value, or any other
 * small one with `value` NULL. `overwritten`: the value's bytes are going to change. `name` is the
 * space's, and lives longer. */
void ahead_put(struct snapshot_ahead *a, const char *name, const struct change *change,
               struct blob *value, bool overwritten);

/* Adds what is kept to the batch, until that has about so many bytes. False: memory is short. */
bool ahead_write(struct snapshot_ahead *a, struct batch *out, size_t bytes);

static inline bool ahead_is_empty(const struct snapshot_ahead *a)
{
    return STAILQ_EMPTY(&a->items);
}

/* Frees one item; false: there is none. */
bool ahead_free_one(struct snapshot_ahead *a);
