/* Runs: what the store makes of the values of torch's keys, which keys are whose, and what the
 * commands of runs leave behind. */
#include "store/run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "store/store.h"

#define COUNT(a)     (sizeof(a) / sizeof *(a))
#define RUN          "/torch.rendezvous.job"
#define COMMAND(...) ((struct command){__VA_ARGS__})

/* --- Memory that is short when a test wants it so. --- */

static long fail_at = -1; /* which allocation from now on gets none; below 0: none of them */

void *__wrap_malloc(size_t size);
void *__real_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__real_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_reallocarray(void *old, size_t count, size_t size);
void *__real_reallocarray(void *old, size_t count, size_t size);

static bool is_short(void)
{
    return fail_at >= 0 && fail_at-- == 0;
}

void *__wrap_malloc(size_t size)
{
    return is_short() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return is_short() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return is_short() ? NULL : __real_realloc(old, size);
}

void *__wrap_reallocarray(void *old, size_t count, size_t size)
{
    return is_short() ? NULL : __real_reallocarray(old, count, size);
}

/* --- A store. --- */

static size_t written; /* commands that were written down */

static void note(void *to, const struct space *space, const struct command *c)
{
    (void)to;
    (void)space;
    (void)c;
    written++;
}

static struct space *open_store(struct store *s, size_t bytes_max)
{
    const struct store_options options = {
        .seed = 5, .space_bytes_max = bytes_max, .knows_runs = true, .sink = {.add = note}};

    store_init(s, &options);
    return store_space(s, "a");
}

static struct store_result apply(struct store *s, struct command c)
{
    struct store_result r;
    size_t before = written;

    store_apply(s, TAILQ_FIRST(&s->spaces), &c, &r);
    if (command_is_run(c.kind))
        assert_int_equal(written - before, r.status == STORE_OK);
    return r;
}

static struct store_result set(struct store *s, const char *key, struct slice value)
{
    return apply(s, COMMAND(.kind = COMMAND_KEY_SET, .key = slice_str(key), .value = value));
}

static const char *get(struct space *space, const char *key)
{
    static char text[4096];
    const struct blob *b = keymap_get(&space->keys, slice_str(key));

    if (b == NULL)
        return NULL;
    assert_in_range(b->len, 0, sizeof text - 1);
    memcpy(text, b->bytes, b->len);
    text[b->len] = '\0';
    return text;
}

/* The text of a state of round `round` with `count` participants; the caller frees it. */
static struct slice state_text(int64_t round, bool complete, bool closed, size_t count)
{
    struct torch_state s = {.round = round,
                            .complete = complete,
                            .closed = closed,
                            .aware = true,
                            .has_redundancy = true,
                            .protocol = 4};
    uint8_t *text;
    size_t len;

    for (size_t i = 0; i < count; i++) {
        struct torch_node who = {.addr = slice_str("node"),
                                 .pid = (int64_t)i,
                                 .participant = true,
                                 .rank = complete ? (int64_t)i : 0,
                                 .has_heartbeat = true,
                                 .heartbeat_us = INT64_C(1800000000000000)};
        struct torch_node *at;

        assert_true(torch_state_insert(&s, &who, &at));
    }
    assert_true(torch_state_write(&s, &text, &len));
    torch_state_free(&s);
    return (struct slice){text, len};
}

static struct store_result set_state(struct store *s, const char *key, int64_t round, bool complete,
                                     bool closed, size_t count)
{
    struct slice text = state_text(round, complete, closed, count);
    struct store_result r = set(s, key, text);

    free((void *)(uintptr_t)text.ptr);
    return r;
}

static struct run *find(struct space *space, const char *key)
{
    return runs_find(&space->runs, slice_str(key));
}

/* --- From value to run. --- */

