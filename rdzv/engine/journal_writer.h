/* The engine's journal on a data directory, with one thread of its own, so that the loop does not
 * wait for syncs. No libevent: the loop polls a descriptor, and then calls journal_writer_poll().
 * All functions are the loop's; the thread touches neither the log nor the account of memory.
 *
 * --sync batch: the loop appends each batch itself (one write()), which then survives the process;
 * the thread syncs sync_interval_ms after the first unsynced batch. --sync always: the thread
 * appends and syncs all waiting batches at once; then poll() returns the last one's number.
 *
 * Each batch stays in memory until its sync. While they exceed a quarter of pending_max, answers
 * wait for the sync in mode batch, too, so that clients do not outrun the disk. While they exceed
 * half of pending_max, each commit waits for the disk: 100 ms at most, and 2 s in all if the disk
 * hangs.
 *
 * Faults. When a write or sync fails, the writer is failed: journal_writer_refuses() returns the
 * reason, and the engine refuses changes. Applied changes stay pending, and their answers wait;
 * written batches are synced as usual, unless a sync has failed. The thread tries again each second
 * (retry_ms): after a failed sync it writes all pending batches into a new segment; if the disk is
 * full, it removes the ballast first. Once all batches are synced and the ballast is back, the
 * writer works again. A process that ends earlier loses only unanswered changes; in mode batch it
 * may also lose changes that were answered before a sync failed, unless the disk has written them.
 * While pending batches exceed pending_max, or memory is short, changes are refused as well, and
 * the writer continues.
 *
 * Memory: no commit can fail for want of memory. A small batch is copied; a large batch, or any
 * batch when memory is short, gives up its buffer; the memory for this is kept aside in advance,
 * and without it the writer refuses changes. */
#pragma once

#include "rdzv/engine/clock.h"
#include "rdzv/engine/engine.h"
#include "store/disk/journal.h"

/* In mode batch, the disk is synced this long after a change. */
#define SYNC_INTERVAL_MS 100u

enum journal_writer_mode { JOURNAL_WRITER_BATCH, JOURNAL_WRITER_ALWAYS };

struct journal_writer_options {
    struct journal *journal; /* the writer's from now on */
    enum journal_writer_mode mode;
    uint64_t sync_interval_ms; /* mode batch; 0: SYNC_INTERVAL_MS */
    size_t pending_max;        /* bytes; 0: 64 MiB */
    uint64_t retry_ms;         /* after a fault; 0: 1000 */
    const struct clock *clock; /* of the wait after a failed snapshot */
    const char *path; /* of the directory, for journal_writer_disk(); outlives the writer */
};

struct journal_writer_stats {
    uint64_t batches, bytes; /* committed, payloads alone */
    uint64_t syncs;
    uint64_t slowest_sync_ns;
    uint64_t failures; /* failed writes, syncs and other calls; each retry counts */
    size_t pending_batches, pending_bytes; /* not known to be synced */
    struct journal_figures journal;
    uint64_t snapshot_ns; /* how long the last one of this process took */
    uint64_t snapshots, snapshot_failures;
};

struct journal_writer;

/* Starts the thread. NULL with errno if memory is short or no thread can start; then the caller
 * still owns the journal. */
struct journal_writer *journal_writer_start(const struct journal_writer_options *options);

/* Readable when journal_writer_poll() is to be called. */
int journal_writer_fd(const struct journal_writer *w);

/* As engine_journal.commit(). */
uint64_t journal_writer_commit(struct journal_writer *w, struct batch *batch);

/* Takes note of what the thread did. Returns the number of the newest batch that is as durable as
 * promised, for engine_committed(). May be called at any time. */
uint64_t journal_writer_poll(struct journal_writer *w);

/* NULL: changes may come. Else why none may: a sentence for people, that lives until the next call
 * of journal_writer_poll(). Changes only within that call and within commit. */
const char *journal_writer_refuses(const struct journal_writer *w);

/* As of the last journal_writer_poll() or commit; both also set the pending figures. */
const struct journal_writer_stats *journal_writer_stats(const struct journal_writer *w);

/* What the thread has measured. */
struct journal_writer_disk {
    struct durations syncs; /* from SYNC_FIRST_NS on */
    uint64_t free, size;    /* bytes of the file system that rdzvd may use, and all; 0: not known */
};

/* As of the last sync, or of the last call: it has the thread measure again. */
void journal_writer_disk(struct journal_writer *w, struct journal_writer_disk *out);

/* Writes everything to disk and ends the thread: with a clean end of the journal if all batches
 * could be kept. Waits for the disk. Frees the writer, and closes the journal. False: batches
 * without answers (or, in mode batch, without a sync) may be lost. NULL is allowed. */
bool journal_writer_stop(struct journal_writer *w);

/* --- Snapshots. --- */

/* The batches behind the newest snapshot exceed 64 MiB and that snapshot's size, no snapshot is
 * being written, none has failed within the last minute, and the writer works. */
bool journal_writer_snapshot_due(struct journal_writer *w);

enum journal_writer_snapshot_state {
    JOURNAL_WRITER_SNAPSHOT_NONE,
    JOURNAL_WRITER_SNAPSHOT_OPEN,   /* takes parts */
    JOURNAL_WRITER_SNAPSHOT_ENDING, /* the thread has the rest to do; then it is NONE */
    JOURNAL_WRITER_SNAPSHOT_FAILED, /* its end, or abandoning it: then ENDING */
};

/* Begins a snapshot of the store at the last commit, with no open change. The state is NONE. */
void journal_writer_snapshot_begin(struct journal_writer *w);

/* The bytes of parts that the writer can take now: at most 1 MiB waits for the disk. After a 0, the
 * descriptor becomes readable when there is room again. */
size_t journal_writer_snapshot_room(struct journal_writer *w);

/* Takes a part, a copy of it. False: there is no memory for it now. */
bool journal_writer_snapshot_put(struct journal_writer *w, struct slice part);

/* Whole, the last part was put: the thread syncs and names it, and removes what it makes needless.
 * Or abandoned. */
void journal_writer_snapshot_end(struct journal_writer *w, bool is_whole);
enum journal_writer_snapshot_state journal_writer_snapshot_state(struct journal_writer *w);
