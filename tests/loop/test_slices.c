/* Work of one request or of one tick that takes several iterations: many keys, a space that is
 * freed, TTLs, runs. */
#include "tests/loop/budget_scene.h"

/* --- Requests with many keys. --- */

enum { MANY = 20000, ITEM = 8 + 11, PAIR = ITEM + 8 + 1 };
static uint8_t many[9 + MANY * PAIR];

/* A request of /key/000000 and so on, each with a value of "w" if `pairs`. Its length. */
static size_t make_many(uint8_t op, bool pairs)
{
    uint8_t *at = many + 9;

    many[0] = op;
    bytes_put_u64(many + 1, MANY);
    for (int i = 0; i < MANY; i++) {
        char name[16];

        snprintf(name, sizeof name, "/key/%06d", i);
        bytes_put_u64(at, 11);
        memcpy(at + 8, name, 11);
        at += ITEM;
        if (!pairs)
            continue;
        bytes_put_u64(at, 1);
        at[8] = 'w';
        at += 9;
    }
    return (size_t)(at - many);
}

static void set_many(int fd)
{
    size_t len = make_many(0x0b, true);

    loop_send(&loop, fd, many, len);
    loop_send(&loop, fd, TEXT(PING));
    loop_expect(&loop, fd, "abcd", 4);
}

static struct keymap *keys_of_loop(void)
{
    return &TAILQ_FIRST(&loop.server.engine.spaces)->store->keys;
}

#define LAST_KEY   "\x0b\0\0\0\0\0\0\0/key/019999"
#define FIRST_KEY  "\x0b\0\0\0\0\0\0\0/key/000000"
#define ONE_MORE_V "\1\0\0\0\0\0\0\0v"

/* Sends a request of that many keys and a PING behind it, and at its half does what `meanwhile`
 * says.
 */
static void ask_many(int fd, int other, uint8_t op, const char *meanwhile, size_t len)
{
    size_t size = make_many(op, op == 0x0b);
    uint64_t before;

    loop_send(&loop, fd, many, size);
    tell(fd, TEXT(PING));
    LOOP_UNTIL(&loop, loop_conn(&loop, fd)->input == INPUT_DEFERRED);
    before = loop.server.engine.stats.loop_iterations;
    assert_false(has_answer(fd));
    tell(other, meanwhile, len);
    tell(other, TEXT(PING));
    if (meanwhile[0] == 8)
        loop_expect(&loop, other, "\1\0\0\0\0\0\0\0", 8);
    loop_expect(&loop, other, "abcd", 4);
    assert_in_range(loop.server.engine.stats.loop_iterations - before, 1, 10);
}

/* They take many iterations, in which others are answered, and show the moment of their end. */
static void a_request_with_many_keys_takes_several_iterations(void **state)
{
    int fd, other;

    (void)state;
    open_loop(NULL);
    fd = loop_connect_modern(&loop);
    other = loop_connect_modern(&loop);
    loop_send(&loop, fd, many, make_many(0x05, false)); /* CHECK */
    loop_expect(&loop, fd, "\1", 1);
    set_many(fd);
    assert_int_equal(keys_of_loop()->present, MANY);

    ask_many(fd, other, 0x05, TEXT("\1" FIRST_KEY ONE_MORE_V));
    loop_expect(&loop, fd, "\0abcd", 5);
    ask_many(fd, other, 0x05, TEXT("\x08" FIRST_KEY)); /* it was there when the CHECK began */
    loop_expect(&loop, fd, "\0abcd", 5);

    ask_many(fd, other, 0x0a, TEXT("\1" FIRST_KEY ONE_MORE_V)); /* MULTI_GET */
    loop_expect(&loop, fd, ONE_MORE_V, 9);
    for (int i = 1; i < MANY; i++)
        loop_expect(&loop, fd, "\1\0\0\0\0\0\0\0w", 9);
    loop_expect(&loop, fd, "abcd", 4);

    ask_many(fd, other, 0x06, TEXT("\x08" LAST_KEY)); /* WAIT */
    loop_expect(&loop, fd, "abcd", 4);
    assert_int_equal(keys_of_loop()->waiters, 1);
    assert_false(has_answer(fd));
    tell(other, TEXT("\1" LAST_KEY ONE_MORE_V));
    loop_expect(&loop, fd, "\0", 1);

    ask_many(fd, other, 0x0b, TEXT("\1" FIRST_KEY ONE_MORE_V)); /* MULTI_SET */
    assert_true(slice_is(blob_slice(keymap_get(keys_of_loop(), slice_str("/key/000000"))), "v"));
    loop_expect(&loop, fd, "abcd", 4);
    assert_true(slice_is(blob_slice(keymap_get(keys_of_loop(), slice_str("/key/000000"))), "w"));
    LOOP_UNTIL(&loop, !transport_has_work(&loop.server.net));
    assert_true(TAILQ_EMPTY(&keys_of_loop()->lookups));
    loop_leave(&loop, fd);
    loop_leave(&loop, other);
    loop_close(&loop);
}

