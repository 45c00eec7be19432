/* Runs: what is made of the values of torch's keys, which keys are whose, and what is done about
 * runs. */
#include "rdzv/rendezvous/run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "rdzv/rendezvous/run_apply.h"

#define COUNT(a)     (sizeof(a) / sizeof *(a))
#define RUN          "/torch.rendezvous.job"
#define COMMAND(...) ((struct command){__VA_ARGS__})

/* --- A server that is a store alone. --- */

static struct server server;
static struct server_space home;
static struct store *the_store;

void server_apply(struct server *s, struct space *space, const struct command *command,
                  struct store_result *out)
{
    store_execute(the_store, space, command, NULL, out);
    run_follow(s, space, command, out);
}

struct server_space *server_space_of(struct server *s, const struct space *space)
{
    (void)s;
    (void)space;
    return &home;
}

static struct space *open_store(struct store *s, size_t bytes_max)
{
    const struct store_options options = {.seed = 5, .space_bytes_max = bytes_max};

    store_init(s, &options);
    runs_init(&home.runs, 5);
    the_store = s;
    return store_space(s, "a");
}

static void close_store(struct store *s)
{
    runs_fini(&home.runs);
    store_fini(s);
}

static struct store_result apply(struct store *s, struct command c)
{
    struct store_result r;

    server_apply(&server, TAILQ_FIRST(&s->spaces), &c, &r);
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

static enum store_status open_worker_store(struct store *s)
{
    struct run *run = runs_find(&home.runs, slice_str(RUN));

    return run_open_worker_store(&server, TAILQ_FIRST(&s->spaces), run);
}

static struct run *find(struct space *space, const char *key)
{
    (void)space;
    return runs_find(&home.runs, slice_str(key));
}

/* --- From value to run. --- */

static void a_run_begins_with_the_sentinel(void **state)
{
    struct store s;
    struct space *space = open_store(&s, 0);
    struct run *run;

    (void)state;
    apply(&s, COMMAND(.kind = COMMAND_KEY_COMPARE_SET, .key = slice_str(RUN),
                      .value = slice_str("Y2FuaW1hZGFt")));
    run = find(space, RUN);
    assert_non_null(run);
    assert_true(slice_is(run->id, "job"));
    assert_false(run->known);
    assert_false(run->completed);
    assert_int_equal(run->workers, WORKER_STORE_UNKNOWN);
    assert_int_equal(run->worker_store, 0);

    set_state(&s, RUN, 2, false, false, 3);
    assert_true(run->known);
    assert_int_equal(run->state.round, 2);
    assert_int_equal(run->state.count, 3);
    assert_int_equal(run->before.count, 0);

    set_state(&s, RUN, 2, false, true, 1);
    assert_int_equal(run->before.count, 3);
    assert_true(run->state.closed && !run->before.closed);

    set(&s, RUN, slice_str("non_base64"));
    assert_false(run->known);
    assert_int_equal(run->state.count, 0);
    assert_int_equal(run->before.count, 1);
    assert_string_equal(get(space, RUN), "non_base64");
    close_store(&s);
}

static void what_is_no_state_makes_no_run(void **state)
{
    static const char *const values[] = {"", "non_base64", "1", "Y2FuaW1hZGFt\n", "Y2FuaW1hZGF"};
    struct store s;
    struct space *space = open_store(&s, 0);

    (void)state;
    for (size_t i = 0; i < COUNT(values); i++) {
        set(&s, RUN, slice_str(values[i]));
        assert_null(find(space, RUN));
        assert_string_equal(get(space, RUN), values[i]);
    }
    close_store(&s);
}

static void other_keys_make_no_run(void **state)
{
    static const char *const keys[] = {"torch.rendezvous.job", "/torch.rendezvous", "/x",
                                       "/Torch.rendezvous.job", "//torch.rendezvous.job"};
    struct store s;
    struct space *space = open_store(&s, 0);

    (void)state;
    for (size_t i = 0; i < COUNT(keys); i++) {
        set_state(&s, keys[i], 0, false, false, 1);
        assert_null(find(space, keys[i]));
        assert_false(run_is_agents_key(slice_str(keys[i])));
    }
    assert_true(TAILQ_EMPTY(&home.runs.list));
    close_store(&s);
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
    /* A worker's key of that name is a worker's, and plain. */
    set(&s, RUN, text);
    open_worker_store(&s);
    apply(&s, COMMAND(.kind = COMMAND_KEY_SET, .key = slice_str(RUN), .value = slice_str("no"),
                      .worker_store = 1));
    assert_true(find(space, RUN)->known);
    free((void *)(uintptr_t)text.ptr);
    close_store(&s);
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
    close_store(&s);
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
        run = runs_find_round(&home.runs, slice_str(key), &round, &rest);
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
        runs_find_round(&home.runs, slice_str("job.0/k"), &(int64_t){0}, &(struct slice){0}));
    close_store(&s);
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

