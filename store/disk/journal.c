/* Appending, syncing, and writing again after a fault. See journal.h for the contract. */
#include "store/disk/journal.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "store/disk/journal_internal.h"
#include "store/memory/xalloc.h"

void journal_add_number(struct journal_numbers *n, uint64_t number)
{
    if (n->count == n->cap) {
        n->cap = n->cap == 0 ? 16 : n->cap * 2;
        n->items = xrealloc(n->items, n->cap * sizeof *n->items);
    }
    n->items[n->count++] = number;
}

uint64_t journal_last(const struct journal *j)
{
    return j->last;
}

uint64_t journal_durable(const struct journal *j)
{
    return j->durable;
}

bool journal_is_tainted(const struct journal *j)
{
    return j->tainted;
}

static void close_tail(struct journal *j, struct journal_tail *t)
{
    if (t->file >= 0)
        j->fs->close(j->fs, t->file);
    *t = (struct journal_tail){.file = -1};
}

/* The file that is being written anew goes, unless it has got its name. */
static void drop_again(struct journal *j)
{
    char name[JOURNAL_NAME_SIZE];

    if (j->again.file < 0)
        return;
    journal_tmp_name(FILE_JOURNAL, j->again.first, name);
    close_tail(j, &j->again);
    j->fs->remove(j->fs, name);
}

static void close_complete(struct journal *j)
{
    for (size_t i = 0; i < j->complete_count; i++)
        j->fs->close(j->fs, j->complete[i]);
    j->complete_count = 0;
}

void journal_close(struct journal *j)
{
    if (j == NULL)
        return;
    close_tail(j, &j->tail);
    drop_again(j);
    close_complete(j);
    if (j->lock >= 0)
        j->fs->close(j->fs, j->lock);
    free(j->segments.items);
    free(j->snapshots.items);
    free(j);
}

/* --- Frames at the end of a file. --- */

static int begin_file(struct journal *j, const char *name, uint64_t first, struct journal_tail *t)
{
    uint8_t bytes[FILE_HEADER_SIZE];
    const struct slice header = {bytes, sizeof bytes};
    int file = j->fs->open(j->fs, name, FS_CREATE), error;

    if (file < 0)
        return file;
    file_header_encode(&(struct file_header){.kind = FILE_JOURNAL,
                                             .version = FILE_VERSION,
                                             .number = first,
                                             .id = j->id,
                                             .durable = j->durable},
                       bytes);
    error = fs_write_all(j->fs, file, 0, &header, 1);
    if (error != 0) {
        j->fs->close(j->fs, file);
        return error;
    }
    *t = (struct journal_tail){.file = file,
                               .key = frame_key(FILE_JOURNAL, first, j->id),
                               .first = first,
                               .end = FILE_HEADER_SIZE};
    return 0;
}

#define GROUP (FS_PARTS_MAX / 2)

/* One group by as few calls as can be, at *end, which moves behind it. */
static int write_group(struct journal *j, const struct journal_tail *t, uint64_t *end,
                       const struct journal_batch *batches, size_t count)
{
    uint8_t headers[GROUP][FRAME_HEADER_SIZE];
    struct slice parts[FS_PARTS_MAX];
    uint64_t size = 0;
    int error;

    for (size_t i = 0; i < count; i++) {
        const struct frame frame = {FRAME_BATCH, batches[i].number, j->durable, batches[i].bytes};

        frame_encode(t->key, &frame, headers[i]);
        parts[2 * i] = (struct slice){headers[i], FRAME_HEADER_SIZE};
        parts[2 * i + 1] = batches[i].bytes;
        size += FRAME_HEADER_SIZE + batches[i].bytes.len;
    }
    error = fs_write_all(j->fs, t->file, *end, parts, 2 * count);
    if (error == 0)
        *end += size;
    return error;
}

/* All of them, or none: what was written is then taken back. If not even that can be done, it is
 * written over later. */
