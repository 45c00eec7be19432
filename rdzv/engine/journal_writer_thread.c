/* The thread of the journal writer: it syncs, writes what the loop does not, tries again after a
 * fault, and writes snapshots. See journal_writer.h for what it promises. */
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/statvfs.h>

#include "rdzv/engine/journal_writer_internal.h"

static uint64_t now_ns(void)
{
    return clock_monotonic_ns(&clock_system);
}

static void wake_loop(struct journal_writer *w)
{
    eventfd_write(w->wake, 1);
}

/* One call of the journal, which may take long: the lock is given up meanwhile. */
static int journal_writer_unlocked(struct journal_writer *w, int (*call)(struct journal *))
{
    int result;

    pthread_mutex_unlock(&w->lock);
    result = call(w->journal);
    pthread_mutex_lock(&w->lock);
    return result;
}

/* --- Faults. --- */

/* If the snapshot is still growing, the loop must notice the failure and end it. If the loop has
 * already handed over the last part, the snapshot counts as abandoned: the next snapshot may begin
 * when its parts are freed. */
static void fail_snapshot(struct journal_writer *w)
{
    if (w->snapshot_state == JOURNAL_WRITER_SNAPSHOT_NONE ||
        w->snapshot_state == JOURNAL_WRITER_SNAPSHOT_FAILED)
        return;
    if (!w->snapshot_abandoned)
        w->now.snapshot_failures++;
    w->snapshot_asked = false;
    if (w->snapshot_state == JOURNAL_WRITER_SNAPSHOT_OPEN)
        w->snapshot_state = JOURNAL_WRITER_SNAPSHOT_FAILED;
    else
        w->snapshot_abandoned = true;
}

void journal_writer_fail(struct journal_writer *w, const char *what, int error)
{
    char text[100];

    w->failed = true;
    w->error = error;
    w->retry_at_ns = now_ns() + w->retry_ms * 1000000;
    w->now.failures++;
    snprintf(w->reason_now, sizeof w->reason_now, "%s failed: %s", what,
             strerror_r(-error, text, sizeof text));
    fail_snapshot(w);
    wake_loop(w);
    pthread_cond_signal(&w->work);
}

/* --- Writing and syncing. --- */

/* Takes the next batches to append. Unless the writer has failed, batches behind a snapshot that
 * waits to begin stay for the next segment. The caller holds the lock. */
static size_t journal_writer_coalesce(struct journal_writer *w)
{
    size_t count = 0;

    for (; w->unwritten != NULL && count < COALESCED_MAX; count++) {
        if (w->snapshot_asked && !w->failed && w->unwritten->number > w->snapshot_number)
            break;
        w->gathered[count] = (struct journal_batch){w->unwritten->number, w->unwritten->bytes};
        w->unwritten = TAILQ_NEXT(w->unwritten, entry);
    }
    return count;
}

/* Writes all that has gathered; 0 or -errno. With the lock, which it gives up meanwhile. */
static int write_coalesced(struct journal_writer *w,
                           int (*put)(struct journal *, const struct journal_batch *, size_t))
{
    struct pending *first = w->unwritten;
    size_t count;

    while ((count = journal_writer_coalesce(w)) > 0) {
        int error;

        pthread_mutex_unlock(&w->lock);
        error = put(w->journal, w->gathered, count);
        pthread_mutex_lock(&w->lock);
        if (error != 0) {
            w->unwritten = first;
            return error;
        }
        first = w->unwritten;
    }
    return 0;
}

/* Syncs all appended batches once. The caller holds the lock, which this releases meanwhile. */
static int sync_journal(struct journal_writer *w)
{
    struct journal_sync sync;
    uint64_t began = now_ns(), took;
    int result;

    w->sync_at_ns = 0;
    if (!journal_sync_begin(w->journal, &sync))
        return 0;
    pthread_mutex_unlock(&w->lock);
    result = journal_sync_run(&sync);
    pthread_mutex_lock(&w->lock);
    journal_sync_end(w->journal, &sync, result);
    took = now_ns() - began;
    w->now.syncs++;
    durations_add(&w->disk.syncs, SYNC_FIRST_NS, took, 1);
    if (took > w->now.slowest_sync_ns)
        w->now.slowest_sync_ns = took;
    w->now.journal = *journal_figures(w->journal);
    wake_loop(w);
    return result;
}

/* --- Trying again. --- */

