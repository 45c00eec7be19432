/* A relay's sessions while the link is up: the order and the pieces in which requests are sent, the
 * answer of each client, and the memory that requests hold. */
#include "tests/unit/relay/scene.h"

/* --- One request after the other. --- */

static void a_request_opens_the_session_and_its_answer_comes_back(void **state)
{
    struct scene *s = *state;
    uint32_t channel;

    link_up(s);
    no_frame(s); /* a client that has asked nothing is nobody to the store */
    assert_int_equal(take(s, &s->a, "ADD n 1"), RELAY_TAKEN);
    channel = opened(s, false);
    sent(s, channel, 1, "ADD n 1");
    no_frame(s);
    OPENED(s, 0, channel, 0, "");
    ANSWER(s, channel, 1, "\1\0\0\0\0\0\0\0");
    GOT(&s->a, "\1\0\0\0\0\0\0\0");
    assert_int_equal(s->relay.pending_count, 0);
    take(s, &s->a, "GET n");
    sent(s, channel, 2, "GET n");
}

static void requests_before_the_first_link_wait_for_it(void **state)
{
    struct scene *s = *state;
    uint32_t channel;

    assert_false(relay_may_pong(s->b.session));
    assert_int_equal(take(s, &s->a, "SET k v"), RELAY_TAKEN);
    assert_int_equal(take(s, &s->a, "GET k"), RELAY_TAKEN);
    no_frame(s);
    link_up(s);
    assert_true(s->b.goes_on);
    assert_true(relay_may_pong(s->b.session));
    channel = opened(s, false);
    sent(s, channel, 1, "SET k v");
    sent(s, channel, 2, "GET k");
    link_down(s);
    assert_true(relay_may_pong(s->b.session));  /* from now on the relay vouches for the store */
    assert_false(relay_may_pong(s->a.session)); /* but never before what was sent before */
}

static void nothing_is_sent_behind_a_request_with_an_answer(void **state)
{
    struct scene *s = *state;
    uint32_t channel;

    link_up(s);
    channel = begins(s, &s->a, "GET k");
    assert_int_equal(take(s, &s->a, "SET k v"), RELAY_HELD);
    assert_int_equal(take(s, &s->b, "SET k v"), RELAY_TAKEN); /* others go on */
    assert_false(s->a.goes_on);
    ANSWER(s, channel, 1, "\0\0\0\0\0\0\0\0");
    assert_true(s->a.goes_on);
    assert_int_equal(take(s, &s->a, "SET k v"), RELAY_TAKEN);
}

static void silent_requests_have_a_window(void **state)
{
    struct scene *s = *state;
    uint32_t channel;

    link_up(s);
    for (unsigned i = 0; i < RELAY_WINDOW; i++)
        assert_int_equal(take(s, &s->a, "SET k v"), RELAY_TAKEN);
    assert_int_equal(take(s, &s->a, "SET k v"), RELAY_HELD);
    channel = opened(s, false);
    for (unsigned i = 0; i < RELAY_WINDOW; i++)
        sent(s, channel, i + 1, "SET k v");
    DONE(s, channel, 200);
    assert_true(s->a.goes_on);
    assert_int_equal(s->relay.pending_count, RELAY_WINDOW - 200);
    assert_int_equal(take(s, &s->a, "SET k v"), RELAY_TAKEN);
    sent(s, channel, RELAY_WINDOW + 1, "SET k v");
}

/* A CHECK of so many keys. The caller frees it. */
static uint8_t *large_check(size_t keys, size_t *len)
{
    enum { KEY = 2000 };
    uint8_t *bytes = malloc(9 + keys * (8 + KEY)), *at = bytes + 9;

    assert_non_null(bytes);
    bytes[0] = 5;
    bytes_put_u64(bytes + 1, keys);
    for (size_t i = 0; i < keys; i++, at += 8 + KEY) {
        bytes_put_u64(at, KEY);
        memset(at + 8, 'k', KEY);
    }
    *len = (size_t)(at - bytes);
    return bytes;
}