static int write_batches(struct journal *j, struct journal_tail *t,
                         const struct journal_batch *batches, size_t count)
{
    uint64_t end = t->end;

    while (count > 0) {
        size_t group = count < GROUP ? count : GROUP;
        int error = write_group(j, t, &end, batches, group);

        if (error != 0) {
            j->fs->truncate(j->fs, t->file, t->end);
            return error;
        }
        batches += group;
        count -= group;
    }
    t->end = end;
    return 0;
}

static int write_bare(struct journal *j, enum frame_kind kind, uint64_t number)
{
    const struct frame frame = {kind, number, j->durable, {NULL, 0}};
    uint8_t bytes[FRAME_HEADER_SIZE];
    const struct slice part = {bytes, sizeof bytes};
    int error;

    frame_encode(j->tail.key, &frame, bytes);
    error = fs_write_all(j->fs, j->tail.file, j->tail.end, &part, 1);
    if (error != 0) {
        j->fs->truncate(j->fs, j->tail.file, j->tail.end);
        return error;
    }
    j->tail.end += sizeof bytes;
    j->claimed = j->durable;
    return 0;
}

/* --- Appending. --- */

/* A segment gets one if it has batches, and there is room to remember the one before until it is
 * synced. */
static bool wants_segment(const struct journal *j)
{
    return j->tail.first <= j->last && (j->rotate || j->tail.end >= j->segment_size) &&
           j->complete_count < JOURNAL_SYNC_FILES - 1;
}

/* A segment could not be begun. As long as its file is there, or may be after a power cut, a reader
 * takes it for the place of the next batches: it goes, and the next sync is one of the directory,
 * too. If it cannot be removed, the batches go into a segment that replaces it. */
static void undo_segment(struct journal *j, const char *name)
{
    int error = j->fs->remove(j->fs, name);

    j->dir_changed = true;
    if (error == 0 || error == -ENOENT)
        return;
    j->tainted = true;
    journal_add_number(&j->segments, j->last + 1);
}

static int next_segment(struct journal *j)
{
    char name[JOURNAL_NAME_SIZE];
    struct journal_tail next;
    int error;

    journal_file_name(FILE_JOURNAL, j->last + 1, name);
    error = begin_file(j, name, j->last + 1, &next);
    if (error != 0) {
        undo_segment(j, name);
        return error;
    }
    j->complete[j->complete_count++] = j->tail.file;
    j->tail = next;
    j->claimed = j->durable;
    j->dir_changed = true;
    j->rotate = false;
    journal_add_number(&j->segments, next.first);
    return 0;
}

int journal_append(struct journal *j, const struct journal_batch *batches, size_t count)
{
    int error = j->tainted ? -EIO : 0;
    uint64_t before = j->tail.end;

    assert(count == 0 || batches[0].number == j->last + 1);
    if (error == 0 && count > 0 && wants_segment(j)) {
        error = next_segment(j);
        before = j->tail.end;
    }
    if (error == 0)
        error = write_batches(j, &j->tail, batches, count);
    if (error != 0 || count == 0)
        return error;
    j->last += count;
    j->claimed = j->durable;
    j->bytes_behind += j->tail.end - before;
    j->bytes_behind_next += j->tail.end - before;
    return 0;
}

void journal_mark(struct journal *j)
{
    if (j->claimed < j->durable && !j->tainted && j->tail.file >= 0)
        write_bare(j, FRAME_MARK, 0);
}

/* --- Syncing. --- */

bool journal_sync_begin(struct journal *j, struct journal_sync *sync)
{
    if (j->syncing || j->tainted ||
        (j->durable >= j->last && j->complete_count == 0 && !j->dir_changed))
        return false;
    *sync = (struct journal_sync){
        .fs = j->fs, .complete = j->complete_count, .dir = j->dir_changed, .number = j->last};
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
        j->tainted = true;
    else if (sync->number > j->durable)
        j->durable = sync->number;
}

