/* The journal on a simulated disk: what starts, what is refused and with which words, damage of
 * every byte, cuts at every byte, faults. Random work with cuts at every call is in
 * sim/sim_journal.c. */
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

static struct slice line(uint64_t number)
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

static bool see_part(void *arg, struct slice bytes)
{
    (void)arg;
    if (!slice_to_u64(bytes, UINT64_MAX, &seen.snapshot))
        return false;
    seen.last = seen.snapshot;
    seen.parts++;
    return true;
}

static bool see_batch(void *arg, uint64_t number, struct slice bytes)
{
    (void)arg;
    if (refuses_batches)
        return false;
    seen.wrong = seen.wrong || number != seen.last + 1 || !slice_equal(bytes, line(number));
    seen.last = number;
    return true;
}

static bool see_end(void *arg)
{
    (void)arg;
    return seen.parts > 0 && !misses_parts;
}

static const struct journal_reader reader = {
    .part = see_part, .batch = see_batch, .parts_end = see_end};

static bool open_on(struct sim_disk *d)
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

static void must_open(struct sim_disk *d, uint64_t last)
{
    if (!open_on(d))
        fail_msg("%s", text);
    assert_int_equal(seen.last, last);
    assert_int_equal(journal_figures(journal)->last, last);
}

static void append(uint64_t upto)
{
    for (uint64_t n = journal_figures(journal)->last + 1; n <= upto; n++) {
        const struct journal_batch batch = {n, line(n)};

        assert_int_equal(journal_append(journal, &batch, 1), 0);
    }
}

static int sync_now(void)
{
    struct journal_sync sync;
    int result = 0;

    if (journal_sync_begin(journal, &sync)) {
        result = journal_sync_run(&sync);
        journal_sync_end(journal, &sync, result);
    }
    return result;
}

static void snapshot(void)
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
static void die(void)
{
    sim_disk_fail(disk, SIM_DIE, 1, UINT64_MAX);
    journal_close(journal);
    journal = NULL;
    sim_disk_kill(disk);
}

static void end_cleanly(void)
{
    assert_int_equal(journal_finish(journal), 0);
    journal_close(journal);
    journal = NULL;
}

static int setup(void **state)
{
    (void)state;
    disk = sim_disk_new(1);
    journal = NULL;
    refuses_batches = misses_parts = false;
    segment_size = 500;
    return 0;
}

static int teardown(void **state)
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

static void note_name(void *arg, const char *name)
{
    struct names *n = arg;

    if (strcmp(name, "lock") != 0)
        strcpy(n->names[n->count++], name);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(a, b);
}

static struct names list(struct sim_disk *d)
{
    struct names n = {.count = 0};

    sim_disk_fs(d)->list(sim_disk_fs(d), note_name, &n);
    qsort(n.names, n.count, sizeof *n.names, by_text);
    return n;
}

/* --- Starts. --- */

static void an_empty_directory_becomes_a_journal(void **state)
{
    (void)state;
    must_open(disk, 0);
    assert_int_equal(list(disk).count, 1);
    assert_string_equal(list(disk).names[0], "journal-00000000000000000001");
    append(3);
    assert_int_equal(journal_figures(journal)->durable, 0);
    assert_int_equal(sync_now(), 0);
    assert_int_equal(journal_figures(journal)->durable, 3);
    assert_int_equal(sync_now(), 0); /* nothing to do */
    end_cleanly();
    must_open(disk, 3);
    assert_int_equal(report.copied, 0);
    assert_int_equal(report.batches, 3);
}

/* Each start begins a segment; those without a batch are replaced by the next start's. */
static void starts_without_changes_leave_no_files(void **state)
{
    (void)state;
    must_open(disk, 0);
    append(3);
    end_cleanly();
    for (int i = 0; i < 5; i++) {
        must_open(disk, 3);
        if (i % 2 == 0)
            end_cleanly();
        else
            die();
    }
    assert_int_equal(list(disk).count, 2);
}

