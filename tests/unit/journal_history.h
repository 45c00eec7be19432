/* A journal on a simulated disk, whose batches are lines of text, and its files. */
#pragma once

#include "store/disk/journal.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/support/sim_disk.h"

static struct sim_disk *disk;
static struct journal *journal;
static struct journal_report report;
static char text[1000];

/* --- A store of sorts: each batch is a line of text; a snapshot holds the number of its last one.
 * --- */

struct seen {
    uint64_t snapshot, last, parts;
    bool wrong;
    bool knows_nothing; /* refuses every batch */
};

static struct seen seen;
static bool refuses_batches, misses_parts;
static uint64_t segment_size;

static inline struct slice line(uint64_t number)
{
    static char lines[4][300];
    static unsigned turn;
    char *to = lines[turn++ % 4];
    int len = snprintf(to, 300, "batch %llu ", (unsigned long long)number);

    /* Some are longer than a sector. */
    while (len < (int)(number % 7) * 40)
        to[len++] = 'x';
    return (struct slice){(const uint8_t *)to, (size_t)len};
}

static inline bool see_part(void *arg, struct slice bytes)
{
    (void)arg;
    if (!slice_to_u64(bytes, UINT64_MAX, &seen.snapshot))
        return false;
    seen.last = seen.snapshot;
    seen.parts++;
    return true;
}

static inline bool see_batch(void *arg, uint64_t number, struct slice bytes)
{
    (void)arg;
    if (refuses_batches)
        return false;
    seen.wrong = seen.wrong || number != seen.last + 1 || !slice_equal(bytes, line(number));
    seen.last = number;
    return true;
}

static inline bool see_end(void *arg)
{
    (void)arg;
    return seen.parts > 0 && !misses_parts;
}

static const struct journal_reader reader = {
    .part = see_part, .batch = see_batch, .parts_end = see_end};

static inline bool open_on(struct sim_disk *d)
{
    const struct journal_options options = {
        .fs = sim_disk_fs(d), .segment_size = segment_size, .new_id = 0x1234567812345678};

    seen = (struct seen){0};
    journal = journal_open(&options, &reader, &report);
    journal_report_text(&report, "DIR", text, sizeof text);
    assert_false(seen.wrong);
    if (journal != NULL) {
        assert_int_equal(report.status, JOURNAL_OPENED);
        assert_int_equal(report.last, seen.last);
    }
    return journal != NULL;
}

static inline void must_open(struct sim_disk *d, uint64_t last)
{
    if (!open_on(d))
        fail_msg("%s", text);
    assert_int_equal(seen.last, last);
    assert_int_equal(journal_figures(journal)->last, last);
}

static inline void append(uint64_t upto)
{
    for (uint64_t n = journal_figures(journal)->last + 1; n <= upto; n++) {
        const struct journal_batch batch = {n, line(n)};

        assert_int_equal(journal_append(journal, &batch, 1), 0);
    }
}

static inline int sync_now(void)
{
    struct journal_sync sync;
    int result = 0;

    if (journal_sync_begin(journal, &sync)) {
        result = journal_sync_run(&sync);
        journal_sync_end(journal, &sync, result);
    }
    return result;
}

static inline void snapshot(void)
{
    struct journal_snapshot s;
    char number[24], name[JOURNAL_NAME_SIZE];

    snprintf(number, sizeof number, "%llu", (unsigned long long)journal_figures(journal)->last);
    journal_snapshot_begin(journal, journal_figures(journal)->last, &s);
    for (int i = 0; i < 3; i++)
        assert_int_equal(journal_snapshot_put(&s, slice_str(number)), 0);
    assert_int_equal(journal_snapshot_end(&s), 0);
    journal_snapshot_done(journal, &s);
    while (journal_next_needless(journal, name))
        assert_int_equal(sim_disk_fs(disk)->remove(sim_disk_fs(disk), name), 0);
}

/* The process ends without any ado. */
static inline void die(void)
{
    sim_disk_fail(disk, SIM_DIE, 1, UINT64_MAX);
    journal_close(journal);
    journal = NULL;
    sim_disk_kill(disk);
}

static inline void end_cleanly(void)
{
    assert_int_equal(journal_finish(journal), 0);
    journal_close(journal);
    journal = NULL;
}

static inline int setup(void **state)
{
    (void)state;
    disk = sim_disk_new(1);
    journal = NULL;
    refuses_batches = misses_parts = false;
    segment_size = 500;
    return 0;
}

static inline int teardown(void **state)
{
    (void)state;
    journal_close(journal);
    sim_disk_free(disk);
    return 0;
}

struct names {
    char names[32][64];
    size_t count;
};

static inline void note_name(void *arg, const char *name)
{
    struct names *n = arg;

    if (strcmp(name, "lock") != 0)
        strcpy(n->names[n->count++], name);
}

static inline int by_text(const void *a, const void *b)
{
    return strcmp(a, b);
}

static inline struct names list(struct sim_disk *d)
{
    struct names n = {.count = 0};

    sim_disk_fs(d)->list(sim_disk_fs(d), note_name, &n);
    qsort(n.names, n.count, sizeof *n.names, by_text);
    return n;
}

/* A copy of the disk with the file of that name cut to `len` bytes. */
static inline struct sim_disk *cut_copy(const char *name, size_t len)
{
    struct sim_disk *copy = sim_disk_copy(disk, 1);
    size_t all;
    uint8_t *bytes = sim_disk_bytes(copy, name, &all), *kept = malloc(len + 1);

    memcpy(kept, bytes, len);
    sim_disk_put(copy, name, kept, len);
    free(kept);
    return copy;
}

/* Makes segments and a snapshot, all synced; the watermark of each covers the files before it. */
static inline void make_history(void)
{
    must_open(disk, 0);
    append(6);
    assert_int_equal(sync_now(), 0);
    snapshot();
    append(9);
    assert_int_equal(sync_now(), 0);
    append(30);
    assert_int_equal(sync_now(), 0);
    end_cleanly();
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
