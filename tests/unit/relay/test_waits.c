/* WAITs and barriers that a client behind a relay gives up, with a link and without. */
#include "tests/unit/relay/scene.h"

static void cancel_goes_through_the_store_while_it_is_there(void **state)
{
    struct scene *s = *state;
    uint32_t channel;

    link_up(s);
    channel = begins(s, &s->a, "WAIT k");
    assert_int_equal(take(s, &s->a, "CANCEL"), RELAY_TAKEN);
    sent(s, channel, 2, "CANCEL");
    assert_int_equal(take(s, &s->a, "GET k"), RELAY_HELD);
    ANSWER(s, channel, 1, "\0"); /* the race: the key came before the cancellation */
    ANSWER(s, channel, 2, "\1");
    GOT(&s->a, "\0\1");
    assert_int_equal(take(s, &s->a, "GET k"), RELAY_TAKEN);
    sent(s, channel, 3, "GET k");
}

static void cancel_is_answered_here_while_the_store_is_away(void **state)
{
    struct scene *s = *state;
    uint32_t channel;

    link_up(s);
    take(s, &s->a, "WAIT k");
    link_down(s);
    assert_int_equal(take(s, &s->a, "CANCEL"), RELAY_TAKEN);
    GOT(&s->a, "\1");
    assert_int_equal(take(s, &s->a, "GET k"), RELAY_TAKEN);
    channel = link_again(s);
    sent(s, channel, 2, "GET k");
    ANSWER(s, channel, 1, "\0"); /* of the WAIT: nobody wants it */
    GOT_NOTHING(&s->a);
    ANSWER(s, channel, 2, "v");
    GOT(&s->a, "v");
}

/* A client may give up as often as it likes while the store is away. */
static void a_wait_that_nobody_was_told_of_leaves_no_number_out(void **state)
{
    struct scene *s = *state;
    uint32_t channel;

    link_up(s);
    take(s, &s->a, "WAIT k");
    link_down(s);
    take(s, &s->a, "CANCEL"); /* the store may know of 1, which nobody asks for any more */
    for (int i = 0; i < 3; i++) {
        assert_int_equal(take(s, &s->a, "SET k v"), RELAY_TAKEN);
        assert_int_equal(take(s, &s->a, "WAIT k"), RELAY_TAKEN);
        assert_int_equal(take(s, &s->a, "CANCEL"), RELAY_TAKEN);
    }
    take(s, &s->a, "GET k");
    channel = link_again(s);
    for (uint64_t number = 2; number < 5; number++)
        sent(s, channel, number, "SET k v");
    sent(s, channel, 5, "GET k");
}

/* The store has all of it, and carries nothing out, since its disk is full; and links come and go.
 */
static void waits_that_were_sent_and_given_up_leave_no_gap(void **state)
{
    struct scene *s = *state;
    uint32_t channel;

    link_up(s);
    take(s, &s->a, "SET k v");
    for (int i = 0; i < 3; i++) {
        assert_int_equal(take(s, &s->a, "WAIT k"), RELAY_TAKEN);
        link_down(s);
        assert_int_equal(take(s, &s->a, "CANCEL"), RELAY_TAKEN);
        assert_int_equal(take(s, &s->a, "SET k w"), RELAY_TAKEN);
        channel = link_again(s);
        sent(s, channel, 1, "SET k v");
        for (int j = 0; j <= i; j++)
            sent(s, channel, (uint64_t)j + 2, "SET k w");
        no_frame(s);
    }
    DONE(s, channel, 4);
    assert_int_equal(s->relay.pending_count, 0);
}

/* The session is opened again, but the rest is not sent yet. */
static void nor_does_one_that_is_given_up_before_it_is_sent_again(void **state)
{
    struct scene *s = *state;
    uint32_t channel;

    link_up(s);
    take(s, &s->a, "SET k v");
    take(s, &s->a, "WAIT k");
    link_down(s);
    channel = link_again(s);
    relay_stop_waiting(s->a.session);
    assert_int_equal(take(s, &s->a, "SET k w"), RELAY_TAKEN);
    sent(s, channel, 1, "SET k v");
    sent(s, channel, 2, "SET k w");
}

/* The link was there, and was given nothing; the client's CANCEL had to go the long way. */
static void nor_do_those_that_no_store_has_heard_of(void **state)
{
    struct scene *s = *state;
    uint32_t channel;

    link_up(s);
    take(s, &s->a, "SET k v");
    take(s, &s->a, "WAIT k");
    take(s, &s->a, "CANCEL");
    GOT_NOTHING(&s->a);
    relay_link_down(&s->relay);
    GOT(&s->a, "\1");
    assert_int_equal(take(s, &s->a, "GET k"), RELAY_TAKEN);
    link_up(s);
    channel = opened(s, false);
    sent(s, channel, 1, "SET k v");
    sent(s, channel, 2, "GET k");
}

