/* Snapshots: random commands of all kinds run while a snapshot is written bit by bit, and what is
 * loaded from it is the store as it was at the beginning, to the last member, and goes on in the
 * same way. And without memory it is the snapshot that fails, whatever the allocation. */
#include "tests/unit/snapshot_run.h"

static void a_loaded_snapshot_is_the_store_of_its_moment(void **state)
{
    const char *text = getenv("SNAPSHOT_SEEDS");
    uint64_t count = text == NULL ? SANITIZED_OR(30, 150) : strtoull(text, NULL, 10);

    (void)state;
    for (uint64_t seed = 1; seed <= count; seed++)
        try_seed(seed);
}

/* With a lower limit than before, a snapshot and a journal are still loaded completely. */
static void a_lower_limit_refuses_nothing_that_was_kept(void **state)
{
    static struct run run;

    (void)state;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        enum snapshot_state result = SNAPSHOT_GOES_ON;
        struct chance r = {seed};
        struct store loaded, replayed;
        struct snapshot *s;

        run_begin(&run, &r);
        s = snapshot_begin(&run.live);
        while (result == SNAPSHOT_GOES_ON)
            result = write_slice(s, &run.slices, 5000);
        snapshot_end(s);
        open_limited(&loaded, 1, 1);
        assert_true(load(&loaded, &run.slices));
        open_limited(&replayed, 2, 1);
        for (size_t i = 0; i < COUNT(space_names); i++)
            store_space(&replayed, slice_str(space_names[i]));
        replay_all(&replayed, &run.journal);
        store_fini(&loaded);
        store_fini(&replayed);
        free(run.text);
        run_end(&run);
    }
}

/* --- A journal. --- */

static void a_replay_makes_the_same_store(void **state)
{
    static struct run run;

    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct chance r = {seed};
        struct store s;

        run_begin(&run, &r);
        open_spaces(&s, seed);
        replay_all(&s, &run.journal);
        expect_same_text(dump_text(&run.live), dump_text(&s), "a replay", seed);
        store_fini(&s);
        free(run.text);
        run_end(&run);
    }
}

/* --- Memory. --- */

/* A command whose memory is there when it is let through; from then on, one allocation is refused,
 * the snapshot's or the change's own. */
static struct store_result carry_out_refused(struct store *s, const struct order *o)
{
    struct store_result out;
    struct change change;

    if (store_check(s, space_of(s, o), &o->command, &change, &out)) {
        refusal.paused = false;
        store_apply(s, space_of(s, o), &change, &out);
        refusal.paused = true;
    }
    return out;
}

/* The same of what happens to a session behind it. */
static void carry_out_session_refused(struct chance *r, struct store *s, const struct order *o,
                                      const struct store_result *result)
{
    struct store_result out = {0};
    struct change change;

    if (!make_session_change(r, s, o, result, &change) ||
        !store_can_apply(s, space_of(s, o), &change))
        return;
    refusal.paused = false;
    store_apply(s, space_of(s, o), &change, &out);
    refusal.paused = true;
}

static void expect_same_result(struct store *live, struct store *other, struct chance *r,
                               int64_t now_ns)
{
    struct store_result x, y;
    struct chance again;
    struct order o;

    make_order(r, &o, live, now_ns);
    x = carry_out_refused(live, &o);
    y = carry_out(other, &o, NULL);
    assert_true(x.status == y.status && x.number == y.number && x.count == y.count);
    assert_true(x.tree.code == y.tree.code);
    again = *r;
    carry_out_session_refused(&again, live, &o, &x);
    carry_out_session(r, other, &o, &y, NULL);
    if (o.command.kind != COMMAND_QUEUE_POP)
        return;
    blob_unref(x.value);
    blob_unref(y.value);
}

static enum snapshot_state write_refused(struct run *run, struct chance *r, struct snapshot *s)
{
    enum snapshot_state state = SNAPSHOT_GOES_ON;

    while (state == SNAPSHOT_GOES_ON) {
        for (size_t i = below(r, 5); i > 0; i--)
            expect_same_result(&run->live, &run->copy, r, run->now_ns);
        refusal.paused = false;
        state = write_slice(s, &run->slices, 2000);
        refusal.paused = true;
    }
    return state;
}

/* The k-th allocation is refused, from the beginning of a snapshot on. False: there were not so
 * many. *failures counts snapshots that failed. */
static bool try_refusal(uint64_t seed, long k, size_t *failures)
{
    static struct run run;
    struct chance r = {seed};
    size_t before[ACCOUNT_KINDS];
    struct snapshot *s;

    memcpy(before, account.bytes, sizeof before);
    run_begin(&run, &r);
    refusal.countdown = k;
    refusal.reached = false;
    refusal.paused = false;
    s = snapshot_begin(&run.live);
    refusal.paused = true;
    assert_true(s != NULL || refusal.reached);
    if (s == NULL || write_refused(&run, &r, s) == SNAPSHOT_FAILED) {
        assert_true(refusal.reached);
        ++*failures;
    } else {
        struct store loaded;

        open_store(&loaded, seed);
        assert_true(load(&loaded, &run.slices));
        expect_same_text(run.text, dump_snapshot_text(&loaded), "with less memory", seed);
        run.text = NULL;
        store_fini(&loaded);
    }
    free(run.text);
    snapshot_end(s);
    s = snapshot_begin(&run.live); /* another one may be made */
    assert_non_null(s);
    snapshot_end(s);
    expect_same_text(dump_text(&run.copy), dump_text(&run.live), "the store itself", seed);
    run_end(&run);
    expect_nothing_left(before);
    return refusal.reached;
}

