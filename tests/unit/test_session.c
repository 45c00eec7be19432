/* Sessions of relays: a store that is restarted from its journal or a snapshot has the same
 * sessions as before; a barrier counts a session once, and lets it through once it has opened,
 * whatever came in between; and what was prepared cannot fail. */
#include "store/session/session.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "rdzv/engine/engine.h"
#include "rdzv/engine/recovery.h"
#include "store/snapshot.h"
#include "tests/sim/dump.h"
#include "tests/support/refused_memory.h"
#include "tests/support/sanitized.h"

#define COUNT(a) (sizeof(a) / sizeof(a)[0])
#define NAME     "default"

/* --- An engine, its journal, and its starts. --- */

static struct {
    uint8_t *bytes[2000];
    size_t lens[2000];
    size_t count;
} journal;

static struct engine engine; /* large */
static struct engine_space *space;
static size_t space_limit;

static int64_t read_wall(void *arg)
{
    (void)arg;
    return INT64_C(1800000000) * 1000000000;
}

static uint64_t read_monotonic(void *arg)
{
    (void)arg;
    return 1000000000;
}

static const struct clock hand = {.wall_ns = read_wall, .monotonic_ns = read_monotonic};

static uint64_t commit(void *arg, struct batch *batch)
{
    struct slice bytes = batch_bytes(batch);
    uint8_t *copy = __real_malloc(bytes.len);

    (void)arg;
    assert_non_null(copy);
    assert_true(journal.count < COUNT(journal.bytes));
    memcpy(copy, bytes.ptr, bytes.len);
    journal.bytes[journal.count] = copy;
    journal.lens[journal.count++] = bytes.len;
    return batch->number;
}

static void forget_journal(void)
{
    while (journal.count > 0)
        free(journal.bytes[--journal.count]);
}

static void open_engine(void)
{
    const struct engine_options options = {.clock = &hand,
                                           .seed = 1 + journal.count,
                                           .space_bytes_max = space_limit,
                                           .journal = {.commit = commit}};

    engine_init(&engine, &options);
}

static void begin(void)
{
    forget_journal();
    open_engine();
    space = engine_space(&engine, slice_str(NAME));
}

static void end(void)
{
    engine_fini(&engine);
    forget_journal();
    assert_int_equal(account.bytes[ACCOUNT_SESSIONS], 0);
    assert_int_equal(account.bytes[ACCOUNT_KEYS], 0);
    assert_int_equal(account.bytes[ACCOUNT_WORKER_STORES], 0);
}

/* What the store is, to the last member. */
static char *text_of(void)
{
    engine_commit(&engine);
    return dump_snapshot_text(&engine.store);
}

static void expect_text(char *before)
{
    char *now = text_of();

    assert_string_equal(before, now);
    free(before);
    free(now);
}

/* The process dies, and another one reads the journal. */
static void restart_from_journal(void)
{
    struct recovery r;
    char *before = text_of();

    engine_fini(&engine);
    open_engine();
    recovery_begin(&r, &engine);
    for (size_t i = 0; i < journal.count; i++) {
        if (!recovery_take_batch(&r, i + 1, (struct slice){journal.bytes[i], journal.lens[i]}))
            fail_msg("batch %zu: %s", i, r.fault);
    }
    recovery_end(&r, journal.count);
    space = engine_find_space(&engine, slice_str(NAME));
    assert_non_null(space);
    assert_null(space->store->keys.popped);
    expect_text(before);
}

