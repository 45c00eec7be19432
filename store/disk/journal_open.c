/* Opening and checking a data directory: lists and reads the files, decides whether the directory
 * may be used, and begins a new segment. See journal.h for the contract and the rules.
 */
#include "store/disk/journal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "proto/queue.h"
#include "store/disk/journal_internal.h"
#include "store/memory/xalloc.h"

/* The decision about a directory, as it grows. */
struct journal_recovery {
    struct fs *fs;
    const struct journal_reader *reader;
    struct journal_report *report;

    /* What is there. */
    struct journal_files segments, snapshots;
    char (*others)[JOURNAL_NAME_SIZE]; /* *.tmp, and segments that do not count */
    size_t other_count, other_cap;
    bool has_id;
    uint64_t id;

    uint64_t snapshot;            /* the one that was taken; 0: none */
    uint64_t last;                /* L, see journal.h */
    uint64_t durable;             /* D, of what was read so far */
    bool broken;                  /* recovery cannot use the bytes behind L, or misses some: */
    char file[JOURNAL_NAME_SIZE]; /* where the next batch was to stand */
    uint64_t offset;
    const char *what;
};

#define UNREADABLE "cannot be read"

/* Fills in the report. Returns false. */
static bool recovery_refuse(struct journal_recovery *r, enum journal_status status,
                            const char *file, uint64_t offset, const char *what)
{
    struct journal_report *report = r->report;

    report->status = status;
    snprintf(report->file, sizeof report->file, "%s", file);
    report->offset = offset;
    report->what = what;
    return false;
}

/* The same for a call that has failed. */
static bool recovery_fail(struct journal_recovery *r, int error, const char *file, const char *what)
{
    r->report->error = -error;
    return recovery_refuse(r, JOURNAL_ERROR, file, 0, what);
}

static void recovery_note_durable(struct journal_recovery *r, uint64_t durable)
{
    if (durable > r->durable)
        r->durable = durable;
}

/* --- Names. --- */

#define DIGITS 20

static void recovery_add_other(struct journal_recovery *r, const char *name)
{
    if (r->other_count == r->other_cap) {
        r->other_cap = r->other_cap == 0 ? 16 : r->other_cap * 2;
        r->others = xrealloc(r->others, r->other_cap * sizeof *r->others);
    }
    snprintf(r->others[r->other_count++], JOURNAL_NAME_SIZE, "%s", name);
}

/* Files with other names, like lost+found, stay untouched. */
static void recovery_note_name(void *arg, const char *name)
{
    static const char *const prefixes[] = {
        [FILE_JOURNAL] = JOURNAL_SEGMENT_NAME, [FILE_SNAPSHOT] = JOURNAL_SNAPSHOT_NAME};
    struct journal_recovery *r = arg;
    uint64_t number;

    for (enum file_kind kind = FILE_JOURNAL; kind <= FILE_SNAPSHOT; kind++) {
        struct slice all = slice_str(name), prefix = slice_str(prefixes[kind]), rest;

        if (!slice_starts_with(all, prefix))
            continue;
        rest = slice_from(all, prefix.len);
        if (rest.len == DIGITS + strlen(JOURNAL_TMP) &&
            slice_is(slice_from(rest, DIGITS), JOURNAL_TMP))
            recovery_add_other(r, name);
        else if (rest.len == DIGITS && slice_to_u64(rest, UINT64_MAX, &number))
            journal_add_file(kind == FILE_JOURNAL ? &r->segments : &r->snapshots, number);
    }
}

static int compare_files(const void *a, const void *b)
{
    uint64_t x = ((const struct journal_file *)a)->number;
    uint64_t y = ((const struct journal_file *)b)->number;

    return (x > y) - (x < y);
}

/* --- Headers. --- */

/* The first frame of a rewritten segment names the segments that it replaces, and declares that
 * batch synced: so a directory in which this segment is damaged is refused, and the replaced
 * segments never count again. */
static int read_replaced(struct frame_file *f, const struct file_header *header, uint64_t *replaces)
{
    struct frame frame;
    int error = 0;

    f->key = frame_key(FILE_JOURNAL, header->number, header->id);
    if (frame_file_next(f, &frame, &error) == FRAME_FILE_FRAME && frame.kind == FRAME_MARK &&
        frame.durable == frame.number)
        *replaces = frame.number;
    return error;
}

static int read_header(struct fs *fs, const char *name, enum file_header_result *result,
                       struct file_header *header, uint64_t *replaces)
{
    struct frame_file f;
    int error = frame_file_open(&f, fs, name);