static void a_run_begins_with_the_sentinel(void **state)
{
    struct store s;
    struct space *space = open_store(&s, 0);
    struct store_result r;
    struct run *run;

    (void)state;
    r = apply(&s, COMMAND(.kind = COMMAND_KEY_COMPARE_SET, .key = slice_str(RUN),
                          .value = slice_str("Y2FuaW1hZGFt")));
    run = find(space, RUN);
    assert_non_null(run);
    assert_ptr_equal(r.run, run);
    assert_true(slice_is(run->id, "job"));
    assert_false(run->known);
    assert_false(run->completed);
    assert_int_equal(run->workers, RUN_UNDECIDED);
    assert_null(run->world);

    r = set_state(&s, RUN, 2, false, false, 3);
    assert_ptr_equal(r.run, run);
    assert_true(run->known);
    assert_int_equal(run->state.round, 2);
    assert_int_equal(run->state.count, 3);
    assert_int_equal(run->before.count, 0);

    set_state(&s, RUN, 2, false, true, 1);
    assert_int_equal(run->before.count, 3);
    assert_true(run->state.closed && !run->before.closed);

    r = set(&s, RUN, slice_str("non_base64"));
    assert_ptr_equal(r.run, run);
    assert_false(run->known);
    assert_int_equal(run->state.count, 0);
    assert_int_equal(run->before.count, 1);
    assert_string_equal(get(space, RUN), "non_base64");
    store_fini(&s);
}

static void what_is_no_state_makes_no_run(void **state)
{
    static const char *const values[] = {"", "non_base64", "1", "Y2FuaW1hZGFt\n", "Y2FuaW1hZGF"};
    struct store s;
    struct space *space = open_store(&s, 0);

    (void)state;
    for (size_t i = 0; i < COUNT(values); i++) {
        assert_null(set(&s, RUN, slice_str(values[i])).run);
        assert_null(find(space, RUN));
        assert_string_equal(get(space, RUN), values[i]);
    }
    store_fini(&s);
}

static void other_keys_make_no_run(void **state)
{
    static const char *const keys[] = {"torch.rendezvous.job", "/torch.rendezvous", "/x",
                                       "/Torch.rendezvous.job", "//torch.rendezvous.job"};
    struct store s;
    struct space *space = open_store(&s, 0);

    (void)state;
    for (size_t i = 0; i < COUNT(keys); i++) {
        assert_null(set_state(&s, keys[i], 0, false, false, 1).run);
        assert_null(find(space, keys[i]));
        assert_false(run_is_agents_key(slice_str(keys[i])));
    }
    assert_true(TAILQ_EMPTY(&space->runs.list));
    store_fini(&s);
}

static void without_knowing_runs_there_are_none(void **state)
{
    const struct store_options options = {.seed = 5, .sink = {.add = note}};
    struct store s;

    (void)state;
    store_init(&s, &options);
    store_space(&s, "a");
    assert_null(set_state(&s, RUN, 0, true, false, 2).run);
    assert_null(find(TAILQ_FIRST(&s.spaces), RUN));
    assert_int_equal(apply(&s, COMMAND(.kind = COMMAND_RUN_WORLD, .key = slice_str(RUN))).status,
                     STORE_ABSENT);
    store_fini(&s);
}

/* Every command that can change a value is looked at. */
static void all_ways_to_change_a_value_count(void **state)
{
    static const uint8_t empty[8] = {0};
    struct slice text = state_text(4, true, false, 2);
    uint8_t pairs[4096];
    struct writer w = {.ptr = pairs, .cap = sizeof pairs};
    uint8_t len[8];
    struct store s;
    struct space *space = open_store(&s, 0);

    (void)state;
    bytes_put_u64(len, strlen(RUN));
    writer_put(&w, len, 8);
    writer_str(&w, RUN);
    bytes_put_u64(len, text.len);
    writer_put(&w, len, 8);
    writer_slice(&w, text);
    bytes_put_u64(len, 2);
    writer_put(&w, len, 8);
    writer_str(&w, "/k");
    writer_put(&w, empty, 8);
    apply(&s, COMMAND(.kind = COMMAND_KEY_MULTI_SET, .items = {pairs, w.len}));
    assert_true(find(space, RUN)->completed);
    apply(&s, COMMAND(.kind = COMMAND_KEY_APPEND, .key = slice_str(RUN), .value = slice_str("x")));
    assert_false(find(space, RUN)->known);
    apply(&s, COMMAND(.kind = COMMAND_KEY_DELETE, .key = slice_str(RUN)));
    assert_null(find(space, RUN));
    apply(&s, COMMAND(.kind = COMMAND_KEY_APPEND, .key = slice_str(RUN), .value = text));
    assert_true(find(space, RUN)->known);
    apply(&s, COMMAND(.kind = COMMAND_KEY_COMPARE_SET, .key = slice_str(RUN), .expected = text,
                      .value = slice_str("no")));
    assert_false(find(space, RUN)->known);
    /* A world's key of that name is a worker's, and plain. */
    set(&s, RUN, text);
    apply(&s, COMMAND(.kind = COMMAND_RUN_WORLD, .key = slice_str(RUN)));
    apply(&s, COMMAND(.kind = COMMAND_KEY_SET, .key = slice_str(RUN), .value = slice_str("no"),
                      .world = 1));
    assert_true(find(space, RUN)->known);
    free((void *)(uintptr_t)text.ptr);
    store_fini(&s);
}

