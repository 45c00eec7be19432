/* A relay's sessions after the link was lost and made again: the requests that the relay sends
 * again, and the clients that it must close. */
#include "tests/unit/relay/scene.h"

static void finished_requests_are_not_sent_again(void **state)
{
    struct scene *s = *state;
    uint32_t channel;

    link_up(s);
    take(s, &s->a, "SET k 1");
    take(s, &s->a, "SET k 2");
    take(s, &s->a, "ADD n 1");
    channel = opened(s, false);
    sent(s, channel, 1, "SET k 1");
    link_down(s);
    link_up(s);
    channel = opened(s, true);
    OPENED(s, RELAY_KNOWN, channel, 2, "");
    sent(s, channel, 3, "ADD n 1");
    no_frame(s);
    link_down(s); /* the store carries it out, and is killed before it says so */
    link_up(s);
    channel = opened(s, true);
    GOT_NOTHING(&s->a);
    OPENED(s, RELAY_KNOWN | RELAY_ANSWERED, channel, 3, "\1\0\0\0\0\0\0\0");
    GOT(&s->a, "\1\0\0\0\0\0\0\0");
    no_frame(s);
    assert_int_equal(s->relay.pending_count, 0);
    assert_int_equal(s->relay.stats.resumed, 1); /* the ADD; of the SETs the store had all */
}

static void a_compare_set_that_took_is_answered_with_its_own_value(void **state)
{
    struct scene *s = *state;
    uint32_t channel;

    link_up(s);
    take(s, &s->a, "CAS key old wanted");
    link_down(s);
    link_up(s);
    channel = opened(s, true);
    OPENED(s, RELAY_KNOWN | RELAY_TOOK, channel, 1, "");
    GOT(&s->a, "\6\0\0\0\0\0\0\0wanted");
    no_frame(s);
}

/* The desired value lies in the third piece and the fourth. */
static void a_long_one_too(void **state)
{
    struct scene *s = *state;
    size_t old = 2 * RELAY_PAYLOAD_MAX, want = RELAY_PAYLOAD_MAX, len = 1 + 9 + 8 + old + 8 + want;
    uint8_t *bytes = malloc(len);
    uint32_t channel;

    bytes[0] = 2;
    put_text(bytes + 1, "k");
    bytes_put_u64(bytes + 10, old);
    memset(bytes + 18, 'o', old);
    bytes_put_u64(bytes + 18 + old, want);
    for (size_t i = 0; i < want; i++)
        bytes[26 + old + i] = (uint8_t)(i * 7);
    link_up(s);
    assert_int_equal(take_bytes(s, &s->a, bytes, len), RELAY_TAKEN);
    link_down(s);
    link_up(s);
    channel = opened(s, true);
    OPENED(s, RELAY_KNOWN | RELAY_TOOK, channel, 1, "");
    got(&s->a, bytes + 18 + old, 8 + want);
    free(bytes);
}

static void a_barrier_that_arrived_is_sent_again_under_its_number(void **state)
{
    struct scene *s = *state;
    uint32_t channel;

    link_up(s);
    take(s, &s->a, "SET k v");
    take(s, &s->a, "BARRIER b 2");
    link_down(s);
    link_up(s);
    channel = opened(s, true);
    OPENED(s, RELAY_KNOWN | RELAY_ARRIVED, channel, 2, "");
    sent(s, channel, 2, "BARRIER b 2");
    no_frame(s);
    ANSWER(s, channel, 2, "\0");
    GOT(&s->a, "\0");
    assert_int_equal(s->relay.pending_count, 0);
}

static void waits_are_registered_again(void **state)
{
    struct scene *s = *state;
    uint32_t channel;

    link_up(s);
    take(s, &s->a, "WAIT k");
    link_down(s);
    link_up(s);
    channel = opened(s, true);
    OPENED(s, 0, channel, 0, ""); /* a session that changed nothing leaves no trace */
    sent(s, channel, 1, "WAIT k");
    ANSWER(s, channel, 1, "\0");
    GOT(&s->a, "\0");
}