    if (error != 0)
        return error;
    error = frame_file_header(&f, result, header);
    if (error == 0 && *result == FILE_HEADER_OK && header->kind == FILE_JOURNAL)
        error = read_replaced(&f, header, replaces);
    frame_file_close(&f);
    return error;
}

static bool recovery_check_id(struct journal_recovery *r, const struct file_header *header,
                              const char *name)
{
    if (r->has_id && header->id != r->id)
        return recovery_refuse(r, JOURNAL_OTHER_ID, name, 0, "belongs to another data directory");
    r->has_id = true;
    r->id = header->id;
    return true;
}

static bool recovery_read_segment(struct journal_recovery *r, enum file_kind kind,
                                  struct journal_file *file)
{
    const char *name = JOURNAL_FILE_NAME(kind, file->number);
    enum file_header_result result = FILE_HEADER_BAD;
    struct file_header header;
    int error = read_header(r->fs, name, &result, &header, &file->replaces);

    if (error != 0)
        return recovery_fail(r, error, name, UNREADABLE);
    if (kind == FILE_SNAPSHOT)
        recovery_note_durable(r, file->number);
    if (result == FILE_HEADER_BAD)
        return true;
    if (result == FILE_HEADER_VERSION)
        return recovery_refuse(r, JOURNAL_OTHER_VERSION, name, 8,
                               "has a format that this version does not know");
    if (header.kind != kind || header.number != file->number)
        return recovery_refuse(r, JOURNAL_DAMAGED, name, 16, "has the name of another file");
    recovery_note_durable(r, header.durable);
    file->intact = true;
    return recovery_check_id(r, &header, name);
}

static bool recovery_read_segments(struct journal_recovery *r, enum file_kind kind,
                                   struct journal_files *files)
{
    if (files->count > 0)
        qsort(files->items, files->count, sizeof *files->items, compare_files);
    for (size_t i = 0; i < files->count; i++) {
        if (!recovery_read_segment(r, kind, &files->items[i]))
            return false;
    }
    return true;
}

/* Segments that another one replaces are not read; the next start removes them. */
static void recovery_drop_replaced(struct journal_recovery *r)
{
    struct journal_files *files = &r->segments;
    uint64_t replaced = 0;
    size_t kept = 0;

    FOREACH(const struct journal_file, file, files->items, files->count) {
        if (file->number <= replaced) {
            recovery_add_other(r, JOURNAL_FILE_NAME(FILE_JOURNAL, file->number));
            continue;
        }
        if (file->intact && file->replaces > replaced)
            replaced = file->replaces;
        files->items[kept++] = *file;
    }
    files->count = kept;
}

static bool recovery_list(struct journal_recovery *r)
{
    int error = r->fs->list(r->fs, recovery_note_name, r);

    if (error != 0)
        return recovery_fail(r, error, ".", "cannot be listed");
    if (!recovery_read_segments(r, FILE_SNAPSHOT, &r->snapshots) ||
        !recovery_read_segments(r, FILE_JOURNAL, &r->segments))
        return false;
    recovery_drop_replaced(r);
    return true;
}

/* --- What cannot be used. --- */

/* Batches after r->last cannot be had: the first place that says so is reported. */
static void recovery_note_break(struct journal_recovery *r, const char *file, uint64_t offset,
                                const char *what)
{
    if (r->broken)
        return;
    r->broken = true;
    snprintf(r->file, sizeof r->file, "%s", file);
    r->offset = offset;
    r->what = what;
}

/* What intact headers behind a damaged place say was synced. */
static int search_behind(struct journal_recovery *r, struct frame_file *f, uint64_t at)
{
    struct frame frame;
    int found;

    while ((found = frame_file_find(f, &at, &frame)) > 0) {
        recovery_note_durable(r, frame.durable);
        at += FRAME_HEADER_SIZE;
    }
    return found;
}

/* --- Snapshots. --- */

/* What only the reader can tell. */
static const char unknown_part[] = "has a part that this version does not know";
static const char lacks_parts[] = "ends before all of the store has come";

/* Walks the frames of a snapshot to its end. NULL: the snapshot is complete. Passes each part to
 * the reader, if there is one. */