/* Restarts from a snapshot without a journal. Each batch of the snapshot has one change. */
static void restart_from_snapshot(void)
{
    static struct batch parts[1000];
    struct snapshot *s;
    struct recovery r;
    char *before = text_of();
    enum snapshot_state state = SNAPSHOT_GOES_ON;
    uint64_t last = engine.committed;
    size_t count = 0;

    s = snapshot_begin(&engine.store);
    assert_non_null(s);
    while (state == SNAPSHOT_GOES_ON) {
        assert_true(count < COUNT(parts));
        batch_init(&parts[count]);
        state = snapshot_write(s, 1, &parts[count++]);
    }
    assert_int_equal(state, SNAPSHOT_DONE);
    snapshot_end(s);
    engine_fini(&engine);
    open_engine();
    recovery_begin(&r, &engine);
    for (size_t i = 0; i < count; i++) {
        assert_true(recovery_take_snapshot(&r, batch_bytes(&parts[i])));
        batch_fini(&parts[i]);
    }
    recovery_end(&r, last);
    assert_int_equal(engine.batch.number, last + 1);
    space = engine_find_space(&engine, slice_str(NAME));
    assert_non_null(space);
    expect_text(before);
}

/* --- Requests of sessions. --- */

#define ID UINT64_C(0xfedcba9876543210)

static struct store_result apply(const struct command *c)
{
    struct store_result result;

    engine_apply(&engine, space, c, &result);
    return result;
}

static uint64_t open_worker_store(void)
{
    struct store_result result = apply(&(struct command){.kind = COMMAND_WORKER_STORE_OPEN});

    assert_int_equal(result.status, STORE_OK);
    return result.count;
}

/* What the store's side of a relay does with one request. False: it was refused. */
static bool request(uint64_t id, uint64_t number, const struct command *c)
{
    struct slice barrier = c->kind == COMMAND_BARRIER ? c->key : (struct slice){0}, answer = {0};
    uint64_t before = engine_changes(&engine);
    struct blob *popped = NULL;
    struct store_result result;
    uint8_t room[8], flags = 0;

    if (engine_session_prepare(&engine, space, id, barrier) != STORE_OK)
        return false;
    result = apply(c);
    if (engine_changes(&engine) == before)
        return result.status != STORE_NO_MEMORY;
    bytes_put_u64(room, (uint64_t)result.number + result.count);
    if (c->kind == COMMAND_BARRIER && !result.open) {
        flags = RELAY_ARRIVED;
        answer = c->key;
    } else if (c->kind == COMMAND_KEY_COMPARE_SET) {
        flags = RELAY_TOOK;
    } else if (c->kind != COMMAND_KEY_SET) {
        flags = RELAY_ANSWERED;
        answer = (struct slice){room, c->kind == COMMAND_BARRIER ? 1 : 8};
    }
    if (c->kind == COMMAND_QUEUE_POP)
        popped = result.value;
    refusal.all = true; /* nothing is asked for any more */
    engine_session_done(&engine, space, id, number, flags, answer, popped);
    refusal.all = false;
    blob_unref(popped);
    return true;
}

static const struct session *state_of(uint64_t id)
{
    const struct session *session = engine_session_find(space, id);

    assert_non_null(session);
    return session;
}

/* --- What is known comes back. --- */

static const struct {
    struct command command;
    uint8_t flags;
    const char *answer; /* of so many bytes */
    size_t len;
    const char *popped;
} requests[] = {
    {{.kind = COMMAND_KEY_ADD, .key = {(const uint8_t *)"n", 1}, .number = 300},
     RELAY_ANSWERED,
     "\x2c\1\0\0\0\0\0\0",
     8,
     NULL},
    {{.kind = COMMAND_KEY_ADD, .key = {(const uint8_t *)"n", 1}, .number = -301},
     RELAY_ANSWERED,
     "\xff\xff\xff\xff\xff\xff\xff\xff",
     8,
     NULL},
    {{.kind = COMMAND_KEY_SET, .key = {(const uint8_t *)"k", 1}}, 0, "", 0, NULL},
    {{.kind = COMMAND_KEY_COMPARE_SET,
      .key = {(const uint8_t *)"c", 1},
      .value = {(const uint8_t *)"v", 1}},
     RELAY_TOOK,
     "",
     0,
     NULL},
    {{.kind = COMMAND_KEY_DELETE, .key = {(const uint8_t *)"k", 1}},
     RELAY_ANSWERED,
     "\0\0\0\0\0\0\0\0",
     8,
     NULL},
    {{.kind = COMMAND_QUEUE_POP, .key = {(const uint8_t *)"q", 1}},
     RELAY_ANSWERED,
     "\2\0\0\0\0\0\0\0",
     8,
     "first"},
    {{.kind = COMMAND_QUEUE_POP, .key = {(const uint8_t *)"q", 1}},
     RELAY_ANSWERED,
     "\1\0\0\0\0\0\0\0",
     8,
     ""},
    {{.kind = COMMAND_BARRIER, .key = {(const uint8_t *)"b", 1}, .number = 2},
     RELAY_ARRIVED,
     "",
     0,
     NULL},
    {{.kind = COMMAND_BARRIER, .key = {(const uint8_t *)"b", 1}, .number = 2},
     RELAY_ANSWERED,
     "\0",
     1,
     NULL},
};