        assert_ptr_equal(runs_find_round(&home.runs, (struct slice){key, len}, &round, &rest), run);
        assert_int_equal(round, rounds[i]);
        assert_true(slice_is(rest, "MASTER_ADDR"));
    }
    close_store(&s);
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
    open_worker_store(&s);
    assert_true(run_records_name(&space->runs, 1));
    assert_int_equal(run_forget(&server, space, find(space, RUN)), COUNT(gone) + 1);
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
    assert_false(run_records_name(&space->runs, 1));
    close_store(&s);
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

static enum store_status offer(const char *key, const char *value)
{
    return run_take_offer(&home.runs, slice_str(key), slice_str(value));
}

static enum store_status decide(struct store *s, enum worker_store_placement where,
                                const char *address, const char *port)
{
    return run_decide(&server, TAILQ_FIRST(&s->spaces), runs_find(&home.runs, slice_str(RUN)),
                      where, slice_str(address), slice_str(port));
}

static void what_agent_0_offers_is_told_to_nobody(void **state)
{
    struct store s;
    struct space *space = open_store(&s, 0);
    struct run *run;

    (void)state;
    assert_int_equal(offer(RUN ".0/MASTER_ADDR", "x"), STORE_ABSENT); /* no run */
    set_state(&s, RUN, 0, true, false, 2);
    run = find(space, RUN);
    assert_int_equal(offer(RUN ".0/MASTER_ADDR", "first"), STORE_OK);
    assert_int_equal(offer(RUN ".0/MASTER_ADDR", "host"), STORE_OK); /* the last one */
    assert_int_equal(offer(RUN ".0/MASTER_PORT", "1234"), STORE_OK);
    assert_int_equal(offer(RUN ".0/MASTER_PORTS", "1"), STORE_ABSENT);
    assert_int_equal(offer(RUN, "1"), STORE_ABSENT);
    assert_true(slice_is(blob_slice(run->offered[RUN_ADDR]), "host"));
    assert_true(slice_is(blob_slice(run->offered[RUN_PORT]), "1234"));
    assert_null(get(space, RUN ".0/MASTER_ADDR"));
    assert_int_equal(decide(&s, WORKER_STORE_RDZVD, "here", "1"), STORE_OK);
    assert_int_equal(offer(RUN ".0/MASTER_ADDR", "late"), STORE_ABSENT);
    assert_true(slice_is(blob_slice(run->offered[RUN_ADDR]), "host"));
    close_store(&s);
}

static void a_decision_writes_both_keys_and_wakes_who_waits(void **state)
{
    struct store s;
    struct space *space = open_store(&s, 0);
    struct waiter *a, *b;

    (void)state;
    set_state(&s, RUN, 3, true, false, 2);
    open_worker_store(&s);
    wait_for(space, RUN ".3/MASTER_ADDR", &a);
    wait_for(space, RUN ".3/MASTER_PORT", &b);
    assert_null(store_next_ready(&s));
    assert_int_equal(decide(&s, WORKER_STORE_RDZVD, "here", "1"), STORE_OK);
    assert_ptr_equal(store_next_ready(&s), &a->wake);
    assert_ptr_equal(store_next_ready(&s), &b->wake);
    keymap_cancel(&space->keys, a);
    keymap_cancel(&space->keys, b);
    assert_string_equal(get(space, RUN ".3/MASTER_ADDR"), "here");
    assert_string_equal(get(space, RUN ".3/MASTER_PORT"), "1");
    assert_int_equal(find(space, RUN)->workers, WORKER_STORE_RDZVD);

    /* The next round is told with its worker store, before anybody asks. */
    set_state(&s, RUN, 4, false, false, 1);
    wait_for(space, RUN ".4/MASTER_ADDR", &a);
    set_state(&s, RUN, 4, true, false, 2);
    assert_null(store_next_ready(&s));
    open_worker_store(&s);
    assert_ptr_equal(store_next_ready(&s), &a->wake);
    keymap_cancel(&space->keys, a);
    assert_string_equal(get(space, RUN ".4/MASTER_PORT"), "1");
    close_store(&s);
}

static void agent_0s_own_store_is_told_as_it_was_offered(void **state)
{
    struct store s;
    struct space *space = open_store(&s, 0);

    (void)state;
    set_state(&s, RUN, 0, true, false, 2);
    open_worker_store(&s);
    offer(RUN ".0/MASTER_ADDR", "host");
    offer(RUN ".0/MASTER_PORT", "1234");
    assert_int_equal(decide(&s, WORKER_STORE_WORKER0, "", ""), STORE_OK);
    assert_string_equal(get(space, RUN ".0/MASTER_ADDR"), "host");
    assert_string_equal(get(space, RUN ".0/MASTER_PORT"), "1234");
    assert_int_equal(find(space, RUN)->worker_store, 0);
    assert_false(run_records_name(&space->runs, 1));
    close_store(&s);
}

