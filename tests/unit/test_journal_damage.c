/* The journal on a simulated disk: damage of every byte, and the words with which it is refused. */
#include "tests/unit/journal_history.h"

/* --- Damage. --- */

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
    assert_int_equal(report.status, JOURNAL_OTHER_VERSION);
    assert_non_null(strstr(text, "another release has written it"));
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

int main(void)
{
    const struct CMUnitTest tests[] = {
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
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