/* Batches above the watermark are written again at a start, because the system may have them only
 * in memory. */
static void what_may_not_be_synced_is_copied(void **state)
{
    (void)state;
    must_open(disk, 0);
    append(3);
    assert_int_equal(sync_now(), 0);
    append(8); /* says that 3 are synced */
    die();
    must_open(disk, 8);
    assert_int_equal(report.copied, 5);
    assert_int_equal(report.torn_bytes, 0);
    assert_int_equal(journal_figures(journal)->durable, 8);
    journal_close(journal);
    journal = NULL;
    sim_disk_cut_power(disk);
    must_open(disk, 8);
}

static void a_second_process_is_refused(void **state)
{
    struct journal *first;

    (void)state;
    must_open(disk, 0);
    first = journal;
    assert_false(open_on(disk));
    assert_int_equal(report.status, JOURNAL_LOCKED);
    assert_non_null(strstr(text, "used by another process"));
    journal = first;
}

static void segments_are_begun_as_they_fill(void **state)
{
    (void)state;
    must_open(disk, 0);
    append(40);
    assert_true(list(disk).count > 5);
    assert_int_equal(sync_now(), 0);
    die();
    must_open(disk, 40);
    assert_true(report.segments > 5);
}

/* More segments than one sync can take: the last one just grows. */
static void segments_wait_for_the_sync(void **state)
{
    size_t files;

    (void)state;
    must_open(disk, 0);
    append(200);
    files = list(disk).count;
    assert_int_equal(files, JOURNAL_SYNC_FILES);
    assert_int_equal(sync_now(), 0);
    append(400);
    assert_true(list(disk).count > files);
    die();
    must_open(disk, 400);
}

static void a_snapshot_replaces_what_is_before_it(void **state)
{
    (void)state;
    must_open(disk, 0);
    append(40);
    assert_int_equal(sync_now(), 0);
    assert_true(journal_figures(journal)->bytes_behind > 1000);
    snapshot();
    assert_int_equal(journal_figures(journal)->bytes_behind, 0);
    assert_int_equal(journal_figures(journal)->snapshot, 40);
    append(42);
    assert_int_equal(list(disk).count,
                     3); /* the segment that has 40, too: it was not begun anew then */
    snapshot();
    assert_int_equal(list(disk).count, 2);
    append(50);
    die();
    must_open(disk, 50);
    assert_int_equal(seen.snapshot, 42);
    assert_int_equal(seen.parts, 3);
    assert_int_equal(report.batches, 8);
}

/* All of the journal that the snapshot does not have may be gone. */
static void a_snapshot_may_be_newer_than_the_journal(void **state)
{
    struct names n;

    (void)state;
    must_open(disk, 0);
    append(10);
    snapshot();
    append(12); /* says that 10 are synced, by the snapshot */
    die();
    n = list(disk);
    for (size_t i = 0; i < n.count; i++) {
        if (strncmp(n.names[i], "journal", 7) == 0)
            sim_disk_put(disk, n.names[i], NULL, 0);
    }
    must_open(disk, 10);
    append(11);
    assert_int_equal(sync_now(), 0);
    die();
    must_open(disk, 11);
}

static void a_check_changes_nothing(void **state)
{
    uint64_t sum;

    (void)state;
    must_open(disk, 0);
    append(9);
    snapshot();
    append(20);
    die();
    sum = sim_disk_sum(disk);
    seen = (struct seen){0};
    assert_true(journal_check(sim_disk_fs(disk), &reader, &report));
    assert_int_equal(report.last, 20);
    assert_int_equal(seen.last, 20);
    assert_int_equal(sim_disk_sum(disk), sum);
}

