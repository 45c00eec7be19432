/* Appending, syncing, rewriting after a fault, and snapshots. See journal.h for the contract. */
#include "store/disk/journal.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "store/disk/journal_internal.h"
#include "store/memory/xalloc.h"

/* --- Files. --- */

const char *journal_file_name(enum file_kind kind, uint64_t number, char out[JOURNAL_NAME_SIZE])
{
    snprintf(out, JOURNAL_NAME_SIZE, "%s%020" PRIu64,
             kind == FILE_JOURNAL ? JOURNAL_SEGMENT_NAME : JOURNAL_SNAPSHOT_NAME, number);
    return out;
}

static const char *journal_tmp_name(enum file_kind kind, uint64_t number,
                                    char out[JOURNAL_NAME_SIZE])
{
    journal_file_name(kind, number, out);
    return strcat(out, JOURNAL_TMP);
}
#define TMP_NAME(kind, number) journal_tmp_name((kind), (number), (char[JOURNAL_NAME_SIZE]){0})

void journal_add_file(struct journal_files *files, uint64_t number)
{
    if (files->count == files->cap) {
        files->cap = files->cap == 0 ? 16 : files->cap * 2;
        files->items = xrealloc(files->items, files->cap * sizeof *files->items);
    }
    files->items[files->count++] = (struct journal_file){.number = number};
}

/* A file gets its name when its bytes are on the disk. */
static int journal_name_file(struct frame_writer *w, enum file_kind kind)
{
    int error = w->fs->sync(w->fs, w->file);

    if (error == 0)
        error = w->fs->rename(w->fs, TMP_NAME(kind, w->number), JOURNAL_FILE_NAME(kind, w->number));
    return error == 0 ? w->fs->sync_dir(w->fs) : error;
}

/* Takes away a file that has not got its name. */
static void journal_drop_file(struct frame_writer *w, enum file_kind kind)
{
    if (w->file < 0)
        return;
    frame_writer_close(w);
    w->fs->remove(w->fs, TMP_NAME(kind, w->number));
}

static int journal_open_segment(struct journal *j, const char *name, uint64_t first,
                                struct frame_writer *w)
{
    return frame_writer_open(
        w, j->fs, name,
        &(struct file_header){FILE_JOURNAL, FILE_VERSION, first, j->id, j->now.durable});
}

static void journal_close_complete(struct journal *j)
{
    for (size_t i = 0; i < j->complete_count; i++)
        j->fs->close(j->fs, j->complete[i]);
    j->complete_count = 0;
}

void journal_close(struct journal *j)
{
    if (j == NULL)
        return;
    frame_writer_close(&j->tail);
    journal_drop_file(&j->again, FILE_JOURNAL);
    journal_close_complete(j);
    if (j->lock >= 0)
        j->fs->close(j->fs, j->lock);
    free(j->segments.items);
    free(j->snapshots.items);
    free(j);
}

const struct journal_figures *journal_figures(const struct journal *j)
{
    return &j->now;
}

/* --- Appending. --- */

/* All of them, or none. */
static int journal_put_batches(struct journal *j, struct frame_writer *w,
                               const struct journal_batch *batches, size_t count)
{
    struct frame frames[FRAMES_MAX];
    uint64_t begin = w->end;

    while (count > 0) {
        size_t group = count < FRAMES_MAX ? count : FRAMES_MAX;
        int error;

        for (size_t i = 0; i < group; i++)
            frames[i] =
                (struct frame){FRAME_BATCH, batches[i].number, j->now.durable, batches[i].bytes};
        error = frame_writer_put(w, frames, group);
        if (error != 0) {
            if (w->end != begin)
                frame_writer_cut(w, begin);
            return error;
        }
        batches += group;
        count -= group;
    }
    return 0;
}

/* A frame without a payload, at the end of the newest segment. */
static int journal_put_bare(struct journal *j, enum frame_kind kind, uint64_t number)
{
    const struct frame frame = {kind, number, j->now.durable, {NULL, 0}};
    int error = frame_writer_put(&j->tail, &frame, 1);

    if (error == 0)
        j->claimed = j->now.durable;
    return error;
}