/* The store would take it for the WAIT. */
static void the_first_does_not_get_the_number_of_a_wait_that_may_be_open(void **state)
{
    struct scene *s = *state;
    uint32_t channel;

    link_up(s);
    take(s, &s->a, "WAIT k");
    link_down(s);
    channel = link_again(s);
    relay_stop_waiting(s->a.session);
    assert_int_equal(take(s, &s->a, "SET k w"), RELAY_TAKEN);
    sent(s, channel, 2, "SET k w");
}

static void a_cancel_that_is_open_when_the_link_goes_is_answered(void **state)
{
    struct scene *s = *state;

    link_up(s);
    take(s, &s->a, "WAIT k");
    take(s, &s->a, "CANCEL");
    flush(s);
    GOT_NOTHING(&s->a);
    link_down(s);
    GOT(&s->a, "\1");
    assert_int_equal(s->relay.pending_count, 0);
    link_up(s);
    OPENED(s, 0, opened(s, true), 0, "");
    no_frame(s);
}

static void a_barrier_counts_though_its_client_gave_up(void **state)
{
    struct scene *s = *state;
    uint32_t channel;

    take(s, &s->a, "BARRIER b 2");
    take(s, &s->a, "CANCEL");
    GOT(&s->a, "\1");
    assert_int_equal(take(s, &s->a, "GET k"), RELAY_TAKEN);
    link_up(s);
    channel = opened(s, false);
    sent(s, channel, 1, "BARRIER b 2");
    sent(s, channel, 2, "CANCEL");
    no_frame(s);
    ANSWER(s, channel, 2, "\1");
    GOT_NOTHING(&s->a);
    sent(s, channel, 3, "GET k");
}

static void a_barrier_that_cannot_be_given_up_is_still_waited_for(void **state)
{
    struct scene *s = *state;
    uint32_t channel;

    take(s, &s->a, "BARRIER b 2");
    account_set_limit(1);
    assert_int_equal(take(s, &s->a, "CANCEL"), RELAY_NO_MEMORY);
    account_set_limit(0);
    leave(&s->a);
    link_up(s);
    channel = opened(s, false);
    sent(s, channel, 1, "BARRIER b 2");
    sent(s, channel, 2, "CANCEL");
    ANSWER(s, channel, 2, "\1");
    closed(s, channel);
}

/* The memory may suffice for a request, and not for its bytes. */
static void a_refused_request_has_no_number(void **state)
{
    struct scene *s = *state;
    enum relay_taken taken = RELAY_NO_MEMORY;
    uint32_t channel;

    link_up(s);
    channel = begins(s, &s->a, "BARRIER b 2");
    for (size_t room = 16; taken == RELAY_NO_MEMORY; room += 16) {
        account_set_limit(2 * (account.total + room)); /* half of so little is kept */
        taken = take(s, &s->a, "CANCEL");
    }
    account_set_limit(0);
    assert_int_equal(taken, RELAY_TAKEN);
    sent(s, channel, 2, "CANCEL");
}

static void cancel_without_a_wait_is_answered_at_once(void **state)
{
    struct scene *s = *state;

    link_up(s);
    assert_int_equal(take(s, &s->a, "CANCEL"), RELAY_TAKEN);
    GOT(&s->a, "\1");
    no_frame(s);
}

static void the_next_request_of_a_legacy_client_ends_its_wait(void **state)
{
    struct scene *s = *state;
    struct client old = {0};
    uint8_t wait[] = {5, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 'k'};
    uint8_t get[] = {2, 1, 0, 0, 0, 0, 0, 0, 0, 'k'};
    uint32_t channel;
    uint8_t payload[RELAY_PAYLOAD_MAX];
    struct relay_frame frame;

    session_new(s, C10D_LEGACY, &old);
    link_up(s);
    assert_int_equal(take_bytes(s, &old, wait, sizeof wait), RELAY_TAKEN);
    channel = opened(s, false);
    assert_true(next_frame(s, &frame, payload));
    assert_int_equal(take_bytes(s, &old, get, sizeof get), RELAY_TAKEN);
    assert_true(next_frame(s, &frame, payload));
    assert_int_equal(frame.number, 2);
    ANSWER(s, channel, 1, "\0");
    GOT_NOTHING(&old);
    ANSWER(s, channel, 2, "v");
    GOT(&old, "v");
    relay_leave(old.session);
}

/* A WAIT for so many keys that it goes in two pieces; `code` is its opcode in the version. */
static size_t long_wait(uint8_t out[2 * RELAY_PAYLOAD_MAX], uint8_t code)
{
    const size_t keys = 10, len = 8000;
    size_t at = 9;

    out[0] = code;
    bytes_put_u64(out + 1, keys);
    for (size_t i = 0; i < keys; i++, at += 8 + len) {
        bytes_put_u64(out + at, len);
        memset(out + at + 8, 'k', len);
    }
    assert_true(at > RELAY_PAYLOAD_MAX && at < 2 * RELAY_PAYLOAD_MAX);
    return at;
}

