/* The end of a relay's clients, and of their sessions in the store. */
#include "tests/unit/relay/scene.h"

static void what_a_client_sent_before_it_went_is_confirmed_before_close(void **state)
{
    struct scene *s = *state;
    uint32_t channel;

    take(s, &s->a, "SET k v");
    leave(&s->a);
    link_up(s);
    channel = opened(s, false);
    sent(s, channel, 1, "SET k v");
    no_frame(s);
    link_down(s);
    channel = link_again(s);
    sent(s, channel, 1, "SET k v");
    DONE(s, channel, 1);
    closed(s, channel);
    assert_int_equal(s->relay.session_count, 1);
    assert_false(relay_is_done(&s->relay));
}

static void a_client_that_goes_while_the_link_is_away_is_closed_later(void **state)
{
    struct scene *s = *state;
    uint32_t channel;

    link_up(s);
    take(s, &s->a, "WAIT k");
    flush(s);
    link_down(s);
    leave(&s->a);
    assert_int_equal(s->relay.session_count, 2);
    channel = link_again(s);
    closed(s, channel);
    assert_int_equal(s->relay.session_count, 1);
}

/* The store that was away for longer than --session-timeout awaits the session from its start on.
 * If it was only the link, the store has ended it, and there is nothing to lose. */
static void however_long_the_link_was_away(void **state)
{
    struct scene *s = *state;
    uint32_t channel;

    link_up(s);
    take(s, &s->a, "SET k v");
    channel = opened(s, false);
    OPENED(s, 0, channel, 0, "");
    sent(s, channel, 1, "SET k v");
    DONE(s, channel, 1);
    link_down(s);
    leave(&s->a);
    s->relay.now_ns += 3600 * SECOND;
    relay_tick(&s->relay);
    assert_int_equal(s->relay.session_count, 2);
    channel = link_again(s);
    closed(s, channel);
    assert_int_equal(s->relay.session_count, 1);
    assert_int_equal(s->relay.stats.lost[LOST_UNKNOWN], 0);
}

static void a_client_that_goes_from_a_wait_is_closed_at_once(void **state)
{
    struct scene *s = *state;
    uint32_t channel;

    link_up(s);
    channel = begins(s, &s->a, "WAIT k");
    leave(&s->a);
    closed(s, channel);
    ANSWER(s, channel, 1, "\0"); /* it was on its way */
}

static void a_client_that_goes_from_a_barrier_has_arrived(void **state)
{
    struct scene *s = *state;
    uint32_t channel;

    link_up(s);
    take(s, &s->a, "BARRIER b 2");
    leave(&s->a);
    channel = opened(s, false);
    sent(s, channel, 1, "BARRIER b 2");
    sent(s, channel, 2, "CANCEL");
    no_frame(s);
    ANSWER(s, channel, 2, "\1");
    closed(s, channel);
}

static void the_store_ends_a_session(void **state)
{
    struct scene *s = *state;
    uint32_t channel;

    link_up(s);
    channel = begins(s, &s->a, "GET k");
    store_says(s, RELAY_ENDED, 0, channel, 0, "the run is over", 15);
    assert_true(s->a.ended);
    assert_string_equal(s->a.why, "the run is over");
    assert_int_equal(s->relay.stats.lost[LOST_ENDED], 1);
    s->a.session = NULL;
    closed(s, channel); /* the store needs not keep anything of it */
    assert_int_equal(s->relay.session_count, 1);
}

static void a_store_that_has_ended_a_session_is_told_in_the_next_link(void **state)
{
    struct scene *s = *state;
    uint32_t channel;

    link_up(s);
    channel = begins(s, &s->a, "GET k");
    store_says(s, RELAY_ENDED, 0, channel, 0, "out of memory", 13);
    s->a.session = NULL;
    relay_link_down(&s->relay);
    link_up(s);
    channel = opened(s, true);
    OPENED(s, RELAY_KNOWN, channel, 0, "");
    closed(s, channel);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_a_client_sent_before_it_went_is_confirmed_before_close),
        TEST(a_client_that_goes_while_the_link_is_away_is_closed_later),
        TEST(however_long_the_link_was_away),
        TEST(a_client_that_goes_from_a_wait_is_closed_at_once),
        TEST(a_client_that_goes_from_a_barrier_has_arrived),
        TEST(the_store_ends_a_session),
        TEST(a_store_that_has_ended_a_session_is_told_in_the_next_link),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
