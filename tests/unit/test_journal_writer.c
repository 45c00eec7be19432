/* The journal writer with its thread, on a simulated disk whose syncs can be held and whose calls
 * fail: what it promises and when, that the loop never waits, faults and how it comes back,
 * snapshots. The loop of these tests waits on the writer's descriptor, as the server does. */
#include "rdzv/engine/journal_writer.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "rdzv/engine/log.h"
#include "store/disk/record.h"
#include "store/memory/account.h"
#include "store/memory/xalloc.h"
#include "tests/support/sim_disk.h"
#include "tests/support/wrapped_memory.h"

#define WAIT_MS     20000 /* for what is sure to come */
#define BATCHES_MAX 20000

static struct sim_disk *disk;
static struct journal_writer *writer;
static struct batch batch;
static uint64_t number;               /* of the last batch */
static uint64_t promised;             /* the highest number that was reported */
static size_t value_len[BATCHES_MAX]; /* of each batch's key */
static size_t account_before;
static uint64_t segment_size;

/* --- No memory, for this thread alone. --- */

static _Thread_local bool no_memory;

void *__wrap_malloc(size_t size)
{
    return no_memory ? NULL : __real_malloc(size);
}

/* --- Batches. --- */

static uint8_t big_value[200000];

static void make_batch(struct batch *b, uint64_t n)
{
    char key[32];
    struct change change = {.kind = CHANGE_KEY_PUT};

    snprintf(key, sizeof key, "key-%llu", (unsigned long long)n);
    change.put.key = slice_str(key);
    change.put.value = (struct slice){big_value, value_len[n]};
    batch_begin(b, n);
    assert_true(batch_add(b, "default", &change));
}

static void note_promise(uint64_t reported)
{
    if (reported > promised)
        promised = reported;
    assert_true(promised <= number);
}

static uint64_t commit(size_t len)
{
    uint64_t reported;

    number++;
    value_len[number] = len;
    make_batch(&batch, number);
    reported = journal_writer_commit(writer, &batch);
    note_promise(reported);
    return reported;
}

/* True: answers that show it may go at once. */
static bool is_promised(size_t len)
{
    uint64_t reported = commit(len);

    return reported == number;
}

/* --- The directory. --- */

struct expected {
    uint64_t last, parts;
    bool wrong;
};

static bool see_part(void *arg, struct slice bytes)
{
    struct expected *e = arg;

    e->wrong = e->wrong || bytes.len < 8;
    memcpy(&e->last, bytes.ptr, 8);
    e->parts++;
    return true;
}

static bool see_batch(void *arg, uint64_t n, struct slice bytes)
{
    struct expected *e = arg;
    struct batch b;

    e->wrong = e->wrong || n != e->last + 1 || n > number;
    e->last = n;
    if (e->wrong)
        return true;
    batch_init(&b);
    make_batch(&b, n);
    e->wrong = !slice_equal(bytes, batch_bytes(&b));
    batch_fini(&b);
    return true;
}

static struct journal *open_journal(struct expected *e)
{
    const struct journal_reader reader = {.part = see_part, .batch = see_batch, .arg = e};
    const struct journal_options options = {
        .fs = sim_disk_fs(disk), .segment_size = segment_size, .new_id = 1};
    struct journal_report report;
    struct journal *j;

    *e = (struct expected){0};
    j = journal_open(&options, &reader, &report);
    if (j == NULL) {
        char text[500];

        journal_report_text(&report, "DIR", text, sizeof text);
        fail_msg("%s", text);
    }
    assert_false(e->wrong);
    return j;
}

/* How many batches a new process finds. */
static uint64_t count_kept(void)
{
    struct expected e;

    journal_close(open_journal(&e));
    return e.last;
}

static void begin_retrying(enum journal_writer_mode mode, uint64_t interval_ms, size_t pending_max,
                           uint64_t retry_ms)
{
    struct expected e;
    struct journal_writer_options options = {.journal = open_journal(&e),
                                             .mode = mode,
                                             .sync_interval_ms = interval_ms,
                                             .pending_max = pending_max,
                                             .retry_ms = retry_ms,
                                             .clock = &clock_system};

    number = promised = e.last;
    writer = journal_writer_start(&options);
    assert_non_null(writer);
}

static void begin(enum journal_writer_mode mode, uint64_t interval_ms, size_t pending_max)
{
    begin_retrying(mode, interval_ms, pending_max, 1);
}

