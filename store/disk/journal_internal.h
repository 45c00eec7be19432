/* What journal.c, journal_open.c and journal_snapshot.c share. */
#pragma once

#include "store/disk/journal_dir.h"

struct journal_numbers {
    uint64_t *items; /* ascending */
    size_t count, cap;
};

/* A file that frames are appended to. */
struct journal_tail {
    int file; /* -1: none */
    uint32_t key;
    uint64_t first;
    uint64_t end; /* behind the last whole frame */
};

struct journal {
    struct fs *fs;
    uint64_t id;
    uint64_t segment_size;
    int lock;

    uint64_t last;    /* appended */
    uint64_t durable; /* synced */
    uint64_t claimed; /* the highest `durable` that was written */

    struct journal_tail tail;  /* the newest segment */
    struct journal_tail again; /* the one that journal_rewrite_put() writes */
    uint64_t again_last;
    int complete[JOURNAL_SYNC_FILES - 1]; /* older segments that are not synced yet */
    size_t complete_count;
    bool dir_changed; /* and not synced */
    bool syncing;
    bool tainted;
    bool rotate; /* before the next batch */

    struct journal_numbers segments, snapshots; /* that are there; the last ones count */
    uint64_t snapshot, snapshot_bytes;          /* the newest whole one */
    uint64_t bytes_behind;                      /* it */
    uint64_t bytes_behind_next;                 /* the one that is being written */
};

void journal_add_number(struct journal_numbers *n, uint64_t number);
