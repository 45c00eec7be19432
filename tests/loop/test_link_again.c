/* After a lost link or a restart of the store, the relay reconnects: the store reports the result
 * of each request, and has carried out each request once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "proto/relay.h"
#include "rdzv/relay/link_session.h"
#include "tests/loop/hand.h"

/* --- Exactly once. --- */

/* A request that changes something, and what a relay that opens its session again is told of it. */
static const struct deed {
    const char *name, *before; /* NULL: nothing is asked before */
    size_t before_len;
    const char *request;
    size_t len;
    int flags;
    const char *answer;
    size_t answer_len;
    const char *look; /* a read that shows that the change was carried out once */
    size_t look_len;
    const char *seen;
    size_t seen_len;
} changes[] = {
    {"SET", NULL, 0, TEXT(SET_K), 0, NOTHING, TEXT(GET_K), TEXT(VALUE_V)},
    {"ADD", NULL, 0, TEXT(ADD_N), RELAY_ANSWERED, TEXT(ONE), TEXT(GET_N), TEXT(ONE "1")},
    {"APPEND", NULL, 0, TEXT(APPEND_A), 0, NOTHING, TEXT(GET_A), TEXT(ONE "x")},
    {"COMPARE_SET", NULL, 0, TEXT(CAS_K), RELAY_TOOK, NOTHING, TEXT(GET_K), TEXT(VALUE_V)},
    {"MULTI_SET", NULL, 0, TEXT(MULTI_SET), 0, NOTHING, TEXT(GET_K), TEXT(VALUE_V)},
    {"DELETE", TEXT(SET_K), TEXT(DELETE_K), RELAY_ANSWERED, TEXT(ONE), TEXT(GET_K),
     TEXT("\0\0\0\0\0\0\0\0")},
    {"QUEUE_PUSH", NULL, 0, TEXT(PUSH_Q), 0, NOTHING, TEXT(LEN_Q), TEXT(ONE)},
    {"QUEUE_POP", TEXT(PUSH_Q), TEXT(POP_Q), RELAY_ANSWERED, TEXT(ONE ONE "e"), TEXT(LEN_Q),
     TEXT("\0\0\0\0\0\0\0\0")},
    {"BARRIER", NULL, 0, TEXT(BARRIER_1), RELAY_ANSWERED, "\0", 1, TEXT(GET_B), TEXT(ONE "1")},
    {"BARRIER that waits", NULL, 0, TEXT(BARRIER_2), RELAY_ARRIVED, NOTHING, TEXT(GET_B),
     TEXT(ONE "1")},
};

/* The request is the last of session 11; returns its number. */
static uint64_t carry_out_deed(int fd, const struct deed *row)
{
    uint64_t number = 1;

    hand_open(fd, 1, 11);
    if (row->before != NULL)
        hand_request(fd, 1, number++, row->before, row->before_len);
    hand_request(fd, 1, number, row->request, row->len);
    hand_expect_executed(fd);
    return number;
}

/* A session that is opened again is told of the request, and it has been carried out once. */
static void look_again(int fd, const struct deed *row, uint64_t number)
{
    hand_resume(fd, 5, 11, RELAY_KNOWN | row->flags, number, row->answer, row->answer_len);
    hand_open(fd, 6, 12);
    hand_request(fd, 6, 1, row->look, row->look_len);
    hand_expect(fd, RELAY_ANSWER, RELAY_KNOWN, 6, 1, row->seen, row->seen_len);
}

static void a_lost_answer_is_told_when_the_session_is_opened_again(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(changes); i++) {
        uint64_t number;
        int fd;

        print_message("  %s\n", changes[i].name);
        loop_open(&loop, NULL);
        fd = hand_connect();
        number = carry_out_deed(fd, &changes[i]);
        hand_lose_link(fd);
        assert_int_equal(loop.server.engine.stats.sessions_detached, 1);
        fd = hand_connect();
        look_again(fd, &changes[i], number);
        assert_int_equal(loop.server.engine.stats.sessions_resumed, 1);
        hand_lose_link(fd);
        loop_close(&loop);
    }
}

