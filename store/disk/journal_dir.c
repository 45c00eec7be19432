/* What a data directory holds. See journal_dir.h for the contract. */
#include "store/disk/journal_dir.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "store/memory/xalloc.h"

static const char *const prefix[] = {[FILE_JOURNAL] = "journal-", [FILE_SNAPSHOT] = "snapshot-"};

#define DIGITS 20

bool journal_report_error(struct journal_report *r, int error, const char *file, const char *what)
{
    r->error = -error;
    return journal_report_status(r, JOURNAL_ERROR, file, 0, what);
}

bool journal_report_status(struct journal_report *r, enum journal_status status, const char *file,
                           uint64_t offset, const char *what)
{
    r->status = status;
    snprintf(r->file, sizeof r->file, "%s", file);
    r->offset = offset;
    r->what = what;
    return false;
}

/* --- Names. --- */

void journal_file_name(enum file_kind kind, uint64_t number, char out[JOURNAL_NAME_SIZE])
{
    snprintf(out, JOURNAL_NAME_SIZE, "%s%0*" PRIu64, prefix[kind], DIGITS, number);
}

void journal_tmp_name(enum file_kind kind, uint64_t number, char out[JOURNAL_NAME_SIZE])
{
    snprintf(out, JOURNAL_NAME_SIZE, "%s%0*" PRIu64 ".tmp", prefix[kind], DIGITS, number);
}

/* The part of the name behind the prefix of that kind. */
static bool after_prefix(const char *name, enum file_kind kind, struct slice *rest)
{
    struct slice all = slice_str(name), start = slice_str(prefix[kind]);

    if (!slice_starts_with(all, start))
        return false;
    *rest = slice_from(all, start.len);
    return true;
}

static bool is_tmp(struct slice rest)
{
    return rest.len == DIGITS + 4 && slice_is(slice_from(rest, DIGITS), ".tmp");
}

static void add_file(struct journal_files *files, uint64_t number)
{
    if (files->count == files->cap) {
        files->cap = files->cap == 0 ? 16 : files->cap * 2;
        files->items = xrealloc(files->items, files->cap * sizeof *files->items);
    }
    files->items[files->count++] = (struct journal_file){.number = number};
}

static void add_other(struct journal_dir *d, const char *name)
{
    if (d->other_count == d->other_cap) {
        d->other_cap = d->other_cap == 0 ? 16 : d->other_cap * 2;
        d->others = xrealloc(d->others, d->other_cap * sizeof *d->others);
    }
    snprintf(d->others[d->other_count++], JOURNAL_NAME_SIZE, "%s", name);
}

/* What is not ours, as lost+found, stays as it is. */
static void note_name(void *arg, const char *name)
{
    struct journal_dir *d = arg;
    struct slice rest;
    uint64_t number;

    if (strcmp(name, JOURNAL_BALLAST) == 0)
        d->has_ballast = true;
    for (enum file_kind kind = FILE_JOURNAL; kind <= FILE_SNAPSHOT; kind++) {
        if (!after_prefix(name, kind, &rest))
            continue;
        if (is_tmp(rest))
            add_other(d, name);
        else if (rest.len == DIGITS && slice_to_u64(rest, UINT64_MAX, &number))
            add_file(kind == FILE_JOURNAL ? &d->segments : &d->snapshots, number);
    }
}

static int by_number(const void *a, const void *b)
{
    uint64_t x = ((const struct journal_file *)a)->number;
    uint64_t y = ((const struct journal_file *)b)->number;

    return (x > y) - (x < y);
}

/* --- Headers. --- */

/* A segment that was written anew says in its first frame what it replaces, and that this is
 * synced: so a directory in which it does not count is refused, and what it replaces never counts
 * again. */
static int read_replaces(struct frame_file *f, const struct file_header *header, uint64_t *replaces)
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
    struct slice bytes = {0};
    int error = frame_file_open(&f, fs, name);

    if (error != 0)
        return error;
    error = frame_file_header(&f, &bytes);
    if (error == 0)
        *result = file_header_decode(bytes, header);
    if (error == 0 && *result == FILE_HEADER_OK && header->kind == FILE_JOURNAL)
        error = read_replaces(&f, header, replaces);
    frame_file_close(&f);
    return error;
}

static bool check_id(struct journal_dir *d, const struct file_header *header, const char *name,
                     struct journal_report *report)
{
    if (d->has_id && header->id != d->id)
        return journal_report_status(report, JOURNAL_OTHER_ID, name, 0,
                                     "belongs to another data directory");
    d->has_id = true;
    d->id = header->id;
    return true;
}

static bool look_at(struct journal_dir *d, struct fs *fs, enum file_kind kind,
                    struct journal_file *file, struct journal_report *report)
{
    enum file_header_result result = FILE_HEADER_BAD;
    char name[JOURNAL_NAME_SIZE];
    struct file_header header;
    int error;

    journal_file_name(kind, file->number, name);
    error = read_header(fs, name, &result, &header, &file->replaces);
    if (error != 0)
        return journal_report_error(report, error, name, "cannot be read");
    if (kind == FILE_SNAPSHOT && file->number > d->durable)
        d->durable = file->number;
    if (result == FILE_HEADER_BAD)
        return true;
    if (result == FILE_HEADER_VERSION)
        return journal_report_status(
            report, header.version > FILE_VERSION ? JOURNAL_NEW_VERSION : JOURNAL_OLD_VERSION, name,
            8, "has a format that this version does not know");
    if (header.kind != kind || header.number != file->number)
        return journal_report_status(report, JOURNAL_DAMAGED, name, 16,
                                     "has the name of another file");
    if (header.durable > d->durable)
        d->durable = header.durable;
    file->intact = true;
    return check_id(d, &header, name, report);
}

static bool look_at_all(struct journal_dir *d, struct fs *fs, enum file_kind kind,
                        struct journal_files *files, struct journal_report *report)
{
    if (files->count > 0)
        qsort(files->items, files->count, sizeof *files->items, by_number);
    for (size_t i = 0; i < files->count; i++) {
        if (!look_at(d, fs, kind, &files->items[i], report))
            return false;
    }
    return true;
}

/* Segments that another one replaces are not looked at, and go with the next start. */
static void drop_replaced(struct journal_dir *d)
{
    struct journal_files *files = &d->segments;
    uint64_t replaced = 0;
    size_t kept = 0;

    for (size_t i = 0; i < files->count; i++) {
        const struct journal_file *file = &files->items[i];
        char name[JOURNAL_NAME_SIZE];

        if (file->number <= replaced) {
            journal_file_name(FILE_JOURNAL, file->number, name);
            add_other(d, name);
            continue;
        }
        if (file->intact && file->replaces > replaced)
            replaced = file->replaces;
        files->items[kept++] = *file;
    }
    files->count = kept;
}

bool journal_dir_read(struct journal_dir *d, struct fs *fs, struct journal_report *report)
{
    int error;

    *d = (struct journal_dir){0};
    error = fs->list(fs, note_name, d);
    if (error != 0)
        journal_report_error(report, error, ".", "cannot be listed");
    if (error == 0 && look_at_all(d, fs, FILE_SNAPSHOT, &d->snapshots, report) &&
        look_at_all(d, fs, FILE_JOURNAL, &d->segments, report)) {
        drop_replaced(d);
        return true;
    }
    journal_dir_free(d);
    return false;
}

void journal_dir_free(struct journal_dir *d)
{
    free(d->segments.items);
    free(d->snapshots.items);
    free(d->others);
    *d = (struct journal_dir){0};
}