static void other_files_stay(void **state)
{
    static const char *const others[] = {"lost+found", "journal-1", "journal-0000000000000000000x",
                                         "snapshot", "journal-00000000000000000001.bak"};

    (void)state;
    for (size_t i = 0; i < 5; i++)
        sim_disk_put(disk, others[i], "x", 1);
    sim_disk_put(disk, "journal-00000000000000000007.tmp", "x", 1);
    sim_disk_put(disk, "snapshot-00000000000000000007.tmp", "x", 1);
    must_open(disk, 0);
    assert_int_equal(list(disk).count, 6);
    for (size_t i = 0; i < 5; i++) {
        size_t len;

        assert_non_null(sim_disk_bytes(disk, others[i], &len));
    }
}

/* --- Ends that were torn. --- */

/* A copy of the disk with the file of that name cut to `len` bytes. */
static struct sim_disk *cut_copy(const char *name, size_t len)
{
    struct sim_disk *copy = sim_disk_copy(disk, 1);
    size_t all;
    uint8_t *bytes = sim_disk_bytes(copy, name, &all), *kept = malloc(len + 1);

    memcpy(kept, bytes, len);
    sim_disk_put(copy, name, kept, len);
    free(kept);
    return copy;
}

/* Where frames of the file end. */
static size_t frames_in(uint64_t first, uint64_t last, size_t len)
{
    size_t at = FILE_HEADER_SIZE;
    uint64_t n = first;

    for (; n <= last && at + FRAME_HEADER_SIZE + line(n).len <= len; n++)
        at += FRAME_HEADER_SIZE + line(n).len;
    return (size_t)(n - first);
}

static void a_cut_at_every_byte_keeps_whole_batches(void **state)
{
    size_t len;

    (void)state;
    segment_size = 100000;
    must_open(disk, 0);
    append(5);
    assert_int_equal(sync_now(), 0);
    snapshot(); /* the next segment begins with 6 */
    append(10);
    die();
    assert_non_null(sim_disk_bytes(disk, "journal-00000000000000000006", &len));
    for (size_t cut = 0; cut <= len; cut++) {
        struct sim_disk *copy = cut_copy("journal-00000000000000000006", cut);
        size_t kept = frames_in(6, 10, cut);

        must_open(copy, 5 + kept);
        if (cut == FILE_HEADER_SIZE) {
            assert_int_equal(report.torn_bytes, 0);
        } else if (cut > FILE_HEADER_SIZE && frames_in(6, 10, cut - 1) == kept) {
            assert_string_equal(report.torn_file, "journal-00000000000000000006");
            assert_true(report.torn_bytes > 0 && report.torn_offset + report.torn_bytes == cut);
            assert_non_null(strstr(text, "were left out"));
        }
        append(12);
        assert_int_equal(sync_now(), 0);
        journal_close(journal);
        sim_disk_cut_power(copy);
        must_open(copy, 12);
        journal_close(journal);
        journal = NULL;
        sim_disk_free(copy);
    }
}

static void zeros_at_the_end_are_an_end(void **state)
{
    static const char *const name = "journal-00000000000000000001";
    uint8_t *longer, *bytes;
    size_t len;

    (void)state;
    segment_size = 100000;
    must_open(disk, 0);
    append(5);
    die();
    bytes = sim_disk_bytes(disk, name, &len);
    longer = calloc(1, len + 70000);
    memcpy(longer, bytes, len);
    sim_disk_put(disk, name, longer, len + 70000);
    must_open(disk, 5);
    assert_int_equal(report.torn_bytes, 0);
    die();
    longer[len + 69999] = 1; /* not zeros alone */
    sim_disk_put(disk, "journal-00000000000000000001", longer, len + 70000);
    free(longer);
    must_open(disk, 5);
}

/* The part of the header, of the kind, of any field: a frame of zeros, 0xff, or of the wrong
 * number. */