static void the_latest_completed_round_is_kept_as_it_was(void **state)
{
    struct store s;
    struct space *space = open_store(&s, 0);
    struct run *run;

    (void)state;
    set_state(&s, RUN, 0, false, false, 3);
    run = find(space, RUN);
    assert_false(run->completed);
    set_state(&s, RUN, 0, true, false, 3);
    assert_true(run->completed);
    assert_int_equal(run->world_then.count, 3);
    set_state(&s, RUN, 0, true, false, 2); /* somebody has left since */
    assert_int_equal(run->state.count, 2);
    assert_int_equal(run->world_then.count, 3);
    set_state(&s, RUN, 1, false, false, 1);
    assert_int_equal(run->world_then.round, 0);
    set_state(&s, RUN, 1, true, false, 5);
    assert_int_equal(run->world_then.round, 1);
    assert_int_equal(run->world_then.count, 5);
    set_state(&s, RUN, 2, true, false, 4); /* a round that was never seen open */
    assert_int_equal(run->world_then.round, 2);
    store_fini(&s);
}

/* --- Whose key is it? --- */

static void rounds_keys_are_found_whatever_the_id(void **state)
{
    static const char *const ids[] = {"job", "job.1", "job.1/x", "7", "", "a/b.2/c", "."};
    static const struct {
        const char *key, *id, *rest; /* id NULL: nobody's */
        int64_t round;
    } rows[] = {
        {"job.0/MASTER_ADDR", "job", "MASTER_ADDR", 0},
        {"job.12/a/b", "job", "a/b", 12},
        {"job.12/", "job", "", 12},
        {"job.1.3/k", "job.1", "k", 3},
        {"job.1/k", "job", "k", 1},
        {"job.1/x.5/k", "job.1/x", "k", 5},
        {"job.1/y.5/k", "job", "y.5/k", 1},
        {"7.7/7.7/7", "7", "7.7/7", 7},
        {".4/k", "", "k", 4},
        {"..4/k", ".", "k", 4},
        {"a/b.2/c.0/k", "a/b.2/c", "k", 0},
        {"job.007/k", "job", "k", 7},
        {"job.9223372036854775807/k", "job", "k", INT64_MAX},
        {"job.9223372036854775808/k", NULL, NULL, 0},
        {"job.-1/k", NULL, NULL, 0},
        {"job./k", NULL, NULL, 0},
        {"job.1", NULL, NULL, 0},
        {"job.1x/k", NULL, NULL, 0},
        {"job1/k", NULL, NULL, 0},
        {"other.1/k", NULL, NULL, 0},
        {"/", NULL, NULL, 0},
    };
    struct store s;
    struct space *space = open_store(&s, 0);
    char key[128];

    (void)state;
    for (size_t i = 0; i < COUNT(ids); i++) {
        snprintf(key, sizeof key, RUN_PREFIX "%s", ids[i]);
        set_state(&s, key, 0, false, false, 1);
        assert_true(slice_is(find(space, key)->id, ids[i]));
    }
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct slice rest = {0};
        int64_t round = -7;
        struct run *run;

        snprintf(key, sizeof key, RUN_PREFIX "%s", rows[i].key);
        run = runs_find_round(&space->runs, slice_str(key), &round, &rest);
        if ((run == NULL) != (rows[i].id == NULL))
            fail_msg("%s is %s", key, run == NULL ? "nobody's" : "somebody's");
        if (run == NULL) {
            assert_int_equal(round, -7);
            continue;
        }
        if (!slice_is(run->id, rows[i].id) || !slice_is(rest, rows[i].rest) ||
            round != rows[i].round)
            fail_msg("%s is of %.*s, round %lld", key, (int)run->id.len, (const char *)run->id.ptr,
                     (long long)round);
    }
    assert_null(
        runs_find_round(&space->runs, slice_str("job.0/k"), &(int64_t){0}, &(struct slice){0}));
    store_fini(&s);
}