static void expect_state(size_t row, uint64_t number)
{
    const struct session *state = state_of(ID);

    assert_true(state->number == number);
    assert_int_equal(state->flags, requests[row].flags);
    assert_int_equal(state->answer_len, requests[row].len);
    if (requests[row].len != 0)
        assert_memory_equal(state->answer, requests[row].answer, requests[row].len);
    assert_int_equal(state->popped != NULL, requests[row].popped != NULL);
    if (state->popped != NULL)
        assert_true(slice_is(blob_slice(state->popped), requests[row].popped));
}

static void what_was_done_last_is_known_after_each_start(void **state)
{
    uint64_t number = 0;

    (void)state;
    begin();
    for (int i = 0; i < 2; i++)
        apply(&(struct command){.kind = COMMAND_QUEUE_PUSH,
                                .key = slice_str("q"),
                                .value = slice_str(i == 0 ? "first" : "")});
    for (size_t i = 0; i < COUNT(requests); i++) {
        number += 1 + number * i; /* reads have numbers too */
        assert_true(request(ID, number, &requests[i].command));
        expect_state(i, number);
        restart_from_journal();
        expect_state(i, number);
        restart_from_snapshot();
        expect_state(i, number);
    }
    end();
}

/* What changes nothing leaves no record, and the answer before it stays. */
static void reads_and_refusals_are_not_recorded(void **state)
{
    const struct command add = {.kind = COMMAND_KEY_ADD, .key = slice_str("n"), .number = 5};

    (void)state;
    begin();
    assert_null(engine_session_find(space, ID));
    assert_true(request(ID, 1, &(struct command){.kind = COMMAND_KEY_DELETE, .key = add.key}));
    assert_null(engine_session_find(space, ID));
    assert_null(engine_session_next(space, NULL));
    assert_true(request(ID, 2, &add));
    assert_true(request(ID, 3,
                        &(struct command){.kind = COMMAND_KEY_COMPARE_SET,
                                          .key = slice_str("n"),
                                          .expected = slice_str("4"),
                                          .value = slice_str("6")}));
    assert_true(request(ID, 4, &(struct command){.kind = COMMAND_QUEUE_POP, .key = add.key}));
    assert_true(state_of(ID)->number == 2 && state_of(ID)->flags == RELAY_ANSWERED);
    assert_int_equal(bytes_get_u64(state_of(ID)->answer), 5);
    end();
}

/* --- What it costs. --- */

static size_t journal_bytes(void)
{
    size_t sum = 0;

    engine_commit(&engine);
    for (size_t i = 0; i < journal.count; i++)
        sum += journal.lens[i];
    return sum;
}

static void what_is_written_of_a_request_is_some_bytes(void **state)
{
    const struct command add = {.kind = COMMAND_KEY_ADD, .key = slice_str("n"), .number = 1};
    size_t before, alone;

    (void)state;
    begin();
    apply(&add);
    before = journal_bytes();
    apply(&add);
    alone = journal_bytes() - before;
    assert_true(request(ID, 1, &add));
    before = journal_bytes();
    assert_true(request(ID, 100, &add));
    print_message("  %zu bytes\n", journal_bytes() - before - alone);
    assert_in_range(journal_bytes() - before, alone, alone + 31);
    end();
}