/* Who leaves before the answer leaves nothing behind; who is asked to stop answers. */
static void a_request_with_many_keys_may_be_left(void **state)
{
    int fd, leaver, other;

    (void)state;
    open_loop(NULL);
    other = loop_connect_modern(&loop);
    for (int op = 0x0a; op <= 0x0b; op++) {
        leaver = loop_connect_modern(&loop);
        ask_many(leaver, other, (uint8_t)op, TEXT("\1" FIRST_KEY ONE_MORE_V));
        assert_false(TAILQ_EMPTY(&keys_of_loop()->lookups));
        conn_close(loop_conn(&loop, leaver), "test");
        loop_expect_end(&loop, leaver);
        close(leaver);
        LOOP_UNTIL(&loop, TAILQ_EMPTY(&keys_of_loop()->lookups));
        assert_int_equal(keys_of_loop()->present, 1);
        assert_int_equal(keys_of_loop()->keys.count, 1);
    }
    fd = loop_connect_modern(&loop);
    ask_many(fd, other, 0x0b, TEXT("\1" FIRST_KEY ONE_MORE_V));
    transport_drain(&loop.server.net);
    loop_expect_end(&loop, fd);
    assert_int_equal(keys_of_loop()->present, MANY);
    close(fd);
    close(other);
    loop_close(&loop);
}

/* --- Forgetting. --- */

/* A space is empty at once, and its memory comes back while others are served. */
static void a_space_is_freed_over_several_iterations(void **state)
{
    const struct command reset = {.kind = COMMAND_SPACE_RESET};
    struct engine *e = &loop.server.engine;
    struct store_result result;
    uint64_t before;
    int fd;

    (void)state;
    open_loop(NULL);
    set_keys(e, 0, 5000);
    fd = loop_connect_modern(&loop);
    step_ns = 2000000;
    engine_apply(e, TAILQ_FIRST(&e->spaces), &reset, &result);
    assert_int_equal(result.count, 5000);
    tell(fd, TEXT(PING));
    loop_expect(&loop, fd, "abcd", 4);
    before = e->stats.loop_iterations;
    LOOP_UNTIL(&loop, lazy_free_is_empty(&e->store.lazy_free));
    assert_true(e->stats.loop_iterations - before > 5);
    step_ns = 0;
    loop_leave(&loop, fd);
    loop_close(&loop);
}

#define PAST_NS (INT64_C(1000000000) * 1000000000) /* 2001 */

/* Each of many TTLs that end at once is an event of its own; not all are in one iteration. */
static void ttls_end_over_several_iterations(void **state)
{
    struct engine *e = &loop.server.engine;
    struct tree *t;

    (void)state;
    open_loop(NULL);
    t = &TAILQ_FIRST(&e->spaces)->store->tree;
    for (int i = 0; i < 1000; i++) {
        char path[16];
        struct command c = {.kind = COMMAND_TREE_SET, .now_ns = 1, .expires_ns = PAST_NS};
        struct store_result r;

        snprintf(path, sizeof path, "/%d", i);
        c.key = slice_str(path);
        engine_apply(e, TAILQ_FIRST(&e->spaces), &c, &r);
    }
    step_ns = 2 * BUDGET_READ_NS;
    LOOP_UNTIL(&loop, t->expired > 0);
    assert_in_range(t->expired, 1, 500);
    LOOP_UNTIL(&loop, t->expired == 1000);
    step_ns = 0;
    loop_close(&loop);
}

/* --- Runs. --- */

static struct rendezvous *rendezvous(void)
{
    return &loop.server.store.rendezvous;
}

static struct live_run *next_run(const struct live_run *run)
{
    const struct rendezvous_space *home =
        engine_space(&loop.server.engine, slice_str("default"))->rendezvous;
    struct run_view *v =
        run == NULL ? TAILQ_FIRST(&home->runs.list) : TAILQ_NEXT(&run->run.view, order);

    return v == NULL ? NULL : live_run_of(v);
}

/* With four nodes that have sent a heartbeat. */
static void make_runs(int count)
{
    struct torch_node nodes[4];
    const struct torch_state state = {.aware = true,
                                      .has_redundancy = true,
                                      .protocol = 4,
                                      .nodes = nodes,
                                      .count = COUNT(nodes)};
    uint8_t *text;
    size_t len;

    for (int i = 0; i < (int)COUNT(nodes); i++)
        nodes[i] = (struct torch_node){.addr = slice_str("node"),
                                       .pid = i,
                                       .heartbeat_us = clock_wall_ns(&clock_system) / 1000,
                                       .waiting = true,
                                       .has_heartbeat = true};
    assert_true(torch_state_write(&state, &text, &len));
    for (int i = 0; i < count; i++) {
        char key[40];
        struct command c = {.kind = COMMAND_KEY_SET, .value = {text, len}};
        struct store_result r;

        snprintf(key, sizeof key, "/torch.rendezvous.%d", i);
        c.key = slice_str(key);
        engine_apply(&loop.server.engine, TAILQ_FIRST(&loop.server.engine.spaces), &c, &r);
        assert_int_equal(r.status, STORE_OK);
    }
    free(text);
}

