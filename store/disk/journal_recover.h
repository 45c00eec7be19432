/* Reads a data directory, and decides whether it may be used. Changes nothing. */
#pragma once

#include "store/disk/journal_dir.h"

struct journal_recovery {
    struct fs *fs;
    const struct journal_dir *dir;
    const struct journal_reader *reader;
    struct journal_report *report;
    uint64_t snapshot;            /* the one that was taken; 0: none */
    uint64_t last;                /* L, see journal.h */
    uint64_t durable;             /* D */
    bool broken;                  /* there is something behind L, or should be: */
    char file[JOURNAL_NAME_SIZE]; /* where the next batch was to stand */
    uint64_t offset;
    const char *what;
};

/* Reads all of it. False: see the report. The first fields have been set; the rest is 0. */
bool journal_recover(struct journal_recovery *r);

/* Once more the batches behind `durable`, which has become part of the decision: put() returns 0,
 * or -errno, which is returned. */
int journal_recover_again(struct journal_recovery *r,
                          int (*put)(void *arg, uint64_t number, struct slice bytes), void *arg);