/* The store may have to keep it until those before it are carried out, and keeps so much alone. */
static void a_large_request_comes_alone(void **state)
{
    struct scene *s = *state;
    uint32_t channel;
    size_t len;
    uint8_t *check = large_check(600, &len);

    link_up(s);
    channel = begins(s, &s->a, "SET k v");
    assert_int_equal(take_bytes(s, &s->a, check, len), RELAY_HELD);
    assert_int_equal(take(s, &s->b, "SET k v"), RELAY_TAKEN); /* others go on */
    DONE(s, channel, 1);
    assert_true(s->a.goes_on);
    assert_int_equal(take_bytes(s, &s->a, check, len), RELAY_TAKING);
    free(check);
}

/* A SET of `len` bytes in all, of which the first 21 are opcode, key and the value's length. */
static void long_requests_come_in_pieces_between_those_of_others(void **state)
{
    struct scene *s = *state;
    size_t len = 3 * RELAY_PAYLOAD_MAX - 5, seen = 0;
    uint8_t *bytes = large_set(len), payload[RELAY_PAYLOAD_MAX];
    struct relay_frame frame;
    unsigned others = 0;

    link_up(s);
    assert_int_equal(take_bytes(s, &s->a, bytes, len), RELAY_TAKEN);
    take(s, &s->b, "GET k");
    while (next_frame(s, &frame, payload)) {
        if (frame.kind != RELAY_REQUEST)
            continue;
        if (frame.payload.len < 100) {
            assert_true(seen < len);
            others++;
            continue;
        }
        assert_memory_equal(payload, bytes + seen, frame.payload.len);
        seen += frame.payload.len;
        assert_int_equal(frame.flags, seen < len ? RELAY_MORE : 0);
    }
    assert_int_equal(seen, len);
    assert_int_equal(others, 1);
    free(bytes);
}

static void a_request_of_megabytes_is_taken_in_turns(void **state)
{
    struct scene *s = *state;
    size_t len = 5u << 20, size, turns = 1;
    uint8_t *bytes = large_set(len);
    enum relay_taken taken = take_bytes(s, &s->a, bytes, len);

    link_up(s);
    for (; taken == RELAY_TAKING; turns++) {
        no_frame(s); /* half a request is none */
        taken = relay_take_more(s->a.session, bytes, &size);
        assert_int_equal(size, len);
    }
    assert_int_equal(taken, RELAY_TAKEN);
    assert_int_equal(turns, 5);
    free(bytes);
}

static void long_answers_are_given_when_they_are_whole(void **state)
{
    struct scene *s = *state;
    uint32_t channel;

    link_up(s);
    channel = begins(s, &s->a, "GET k");
    store_says(s, RELAY_ANSWER, RELAY_MORE, channel, 1, "he", 2);
    store_says(s, RELAY_ANSWER, RELAY_MORE, channel, 1, "ll", 2);
    GOT_NOTHING(&s->a);
    link_down(s);
    link_up(s);
    channel = opened(s, true);
    no_frame(s); /* until the store has said where it is */
    OPENED(s, 0, channel, 0, "");
    sent(s, channel, 1, "GET k");
    store_says(s, RELAY_ANSWER, RELAY_MORE, channel, 1, "hel", 3);
    store_says(s, RELAY_ANSWER, 0, channel, 1, "lo", 2);
    GOT(&s->a, "hello");
}

/* --- Bounds. --- */

