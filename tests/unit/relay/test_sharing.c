/* Equal reads of several clients of a relay, which the link is given once. */
#include "tests/unit/relay/scene.h"

#define READS(s, channel, keys) store_says(s, RELAY_READS, 0, channel, keys, NULL, 0)

static uint32_t channels[3];

/* Two clients with an answer each, and the keys that they read. */
static void begin_sharing(struct scene *s, uint64_t keys_of_a, uint64_t keys_of_b)
{
    s->relay.now_ns = 100 * SECOND;
    link_up(s);
    channels[0] = begins(s, &s->a, "GET k");
    channels[1] = begins(s, &s->b, "GET k");
    READS(s, channels[0], keys_of_a);
    READS(s, channels[1], keys_of_b);
    ANSWER(s, channels[0], 1, "a");
    ANSWER(s, channels[1], 1, "b");
    GOT(&s->a, "a");
    GOT(&s->b, "b");
}

static void both_ask(struct scene *s, const char *a, const char *b)
{
    assert_int_equal(take(s, &s->a, a), RELAY_TAKEN);
    assert_int_equal(take(s, &s->b, b), RELAY_TAKEN);
}

static void equal_reads_of_one_moment_are_one(void **state)
{
    struct scene *s = *state;

    begin_sharing(s, 3, 3);
    both_ask(s, "GET k", "GET k");
    sent(s, channels[0], 2, "GET k");
    no_frame(s);
    store_says(s, RELAY_ANSWER, RELAY_MORE, channels[0], 2, "he", 2);
    ANSWER(s, channels[0], 2, "llo");
    GOT(&s->a, "hello");
    GOT(&s->b, "hello");
    assert_int_equal(s->relay.stats.shared, 1);
    assert_int_equal(s->relay.pending_count, 0);
    take(s, &s->b, "SET k v"); /* the store has not seen number 2 of this session */
    sent(s, channels[1], 2, "SET k v");
    take(s, &s->a, "GET k");
    sent(s, channels[0], 3, "GET k");
    take(s, &s->b, "GET k"); /* the first one is on its way, and may be carried out already */
    sent(s, channels[1], 3, "GET k");
}

/* The next frame is a request that the store keeps; with its bytes, or the same as before. */
static void kept(struct scene *s, uint32_t channel, uint64_t number, bool has_bytes)
{
    uint8_t payload[RELAY_PAYLOAD_MAX];
    struct relay_frame frame;

    flush(s);
    assert_true(next_frame(s, &frame, payload));
    assert_int_equal(frame.kind, RELAY_REQUEST);
    assert_int_equal(frame.flags, RELAY_SAME);
    assert_int_equal(frame.channel, channel);
    assert_int_equal(frame.number, number);
    assert_int_equal(frame.payload.len, has_bytes ? 1 + 8 + 8 + LONG_KEY : 0);
}

/* "WAIT kkkk…" */
static const char *long_wait(char letter)
{
    static char what[8 + LONG_KEY];

    memcpy(what, "WAIT ", 5);
    memset(what + 5, letter, LONG_KEY);
    return what;
}

static void a_long_list_travels_once(void **state)
{
    struct scene *s = *state;

    begin_sharing(s, 3, 3);
    both_ask(s, long_wait('k'), long_wait('k'));
    assert_ptr_equal(s->a.session->asked->pieces[0], s->b.session->asked->pieces[0]);
    kept(s, channels[0], 2, true);
    kept(s, channels[1], 2, false);
    no_frame(s);
    ANSWER(s, channels[0], 2, "\0");
    take(s, &s->a, long_wait('l'));
    kept(s, channels[0], 3, true);
    ANSWER(s, channels[1], 2, "\0");
    take(s, &s->b, long_wait('k'));
    kept(s, channels[1], 3, true);
    link_down(s);
    link_up(s);
    opened(s, true);
    opened(s, true);
    no_frame(s);
}

/* What a store of an earlier release does not know, it does not get. */
static void an_old_store_gets_each_request_whole(void **state)
{
    struct scene *s = *state;

    s->store_keeps_nothing = true;
    begin_sharing(s, 3, 3);
    both_ask(s, long_wait('k'), long_wait('k'));
    sent(s, channels[0], 2, long_wait('k'));
    sent(s, channels[1], 2, long_wait('k'));
}

static void other_reads_are_not_shared(void **state)
{
    struct scene *s = *state;

    begin_sharing(s, 3, 3);
    both_ask(s, "GET k", "GET l");
    sent(s, channels[0], 2, "GET k");
    sent(s, channels[1], 2, "GET l");
    ANSWER(s, channels[0], 2, "a");
    ANSWER(s, channels[1], 2, "b");
    both_ask(s, "ADD k 1", "ADD k 1");
    sent(s, channels[0], 3, "ADD k 1");
    sent(s, channels[1], 3, "ADD k 1");
    ANSWER(s, channels[0], 3, "a");
    ANSWER(s, channels[1], 3, "b");
    take(s, &s->b, "SET k v"); /* its next read must see it */
    both_ask(s, "GET k", "GET k");
    sent(s, channels[1], 4, "SET k v");
    sent(s, channels[1], 5, "GET k");
    sent(s, channels[0], 4, "GET k");
}