static void a_rounds_key_is_written_as_it_is_read(void **state)
{
    static const int64_t rounds[] = {0, 1, 99, INT64_MAX};
    struct store s;
    struct space *space = open_store(&s, 0);
    struct run *run;

    (void)state;
    set_state(&s, RUN, 0, false, false, 1);
    run = find(space, RUN);
    for (size_t i = 0; i < COUNT(rounds); i++) {
        uint8_t key[sizeof RUN - 1 + RUN_KEY_ROOM];
        size_t len = run_round_key(run, rounds[i], "MASTER_ADDR", key);
        struct slice rest;
        int64_t round;

        assert_ptr_equal(runs_find_round(&space->runs, (struct slice){key, len}, &round, &rest),
                         run);
        assert_int_equal(round, rounds[i]);
        assert_true(slice_is(rest, "MASTER_ADDR"));
    }
    store_fini(&s);
}

static void forgetting_takes_the_runs_keys_and_no_others(void **state)
{
    static const char *const gone[] = {RUN ".0/MASTER_ADDR", RUN ".0/a/b", RUN ".31/k"};
    static const char *const kept[] = {RUN "2",    RUN "2.0/k",         RUN ".0",
                                       RUN ".x/k", RUN ".0/r",          RUN ".0/r.0/k",
                                       "/k",       "/torch.rendezvous", RUN ".5/q"};
    struct store s;
    struct space *space = open_store(&s, 0);

    (void)state;
    set_state(&s, RUN, 0, true, true, 1);
    set_state(&s, RUN "2", 0, true, false, 1);    /* these are runs too */
    set_state(&s, RUN ".0/r", 0, true, false, 1); /* and this looks like a key of the first */
    for (size_t i = 0; i < COUNT(gone); i++)
        set(&s, gone[i], slice_str("v"));
    for (size_t i = 0; i < COUNT(kept); i++) {
        if (find(space, kept[i]) == NULL)
            set(&s, kept[i], slice_str("v"));
    }
    apply(&s, COMMAND(.kind = COMMAND_KEY_DELETE, .key = slice_str(RUN ".5/q")));
    apply(&s, COMMAND(.kind = COMMAND_QUEUE_PUSH, .key = slice_str(RUN ".5/q"),
                      .value = slice_str("v"))); /* torch's agents have no queues */
    apply(&s, COMMAND(.kind = COMMAND_RUN_WORLD, .key = slice_str(RUN)));
    assert_true(find(space, RUN)->world->current);
    assert_int_equal(apply(&s, COMMAND(.kind = COMMAND_RUN_FORGET, .key = slice_str(RUN))).count,
                     COUNT(gone) + 1);
    assert_null(find(space, RUN));
    assert_null(get(space, RUN));
    for (size_t i = 0; i < COUNT(gone); i++)
        assert_null(get(space, gone[i]));
    for (size_t i = 0; i < COUNT(kept); i++) {
        if (!keymap_exists(&space->keys, slice_str(kept[i])))
            fail_msg("%s is gone", kept[i]);
    }
    assert_non_null(find(space, RUN "2"));
    assert_non_null(find(space, RUN ".0/r"));
    assert_false(worlds_find(&space->worlds, 1)->current);
    assert_int_equal(apply(&s, COMMAND(.kind = COMMAND_RUN_FORGET, .key = slice_str(RUN))).status,
                     STORE_ABSENT);
    store_fini(&s);
}

/* --- Where the workers' store is. --- */

static void wait_for(struct space *space, const char *key, struct waiter **waiter)
{
    uint8_t blob[128];
    size_t len = strlen(key);

    bytes_put_u64(blob, len);
    memcpy(blob + 8, key, len);
    assert_int_equal(keymap_wait(&space->keys, (struct slice){blob, 8 + len}, 1, NULL, waiter),
                     STORE_OK);
    assert_non_null(*waiter);
}

static struct store_result offer(struct store *s, const char *key, const char *value)
{
    return apply(
        s, COMMAND(.kind = COMMAND_RUN_OFFER, .key = slice_str(key), .value = slice_str(value)));
}

static struct store_result decide(struct store *s, enum run_workers where, const char *address,
                                  const char *port)
{
    return apply(s, COMMAND(.kind = COMMAND_RUN_WORKERS, .key = slice_str(RUN), .number = where,
                            .value = slice_str(address), .expected = slice_str(port)));
}