static const char *walk_parts(struct frame_file *f, const struct journal_reader *reader, int *error)
{
    struct frame frame;

    for (uint64_t part = 0;; part++) {
        enum frame_file_result result = frame_file_next(f, &frame, error);

        if (result == FRAME_FILE_ERROR)
            return UNREADABLE;
        if (result == FRAME_FILE_END)
            return "has no end";
        if (result == FRAME_FILE_BAD)
            return "is damaged";
        if (frame.number != part)
            return "has a part that is not the next one";
        if (frame.kind == FRAME_END)
            return reader == NULL || reader->parts_end == NULL || reader->parts_end(reader->arg)
                       ? NULL
                       : lacks_parts;
        if (frame.kind != FRAME_PART)
            return "has a frame that is no part of a snapshot";
        if (reader != NULL && !reader->part(reader->arg, frame.payload))
            return unknown_part;
    }
}

static const char *walk_snapshot(struct journal_recovery *r, const struct journal_file *file,
                                 const char *name, const struct journal_reader *reader, int *error,
                                 uint64_t *offset)
{
    struct frame_file f;
    const char *what;

    *offset = 0;
    if (!file->intact)
        return "has no intact header";
    *error = frame_file_open(&f, r->fs, name);
    if (*error != 0)
        return UNREADABLE;
    f.key = frame_key(FILE_SNAPSHOT, file->number, r->id);
    what = walk_parts(&f, reader, error);
    *offset = f.at;
    if (reader != NULL)
        r->report->snapshot_bytes = f.size;
    frame_file_close(&f);
    return what;
}

/* Takes the snapshot as the start of recovery. */
static bool load_snapshot(struct journal_recovery *r, const struct journal_file *file,
                          const char *name)
{
    uint64_t offset;
    int error = 0;
    const char *what = walk_snapshot(r, file, name, r->reader, &error, &offset);

    if (error != 0)
        return recovery_fail(r, error, name, UNREADABLE);
    if (what != NULL)
        return recovery_refuse(r, what == unknown_part ? JOURNAL_UNKNOWN : JOURNAL_DAMAGED, name,
                               offset, what);
    r->snapshot = r->last = r->report->snapshot = file->number;
    return true;
}

/* The newest that is whole. Whether the journal makes up for a damaged one, shows later. */
static bool take_snapshot(struct journal_recovery *r)
{
    const struct journal_files *files = &r->snapshots;

    for (size_t i = files->count; i-- > 0;) {
        const char *name = JOURNAL_FILE_NAME(FILE_SNAPSHOT, files->items[i].number), *what;
        uint64_t offset;
        int error = 0;

        what = walk_snapshot(r, &files->items[i], name, NULL, &error, &offset);
        if (error != 0)
            return recovery_fail(r, error, name, UNREADABLE);
        if (what == NULL)
            return load_snapshot(r, &files->items[i], name);
        recovery_note_break(r, name, offset, what);
        snprintf(r->report->passed_over, sizeof r->report->passed_over, "%s", r->file);
    }
    return true;
}

/* --- Segments. --- */

struct segment {
    const struct journal_file *file;
    char name[JOURNAL_NAME_SIZE];
    uint64_t end; /* batches from this number on are the next segment's */
    struct frame_file f;
};

/* True: the newest segments that follow begin early enough that nothing of this one is needed. */
static bool is_needless(const struct segment *s, uint64_t after)
{
    return s->end <= after + 1 && s->end != UINT64_MAX;
}

static void name_segment(const struct journal_recovery *r, size_t i, struct segment *s)
{
    const struct journal_files *files = &r->segments;

    s->file = &files->items[i];
    s->end = i + 1 < files->count ? files->items[i + 1].number : UINT64_MAX;
    journal_file_name(FILE_JOURNAL, s->file->number, s->name);
}

static int open_segment(const struct journal_recovery *r, struct segment *s)
{
    int error = frame_file_open(&s->f, r->fs, s->name);

    s->f.key = frame_key(FILE_JOURNAL, s->file->number, r->id);
    return error;
}

static bool hand_over(struct journal_recovery *r, const struct segment *s,
                      const struct frame *frame, uint64_t at)
{
    if (!r->reader->batch(r->reader->arg, frame->number, frame->payload))
        return recovery_refuse(r, JOURNAL_UNKNOWN, s->name, at,
                               "has a batch that this version does not know");
    r->last = frame->number;
    r->report->batches++;
    r->report->batch_bytes += frame->payload.len;
    return true;
}

/* Leaves out the bytes behind the last usable frame: search them for a frame that declares them
 * synced. */
static bool leave_out(struct journal_recovery *r, struct segment *s, const char *what)
{
    uint64_t at = s->f.at;
    int error;

    recovery_note_break(r, s->name, at, what);
    if (r->report->torn_file[0] == '\0') {
        snprintf(r->report->torn_file, sizeof r->report->torn_file, "%s", s->name);
        r->report->torn_offset = at;
        r->report->torn_bytes = s->f.size > at ? s->f.size - at : 0;
    }
    error = search_behind(r, &s->f, at);
    return error == 0 || recovery_fail(r, error, s->name, UNREADABLE);
}

