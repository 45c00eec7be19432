/* Relays that come to a replica that does not lead: they wait, and are welcome when it does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "rdzv/net/transport.h"
#include "rdzv/relay/link_session.h"
#include "tests/loop/hand.h"

static struct relay_links *links(void)
{
    return &loop.server.store.links;
}

static const struct hello_journal no_journal;

static void open_standby(void)
{
    loop_open(&loop, NULL);
    relay_links_stand_by(links());
}

static int come(void)
{
    int fd = hand_say_hello_and_wait();

    LOOP_UNTIL(&loop,
               !TAILQ_EMPTY(&links()->waiting) &&
                   TAILQ_LAST(&links()->waiting, relay_link_list)->conn == loop_conn(&loop, fd));
    return fd;
}

/* It asks all of them first. */
static int come_on_the_way(void)
{
    return hand_say_hello("default", 1, 1);
}

static void expect_sent_on(int fd, const char *why)
{
    hand_expect(fd, RELAY_REFUSED, RELAY_STANDS_BY, 0, 0, why, strlen(why));
    loop_expect_end(&loop, fd);
    close(fd);
}

static void wait_that_long(uint64_t ms)
{
    struct relay_link *link;

    TAILQ_FOREACH(link, &links()->waiting, entry)
        link->since_ms -= ms;
    relay_links_tick(links());
}

static void relays_are_welcome_when_the_replica_leads(void **state)
{
    int fds[3];

    (void)state;
    open_standby();
    for (size_t i = 0; i < COUNT(fds); i++)
        fds[i] = come();
    for (size_t i = 0; i < COUNT(fds); i++)
        loop_expect_silence(&loop, fds[i]);
    relay_links_lead(links(), &no_journal);
    assert_true(TAILQ_EMPTY(&links()->waiting));
    for (size_t i = 0; i < COUNT(fds); i++) {
        assert_int_equal(hand_next(fds[i]).kind, RELAY_WELCOME);
        hand_open(fds[i], 1, 11 + i);
        hand_request(fds[i], 1, 1, TEXT(SET_K));
        hand_expect(fds[i], RELAY_DONE, CHANGED, 1, 1, NOTHING);
    }
    for (size_t i = 0; i < COUNT(fds); i++)
        hand_lose_link(fds[i]);
    loop_close(&loop);
}

static void relays_are_sent_on_when_another_one_leads(void **state)
{
    int first, second;

    (void)state;
    open_standby();
    first = come();
    second = come();
    relay_links_send_on(links(), "rdzvd-2 pid 7");
    expect_sent_on(first, "this replica stands by: rdzvd-2 pid 7 leads");
    expect_sent_on(second, "this replica stands by: rdzvd-2 pid 7 leads");
    expect_sent_on(come_on_the_way(), "this replica stands by: rdzvd-2 pid 7 leads");
    loop_close(&loop);
}

static void a_relay_waits_for_two_seconds(void **state)
{
    int first, second;

    (void)state;
    open_standby();
    expect_sent_on(come_on_the_way(), "this replica does not lead");
    first = come();
    wait_that_long(RELAY_STANDBY_MS - 500);
    second = come();
    wait_that_long(500);
    expect_sent_on(first, "this replica does not lead");
    loop_expect_silence(&loop, second);
    relay_links_lead(links(), &no_journal);
    assert_int_equal(hand_next(second).kind, RELAY_WELCOME);
    hand_lose_link(second);
    loop_close(&loop);
}

static void a_relay_may_go_while_it_waits(void **state)
{
    int fd;

    (void)state;
    open_standby();
    fd = come();
    hand_lose_link(fd);
    assert_true(TAILQ_EMPTY(&links()->waiting));
    relay_links_lead(links(), &no_journal);
    fd = hand_connect();
    hand_lose_link(fd);
    loop_close(&loop);
}

/* The standby reads the link, so that it sees its end; bytes behind HELLO are limited. */
static void a_relay_that_says_more_is_dropped(void **state)
{
    static const uint8_t zeros[1 << 16];
    int fd;

    (void)state;
    open_standby();
    fd = come();
    for (int i = 0; i < 100 && !TAILQ_EMPTY(&links()->waiting); i++) {
        if (write(fd, zeros, sizeof zeros) < 0)
            loop_iterate(&loop);
        loop_iterate(&loop);
    }
    assert_true(TAILQ_EMPTY(&links()->waiting));
    close(fd);
    loop_close(&loop);
}

/* Not after RELAY_STANDBY_MS: it asks another replica at once. */
static void relays_are_let_go_when_the_replica_stops(void **state)
{
    int first, second;

    (void)state;
    open_standby();
    first = come();
    second = come();
    transport_drain(&loop.server.net);
    loop_expect_end(&loop, first);
    loop_expect_end(&loop, second);
    close(first);
    close(second);
    LOOP_UNTIL(&loop, loop.server.net.conn_count == 0);
    assert_true(TAILQ_EMPTY(&links()->waiting));
    loop_close(&loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(relays_are_welcome_when_the_replica_leads),
        cmocka_unit_test(relays_are_sent_on_when_another_one_leads),
        cmocka_unit_test(a_relay_waits_for_two_seconds),
        cmocka_unit_test(a_relay_may_go_while_it_waits),
        cmocka_unit_test(a_relay_that_says_more_is_dropped),
        cmocka_unit_test(relays_are_let_go_when_the_replica_stops),
    };

    return cmocka_run_group_tests_name("rdzv/relay/link, a replica stands by", tests, NULL, NULL);
}