static void a_lost_answer_is_told_after_a_restart(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(changes); i++) {
        uint64_t number;
        int fd;

        print_message("  %s\n", changes[i].name);
        hand_store_open();
        fd = hand_connect();
        number = carry_out_deed(fd, &changes[i]);
        hand_store_restart(fd);
        fd = hand_connect();
        look_again(fd, &changes[i], number);
        hand_lose_link(fd);
        hand_store_close();
    }
}

/* If the store has not received the request, or the request changed nothing, the store carries out
 * the second copy. */
static void reads_and_refused_changes_are_sent_again(void **state)
{
    static const struct {
        const char *name, *request;
        size_t len;
        const char *answer;
        size_t answer_len;
    } rows[] = {
        {"GET", TEXT(GET_K), TEXT(VALUE_V)},
        {"refused COMPARE_SET", TEXT(CAS_J_K), TEXT(VALUE_V)},
        {"DELETE of nothing", TEXT(DELETE_J), TEXT("\0\0\0\0\0\0\0\0")},
        {"POP of nothing", TEXT(POP_Q), TEXT("\0\0\0\0\0\0\0\0")},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        int fd;

        print_message("  %s\n", rows[i].name);
        loop_open(&loop, NULL);
        fd = hand_connect();
        hand_open(fd, 1, 11);
        hand_request(fd, 1, 1, TEXT(SET_K));
        hand_request(fd, 1, 2, rows[i].request, rows[i].len);
        hand_expect_executed(fd);
        hand_lose_link(fd);
        fd = hand_connect();
        hand_resume(fd, 1, 11, RELAY_KNOWN, 1, NOTHING);
        hand_request(fd, 1, 2, rows[i].request, rows[i].len);
        hand_expect(fd, RELAY_ANSWER, RELAY_KNOWN, 1, 2, rows[i].answer, rows[i].answer_len);
        hand_lose_link(fd);
        loop_close(&loop);
    }
}

/* The store does not carry out the second copy of a request that it has carried out. */
static void an_executed_request_is_not_executed_again(void **state)
{
    int fd = hand_connect();

    (void)state;
    hand_open(fd, 1, 11);
    hand_request(fd, 1, 1, TEXT(ADD_N));
    hand_expect_executed(fd);
    hand_lose_link(fd);
    fd = hand_connect();
    hand_resume(fd, 1, 11, RELAY_KNOWN | RELAY_ANSWERED, 1, TEXT(ONE));
    hand_request(fd, 1, 1, TEXT(ADD_N));
    assert_int_equal(hand_next(fd).kind, RELAY_ENDED);
    hand_open(fd, 2, 12);
    hand_request(fd, 2, 1, TEXT(GET_N));
    hand_expect(fd, RELAY_ANSWER, RELAY_KNOWN, 2, 1, TEXT(ONE "1"));
    hand_lose_link(fd);
}

/* --- Sessions that the store drops. --- */

#define ADD_K "\4\2\0\0\0\0\0\0\0/k\1\0\0\0\0\0\0\0"

/* A session sets /k to what is no number, takes an element, and is dropped for adding to /k. */
static void drop_session(int fd, uint32_t channel, uint64_t id)
{
    hand_open(fd, channel, id);
    hand_request(fd, channel, 1, TEXT(SET_K));
    hand_request(fd, channel, 2, TEXT(PUSH_Q));
    hand_request(fd, channel, 3, TEXT(POP_Q));
    hand_request(fd, channel, 4, TEXT(ADD_K));
    hand_expect_executed(fd);
}

static bool is_recorded(uint64_t id)
{
    const struct engine *e = &loop.server.engine;

    return engine_session_find(TAILQ_FIRST(&e->spaces), id) != NULL;
}

static const struct relay_links *the_links(void)
{
    return &loop.server.store.links;
}

/* The relay knows neither that its session was dropped nor the popped element. The store reports
 * both; the relay sends the other requests again, and the session is dropped once more. */