#define LARGE (8u << 20)

static void an_element_is_written_once(void **state)
{
    uint8_t *bytes = calloc(1, LARGE);
    size_t before;

    (void)state;
    assert_non_null(bytes);
    begin();
    for (uint8_t i = 1; i <= 2; i++) {
        bytes[LARGE - 1] = i;
        apply(&(struct command){
            .kind = COMMAND_QUEUE_PUSH, .key = slice_str("q"), .value = {bytes, LARGE}});
    }
    before = journal_bytes();
    for (uint8_t i = 1; i <= 2; i++) {
        assert_true(
            request(ID, i, &(struct command){.kind = COMMAND_QUEUE_POP, .key = slice_str("q")}));
        bytes[LARGE - 1] = i;
        assert_true(slice_equal(blob_slice(state_of(ID)->popped), (struct slice){bytes, LARGE}));
    }
    assert_in_range(journal_bytes() - before, 1, 200);
    assert_in_range(account.bytes[ACCOUNT_SESSIONS], LARGE, LARGE + 4096);
    assert_in_range(account.bytes[ACCOUNT_KEYS], 0, 4096);
    restart_from_journal();
    assert_true(slice_equal(blob_slice(state_of(ID)->popped), (struct slice){bytes, LARGE}));
    restart_from_snapshot();
    assert_true(slice_equal(blob_slice(state_of(ID)->popped), (struct slice){bytes, LARGE}));
    assert_in_range(space->store->sessions.bytes, LARGE, LARGE + 4096);
    assert_true(request(ID, 3, &(struct command){.kind = COMMAND_KEY_SET, .key = slice_str("k")}));
    assert_null(state_of(ID)->popped);
    assert_in_range(account.bytes[ACCOUNT_SESSIONS], 1, 4096);
    end();
    free(bytes);
}

/* --- Barriers. --- */

/* What happens, a letter each, and what comes of it.
 *   A a client of the session arrives; a another client (2 are to come, unless said: 3 B, b)
 *   D the key is deleted  F the space forgets its keys  R it is reset
 *   J, S a start from the journal, from a snapshot
 *   o, w the session's barrier has opened, or it has to wait
 *   1, 2, 3 the count */
static const char *const barriers[] = {
    "A1wJ1wS1wa2oJoSo",  /* it opens while the session stands there */
    "A1a2oJ2oS2o",       /* it opens before the start */
    "a1A2J2S2",          /* it opens at once: there is nothing to wait for */
    "A1a2DoJoSo",        /* it opens, and the key goes */
    "A1a2Da1oJoSo",      /* and somebody begins anew */
    "A1DwJwSwa1wa2oJo",  /* the key goes while it waits: others come, and it opens */
    "A1FwJwSwa1wa2oJoS", /* the same of all keys */
    "A1RwJwSwa1wa2oSoJ",
    "A1JDSwJwa1SwJa2oJ", /* whatever came when */
    "B1b2wSwJwb3oSoJo",  /* three */
    "B1b2FwSwJwb1wb2wb3oSo",
    "A1FSFJFwSJa1Da1a2o",
};

static bool arrive(bool is_session, int64_t count, uint64_t *number, uint64_t worker_store)
{
    const struct command c = {.kind = COMMAND_BARRIER,
                              .key = slice_str("a barrier"),
                              .number = count,
                              .worker_store = worker_store};

    return is_session ? request(ID, ++*number, &c) : apply(&c).status == STORE_OK;
}

static int64_t count_of(uint64_t worker_store)
{
    struct blob *b = keymap_get(space_keys(space->store, worker_store), slice_str("a barrier"));

    return b == NULL ? 0 : b->bytes[0] - '0';
}