static void await_descriptor(void)
{
    struct pollfd p = {.fd = journal_writer_fd(writer), .events = POLLIN};

    assert_int_equal(poll(&p, 1, WAIT_MS), 1);
}

static uint64_t look(void)
{
    uint64_t reported = journal_writer_poll(writer);

    note_promise(reported);
    return reported;
}

static void await_promise(uint64_t n)
{
    while (look() < n)
        await_descriptor();
}

static void await_durable(uint64_t n)
{
    for (look(); journal_writer_stats(writer)->journal.durable < n; look())
        await_descriptor();
}

static void await_refusal(const char *part)
{
    for (look(); journal_writer_refuses(writer) == NULL; look())
        await_descriptor();
    if (strstr(journal_writer_refuses(writer), part) == NULL)
        fail_msg("refuses with: %s", journal_writer_refuses(writer));
}

static void await_health(void)
{
    for (look(); journal_writer_refuses(writer) != NULL; look())
        await_descriptor();
}

/* The process dies: what the thread does from now on reaches no disk. */
static void die(bool power)
{
    sim_disk_fail(disk, SIM_DIE, 1, UINT64_MAX);
    sim_disk_hold_syncs(disk, false);
    journal_writer_stop(writer);
    writer = NULL;
    if (power)
        sim_disk_cut_power(disk);
    else
        sim_disk_kill(disk);
}

static int setup(void **state)
{
    (void)state;
    account_before = account.total;
    segment_size = 20000;
    disk = sim_disk_new(1);
    batch_init(&batch);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    sim_disk_hold_syncs(disk, false);
    sim_disk_fail(disk, SIM_NONE, 0, 0);
    journal_writer_stop(writer);
    writer = NULL;
    sim_disk_free(disk);
    batch_fini(&batch);
    assert_int_equal(account.total, account_before); /* and each kind, since none is negative */
    return 0;
}

#define HOUR_MS 3600000u

/* --- Mode batch. --- */

static void a_batch_is_kept_when_commit_returns(void **state)
{
    (void)state;
    begin(JOURNAL_WRITER_BATCH, HOUR_MS, 0);
    for (uint64_t n = 1; n <= 100; n++)
        assert_int_equal(commit(50), n);
    assert_int_equal(journal_writer_stats(writer)->journal.durable, 0);
    die(false);
    assert_int_equal(count_kept(), 100);
}

static void batches_are_synced_within_the_interval(void **state)
{
    (void)state;
    begin(JOURNAL_WRITER_BATCH, 20, 0);
    commit(10);
    commit(10);
    await_durable(2);
    assert_int_equal(journal_writer_stats(writer)->pending_batches, 0);
    assert_int_equal(journal_writer_stats(writer)->pending_bytes, 0);
    assert_int_equal(journal_writer_stats(writer)->batches, 2);
    die(true);
    assert_int_equal(count_kept(), 2);
}

/* Also what was answered just before the disk was full, long before it is tried again. */
static void a_write_that_fails_delays_no_sync(void **state)
{
    (void)state;
    begin_retrying(JOURNAL_WRITER_BATCH, 100, 0, HOUR_MS);
    commit(10);
    await_durable(1); /* the ballast is there, too */
    assert_true(is_promised(10));
    sim_disk_limit(disk, 0);
    assert_false(is_promised(10));
    await_refusal("No space left");
    await_durable(2);
    die(true);
    sim_disk_limit(disk, UINT64_MAX);
    assert_int_equal(count_kept(), 2);
}

static void one_sync_is_for_all_of_an_interval(void **state)
{
    (void)state;
    begin(JOURNAL_WRITER_BATCH, 50, 0);
    for (int i = 0; i < 1000; i++)
        commit(10);
    await_durable(1000);
    assert_in_range(journal_writer_stats(writer)->syncs, 1, 100);
}

/* The loop commits while a sync takes for ever. */
static void the_loop_does_not_wait_for_a_sync(void **state)
{
    (void)state;
    begin(JOURNAL_WRITER_BATCH, 1, 0);
    sim_disk_hold_syncs(disk, true);
    commit(10);
    sim_disk_await_sync(disk);
    for (uint64_t n = 2; n <= 500; n++)
        assert_int_equal(commit(10), n);
    look();
    assert_int_equal(journal_writer_stats(writer)->journal.durable, 0);
    assert_int_equal(journal_writer_stats(writer)->pending_batches, 500);
    sim_disk_hold_syncs(disk, false);
    await_durable(500);
}

