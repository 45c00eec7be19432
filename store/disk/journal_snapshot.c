/* Snapshots, what they make needless, and the ballast. See journal.h for the contract. */
#include <assert.h>
#include <errno.h>

#include "store/disk/journal_internal.h"

/* So much is written between two syncs. */
#define SYNC_STEP (4u << 20)

/* --- Writing one. It touches the file alone. --- */

void journal_snapshot_begin(struct journal *j, uint64_t number, struct journal_snapshot *s)
{
    *s = (struct journal_snapshot){.fs = j->fs,
                                   .file = -1,
                                   .key = frame_key(FILE_SNAPSHOT, number, j->id),
                                   .id = j->id,
                                   .number = number,
                                   .durable = j->durable};
    j->rotate = true;
    j->bytes_behind_next = 0;
}

static int append_bytes(struct journal_snapshot *s, const struct slice *parts, size_t count)
{
    int error = fs_write_all(s->fs, s->file, s->bytes, parts, count);

    for (size_t i = 0; error == 0 && i < count; i++) {
        s->bytes += parts[i].len;
        s->unsynced += parts[i].len;
    }
    return error;
}

static int begin_file(struct journal_snapshot *s)
{
    uint8_t bytes[FILE_HEADER_SIZE];
    const struct slice header = {bytes, sizeof bytes};
    char name[JOURNAL_NAME_SIZE];

    if (s->file >= 0)
        return 0;
    journal_tmp_name(FILE_SNAPSHOT, s->number, name);
    s->file = s->fs->open(s->fs, name, FS_CREATE);
    if (s->file < 0)
        return s->file;
    file_header_encode(&(struct file_header){.kind = FILE_SNAPSHOT,
                                             .version = FILE_VERSION,
                                             .number = s->number,
                                             .id = s->id,
                                             .durable = s->durable},
                       bytes);
    return append_bytes(s, &header, 1);
}

static int append_frame(struct journal_snapshot *s, enum frame_kind kind, struct slice payload)
{
    const struct frame frame = {kind, s->parts, s->durable, payload};
    uint8_t header[FRAME_HEADER_SIZE];
    const struct slice parts[] = {{header, sizeof header}, payload};
    int error = begin_file(s);

    if (error != 0)
        return error;
    frame_encode(s->key, &frame, header);
    return append_bytes(s, parts, payload.len == 0 ? 1 : 2);
}

int journal_snapshot_put(struct journal_snapshot *s, struct slice part)
{
    if (s->error == 0)
        s->error = append_frame(s, FRAME_PART, part);
    if (s->error != 0)
        return s->error;
    s->parts++;
    if (s->unsynced >= SYNC_STEP) {
        s->unsynced = 0;
        s->error = s->fs->sync(s->fs, s->file);
    }
    return s->error;
}

int journal_snapshot_end(struct journal_snapshot *s)
{
    char from[JOURNAL_NAME_SIZE], to[JOURNAL_NAME_SIZE];
    int error = s->error;

    if (error == 0)
        error = append_frame(s, FRAME_END, (struct slice){NULL, 0});
    if (error == 0)
        error = s->fs->sync(s->fs, s->file);
    if (error != 0)
        return error;
    journal_tmp_name(FILE_SNAPSHOT, s->number, from);
    journal_file_name(FILE_SNAPSHOT, s->number, to);
    error = s->fs->rename(s->fs, from, to);
    if (error == 0)
        error = s->fs->sync_dir(s->fs);
    if (error != 0)
        return error;
    s->fs->close(s->fs, s->file);
    s->file = -1;
    return 0;
}

void journal_snapshot_abandon(struct journal_snapshot *s)
{
    char name[JOURNAL_NAME_SIZE];

    if (s->file < 0)
        return;
    journal_tmp_name(FILE_SNAPSHOT, s->number, name);
    s->fs->close(s->fs, s->file);
    s->fs->remove(s->fs, name);
    s->file = -1;
}

/* --- The newest one. --- */

void journal_snapshot_done(struct journal *j, const struct journal_snapshot *s)
{
    assert(s->number <= j->last);
    if (s->number > j->durable)
        j->durable = s->number; /* it has them, and is synced */
    j->snapshot = s->number;
    j->snapshot_bytes = s->bytes;
    j->bytes_behind = j->bytes_behind_next;
    journal_add_number(&j->snapshots, s->number);
}

uint64_t journal_bytes_behind(const struct journal *j)
{
    return j->bytes_behind;
}

uint64_t journal_snapshot_bytes(const struct journal *j)
{
    return j->snapshot_bytes;
}

uint64_t journal_snapshot_number(const struct journal *j)
{
    return j->snapshot;
}

static void forget_first(struct journal_numbers *n)
{
    n->count--;
    memmove(n->items, n->items + 1, n->count * sizeof *n->items);
}

bool journal_next_needless(struct journal *j, char name[JOURNAL_NAME_SIZE])
{
    if (j->segments.count > 1 && j->segments.items[1] <= j->snapshot + 1) {
        journal_file_name(FILE_JOURNAL, j->segments.items[0], name);
        forget_first(&j->segments);
        return true;
    }
    if (j->snapshots.count > 0 && j->snapshots.items[0] < j->snapshot) {
        journal_file_name(FILE_SNAPSHOT, j->snapshots.items[0], name);
        forget_first(&j->snapshots);
        return true;
    }
    return false;
}

/* --- The ballast. --- */

static bool ballast_is_there(struct journal *j)
{
    int file = j->fs->open(j->fs, JOURNAL_BALLAST, FS_READ);
    int64_t size;

    if (file < 0)
        return false;
    size = j->fs->size(j->fs, file);
    j->fs->close(j->fs, file);
    return size == JOURNAL_BALLAST_SIZE;
}

/* Not zeros, which some file systems do not keep. */
static int fill(struct journal *j, int file)
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

    if (ballast_is_there(j))
        return 0;
    file = j->fs->open(j->fs, JOURNAL_BALLAST, FS_CREATE);
    if (file < 0)
        return file;
    error = fill(j, file);
    j->fs->close(j->fs, file);
    if (error != 0)
        j->fs->remove(j->fs, JOURNAL_BALLAST);
    return error;
}

int journal_ballast_drop(struct journal *j)
{
    return j->fs->remove(j->fs, JOURNAL_BALLAST);
}