static void an_empty_newest_segment_is_no_damage(void **state)
{
    static const char *const contents[] = {"", "rdzv", "rdzvjrnl\2"};

    (void)state;
    must_open(disk, 0);
    append(5);
    assert_int_equal(sync_now(), 0);
    die();
    for (size_t i = 0; i < 3; i++) {
        struct sim_disk *copy = sim_disk_copy(disk, 1);

        sim_disk_put(copy, "journal-00000000000000000006", contents[i], strlen(contents[i]));
        must_open(copy, 5);
        append(7);
        assert_int_equal(sync_now(), 0);
        end_cleanly();
        must_open(copy, 7);
        journal_close(journal);
        journal = NULL;
        sim_disk_free(copy);
    }
}

/* --- Damage. --- */

/* Makes segments and a snapshot, all synced; the watermark of each covers the files before it. */
static void make_history(void)
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

/* Its names but the first: the segment of batch 6, of which the snapshot has all. */
static struct names needed_names(void)
{
    struct names n = list(disk);

    assert_true(n.count > 5 && strncmp(n.names[n.count - 1], "snapshot", 8) == 0);
    n.count--;
    memmove(n.names[0], n.names[1], (n.count - 1) * sizeof *n.names);
    strcpy(n.names[n.count - 1], "snapshot-00000000000000000006");
    return n;
}

static void must_refuse_unchanged(struct sim_disk *d, const char *name, size_t at)
{
    uint64_t sum = sim_disk_sum(d);

    if (open_on(d))
        fail_msg("opened in spite of damage in %s at %zu", name, at);
    assert_int_equal(sim_disk_sum(d), sum);
    assert_int_equal(report.status, JOURNAL_DAMAGED);
    assert_string_equal(report.file, name);
    assert_true(report.offset <= at);
    assert_non_null(strstr(text, name));
    assert_non_null(strstr(text, "Nothing was changed."));
}

/* Whatever bit of what was synced is wrong. Only of the frame that ends all, none is behind it. */
static void damage_of_any_byte_is_refused(void **state)
{
    struct names n;
    size_t bytes_in_all = 0;

    (void)state;
    make_history();
    n = needed_names();
    for (size_t i = 0; i < n.count; i++) {
        size_t len, checked;

        assert_non_null(sim_disk_bytes(disk, n.names[i], &len));
        checked = i == n.count - 2 ? len - FRAME_HEADER_SIZE : len;
        for (size_t at = 0; at < checked; at++) {
            struct sim_disk *copy = sim_disk_copy(disk, 1);

            sim_disk_bytes(copy, n.names[i], &len)[at] ^= (uint8_t)(1u << (at % 8));
            must_refuse_unchanged(copy, n.names[i], at);
            sim_disk_free(copy);
            bytes_in_all++;
        }
    }
    assert_true(bytes_in_all > 3000);
}

/* All but the newest segment, whose end may be torn. */
static void a_file_that_was_cut_is_refused(void **state)
{
    struct names n;

    (void)state;
    make_history();
    n = needed_names();
    for (size_t i = 0; i < n.count; i++) {
        size_t len;

        assert_non_null(sim_disk_bytes(disk, n.names[i], &len));
        for (size_t cut = 0; cut < len && i != n.count - 2; cut++) {
            struct sim_disk *copy = cut_copy(n.names[i], cut);

            must_refuse_unchanged(copy, n.names[i], cut);
            sim_disk_free(copy);
        }
    }
}

/* A frame that is intact, but not the next one. */
static void a_number_that_does_not_follow_is_an_end(void **state)
{
    static const uint64_t numbers[] = {1, 3, 0, UINT64_MAX};

    (void)state;
    for (size_t i = 0; i < 4; i++) {
        struct sim_disk *d = sim_disk_new(1);
        const struct file_header h = {FILE_JOURNAL, FILE_VERSION, 1, 7, 0};
        uint8_t bytes[1000];
        size_t at = FILE_HEADER_SIZE;

        file_header_encode(&h, bytes);
        for (int k = 0; k < 2; k++) {
            const struct frame f = {FRAME_BATCH, k == 0 ? 1 : numbers[i], 0, line(1)};

            frame_encode(frame_key(FILE_JOURNAL, 1, 7), &f, bytes + at);
            memcpy(bytes + at + FRAME_HEADER_SIZE, line(1).ptr, line(1).len);
            at += FRAME_HEADER_SIZE + line(1).len;
        }
        sim_disk_put(d, "journal-00000000000000000001", bytes, at);
        must_open(d, 1);
        assert_true(report.torn_bytes > 0);
        journal_close(journal);
        journal = NULL;
        sim_disk_free(d);
    }
}