static int sync_now(struct journal *j)
{
    struct journal_sync sync;
    int result = 0;

    if (journal_sync_begin(j, &sync)) {
        result = journal_sync_run(&sync);
        journal_sync_end(j, &sync, result);
    }
    return j->tainted && result == 0 ? -EIO : result;
}

int journal_finish(struct journal *j)
{
    int error = sync_now(j);

    if (error == 0)
        error = write_bare(j, FRAME_END, j->last);
    return error == 0 ? j->fs->sync(j->fs, j->tail.file) : error;
}

/* --- Writing again what is not known to be synced. --- */

/* The first frame of a segment that is written anew: up to that batch, no other segment counts. It
 * says that these are synced, too: by the time that the file has its name, they are. */
static int write_replaces(struct journal *j, uint64_t last)
{
    const struct frame frame = {FRAME_MARK, last, last, {NULL, 0}};
    uint8_t bytes[FRAME_HEADER_SIZE];
    const struct slice part = {bytes, sizeof bytes};

    frame_encode(j->again.key, &frame, bytes);
    return fs_write_all(j->fs, j->again.file, FILE_HEADER_SIZE, &part, 1);
}

int journal_rewrite_begin(struct journal *j)
{
    char name[JOURNAL_NAME_SIZE];
    int error;

    assert(!j->syncing);
    j->tainted = true;
    close_tail(j, &j->tail);
    drop_again(j);
    close_complete(j);
    j->again_last = j->durable;
    journal_tmp_name(FILE_JOURNAL, j->durable + 1, name);
    error = begin_file(j, name, j->durable + 1, &j->again);
    if (error == 0)
        error = write_replaces(j, j->durable);
    if (error == 0)
        j->again.end += FRAME_HEADER_SIZE;
    return error;
}

int journal_rewrite_put(struct journal *j, const struct journal_batch *batches, size_t count)
{
    int error;

    assert(count == 0 || batches[0].number == j->again_last + 1);
    error = write_batches(j, &j->again, batches, count);
    if (error == 0)
        j->again_last += count;
    return error;
}

/* Those that the one that was written anew replaces, and those behind a gap, must go before
 * anything more is appended to it. */
static int remove_later_segments(struct journal *j, uint64_t first)
{
    while (j->segments.count > 0 && j->segments.items[j->segments.count - 1] >= first) {
        uint64_t number = j->segments.items[j->segments.count - 1];
        char name[JOURNAL_NAME_SIZE];
        int error;

        journal_file_name(FILE_JOURNAL, number, name);
        error = number > first ? j->fs->remove(j->fs, name) : 0;
        if (error != 0 && error != -ENOENT)
            return error;
        j->segments.count--;
    }
    journal_add_number(&j->segments, first);
    return 0;
}

static int install(struct journal *j)
{
    char from[JOURNAL_NAME_SIZE], to[JOURNAL_NAME_SIZE];
    int error = write_replaces(j, j->again_last);

    journal_tmp_name(FILE_JOURNAL, j->again.first, from);
    journal_file_name(FILE_JOURNAL, j->again.first, to);
    if (error == 0)
        error = j->fs->sync(j->fs, j->again.file);
    if (error == 0)
        error = j->fs->rename(j->fs, from, to);
    /* Its name first: a later segment may have been reported as synced by the process before,
     * although no frame says so. */
    if (error == 0)
        error = j->fs->sync_dir(j->fs);
    if (error == 0)
        error = remove_later_segments(j, j->again.first);
    return error == 0 ? j->fs->sync_dir(j->fs) : error;
}

int journal_rewrite_end(struct journal *j)
{
    int error = install(j);

    if (error != 0) {
        drop_again(j);
        return error;
    }
    j->tail = j->again;
    j->again = (struct journal_tail){.file = -1};
    j->claimed = j->durable;
    j->last = j->durable = j->again_last;
    j->tainted = j->dir_changed = false;
    return 0;
}