/* The present segment needs a successor if it has batches and is full, and if the list of unsynced
 * segments has room. */
static bool journal_wants_segment(const struct journal *j)
{
    return j->tail.number <= j->now.last && (j->rotate || j->tail.end >= j->segment_size) &&
           j->complete_count < JOURNAL_SYNC_FILES - 1;
}

/* A new segment could not be begun. While its file exists, or may come back after a power cut, a
 * reader would expect the next batches there: so the file is removed, and the next sync includes
 * the directory. If it cannot be removed, the batches go into a segment that replaces it. */
static void journal_undo_segment(struct journal *j, const char *name)
{
    int error = j->fs->remove(j->fs, name);

    j->dir_changed = true;
    if (error == 0 || error == -ENOENT)
        return;
    j->now.tainted = true;
    journal_add_file(&j->segments, j->now.last + 1);
}

static int journal_next_segment(struct journal *j)
{
    const char *name = JOURNAL_FILE_NAME(FILE_JOURNAL, j->now.last + 1);
    struct frame_writer next;
    int error = journal_open_segment(j, name, j->now.last + 1, &next);

    if (error != 0) {
        journal_undo_segment(j, name);
        return error;
    }
    j->complete[j->complete_count++] = j->tail.file;
    j->tail = next;
    j->claimed = j->now.durable;
    j->dir_changed = true;
    j->rotate = false;
    journal_add_file(&j->segments, next.number);
    return 0;
}

int journal_append(struct journal *j, const struct journal_batch *batches, size_t count)
{
    int error = j->now.tainted ? -EIO : 0;
    uint64_t before;

    assert(count == 0 || batches[0].number == j->now.last + 1);
    if (error == 0 && count > 0 && journal_wants_segment(j))
        error = journal_next_segment(j);
    before = j->tail.end;
    if (error == 0)
        error = journal_put_batches(j, &j->tail, batches, count);
    if (error != 0 || count == 0)
        return error;
    j->now.last += count;
    j->claimed = j->now.durable;
    j->now.bytes_behind += j->tail.end - before;
    j->bytes_behind_next += j->tail.end - before;
    return 0;
}

void journal_mark(struct journal *j)
{
    if (j->claimed < j->now.durable && !j->now.tainted && j->tail.file >= 0)
        journal_put_bare(j, FRAME_MARK, 0);
}

/* --- Syncing. --- */

bool journal_sync_begin(struct journal *j, struct journal_sync *sync)
{
    if (j->syncing || j->now.tainted ||
        (j->now.durable >= j->now.last && j->complete_count == 0 && !j->dir_changed))
        return false;
    *sync = (struct journal_sync){
        .fs = j->fs, .complete = j->complete_count, .dir = j->dir_changed, .number = j->now.last};
    for (size_t i = 0; i < j->complete_count; i++)
        sync->files[sync->count++] = j->complete[i];
    sync->files[sync->count++] = j->tail.file;
    j->dir_changed = false;
    j->syncing = true;
    return true;
}

int journal_sync_run(struct journal_sync *sync)
{
    int result = 0;

    for (size_t i = 0; i < sync->count; i++) {
        if (result == 0)
            result = sync->fs->sync(sync->fs, sync->files[i]);
        if (i < sync->complete)
            sync->fs->close(sync->fs, sync->files[i]);
    }
    return result == 0 && sync->dir ? sync->fs->sync_dir(sync->fs) : result;
}

void journal_sync_end(struct journal *j, const struct journal_sync *sync, int result)
{
    j->syncing = false;
    j->complete_count -= sync->complete;
    memmove(j->complete, j->complete + sync->complete, j->complete_count * sizeof *j->complete);
    if (result != 0)
        j->now.tainted = true;
    else if (sync->number > j->now.durable)
        j->now.durable = sync->number;
}

static int journal_sync_now(struct journal *j)
{
    struct journal_sync sync;
    int result = 0;

    if (journal_sync_begin(j, &sync)) {
        result = journal_sync_run(&sync);
        journal_sync_end(j, &sync, result);
    }
    return j->now.tainted && result == 0 ? -EIO : result;
}