/* --- A job without a rendezvous that begins again. --- */

#define COUNT_ME "\x04\5\0\0\0\0\0\0\0init/\1\0\0\0\0\0\0\0"
#define RANK_KEY "\x17\0\0\0\0\0\0\0/default_pg/0//cpu//0/0"
#define NEW_KEY  "\x0f\0\0\0\0\0\0\0/default_pg/new"

static void apply_key(enum command_kind kind, struct slice key)
{
    struct command c = {.kind = kind, .key = key, .value = slice_str("v")};
    struct store_result r;

    engine_apply(&loop.server.engine, TAILQ_FIRST(&loop.server.engine.spaces), &c, &r);
    assert_int_equal(r.status, STORE_OK);
}

/* Its first client is answered when all old keys are gone; others are answered before. Keys that
 * come meanwhile stay, and the key at which the walk stands may go. */
static void keys_of_ranks_go_over_several_iterations(void **state)
{
    enum { KEYS = 20000 };
    struct keymap *keys;
    struct blob *at;
    int stays, rank, again;

    (void)state;
    open_loop(NULL);
    keys = keys_of_loop();
    stays = loop_connect_modern(&loop);
    loop_send(&loop, stays, TEXT(COUNT_ME));
    loop_expect(&loop, stays, "\1\0\0\0\0\0\0\0", 8);
    rank = loop_connect_modern(&loop);
    loop_send(&loop, rank, TEXT("\1" RANK_KEY ONE_MORE_V));
    loop_send(&loop, rank, TEXT(PING));
    loop_expect(&loop, rank, "abcd", 4);
    for (int i = 0; i < KEYS; i++) {
        char name[32];

        snprintf(name, sizeof name, "%s/%d", i % 4 == 3 ? "/other" : "/default_pg", i);
        apply_key(COMMAND_KEY_SET, slice_str(name));
    }
    loop_leave(&loop, rank);
    again = loop_connect_modern(&loop);
    tell(again, TEXT(COUNT_ME));
    LOOP_UNTIL(&loop, keys->sweep.next != NULL);
    assert_false(has_answer(again));
    at = blob_new(ACCOUNT_INPUT, entry_key(keys->sweep.next));
    apply_key(COMMAND_KEY_DELETE, blob_slice(at));
    blob_unref(at);
    tell(stays, TEXT("\1" NEW_KEY ONE_MORE_V));
    tell(stays, TEXT(PING));
    loop_expect(&loop, stays, "abcd", 4);
    assert_in_range(keys->present, KEYS / 2, KEYS);
    assert_false(has_answer(again));
    loop_expect(&loop, again, "\2\0\0\0\0\0\0\0", 8);
    assert_null(keys->sweep.next);
    assert_in_range(keys->present, KEYS / 4 + 1, KEYS / 4 + 2); /* and "init/", and the new key */
    assert_non_null(keymap_get(keys, slice_str("/default_pg/new")));
    assert_null(keymap_get(keys, slice_str("/default_pg/0//cpu//0/0")));
    loop_close(&loop);
}

static size_t count_due(void)
{
    const struct live_run *run;
    size_t count = 0;

    for (run = next_run(NULL); run != NULL; run = next_run(run))
        count += run->due.at_ns / 1000000 <= (int64_t)rendezvous()->ticked_ms;
    return count;
}

/* As if agents were in them: the next tick is for all runs. */
static void make_due(void)
{
    struct live_run *run;

    for (run = next_run(NULL); run != NULL; run = next_run(run))
        driver_set_due(run, 0);
}

/* A tick reaches all runs that are due, over several iterations. */
static void a_tick_takes_several_iterations(void **state)
{
    enum { RUNS = 1000, AT_A_TIME = 200 };

    (void)state;
    open_loop(NULL);
    make_runs(RUNS);
    make_due();
    rendezvous_tick(rendezvous());
    assert_int_equal(count_due(), RUNS - AT_A_TIME);
    rendezvous_forget(&next_run(NULL)->run.view);
    for (size_t due = count_due(); due > 0; due = count_due()) {
        loop_iterate(&loop);
        assert_in_range(count_due(), due < AT_A_TIME ? 0 : due - AT_A_TIME, due);
    }

    make_due();
    step_ns = 2000000; /* one run takes longer than an iteration */
    rendezvous_tick(rendezvous());
    assert_in_range(count_due(), RUNS - 3, RUNS - 1);
    step_ns = 0;
    loop_close(&loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_space_is_freed_over_several_iterations),
        cmocka_unit_test(ttls_end_over_several_iterations),
        cmocka_unit_test(a_request_with_many_keys_takes_several_iterations),
        cmocka_unit_test(a_request_with_many_keys_may_be_left),
        cmocka_unit_test(a_tick_takes_several_iterations),
        cmocka_unit_test(keys_of_ranks_go_over_several_iterations),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