static void what_agent_0_offers_is_told_to_nobody(void **state)
{
    struct store s;
    struct space *space = open_store(&s, 0);
    struct run *run;

    (void)state;
    assert_int_equal(offer(&s, RUN ".0/MASTER_ADDR", "x").status, STORE_ABSENT); /* no run */
    set_state(&s, RUN, 0, true, false, 2);
    run = find(space, RUN);
    assert_int_equal(offer(&s, RUN ".0/MASTER_ADDR", "first").status, STORE_OK);
    assert_int_equal(offer(&s, RUN ".0/MASTER_ADDR", "host").status, STORE_OK); /* the last one */
    assert_int_equal(offer(&s, RUN ".0/MASTER_PORT", "1234").status, STORE_OK);
    assert_int_equal(offer(&s, RUN ".0/MASTER_PORTS", "1").status, STORE_ABSENT);
    assert_int_equal(offer(&s, RUN, "1").status, STORE_ABSENT);
    assert_true(slice_is(blob_slice(run->offered[RUN_ADDR]), "host"));
    assert_true(slice_is(blob_slice(run->offered[RUN_PORT]), "1234"));
    assert_null(get(space, RUN ".0/MASTER_ADDR"));
    assert_int_equal(decide(&s, RUN_HERE, "here", "1").status, STORE_OK);
    assert_int_equal(offer(&s, RUN ".0/MASTER_ADDR", "late").status, STORE_ABSENT);
    assert_true(slice_is(blob_slice(run->offered[RUN_ADDR]), "host"));
    store_fini(&s);
}

static void a_decision_writes_both_keys_and_wakes_who_waits(void **state)
{
    struct store s;
    struct space *space = open_store(&s, 0);
    struct waiter *a, *b;

    (void)state;
    assert_int_equal(decide(&s, RUN_HERE, "here", "1").status, STORE_ABSENT);
    set_state(&s, RUN, 3, true, false, 2);
    apply(&s, COMMAND(.kind = COMMAND_RUN_WORLD, .key = slice_str(RUN)));
    wait_for(space, RUN ".3/MASTER_ADDR", &a);
    wait_for(space, RUN ".3/MASTER_PORT", &b);
    assert_null(store_next_ready(&s));
    assert_int_equal(decide(&s, RUN_HERE, "here", "1").status, STORE_OK);
    assert_ptr_equal(store_next_ready(&s), &a->wake);
    assert_ptr_equal(store_next_ready(&s), &b->wake);
    keymap_cancel(&space->keys, a);
    keymap_cancel(&space->keys, b);
    assert_string_equal(get(space, RUN ".3/MASTER_ADDR"), "here");
    assert_string_equal(get(space, RUN ".3/MASTER_PORT"), "1");
    assert_int_equal(find(space, RUN)->workers, RUN_HERE);

    /* The next round is told with its world, before anybody asks. */
    set_state(&s, RUN, 4, false, false, 1);
    wait_for(space, RUN ".4/MASTER_ADDR", &a);
    set_state(&s, RUN, 4, true, false, 2);
    assert_null(store_next_ready(&s));
    apply(&s, COMMAND(.kind = COMMAND_RUN_WORLD, .key = slice_str(RUN)));
    assert_ptr_equal(store_next_ready(&s), &a->wake);
    keymap_cancel(&space->keys, a);
    assert_string_equal(get(space, RUN ".4/MASTER_PORT"), "1");
    store_fini(&s);
}

static void agent_0s_own_store_is_told_as_it_was_offered(void **state)
{
    struct store s;
    struct space *space = open_store(&s, 0);

    (void)state;
    set_state(&s, RUN, 0, true, false, 2);
    apply(&s, COMMAND(.kind = COMMAND_RUN_WORLD, .key = slice_str(RUN)));
    offer(&s, RUN ".0/MASTER_ADDR", "host");
    offer(&s, RUN ".0/MASTER_PORT", "1234");
    assert_int_equal(decide(&s, RUN_OWN_STORE, "", "").status, STORE_OK);
    assert_string_equal(get(space, RUN ".0/MASTER_ADDR"), "host");
    assert_string_equal(get(space, RUN ".0/MASTER_PORT"), "1234");
    assert_null(find(space, RUN)->world);
    assert_false(worlds_find(&space->worlds, 1)->current);
    store_fini(&s);
}

