/* What a data directory holds: names of segments and snapshots, in order, and what their headers
 * say. */
#pragma once

#include "store/disk/frame_file.h"
#include "store/disk/journal.h"

#define JOURNAL_LOCK    "lock"
#define JOURNAL_BALLAST "ballast"

struct journal_file {
    uint64_t number;   /* of the name */
    bool intact;       /* its header is, and says the same */
    uint64_t replaces; /* a segment: others that begin behind it, up to this batch, do not count */
};

struct journal_files {
    struct journal_file *items; /* by number */
    size_t count, cap;
};

struct journal_dir {
    struct journal_files segments, snapshots;
    char (*others)[JOURNAL_NAME_SIZE]; /* *.tmp, and segments that do not count */
    size_t other_count, other_cap;
    bool has_id, has_ballast;
    uint64_t id;
    uint64_t durable; /* the highest one of any header, and of any snapshot's name */
};

void journal_file_name(enum file_kind kind, uint64_t number, char out[JOURNAL_NAME_SIZE]);
void journal_tmp_name(enum file_kind kind, uint64_t number, char out[JOURNAL_NAME_SIZE]);

/* Lists the directory and reads the headers. False: *report says why, and there is nothing to free.
 */
bool journal_dir_read(struct journal_dir *d, struct fs *fs, struct journal_report *report);
void journal_dir_free(struct journal_dir *d);

/* Fills in a report of a failed call (-errno), or of damage. Return false. */
bool journal_report_error(struct journal_report *r, int error, const char *file, const char *what);
bool journal_report_status(struct journal_report *r, enum journal_status status, const char *file,
                           uint64_t offset, const char *what);