static void barrier_step(char what, uint64_t *number, uint64_t worker_store)
{
    if (what == 'A' || what == 'a' || what == 'B' || what == 'b')
        assert_true(arrive(what <= 'B', what == 'A' || what == 'a' ? 2 : 3, number, worker_store));
    else if (what == 'D')
        apply(&(struct command){.kind = COMMAND_KEY_DELETE,
                                .key = slice_str("a barrier"),
                                .worker_store = worker_store});
    else if (what == 'F' || what == 'R')
        apply(&(struct command){.kind = what == 'F' ? COMMAND_SPACE_FORGET : COMMAND_SPACE_RESET});
    else if (what == 'J')
        restart_from_journal();
    else if (what == 'S')
        restart_from_snapshot();
    else if (what == 'o' || what == 'w')
        assert_int_equal(session_passed(engine_session_find(space, ID)), what == 'o');
    else
        assert_int_equal(count_of(worker_store), what - '0');
}

static void a_barrier_counts_a_session_once_and_lets_it_through(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2 * COUNT(barriers); i++) {
        const char *text = barriers[i / 2];
        uint64_t number = 0, worker_store = 0;

        print_message("  %s, %s\n", text, i % 2 == 0 ? "the space's own keys" : "a worker store");
        begin();
        if (i % 2 == 1) {
            worker_store = open_worker_store();
            assert_int_equal(engine_session_bind(&engine, space, ID, true, worker_store), STORE_OK);
        }
        for (const char *p = text; *p != '\0'; p++) {
            barrier_step(*p, &number, worker_store);
            if (text[0] != 'a' && number != 0)
                assert_int_equal(state_of(ID)->flags, RELAY_ARRIVED);
        }
        end();
    }
}

/* The next request, or the end of the session, takes it out of the barrier, and what is only there
 * for it goes. */
static void a_session_leaves_its_barrier(void **state)
{
    uint64_t number = 0;

    (void)state;
    for (int ends = 0; ends < 2; ends++) {
        begin();
        assert_true(arrive(true, 2, &number, 0));
        barrier_step('D', &number, 0);
        assert_int_equal(space->store->keys.awaited.count, 1);
        if (ends == 1)
            assert_true(engine_session_end(&engine, space, ID));
        else
            assert_true(
                request(ID, 9, &(struct command){.kind = COMMAND_KEY_SET, .key = slice_str("k")}));
        assert_null(keymap_get(&space->store->keys, slice_str("a barrier")));
        assert_int_equal(space->store->keys.awaited.count, 0);
        assert_int_equal(space->store->quota.waiting, 0);
        restart_from_journal();
        assert_int_equal(space->store->quota.waiting, 0);
        end();
    }
}

/* The place of a session in a barrier takes memory until the barrier opens or the session leaves.
 */
static void a_place_in_a_barrier_is_freed_with_it(void **state)
{
    const struct command add = {.kind = COMMAND_KEY_ADD, .key = slice_str("n"), .number = 1},
                         barrier = {.kind = COMMAND_BARRIER, .key = slice_str("b"), .number = 3};
    size_t place = account_cost(sizeof(struct session_arrival)), empty, waiters;

    (void)state;
    begin();
    for (uint64_t id = 1; id <= 4; id++)
        assert_true(request(id, 1, id == 4 ? &barrier : &add));
    waiters = account.bytes[ACCOUNT_WAITERS];
    empty = account.bytes[ACCOUNT_SESSIONS] - place;
    assert_true(request(1, 2, &barrier));
    assert_int_equal(account.bytes[ACCOUNT_SESSIONS], empty + 2 * place);
    assert_true(request(1, 3, &add)); /* leaves */
    assert_int_equal(account.bytes[ACCOUNT_SESSIONS], empty + place);
    assert_true(request(2, 2, &barrier)); /* opens it, and its own spare block stays */
    assert_true(session_passed(state_of(4)) && session_barrier(state_of(4)).len == 0);
    assert_int_equal(account.bytes[ACCOUNT_SESSIONS], empty + place);
    assert_in_range(account.bytes[ACCOUNT_WAITERS], 0, waiters);
    end();
}

