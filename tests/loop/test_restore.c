/* Worker stores at the start of a whole server: it drops each store that no run names, except
 * stores with a relay's session. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "rdzv/rendezvous/driver.h"
#include "tests/loop/harness.h"

static struct engine_space *the_space(void)
{
    return engine_space(&loop.server.engine, slice_str("default"));
}

static uint64_t open_one(void)
{
    const struct command command = {.kind = COMMAND_WORKER_STORE_OPEN};
    struct store_result result;

    engine_apply(&loop.server.engine, the_space(), &command, &result);
    assert_int_equal(result.status, STORE_OK);
    return result.count;
}

static bool is_there(uint64_t id)
{
    return worker_stores_find(&the_space()->store->worker_stores, id) != NULL;
}

static void a_worker_store_outlives_a_start_with_its_sessions(void **state)
{
    struct engine *e = &loop.server.engine;
    uint64_t used, unused;

    (void)state;
    used = open_one();
    unused = open_one();
    for (uint64_t id = 1; id <= 2; id++)
        assert_int_equal(engine_session_bind(e, the_space(), id, true, used), STORE_OK);
    rendezvous_restore(&loop.server.store.rendezvous, 0);
    assert_true(is_there(used) && !is_there(unused));
    assert_true(engine_session_end(e, the_space(), 1));
    assert_true(is_there(used));
    assert_true(engine_session_end(e, the_space(), 2));
    assert_false(is_there(used));
}

static uint64_t take_all(void *arg, struct batch *batch)
{
    (void)arg;
    return batch->number;
}

/* A disk is full when its last worker leaves. */
static void a_worker_store_goes_when_that_can_be_done(void **state)
{
    struct engine *e = &loop.server.engine;
    struct worker_store *w;
    uint64_t id;

    (void)state;
    id = open_one();
    w = worker_stores_find(&the_space()->store->worker_stores, id);
    w->ended = true;
    e->options.journal.commit = take_all;
    e->batch.refuses = true;
    effects_drop_if_unused(the_space()->rendezvous, w);
    rendezvous_tick(&loop.server.store.rendezvous);
    assert_true(is_there(id));
    e->batch.refuses = false;
    rendezvous_tick(&loop.server.store.rendezvous);
    assert_false(is_there(id));
    engine_commit(e);
    e->options.journal.commit = NULL;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LOOP_TEST(a_worker_store_outlives_a_start_with_its_sessions),
        LOOP_TEST(a_worker_store_goes_when_that_can_be_done),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
