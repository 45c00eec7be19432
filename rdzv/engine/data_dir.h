/* A data directory as the engine's journal: at the start, its snapshot and its changes are loaded
 * into the engine; afterwards it receives each commit, and from time to time a snapshot of the
 * store, written in slices. It logs the state of its files and each failure. No libevent: the loop
 * polls a descriptor and gives it a share of each iteration.
 *
 * journal_writer.h describes the promise to clients, and what happens when the disk fails. */
#pragma once

#include "rdzv/engine/engine.h"
#include "rdzv/engine/journal_writer.h"

#include <stdio.h>

struct snapshot;

struct data_dir {
    struct engine *engine;
    char *path; /* of the files */
    struct fs *fs;
    struct journal_writer *writer; /* NULL: there is no directory */
    struct snapshot *snapshot;     /* that is being written; NULL: none */
    struct batch part; /* of the snapshot; not empty while the writer has not taken this part */
    bool last_part;    /* it is the last one */
    uint64_t snapshot_after_ms; /* none is begun before that, since memory was short; 0: any time */
    uint64_t snapshots, snapshot_failures; /* the writer's counts, as far as they are logged */
};

/* Fills the engine, which is empty, and makes the directory its journal, until
 * engine_close_journal(). The files are in its subdirectory rdzvd. 0, or -1 after it logged why
 * not. */
int data_dir_open(struct data_dir *d, const char *path, enum journal_writer_mode mode,
                  struct engine *engine);

/* For --check-data: reads all files, as a start does, and changes nothing; writes its findings to
 * `out`. True if a start would accept the directory. */
bool data_dir_check(const char *named, FILE *out);
