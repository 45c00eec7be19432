/* The journal on a simulated disk: what starts, what is refused and with which words, damage of
 * every byte, cuts at every byte, faults. Random work with cuts at every call is in
 * sim/sim_journal.c. */
#include "tests/unit/journal_history.h"

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
        TEST(a_failed_append_leaves_nothing),
        TEST(a_segment_that_could_not_be_begun_is_gone),
        TEST(after_a_failed_sync_all_is_written_again),
        TEST(a_full_disk_starts_by_giving_up_the_ballast),
        TEST(a_quota_that_is_used_up_is_a_full_disk),
        TEST(every_call_of_a_start_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