/* Everything that is not known to be synced, into a new segment. */
static int write_again(struct journal_writer *w)
{
    int error;

    w->unwritten = TAILQ_FIRST(&w->pending);
    while (w->unwritten != NULL && w->unwritten->number <= journal_figures(w->journal)->durable)
        w->unwritten = TAILQ_NEXT(w->unwritten, entry);
    error = journal_writer_unlocked(w, journal_rewrite_begin);
    if (error == 0)
        error = write_coalesced(w, journal_rewrite_put);
    return error == 0 ? journal_writer_unlocked(w, journal_rewrite_end) : error;
}

/* Until nothing is left: commits may come meanwhile. */
static int keep_all(struct journal_writer *w)
{
    int error = journal_figures(w->journal)->tainted ? write_again(w) : 0;

    w->now.journal = *journal_figures(w->journal);
    while (error == 0 && (w->unwritten != NULL || w->now.journal.durable < w->now.journal.last)) {
        error = write_coalesced(w, journal_append);
        if (error == 0)
            error = sync_journal(w);
        w->now.journal = *journal_figures(w->journal);
    }
    return error;
}

static void try_again(struct journal_writer *w)
{
    const char *what = "writing to the journal";
    int error;

    if (fs_is_full(w->error))
        journal_writer_unlocked(w, journal_ballast_drop);
    error = keep_all(w);
    if (error == 0) {
        error = journal_writer_unlocked(w, journal_ballast_make);
        what = error == 0 ? what : "keeping 4 MiB in reserve";
    }
    if (error == 0 && w->unwritten != NULL)
        error = keep_all(w);
    if (error != 0) {
        journal_writer_fail(w, what, error);
        return;
    }
    w->failed = false;
    wake_loop(w);
}

/* --- One step of each kind. With the lock; true: something was done. --- */

static bool sync_is_due(const struct journal_writer *w)
{
    return w->sync_at_ns != 0 &&
           (w->stop || w->now.pending_bytes > w->pending_max / 4 || now_ns() >= w->sync_at_ns);
}

/* Mode batch: what was written before a write failed has been answered, and is synced in time all
 * the same. */
static bool may_sync(const struct journal_writer *w)
{
    return w->mode == JOURNAL_WRITER_BATCH && (!w->failed || !journal_figures(w->journal)->tainted);
}

static bool step_journal(struct journal_writer *w)
{
    int error = 0;

    if (w->mode == JOURNAL_WRITER_BATCH ? !may_sync(w) || !sync_is_due(w)
                                        : w->failed || w->unwritten == NULL)
        return false;
    if (w->mode == JOURNAL_WRITER_ALWAYS)
        error = write_coalesced(w, journal_append);
    if (error != 0) {
        journal_writer_fail(w, "writing to the journal", error);
        return true;
    }
    error = sync_journal(w);
    if (error != 0)
        journal_writer_fail(w, "syncing the journal", error);
    if (error == 0 && w->mode == JOURNAL_WRITER_ALWAYS && w->unwritten == NULL) {
        /* In mode batch the loop does so. The answers are on their way already. */
        pthread_mutex_unlock(&w->lock);
        journal_mark(w->journal);
        pthread_mutex_lock(&w->lock);
    }
    return true;
}

/* Gives the parts of a failed or abandoned snapshot to the loop to free, and removes the file. */
static bool clean_up_snapshot(struct journal_writer *w)
{
    TAILQ_CONCAT(&w->written_parts, &w->parts, entry);
    w->parts_bytes = 0;
    if (w->snapshot_open) {
        pthread_mutex_unlock(&w->lock);
        journal_snapshot_abandon(&w->snapshot);
        pthread_mutex_lock(&w->lock);
    }
    w->snapshot_open = w->snapshot_asked = false;
    if (w->snapshot_abandoned)
        w->snapshot_state = JOURNAL_WRITER_SNAPSHOT_NONE;
    w->snapshot_abandoned = false;
    wake_loop(w);
    return true;
}

static bool journal_writer_put_part(struct journal_writer *w)
{
    struct pending *part = TAILQ_FIRST(&w->parts);
    int error;

    TAILQ_REMOVE(&w->parts, part, entry);
    pthread_mutex_unlock(&w->lock);
    error = journal_snapshot_put(&w->snapshot, part->bytes);
    pthread_mutex_lock(&w->lock);
    TAILQ_INSERT_TAIL(&w->written_parts, part, entry);
    w->parts_bytes -= part->bytes.len;
    if (error != 0)
        fail_snapshot(w);
    wake_loop(w);
    return true;
}