int journal_finish(struct journal *j)
{
    int error = journal_sync_now(j);

    if (error == 0)
        error = journal_put_bare(j, FRAME_END, j->now.last);
    return error == 0 ? j->fs->sync(j->fs, j->tail.file) : error;
}

/* --- Writing unsynced batches again. --- */

/* The first frame of a segment that replaces others: up to batch `last`, segments that begin behind
 * this one do not count. It also declares these batches synced: they are before the file gets its
 * name. */
static int journal_put_replaces(struct journal *j, uint64_t last)
{
    const struct frame frame = {FRAME_MARK, last, last, {NULL, 0}};
    struct frame_writer first = j->again;

    first.end = FILE_HEADER_SIZE;
    return frame_writer_put(&first, &frame, 1);
}

int journal_rewrite_begin(struct journal *j)
{
    int error;

    assert(!j->syncing);
    j->now.tainted = true;
    frame_writer_close(&j->tail);
    journal_drop_file(&j->again, FILE_JOURNAL);
    journal_close_complete(j);
    j->again_last = j->now.durable;
    error = journal_open_segment(j, TMP_NAME(FILE_JOURNAL, j->now.durable + 1), j->now.durable + 1,
                                 &j->again);
    if (error == 0)
        error = journal_put_replaces(j, j->now.durable);
    if (error == 0)
        j->again.end += FRAME_HEADER_SIZE;
    return error;
}

int journal_rewrite_put(struct journal *j, const struct journal_batch *batches, size_t count)
{
    int error;

    assert(count == 0 || batches[0].number == j->again_last + 1);
    error = journal_put_batches(j, &j->again, batches, count);
    if (error == 0)
        j->again_last += count;
    return error;
}

/* Removes the segments that the rewritten one replaces, and those behind a gap. */
static int journal_remove_behind(struct journal *j, uint64_t first)
{
    struct journal_files *segments = &j->segments;

    while (segments->count > 0 && segments->items[segments->count - 1].number >= first) {
        uint64_t number = segments->items[segments->count - 1].number;
        const char *name = JOURNAL_FILE_NAME(FILE_JOURNAL, number);
        int error = number > first ? j->fs->remove(j->fs, name) : 0;

        if (error != 0 && error != -ENOENT)
            return error;
        segments->count--;
    }
    journal_add_file(segments, first);
    return 0;
}

int journal_rewrite_end(struct journal *j)
{
    int error = journal_put_replaces(j, j->again_last);

    /* Its name first: a later segment may have been reported as synced by the process before,
     * although no frame says so. */
    if (error == 0)
        error = journal_name_file(&j->again, FILE_JOURNAL);
    if (error == 0)
        error = journal_remove_behind(j, j->again.number);
    if (error == 0)
        error = j->fs->sync_dir(j->fs);
    if (error != 0) {
        journal_drop_file(&j->again, FILE_JOURNAL);
        return error;
    }
    j->tail = j->again;
    j->again.file = -1;
    j->claimed = j->now.durable;
    j->now.last = j->now.durable = j->again_last;
    j->now.tainted = j->dir_changed = false;
    return 0;
}

/* --- Writing a snapshot. It touches the file alone. --- */

/* So much is written between two syncs. */
#define SYNC_STEP (4u << 20)

void journal_snapshot_begin(struct journal *j, uint64_t number, struct journal_snapshot *s)
{
    *s = (struct journal_snapshot){
        .out = {.fs = j->fs, .file = -1},
        .header = {FILE_SNAPSHOT, FILE_VERSION, number, j->id, j->now.durable}};
    j->rotate = true;
    j->bytes_behind_next = 0;
}

static int journal_snapshot_add(struct journal_snapshot *s, enum frame_kind kind,
                                struct slice payload)
{
    const struct frame frame = {kind, s->parts, s->header.durable, payload};
    int error = 0;