static void without_an_offer_or_a_round_nothing_is_told(void **state)
{
    struct store s;
    struct space *space = open_store(&s, 0);

    (void)state;
    set_state(&s, RUN, 0, false, false, 2);
    assert_int_equal(open_worker_store(&s), STORE_ABSENT);
    assert_int_equal(decide(&s, WORKER_STORE_RDZVD, "here", "1"), STORE_OK);
    assert_int_equal(space->keys.present, 1);
    set_state(&s, RUN, 0, true, false, 2);
    assert_int_equal(decide(&s, WORKER_STORE_WORKER0, "", ""), STORE_OK);
    assert_int_equal(space->keys.present, 1);
    close_store(&s);
}

static void each_round_has_a_store_and_only_the_newest_is_named(void **state)
{
    struct store s;
    struct space *space = open_store(&s, 0);
    struct run *run;

    (void)state;
    set_state(&s, RUN, 0, true, false, 2);
    run = find(space, RUN);
    for (uint64_t id = 1; id < 5; id++) {
        assert_int_equal(open_worker_store(&s), STORE_OK);
        assert_int_equal(run->worker_store, id);
        for (uint64_t k = 1; k <= id; k++)
            assert_int_equal(run_records_name(&space->runs, k), k == id);
    }
    assert_int_equal(
        apply(&s, COMMAND(.kind = COMMAND_WORKER_STORE_DROP, .worker_store = 4)).status,
        STORE_IN_USE);
    assert_int_equal(
        apply(&s, COMMAND(.kind = COMMAND_WORKER_STORE_DROP, .worker_store = 2)).status, STORE_OK);
    assert_int_equal(
        apply(&s, COMMAND(.kind = COMMAND_WORKER_STORE_DROP, .worker_store = 2)).status,
        STORE_ABSENT);
    assert_int_equal(
        apply(&s, COMMAND(.kind = COMMAND_WORKER_STORE_DROP, .worker_store = 0)).status,
        STORE_ABSENT);
    assert_int_equal(
        apply(&s, COMMAND(.kind = COMMAND_KEY_SET, .key = slice_str("/k"), .worker_store = 2))
            .status,
        STORE_ABSENT);
    apply(&s, COMMAND(.kind = COMMAND_KEY_DELETE, .key = slice_str(RUN)));
    assert_false(run_records_name(&space->runs, 4));
    close_store(&s);
}

/* --- When there is no room. --- */

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
        enum store_status r;

        set_state(&s, RUN, 0, true, false, 2);
        leave_room(&s, space, left);
        r = decide(&s, WORKER_STORE_RDZVD, "here", "1");
        assert_int_equal(get(space, RUN ".0/MASTER_ADDR") != NULL, r == STORE_OK);
        assert_int_equal(get(space, RUN ".0/MASTER_PORT") != NULL, r == STORE_OK);
        assert_int_equal(find(space, RUN)->workers,
                         r == STORE_OK ? WORKER_STORE_RDZVD : WORKER_STORE_UNKNOWN);
        if (r == STORE_OK) {
            set_state(&s, RUN, 1, true, false, 2);
            leave_room(&s, space, left / 2);
            r = open_worker_store(&s);
            assert_int_equal(find(space, RUN)->worker_store != 0, r == STORE_OK);
            assert_int_equal(space->worker_stores.count, r == STORE_OK);
            assert_int_equal(get(space, RUN ".1/MASTER_PORT") != NULL, r == STORE_OK);
        }
        was_full = was_full || r == STORE_FULL;
        had_room = had_room || r == STORE_OK;
        close_store(&s);
    }
    assert_true(was_full && had_room);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_begins_with_the_sentinel),
        cmocka_unit_test(what_is_no_state_makes_no_run),
        cmocka_unit_test(other_keys_make_no_run),
        cmocka_unit_test(all_ways_to_change_a_value_count),
        cmocka_unit_test(the_latest_completed_round_is_kept_as_it_was),
        cmocka_unit_test(rounds_keys_are_found_whatever_the_id),
        cmocka_unit_test(a_rounds_key_is_written_as_it_is_read),
        cmocka_unit_test(forgetting_takes_the_runs_keys_and_no_others),
        cmocka_unit_test(what_agent_0_offers_is_told_to_nobody),
        cmocka_unit_test(a_decision_writes_both_keys_and_wakes_who_waits),
        cmocka_unit_test(agent_0s_own_store_is_told_as_it_was_offered),
        cmocka_unit_test(without_an_offer_or_a_round_nothing_is_told),
        cmocka_unit_test(each_round_has_a_store_and_only_the_newest_is_named),
        cmocka_unit_test(a_full_space_is_told_of_both_keys_or_of_none),
    };

    return cmocka_run_group_tests_name("rdzv/run", tests, NULL, NULL);
}