static void without_memory_the_snapshot_fails_and_nothing_else(void **state)
{
    size_t failures = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        for (long k = 1 + (long)seed % ALLOCATION_STEP; try_refusal(seed, k, &failures);
             k += ALLOCATION_STEP)
            continue;
    }
    assert_in_range(failures, 150 / ALLOCATION_STEP, SIZE_MAX);
}

/* A request that finds no memory: a snapshot that keeps much fails, one that keeps little goes on.
 */
static void a_snapshot_that_keeps_much_makes_room(void **state)
{
    (void)state;
    for (int much = 0; much < 2; much++) {
        struct slices *l = calloc(1, sizeof *l);
        struct snapshot *snapshot;
        struct store s;
        char key[20];

        open_spaces(&s, 1);
        for (int i = 0; i < 100; i++) {
            snprintf(key, sizeof key, "%d", i);
            set(&s, key, (struct slice){some_bytes, 20000});
        }
        snapshot = snapshot_begin(&s);
        while (snapshot_write(snapshot, 1, &l->items[0]) == SNAPSHOT_GOES_ON &&
               l->items[0].len < 10000)
            continue; /* until it is at the keys */
        for (int i = 0; i < (much ? 100 : 10); i++) {
            snprintf(key, sizeof key, "%d", i);
            set(&s, key, (struct slice){some_bytes + 1, 20000});
        }
        account_set_limit(account.total + (2u << 20)); /* a part of it is kept back */
        assert_false(store_make_room(&s, ACCOUNT_ORDINARY, 1500000));
        account_set_limit(0);
        assert_int_equal(snapshot_write(snapshot, 1, &l->items[0]),
                         much ? SNAPSHOT_FAILED : SNAPSHOT_GOES_ON);
        snapshot_end(snapshot);
        batch_fini(&l->items[0]);
        free(l);
        store_fini(&s);
    }
}

/* --- Bytes that are no snapshot. --- */

static void make_snapshot(struct run *run, struct chance *r, size_t size)
{
    enum snapshot_state state = SNAPSHOT_GOES_ON;
    struct snapshot *s;

    run_begin(run, r);
    s = snapshot_begin(&run->live);
    while (state == SNAPSHOT_GOES_ON)
        state = write_slice(s, &run->slices, size);
    snapshot_end(s);
}

static void what_is_not_whole_is_not_taken(void **state)
{
    static struct run run;
    struct chance r = {3};
    struct store s;

    (void)state;
    make_snapshot(&run, &r, 500);
    for (size_t skipped = 0; skipped < run.slices.count; skipped++) {
        bool ok = true;

        open_store(&s, 1);
        for (size_t i = 0; ok && i < run.slices.count; i++) {
            if (i != skipped)
                ok = snapshot_load(&s, batch_bytes(&run.slices.items[i]));
        }
        assert_false(ok && snapshot_is_loaded(&s));
        store_fini(&s);
    }
    open_store(&s, 1);
    assert_true(load(&s, &run.slices));
    assert_false(snapshot_load(&s, batch_bytes(&run.slices.items[0])));
    store_fini(&s);
    free(run.text);
    run_end(&run);
}

/* The result may be another store or none; nothing breaks, and the store can be ended. */
static void any_byte_may_be_wrong(void **state)
{
    static struct run run;
    struct chance r = {5};
    size_t taken = 0;

    (void)state;
    make_snapshot(&run, &r, 3000);
    for (int round = 0; round < 1500; round++) {
        struct batch *b = &run.slices.items[below(&r, run.slices.count)];
        uint8_t *at = &b->bytes[below(&r, b->len)], was = *at;
        struct store s;

        *at = (uint8_t)(one_in(&r, 2) ? was ^ 1u << below(&r, 8) : below(&r, 256));
        open_store(&s, 1);
        taken += load(&s, &run.slices);
        store_fini(&s);
        *at = was;
    }
    assert_in_range(taken, 100, 1499);
    free(run.text);
    run_end(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_loaded_snapshot_is_the_store_of_its_moment),
        cmocka_unit_test(a_replay_makes_the_same_store),
        cmocka_unit_test(a_lower_limit_refuses_nothing_that_was_kept),
        cmocka_unit_test(without_memory_the_snapshot_fails_and_nothing_else),
        cmocka_unit_test(a_snapshot_that_keeps_much_makes_room),
        cmocka_unit_test(what_is_not_whole_is_not_taken),
        cmocka_unit_test(any_byte_may_be_wrong),
    };

    return cmocka_run_group_tests_name("store/snapshot", tests, fill_bytes, NULL);
}
