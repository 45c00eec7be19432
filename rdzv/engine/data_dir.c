/* The data directory in the daemon's hands. See data_dir.h for the contract. */
#include "rdzv/engine/data_dir.h"

#include <errno.h>
#include <inttypes.h>
#include <unistd.h>

#include "rdzv/engine/log.h"
#include "rdzv/engine/recovery.h"
#include "store/memory/xalloc.h"
#include "store/snapshot.h"

/* The size of a snapshot part; one iteration encodes one part. */
#define PART_SIZE (64u << 10)
#define WORK_NS   1000000u

/* The pause after a snapshot that failed for want of memory. */
#define SNAPSHOT_AGAIN_MS 60000u

#define TEXT_MAX 600

/* The files are in a subdirectory of the directory that the user names, as etcd's are: the named
 * directory may be the root of a volume, with files of others. */
#define SUBDIRECTORY "/rdzvd"

/* Allocated. */
static char *data_dir_join(const char *directory, const char *below)
{
    size_t size = strlen(directory) + strlen(below) + 1;
    char *path = xcalloc(1, size);

    snprintf(path, size, "%s%s", directory, below);
    return path;
}

static bool data_dir_holds(const char *directory, const char *below)
{
    char *path = data_dir_join(directory, below);
    bool found = access(path, F_OK) == 0;

    free(path);
    return found;
}

/* The log names the directory with the files: a user may take it for what --data-dir wants, and
 * would get an empty store inside it. The `lock` of another program is in a directory of another
 * name, or beside the directory that rdzvd has made. */
static bool is_a_subdirectory(const char *named)
{
    size_t len = strlen(named), end = sizeof SUBDIRECTORY - 1;

    while (len > 0 && named[len - 1] == '/')
        len--;
    return len > end && strncmp(named + len - end, SUBDIRECTORY, end) == 0 &&
           data_dir_holds(named, "/" JOURNAL_LOCK) && !data_dir_holds(named, SUBDIRECTORY);
}

#define NAME_THE_ONE_ABOVE \
    "here are rdzvd's own files: name the directory above this one, in which rdzvd has made it"

/* --- The commit. --- */

/* The engine takes changes while the writer does. */
static void data_dir_note_refusal(struct data_dir *d)
{
    engine_refuse(d->engine, journal_writer_refuses(d->writer));
    engine_log_refusal(d->engine, log_str("data_dir", d->path));
}

static uint64_t data_dir_commit(void *arg, struct batch *batch)
{
    struct data_dir *d = arg;
    uint64_t durable = journal_writer_commit(d->writer, batch);

    data_dir_note_refusal(d);
    return durable;
}

static void poll_writer(void *arg)
{
    struct data_dir *d = arg;

    engine_committed(d->engine, journal_writer_poll(d->writer));
    data_dir_note_refusal(d);
}

/* The writer does not signal that memory is available again. */
static void data_dir_tick(void *arg)
{
    struct data_dir *d = arg;

    if (d->engine->has_logged_refusal)
        poll_writer(d);
}

/* --- The start. --- */

#define READER \
    .part = recovery_take_snapshot, .parts_end = recovery_end_snapshot, .batch = recovery_take_batch

/* Always -1. */
static int log_failed(const char *path, const char *reason, const char *detail)
{
    log_event(LOG_ERROR, "data_dir_failed", log_str("data_dir", path), log_str("reason", reason),
              log_str("detail", detail));
    return -1;
}

static void log_left_out(const struct data_dir *d, const struct journal_report *report)
{
    if (report->torn_bytes != 0)
        log_event(LOG_WARN, "journal_cut", log_str("data_dir", d->path),
                  log_str("file", report->torn_file), log_u64("offset", report->torn_offset),
                  log_u64("bytes", report->torn_bytes), log_u64("files", report->torn_files),
                  log_str("reason", "incomplete, and no sync is recorded: the process or the "
                                    "machine ended during the write"));
    if (report->passed_over[0] != '\0')
        log_event(LOG_WARN, "snapshot_passed_over", log_str("data_dir", d->path),
                  log_str("file", report->passed_over),
                  log_str("reason", "it is damaged; an older one and all journals behind it hold "
                                    "the same"));
}

/* NULL after it logged why not. */
static struct journal *data_dir_read(struct data_dir *d)
{
    const struct journal_options options = {.fs = d->fs, .new_id = random_number() | 1};
    uint64_t began_ns = clock_monotonic_ns(d->engine->options.clock), took_ns;
    struct journal_report report;
    struct recovery recovery;
    struct journal *journal;
    char text[TEXT_MAX];