/* Clients must not outrun the disk: beyond a quarter answers wait, beyond the whole changes are
 * refused. */
static void a_slow_disk_slows_clients_down(void **state)
{
    (void)state;
    begin(JOURNAL_WRITER_BATCH, 1, 40000);
    sim_disk_hold_syncs(disk, true);
    while (is_promised(1000))
        assert_true(number < 20);
    assert_in_range(number, 9, 11);
    assert_null(journal_writer_refuses(writer));
    while (journal_writer_refuses(writer) == NULL) {
        assert_false(is_promised(1000));
        assert_true(number < 50);
    }
    assert_non_null(strstr(journal_writer_refuses(writer), "too slow"));
    assert_in_range(number, 38, 42);
    sim_disk_hold_syncs(disk, false);
    await_promise(number);
    await_health();
    await_durable(number);
    assert_true(is_promised(10));
}

/* Requests that have arrived outrun any disk, and each is a change: commits give the disk time. */
static void a_commit_waits_for_a_disk_that_is_behind(void **state)
{
    (void)state;
    begin(JOURNAL_WRITER_BATCH, 1, 40000);
    while (number < 2000) {
        commit(1000);
        assert_null(journal_writer_refuses(writer));
    }
    await_durable(number);
}

/* --- Mode always. --- */

static void nothing_is_promised_before_it_is_synced(void **state)
{
    (void)state;
    begin(JOURNAL_WRITER_ALWAYS, 0, 0);
    sim_disk_hold_syncs(disk, true);
    for (int i = 0; i < 10; i++)
        assert_int_equal(commit(10), 0);
    sim_disk_await_sync(disk);
    assert_int_equal(look(), 0);
    sim_disk_hold_syncs(disk, false);
    await_promise(10);
    die(true);
    assert_int_equal(count_kept(), 10);
}

static void what_gathers_during_a_sync_is_one_sync(void **state)
{
    uint64_t before;

    (void)state;
    begin(JOURNAL_WRITER_ALWAYS, 0, 0);
    commit(10);
    await_promise(1); /* the ballast is made, too */
    before = journal_writer_stats(writer)->syncs;
    sim_disk_hold_syncs(disk, true);
    commit(10);
    sim_disk_await_sync(disk);
    for (int i = 0; i < 2000; i++)
        commit(10);
    sim_disk_hold_syncs(disk, false);
    await_promise(number);
    assert_int_equal(journal_writer_stats(writer)->syncs, before + 2);
    assert_true(journal_writer_stats(writer)->slowest_sync_ns > 0);
}

/* When nothing follows a sync, a mark says what it was for: then damage of the last batch is no
 * torn end. */
static void the_last_sync_leaves_a_mark(void **state)
{
    static const enum journal_writer_mode modes[] = {JOURNAL_WRITER_BATCH, JOURNAL_WRITER_ALWAYS};
    static const char *const name = "journal-00000000000000000001";

    for (int i = 0; i < 2; i++) {
        const struct journal_reader reader = {
            .part = see_part, .batch = see_batch, .arg = &(struct expected){0}};
        struct journal_report report;
        int64_t size;
        size_t len;

        begin(modes[i], 1, 0);
        commit(10);
        size =
            FILE_HEADER_SIZE + 2 * FRAME_HEADER_SIZE + (int64_t)journal_writer_stats(writer)->bytes;
        await_durable(1);
        for (int waited = 0; sim_disk_size(disk, name) == size; waited++) {
            assert_true(waited < WAIT_MS);
            poll(NULL, 0, 1); /* the thread writes it for nobody */
        }
        die(false);
        /* Of the end frame some bytes may be there, too. */
        assert_true(sim_disk_size(disk, name) >= size + (int64_t)FRAME_HEADER_SIZE);
        sim_disk_bytes(disk, name, &len)[size - 1] ^= 1;
        assert_false(journal_check(sim_disk_fs(disk), &reader, &report));
        assert_int_equal(report.status, JOURNAL_DAMAGED);
        assert_int_equal(report.lost, 1);
        teardown(state);
        setup(state);
    }
}

/* --- The end. --- */

