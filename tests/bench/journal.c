/* How fast the journal is: CRC32C, appends of small batches, syncs, and reading frames back.
 *
 *   bench_journal DIR    a directory that is made for it, and whose files are left behind */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "store/disk/crc32c.h"
#include "store/disk/journal.h"

#define RUNS 5

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void die(const char *what)
{
    fprintf(stderr, "bench_journal: %s\n", what);
    exit(1);
}

/* --- CRC32C. --- */

static void bench_crc(const char *name, uint32_t (*function)(uint32_t, const void *, size_t),
                      size_t len)
{
    static uint8_t bytes[1 << 20];
    double best = 1e9;
    uint32_t crc = 0;

    for (int run = 0; run < RUNS; run++) {
        size_t count = ((size_t)64 << 20) / len;
        double began = now();

        for (size_t i = 0; i < count; i++)
            crc = function(crc, bytes, len);
        if ((now() - began) / (double)count < best)
            best = (now() - began) / (double)count;
    }
    printf("crc32c %-7s %7zu bytes: %6.2f GB/s (%08x)\n", name, len, (double)len / best / 1e9,
           (unsigned)crc);
}

/* --- The journal. --- */

static bool ignore_part(void *arg, struct slice bytes)
{
    (void)arg;
    (void)bytes;
    return true;
}

static bool ignore_batch(void *arg, uint64_t number, struct slice bytes)
{
    (void)arg;
    (void)number;
    (void)bytes;
    return true;
}

static struct journal *open_journal(struct fs *fs, struct journal_report *report)
{
    const struct journal_reader reader = {.part = ignore_part, .batch = ignore_batch, .arg = NULL};
    const struct journal_options options = {.fs = fs, .new_id = 1};
    struct journal *j = journal_open(&options, &reader, report);
    char text[500];

    if (j == NULL) {
        journal_report_text(report, "DIR", text, sizeof text);
        die(text);
    }
    return j;
}

static void sync_now(struct journal *j)
{
    struct journal_sync sync;

    if (journal_sync_begin(j, &sync))
        journal_sync_end(j, &sync, journal_sync_run(&sync));
    if (journal_figures(j)->tainted)
        die("a sync failed");
}

/* So many batches in groups of so many; every group is one call. */
static double append(struct journal *j, size_t len, size_t group, size_t count)
{
    static uint8_t bytes[65536];
    struct journal_batch batches[256];
    double began = now();

    for (size_t done = 0; done < count; done += group) {
        for (size_t i = 0; i < group; i++)
            batches[i] = (struct journal_batch){journal_figures(j)->last + 1 + i, {bytes, len}};
        if (journal_append(j, batches, group) != 0)
            die("an append failed");
    }
    return (now() - began) / (double)count;
}

static void bench_append(struct journal *j, size_t len, size_t group)
{
    double best = 1e9;

    for (int run = 0; run < RUNS; run++) {
        double took = append(j, len, group, 51200);

        if (took < best)
            best = took;
        sync_now(j);
    }
    printf("append %5zu bytes, %3zu in a call: %8.0f batches/s, %6.1f MB/s\n", len, group, 1 / best,
           (double)len / best / 1e6);
}

static void bench_sync(struct journal *j)
{
    double best = 1e9;

    for (int i = 0; i < 100; i++) {
        double began;

        append(j, 100, 1, 1);
        began = now();
        sync_now(j);
        if (now() - began < best)
            best = now() - began;
    }
    printf("sync of 100 bytes: %.3f ms at best\n", best * 1e3);
}

static void bench_read(struct fs *fs)
{
    struct journal_report report = {.batches = 0};
    double best = 1e9;

    for (int run = 0; run < RUNS; run++) {
        const struct journal_reader reader = {
            .part = ignore_part, .batch = ignore_batch, .arg = NULL};
        double began = now();

        if (!journal_check(fs, &reader, &report))
            die("it cannot be read");
        if (now() - began < best)
            best = now() - began;
    }
    printf("read %" PRIu64 " batches, %" PRIu64 " bytes: %.0f MB/s, %.2f million batches/s\n",
           report.batches, report.batch_bytes, (double)report.batch_bytes / best / 1e6,
           (double)report.batches / best / 1e6);
}

int main(int argc, char **argv)
{
    struct journal_report report;
    char why[300] = "usage: bench_journal DIR";
    struct fs *fs = argc == 2 ? fs_posix_open(argv[1], FS_MAY_CREATE, why, sizeof why) : NULL;
    struct journal *j;

    if (fs == NULL)
        die(why);
    bench_crc("as it comes", crc32c, 60);
    bench_crc("as it comes", crc32c, 1 << 20);
    bench_crc("table", crc32c_by_table, 60);
    bench_crc("table", crc32c_by_table, 1 << 20);
    j = open_journal(fs, &report);
    bench_append(j, 60, 1);
    bench_append(j, 60, 64);
    bench_append(j, 1000, 1);
    bench_append(j, 1000, 64);
    bench_sync(j);
    journal_finish(j);
    journal_close(j);
    bench_read(fs);
    fs->free(fs);
    return 0;
}