static void without_an_offer_or_a_round_nothing_is_told(void **state)
{
    struct store s;
    struct space *space = open_store(&s, 0);

    (void)state;
    set_state(&s, RUN, 0, false, false, 2);
    assert_int_equal(apply(&s, COMMAND(.kind = COMMAND_RUN_WORLD, .key = slice_str(RUN))).status,
                     STORE_ABSENT);
    assert_int_equal(decide(&s, RUN_HERE, "here", "1").status, STORE_OK);
    assert_int_equal(space->keys.present, 1);
    set_state(&s, RUN, 0, true, false, 2);
    assert_int_equal(decide(&s, RUN_OWN_STORE, "", "").status, STORE_OK);
    assert_int_equal(space->keys.present, 1);
    store_fini(&s);
}

static void each_round_has_a_world_and_only_the_newest_is_current(void **state)
{
    struct store s;
    struct space *space = open_store(&s, 0);
    struct run *run;

    (void)state;
    set_state(&s, RUN, 0, true, false, 2);
    run = find(space, RUN);
    for (uint64_t id = 1; id < 5; id++) {
        assert_int_equal(
            apply(&s, COMMAND(.kind = COMMAND_RUN_WORLD, .key = slice_str(RUN))).status, STORE_OK);
        assert_int_equal(run->world->id, id);
        for (uint64_t k = 1; k <= id; k++)
            assert_int_equal(worlds_find(&space->worlds, k)->current, k == id);
    }
    assert_int_equal(apply(&s, COMMAND(.kind = COMMAND_WORLD_FORGET, .world = 4)).status,
                     STORE_ABSENT); /* it is current */
    assert_int_equal(apply(&s, COMMAND(.kind = COMMAND_WORLD_FORGET, .world = 2)).status, STORE_OK);
    assert_int_equal(apply(&s, COMMAND(.kind = COMMAND_WORLD_FORGET, .world = 2)).status,
                     STORE_ABSENT);
    assert_int_equal(apply(&s, COMMAND(.kind = COMMAND_WORLD_FORGET, .world = 0)).status,
                     STORE_ABSENT);
    assert_int_equal(
        apply(&s, COMMAND(.kind = COMMAND_KEY_SET, .key = slice_str("/k"), .world = 2)).status,
        STORE_ABSENT);
    apply(&s, COMMAND(.kind = COMMAND_KEY_DELETE, .key = slice_str(RUN)));
    assert_false(worlds_find(&space->worlds, 4)->current);
    store_fini(&s);
}

/* --- When there is no room, or no memory. --- */

/* Fills the space so that `left` bytes are free. */
static void leave_room(struct store *s, struct space *space, size_t left)
{
    static uint8_t filling[1 << 16];

    set(s, "/fill", (struct slice){0});
    assert_int_equal(
        set(s, "/fill",
            (struct slice){filling, s->options.space_bytes_max - space->keys.bytes - left})
            .status,
        STORE_OK);
    assert_int_equal(space->keys.bytes, s->options.space_bytes_max - left);
}

static void a_full_space_is_told_of_both_keys_or_of_none(void **state)
{
    bool was_full = false, had_room = false;

    (void)state;
    for (size_t left = 0; left < 1000; left += 10) {
        struct store s;
        struct space *space = open_store(&s, 8000);
        struct store_result r;

        set_state(&s, RUN, 0, true, false, 2);
        leave_room(&s, space, left);
        r = decide(&s, RUN_HERE, "here", "1");
        assert_int_equal(get(space, RUN ".0/MASTER_ADDR") != NULL, r.status == STORE_OK);
        assert_int_equal(get(space, RUN ".0/MASTER_PORT") != NULL, r.status == STORE_OK);
        assert_int_equal(find(space, RUN)->workers,
                         r.status == STORE_OK ? RUN_HERE : RUN_UNDECIDED);
        if (r.status == STORE_OK) {
            set_state(&s, RUN, 1, true, false, 2);
            leave_room(&s, space, left / 2);
            r = apply(&s, COMMAND(.kind = COMMAND_RUN_WORLD, .key = slice_str(RUN)));
            assert_int_equal(find(space, RUN)->world != NULL, r.status == STORE_OK);
            assert_int_equal(space->worlds.last_id, r.status == STORE_OK);
            assert_int_equal(get(space, RUN ".1/MASTER_PORT") != NULL, r.status == STORE_OK);
        }
        was_full = was_full || r.status == STORE_FULL;
        had_room = had_room || r.status == STORE_OK;
        store_fini(&s);
    }
    assert_true(was_full && had_room);
}