    if (s->out.file < 0)
        error = frame_writer_open(&s->out, s->out.fs, TMP_NAME(FILE_SNAPSHOT, s->header.number),
                                  &s->header);
    return error == 0 ? frame_writer_put(&s->out, &frame, 1) : error;
}

int journal_snapshot_put(struct journal_snapshot *s, struct slice part)
{
    if (s->error == 0)
        s->error = journal_snapshot_add(s, FRAME_PART, part);
    if (s->error != 0)
        return s->error;
    s->parts++;
    if (s->out.end - s->synced >= SYNC_STEP) {
        s->synced = s->out.end;
        s->error = s->out.fs->sync(s->out.fs, s->out.file);
    }
    return s->error;
}

int journal_snapshot_end(struct journal_snapshot *s)
{
    int error = s->error;

    if (error == 0)
        error = journal_snapshot_add(s, FRAME_END, (struct slice){NULL, 0});
    if (error == 0)
        error = journal_name_file(&s->out, FILE_SNAPSHOT);
    if (error == 0)
        frame_writer_close(&s->out);
    return error;
}

void journal_snapshot_abandon(struct journal_snapshot *s)
{
    journal_drop_file(&s->out, FILE_SNAPSHOT);
}

/* --- The newest snapshot. --- */

void journal_snapshot_done(struct journal *j, const struct journal_snapshot *s)
{
    uint64_t number = s->header.number;

    assert(number <= j->now.last);
    if (number > j->now.durable)
        j->now.durable = number; /* it has them, and is synced */
    j->now.snapshot = number;
    j->now.snapshot_bytes = s->out.end;
    j->now.bytes_behind = j->bytes_behind_next;
    journal_add_file(&j->snapshots, number);
}

/* The name of the first one, which is forgotten. */
static bool journal_forget_first(struct journal_files *files, enum file_kind kind,
                                 char name[JOURNAL_NAME_SIZE])
{
    journal_file_name(kind, files->items[0].number, name);
    files->count--;
    memmove(files->items, files->items + 1, files->count * sizeof *files->items);
    return true;
}

bool journal_next_needless(struct journal *j, char name[JOURNAL_NAME_SIZE])
{
    if (j->segments.count > 1 && j->segments.items[1].number <= j->now.snapshot + 1)
        return journal_forget_first(&j->segments, FILE_JOURNAL, name);
    return j->snapshots.count > 0 && j->snapshots.items[0].number < j->now.snapshot &&
           journal_forget_first(&j->snapshots, FILE_SNAPSHOT, name);
}

/* --- The ballast. --- */

static bool journal_has_ballast(struct journal *j)
{
    int file = j->fs->open(j->fs, JOURNAL_BALLAST, FS_READ);
    int64_t size;

    if (file < 0)
        return false;
    size = j->fs->size(j->fs, file);
    j->fs->close(j->fs, file);
    return size == JOURNAL_BALLAST_SIZE;
}

/* Fills the file with random bytes: some file systems store no blocks for zeros. */
static int journal_fill_ballast(struct journal *j, int file)
{
    uint64_t block[8192], x = j->id | 1;
    const struct slice part = {(const uint8_t *)block, sizeof block};
    int error = 0;

    for (uint64_t at = 0; error == 0 && at < JOURNAL_BALLAST_SIZE; at += sizeof block) {
        for (size_t i = 0; i < sizeof block / sizeof *block; i++) {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            block[i] = x;
        }
        error = fs_write_all(j->fs, file, at, &part, 1);
    }
    return error == 0 ? j->fs->sync(j->fs, file) : error;
}

int journal_ballast_make(struct journal *j)
{
    int file, error;

    if (journal_has_ballast(j))
        return 0;
    file = j->fs->open(j->fs, JOURNAL_BALLAST, FS_CREATE);
    if (file < 0)
        return file;
    error = journal_fill_ballast(j, file);
    j->fs->close(j->fs, file);
    if (error != 0)
        j->fs->remove(j->fs, JOURNAL_BALLAST);
    return error;
}

int journal_ballast_drop(struct journal *j)
{
    return j->fs->remove(j->fs, JOURNAL_BALLAST);
}