static void resume_dropped(int fd)
{
    hand_resume(fd, 2, 11, RELAY_KNOWN | RELAY_ANSWERED, 3, TEXT(ONE ONE "e"));
    assert_int_equal(the_links()->dropped_count, 0);
    assert_int_equal(loop.server.engine.stats.sessions_resumed, 1);
    hand_request(fd, 2, 4, TEXT(ADD_K));
    assert_int_equal(hand_next(fd).kind, RELAY_ENDED);
    assert_true(is_recorded(11));
    hand_request(fd, 2, 5, TEXT(ADD_N)); /* it was on its way */
    hand_expect_nothing(fd);
    hand_send(fd, RELAY_CLOSE, 0, 2, 0, NOTHING);
    hand_expect_nothing(fd);
    assert_false(is_recorded(11));
    assert_int_equal(the_links()->sessions.count, 0);
    assert_int_equal(the_links()->dropped_count, 0);
}

static void a_dropped_session_is_told_what_it_was_answered(void **state)
{
    int fd, other;

    (void)state;
    fd = hand_connect();
    drop_session(fd, 1, 11);
    hand_lose_link(fd);
    fd = hand_connect();
    resume_dropped(fd);
    drop_session(fd, 3, 11);
    other = hand_connect(); /* while the first link has not been seen to be lost */
    loop.server.engine.stats.sessions_resumed = 0;
    resume_dropped(other);
    hand_lose_link(fd);
    hand_lose_link(other);
}

/* The relay asks for the session while the store has no room for one more, and then again. */
static void a_dropped_session_that_is_refused_keeps_its_record(void **state)
{
    int fd;

    (void)state;
    loop_open(&loop, (const char *const[]){"--connection-limit=3", NULL});
    hand_tick_after(
        120000); /* longer than --session-timeout: a sweep would end the record at once */
    fd = hand_connect();
    drop_session(fd, 1, 11);
    hand_lose_link(fd);
    fd = hand_connect();
    hand_open(fd, 5, 21);
    hand_open(fd, 6, 22);
    hand_send_open(fd, 7, 11, true);
    assert_int_equal(hand_next(fd).kind, RELAY_ENDED);
    hand_tick_after(2000);
    assert_true(is_recorded(11));
    hand_send(fd, RELAY_CLOSE, 0, 5, 0, NOTHING);
    hand_send(fd, RELAY_CLOSE, 0, 6, 0, NOTHING);
    hand_expect_nothing(fd);
    hand_resume(fd, 2, 11, RELAY_KNOWN | RELAY_ANSWERED, 3, TEXT(ONE ONE "e"));
    hand_lose_link(fd);
    loop_close(&loop);
}

static void the_same_after_a_start(void **state)
{
    int fd;

    (void)state;
    hand_store_open();
    fd = hand_connect();
    drop_session(fd, 1, 11);
    hand_store_restart(fd);
    fd = hand_connect();
    resume_dropped(fd);
    hand_lose_link(fd);
    hand_store_close();
}

static void the_record_of_a_dropped_session_ends_in_time(void **state)
{
    int fd = hand_connect();

    (void)state;
    drop_session(fd, 1, 11);
    hand_tick_after(120000);
    assert_true(is_recorded(11)); /* its relay is there, and may be slow */
    hand_lose_link(fd);
    hand_tick_after(44000);
    assert_true(is_recorded(11));
    hand_tick_after(1000);
    assert_false(is_recorded(11));
    assert_int_equal(the_links()->sessions.count, 0);
}

/* A relay that never answers does not make the store keep more and more. */
static void records_of_dropped_sessions_have_a_bound(void **state)
{
    int fd = hand_connect();

    (void)state;
    for (uint32_t i = 1; i <= RELAY_DROPPED_MAX; i++)
        drop_session(fd, i, i);
    assert_true(is_recorded(1));
    drop_session(fd, RELAY_DROPPED_MAX + 1, RELAY_DROPPED_MAX + 1);
    assert_false(is_recorded(1));
    assert_true(is_recorded(2));
    assert_int_equal(the_links()->sessions.count, RELAY_DROPPED_MAX);
    hand_lose_link(fd);
    assert_int_equal(the_links()->dropped_count, RELAY_DROPPED_MAX);
}