/* The frames of a segment, which has the batch r->last + 1 or an earlier one first. */
static bool walk_batches(struct journal_recovery *r, struct segment *s)
{
    uint64_t next = s->file->number;

    while (next < s->end) {
        uint64_t at = s->f.at;
        struct frame frame;
        int error;
        enum frame_file_result result = frame_file_next(&s->f, &frame, &error);

        if (result == FRAME_FILE_ERROR)
            return recovery_fail(r, error, s->name, UNREADABLE);
        if (result == FRAME_FILE_END) {
            if (s->end != UINT64_MAX)
                recovery_note_break(r, s->name, at,
                                    "ends too early, or a segment behind it is missing");
            return true;
        }
        if (result == FRAME_FILE_BAD)
            return leave_out(r, s, "is damaged");
        recovery_note_durable(r, frame.durable);
        if (frame.kind != FRAME_BATCH)
            continue;
        if (frame.number != next) {
            s->f.at = at;
            return leave_out(r, s, "has a batch that is not the next one");
        }
        if (frame.number == r->last + 1 && !hand_over(r, s, &frame, at))
            return false;
        next++;
    }
    return true;
}

/* A segment that cannot be reached is only searched. */
static bool walk_segment(struct journal_recovery *r, struct segment *s)
{
    bool reached = s->file->number <= r->last + 1;

    if (!reached)
        recovery_note_break(r, s->name, 0, "does not begin with the next batch");
    else if (!s->file->intact)
        recovery_note_break(r, s->name, 0, "has no intact header");
    r->report->segments++;
    if (reached && s->file->intact)
        return walk_batches(r, s);
    s->f.at = 0;
    if (r->report->torn_file[0] != '\0')
        r->report->torn_files++;
    return leave_out(r, s, "");
}

static bool read_segment(struct journal_recovery *r, struct segment *s)
{
    int error = open_segment(r, s);
    bool ok;

    if (error != 0)
        return recovery_fail(r, error, s->name, UNREADABLE);
    ok = walk_segment(r, s);
    if (!r->broken) {
        snprintf(r->file, sizeof r->file, "%s", s->name); /* where the next batch would stand */
        r->offset = s->f.at;
    }
    frame_file_close(&s->f);
    return ok;
}

/* --- The decision. --- */

static bool refuse_lost(struct journal_recovery *r)
{
    struct journal_report *report = r->report;

    report->lost = r->last + 1;
    report->durable = r->durable;
    return recovery_refuse(r, JOURNAL_DAMAGED, r->file, r->offset,
                           r->what != NULL ? r->what : "ends before the next batch");
}

static bool recovery_decide(struct journal_recovery *r)
{
    struct journal_report *report = r->report;

    report->last = r->last;
    if (r->durable > r->last)
        return refuse_lost(r);
    /* A first segment or snapshot gets its name after it was synced, so one without a header was
     * not left by a crash. */
    if (!r->has_id && r->broken)
        return refuse_lost(r);
    report->status = JOURNAL_OPENED;
    return true;
}

static bool recovery_run(struct journal_recovery *r)
{
    if (!recovery_list(r) || !take_snapshot(r))
        return false;
    for (size_t i = 0; i < r->segments.count; i++) {
        struct segment s;

        name_segment(r, i, &s);
        if (!is_needless(&s, r->last) && !read_segment(r, &s))
            return false;
    }
    return recovery_decide(r);
}

/* --- The new segment. --- */

static int copy_segment(struct journal_recovery *r, struct segment *s, uint64_t *copied,
                        struct journal *j)
{
    int error = 0;

    while (error == 0 && *copied < r->last && *copied + 1 < s->end) {
        struct frame frame;
        enum frame_file_result result = frame_file_next(&s->f, &frame, &error);

        if (error != 0)
            return error;
        if (result != FRAME_FILE_FRAME)
            return 0; /* the next segment has the rest, or it is missed below */
        if (frame.kind == FRAME_BATCH && frame.number == *copied + 1) {
            error = journal_rewrite_put(j, &(struct journal_batch){frame.number, frame.payload}, 1);
            ++*copied;
        }
    }
    return error;
}