static void a_stop_keeps_all(void **state)
{
    static const enum journal_writer_mode modes[] = {JOURNAL_WRITER_BATCH, JOURNAL_WRITER_ALWAYS};

    (void)state;
    for (uint64_t i = 0; i < 4; i++) {
        begin(modes[i % 2], HOUR_MS, 0);
        for (int k = 0; k < 50; k++)
            commit(100);
        assert_true(journal_writer_stop(writer));
        writer = NULL;
        sim_disk_cut_power(disk);
        assert_int_equal(count_kept(), 50 * (i + 1));
    }
}

static void a_stop_that_cannot_keep_all_says_so(void **state)
{
    (void)state;
    begin(JOURNAL_WRITER_ALWAYS, 0, 0);
    commit(10);
    await_promise(1);
    sim_disk_fail(disk, SIM_EIO, 1, UINT64_MAX);
    commit(10);
    assert_false(journal_writer_stop(writer));
    writer = NULL;
    sim_disk_fail(disk, SIM_NONE, 0, 0);
    sim_disk_kill(disk);
    assert_true(count_kept() >= 1);
}

/* --- Faults. --- */

static void after_a_failed_sync_changes_are_refused_until_all_is_kept(void **state)
{
    static const enum journal_writer_mode modes[] = {JOURNAL_WRITER_BATCH, JOURNAL_WRITER_ALWAYS};

    for (int i = 0; i < 2; i++) {
        begin(modes[i], 1, 0);
        commit(10);
        await_durable(1);
        sim_disk_hold_syncs(disk, true);
        commit(10);
        sim_disk_await_sync(disk);
        sim_disk_fail(disk, SIM_EIO, 1, UINT64_MAX);
        sim_disk_hold_syncs(disk, false);
        await_refusal("Input/output error");
        assert_true(journal_writer_stats(writer)->failures > 0);
        assert_int_equal(journal_writer_stats(writer)->journal.durable, 1);
        commit(10); /* what the daemon itself had to change */
        commit(10);
        assert_int_equal(promised, modes[i] == JOURNAL_WRITER_BATCH ? 2 : 1);
        sim_disk_fail(disk, SIM_NONE, 0, 0);
        await_health();
        assert_int_equal(journal_writer_stats(writer)->journal.durable, 4);
        assert_int_equal(look(), 4);
        commit(10);
        await_durable(5);
        die(true);
        assert_int_equal(count_kept(), 5);
        teardown(state);
        setup(state);
    }
}

static void a_failed_append_is_made_up_for(void **state)
{
    static const enum sim_fault faults[] = {SIM_EIO, SIM_ENOSPC, SIM_SHORT};

    (void)state;
    begin(JOURNAL_WRITER_BATCH, 1, 0);
    for (int i = 0; i < 60; i++) {
        commit(10);
        await_durable(number);
        sim_disk_fail(disk, faults[i % 3], 1, (uint64_t)(i % 5) + 1);
        commit(300);
        commit(300);
        sim_disk_fail(disk, SIM_NONE, 0, 0);
        await_health();
        await_durable(number);
    }
    die(true);
    assert_int_equal(count_kept(), number);
}

/* The ballast makes room for what is pending; changes come again when there is room for a ballast.
 */
static void keep_what_is_pending(const char *fault)
{
    uint64_t room = JOURNAL_BALLAST_SIZE + 2000;

    begin(JOURNAL_WRITER_ALWAYS, 0, 0);
    commit(10);
    await_promise(1);
    sim_disk_limit(disk, room);
    sim_disk_hold_syncs(disk, true);
    commit(10);
    sim_disk_await_sync(disk);
    for (int i = 0; i < 100; i++)
        commit(1000);
    sim_disk_hold_syncs(disk, false);
    await_promise(number);
    await_refusal(fault);
    sim_disk_limit(disk, UINT64_MAX);
    await_health();
    assert_int_equal(sim_disk_size(disk, "ballast"), JOURNAL_BALLAST_SIZE);
    commit(10);
    await_promise(number);
    die(true);
    assert_int_equal(count_kept(), number);
}

static void a_full_disk_keeps_what_is_pending(void **state)
{
    (void)state;
    keep_what_is_pending("No space left on device");
}

static void a_quota_that_is_used_up_keeps_it_too(void **state)
{
    (void)state;
    sim_disk_has_quota(disk);
    keep_what_is_pending("quota exceeded");
}