/* Clients and sessions wait in the same barrier. The barrier wakes the clients in their order, and
 * does not count sessions as clients. */
static void clients_wait_beside_sessions(void **state)
{
    uint64_t number = 0;
    struct waiter *w;
    char owner;

    (void)state;
    begin();
    assert_true(arrive(true, 2, &number, 0));
    assert_int_equal(
        keymap_barrier_wait(&space->store->keys, slice_str("a barrier"), 2, &owner, &w), STORE_OK);
    assert_int_equal(space->store->keys.waiters, 1);
    assert_true(arrive(false, 2, &number, 0));
    assert_ptr_equal(store_next_ready(&engine.store), &w->wake);
    assert_null(store_next_ready(&engine.store));
    keymap_cancel(&space->store->keys, w);
    assert_true(session_passed(engine_session_find(space, ID)));
    assert_true(TAILQ_EMPTY(&space->store->keys.open_waiters));
    end();
}

/* --- Worker stores. --- */

static uint64_t unbound; /* the worker store that was told of last */

static void on_unbound(void *arg, struct engine_space *of, uint64_t worker_store)
{
    assert_ptr_equal(arg, &engine);
    assert_ptr_equal(of, space);
    unbound = worker_store;
}

static enum store_status drop(uint64_t worker_store)
{
    return apply(&(struct command){.kind = COMMAND_WORKER_STORE_DROP, .worker_store = worker_store})
        .status;
}

static void a_worker_store_stays_while_a_session_is_bound_to_it(void **state)
{
    uint64_t first, second;

    (void)state;
    begin();
    first = open_worker_store();
    second = open_worker_store();
    assert_int_equal(engine_session_bind(&engine, space, 1, true, second + 1), STORE_ABSENT);
    for (uint64_t id = 1; id <= 2; id++)
        assert_int_equal(engine_session_bind(&engine, space, id, true, first), STORE_OK);
    assert_int_equal(engine_session_bind(&engine, space, 3, true, second), STORE_OK);
    engine.observer = (struct engine_observer){.unbound = on_unbound, .arg = &engine};
    unbound = 0;
    assert_int_equal(engine_session_bind(&engine, space, 3, false, 0), STORE_OK);
    assert_int_equal(unbound, second);
    assert_int_equal(drop(second), STORE_OK);
    assert_int_equal(drop(first), STORE_IN_USE);
    restart_from_journal();
    assert_int_equal(drop(first), STORE_IN_USE);
    restart_from_snapshot();
    assert_int_equal(drop(first), STORE_IN_USE);
    assert_true(state_of(2)->is_worker && state_of(2)->worker_store == first);
    assert_true(!state_of(3)->is_worker && state_of(3)->worker_store == 0);
    engine.observer = (struct engine_observer){.unbound = on_unbound, .arg = &engine};
    unbound = 0;
    assert_true(engine_session_end(&engine, space, 3));
    assert_true(engine_session_end(&engine, space, 1));
    assert_true(engine_session_end(&engine, space, 1));
    assert_int_equal(unbound, 0);
    assert_true(engine_session_end(&engine, space, 2));
    assert_int_equal(unbound, first);
    assert_int_equal(drop(first), STORE_OK);
    end();
}

/* It cannot be in one barrier and use the keys of another one. */
static void who_stands_in_a_barrier_is_bound_to_its_keys(void **state)
{
    uint64_t number = 0, worker_store;

    (void)state;
    begin();
    worker_store = open_worker_store();
    assert_true(arrive(true, 2, &number, 0));
    assert_int_equal(engine_session_bind(&engine, space, ID, true, worker_store), STORE_IN_USE);
    assert_int_equal(engine_session_bind(&engine, space, ID, true, 0), STORE_OK);
    assert_true(arrive(false, 2, &number, 0));
    assert_int_equal(engine_session_bind(&engine, space, ID, true, worker_store), STORE_OK);
    restart_from_journal();
    assert_true(state_of(ID)->worker_store == worker_store);
    end();
}

