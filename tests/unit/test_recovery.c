/* What a start knows of the time when the process before it has last written anything. */
#include "rdzv/engine/recovery.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "store/snapshot.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

static struct engine engine;

static void begin(struct recovery *r)
{
    const struct engine_options options = {.clock = &clock_system, .seed = 1};

    engine_init(&engine, &options);
    recovery_begin(r, &engine);
}

/* A snapshot of a store with one key, whose parts are written at these times, one after the other;
 * 0: no time is said. */
static void take_snapshot(struct recovery *r, const int64_t *times, size_t count)
{
    const struct change put = {.kind = CHANGE_KEY_PUT,
                               .put = {.key = slice_str("k"), .value = slice_str("v")}};
    enum snapshot_state state = SNAPSHOT_GOES_ON;
    struct store_result result = {0};
    struct snapshot *s;
    struct store store;
    size_t at = 0;

    store_init(&store, &(struct store_options){.seed = 1});
    assert_true(store_can_apply(&store, store_space(&store, slice_str("default")), &put));
    store_apply(&store, store_space(&store, slice_str("default")), &put, &result);
    s = snapshot_begin(&store);
    assert_non_null(s);
    while (state == SNAPSHOT_GOES_ON) {
        struct batch part;

        batch_init(&part);
        state = snapshot_write(s, 1, &part);
        assert_int_not_equal(state, SNAPSHOT_FAILED);
        if (times[at] != 0)
            assert_true(batch_end(&part, times[at]));
        assert_true(recovery_take_snapshot(r, batch_bytes(&part)));
        at += at + 1 < count;
        batch_fini(&part);
    }
    assert_int_equal(at, count - 1);
    snapshot_end(s);
    store_fini(&store);
}

static void take_batch(struct recovery *r, uint64_t number, int64_t time_ns)
{
    struct batch batch;

    batch_init(&batch);
    batch_begin(&batch, number);
    assert_true(batch_end(&batch, time_ns));
    assert_true(recovery_take_batch(r, batch.number, batch_bytes(&batch)));
    batch_fini(&batch);
}

static void the_last_that_was_written_says_when(void **state)
{
    static const struct {
        const char *name;
        int64_t parts[2], batch, last; /* of the snapshot: 0, none; of a batch behind it: 0, none */
    } rows[] = {
        {"nothing", {0, 0}, 0, 0},
        {"a batch", {0, 0}, 500, 500},
        {"a snapshot", {400, 450}, 0, 450},
        {"a batch behind a snapshot", {400, 450}, 500, 500},
        {"a batch that came while the snapshot was written", {400, 450}, 420, 450},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct recovery r;

        print_message("  %s\n", rows[i].name);
        begin(&r);
        if (rows[i].parts[0] != 0)
            take_snapshot(&r, rows[i].parts, COUNT(rows[i].parts));
        if (rows[i].batch != 0)
            take_batch(&r, 1, rows[i].batch);
        recovery_end(&r, 1);
        assert_int_equal(r.last_ns, rows[i].last);
        engine_fini(&engine);
    }
}

/* Whose last part is missing. */
static void a_snapshot_says_when_it_is_all_there(void **state)
{
    static const int64_t times[] = {400, 450};
    struct recovery r;

    (void)state;
    begin(&r);
    assert_false(recovery_end_snapshot(&r));
    assert_non_null(r.fault);
    engine_fini(&engine);
    begin(&r);
    take_snapshot(&r, times, COUNT(times));
    assert_true(recovery_end_snapshot(&r));
    engine_fini(&engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_that_was_written_says_when),
        cmocka_unit_test(a_snapshot_says_when_it_is_all_there),
    };

    return cmocka_run_group_tests_name("rdzv/engine/recovery", tests, NULL, NULL);
}