static void a_disk_without_room_for_the_ballast_takes_no_changes(void **state)
{
    (void)state;
    sim_disk_limit(disk, 1000000);
    begin(JOURNAL_WRITER_BATCH, 1, 0);
    await_refusal("in reserve failed");
    sim_disk_limit(disk, UINT64_MAX);
    await_health();
    assert_int_equal(commit(10), 1);
}

/* --- Memory. --- */

static void a_large_batch_gives_up_its_buffer(void **state)
{
    const uint8_t *bytes;

    (void)state;
    begin(JOURNAL_WRITER_BATCH, 1, 0);
    commit(10);
    assert_non_null(batch.bytes);
    bytes = batch.bytes;
    commit(100);
    assert_ptr_equal(batch.bytes, bytes); /* small ones are copied */
    commit(150000);
    assert_null(batch.bytes);
    commit(10);
    await_durable(4);
    die(true);
    assert_int_equal(count_kept(), 4);
}

static void no_commit_fails_for_want_of_memory(void **state)
{
    (void)state;
    begin(JOURNAL_WRITER_BATCH, HOUR_MS, 0);
    commit(10);
    number++;
    value_len[number] = 20;
    make_batch(&batch, number);
    no_memory = true;
    assert_int_equal(journal_writer_commit(writer, &batch), number);
    no_memory = false;
    assert_null(batch.bytes);
    assert_non_null(strstr(journal_writer_refuses(writer), "memory for changes"));
    look();
    assert_null(journal_writer_refuses(writer));
    commit(10);
    die(false);
    assert_int_equal(count_kept(), 3);
}

/* --- Snapshots. --- */

static void put_parts(size_t count)
{
    uint8_t part[65536] = {0};

    for (size_t i = 0; i < count; i++) {
        while (journal_writer_snapshot_room(writer) < sizeof part) {
            await_descriptor();
            look();
        }
        memcpy(part, &number, sizeof number);
        assert_true(journal_writer_snapshot_put(writer, (struct slice){part, sizeof part}));
    }
}

static void await_snapshot_state(enum journal_writer_snapshot_state state)
{
    for (look(); journal_writer_snapshot_state(writer) != state; look())
        await_descriptor();
    look(); /* the state is of now, the figures of the last look */
}

static void a_snapshot_goes_through_the_thread(void **state)
{
    static const enum journal_writer_mode modes[] = {JOURNAL_WRITER_BATCH, JOURNAL_WRITER_ALWAYS};

    for (int i = 0; i < 2; i++) {
        struct expected e;
        uint64_t before;

        begin(modes[i], 1, 0);
        for (int k = 0; k < 300; k++)
            commit(500);
        before = number;
        await_durable(number);
        assert_true(journal_writer_stats(writer)->journal.bytes_behind > 150000);
        journal_writer_snapshot_begin(writer);
        put_parts(40);
        journal_writer_snapshot_end(writer, true);
        commit(10);
        commit(10);
        await_snapshot_state(JOURNAL_WRITER_SNAPSHOT_NONE);
        assert_int_equal(journal_writer_stats(writer)->journal.snapshot, before);
        assert_int_equal(journal_writer_stats(writer)->snapshots, 1);
        assert_true(journal_writer_stats(writer)->journal.snapshot_bytes > 40 * 65536);
        assert_true(journal_writer_stats(writer)->journal.bytes_behind < 1000);
        assert_true(journal_writer_stats(writer)->snapshot_ns > 0);
        await_durable(number);
        die(true);
        journal_close(open_journal(&e));
        assert_int_equal(e.last, before + 2);
        assert_int_equal(e.parts, 40);
        teardown(state);
        setup(state);
    }
}

/* Parts are taken as long as 1 MiB of them at most wait for the disk. */
static void parts_do_not_run_ahead_of_the_disk(void **state)
{
    uint8_t part[65536] = {0};
    size_t taken = 0;

    (void)state;
    begin(JOURNAL_WRITER_ALWAYS, 0, 0);
    commit(10);
    await_promise(1);
    sim_disk_hold_syncs(disk, true);
    commit(10);
    sim_disk_await_sync(disk);
    journal_writer_snapshot_begin(writer);
    memcpy(part, &number, sizeof number);
    for (; journal_writer_snapshot_room(writer) >= sizeof part; taken++)
        assert_true(journal_writer_snapshot_put(writer, (struct slice){part, sizeof part}));
    assert_int_equal(taken, 16);
    look();
    sim_disk_hold_syncs(disk, false);
    put_parts(1);
    journal_writer_snapshot_end(writer, true);
    await_snapshot_state(JOURNAL_WRITER_SNAPSHOT_NONE);
    assert_int_equal(journal_writer_stats(writer)->snapshots, 1);
}