static void a_file_that_is_missing_is_refused(void **state)
{
    struct names n;

    (void)state;
    make_history();
    n = needed_names();
    for (size_t i = 0; i < n.count; i++) {
        struct sim_disk *copy = sim_disk_copy(disk, 1);
        bool newest = i == n.count - 2; /* nothing says what was in it */
        uint64_t sum;

        sim_disk_put(copy, n.names[i], NULL, 0);
        sum = sim_disk_sum(copy);
        assert_int_equal(open_on(copy), newest);
        if (!newest) {
            assert_int_equal(report.status, JOURNAL_DAMAGED);
            assert_int_equal(sim_disk_sum(copy), sum);
        }
        journal_close(journal);
        journal = NULL;
        sim_disk_free(copy);
    }
}

/* After a sync that nothing follows, a mark says so; damage of the last batch is then found. */
static void a_mark_makes_damage_of_the_last_batch_known(void **state)
{
    for (int marked = 0; marked < 2; marked++) {
        size_t len;

        must_open(disk, 0);
        append(4);
        assert_int_equal(sync_now(), 0);
        if (marked)
            journal_mark(journal);
        journal_mark(journal); /* one is enough */
        die();
        assert_non_null(sim_disk_bytes(disk, "journal-00000000000000000001", &len));
        sim_disk_bytes(disk, "journal-00000000000000000001", &len)[len - 40] ^= 1;
        assert_false(open_on(disk));
        assert_int_equal(report.lost, 4);
        teardown(state);
        setup(state);
    }
}

/* What the text proposes can be done, and then it starts. */
static void the_advice_helps(void **state)
{
    struct sim_disk *cut;
    struct names n;
    size_t len;

    (void)state;
    make_history();
    n = needed_names();
    sim_disk_bytes(disk, n.names[0], &len)[200] ^= 1;
    assert_false(open_on(disk));
    assert_string_equal(report.file, n.names[0]);
    assert_non_null(strstr(text, "truncate -s"));
    cut = cut_copy(n.names[0], (size_t)report.offset);
    for (size_t i = 1; i < n.count - 1; i++)
        sim_disk_put(cut, n.names[i], NULL, 0);
    must_open(cut, report.lost - 1);
    journal_close(journal);
    journal = NULL;
    sim_disk_free(cut);
}

static void a_damaged_snapshot_needs_the_one_before(void **state)
{
    static const char *const newest = "snapshot-00000000000000000010";
    struct journal_snapshot s;
    size_t len;

    (void)state;
    must_open(disk, 0);
    append(6);
    snapshot();
    append(10);
    journal_snapshot_begin(journal, 10, &s);
    assert_int_equal(journal_snapshot_put(&s, slice_str("10")), 0);
    assert_int_equal(journal_snapshot_end(&s), 0);
    append(12);
    assert_int_equal(sync_now(), 0);
    die(); /* before anything that it makes needless was removed */
    sim_disk_bytes(disk, newest, &len)[60] ^= 1;
    must_open(disk, 12);
    assert_int_equal(seen.snapshot, 6);
    assert_string_equal(report.passed_over, newest);
    assert_non_null(strstr(text, "made up for it"));
    die();
    sim_disk_put(disk, "snapshot-00000000000000000006", NULL, 0);
    assert_false(open_on(disk));
    assert_int_equal(report.status, JOURNAL_DAMAGED);
    assert_string_equal(report.file, newest);
}

