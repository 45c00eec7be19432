/* What the loop's side of the journal writer and its thread share. */
#pragma once

#include <pthread.h>

#include "rdzv/engine/journal_writer.h"
#include "rdzv/engine/pending.h"

#define REASON_SIZE   200
#define COALESCED_MAX 256

struct journal_writer {
    enum journal_writer_mode mode;
    uint64_t sync_interval_ms, retry_ms;
    size_t pending_max;
    const struct clock *clock;
    const char *path;
    int wake; /* an eventfd: the loop is to call journal_writer_poll() */
    pthread_t thread;

    /* The loop's. */
    struct pending *spare;    /* so that a commit needs no memory */
    char reason[REASON_SIZE]; /* empty: changes may come */
    struct journal_writer_stats stats;
    uint64_t snapshot_failed_ms; /* when, by the clock; 0: never */
    uint64_t snapshots_failed_seen;

    pthread_mutex_t lock;
    pthread_cond_t work;

    /* The lock's. */
    struct pending_list pending;
    struct pending *unwritten; /* the first one that was not appended; NULL: none */
    uint64_t promised;         /* last batch that is durable enough to be answered */
    uint64_t sync_at_ns;       /* mode batch: when the next sync is due; 0: nothing to sync */
    bool failed;               /* see reason_now; the thread tries again at retry_at_ns */
    bool stop, clean;          /* the thread is to end; it ended the journal cleanly */
    uint64_t retry_at_ns;
    int error; /* of the last failure */
    char reason_now[REASON_SIZE];
    struct journal_writer_stats now; /* what the loop has not seen yet */
    struct journal_writer_disk disk;
    bool disk_asked; /* the thread is to measure it */
    enum journal_writer_snapshot_state snapshot_state;
    bool snapshot_asked;     /* the thread has not begun it yet */
    bool snapshot_abandoned; /* the thread has not removed it yet */
    uint64_t snapshot_number;
    uint64_t snapshot_began_ns;
    struct pending_list parts;         /* of a snapshot */
    struct pending_list written_parts; /* the loop frees them */
    size_t parts_bytes;                /* bytes of `parts` and of the part being written */

    /* Of whoever writes: the loop with the lock, in mode batch while nothing has failed; else the
     * thread. Even then, in mode batch, the thread has the lock when it gives it back. */
    struct journal *journal;

    /* The thread's. */
    struct journal_snapshot snapshot;
    bool snapshot_open;
    struct journal_batch gathered[COALESCED_MAX];
};

/* True: the thread appends. With the lock. */
static inline bool journal_writer_thread_writes(const struct journal_writer *w)
{
    return w->mode == JOURNAL_WRITER_ALWAYS || w->failed;
}

/* A step failed: the writer refuses changes from now on. With the lock. */
void journal_writer_fail(struct journal_writer *w, const char *what, int error);

void *journal_writer_main(void *arg);