/* Once more the batches behind what is durable, into the new segment. */
static int copy_batches(struct journal_recovery *r, struct journal *j)
{
    uint64_t copied = r->durable;
    int error = 0;

    for (size_t i = 0; error == 0 && i < r->segments.count && copied < r->last; i++) {
        struct segment s;

        name_segment(r, i, &s);
        if (is_needless(&s, copied))
            continue;
        error = open_segment(r, &s);
        if (error != 0)
            return error;
        error = copy_segment(r, &s, &copied, j);
        frame_file_close(&s.f);
    }
    return error == 0 && copied < r->last ? -EIO : error;
}

static int begin_anew(struct journal *j, struct journal_recovery *r)
{
    int error = journal_rewrite_begin(j);

    if (error == 0)
        error = copy_batches(r, j);
    return error == 0 ? journal_rewrite_end(j) : error;
}

/* --- Opening. --- */

static bool take_lock(struct journal_recovery *r, int *lock)
{
    *lock = r->fs->lock(r->fs, JOURNAL_LOCK);
    if (*lock == -EWOULDBLOCK)
        return recovery_refuse(r, JOURNAL_LOCKED, JOURNAL_LOCK, 0, "is held by another process");
    return *lock >= 0 || recovery_fail(r, *lock, JOURNAL_LOCK, "cannot be locked");
}

static void copy_numbers(struct journal_files *to, const struct journal_files *from)
{
    for (size_t i = 0; i < from->count; i++)
        journal_add_file(to, from->items[i].number);
}

static struct journal *journal_new(const struct journal_options *options,
                                   const struct journal_recovery *r, int lock)
{
    struct journal *j = xcalloc(1, sizeof *j);

    *j = (struct journal){
        .fs = options->fs,
        .id = r->has_id ? r->id : options->new_id,
        .segment_size = options->segment_size == 0 ? JOURNAL_SEGMENT_SIZE : options->segment_size,
        .lock = lock,
        .now = {.last = r->last,
                .durable = r->durable,
                .snapshot = r->snapshot,
                .snapshot_bytes = r->report->snapshot_bytes,
                .bytes_behind = r->report->batch_bytes + r->report->batches * FRAME_HEADER_SIZE},
        .tail = {.fs = options->fs, .file = -1},
        .again = {.fs = options->fs, .file = -1},
    };
    copy_numbers(&j->segments, &r->segments);
    copy_numbers(&j->snapshots, &r->snapshots);
    return j;
}

/* The lock is held, so no process still writes the *.tmp files: removes them, and the files that a
 * newer snapshot makes needless. Files that cannot be removed stay until the next start. */
static void clean_up(struct journal *j, const struct journal_recovery *r)
{
    char name[JOURNAL_NAME_SIZE];

    for (size_t i = 0; i < r->other_count; i++)
        j->fs->remove(j->fs, r->others[i]);
    while (journal_next_needless(j, name))
        j->fs->remove(j->fs, name);
}

/* NULL: see the report; the lock is then given up. */
static struct journal *open_locked(const struct journal_options *options,
                                   struct journal_recovery *r, int lock)
{
    struct journal *j;
    int error;

    if (!recovery_run(r)) {
        r->fs->close(r->fs, lock);
        return NULL;
    }
    j = journal_new(options, r, lock);
    error = begin_anew(j, r);
    if (fs_is_full(error) && journal_ballast_drop(j) == 0)
        error = begin_anew(j, r);
    if (error != 0) {
        recovery_fail(r, error, "a new segment", "cannot be written");
        journal_close(j);
        return NULL;
    }
    r->report->copied = (size_t)(r->last - r->durable);
    clean_up(j, r);
    return j;
}

static void recovery_init(struct journal_recovery *r, struct fs *fs,
                          const struct journal_reader *reader, struct journal_report *report)
{
    *r = (struct journal_recovery){.fs = fs, .reader = reader, .report = report};
    *report = (struct journal_report){.status = JOURNAL_ERROR};
}

static void recovery_fini(struct journal_recovery *r)
{
    free(r->segments.items);
    free(r->snapshots.items);
    free(r->others);
}

struct journal *journal_open(const struct journal_options *options,
                             const struct journal_reader *reader, struct journal_report *report)
{
    struct journal *j = NULL;
    struct journal_recovery r;
    int lock;

    recovery_init(&r, options->fs, reader, report);
    if (take_lock(&r, &lock))
        j = open_locked(options, &r, lock);
    recovery_fini(&r);
    return j;
}

bool journal_check(struct fs *fs, const struct journal_reader *reader,
                   struct journal_report *report)
{
    struct journal_recovery r;
    bool ok;

    recovery_init(&r, fs, reader, report);
    ok = recovery_run(&r);
    recovery_fini(&r);
    return ok;
}