/* The request `number` of session 11 is sent while there is room for so many bytes more, and
 * nothing of what comes of it reaches the relay. */
static void send_into_little_memory(int fd, const struct deed *row, uint64_t number, size_t room)
{
    account_set_limit(account.total + room + ACCOUNT_KEPT_MIN);
    hand_request(fd, 1, number, row->request, row->len);
    for (int i = 0; i < 4; i++)
        loop_iterate(&loop);
    account_set_limit(0);
    close(fd);
    LOOP_UNTIL(&loop, loop.server.engine.stats.relay_links == 0);
}

/* Sends it again, unless the store says that it has been carried out. */
static void send_again(int fd, const struct deed *row, uint64_t number)
{
    struct relay_frame frame;

    hand_send_open(fd, 5, 11, true);
    frame = hand_next(fd);
    assert_int_equal(frame.kind, RELAY_OPENED);
    if (frame.number < number || frame.flags & RELAY_ARRIVED)
        hand_request(fd, 5, number, row->request, row->len);
    hand_expect_executed(fd);
    hand_open(fd, 6, 12);
    hand_request(fd, 6, 1, row->look, row->look_len);
    hand_expect(fd, RELAY_ANSWER, RELAY_KNOWN, 6, 1, row->seen, row->seen_len);
}

static void each_request_counts_once_whatever_memory_there_is(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(changes); i++) {
        print_message("  %s\n", changes[i].name);
        for (size_t room = 0; room < 3000; room += 40) {
            uint64_t number = changes[i].before == NULL ? 1 : 2;
            int fd;

            loop_open(&loop, NULL);
            fd = hand_connect();
            hand_open(fd, 1, 11);
            if (changes[i].before != NULL) {
                hand_request(fd, 1, 1, changes[i].before, changes[i].before_len);
                hand_expect_executed(fd);
            }
            send_into_little_memory(fd, &changes[i], number, room);
            fd = hand_connect();
            send_again(fd, &changes[i], number);
            hand_lose_link(fd);
            loop_close(&loop);
        }
    }
}

/* --- Waiting, across links. --- */

/* The key comes and goes while the relay is away: the WAIT has ended all the same. */
static void a_wait_goes_on_without_its_link(void **state)
{
    (void)state;
    for (int when = 0; when < 3; when++) {
        int fd, other;

        loop_open(&loop, NULL);
        fd = hand_connect();
        other = hand_connect();
        hand_open(other, 1, 12);
        hand_open(fd, 1, 11);
        hand_request(fd, 1, 1, TEXT(WAIT_K));
        hand_expect_nothing(fd);
        if (when == 0) { /* answered, and the answer lost */
            hand_request(other, 1, 1, TEXT(SET_K));
            hand_expect_executed(other);
        }
        hand_lose_link(fd);
        if (when == 1)
            hand_request(other, 1, 1, TEXT(SET_K));
        fd = hand_connect();
        hand_resume(fd, 1, 11, RELAY_KNOWN, 0, NOTHING);
        if (when == 2)
            hand_request(other, 1, 1, TEXT(SET_K));
        if (when != 0)
            hand_expect(other, RELAY_DONE, CHANGED, 1, 1, NOTHING);
        hand_request(other, 1, 2, TEXT(DELETE_K));
        hand_expect(other, RELAY_ANSWER, CHANGED, 1, 2, TEXT(ONE));
        hand_request(fd, 1, 1, TEXT(WAIT_K));
        hand_expect(fd, RELAY_ANSWER, RELAY_KNOWN, 1, 1, "\0", 1);
        hand_lose_link(fd);
        hand_lose_link(other);
        loop_close(&loop);
    }
}

