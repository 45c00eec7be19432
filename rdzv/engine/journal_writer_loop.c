/* The loop's side of the journal writer: commits and their promise, and snapshots on their way to
 * the thread. See journal_writer.h for the contract. */
#include "rdzv/engine/journal_writer.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "proto/thread.h"
#include "rdzv/engine/journal_writer_internal.h"
#include "store/memory/account.h"

#define PENDING_MAX ((size_t)64 << 20)
#define RETRY_MS    1000u
#define PAUSE_MS    100u
#define BEHIND_MS   2000u

/* Parts of a snapshot that are ahead of the disk. */
#define AHEAD_MAX ((size_t)1 << 20)

#define SNAPSHOT_DUE_MIN  ((uint64_t)64 << 20)
#define SNAPSHOT_RETRY_MS 60000u

/* Syncs need little; sanitizers more. */
#define STACK_SIZE (512u << 10)

/* --- What the loop sees. --- */

/* With the lock. */
static void journal_writer_note_reason(struct journal_writer *w)
{
    w->stats = w->now;
    if (w->failed)
        memcpy(w->reason, w->reason_now, sizeof w->reason);
    else if (w->now.pending_bytes > w->pending_max)
        snprintf(w->reason, sizeof w->reason,
                 "the disk is too slow: %zu bytes of changes wait to be synced",
                 w->now.pending_bytes);
    else if (w->spare == NULL)
        snprintf(w->reason, sizeof w->reason, "memory for changes is short");
    else
        w->reason[0] = '\0';
}

/* With the lock. */
static uint64_t promise_batch(struct journal_writer *w)
{
    uint64_t number = w->now.journal.durable;

    if (w->mode == JOURNAL_WRITER_BATCH && !w->failed && w->now.pending_bytes <= w->pending_max / 4)
        number = w->now.journal.last;
    if (number > w->promised)
        w->promised = number;
    return w->promised;
}

uint64_t journal_writer_poll(struct journal_writer *w)
{
    struct pending_list done = TAILQ_HEAD_INITIALIZER(done);
    struct pending *p;
    uint64_t promised;
    eventfd_t count;

    eventfd_read(w->wake, &count);
    pending_keep_spare(&w->spare);
    pthread_mutex_lock(&w->lock);
    while ((p = TAILQ_FIRST(&w->pending)) != NULL && p->number <= w->now.journal.durable) {
        TAILQ_REMOVE(&w->pending, p, entry);
        TAILQ_INSERT_TAIL(&done, p, entry);
        w->now.pending_batches--;
        w->now.pending_bytes -= p->bytes.len;
    }
    TAILQ_CONCAT(&done, &w->written_parts, entry);
    journal_writer_note_reason(w);
    promised = promise_batch(w);
    if (!journal_writer_thread_writes(w) && w->now.journal.durable == w->now.journal.last)
        journal_mark(w->journal);
    pthread_mutex_unlock(&w->lock);
    pending_free_all(&done);
    if (w->stats.snapshot_failures != w->snapshots_failed_seen) {
        w->snapshots_failed_seen = w->stats.snapshot_failures;
        w->snapshot_failed_ms = clock_monotonic_ms(w->clock);
    }
    return promised;
}

const char *journal_writer_refuses(const struct journal_writer *w)
{
    return w->reason[0] == '\0' ? NULL : w->reason;
}

const struct journal_writer_stats *journal_writer_stats(const struct journal_writer *w)
{
    return &w->stats;
}

int journal_writer_fd(const struct journal_writer *w)
{
    return w->wake;
}

/* --- The commit. --- */

/* In mode batch, unless something has failed. With the lock. */
static void append_here(struct journal_writer *w, struct pending *p)
{
    const struct journal_batch batch = {p->number, p->bytes};
    int error = journal_append(w->journal, &batch, 1);

    if (error != 0) {
        journal_writer_fail(w, "writing to the journal", error);
        return;
    }
    w->unwritten = NULL;
    w->now.journal = *journal_figures(w->journal);
    if (w->sync_at_ns == 0)
        w->sync_at_ns = clock_monotonic_ns(&clock_system) + w->sync_interval_ms * 1000000;
    else if (w->now.pending_bytes <= w->pending_max / 4)
        return; /* the thread wakes up by itself */
    pthread_cond_signal(&w->work);
}