static void an_idle_session_is_opened_again(void **state)
{
    struct scene *s = *state;
    uint32_t channel;

    link_up(s);
    channel = begins(s, &s->a, "SET k v");
    DONE(s, channel, 1);
    link_down(s);
    link_up(s);
    opened(s, true); /* or its node would be lost after --session-timeout */
    no_frame(s);
}

static void a_session_that_the_store_should_know_is_lost(void **state)
{
    struct scene *s = *state;
    uint32_t channel, other;

    link_up(s);
    channel = begins(s, &s->a, "ADD n 1");
    take(s, &s->b, "SET k v");
    other = opened(s, false);
    ANSWER(s, channel, 1, "\1\0\0\0\0\0\0\0");
    store_says(s, RELAY_DONE, RELAY_KNOWN, other, 1, NULL, 0);
    link_down(s);
    channel = link_again(s);
    assert_true(s->a.ended);
    assert_non_null(strstr(s->a.why, "has forgotten the session"));
    OPENED(s, 0, opened(s, true), 0, "");
    assert_true(s->b.ended); /* the store had said that it keeps a record */
    assert_int_equal(s->relay.stats.lost[LOST_UNKNOWN], 2);
}

/* The store has confirmed that request 2 changed something, and the link goes while 3 is open; in
 * the next one the store says what it knows of the session. */
static uint32_t resume_behind_2(struct scene *s, uint8_t flags, uint64_t number)
{
    uint32_t channel;

    link_up(s);
    take(s, &s->a, "SET k v");
    take(s, &s->a, "SET k w");
    channel = opened(s, false);
    sent(s, channel, 1, "SET k v");
    sent(s, channel, 2, "SET k w");
    store_says(s, RELAY_DONE, RELAY_KNOWN | RELAY_CHANGED, channel, 2, NULL, 0);
    take(s, &s->a, "ADD n 1");
    link_down(s);
    link_up(s);
    channel = opened(s, true);
    store_says(s, RELAY_OPENED, flags, channel, number, "\1\0\0\0\0\0\0\0",
               flags & RELAY_ANSWERED ? 8 : 0);
    return channel;
}

static void a_session_of_which_the_store_knows_all_goes_on(void **state)
{
    struct scene *s = *state;

    sent(s, resume_behind_2(s, RELAY_KNOWN, 2), 3, "ADD n 1");
}

/* It was started from an older copy of its directory, or has lost power. */
static void a_session_of_which_the_store_knows_less_is_lost(void **state)
{
    struct scene *s = *state;
    uint32_t channel = resume_behind_2(s, RELAY_KNOWN, 1);

    assert_true(s->a.ended);
    assert_non_null(strstr(s->a.why, "the store has gone back"));
    assert_int_equal(s->relay.stats.lost[LOST_GONE_BACK], 1);
    closed(s, channel);
    no_frame(s);
}

static void also_when_its_answer_is_long(void **state)
{
    struct scene *s = *state;
    uint32_t channel = resume_behind_2(s, RELAY_KNOWN | RELAY_ANSWERED | RELAY_MORE, 1);

    assert_true(s->a.ended);
    ANSWER(s, channel, 1, "the rest");
    GOT_NOTHING(&s->a);
    closed(s, channel);
    no_frame(s);
}

static void what_may_be_in_doubt_is_lost_after_the_session_timeout(void **state)
{
    struct scene *s = *state;

    link_up(s);
    take(s, &s->a, "ADD n 1"); /* the first change of its session, whose answer never came */
    take(s, &s->b, "SET k v"); /* this may be done twice */
    link_down(s);
    s->relay.now_ns += 59 * SECOND;
    link_up(s);
    OPENED(s, 0, opened(s, true), 0, "");
    OPENED(s, 0, opened(s, true), 0, "");
    assert_true(s->a.ended);
    assert_false(s->b.ended);
}

static void and_is_sent_again_before(void **state)
{
    struct scene *s = *state;
    uint32_t channel;

    link_up(s);
    take(s, &s->a, "ADD n 1");
    link_down(s);
    s->relay.now_ns += 50 * SECOND;
    channel = link_again(s);
    sent(s, channel, 1, "ADD n 1");
}