static void large_requests_of_all_have_one_bound(void **state)
{
    struct scene *s = *state;
    size_t len = 7u << 20, size;
    uint8_t *bytes = large_set(len);
    struct client many[10] = {0};
    enum relay_taken taken = RELAY_TAKEN;
    unsigned count = 0;

    for (; count < 10 && taken != RELAY_HELD; count++) {
        session_new(s, C10D_MODERN, &many[count]);
        taken = take_bytes(s, &many[count], bytes, len);
        while (taken == RELAY_TAKING)
            taken = relay_take_more(many[count].session, bytes, &size);
    }
    assert_int_equal(count, 10);
    assert_int_equal(taken, RELAY_HELD);
    assert_true(s->relay.pending_bytes <= RELAY_KEPT_MAX);
    assert_int_equal(take(s, &s->a, "SET k v"), RELAY_TAKEN); /* small ones go on */
    for (unsigned i = 0; i < 6; i++) {
        relay_forget(many[i].session);
    }
    relay_tick(&s->relay);
    assert_true(many[9].goes_on);
    for (unsigned i = 6; i < 10; i++)
        relay_forget(many[i].session);
    free(bytes);
}

static void lag_is_of_what_the_store_should_have_confirmed(void **state)
{
    struct scene *s = *state;

    link_up(s);
    take(s, &s->a, "WAIT k");
    s->relay.now_ns += SECOND;
    assert_int_equal(relay_lag_ns(&s->relay), SECOND); /* the link was not given it yet */
    sent(s, opened(s, false), 1, "WAIT k");
    assert_int_equal(relay_lag_ns(&s->relay), 0);
    take(s, &s->b, "SET k v");
    s->relay.now_ns += 3 * SECOND;
    assert_int_equal(relay_lag_ns(&s->relay), 3 * SECOND);
}

/* The lag counts from the arrival of the request, or from the loss of the link if the link had the
 * request. */
static void a_wait_without_its_link_lags(void **state)
{
    struct scene *s = *state;
    uint32_t channel;

    link_up(s);
    take(s, &s->a, "WAIT k");
    sent(s, opened(s, false), 1, "WAIT k");
    s->relay.now_ns += 60 * SECOND;
    assert_int_equal(relay_lag_ns(&s->relay), 0);
    link_down(s);
    s->relay.now_ns += 2 * SECOND;
    assert_int_equal(relay_lag_ns(&s->relay), 3 * SECOND);
    link_up(s);
    channel = opened(s, true);
    assert_int_equal(relay_lag_ns(&s->relay), 3 * SECOND);
    OPENED(s, 0, channel, 0, "");
    sent(s, channel, 1, "WAIT k");
    assert_int_equal(relay_lag_ns(&s->relay), 0);
}

static void the_time_that_the_store_was_away_is_counted(void **state)
{
    struct scene *s = *state;

    s->relay.now_ns += 5 * SECOND;
    assert_int_equal(relay_away_ns(&s->relay), 0); /* it was never there */
    link_up(s);
    s->relay.now_ns += 7 * SECOND;
    assert_int_equal(relay_away_ns(&s->relay), 0);
    link_down(s);
    s->relay.now_ns += 2 * SECOND;
    assert_int_equal(relay_away_ns(&s->relay), 3 * SECOND);
    link_up(s);
    s->relay.now_ns += SECOND;
    link_down(s);
    s->relay.now_ns += 4 * SECOND;
    assert_int_equal(relay_away_ns(&s->relay), 8 * SECOND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_request_opens_the_session_and_its_answer_comes_back),
        TEST(requests_before_the_first_link_wait_for_it),
        TEST(nothing_is_sent_behind_a_request_with_an_answer),
        TEST(silent_requests_have_a_window),
        TEST(a_large_request_comes_alone),
        TEST(long_requests_come_in_pieces_between_those_of_others),
        TEST(a_request_of_megabytes_is_taken_in_turns),
        TEST(long_answers_are_given_when_they_are_whole),
        TEST(large_requests_of_all_have_one_bound),
        TEST(lag_is_of_what_the_store_should_have_confirmed),
        TEST(a_wait_without_its_link_lags),
        TEST(the_time_that_the_store_was_away_is_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
