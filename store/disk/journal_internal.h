/* What journal.c and journal_open.c share. */
#pragma once

#include "store/disk/journal.h"

struct journal_file {
    uint64_t number;   /* of the name */
    bool intact;       /* its header is intact and has the same number */
    uint64_t replaces; /* a segment: makes later segments that begin at or before this batch void */
};

struct journal_files {
    struct journal_file *items; /* by number */
    size_t count, cap;
};

struct journal {
    struct fs *fs;
    uint64_t id;
    uint64_t segment_size;
    int lock;

    struct journal_figures now;
    uint64_t claimed; /* the highest `durable` that was written */

    struct frame_writer tail;  /* the newest segment */
    struct frame_writer again; /* the one that journal_rewrite_put() writes */
    uint64_t again_last;
    int complete[JOURNAL_SYNC_FILES - 1]; /* older segments that are not synced yet */
    size_t complete_count;
    bool dir_changed; /* and not synced */
    bool syncing;
    bool rotate; /* before the next batch */

    struct journal_files segments, snapshots; /* that are there */
    uint64_t bytes_behind_next;               /* the snapshot that is being written */
};

const char *journal_file_name(enum file_kind kind, uint64_t number, char out[JOURNAL_NAME_SIZE]);
#define JOURNAL_FILE_NAME(kind, number) /* until the block ends */ \
    journal_file_name((kind), (number), (char[JOURNAL_NAME_SIZE]){0})

void journal_add_file(struct journal_files *files, uint64_t number);