    recovery_begin(&recovery, d->engine);
    journal = journal_open(&options, &(struct journal_reader){READER, .arg = &recovery}, &report);
    if (journal == NULL) {
        journal_report_text(&report, d->path, text, sizeof text);
        log_failed(d->path, text, recovery.fault);
        return NULL;
    }
    recovery_end(&recovery, report.last);
    d->engine->found = (struct engine_found){.any = report.last != 0,
                                             .away_ms = recovery_away_ms(&recovery),
                                             /* a data directory knows only the wall clock */
                                             .away_by_wall_ms = recovery_away_ms(&recovery)};
    log_left_out(d, &report);
    took_ns = clock_monotonic_ns(d->engine->options.clock) - began_ns;
    log_event(LOG_INFO, "recovered", log_str("data_dir", d->path),
              log_u64("snapshot", report.snapshot), log_u64("batches", recovery.batches),
              log_u64("changes", recovery.changes),
              log_u64("bytes", report.snapshot_bytes + report.batch_bytes),
              log_u64("took_ms", took_ns / 1000000), log_u64("away_ms", d->engine->found.away_ms));
    return journal;
}

/* --- Snapshots. --- */

static void data_dir_end_snapshot(struct data_dir *d, bool is_whole)
{
    journal_writer_snapshot_end(d->writer, is_whole);
    snapshot_end(d->snapshot);
    d->snapshot = NULL;
    batch_begin(&d->part, 0);
}

static void note_no_memory(struct data_dir *d)
{
    d->snapshot_after_ms = engine_now_ms(d->engine) + SNAPSHOT_AGAIN_MS;
    log_event(LOG_WARN, "snapshot_failed", log_str("data_dir", d->path),
              log_str("reason", "memory is short; the journal stays until one is written"));
}

/* What the thread has come to since. */
static void log_snapshots(struct data_dir *d)
{
    const struct journal_writer_stats *stats = journal_writer_stats(d->writer);

    if (stats->snapshots != d->snapshots)
        log_event(LOG_INFO, "snapshot_written", log_str("data_dir", d->path),
                  log_u64("batch", stats->journal.snapshot),
                  log_u64("bytes", stats->journal.snapshot_bytes),
                  log_u64("took_ms", stats->snapshot_ns / 1000000));
    if (stats->snapshot_failures != d->snapshot_failures)
        log_event(LOG_WARN, "snapshot_failed", log_str("data_dir", d->path),
                  log_str("reason", "the disk has failed; the journal stays until one is written"));
    d->snapshots = stats->snapshots;
    d->snapshot_failures = stats->snapshot_failures;
}

static void data_dir_begin_snapshot(struct data_dir *d)
{
    if (!journal_writer_snapshot_due(d->writer) || d->engine->batch_changes != 0 ||
        engine_now_ms(d->engine) < d->snapshot_after_ms)
        return;
    d->snapshot = snapshot_begin(&d->engine->store);
    if (d->snapshot == NULL) {
        note_no_memory(d);
        return;
    }
    journal_writer_snapshot_begin(d->writer);
    d->last_part = false;
}

/* Encodes the next part, if none is waiting, and passes it to the writer. GOES_ON or DONE: the
 * writer has taken the part. */
static enum snapshot_state data_dir_put_part(struct data_dir *d)
{
    enum snapshot_state state = d->last_part ? SNAPSHOT_DONE : SNAPSHOT_GOES_ON;

    if (d->part.len == 0) {
        state = snapshot_write(d->snapshot, PART_SIZE, &d->part);
        d->last_part = state == SNAPSHOT_DONE;
        if (state == SNAPSHOT_FAILED || state == SNAPSHOT_OVERTAKEN)
            return state;
        if (!batch_end(&d->part, engine_wall_ns(d->engine)))
            return SNAPSHOT_FAILED;
    }
    return journal_writer_snapshot_put(d->writer, batch_bytes(&d->part)) ? state : SNAPSHOT_FAILED;
}

/* Makes one part of the snapshot and gives it to the writer. True if more parts follow. */
static bool data_dir_write_part(struct data_dir *d)
{
    enum snapshot_state state;

    if (journal_writer_snapshot_room(d->writer) == 0)
        return false;
    state = data_dir_put_part(d);
    if (state == SNAPSHOT_FAILED || state == SNAPSHOT_OVERTAKEN) {
        data_dir_end_snapshot(d, false);
        if (state == SNAPSHOT_FAILED)
            note_no_memory(d);
        else /* nothing is short: the next one may begin at once */
            log_event(LOG_WARN, "snapshot_failed", log_str("data_dir", d->path),
                      log_str("reason", "all TTLs of etcd's keys were extended during the write; "
                                        "the next snapshot begins at once"));
        return false;
    }
    batch_begin(&d->part, 0);
    if (!d->last_part)
        return true;
    data_dir_end_snapshot(d, true);
    return false;
}

static void make_snapshot(struct data_dir *d)
{
    const struct clock *clock = d->engine->options.clock;
    uint64_t until_ns;

    if (d->snapshot == NULL) {
        log_snapshots(d);
        data_dir_begin_snapshot(d);
    }
    if (d->snapshot == NULL)
        return;
    if (journal_writer_snapshot_state(d->writer) == JOURNAL_WRITER_SNAPSHOT_FAILED) {
        data_dir_end_snapshot(d, false);
        return;
    }
    until_ns = clock_monotonic_ns(clock) + WORK_NS;
    while (data_dir_write_part(d) && clock_monotonic_ns(clock) < until_ns)
        continue;
}

static bool data_dir_work(void *arg)
{
    struct data_dir *d = arg;

    make_snapshot(d);
    return d->snapshot != NULL && journal_writer_snapshot_room(d->writer) > 0;
}