static bool is_far_behind(const struct journal_writer *w)
{
    return w->reason[0] == '\0' && w->stats.pending_bytes > w->pending_max / 2;
}

/* Answers wait while the disk is behind, so each client has one request only. That is no bound: the
 * join of 4,000 agents is as many long requests at once, more than PENDING_MAX. So if half of that
 * is used, the daemon as a whole waits for the disk, at each batch as long as its bytes are worth:
 * the second half is worth BEHIND_MS. A disk that hangs costs clients that time in all, and then
 * changes are refused. */
static uint64_t wait_for_disk(struct journal_writer *w, size_t len)
{
    struct pollfd wake = {.fd = w->wake, .events = POLLIN};
    uint64_t most_ms = (uint64_t)len * 2 * BEHIND_MS / w->pending_max, waited_ms, promised;
    uint64_t since_ms = clock_monotonic_ms(&clock_system);

    if (most_ms > PAUSE_MS)
        most_ms = PAUSE_MS;
    do {
        waited_ms = clock_elapsed_ms(since_ms, clock_monotonic_ms(&clock_system));
        poll(&wake, 1, waited_ms < most_ms ? (int)(most_ms - waited_ms) : 0);
        promised = journal_writer_poll(w);
    } while (is_far_behind(w) && waited_ms < most_ms);
    return promised;
}

uint64_t journal_writer_commit(struct journal_writer *w, struct batch *batch)
{
    struct pending *p = pending_new(&w->spare, batch);
    size_t len = p->bytes.len;
    uint64_t promised;

    pending_keep_spare(&w->spare);
    pthread_mutex_lock(&w->lock);
    TAILQ_INSERT_TAIL(&w->pending, p, entry);
    w->now.pending_batches++;
    w->now.pending_bytes += p->bytes.len;
    w->now.batches++;
    w->now.bytes += p->bytes.len;
    if (w->unwritten == NULL)
        w->unwritten = p;
    if (journal_writer_thread_writes(w))
        pthread_cond_signal(&w->work);
    else
        append_here(w, p);
    journal_writer_note_reason(w);
    promised = promise_batch(w);
    pthread_mutex_unlock(&w->lock);
    return is_far_behind(w) ? wait_for_disk(w, len) : promised;
}

/* --- Snapshots. --- */

bool journal_writer_snapshot_due(struct journal_writer *w)
{
    const struct journal_writer_stats *s = &w->stats;

    return s->journal.bytes_behind > SNAPSHOT_DUE_MIN &&
           s->journal.bytes_behind > s->journal.snapshot_bytes && w->reason[0] == '\0' &&
           journal_writer_snapshot_state(w) == JOURNAL_WRITER_SNAPSHOT_NONE &&
           (w->snapshot_failed_ms == 0 ||
            clock_elapsed_ms(w->snapshot_failed_ms, clock_monotonic_ms(w->clock)) >=
                SNAPSHOT_RETRY_MS);
}

enum journal_writer_snapshot_state journal_writer_snapshot_state(struct journal_writer *w)
{
    enum journal_writer_snapshot_state state;

    pthread_mutex_lock(&w->lock);
    state = w->snapshot_state;
    pthread_mutex_unlock(&w->lock);
    return state;
}

size_t journal_writer_snapshot_room(struct journal_writer *w)
{
    size_t room = 0;

    pthread_mutex_lock(&w->lock);
    if (w->snapshot_state == JOURNAL_WRITER_SNAPSHOT_OPEN && w->parts_bytes < AHEAD_MAX)
        room = AHEAD_MAX - w->parts_bytes;
    pthread_mutex_unlock(&w->lock);
    return room;
}

