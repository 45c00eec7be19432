/* The whole store at one moment, encoded in slices while clients change the store; and back.
 *
 * A snapshot is a sequence of batches (record.h), loaded in their order. Its moment is that of
 * snapshot_begin(): call it between two batches of changes, so that the snapshot has all of the
 * first and nothing of the second. It keeps its own references and copies: a change never waits for
 * an open snapshot, never fails because of it, and has the same result without it. If memory is
 * short, the snapshot fails.
 *
 * In it are all spaces: c10d keys and queues, worker stores, run records, etcd's trees with their
 * indexes, deadlines, counters and events, sessions of relays. Not in it: who
 * waits, and what waiting takes. */
#pragma once

#include "store/disk/record.h"

struct store;
struct snapshot;

/* The time depends on the number of spaces, worker stores, run records and etcd events, and not on
 * the number of keys. NULL: memory is short, another snapshot is open, or the process has made half
 * a billion snapshots. */
struct snapshot *snapshot_begin(struct store *s);

enum snapshot_state {
    SNAPSHOT_GOES_ON,
    SNAPSHOT_DONE,      /* this was the last batch of it */
    SNAPSHOT_FAILED,    /* memory is short, *out is undefined; the caller must end the snapshot, and
                           retry later */
    SNAPSHOT_OVERTAKEN, /* the same, since a change came of which no past is kept; the next one may
                           begin at once */
};

/* Writes the next batch of the snapshot to *out, about `bytes` long, or as long as one value. Its
 * number is 0. The caller may pass the time to batch_end(). Must not be called within a change. */
enum snapshot_state snapshot_write(struct snapshot *s, size_t bytes, struct batch *out);

/* Ends a snapshot, finished or not; lazy_free_run() then frees its memory in slices. Takes NULL.
 * Must be called before store_fini(). */
void snapshot_end(struct snapshot *s);

/* For store.c: memory is short by `need` bytes. A snapshot that holds at least as many bytes fails
 * and frees them. */
void snapshot_yield(struct snapshot *s, size_t need);

/* Loads the next batch into a store, which was empty before the first one. After the last batch,
 * snapshot_is_loaded() is true. False: the bytes are no batch of a snapshot, the batch is not the
 * next one, or memory is short; the caller must then discard the store. A store that is being
 * loaded accepts no commands.
 *
 * Spaces are made as they come (store_space()). Loaded with another --space-limit than it had, a
 * space may be over it, as after a replay. c10d keys may come in another order than they had, and
 * LIST_KEYS then lists them so; all else is as it was. */
bool snapshot_load(struct store *s, struct slice batch_bytes);

/* True if all batches of a snapshot have been loaded; false without any batch. */
bool snapshot_is_loaded(const struct store *s);

/* The time of its last batch, from batch_end(); 0: none. */
int64_t snapshot_time(const struct store *s);