/* Expects one frame for each of the two channels, in any order. */
static void expect_both(int fd, uint32_t one, enum relay_kind of_one, uint32_t two,
                        enum relay_kind of_two)
{
    struct relay_frame first = hand_next(fd), second = hand_next(fd);

    if (first.channel == two) {
        struct relay_frame other = first;

        first = second;
        second = other;
    }
    assert_int_equal(first.channel, one);
    assert_int_equal(first.kind, of_one);
    assert_int_equal(second.channel, two);
    assert_int_equal(second.kind, of_two);
}

static void a_wait_that_is_sent_again_waits_on(void **state)
{
    struct space *space;
    int fd;

    (void)state;
    fd = hand_connect();
    hand_open(fd, 1, 11);
    hand_open(fd, 2, 12);
    hand_request(fd, 1, 1, TEXT(WAIT_K));
    hand_expect_nothing(fd);
    hand_lose_link(fd);
    fd = hand_connect();
    hand_resume(fd, 1, 11, RELAY_KNOWN, 0, NOTHING);
    hand_resume(fd, 2, 12, 0, 0, NOTHING);
    hand_request(fd, 1, 1, TEXT(WAIT_K));
    hand_expect_nothing(fd);
    space = TAILQ_FIRST(&loop.server.engine.store.spaces);
    assert_int_equal(space->keys.waiters, 1);
    hand_request(fd, 2, 1, TEXT(SET_K));
    expect_both(fd, 2, RELAY_DONE, 1, RELAY_ANSWER);
    hand_lose_link(fd);
}

/* A key that was there for a moment counts, and the WAIT that is sent again is the same one, also
 * that of a legacy client, whose next request would end it. */
static void a_key_counts_for_a_wait_that_is_sent_again(void **state)
{
    static const struct {
        enum c10d_version version;
        const char *wait;
        size_t len;
    } rows[] = {{C10D_MODERN, TEXT(WAIT_JK)}, {C10D_LEGACY, TEXT(LEGACY_WAIT_JK)}};

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        int fd, other;

        loop_open(&loop, NULL);
        other = hand_connect();
        hand_open(other, 1, 12);
        fd = hand_connect();
        hand_speak(rows[i].version);
        hand_open(fd, 1, 11);
        hand_request(fd, 1, 1, rows[i].wait, rows[i].len);
        hand_expect_nothing(fd);
        hand_request(other, 1, 1, TEXT(SET_K));
        hand_expect(other, RELAY_DONE, CHANGED, 1, 1, NOTHING);
        hand_request(other, 1, 2, TEXT(DELETE_K));
        hand_expect(other, RELAY_ANSWER, CHANGED, 1, 2, TEXT(ONE));
        hand_lose_link(fd);
        fd = hand_connect();
        hand_speak(rows[i].version);
        hand_resume(fd, 1, 11, RELAY_KNOWN, 0, NOTHING);
        hand_request(fd, 1, 1, rows[i].wait, rows[i].len);
        hand_expect_nothing(fd);
        hand_request(other, 1, 3, TEXT(SET_J));
        hand_expect(other, RELAY_DONE, CHANGED, 1, 3, NOTHING);
        hand_expect(fd, RELAY_ANSWER, RELAY_KNOWN, 1, 1, "\0", 1);
        hand_lose_link(fd);
        hand_lose_link(other);
        loop_close(&loop);
    }
}

/* A legacy client has given its WAIT up with its next request. `again`: the relay comes back in
 * between, and sends the WAIT again, or not. */
static void a_legacy_clients_next_request_ends_its_wait(void **state)
{
    (void)state;
    for (int again = 0; again < 3; again++) {
        struct space *space;
        int fd;

        loop_open(&loop, NULL);
        fd = hand_connect();
        hand_speak(C10D_LEGACY);
        hand_open(fd, 1, 11);
        hand_request(fd, 1, 1, TEXT(LEGACY_WAIT_JK));
        hand_expect_nothing(fd);
        if (again > 0) {
            hand_lose_link(fd);
            fd = hand_connect();
            hand_speak(C10D_LEGACY);
            hand_resume(fd, 1, 11, RELAY_KNOWN, 0, NOTHING);
        }
        if (again == 1)
            hand_request(fd, 1, 1, TEXT(LEGACY_WAIT_JK));
        hand_request(fd, 1, 2, TEXT(LEGACY_SET_K));
        hand_expect(fd, RELAY_DONE, CHANGED, 1, 2, NOTHING);
        space = TAILQ_FIRST(&loop.server.engine.store.spaces);
        assert_int_equal(space->keys.waiters, 0);
        hand_expect_nothing(fd);
        hand_lose_link(fd);
        loop_close(&loop);
    }
}

