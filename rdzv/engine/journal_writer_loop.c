/* The loop's side of the journal writer: commits and what it promises. See journal_writer.h. */
#include "rdzv/engine/journal_writer.h"

#include <errno.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "rdzv/engine/journal_writer_internal.h"
#include "rdzv/engine/thread.h"
#include "store/memory/account.h"

#define PENDING_MAX ((size_t)64 << 20)
#define RETRY_MS    1000u

/* Syncs need little; sanitizers more. */
#define STACK_SIZE (512u << 10)

/* --- What the loop sees. --- */

/* With the lock. */
static void note_reason(struct journal_writer *w)
{
    w->stats = w->now;
    if (w->failed)
        memcpy(w->reason, w->reason_now, sizeof w->reason);
    else if (w->now.pending_bytes > w->pending_max)
        snprintf(w->reason, sizeof w->reason,
                 "the disk is too slow: %zu bytes of changes wait to be synced",
                 w->now.pending_bytes);
    else if (w->spare == NULL)
        snprintf(w->reason, sizeof w->reason, "there is no memory to keep changes in");
    else
        w->reason[0] = '\0';
}

/* With the lock. */
static uint64_t promise(struct journal_writer *w)
{
    uint64_t number = w->now.durable;

    if (w->mode == JOURNAL_WRITER_BATCH && !w->failed && w->now.pending_bytes <= w->pending_max / 4)
        number = w->now.last;
    if (number > w->promised)
        w->promised = number;
    return w->promised;
}

uint64_t journal_writer_poll(struct journal_writer *w)
{
    struct pending_list synced = TAILQ_HEAD_INITIALIZER(synced);
    struct part_list written = TAILQ_HEAD_INITIALIZER(written);
    struct pending *p;
    struct part *part;
    uint64_t promised;
    eventfd_t count;

    eventfd_read(w->wake, &count);
    pending_keep_spare(&w->spare);
    pthread_mutex_lock(&w->lock);
    while ((p = TAILQ_FIRST(&w->pending)) != NULL && p->number <= w->now.durable) {
        TAILQ_REMOVE(&w->pending, p, entry);
        TAILQ_INSERT_TAIL(&synced, p, entry);
        w->now.pending_batches--;
        w->now.pending_bytes -= p->bytes.len;
    }
    TAILQ_CONCAT(&written, &w->written_parts, entry);
    note_reason(w);
    promised = promise(w);
    if (!journal_writer_thread_writes(w) && w->now.durable == w->now.last)
        journal_mark(w->journal);
    pthread_mutex_unlock(&w->lock);
    while ((p = TAILQ_FIRST(&synced)) != NULL) {
        TAILQ_REMOVE(&synced, p, entry);
        pending_free(p);
    }
    while ((part = TAILQ_FIRST(&written)) != NULL) {
        TAILQ_REMOVE(&written, part, entry);
        account_free(ACCOUNT_JOURNAL, part, sizeof *part + part->len);
    }
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
    journal_writer_note(w);
    if (w->sync_at_ns == 0)
        w->sync_at_ns = clock_monotonic_ns(&clock_system) + w->sync_interval_ms * 1000000;
    else if (w->now.pending_bytes <= w->pending_max / 4)
        return; /* the thread wakes up by itself */
    pthread_cond_signal(&w->work);
}

static uint64_t commit(void *arg, struct batch *batch)
{
    struct journal_writer *w = arg;
    struct pending *p = pending_new(&w->spare, batch);
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
    note_reason(w);
    promised = promise(w);
    pthread_mutex_unlock(&w->lock);
    return promised;
}

struct engine_journal journal_writer_engine(struct journal_writer *w)
{
    return (struct engine_journal){.commit = commit, .arg = w};
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

static void release(struct journal_writer *w)
{
    if (w->wake >= 0)
        close(w->wake);
    account_free(ACCOUNT_JOURNAL, w->spare, sizeof *w->spare);
    pthread_cond_destroy(&w->work);
    pthread_mutex_destroy(&w->lock);
    free(w);
}

static void init(struct journal_writer *w, const struct journal_writer_options *options)
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
    journal_writer_note(w);
    w->promised = w->now.last;
    w->stats = w->now;
}

struct journal_writer *journal_writer_start(const struct journal_writer_options *options)
{
    struct journal_writer *w = malloc(sizeof *w);
    int error = ENOMEM;

    if (w == NULL)
        return NULL;
    init(w, options);
    if (w->wake < 0)
        error = errno;
    else if (w->spare != NULL)
        error = thread_start(&w->thread, STACK_SIZE, journal_writer_main, w);
    if (error == 0)
        return w;
    release(w);
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
    struct pending *p;
    struct part *part;
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
    while ((p = TAILQ_FIRST(&w->pending)) != NULL) {
        TAILQ_REMOVE(&w->pending, p, entry);
        pending_free(p);
    }
    TAILQ_CONCAT(&w->written_parts, &w->parts, entry);
    while ((part = TAILQ_FIRST(&w->written_parts)) != NULL) {
        TAILQ_REMOVE(&w->written_parts, part, entry);
        account_free(ACCOUNT_JOURNAL, part, sizeof *part + part->len);
    }
    release(w);
    return clean;
}
