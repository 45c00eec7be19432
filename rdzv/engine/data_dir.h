/* The data directory as the daemon uses it: at the start, what it holds comes into the engine; then
 * each commit goes there, and now and then a snapshot of the store, written bit by bit. Says in the
 * log what it finds and does. No libevent: the loop polls a descriptor and gives it a share of each
 * iteration.
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
    uint64_t sync_interval_ms;
};

struct data_dir {
    struct engine *engine;
    char *path; /* of the files */
    struct fs *fs;
    struct journal_writer *writer; /* NULL: there is no directory */
    struct engine_journal journal; /* the writer's */
    struct snapshot *snapshot;     /* that is being written; NULL: none */
    struct batch part;             /* of it: one that has not been taken yet, if it is not empty */
    bool last_part;                /* it is the last one */
    uint64_t snapshot_after_ms; /* none is begun before that, since memory was short; 0: any time */
    uint64_t committed_ms;      /* the last commit */
    uint64_t snapshots, snapshot_failures; /* of the writer, as far as the log knows of them */
    bool refuses;                          /* the log says that no changes are taken */
    bool found;                            /* there was something in it */
    uint64_t away_ms; /* from when the process before has last written, to this start */
};

/* Fills the engine, which is empty, and makes the directory its journal. 0, or -1 after it logged
 * why not; data_dir_close() either way. */
int data_dir_open(struct data_dir *d, const struct data_dir_options *options,
                  struct engine *engine);

/* Readable when data_dir_poll() is to be called; -1: never. */
int data_dir_fd(const struct data_dir *d);

/* Takes note of what is durable now, and whether changes may come. */
void data_dir_poll(struct data_dir *d);

/* Once a second. While TTLs run, a store to which nobody writes says each 5 s that it is there:
 * else a start would take all the time since the last change for time away, and give it to them. */
void data_dir_tick(struct data_dir *d);

/* For the two that follow. */
void data_dir_make_snapshot(struct data_dir *d);
bool data_dir_can_write(const struct data_dir *d);

/* At the end of an iteration, after the commit: begins a snapshot that is due, and writes some of
 * it, about a millisecond's work. */
static inline void data_dir_work(struct data_dir *d)
{
    if (d->writer != NULL)
        data_dir_make_snapshot(d);
}

/* True: data_dir_work() has more to do at once. */
static inline bool data_dir_has_work(const struct data_dir *d)
{
    return d->snapshot != NULL && data_dir_can_write(d);
}

/* NULL: changes are taken. Else why not, until the next data_dir_poll(). */
const char *data_dir_refuses(const struct data_dir *d);

/* For /metrics. There is a directory. */
const struct journal_writer_stats *data_dir_stats(const struct data_dir *d);
void data_dir_disk(const struct data_dir *d, struct journal_writer_disk *out);

/* All changes are committed; waits until they are kept. After it the engine has no journal. */
void data_dir_close(struct data_dir *d);

/* For --check-data: reads all of it, as a start does, and changes nothing; writes what it found to
 * `out`. True when a start would take it. */
bool data_dir_check(const char *named, FILE *out);