static void batches_that_the_reader_does_not_know_are_refused(void **state)
{
    uint64_t sum;

    (void)state;
    must_open(disk, 0);
    append(3);
    end_cleanly();
    sum = sim_disk_sum(disk);
    refuses_batches = true;
    assert_false(open_on(disk));
    assert_int_equal(report.status, JOURNAL_UNKNOWN);
    assert_int_equal(report.offset, FILE_HEADER_SIZE + FRAME_HEADER_SIZE);
    assert_non_null(strstr(text, "does not know"));
    assert_non_null(strstr(text, "a newer release"));
    assert_int_equal(sim_disk_sum(disk), sum);
}

/* Each file is intact, but batches of the journal are missing. */
static void a_snapshot_that_its_reader_misses_parts_of_is_refused(void **state)
{
    uint64_t sum;

    (void)state;
    must_open(disk, 0);
    append(3);
    snapshot();
    end_cleanly();
    sum = sim_disk_sum(disk);
    misses_parts = true;
    assert_false(open_on(disk));
    assert_int_equal(report.status, JOURNAL_DAMAGED);
    assert_non_null(strstr(text, "snapshot-00000000000000000003 ends before all of the store"));
    assert_int_equal(sim_disk_sum(disk), sum);
    misses_parts = false;
    must_open(disk, 3);
}

static void another_format_is_refused(void **state)
{
    struct file_header h = {FILE_JOURNAL, FILE_VERSION + 1, 4, 0x1234567812345678, 0};
    uint8_t bytes[FILE_HEADER_SIZE];

    (void)state;
    must_open(disk, 0);
    append(3);
    end_cleanly();
    file_header_encode(&h, bytes);
    sim_disk_put(disk, "journal-00000000000000000004", bytes, sizeof bytes);
    assert_false(open_on(disk));
    assert_int_equal(report.status, JOURNAL_NEW_VERSION);
    assert_non_null(strstr(text, "newer release"));
    h.version = FILE_VERSION - 1;
    file_header_encode(&h, bytes);
    sim_disk_put(disk, "journal-00000000000000000004", bytes, sizeof bytes);
    assert_false(open_on(disk));
    assert_int_equal(report.status, JOURNAL_OLD_VERSION);
    assert_non_null(strstr(text, "Move the directory away"));
}

static void files_of_another_directory_are_refused(void **state)
{
    struct file_header h = {FILE_JOURNAL, FILE_VERSION, 4, 99, 0};
    uint8_t bytes[FILE_HEADER_SIZE];

    (void)state;
    must_open(disk, 0);
    append(3);
    end_cleanly();
    file_header_encode(&h, bytes);
    sim_disk_put(disk, "journal-00000000000000000004", bytes, sizeof bytes);
    assert_false(open_on(disk));
    assert_int_equal(report.status, JOURNAL_OTHER_ID);
    assert_string_equal(report.file, "journal-00000000000000000004");
    h.number = 5; /* of this one, under another name */
    h.id = 0x1234567812345678;
    file_header_encode(&h, bytes);
    sim_disk_put(disk, "journal-00000000000000000004", bytes, sizeof bytes);
    assert_false(open_on(disk));
    assert_int_equal(report.status, JOURNAL_DAMAGED);
    assert_non_null(strstr(text, "the name of another file"));
}

/* No crash leaves it so: a first segment has its header before it has its name. */
static void a_lone_segment_without_a_header_is_refused(void **state)
{
    (void)state;
    sim_disk_put(disk, "journal-00000000000000000001", "", 0);
    assert_false(open_on(disk));
    assert_int_equal(report.status, JOURNAL_DAMAGED);
}

/* --- Faults. --- */

