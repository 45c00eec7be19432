/* Snapshots on their way from the loop to the journal writer's thread. See journal_writer.h. */
#include <assert.h>

#include "rdzv/engine/journal_writer_internal.h"
#include "store/memory/account.h"

#define AHEAD_MAX    ((size_t)1 << 20)
#define DUE_MIN      ((uint64_t)64 << 20)
#define TRY_AGAIN_MS 60000u

bool journal_writer_snapshot_due(const struct journal_writer *w)
{
    const struct journal_writer_stats *s = &w->stats;

    return s->bytes_behind > DUE_MIN && s->bytes_behind > s->snapshot_bytes &&
           w->reason[0] == '\0' &&
           journal_writer_snapshot_state(w) == JOURNAL_WRITER_SNAPSHOT_NONE &&
           (w->snapshot_failed_ms == 0 ||
            clock_elapsed_ms(w->snapshot_failed_ms, clock_monotonic_ms(w->clock)) >= TRY_AGAIN_MS);
}

/* For what only reads, but needs the lock. */
static pthread_mutex_t *lock_of(const struct journal_writer *w)
{
    return (pthread_mutex_t *)(uintptr_t)&w->lock;
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
