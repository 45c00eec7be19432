/* Opening and checking a data directory. See journal.h for the contract. */
#include <errno.h>
#include <stdlib.h>

#include "store/disk/journal_internal.h"
#include "store/disk/journal_recover.h"
#include "store/memory/xalloc.h"

bool journal_check(struct fs *fs, const struct journal_reader *reader,
                   struct journal_report *report)
{
    struct journal_dir dir;
    struct journal_recovery r = {.fs = fs, .dir = &dir, .reader = reader, .report = report};
    bool ok;

    *report = (struct journal_report){.status = JOURNAL_ERROR};
    if (!journal_dir_read(&dir, fs, report))
        return false;
    ok = journal_recover(&r);
    journal_dir_free(&dir);
    return ok;
}

/* --- The lock. --- */

static bool take_lock(struct fs *fs, int *lock, struct journal_report *report)
{
    *lock = fs->lock(fs, JOURNAL_LOCK);
    if (*lock == -EWOULDBLOCK)
        return journal_report_status(report, JOURNAL_LOCKED, JOURNAL_LOCK, 0,
                                     "is held by another process");
    if (*lock < 0)
        return journal_report_error(report, *lock, JOURNAL_LOCK, "cannot be locked");
    return true;
}

/* --- The new segment. --- */

static int copy_batch(void *arg, uint64_t number, struct slice bytes)
{
    const struct journal_batch batch = {number, bytes};

    return journal_rewrite_put(arg, &batch, 1);
}

static int begin_anew(struct journal *j, struct journal_recovery *r)
{
    int error = journal_rewrite_begin(j);

    if (error == 0)
        error = journal_recover_again(r, copy_batch, j);
    return error == 0 ? journal_rewrite_end(j) : error;
}

/* --- Opening. --- */

static void take_numbers(struct journal_numbers *to, const struct journal_files *from)
{
    for (size_t i = 0; i < from->count; i++)
        journal_add_number(to, from->items[i].number);
}

static struct journal *new_journal(const struct journal_options *options,
                                   const struct journal_recovery *r, int lock)
{
    struct journal *j = xcalloc(1, sizeof *j);

    *j = (struct journal){
        .fs = options->fs,
        .id = r->dir->has_id ? r->dir->id : options->new_id,
        .segment_size = options->segment_size == 0 ? JOURNAL_SEGMENT_SIZE : options->segment_size,
        .lock = lock,
        .last = r->last,
        .durable = r->durable,
        .tail = {.file = -1},
        .again = {.file = -1},
        .snapshot = r->snapshot,
        .snapshot_bytes = r->report->snapshot_bytes,
        .bytes_behind = r->report->batch_bytes + r->report->batches * FRAME_HEADER_SIZE,
    };
    take_numbers(&j->segments, &r->dir->segments);
    take_numbers(&j->snapshots, &r->dir->snapshots);
    return j;
}

/* Nobody else uses the directory: what was being written is nobody's, and what a snapshot has made
 * needless may still be there. What cannot be removed stays until the next start. */
static void clean_up(struct journal *j, const struct journal_dir *dir)
{
    char name[JOURNAL_NAME_SIZE];

    for (size_t i = 0; i < dir->other_count; i++)
        j->fs->remove(j->fs, dir->others[i]);
    while (journal_next_needless(j, name))
        j->fs->remove(j->fs, name);
}

static struct journal *recover_locked(const struct journal_options *options, int lock,
                                      struct journal_recovery *r)
{
    struct journal *j;
    int error;

    if (!journal_recover(r))
        return NULL;
    j = new_journal(options, r, lock);
    error = begin_anew(j, r);
    if (fs_is_full(error) && journal_ballast_drop(j) == 0)
        error = begin_anew(j, r);
    if (error != 0) {
        journal_report_error(r->report, error, "a new segment", "cannot be written");
        j->lock = -1; /* still the caller's */
        journal_close(j);
        return NULL;
    }
    r->report->copied = (size_t)(r->last - r->durable);
    clean_up(j, r->dir);
    return j;
}

struct journal *journal_open(const struct journal_options *options,
                             const struct journal_reader *reader, struct journal_report *report)
{
    struct fs *fs = options->fs;
    struct journal *j = NULL;
    struct journal_dir dir;
    int lock;

    *report = (struct journal_report){.status = JOURNAL_ERROR};
    if (!take_lock(fs, &lock, report))
        return NULL;
    if (journal_dir_read(&dir, fs, report)) {
        struct journal_recovery r = {.fs = fs, .dir = &dir, .reader = reader, .report = report};

        j = recover_locked(options, lock, &r);
        journal_dir_free(&dir);
    }
    if (j == NULL)
        fs->close(fs, lock);
    return j;
}
