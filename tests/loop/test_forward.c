/* A replica that does not lead and passes its clients on: the replica is a server in the test's
 * hands whose etcd does not answer, and so is what it takes for the one that leads. */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#include "proto/relay.pb-c.h"
#include "tests/loop/hand.h"

/* --- The leader. --- */

static int listening;

static uint16_t listen_somewhere(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof at;

    listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(listening, (struct sockaddr *)(void *)&at, len), 0);
    assert_int_equal(listen(listening, 16), 0);
    assert_int_equal(getsockname(listening, (struct sockaddr *)(void *)&at, &len), 0);
    return ntohs(at.sin_port);
}

/* The next link that comes, and the space that it asks for. */
static int take_link(char space[64])
{
    uint8_t magic[RELAY_MAGIC_SIZE];
    Rdzv__RelayHello *hello;
    struct relay_frame frame;
    int fd;

    LOOP_UNTIL(&loop, (fd = accept4(listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0);
    loop_receive(&loop, fd, magic, sizeof magic);
    assert_memory_equal(magic, RELAY_MAGIC, sizeof magic);
    frame = hand_next(fd);
    assert_int_equal(frame.kind, RELAY_HELLO);
    hello = rdzv__relay_hello__unpack(NULL, frame.payload.len, frame.payload.ptr);
    assert_non_null(hello);
    snprintf(space, 64, "%s", hello->space);
    rdzv__relay_hello__free_unpacked(hello, NULL);
    return fd;
}

static void welcome(int fd)
{
    Rdzv__RelayWelcome w = RDZV__RELAY_WELCOME__INIT;
    uint8_t payload[256];

    w.version = RELAY_VERSION_MAX;
    w.session_timeout_ms = 60000;
    w.value_max = 1 << 20;
    hand_send(fd, RELAY_WELCOME, 0, 0, 0, payload, rdzv__relay_welcome__pack(&w, payload));
}

static const struct forward *forward(size_t i)
{
    assert_true(i < loop.server.forwards.count);
    return &loop.server.forwards.list[i];
}

/* A replica that stands by. */
static void open_replica(const char *more)
{
    char upstream[64];

    snprintf(upstream, sizeof upstream, "--upstream=127.0.0.1:%u", listen_somewhere());
    loop_open(&loop, (const char *const[]){"--journal=etcd://127.0.0.1:1/n", upstream, more, NULL});
}

/* The same, with one space, and its link. */
static int begin(void)
{
    char space[64];
    int fd;

    open_replica(NULL);
    fd = take_link(space);
    assert_string_equal(space, "default");
    welcome(fd);
    LOOP_UNTIL(&loop, forward(0)->relay.link);
    return fd;
}

static void end(int fd)
{
    close(fd);
    close(listening);
    loop_close(&loop);
}

/* A client whose GET of /k is at the leader: the channel of its session. */
static uint32_t ask(int leader, int client)
{
    struct relay_frame frame;

    loop_send(&loop, client, TEXT(GET_K));
    frame = hand_next(leader);
    assert_int_equal(frame.kind, RELAY_OPEN);
    frame = hand_next(leader);
    assert_int_equal(frame.kind, RELAY_REQUEST);
    assert_int_equal(frame.payload.len, sizeof GET_K - 1);
    assert_memory_equal(frame.payload.ptr, GET_K, sizeof GET_K - 1);
    return frame.channel;
}

static void begin_to_lead(void)
{
    const struct journal_etcd_options *first_member = (const void *)loop.server.store.etcd;

    first_member->leads(first_member->arg);
}

/* --- Tests. --- */

static void a_client_has_a_session_at_the_leader(void **state)
{
    int leader, client;
    uint32_t channel;

    (void)state;
    leader = begin();
    client = loop_connect_modern(&loop);
    channel = ask(leader, client);
    hand_send(leader, RELAY_ANSWER, 0, channel, 1, TEXT(VALUE_V));
    loop_expect(&loop, client, TEXT(VALUE_V));
    close(client);
    assert_int_equal(hand_next(leader).kind, RELAY_CLOSE);
    end(leader);
}

/* The standby's own store has no keys to answer from, so the session stays with its link, even if
 * this replica leads soon. */
static void who_came_before_it_leads_stays_with_its_link(void **state)
{
    int leader, before, after;
    uint32_t channel;

    (void)state;
    leader = begin();
    before = loop_connect_modern(&loop);
    channel = ask(leader, before);
    begin_to_lead();
    after = loop_connect_modern(&loop);
    assert_ptr_equal(loop_conn(&loop, after)->protocol, &loop.server.store.c10d_protocol);
    assert_ptr_equal(loop_conn(&loop, before)->protocol, &forward(0)->client_protocol);
    hand_send(leader, RELAY_ANSWER, 0, channel, 1, TEXT(VALUE_V));
    loop_expect(&loop, before, TEXT(VALUE_V));
    loop_leave(&loop, after);
    loop_leave(&loop, before);
    end(leader);
}

/* Two followers cannot pass each other on in a circle. */
static void a_link_is_not_passed_on(void **state)
{
    int leader, link, client;

    (void)state;
    leader = begin();
    link = hand_say_hello("default", 1, 1);
    hand_expect(link, RELAY_REFUSED, RELAY_STANDS_BY, 0, 0, TEXT("this replica does not lead"));
    loop_expect_end(&loop, link);
    close(link);
    client = loop_connect_modern(&loop);
    loop_send(&loop, client, RELAY_MAGIC, RELAY_MAGIC_SIZE); /* no opcode of c10d */
    loop_expect_end(&loop, client);
    close(client);
    loop_expect_silence(&loop, leader);
    end(leader);
}

static void each_space_has_a_link(void **state)
{
    char spaces[2][64]; /* which address is found first, threads decide */
    int first, second;

    (void)state;
    open_replica("--listen=127.0.0.1:0/job-b");
    first = take_link(spaces[0]);
    second = take_link(spaces[1]);
    assert_true((strcmp(spaces[0], "default") == 0 && strcmp(spaces[1], "job-b") == 0) ||
                (strcmp(spaces[0], "job-b") == 0 && strcmp(spaces[1], "default") == 0));
    welcome(first);
    LOOP_UNTIL(&loop, forward(0)->relay.link || forward(1)->relay.link);
    assert_false(forwards_are_linked(&loop.server.forwards));
    welcome(second);
    LOOP_UNTIL(&loop, forwards_are_linked(&loop.server.forwards));
    assert_int_equal(loop.server.forwards.count, 2);
    close(second);
    end(first);
}

/* The next leader may be waiting for this one's lease, which is given back when nobody is left. */
static void a_stop_does_not_wait_for_a_leader_to_come(void **state)
{
    char body[1000];
    int leader, client, web;

    (void)state;
    leader = begin();
    client = loop_connect_modern(&loop);
    ask(leader, client);
    web = loop_connect(&loop, false);
    loop_send(&loop, web, TEXT(PUT_K));
    LOOP_UNTIL(&loop, !TAILQ_EMPTY(&forward(0)->http.busy));
    transport_drain(&loop.server.net);
    loop_iterate(&loop);
    assert_non_null(loop_conn(&loop, client)); /* the leader may answer yet */
    assert_non_null(loop_conn(&loop, web));
    close(leader);
    assert_int_equal(loop_expect_answer(&loop, web, body, sizeof body), 500);
    loop_expect_end(&loop, client);
    loop_expect_end(&loop, web);
    LOOP_UNTIL(&loop, loop.server.net.conn_count == 0);
    close(client);
    close(web);
    close(listening);
    loop_close(&loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_client_has_a_session_at_the_leader),
        cmocka_unit_test(who_came_before_it_leads_stays_with_its_link),
        cmocka_unit_test(a_link_is_not_passed_on),
        cmocka_unit_test(each_space_has_a_link),
        cmocka_unit_test(a_stop_does_not_wait_for_a_leader_to_come),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