/* A legacy client, of whose WAIT the link has half, goes on with GET. */
static void leave_half_a_wait(struct scene *s, struct client *old)
{
    uint8_t wait[2 * RELAY_PAYLOAD_MAX], get[] = {2, 1, 0, 0, 0, 0, 0, 0, 0, 'k'};
    size_t len = long_wait(wait, 5);

    session_new(s, C10D_LEGACY, old);
    link_up(s);
    assert_int_equal(take_bytes(s, old, wait, len), RELAY_TAKEN);
    relay_send(&s->relay, &s->out, 1); /* OPEN and a piece */
    assert_int_equal(take_bytes(s, old, get, sizeof get), RELAY_TAKEN);
}

static void expect_request(struct scene *s, uint64_t number, uint8_t flags, bool is_long)
{
    static uint8_t payload[RELAY_PAYLOAD_MAX];
    struct relay_frame frame;

    assert_true(next_frame(s, &frame, payload));
    assert_int_equal(frame.kind, RELAY_REQUEST);
    assert_int_equal(frame.number, number);
    assert_int_equal(frame.flags, flags);
    assert_int_equal(frame.payload.len > 1000, is_long);
}

/* Else the store would take the next request for the rest of it. */
static void a_wait_that_was_sent_by_half_is_sent_to_its_end(void **state)
{
    struct scene *s = *state;
    struct client old = {0};
    uint32_t channel;

    leave_half_a_wait(s, &old);
    channel = opened(s, false);
    expect_request(s, 1, RELAY_MORE, true);
    expect_request(s, 1, 0, true);
    expect_request(s, 2, 0, false);
    ANSWER(s, channel, 1, "\0");
    GOT_NOTHING(&old);
    ANSWER(s, channel, 2, "v");
    GOT(&old, "v");
    assert_int_equal(s->relay.pending_count, 0);
    relay_leave(old.session);
}

static void half_a_wait_goes_with_its_link(void **state)
{
    struct scene *s = *state;
    struct client old = {0};

    leave_half_a_wait(s, &old);
    relay_link_down(&s->relay);
    outq_fini(&s->out, &s->pool);
    outq_init(&s->out);
    assert_int_equal(s->relay.pending_count, 1);
    link_up(s);
    OPENED(s, 0, opened(s, true), 0, "");
    expect_request(s, 1, 0, false); /* no number is left out */
    relay_leave(old.session);
}

/* What a client has sent before it shut its side down counts, also behind a WAIT that nobody waits
 * for any more; a store takes no change behind a WAIT that is open. */
static void the_store_hears_that_a_wait_is_given_up(void **state)
{
    struct scene *s = *state;
    uint8_t wait[2 * RELAY_PAYLOAD_MAX];
    size_t len = long_wait(wait, 6);
    uint32_t channel;

    link_up(s);
    assert_int_equal(take_bytes(s, &s->a, wait, len), RELAY_TAKEN);
    relay_send(&s->relay, &s->out, 1);
    relay_stop_waiting(s->a.session);
    assert_int_equal(take(s, &s->a, "SET k v"), RELAY_TAKEN);
    channel = opened(s, false);
    expect_request(s, 1, RELAY_MORE, true);
    expect_request(s, 1, 0, true);
    sent(s, channel, 2, "CANCEL");
    no_frame(s);
    ANSWER(s, channel, 2, "\1");
    GOT_NOTHING(&s->a);
    sent(s, channel, 3, "SET k v");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(cancel_goes_through_the_store_while_it_is_there),
        TEST(cancel_is_answered_here_while_the_store_is_away),
        TEST(a_wait_that_nobody_was_told_of_leaves_no_number_out),
        TEST(waits_that_were_sent_and_given_up_leave_no_gap),
        TEST(nor_does_one_that_is_given_up_before_it_is_sent_again),
        TEST(nor_do_those_that_no_store_has_heard_of),
        TEST(the_first_does_not_get_the_number_of_a_wait_that_may_be_open),
        TEST(a_cancel_that_is_open_when_the_link_goes_is_answered),
        TEST(a_barrier_counts_though_its_client_gave_up),
        TEST(a_barrier_that_cannot_be_given_up_is_still_waited_for),
        TEST(a_refused_request_has_no_number),
        TEST(cancel_without_a_wait_is_answered_at_once),
        TEST(the_next_request_of_a_legacy_client_ends_its_wait),
        TEST(a_wait_that_was_sent_by_half_is_sent_to_its_end),
        TEST(half_a_wait_goes_with_its_link),
        TEST(the_store_hears_that_a_wait_is_given_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
