/* A data directory as the engine's journal: at the start, its snapshot and its changes are loaded
 * into the engine; afterwards it receives each commit, and now and then a snapshot of the store,
 * written bit by bit. It logs the state of its files and each fault. No libevent: the loop polls a
 * descriptor and gives it a share of each iteration.
 *
 * What is promised, and what happens when the disk fails: journal_writer.h. */
#pragma once

#include "rdzv/engine/engine.h"
#include "rdzv/engine/journal_writer.h"

#include <stdio.h>

struct snapshot;

struct data_dir_options {
    const char *path; /* NULL: there is none, and nothing below does anything. The files are in
                         its subdirectory rdzvd */
    enum journal_writer_mode mode;
};

struct data_dir {
    struct engine *engine;
    char *path; /* of the files */
    struct fs *fs;
    struct journal_writer *writer; /* NULL: there is no directory */
    struct snapshot *snapshot;     /* that is being written; NULL: none */
    struct batch part; /* of the snapshot; not empty: the writer has not taken this part yet */
    bool last_part;    /* it is the last one */
    uint64_t snapshot_after_ms; /* none is begun before that, since memory was short; 0: any time */
    uint64_t committed_ms;      /* the last commit */
    uint64_t snapshots, snapshot_failures; /* of the writer, as far as the log knows of them */
    bool refuses;                          /* the log says that no changes are taken */
};

/* Fills the engine, which is empty, and makes the directory its journal, until
 * engine_close_journal(). 0, or -1 after it logged why not. */
int data_dir_open(struct data_dir *d, const struct data_dir_options *options,
                  struct engine *engine);

/* For --check-data: reads all of it, as a start does, and changes nothing; writes what it found to
 * `out`. True when a start would take it. */
bool data_dir_check(const char *named, FILE *out);
