/* Changes as bytes: the protobuf of proto/record.proto, for the journal, for snapshots and for the
 * log in etcd. All changes between two commits are one batch. Pure; framing and checksums are the
 * journal's. */
#pragma once

#include "store/change/change.h"

/* The changes of an iteration, encoded as they come: what they borrow may go afterwards. */
struct batch {
    uint64_t number;
    size_t count;      /* of changes; 0: there is nothing to write */
    const char *space; /* of the last change; NULL: the next one says its space */
    uint8_t *bytes;
    size_t len;
    size_t cap;
    size_t kept;  /* bytes of `bytes` behind `cap`, for records that must not fail */
    bool refuses; /* whoever keeps batches takes no changes at present */
    bool fixed;   /* the memory is the caller's, and does not grow */
};

void batch_init(struct batch *b);
void batch_fini(struct batch *b);

/* A batch in memory of the caller's: what does not fit is not added. It needs no batch_fini(). */
void batch_init_fixed(struct batch *b, uint8_t *bytes, size_t cap);

/* Empties the batch and gives it its number. Keeps the memory. */
void batch_begin(struct batch *b, uint64_t number);

/* Adds a change of a space, whose name lives as long as the batch. False if memory is short or no
 * change is taken: the batch is unchanged, and the caller must not apply the change. */
bool batch_add(struct batch *b, const char *space, const struct change *change);

/* Keeps room for a change with a record of this size, whatever is added before it; until the batch
 * is taken or ends. False: memory is short, or no change can be taken. */
bool batch_keep(struct batch *b, size_t size);

/* Releases the kept room. */
void batch_release(struct batch *b);

/* The bytes that a record takes beside those of its space's name and its own slices, at most. */
#define RECORD_SIZE_BASE 128u

/* Adds all changes of another batch, of the same number. False when memory is short. */
bool batch_append(struct batch *b, const struct batch *other);

/* Writes down the wall clock (ns since 1970) before the commit; no change is added after that.
 * Cannot fail for a batch with changes: batch_add() has kept the room. False: memory is short for a
 * batch that holds only the time. */
bool batch_end(struct batch *b, int64_t time_ns);

/* The encoded batch, until it changes. */
static inline struct slice batch_bytes(const struct batch *b)
{
    return (struct slice){b->bytes, b->len};
}

/* Takes the memory of the bytes out of the batch, which is then empty: the caller frees it. *cap is
 * how large it is. */
uint8_t *batch_take(struct batch *b, size_t *cap);

/* One change that was decoded. */
struct record {
    struct slice space;
    struct change change;
};

/* Reads a batch, change by change. */
struct record_reader {
    struct reader bytes;
    uint64_t number;
    int64_t time_ns;    /* of the commit, when all was read; 0: unknown */
    struct slice space; /* of the last record */
    bool failed;
};

static inline void record_reader_init(struct record_reader *r, struct slice batch)
{
    *r = (struct record_reader){.bytes = {.in = batch}};
}

/* The next record, whose slices point into the batch. False: there is none left, or r->failed: the
 * bytes are no batch, or have an unknown field or kind. store_can_apply() says whether the store
 * can apply the change. */
bool record_next(struct record_reader *r, struct record *out);