static void a_snapshot_that_fails_harms_nothing(void **state)
{
    (void)state;
    begin(JOURNAL_WRITER_BATCH, 1, 0);
    commit(10);
    await_durable(1); /* the ballast is there, too */
    sim_disk_fail(disk, SIM_ENOSPC, 1, UINT64_MAX);
    journal_writer_snapshot_begin(writer);
    put_parts(1);
    await_snapshot_state(JOURNAL_WRITER_SNAPSHOT_FAILED);
    assert_null(journal_writer_refuses(writer));
    assert_int_equal(journal_writer_stats(writer)->snapshot_failures, 1);
    journal_writer_snapshot_end(writer, false);
    await_snapshot_state(JOURNAL_WRITER_SNAPSHOT_NONE);
    sim_disk_fail(disk, SIM_NONE, 0, 0);
    commit(10);
    journal_writer_snapshot_begin(writer); /* and abandoned */
    put_parts(3);
    journal_writer_snapshot_end(writer, false);
    await_snapshot_state(JOURNAL_WRITER_SNAPSHOT_NONE);
    journal_writer_snapshot_begin(writer);
    put_parts(3);
    journal_writer_snapshot_end(writer, true);
    await_snapshot_state(JOURNAL_WRITER_SNAPSHOT_NONE);
    assert_int_equal(journal_writer_stats(writer)->journal.snapshot, 2);
    assert_true(journal_writer_stop(writer));
    writer = NULL;
    assert_int_equal(count_kept(), 2);
}

/* Its last part was made before the thread failed at its first: nobody looks at its state again. */
static void a_snapshot_that_fails_behind_its_end_is_over(void **state)
{
    (void)state;
    begin(JOURNAL_WRITER_BATCH, 1, 0);
    commit(10);
    await_durable(1);
    sim_disk_fail(disk, SIM_ENOSPC, 1, UINT64_MAX);
    journal_writer_snapshot_begin(writer);
    put_parts(1);
    await_snapshot_state(JOURNAL_WRITER_SNAPSHOT_FAILED);
    journal_writer_snapshot_end(writer, true);
    await_snapshot_state(JOURNAL_WRITER_SNAPSHOT_NONE);
    assert_int_equal(journal_writer_stats(writer)->snapshot_failures, 1);
    sim_disk_fail(disk, SIM_NONE, 0, 0);
    journal_writer_snapshot_begin(writer);
    put_parts(1);
    journal_writer_snapshot_end(writer, true);
    await_snapshot_state(JOURNAL_WRITER_SNAPSHOT_NONE);
    assert_int_equal(journal_writer_stats(writer)->snapshots, 1);
}

/* What comes behind it is kept, although the thread has not begun it yet. */
static void a_snapshot_may_be_asked_for_while_the_disk_fails(void **state)
{
    (void)state;
    begin(JOURNAL_WRITER_ALWAYS, 0, 0);
    commit(10);
    await_promise(1);
    sim_disk_fail(disk, SIM_EIO, 1, UINT64_MAX);
    commit(10);
    await_refusal("Input/output error");
    journal_writer_snapshot_begin(writer);
    commit(10);
    sim_disk_fail(disk, SIM_NONE, 0, 0);
    await_health();
    await_promise(3);
    put_parts(1);
    journal_writer_snapshot_end(writer, true);
    await_snapshot_state(JOURNAL_WRITER_SNAPSHOT_NONE);
    assert_int_equal(journal_writer_stats(writer)->journal.durable, 3);
}

static void a_snapshot_is_due_by_size(void **state)
{
    (void)state;
    segment_size = 16u << 20;
    begin(JOURNAL_WRITER_BATCH, 1, 0);
    assert_false(journal_writer_snapshot_due(writer));
    while (journal_writer_stats(writer)->journal.bytes_behind <= 64u << 20) {
        assert_false(journal_writer_snapshot_due(writer));
        commit(200000);
        if (journal_writer_stats(writer)->pending_bytes > 4u << 20)
            await_durable(number);
    }
    assert_true(journal_writer_snapshot_due(writer));
    journal_writer_snapshot_begin(writer);
    assert_false(journal_writer_snapshot_due(writer));
    put_parts(1);
    journal_writer_snapshot_end(writer, true);
    await_snapshot_state(JOURNAL_WRITER_SNAPSHOT_NONE);
    assert_false(journal_writer_snapshot_due(writer));
}