/* --- Memos. --- */

static void a_hint_is_there_after_a_start(void **state)
{
    static const struct slice none = {0};
    static uint8_t longest[SESSION_HINT_MAX + 1];
    size_t bytes;

    (void)state;
    begin();
    assert_false(engine_session_set_hint(&engine, space, ID, slice_str("of no session")));
    assert_int_equal(engine_session_bind(&engine, space, ID, false, 0), STORE_OK);
    bytes = space->store->sessions.bytes;
    assert_true(engine_session_set_hint(&engine, space, ID, slice_str("a first hint")));
    assert_true(engine_session_set_hint(&engine, space, ID, slice_str("a hint")));
    assert_int_equal(space->store->sessions.bytes, bytes + sizeof(struct blob) + 6);
    restart_from_journal();
    assert_true(slice_is(blob_slice(state_of(ID)->hint), "a hint"));
    restart_from_snapshot();
    assert_true(slice_is(blob_slice(state_of(ID)->hint), "a hint"));
    assert_int_equal(space->store->sessions.bytes, bytes + sizeof(struct blob) + 6);
    assert_false(
        engine_session_set_hint(&engine, space, ID, (struct slice){longest, sizeof longest}));
    assert_true(
        engine_session_set_hint(&engine, space, ID, (struct slice){longest, SESSION_HINT_MAX}));
    restart_from_snapshot();
    assert_int_equal(state_of(ID)->hint->len, SESSION_HINT_MAX);
    assert_true(engine_session_set_hint(&engine, space, ID, none));
    restart_from_journal();
    assert_null(state_of(ID)->hint);
    assert_int_equal(space->store->sessions.bytes, bytes);
    end();
}

/* --- What cannot be had. --- */

/* Whatever the request takes of the batch, and however full that is. */
static void what_was_prepared_finds_room(void **state)
{
    static uint8_t value[20000];

    (void)state;
    for (size_t len = 0; len < sizeof value; len += 37) {
        const struct command set = {
            .kind = COMMAND_KEY_SET, .key = slice_str("k"), .value = {value, len}};
        char key[300];

        memset(key, 'x', sizeof key);
        key[len % sizeof key] = '\0';
        begin();
        for (uint64_t i = 1; i < 5; i++) {
            const struct command barrier = {
                .kind = COMMAND_BARRIER, .key = slice_str(key), .number = 100};

            assert_true(request(ID + i, i, i % 2 == 0 ? &set : &barrier)); /* it refuses memory */
        }
        restart_from_journal();
        end();
    }
}

/* The k-th allocation is refused: then the request is, or nothing. */
static bool try_refusal(long k, size_t *refusals)
{
    const struct command add = {.kind = COMMAND_KEY_ADD, .key = slice_str("n"), .number = 1};

    refusal.reached = false;
    for (uint64_t i = 1; i <= 20; i++) {
        uint64_t changes = engine_changes(&engine);

        refusal.countdown = i == 10 ? k : 0;
        if (!request(i, i, &add)) {
            ++*refusals;
            assert_true(engine_changes(&engine) == changes);
            assert_null(engine_session_find(space, i));
        } else {
            /* a refused ADD is an error, which leaves no record either */
            assert_int_equal(engine_session_find(space, i) != NULL,
                             engine_changes(&engine) != changes);
        }
        refusal.countdown = 0;
    }
    return refusal.reached;
}

static void without_memory_a_request_is_refused_before(void **state)
{
    size_t refusals = 0;
    bool more = true;

    (void)state;
    for (long k = 1; more; k += ALLOCATION_STEP) {
        begin();
        more = try_refusal(k, &refusals);
        restart_from_journal();
        restart_from_snapshot();
        end();
    }
    assert_in_range(refusals, 1, SIZE_MAX);
}