/* --- The end. --- */

static void data_dir_free(struct data_dir *d)
{
    batch_fini(&d->part);
    if (d->fs != NULL)
        d->fs->free(d->fs);
    d->fs = NULL;
    free(d->path);
    d->path = NULL;
}

static void close_dir(void *arg)
{
    struct data_dir *d = arg;

    if (d->snapshot != NULL)
        data_dir_end_snapshot(d, false);
    d->engine->options.journal = (struct engine_journal){0};
    d->engine->data_dir = NULL;
    if (!journal_writer_stop(d->writer))
        log_failed(d->path,
                   "the disk has not taken the last changes; no client had an answer to them, but "
                   "with --sync=batch if a sync has failed",
                   NULL);
    d->writer = NULL;
    data_dir_free(d);
}

/* --- The beginning. --- */

/* 0, or -1 after it logged why not. */
static int data_dir_start(struct data_dir *d, const char *path, enum journal_writer_mode mode)
{
    struct journal_writer_options writer = {
        .mode = mode, .clock = d->engine->options.clock, .path = d->path};
    char why[TEXT_MAX];
    int error;

    if (is_a_subdirectory(path))
        return log_failed(path, NAME_THE_ONE_ABOVE, NULL);
    error = fs_posix_make_dir(path);
    if (error < 0)
        return log_failed(path, strerror(-error),
                          error == -ENOENT ? "make the folder above it first" : NULL);
    d->fs = fs_posix_open(d->path, FS_MAY_CREATE, why, sizeof why);
    if (d->fs == NULL)
        return log_failed(d->path, why, NULL);
    writer.journal = data_dir_read(d);
    if (writer.journal == NULL)
        return -1;
    d->writer = journal_writer_start(&writer);
    if (d->writer == NULL) {
        log_failed(d->path, "the system has no room for a thread", strerror(errno));
        journal_close(writer.journal);
        return -1;
    }
    return 0;
}

int data_dir_open(struct data_dir *d, const char *path, enum journal_writer_mode mode,
                  struct engine *engine)
{
    *d = (struct data_dir){.engine = engine};
    batch_init(&d->part);
    d->path = data_dir_join(path, SUBDIRECTORY);
    if (data_dir_start(d, path, mode) < 0) {
        data_dir_free(d);
        return -1;
    }
    engine->options.journal = (struct engine_journal){.commit = data_dir_commit,
                                                      .fd = journal_writer_fd(d->writer),
                                                      .poll = poll_writer,
                                                      .tick = data_dir_tick,
                                                      .work = data_dir_work,
                                                      .close = close_dir,
                                                      .arg = d};
    engine->data_dir = d;
    poll_writer(d);
    return 0;
}

/* --- --check-data. --- */

static void write_contents(const struct engine *e, const struct journal_report *report,
                           const struct recovery *r, FILE *out)
{
    fprintf(out,
            "snapshot up to batch %" PRIu64 ", %" PRIu64 " bytes; behind it %" PRIu64
            " batches with %" PRIu64 " changes, %" PRIu64 " bytes\n",
            report->snapshot, report->snapshot_bytes, r->batches, r->changes, report->batch_bytes);
    TAILQ_EACH(const struct engine_space, space, &e->spaces, entry) {
        const struct space_usage use = space_usage(space->store);

        fprintf(out,
                "space %s: %" PRIu64 " c10d keys, %" PRIu64 " queues, %zu etcd nodes at index "
                "%" PRIu64 ", %zu worker stores\n",
                space->store->name, use.keys, use.queues, space->store->tree.count - 1,
                space->store->tree.index, space->store->worker_stores.count);
    }
}

static bool data_dir_check_files(const char *path, struct fs *fs, FILE *out)
{
    const struct engine_options options = {.clock = &clock_system, .seed = random_number() | 1};
    struct journal_report report;
    struct recovery recovery;
    struct engine engine;
    char text[TEXT_MAX];
    bool ok;

    engine_init(&engine, &options);
    recovery_begin(&recovery, &engine);
    ok = journal_check(fs, &(struct journal_reader){READER, .arg = &recovery}, &report);
    recovery_end(&recovery, report.last);
    journal_report_text(&report, path, text, sizeof text);
    fprintf(out, "%s\n", text);
    if (ok)
        write_contents(&engine, &report, &recovery, out);
    else if (recovery.fault != NULL)
        fprintf(out, "%s\n", recovery.fault);
    engine_fini(&engine);
    return ok;
}

bool data_dir_check(const char *named, FILE *out)
{
    char *path = data_dir_join(named, SUBDIRECTORY), why[TEXT_MAX] = NAME_THE_ONE_ABOVE;
    struct fs *fs = NULL;
    bool ok = false;

    if (!is_a_subdirectory(named))
        fs = fs_posix_open(path, FS_MUST_EXIST, why, sizeof why);
    if (fs == NULL) {
        fprintf(out, "%s\n", why);
    } else {
        ok = data_dir_check_files(path, fs, out);
        fs->free(fs);
    }
    free(path);
    return ok;
}
