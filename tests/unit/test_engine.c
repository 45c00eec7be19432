/* The engine with a clock in hand: commits and watermarks, uses of the store, spaces that go idle,
 * and TTLs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "rdzv/engine/engine.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])

static int64_t wall_ns;
static uint64_t monotonic_ms;
static uint64_t durable;     /* what the journal says is durable */
static uint64_t commits;     /* how often it was asked */
static uint64_t last_number; /* for which batch */
static uint64_t added;       /* changes it was given */
static struct engine engine; /* large */
static struct engine_space *space;

static int64_t read_wall(void *arg)
{
    (void)arg;
    return wall_ns;
}

static uint64_t read_monotonic(void *arg)
{
    (void)arg;
    return monotonic_ms * 1000000;
}

static uint64_t commit(void *arg, struct batch *batch)
{
    (void)arg;
    commits++;
    added += batch->count;
    last_number = batch->number;
    return durable < batch->number ? durable : batch->number;
}

static const struct clock hand = {.wall_ns = read_wall, .monotonic_ns = read_monotonic};

static void begin(uint64_t idle_timeout_ms, bool logged)
{
    struct engine_options options = {
        .clock = &hand, .seed = 1, .space_idle_timeout_ms = idle_timeout_ms};

    wall_ns = INT64_C(1800000000) * 1000000000;
    monotonic_ms = 1000;
    durable = UINT64_MAX;
    commits = last_number = added = 0;
    if (logged)
        options.journal = (struct engine_journal){.commit = commit};
    engine_init(&engine, &options);
    space = engine_space(&engine, slice_str("default"));
}

static void set(const char *key)
{
    const struct command command = {
        .kind = COMMAND_KEY_SET, .key = slice_str(key), .value = slice_str("v")};
    struct store_result result;

    engine_apply(&engine, space, &command, &result);
    assert_int_equal(result.status, STORE_OK);
}

static bool has(const char *key)
{
    return keymap_exists(&space->store->keys, slice_str(key));
}

/* --- The commit. --- */

static void an_answer_waits_for_what_it_may_show(void **state)
{
    uint64_t before, shows;

    (void)state;
    begin(0, true);
    durable = 0;
    before = engine_watermark(&engine);
    assert_true(engine_is_committed(&engine, before)); /* nothing has changed yet */
    set("k");
    shows = engine_watermark(&engine);
    assert_true(shows > before);
    assert_false(engine_is_committed(&engine, shows));
    engine_commit(&engine);
    assert_false(engine_is_committed(&engine, shows));  /* the disk is slow */
    assert_int_equal(engine_watermark(&engine), shows); /* a read now shows the same change */
    engine_committed(&engine, shows);
    assert_true(engine_is_committed(&engine, shows));
    engine_fini(&engine);
}

static void a_batch_is_what_an_iteration_has_changed(void **state)
{
    (void)state;
    begin(0, true);
    engine_commit(&engine);
    assert_int_equal(commits, 0); /* nothing has changed */
    set("a");
    set("b");
    engine_commit(&engine);
    assert_int_equal(commits, 1);
    assert_int_equal(added, 2);
    assert_int_equal(last_number, engine.committed);
    engine_commit(&engine);
    assert_int_equal(commits, 1);
    set("c");
    engine_commit(&engine);
    assert_int_equal(commits, 2);
    assert_int_equal(engine.committed, last_number);
    engine_fini(&engine);
}

static void progress_that_is_reported_late_takes_nothing_back(void **state)
{
    (void)state;
    begin(0, true);
    set("a");
    engine_commit(&engine);
    set("b");
    engine_commit(&engine);
    assert_int_equal(engine.committed, 2);
    engine_committed(&engine, 1);
    assert_int_equal(engine.committed, 2);
    engine_fini(&engine);
}

static uint64_t vouched;

static uint64_t vouch(void *arg)
{
    (void)arg;
    return vouched;
}

static void nothing_is_answered_while_another_may_lead(void **state)
{
    uint64_t shows;

    (void)state;
    begin(0, true);
    engine.options.journal.vouch = vouch;
    durable = 0; /* as of a journal that vouches instead */
    set("k");
    shows = engine_watermark(&engine);
    engine_commit(&engine);
    assert_false(engine_is_committed(&engine, shows));
    vouched = shows;
    engine_commit(&engine); /* nothing has changed, but it is asked */
    assert_true(engine_is_committed(&engine, shows));
    vouched = 0;
    engine_vouch(&engine);
    assert_false(engine_is_committed(&engine, shows));
    engine_fini(&engine);
}

static void without_a_log_memory_is_all_there_is(void **state)
{
    (void)state;
    begin(0, false);
    set("k");
    assert_false(engine_is_committed(&engine, engine_watermark(&engine)));
    engine_commit(&engine);
    assert_true(engine_is_committed(&engine, engine_watermark(&engine)));
    engine_fini(&engine);
}

/* --- Uses. --- */

static void a_store_is_unused_from_the_end_of_its_last_use(void **state)
{
    (void)state;
    begin(0, false);
    monotonic_ms = 50000;
    assert_int_equal(engine_unused_ms(&engine), 0); /* its job has not come yet */
    engine_session_began(&engine, space);
    engine_use_began(&engine);
    monotonic_ms += 1000;
    engine_session_ended(&engine, space);
    monotonic_ms += 1000;
    assert_int_equal(engine_unused_ms(&engine), 0); /* a watch is open */
    engine_use_ended(&engine);
    assert_int_equal(engine_unused_ms(&engine), 0);
    monotonic_ms += 300;
    assert_int_equal(engine_unused_ms(&engine), 300);
    engine_use_began(&engine);
    engine_use_ended(&engine);
    assert_int_equal(engine_unused_ms(&engine), 0);
    engine_fini(&engine);
}