/* --- Anything at any time. --- */

static uint64_t random_state = 1;

static uint64_t draw(uint64_t below)
{
    random_state = random_state * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (random_state >> 33) % below;
}

static void do_something(void)
{
    static const enum sim_fault faults[] = {SIM_EIO, SIM_ENOSPC, SIM_SHORT, SIM_NONE, SIM_NONE};

    switch (draw(8)) {
    case 0:
        sim_disk_fail(disk, faults[draw(5)], 1 + draw(10), 1 + draw(5));
        break;
    case 1:
        sim_disk_hold_syncs(disk, draw(2) == 0);
        break;
    case 2:
        if (journal_writer_snapshot_state(writer) == JOURNAL_WRITER_SNAPSHOT_NONE) {
            journal_writer_snapshot_begin(writer);
            journal_writer_snapshot_put(writer, (struct slice){(uint8_t *)&number, sizeof number});
        } else if (draw(3) == 0) {
            journal_writer_snapshot_end(writer, false);
        } else if (draw(3) == 0) {
            journal_writer_snapshot_end(writer, true);
        }
        break;
    case 3:
        look();
        break;
    default:
        commit(draw(20) == 0 ? 40000 : draw(200));
        break;
    }
}

/* Whatever failed: what was promised is there after a power cut (always), or when the process died
 * and no sync had failed (batch). */
static void promises_hold(void **state)
{
    for (int run = 0; run < 60; run++) {
        enum journal_writer_mode mode = run % 2 == 0 ? JOURNAL_WRITER_ALWAYS : JOURNAL_WRITER_BATCH;
        bool failed;
        uint64_t kept, durable;

        teardown(state);
        setup(state);
        begin(mode, 1, 0);
        for (uint64_t n = draw(400); n > 0; n--)
            do_something();
        look();
        durable = journal_writer_stats(writer)->journal.durable;
        failed = sim_disk_sync_failed(disk);
        sim_disk_fail(disk, SIM_DIE, 1 + draw(3), UINT64_MAX);
        sim_disk_hold_syncs(disk, false);
        commit(10);
        note_promise(journal_writer_poll(writer));
        failed = failed || sim_disk_sync_failed(disk);
        die(mode == JOURNAL_WRITER_ALWAYS);
        kept = count_kept();
        assert_true(kept >= durable);
        if (mode == JOURNAL_WRITER_ALWAYS || !failed)
            assert_true(kept >= promised);
    }
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_batch_is_kept_when_commit_returns),
        TEST(batches_are_synced_within_the_interval),
        TEST(a_write_that_fails_delays_no_sync),
        TEST(one_sync_is_for_all_of_an_interval),
        TEST(the_loop_does_not_wait_for_a_sync),
        TEST(a_slow_disk_slows_clients_down),
        TEST(a_commit_waits_for_a_disk_that_is_behind),
        TEST(nothing_is_promised_before_it_is_synced),
        TEST(what_gathers_during_a_sync_is_one_sync),
        TEST(the_last_sync_leaves_a_mark),
        TEST(a_stop_keeps_all),
        TEST(a_stop_that_cannot_keep_all_says_so),
        TEST(after_a_failed_sync_changes_are_refused_until_all_is_kept),
        TEST(a_failed_append_is_made_up_for),
        TEST(a_full_disk_keeps_what_is_pending),
        TEST(a_quota_that_is_used_up_keeps_it_too),
        TEST(a_disk_without_room_for_the_ballast_takes_no_changes),
        TEST(a_large_batch_gives_up_its_buffer),
        TEST(no_commit_fails_for_want_of_memory),
        TEST(a_snapshot_goes_through_the_thread),
        TEST(parts_do_not_run_ahead_of_the_disk),
        TEST(a_snapshot_that_fails_harms_nothing),
        TEST(a_snapshot_that_fails_behind_its_end_is_over),
        TEST(a_snapshot_may_be_asked_for_while_the_disk_fails),
        TEST(a_snapshot_is_due_by_size),
        TEST(promises_hold),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