static void reads_of_other_keys_are_not_shared(void **state)
{
    struct scene *s = *state;

    begin_sharing(s, 3, 4);
    both_ask(s, "GET k", "GET k");
    sent(s, channels[0], 2, "GET k");
    sent(s, channels[1], 2, "GET k");
}

static void who_loses_its_leader_asks_by_itself(void **state)
{
    struct scene *s = *state;

    begin_sharing(s, 3, 3);
    both_ask(s, "GET k", "GET k");
    sent(s, channels[0], 2, "GET k");
    store_says(s, RELAY_ENDED, 0, channels[0], 0, "no", 2);
    assert_true(s->a.ended);
    sent(s, channels[1], 2, "GET k");
    ANSWER(s, channels[1], 2, "b");
    GOT(&s->b, "b");
}

static void a_leader_that_leaves_still_brings_the_answer(void **state)
{
    struct scene *s = *state;

    begin_sharing(s, 3, 3);
    both_ask(s, "GET k", "GET k");
    sent(s, channels[0], 2, "GET k");
    leave(&s->a);
    ANSWER(s, channels[0], 2, "b");
    GOT(&s->b, "b");
    closed(s, channels[0]);
}

static void one_who_leaves_gets_nothing(void **state)
{
    struct scene *s = *state;

    begin_sharing(s, 3, 3);
    both_ask(s, "GET k", "GET k");
    sent(s, channels[0], 2, "GET k");
    leave(&s->b);
    ANSWER(s, channels[0], 2, "a");
    GOT(&s->a, "a");
    GOT_NOTHING(&s->b);
    closed(s, channels[1]);
}

static void on_the_next_link_each_asks_by_itself(void **state)
{
    struct scene *s = *state;
    uint32_t again;

    begin_sharing(s, 3, 3);
    both_ask(s, "GET k", "GET k");
    sent(s, channels[0], 2, "GET k");
    link_down(s);
    again = link_again(s);
    assert_int_equal(opened(s, true), again + 1);
    OPENED(s, 0, again + 1, 0, "");
    sent(s, again, 2, "GET k");
    sent(s, again + 1, 2, "GET k");
}

/* A CHECK each second, as of the HeartbeatMonitor: it waits a moment for those of other clients,
 * and each client is heard by itself now and then. */
static void polls_wait_for_each_other(void **state)
{
    struct scene *s = *state;
    unsigned alone = 0;

    begin_sharing(s, 3, 3);
    both_ask(s, "CHECK k", "CHECK k");
    sent(s, channels[0], 2, "CHECK k");
    sent(s, channels[1], 2, "CHECK k");
    ANSWER(s, channels[0], 2, "\1");
    ANSWER(s, channels[1], 2, "\1");
    for (uint64_t i = 3; i < 3 + RELAY_ALONE_S + 2; i++) {
        s->relay.now_ns += SECOND;
        s->a.len = s->b.len = 0;
        take(s, &s->a, "CHECK k");
        no_frame(s);
        s->relay.now_ns += RELAY_POLL_HOLD_NS / 2;
        take(s, &s->b, "CHECK k");
        no_frame(s);
        s->relay.now_ns += RELAY_POLL_HOLD_NS / 2;
        sent(s, channels[0], i, "CHECK k");
        if (i >= 2 + RELAY_ALONE_S && alone == 0) {
            sent(s, channels[1], 3, "CHECK k");
            ANSWER(s, channels[1], 3, "\1");
            alone++;
        }
        no_frame(s);
        ANSWER(s, channels[0], i, "\1");
        GOT(&s->a, "\1");
        GOT(&s->b, "\1");
    }
    assert_int_equal(alone, 1);
}

static void a_poll_goes_with_what_goes(void **state)
{
    struct scene *s = *state;

    begin_sharing(s, 3, 3);
    both_ask(s, "CHECK k", "CHECK k");
    sent(s, channels[0], 2, "CHECK k");
    sent(s, channels[1], 2, "CHECK k");
    ANSWER(s, channels[0], 2, "\1");
    ANSWER(s, channels[1], 2, "\1");
    take(s, &s->a, "CHECK k"); /* at once, so it is no poll */
    sent(s, channels[0], 3, "CHECK k");
    ANSWER(s, channels[0], 3, "\1");
    s->relay.now_ns += SECOND;
    take(s, &s->a, "CHECK k");
    no_frame(s);
    take(s, &s->b, "SET k v");
    sent(s, channels[0], 4, "CHECK k");
    sent(s, channels[1], 3, "SET k v");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(equal_reads_of_one_moment_are_one),
        TEST(a_long_list_travels_once),
        TEST(an_old_store_gets_each_request_whole),
        TEST(other_reads_are_not_shared),
        TEST(reads_of_other_keys_are_not_shared),
        TEST(who_loses_its_leader_asks_by_itself),
        TEST(a_leader_that_leaves_still_brings_the_answer),
        TEST(one_who_leaves_gets_nothing),
        TEST(on_the_next_link_each_asks_by_itself),
        TEST(polls_wait_for_each_other),
        TEST(a_poll_goes_with_what_goes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