static void a_failed_append_leaves_nothing(void **state)
{
    static const enum sim_fault kinds[] = {SIM_EIO, SIM_ENOSPC};

    (void)state;
    must_open(disk, 0);
    append(2);
    for (size_t i = 0; i < 20; i++) {
        const struct journal_batch batches[] = {{3, line(3)}, {4, line(4)}};

        sim_disk_fail(disk, kinds[i % 2], 1, i % 2 == 0 ? 2 : 1000);
        assert_int_equal(journal_append(journal, batches, 2), i % 2 == 0 ? -EIO : -ENOSPC);
        sim_disk_fail(disk, SIM_NONE, 0, 0);
        assert_int_equal(journal_figures(journal)->last, 2);
    }
    sim_disk_fail(disk, SIM_SHORT, 1, 3);
    append(6);
    assert_int_equal(sync_now(), 0);
    die();
    must_open(disk, 6);
    assert_int_equal(report.torn_bytes, 0);
}

/* A segment that could not be begun is gone for good, before anything is said to be synced: a
 * reader would take it for the place of what is behind it. */
static void a_segment_that_could_not_be_begun_is_gone(void **state)
{
    for (uint64_t seed = 1; seed < 60; seed++) {
        struct journal_batch batch = {.number = 0};

        sim_disk_free(disk);
        disk = sim_disk_new(seed);
        must_open(disk, 0);
        append(5); /* more than 500 bytes: the next one wants a segment */
        assert_int_equal(sync_now(), 0);
        append(8);
        batch = (struct journal_batch){9, line(9)};
        while (journal_append(journal, &batch, 1) == 0 && batch.number < 40) {
            sim_disk_fail(disk, SIM_EIO, 2, 1); /* of open, write and remove */
            batch.number++;
            batch.bytes = line(batch.number);
        }
        assert_true(batch.number < 40);
        sim_disk_fail(disk, SIM_EIO, 1, 1); /* now not even the file is made */
        assert_true(journal_append(journal, &batch, 1) != 0);
        sim_disk_fail(disk, SIM_NONE, 0, 0);
        assert_int_equal(sync_now(), 0);
        journal_close(journal);
        journal = NULL;
        sim_disk_cut_power(disk);
        must_open(disk, batch.number - 1);
        journal_close(journal);
        journal = NULL;
    }
    (void)state;
}

static void after_a_failed_sync_all_is_written_again(void **state)
{
    struct journal_batch batch = {7, line(7)};

    (void)state;
    must_open(disk, 0);
    append(3);
    assert_int_equal(sync_now(), 0);
    append(6);
    sim_disk_fail(disk, SIM_EIO, 1, 1);
    assert_int_equal(sync_now(), -EIO);
    assert_true(journal_figures(journal)->tainted);
    assert_int_equal(journal_figures(journal)->durable, 3);
    assert_int_equal(journal_append(journal, &batch, 1), -EIO);
    assert_int_equal(journal_finish(journal), -EIO);
    assert_int_equal(journal_rewrite_begin(journal), 0);
    for (uint64_t i = 4; i <= 7; i++) {
        batch = (struct journal_batch){i, line(i)};
        assert_int_equal(journal_rewrite_put(journal, &batch, 1), 0);
    }
    assert_int_equal(journal_figures(journal)->durable, 3);
    assert_int_equal(journal_rewrite_end(journal), 0);
    assert_int_equal(journal_figures(journal)->durable, 7);
    assert_int_equal(journal_figures(journal)->last, 7);
    append(9);
    die();
    sim_disk_cut_power(disk);
    assert_true(open_on(disk));
    assert_true(seen.last >= 7);
}