/* The relay has cancelled it by itself while it was away. */
static void a_wait_that_is_not_sent_again_has_ended(void **state)
{
    struct space *space;
    int fd;

    (void)state;
    fd = hand_connect();
    hand_open(fd, 1, 11);
    hand_request(fd, 1, 1, TEXT(WAIT_K));
    hand_expect_nothing(fd);
    hand_lose_link(fd);
    fd = hand_connect();
    hand_resume(fd, 1, 11, RELAY_KNOWN, 0, NOTHING);
    hand_request(fd, 1, 3, TEXT(SET_K));
    hand_expect(fd, RELAY_DONE, CHANGED, 1, 3, NOTHING);
    space = TAILQ_FIRST(&loop.server.engine.store.spaces);
    assert_int_equal(space->keys.waiters, 0);
    hand_expect_nothing(fd);
    hand_lose_link(fd);
}

/* A barrier counts each client once, however often that has to ask. */
static void a_barrier_waits_across_links_and_starts(void **state)
{
    (void)state;
    for (int how = 0; how < 4; how++) { /* opens: while away, or later; with a restart, or not */
        int fd;

        print_message("  %d\n", how);
        hand_store_open();
        fd = hand_connect();
        hand_open(fd, 1, 11);
        hand_open(fd, 2, 12);
        hand_request(fd, 1, 1, TEXT(BARRIER_2));
        hand_expect_executed(fd);
        if (how & 1)
            hand_store_restart(fd);
        else
            hand_lose_link(fd);
        fd = hand_connect();
        hand_resume(fd, 2, 12, 0, 0, NOTHING);
        if (how & 2) {
            hand_request(fd, 2, 1, TEXT(BARRIER_2));
            hand_expect(fd, RELAY_ANSWER, CHANGED, 2, 1, "\0", 1);
        }
        hand_resume(fd, 1, 11, RELAY_KNOWN | RELAY_ARRIVED, 1, NOTHING);
        hand_request(fd, 1, 1, TEXT(BARRIER_2));
        if (!(how & 2)) {
            hand_expect_nothing(fd);
            hand_request(fd, 2, 1, TEXT(BARRIER_2));
            expect_both(fd, 2, RELAY_ANSWER, 1, RELAY_ANSWER);
        } else {
            hand_expect(fd, RELAY_ANSWER, CHANGED, 1, 1, "\0", 1);
        }
        hand_request(fd, 2, 2, TEXT(GET_B));
        hand_expect(fd, RELAY_ANSWER, RELAY_KNOWN, 2, 2, TEXT(ONE "2"));
        hand_lose_link(fd);
        hand_store_close();
    }
}

/* --- Any request, any moment. --- */

enum { ACTORS = 4, ROUNDS = 400 };

/* A relay's view of a client that adds to a key. */
struct actor {
    uint64_t number; /* of the request that is open; 0: none */
    uint64_t last;   /* of the one before */
};

/* Each answer is the next number of a count that all of them share. */
struct tally {
    struct actor actors[ACTORS];
    uint64_t sent, answered;
    bool seen[ACTORS * ROUNDS + 1];
};

static void take_sum(struct tally *t, struct actor *a, struct slice payload)
{
    uint64_t sum;

    assert_int_equal(payload.len, 8);
    sum = bytes_get_u64(payload.ptr);
    assert_in_range(sum, 1, t->sent);
    assert_false(t->seen[sum]); /* two ADDs never come to the same */
    t->seen[sum] = true;
    t->answered++;
    a->last = a->number;
    a->number = 0;
}