static void a_request_without_its_answer_ends_the_client(void **state)
{
    struct scene *s = *state;
    uint32_t channel;

    link_up(s);
    take(s, &s->a, "DELETE k");
    link_down(s);
    link_up(s);
    channel = opened(s, true);
    OPENED(s, RELAY_KNOWN, channel, 1, "");
    assert_true(s->a.ended);
    closed(s, channel); /* or the store would keep the session while the link lives */
    assert_int_equal(s->relay.session_count, 1);
}

/* A store sends an answer without an end. */
static void an_answer_that_does_not_fit_takes_no_memory(void **state)
{
    static const uint8_t bytes[RELAY_PAYLOAD_MAX];
    struct scene *s = *state;
    uint32_t channel;
    size_t before;

    link_up(s);
    channel = begins(s, &s->a, "GET k");
    out_pool_fini(&s->pool);
    before = account.bytes[ACCOUNT_ANSWERS];
    for (int i = 0; i < 1000; i++)
        store_says(s, RELAY_ANSWER, RELAY_MORE, channel, 1, NULL, 0);
    assert_int_equal(account.bytes[ACCOUNT_ANSWERS], before);
    account_set_limit(4u << 20);
    for (int i = 0; i < 100; i++)
        store_says(s, RELAY_ANSWER, RELAY_MORE, channel, 1, bytes, sizeof bytes);
    out_pool_fini(&s->pool); /* what queues keep for each other */
    assert_int_equal(account.bytes[ACCOUNT_ANSWERS], before);
    assert_false(s->a.ended);
    store_says(s, RELAY_ANSWER, 0, channel, 1, bytes, 1);
    account_set_limit(0);
    assert_true(s->a.ended);
    GOT_NOTHING(&s->a);
    closed(s, channel);
}

/* Nothing is taken for done that the store has not got. */
static void unsent_requests_are_not_confirmed(void **state)
{
    static const uint8_t kinds[] = {RELAY_DONE, RELAY_ANSWER, RELAY_OPENED};
    struct scene *s = *state;

    link_up(s);
    for (size_t i = 0; i < sizeof kinds; i++) {
        uint32_t channel;

        if (s->a.session == NULL) {
            s->a = (struct client){0};
            session_new(s, C10D_MODERN, &s->a);
        }
        take(s, &s->a, "SET k v");
        channel = opened(s, false);
        sent(s, channel, 1, "SET k v");
        if (kinds[i] == RELAY_OPENED) {
            link_down(s);
            link_up(s);
            channel = opened(s, true);
        }
        take(s, &s->a, "SET k w");
        store_says(s, kinds[i], RELAY_KNOWN, channel, 2, NULL, 0);
        assert_true(s->a.ended);
        flush(s);
        s->len = 0;
    }
}

static void a_barrier_that_never_was_has_not_arrived(void **state)
{
    struct scene *s = *state;
    uint32_t channel;

    link_up(s);
    take(s, &s->a, "ADD n 1");
    link_down(s);
    link_up(s);
    channel = opened(s, true);
    OPENED(s, RELAY_KNOWN | RELAY_ARRIVED, channel, 0, "");
    assert_false(s->a.ended);
    sent(s, channel, 1, "ADD n 1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(finished_requests_are_not_sent_again),
        TEST(a_compare_set_that_took_is_answered_with_its_own_value),
        TEST(a_long_one_too),
        TEST(a_barrier_that_arrived_is_sent_again_under_its_number),
        TEST(waits_are_registered_again),
        TEST(an_idle_session_is_opened_again),
        TEST(a_session_that_the_store_should_know_is_lost),
        TEST(a_session_of_which_the_store_knows_all_goes_on),
        TEST(a_session_of_which_the_store_knows_less_is_lost),
        TEST(also_when_its_answer_is_long),
        TEST(what_may_be_in_doubt_is_lost_after_the_session_timeout),
        TEST(and_is_sent_again_before),
        TEST(a_request_without_its_answer_ends_the_client),
        TEST(an_answer_that_does_not_fit_takes_no_memory),
        TEST(unsent_requests_are_not_confirmed),
        TEST(a_barrier_that_never_was_has_not_arrived),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