static void a_full_disk_starts_by_giving_up_the_ballast(void **state)
{
    size_t len;

    (void)state;
    must_open(disk, 0);
    assert_int_equal(journal_ballast_make(journal), 0);
    assert_int_equal(journal_ballast_make(journal), 0);
    assert_non_null(sim_disk_bytes(disk, "ballast", &len));
    assert_int_equal(len, JOURNAL_BALLAST_SIZE);
    append(40);
    die();
    sim_disk_limit(disk, 0);
    assert_false(open_on(disk)); /* not even that helps */
    assert_int_equal(report.status, JOURNAL_ERROR);
    assert_int_equal(report.error, ENOSPC);
    sim_disk_limit(disk, UINT64_MAX);
    must_open(disk, 40);
    assert_int_equal(journal_ballast_make(journal), 0);
    append(45);
    die();
    sim_disk_limit(disk, JOURNAL_BALLAST_SIZE);
    must_open(disk, 45);
    assert_null(sim_disk_bytes(disk, "ballast", &len));
    assert_int_equal(journal_ballast_make(journal), -ENOSPC);
    assert_null(sim_disk_bytes(disk, "ballast", &len));
}

static void a_quota_that_is_used_up_is_a_full_disk(void **state)
{
    size_t len;

    (void)state;
    must_open(disk, 0);
    assert_int_equal(journal_ballast_make(journal), 0);
    append(40);
    die();
    sim_disk_limit(disk, JOURNAL_BALLAST_SIZE);
    sim_disk_has_quota(disk);
    must_open(disk, 40);
    assert_null(sim_disk_bytes(disk, "ballast", &len));
    assert_int_equal(journal_ballast_make(journal), -EDQUOT);
}

/* A read error is not reported as damage, and the start changes no file because of it. */
static void every_call_of_a_start_may_fail(void **state)
{
    uint64_t calls;

    (void)state;
    make_history();
    sim_disk_fail(disk, SIM_NONE, 0, 0);
    must_open(disk, 30);
    calls = sim_disk_calls(disk);
    end_cleanly();
    for (uint64_t k = 1; k <= calls; k++) {
        sim_disk_fail(disk, SIM_EIO, k, 1);
        if (!open_on(disk)) {
            assert_int_equal(report.status, JOURNAL_ERROR);
            assert_int_equal(report.error, EIO);
            assert_non_null(strstr(text, "Input/output error"));
        }
        journal_close(journal);
        journal = NULL;
        sim_disk_kill(disk);
        must_open(disk, 30);
        end_cleanly();
    }
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(an_empty_directory_becomes_a_journal),
        TEST(starts_without_changes_leave_no_files),
        TEST(what_may_not_be_synced_is_copied),
        TEST(a_second_process_is_refused),
        TEST(segments_are_begun_as_they_fill),
        TEST(segments_wait_for_the_sync),
        TEST(a_snapshot_replaces_what_is_before_it),
        TEST(a_snapshot_may_be_newer_than_the_journal),
        TEST(a_check_changes_nothing),
        TEST(other_files_stay),
        TEST(a_cut_at_every_byte_keeps_whole_batches),
        TEST(zeros_at_the_end_are_an_end),
        TEST(an_empty_newest_segment_is_no_damage),
        TEST(damage_of_any_byte_is_refused),
        TEST(a_file_that_was_cut_is_refused),
        TEST(a_number_that_does_not_follow_is_an_end),
        TEST(a_file_that_is_missing_is_refused),
        TEST(a_mark_makes_damage_of_the_last_batch_known),
        TEST(the_advice_helps),
        TEST(a_damaged_snapshot_needs_the_one_before),
        TEST(batches_that_the_reader_does_not_know_are_refused),
        TEST(a_snapshot_that_its_reader_misses_parts_of_is_refused),
        TEST(another_format_is_refused),
        TEST(files_of_another_directory_are_refused),
        TEST(a_lone_segment_without_a_header_is_refused),
        TEST(a_failed_append_leaves_nothing),
        TEST(a_segment_that_could_not_be_begun_is_gone),
        TEST(after_a_failed_sync_all_is_written_again),
        TEST(a_full_disk_starts_by_giving_up_the_ballast),
        TEST(a_quota_that_is_used_up_is_a_full_disk),
        TEST(every_call_of_a_start_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