static void take_any(struct tally *t, int fd)
{
    struct relay_frame frame = hand_next(fd);
    struct actor *a = &t->actors[frame.channel - 1];

    assert_in_range(frame.channel, 1, ACTORS);
    if (frame.kind == RELAY_ANSWER) {
        assert_int_equal(frame.number, a->number);
        take_sum(t, a, frame.payload);
    } else {
        assert_int_equal(frame.kind, RELAY_OPENED);
        if (a->number != 0 && frame.number == a->number)
            take_sum(t, a, frame.payload);
        else if (a->number != 0)
            hand_request(fd, frame.channel, a->number, TEXT(ADD_N));
    }
}

/* The relay begins anew, and asks what has become of what it had sent. */
static int begin_anew(struct tally *t, int fd, bool with_store)
{
    if (with_store)
        hand_store_restart(fd);
    else
        hand_lose_link(fd);
    fd = hand_connect();
    for (uint32_t i = 0; i < ACTORS; i++)
        hand_send_open(fd, i + 1, i + 1, true);
    for (uint32_t i = 0; i < ACTORS; i++)
        take_any(t, fd);
    return fd;
}

static bool is_waiting(const struct tally *t)
{
    for (size_t i = 0; i < ACTORS; i++) {
        if (t->actors[i].number != 0)
            return true;
    }
    return false;
}

static void whenever_the_link_is_lost_each_request_counts_once(void **state)
{
    static struct tally t;
    uint64_t random = 1;
    int fd;

    (void)state;
    t = (struct tally){0};
    hand_store_open();
    fd = hand_connect();
    for (uint32_t i = 0; i < ACTORS; i++)
        hand_open(fd, i + 1, i + 1);
    for (int round = 0; round < ROUNDS; round++) {
        struct actor *a;

        random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
        a = &t.actors[random >> 60 & (ACTORS - 1)];
        if (a->number == 0) {
            a->number = a->last + 1;
            t.sent++;
            hand_request(fd, (uint32_t)(a - t.actors) + 1, a->number, TEXT(ADD_N));
        } else {
            take_any(&t, fd);
        }
        if ((random >> 40 & 7) == 0)
            fd = begin_anew(&t, fd, (random >> 50 & 7) == 0);
    }
    while (is_waiting(&t))
        take_any(&t, fd);
    assert_int_equal(t.answered, t.sent);
    for (uint64_t i = 1; i <= t.sent; i++)
        assert_true(t.seen[i]);
    hand_lose_link(fd);
    hand_store_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lost_answer_is_told_when_the_session_is_opened_again),
        cmocka_unit_test(a_lost_answer_is_told_after_a_restart),
        cmocka_unit_test(reads_and_refused_changes_are_sent_again),
        LOOP_TEST(an_executed_request_is_not_executed_again),
        LOOP_TEST(a_dropped_session_is_told_what_it_was_answered),
        cmocka_unit_test(a_dropped_session_that_is_refused_keeps_its_record),
        cmocka_unit_test(the_same_after_a_start),
        LOOP_TEST(the_record_of_a_dropped_session_ends_in_time),
        LOOP_TEST(records_of_dropped_sessions_have_a_bound),
        cmocka_unit_test(each_request_counts_once_whatever_memory_there_is),
        cmocka_unit_test(a_wait_goes_on_without_its_link),
        LOOP_TEST(a_wait_that_is_sent_again_waits_on),
        cmocka_unit_test(a_key_counts_for_a_wait_that_is_sent_again),
        cmocka_unit_test(a_legacy_clients_next_request_ends_its_wait),
        LOOP_TEST(a_wait_that_is_not_sent_again_has_ended),
        cmocka_unit_test(a_barrier_waits_across_links_and_starts),
        cmocka_unit_test(whenever_the_link_is_lost_each_request_counts_once),
    };

    return cmocka_run_group_tests_name("rdzv/relay/link, again", tests, NULL, NULL);
}