static void remove_needless(struct journal_writer *w)
{
    char name[JOURNAL_NAME_SIZE];

    while (journal_next_needless(w->journal, name)) {
        pthread_mutex_unlock(&w->lock);
        w->snapshot.out.fs->remove(w->snapshot.out.fs, name);
        pthread_mutex_lock(&w->lock);
    }
}

static bool journal_writer_end_snapshot(struct journal_writer *w)
{
    int error;

    pthread_mutex_unlock(&w->lock);
    error = journal_snapshot_end(&w->snapshot);
    pthread_mutex_lock(&w->lock);
    if (error != 0 || w->failed) {
        fail_snapshot(w);
        return true; /* the next step cleans up the rest */
    }
    w->snapshot_open = false;
    journal_snapshot_done(w->journal, &w->snapshot);
    remove_needless(w);
    w->now.journal = *journal_figures(w->journal);
    w->now.snapshots++;
    w->now.snapshot_ns = now_ns() - w->snapshot_began_ns;
    w->snapshot_state = JOURNAL_WRITER_SNAPSHOT_NONE;
    wake_loop(w);
    return true;
}

static bool step_snapshot(struct journal_writer *w)
{
    bool alive = w->snapshot_state == JOURNAL_WRITER_SNAPSHOT_OPEN ||
                 w->snapshot_state == JOURNAL_WRITER_SNAPSHOT_ENDING;

    if (w->snapshot_abandoned || (!alive && (w->snapshot_open || w->parts_bytes > 0)))
        return clean_up_snapshot(w);
    if (!alive)
        return false;
    if (w->snapshot_asked && journal_figures(w->journal)->last >= w->snapshot_number) {
        journal_snapshot_begin(w->journal, w->snapshot_number, &w->snapshot);
        w->snapshot_asked = false;
        w->snapshot_open = true;
        return true;
    }
    if (!w->snapshot_open)
        return false;
    if (!TAILQ_EMPTY(&w->parts))
        return journal_writer_put_part(w);
    return w->snapshot_state == JOURNAL_WRITER_SNAPSHOT_ENDING && journal_writer_end_snapshot(w);
}

static bool step_disk(struct journal_writer *w)
{
    struct statvfs fs;
    int result;

    if (!w->disk_asked)
        return false;
    w->disk_asked = false;
    pthread_mutex_unlock(&w->lock);
    result = statvfs(w->path, &fs);
    pthread_mutex_lock(&w->lock);
    w->disk.free = result == 0 ? (uint64_t)fs.f_bavail * fs.f_frsize : 0;
    w->disk.size = result == 0 ? (uint64_t)fs.f_blocks * fs.f_frsize : 0;
    return true;
}

/* --- The thread. --- */

static void wait_for_work(struct journal_writer *w)
{
    uint64_t sync = may_sync(w) ? w->sync_at_ns : 0;
    uint64_t until = w->failed && (sync == 0 || w->retry_at_ns < sync) ? w->retry_at_ns : sync;
    const struct timespec at = {(time_t)(until / 1000000000), (long)(until % 1000000000)};

    if (until == 0)
        pthread_cond_wait(&w->work, &w->lock);
    else
        pthread_cond_timedwait(&w->work, &w->lock, &at);
}

/* Nothing comes any more. */
static void journal_writer_finish(struct journal_writer *w)
{
    w->snapshot_abandoned = true;
    clean_up_snapshot(w);
    while (step_journal(w))
        ;
    if (w->failed)
        try_again(w);
    w->clean = w->unwritten == NULL && !w->failed && journal_finish(w->journal) == 0;
}

void *journal_writer_main(void *arg)
{
    struct journal_writer *w = arg;
    int error;

    pthread_mutex_lock(&w->lock);
    error = journal_writer_unlocked(w, journal_ballast_make);
    if (error != 0)
        journal_writer_fail(w, "keeping 4 MiB in reserve", error);
    while (!w->stop) {
        bool done = w->failed && now_ns() >= w->retry_at_ns;

        if (done)
            try_again(w);
        done = step_journal(w) || done;
        done = step_snapshot(w) || done;
        done = step_disk(w) || done;
        if (!done && !w->stop)
            wait_for_work(w);
    }
    journal_writer_finish(w);
    pthread_mutex_unlock(&w->lock);
    return NULL;
}