static void a_journal_that_takes_no_changes_refuses(void **state)
{
    const struct slice none = {0};

    (void)state;
    begin();
    assert_int_equal(engine_session_bind(&engine, space, 1, false, 0), STORE_OK);
    engine.batch.refuses = true;
    assert_int_equal(engine_session_prepare(&engine, space, 1, none), STORE_READ_ONLY);
    assert_int_equal(engine_session_prepare(&engine, space, 2, none), STORE_READ_ONLY);
    assert_int_equal(engine_session_bind(&engine, space, 2, false, 0), STORE_READ_ONLY);
    assert_false(engine_session_end(&engine, space, 1));
    engine.batch.refuses = false;
    assert_true(engine_session_end(&engine, space, 1));
    assert_null(engine_session_next(space, NULL));
    end();
}

/* Sessions count for --space-limit, and what is full takes no more; those that are there go on. */
static void a_space_has_room_for_so_many(void **state)
{
    const struct slice none = {0};
    uint64_t id = 0;

    (void)state;
    begin();
    space_limit = space->store->quota.kept + 10 * SESSION_COST + 1;
    end();
    begin();
    while (engine_session_prepare(&engine, space, id + 1, none) == STORE_OK)
        assert_int_equal(engine_session_bind(&engine, space, ++id, false, 0), STORE_OK);
    assert_int_equal(id, 10);
    assert_int_equal(engine_session_prepare(&engine, space, id + 1, none), STORE_FULL);
    assert_int_equal(engine_session_bind(&engine, space, id + 1, false, 0), STORE_FULL);
    assert_int_equal(engine_session_prepare(&engine, space, id, none), STORE_OK);
    assert_true(engine_session_end(&engine, space, 3));
    assert_int_equal(engine_session_prepare(&engine, space, id + 1, none), STORE_OK);
    end();
    space_limit = 0;
}

/* --- Many. --- */

static void each_is_found_whichever_have_ended(void **state)
{
    enum { MANY = 9973 };
    uint64_t seen = 0;

    (void)state;
    begin();
    for (uint64_t i = 1; i <= MANY; i++)
        assert_int_equal(engine_session_bind(&engine, space, i * ID, i % 2 == 0, 0), STORE_OK);
    for (uint64_t i = 1; i <= MANY; i += 3)
        assert_true(engine_session_end(&engine, space, i * ID));
    restart_from_journal();
    for (uint64_t i = 1; i <= MANY; i++) {
        const struct session *found = engine_session_find(space, i * ID);

        assert_int_equal(found != NULL, i % 3 != 1);
        assert_true(found == NULL || found->is_worker == (i % 2 == 0));
    }
    for (const struct session *s = NULL; (s = engine_session_next(space, s)) != NULL;)
        seen++;
    assert_int_equal(seen, MANY - (MANY + 2) / 3);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_done_last_is_known_after_each_start),
        cmocka_unit_test(reads_and_refusals_are_not_recorded),
        cmocka_unit_test(what_is_written_of_a_request_is_some_bytes),
        cmocka_unit_test(an_element_is_written_once),
        cmocka_unit_test(a_barrier_counts_a_session_once_and_lets_it_through),
        cmocka_unit_test(a_session_leaves_its_barrier),
        cmocka_unit_test(a_place_in_a_barrier_is_freed_with_it),
        cmocka_unit_test(clients_wait_beside_sessions),
        cmocka_unit_test(a_worker_store_stays_while_a_session_is_bound_to_it),
        cmocka_unit_test(who_stands_in_a_barrier_is_bound_to_its_keys),
        cmocka_unit_test(a_hint_is_there_after_a_start),
        cmocka_unit_test(what_was_prepared_finds_room),
        cmocka_unit_test(without_memory_a_request_is_refused_before),
        cmocka_unit_test(a_journal_that_takes_no_changes_refuses),
        cmocka_unit_test(a_space_has_room_for_so_many),
        cmocka_unit_test(each_is_found_whichever_have_ended),
    };

    return cmocka_run_group_tests_name("store/session", tests, NULL, NULL);
}
