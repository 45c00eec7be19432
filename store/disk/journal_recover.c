/* Reads a data directory. See journal_recover.h, and the rule in journal.h. */
#include "store/disk/journal_recover.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static bool fail(struct journal_recovery *r, int error, const char *file)
{
    return journal_report_error(r->report, error, file, "cannot be read");
}

static void note_durable(struct journal_recovery *r, uint64_t durable)
{
    if (durable > r->durable)
        r->durable = durable;
}

/* Batches after r->last cannot be had: the first place that says so is reported. */
static void note_break(struct journal_recovery *r, const char *file, uint64_t offset,
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
        note_durable(r, frame.durable);
        at += FRAME_HEADER_SIZE;
    }
    return found;
}

/* --- Snapshots. --- */

/* What only the reader can tell. */
static const char unknown_part[] = "has a part that this version does not know";
static const char lacks_parts[] = "ends before all of the store has come";

/* What frames of a snapshot say, in order, up to its end. NULL: it is whole. Each part is handed to
 * the reader, if there is one. */
static const char *walk_parts(struct frame_file *f, const struct journal_reader *reader,
                              uint64_t *parts, int *error)
{
    struct frame frame;

    for (*parts = 0;; ++*parts) {
        enum frame_file_result result = frame_file_next(f, &frame, error);

        if (result == FRAME_FILE_ERROR)
            return "cannot be read";
        if (result == FRAME_FILE_END)
            return "has no end";
        if (result == FRAME_FILE_BAD)
            return "is damaged";
        if (frame.number != *parts)
            return "has a part that is not the next one";
        if (frame.kind == FRAME_END)
            return reader == NULL || reader->parts_end == NULL || reader->parts_end(reader->arg)
                       ? NULL
                       : lacks_parts;
        if (frame.kind != FRAME_PART)
            return "holds what is no part of a snapshot";
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
    uint64_t parts;

    *offset = 0;
    if (!file->intact)
        return "has no intact header";
    *error = frame_file_open(&f, r->fs, name);
    if (*error != 0)
        return "cannot be read";
    f.key = frame_key(FILE_SNAPSHOT, file->number, r->dir->id);
    what = walk_parts(&f, reader, &parts, error);
    *offset = f.at;
    if (reader != NULL) {
        r->report->snapshot_bytes = f.size;
        r->report->parts = parts;
    }
    frame_file_close(&f);
    return what;
}

/* Takes it as the one to begin with. */
static bool load_snapshot(struct journal_recovery *r, const struct journal_file *file,
                          const char *name)
{
    uint64_t offset;
    int error = 0;
    const char *what = walk_snapshot(r, file, name, r->reader, &error, &offset);

    if (error != 0)
        return fail(r, error, name);
    if (what != NULL)
        return journal_report_status(r->report,
                                     what == unknown_part ? JOURNAL_UNKNOWN : JOURNAL_DAMAGED, name,
                                     offset, what);
    r->snapshot = r->last = r->report->snapshot = file->number;
    return true;
}

/* The newest that is whole. Whether the journal makes up for a damaged one, shows later. */
static bool take_snapshot(struct journal_recovery *r)
{
    const struct journal_files *files = &r->dir->snapshots;

    for (size_t i = files->count; i-- > 0;) {
        char name[JOURNAL_NAME_SIZE];
        uint64_t offset;
        int error = 0;
        const char *what;

        journal_file_name(FILE_SNAPSHOT, files->items[i].number, name);
        what = walk_snapshot(r, &files->items[i], name, NULL, &error, &offset);
        if (error != 0)
            return fail(r, error, name);
        if (what == NULL)
            return load_snapshot(r, &files->items[i], name);
        note_break(r, name, offset, what);
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
    const struct journal_files *files = &r->dir->segments;

    s->file = &files->items[i];
    s->end = i + 1 < files->count ? files->items[i + 1].number : UINT64_MAX;
    journal_file_name(FILE_JOURNAL, s->file->number, s->name);
}

static int open_segment(const struct journal_recovery *r, struct segment *s)
{
    int error = frame_file_open(&s->f, r->fs, s->name);

    s->f.key = frame_key(FILE_JOURNAL, s->file->number, r->dir->id);
    return error;
}

static bool deliver(struct journal_recovery *r, const struct segment *s, const struct frame *frame,
                    uint64_t at)
{
    if (!r->reader->batch(r->reader->arg, frame->number, frame->payload))
        return journal_report_status(r->report, JOURNAL_UNKNOWN, s->name, at,
                                     "has a batch that this version does not know");
    r->last = frame->number;
    r->report->batches++;
    r->report->batch_bytes += frame->payload.len;
    return true;
}

/* What is behind the frames that could be used: is anything of it said to be synced? */
static bool leave_out(struct journal_recovery *r, struct segment *s, const char *what)
{
    uint64_t at = s->f.at;
    int error;

    note_break(r, s->name, at, what);
    if (r->report->torn_file[0] == '\0') {
        snprintf(r->report->torn_file, sizeof r->report->torn_file, "%s", s->name);
        r->report->torn_offset = at;
        r->report->torn_bytes = s->f.size > at ? s->f.size - at : 0;
    }
    error = search_behind(r, &s->f, at);
    return error == 0 || fail(r, error, s->name);
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
            return fail(r, error, s->name);
        if (result == FRAME_FILE_END) {
            if (s->end != UINT64_MAX)
                note_break(r, s->name, at, "ends too early, or a segment behind it is missing");
            return true;
        }
        if (result == FRAME_FILE_BAD)
            return leave_out(r, s, "is damaged");
        note_durable(r, frame.durable);
        if (frame.kind != FRAME_BATCH)
            continue;
        if (frame.number != next) {
            s->f.at = at;
            return leave_out(r, s, "has a batch that is not the next one");
        }
        if (frame.number == r->last + 1 && !deliver(r, s, &frame, at))
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
        note_break(r, s->name, 0, "does not begin with the next batch");
    else if (!s->file->intact)
        note_break(r, s->name, 0, "has no intact header");
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
        return fail(r, error, s->name);
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
    return journal_report_status(report, JOURNAL_DAMAGED, r->file, r->offset,
                                 r->what != NULL ? r->what : "ends before the next batch");
}

static bool decide(struct journal_recovery *r)
{
    struct journal_report *report = r->report;

    report->last = r->last;
    if (r->durable > r->last)
        return refuse_lost(r);
    /* A first segment or snapshot gets its name after it was synced, so one without a header was
     * not left by a crash. */
    if (!r->dir->has_id && r->broken)
        return refuse_lost(r);
    report->status = JOURNAL_OPENED;
    return true;
}

bool journal_recover(struct journal_recovery *r)
{
    note_durable(r, r->dir->durable);
    if (!take_snapshot(r))
        return false;
    for (size_t i = 0; i < r->dir->segments.count; i++) {
        struct segment s;

        name_segment(r, i, &s);
        if (!is_needless(&s, r->last) && !read_segment(r, &s))
            return false;
    }
    return decide(r);
}

/* --- Once more. --- */

static int copy_segment(struct journal_recovery *r, struct segment *s, uint64_t *copied,
                        int (*put)(void *arg, uint64_t number, struct slice bytes), void *arg)
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
            error = put(arg, frame.number, frame.payload);
            ++*copied;
        }
    }
    return error;
}

int journal_recover_again(struct journal_recovery *r,
                          int (*put)(void *arg, uint64_t number, struct slice bytes), void *arg)
{
    uint64_t copied = r->durable;
    int error = 0;

    for (size_t i = 0; error == 0 && i < r->dir->segments.count && copied < r->last; i++) {
        struct segment s;

        name_segment(r, i, &s);
        if (is_needless(&s, copied))
            continue;
        error = open_segment(r, &s);
        if (error != 0)
            return error;
        error = copy_segment(r, &s, &copied, put, arg);
        frame_file_close(&s.f);
    }
    return error == 0 && copied < r->last ? -EIO : error;
}