void journal_writer_snapshot_begin(struct journal_writer *w)
{
    const struct pending *newest;

    pthread_mutex_lock(&w->lock);
    assert(w->snapshot_state == JOURNAL_WRITER_SNAPSHOT_NONE);
    newest = TAILQ_LAST(&w->pending, pending_list);
    w->snapshot_number = newest != NULL ? newest->number : w->now.journal.last;
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
    struct pending *part = pending_request(bytes);

    if (part == NULL)
        return false;
    pthread_mutex_lock(&w->lock);
    if (w->snapshot_state == JOURNAL_WRITER_SNAPSHOT_OPEN) {
        TAILQ_INSERT_TAIL(&w->parts, part, entry);
        w->parts_bytes += bytes.len;
        pthread_cond_signal(&w->work);
    } else { /* the writer has failed, as its state says */
        TAILQ_INSERT_TAIL(&w->written_parts, part, entry);
    }
    pthread_mutex_unlock(&w->lock);
    return true;
}

/* The file of an abandoned or failed snapshot stays until the thread has removed it. */
void journal_writer_snapshot_end(struct journal_writer *w, bool is_whole)
{
    pthread_mutex_lock(&w->lock);
    if (w->snapshot_state == JOURNAL_WRITER_SNAPSHOT_OPEN ||
        w->snapshot_state == JOURNAL_WRITER_SNAPSHOT_FAILED) {
        w->snapshot_abandoned = !is_whole || w->snapshot_state == JOURNAL_WRITER_SNAPSHOT_FAILED;
        w->snapshot_state = JOURNAL_WRITER_SNAPSHOT_ENDING;
    }
    pthread_cond_signal(&w->work);
    pthread_mutex_unlock(&w->lock);
}

/* --- Begin and end. --- */

/* Deadlines are of the monotonic clock. */
static void init_condition(pthread_cond_t *condition)
{
    pthread_condattr_t attributes;

    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &attributes);
    pthread_condattr_destroy(&attributes);
}

static void journal_writer_free(struct journal_writer *w)
{
    if (w->wake >= 0)
        close(w->wake);
    account_free(ACCOUNT_JOURNAL, w->spare, sizeof *w->spare);
    pthread_cond_destroy(&w->work);
    pthread_mutex_destroy(&w->lock);
    free(w);
}

static void journal_writer_init(struct journal_writer *w,
                                const struct journal_writer_options *options)
{
    *w = (struct journal_writer){
        .mode = options->mode,
        .sync_interval_ms =
            options->sync_interval_ms == 0 ? SYNC_INTERVAL_MS : options->sync_interval_ms,
        .pending_max = options->pending_max == 0 ? PENDING_MAX : options->pending_max,
        .retry_ms = options->retry_ms == 0 ? RETRY_MS : options->retry_ms,
        .clock = options->clock,
        .journal = options->journal,
        .path = options->path,
        .disk_asked = options->path != NULL,
        .wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
    };
    pthread_mutex_init(&w->lock, NULL); /* Linux says that these two cannot fail */
    init_condition(&w->work);
    TAILQ_INIT(&w->pending);
    TAILQ_INIT(&w->parts);
    TAILQ_INIT(&w->written_parts);
    pending_keep_spare(&w->spare);
    w->now.journal = *journal_figures(w->journal);
    w->promised = w->now.journal.last;
    w->stats = w->now;
}

struct journal_writer *journal_writer_start(const struct journal_writer_options *options)
{
    struct journal_writer *w = malloc(sizeof *w);
    int error = ENOMEM;

    if (w == NULL)
        return NULL;
    journal_writer_init(w, options);
    if (w->wake < 0)
        error = errno;
    else if (w->spare != NULL)
        error = thread_start(&w->thread, STACK_SIZE, journal_writer_main, w);
    if (error == 0)
        return w;
    journal_writer_free(w);
    errno = error;
    return NULL;
}

void journal_writer_disk(struct journal_writer *w, struct journal_writer_disk *out)
{
    pthread_mutex_lock(&w->lock);
    *out = w->disk;
    w->disk_asked = w->path != NULL;
    pthread_cond_signal(&w->work);
    pthread_mutex_unlock(&w->lock);
}

bool journal_writer_stop(struct journal_writer *w)
{
    bool clean;

    if (w == NULL)
        return true;
    pthread_mutex_lock(&w->lock);
    w->stop = true;
    pthread_cond_signal(&w->work);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->thread, NULL);
    clean = w->clean;
    journal_close(w->journal);
    pending_free_all(&w->pending);
    pending_free_all(&w->parts);
    pending_free_all(&w->written_parts);
    journal_writer_free(w);
    return clean;
}