static void an_idle_space_forgets_its_keys_and_no_other_does(void **state)
{
    struct engine_space *other;

    (void)state;
    begin(30000, false);
    other = engine_space(&engine, slice_str("other"));
    engine_session_began(&engine, other);
    engine_session_began(&engine, space);
    set("k");
    engine_session_ended(&engine, space);
    monotonic_ms += 29999;
    engine_tick(&engine);
    assert_true(has("k"));
    engine_session_began(&engine, space); /* in time */
    monotonic_ms += 60000;
    engine_tick(&engine);
    assert_true(has("k"));
    engine_session_ended(&engine, space);
    monotonic_ms += 30000;
    engine_tick(&engine);
    assert_false(has("k"));
    set("k"); /* as over HTTP: a space is emptied only once after its last session has ended */
    monotonic_ms += 60000;
    engine_tick(&engine);
    assert_true(has("k"));
    engine_session_ended(&engine, other);
    engine_fini(&engine);
}

static void an_interval_never_wraps(void **state)
{
    (void)state;
    assert_int_equal(clock_elapsed_ms(5, 8), 3);
    assert_int_equal(clock_elapsed_ms(8, 8), 0);
    assert_int_equal(clock_elapsed_ms(9, 8), 0); /* and not the age of the universe */
}

/* --- TTLs. --- */

static void the_earliest_ttl_of_all_spaces_is_next(void **state)
{
    struct engine_space *other;
    struct command c = {.kind = COMMAND_TREE_SET, .key = slice_str("/k"), .value = slice_str("v")};
    struct store_result result;
    int64_t at;

    (void)state;
    begin(0, false);
    other = engine_space(&engine, slice_str("other"));
    assert_false(engine_next_expiry(&engine, &at));
    c.now_ns = wall_ns;
    c.expires_ns = wall_ns + 5000;
    engine_apply(&engine, space, &c, &result);
    c.expires_ns = wall_ns + 3000;
    engine_apply(&engine, other, &c, &result);
    assert_true(engine_next_expiry(&engine, &at));
    assert_int_equal(at, wall_ns + 3000);
    wall_ns += 3000;
    assert_false(engine_expire(&engine, 10));
    assert_true(engine_next_expiry(&engine, &at));
    assert_int_equal(at, wall_ns + 2000);
    wall_ns += 2000;
    assert_false(engine_expire(&engine, 10));
    assert_false(engine_next_expiry(&engine, &at));
    engine_fini(&engine);
}

/* What is left is due at once. */
static void so_many_expire_at_a_time(void **state)
{
    struct command c = {.kind = COMMAND_TREE_SET, .value = slice_str("v")};
    struct store_result result;
    char path[16];
    int64_t at;

    (void)state;
    begin(0, false);
    c.now_ns = wall_ns;
    c.expires_ns = wall_ns + 1000;
    for (int i = 0; i < 25; i++) {
        snprintf(path, sizeof path, "/%d", i);
        c.key = slice_str(path);
        engine_apply(&engine, i % 2 == 0 ? space : engine_space(&engine, slice_str("other")), &c,
                     &result);
    }
    wall_ns += 1000;
    assert_true(engine_expire(&engine, 10));
    assert_true(engine_next_expiry(&engine, &at));
    assert_int_equal(at, wall_ns);
    assert_true(engine_expire(&engine, 10));
    assert_false(engine_expire(&engine, 10));
    assert_false(engine_next_expiry(&engine, &at));
    engine_fini(&engine);
}

/* --- Pauses. --- */

static void time_in_which_the_process_is_paused_is_not_lived(void **state)
{
    uint64_t before;

    (void)state;
    begin(0, false);
    monotonic_ms = 100000; /* it has not been seen at work yet */
    before = engine_lived_ms(&engine);
    engine_note_alive(&engine);
    for (int i = 0; i < 10; i++) { /* the loop slept */
        monotonic_ms += ENGINE_PAUSE_MS - 1;
        engine_note_alive(&engine);
    }
    before += 10 * (ENGINE_PAUSE_MS - 1);
    assert_int_equal(engine_lived_ms(&engine), before);
    assert_int_equal(engine.paused_ms, 0);
    monotonic_ms += 60000;
    assert_int_equal(engine_lived_ms(&engine), before); /* before it is noted, too */
    engine_note_alive(&engine);
    assert_int_equal(engine_lived_ms(&engine), before);
    assert_int_equal(engine.paused_ms, 60000);
    engine_note_alive(&engine);
    monotonic_ms += 7;
    assert_int_equal(engine_lived_ms(&engine), before + 7);
    assert_int_equal(engine.paused_ms, 60000);
    engine_fini(&engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_waits_for_what_it_may_show),
        cmocka_unit_test(a_batch_is_what_an_iteration_has_changed),
        cmocka_unit_test(progress_that_is_reported_late_takes_nothing_back),
        cmocka_unit_test(nothing_is_answered_while_another_may_lead),
        cmocka_unit_test(without_a_log_memory_is_all_there_is),
        cmocka_unit_test(a_store_is_unused_from_the_end_of_its_last_use),
        cmocka_unit_test(an_idle_space_forgets_its_keys_and_no_other_does),
        cmocka_unit_test(an_interval_never_wraps),
        cmocka_unit_test(the_earliest_ttl_of_all_spaces_is_next),
        cmocka_unit_test(so_many_expire_at_a_time),
        cmocka_unit_test(time_in_which_the_process_is_paused_is_not_lived),
    };

    return cmocka_run_group_tests_name("rdzv/engine/engine", tests, NULL, NULL);
}