/* Whichever allocation gets none, a command changes all that it says or nothing, and the next one
 * works. */
static void commands_short_of_memory_change_nothing(void **state)
{
    struct slice text = state_text(0, true, false, 2);
    static const enum command_kind kinds[] = {COMMAND_RUN_OFFER, COMMAND_RUN_WORKERS,
                                              COMMAND_RUN_WORLD, COMMAND_KEY_SET};

    (void)state;
    for (size_t i = 0; i < COUNT(kinds); i++) {
        long failures = 0;

        for (bool done = false; !done; failures++) {
            struct store s;
            struct space *space = open_store(&s, 0);
            struct command c = {.kind = kinds[i],
                                .key = slice_str(RUN),
                                .number = RUN_HERE,
                                .value = slice_str("here"),
                                .expected = slice_str("1")};
            struct store_result r;
            struct run *run;

            set(&s, RUN "2", text); /* a table without memory for its first array ends it all */
            if (kinds[i] != COMMAND_KEY_SET)
                set(&s, RUN, text);
            if (kinds[i] == COMMAND_RUN_OFFER)
                c.key = slice_str(RUN ".0/MASTER_ADDR");
            if (kinds[i] == COMMAND_RUN_WORLD)
                decide(&s, RUN_HERE, "here", "1");
            if (kinds[i] == COMMAND_KEY_SET)
                c.value = text;
            fail_at = failures;
            r = apply(&s, c);
            done = fail_at >= 0; /* as many were not needed */
            fail_at = -1;
            run = find(space, RUN);
            if (kinds[i] == COMMAND_KEY_SET) { /* the key works, even if nobody looks after it */
                assert_int_equal(get(space, RUN) != NULL, r.status == STORE_OK);
                assert_true(run == NULL || r.status == STORE_OK);
                assert_true(!done || (run != NULL && run->known && run->completed));
            } else {
                assert_int_equal(r.status, done ? STORE_OK : STORE_NO_MEMORY);
                assert_int_equal(run->offered[RUN_ADDR] != NULL,
                                 done && kinds[i] == COMMAND_RUN_OFFER);
                assert_int_equal(run->world != NULL, done && kinds[i] == COMMAND_RUN_WORLD);
                assert_int_equal(space->worlds.last_id, done && kinds[i] == COMMAND_RUN_WORLD);
                assert_int_equal(get(space, RUN ".0/MASTER_PORT") != NULL,
                                 kinds[i] == COMMAND_RUN_WORLD ||
                                     (done && kinds[i] == COMMAND_RUN_WORKERS));
            }
            set_state(&s, RUN, 1, true, false, 1);
            assert_int_equal(find(space, RUN)->world_then.round, 1);
            store_fini(&s);
        }
        assert_in_range(failures, 2, 1000);
    }
    free((void *)(uintptr_t)text.ptr);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_begins_with_the_sentinel),
        cmocka_unit_test(what_is_no_state_makes_no_run),
        cmocka_unit_test(other_keys_make_no_run),
        cmocka_unit_test(without_knowing_runs_there_are_none),
        cmocka_unit_test(all_ways_to_change_a_value_count),
        cmocka_unit_test(the_latest_completed_round_is_kept_as_it_was),
        cmocka_unit_test(rounds_keys_are_found_whatever_the_id),
        cmocka_unit_test(a_rounds_key_is_written_as_it_is_read),
        cmocka_unit_test(forgetting_takes_the_runs_keys_and_no_others),
        cmocka_unit_test(what_agent_0_offers_is_told_to_nobody),
        cmocka_unit_test(a_decision_writes_both_keys_and_wakes_who_waits),
        cmocka_unit_test(agent_0s_own_store_is_told_as_it_was_offered),
        cmocka_unit_test(without_an_offer_or_a_round_nothing_is_told),
        cmocka_unit_test(each_round_has_a_world_and_only_the_newest_is_current),
        cmocka_unit_test(a_full_space_is_told_of_both_keys_or_of_none),
        cmocka_unit_test(commands_short_of_memory_change_nothing),
    };

    return cmocka_run_group_tests_name("store/run", tests, NULL, NULL);
}
