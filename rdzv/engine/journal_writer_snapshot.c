/* Snapshots on their way from the loop to the journal writer's thread. See journal_writer.h. */
#include <assert.h>

#include "rdzv/engine/journal_writer_internal.h"
#include "store/account.h"

#define AHEAD_MAX    ((size_t)1 << 20)
#define DUE_MIN      ((uint64_t)64 << 20)
#define TRY_AGAIN_MS 60000u

/* On a disk that has less left than DUE_MIN. */
#define DUE_MIN_SMALL  ((uint64_t)4 << 20)
#define SMALL_AGAIN_MS 3600000u

/* For what only reads, but needs the lock. */
static pthread_mutex_t *lock_of(const struct journal_writer *w)
{
    return (pthread_mutex_t *)(uintptr_t)&w->lock;
}

/* Changes are refused for want of the reserve alone: the store is what the disk has. */
static bool lacks_reserve(const struct journal_writer *w)
{
    bool lacks;

    pthread_mutex_lock(lock_of(w));
    lacks = w->lacks_reserve && w->unwritten == NULL;
    pthread_mutex_unlock(lock_of(w));
    return lacks;
}

static bool failed_within(const struct journal_writer *w, uint64_t ms)
{
    return w->snapshot_failed_ms != 0 &&
           clock_elapsed_ms(w->snapshot_failed_ms, clock_monotonic_ms(w->clock)) < ms;
}

/* As measured, less what was committed since. */
static uint64_t room_now(const struct journal_writer_stats *s)
{
    uint64_t since = s->bytes - s->disk_free_at;

    return s->disk_free > since ? s->disk_free - since : 0;
}

/* How long the next one may be: as all that it replaces, or as twice the last one. */
static uint64_t likely_size(const struct journal_writer_stats *s)
{
    uint64_t most = s->bytes_behind + s->snapshot_bytes;
    uint64_t likely = 2 * s->snapshot_bytes + ((uint64_t)1 << 20);

    return s->snapshot_bytes > 0 && likely < most ? likely : most;
}

/* The disk would be full before the journal is large, and there is room now for a snapshot, and for
 * as much that comes meanwhile: one that has no room takes that of the journal until it is given
 * up. After one that failed, this is left for long. */
static bool is_disk_small(const struct journal_writer *w)
{
    const struct journal_writer_stats *s = &w->stats;

    return s->bytes_behind > DUE_MIN_SMALL && s->disk_free < DUE_MIN &&
           room_now(s) / 2 > likely_size(s) && !failed_within(w, SMALL_AGAIN_MS);
}

static bool is_of_use(const struct journal_writer *w)
{
    const struct journal_writer_stats *s = &w->stats;

    if (w->reason[0] != '\0')
        return s->bytes_behind > 0 && lacks_reserve(w);
    return s->bytes_behind > s->snapshot_bytes && (s->bytes_behind > DUE_MIN || is_disk_small(w));
}

/* None is being written, and the figures are those of after the last one. */
static bool may_begin(const struct journal_writer *w)
{
    bool may;

    pthread_mutex_lock(lock_of(w));
    may = w->snapshot_state == JOURNAL_WRITER_SNAPSHOT_NONE &&
          w->now.snapshots == w->stats.snapshots &&
          w->now.snapshot_failures == w->stats.snapshot_failures;
    pthread_mutex_unlock(lock_of(w));
    return may;
}

bool journal_writer_snapshot_due(const struct journal_writer *w)
{
    return is_of_use(w) && may_begin(w) && !failed_within(w, TRY_AGAIN_MS);
}

enum journal_writer_snapshot_state journal_writer_snapshot_state(const struct journal_writer *w)
{
    enum journal_writer_snapshot_state state;

    pthread_mutex_lock(lock_of(w));
    state = w->snapshot_state;
    pthread_mutex_unlock(lock_of(w));
    return state;
}

size_t journal_writer_snapshot_room(const struct journal_writer *w)
{
    size_t room = 0;

    pthread_mutex_lock(lock_of(w));
    if (w->snapshot_state == JOURNAL_WRITER_SNAPSHOT_OPEN && w->parts_bytes < AHEAD_MAX)
        room = AHEAD_MAX - w->parts_bytes;
    pthread_mutex_unlock(lock_of(w));
    return room;
}

void journal_writer_snapshot_begin(struct journal_writer *w)
{
    const struct pending *newest;

    pthread_mutex_lock(&w->lock);
    assert(w->snapshot_state == JOURNAL_WRITER_SNAPSHOT_NONE);
    newest = TAILQ_LAST(&w->pending, pending_list);
    w->snapshot_number = newest != NULL ? newest->number : w->now.last;
    w->snapshot_began_ns = clock_monotonic_ns(&clock_system);
    if (journal_writer_thread_writes(w)) {
        w->snapshot_asked = true;
    } else {
        journal_snapshot_begin(w->journal, w->snapshot_number, &w->snapshot);
        w->snapshot_open = true;
    }
    w->snapshot_state = JOURNAL_WRITER_SNAPSHOT_OPEN;
    pthread_cond_signal(&w->work);
    pthread_mutex_unlock(&w->lock);
}

bool journal_writer_snapshot_put(struct journal_writer *w, struct slice bytes)
{
    struct part *part =
        account_request(ACCOUNT_JOURNAL, ACCOUNT_ORDINARY, sizeof *part + bytes.len);

    if (part == NULL)
        return false;
    part->len = bytes.len;
    memcpy(part->bytes, bytes.ptr, bytes.len);
    pthread_mutex_lock(&w->lock);
    if (w->snapshot_state == JOURNAL_WRITER_SNAPSHOT_OPEN) {
        TAILQ_INSERT_TAIL(&w->parts, part, entry);
        w->parts_bytes += bytes.len;
        pthread_cond_signal(&w->work);
    } else { /* it has failed, and its state says so */
        TAILQ_INSERT_TAIL(&w->written_parts, part, entry);
    }
    pthread_mutex_unlock(&w->lock);
    return true;
}

/* Until the thread has removed it. */
static void abandon(struct journal_writer *w)
{
    w->snapshot_state = JOURNAL_WRITER_SNAPSHOT_ENDING;
    w->snapshot_abandoned = true;
}

void journal_writer_snapshot_end(struct journal_writer *w)
{
    pthread_mutex_lock(&w->lock);
    if (w->snapshot_state == JOURNAL_WRITER_SNAPSHOT_OPEN)
        w->snapshot_state = JOURNAL_WRITER_SNAPSHOT_ENDING;
    else if (w->snapshot_state == JOURNAL_WRITER_SNAPSHOT_FAILED)
        abandon(w);
    pthread_cond_signal(&w->work);
    pthread_mutex_unlock(&w->lock);
}

void journal_writer_snapshot_abandon(struct journal_writer *w)
{
    pthread_mutex_lock(&w->lock);
    if (w->snapshot_state == JOURNAL_WRITER_SNAPSHOT_OPEN ||
        w->snapshot_state == JOURNAL_WRITER_SNAPSHOT_FAILED)
        abandon(w);
    pthread_cond_signal(&w->work);
    pthread_mutex_unlock(&w->lock);
}
