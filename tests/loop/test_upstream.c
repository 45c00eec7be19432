/* A relay's connection to its store: the next address after a refusal, and stores that break the
 * protocol. Names are looked up here: the store's has two addresses. */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cmocka.h>

#include "proto/relay.h"
#include "proto/relay.pb-c.h"
#include "rdzv/net/resolve.h"
#include "rdzv/relay/upstream.h"
#include "tests/loop/harness.h"

/* --- The store, at two addresses. --- */

static int listening[2];
static union resolve_address addresses[2];

static void listen_at(int i)
{
    union resolve_address *a = &addresses[i];
    socklen_t len = sizeof a->in4;

    a->in4 = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    listening[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_true(listening[i] >= 0);
    assert_int_equal(bind(listening[i], &a->any, len), 0);
    assert_int_equal(listen(listening[i], 16), 0);
    assert_int_equal(getsockname(listening[i], &a->any, &len), 0);
}

struct lookup {
    void (*tell)(void *arg, const union resolve_address *addresses, size_t count, const char *why);
    void *arg;
};

static struct lookup lookup;

static void on_found(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    (void)arg;
    lookup.tell(lookup.arg, addresses, 2, NULL);
}

struct resolve *__wrap_resolve_start(struct event_base *base, const char *host, uint16_t port,
                                     void (*tell)(void *arg, const union resolve_address *addresses,
                                                  size_t count, const char *why),
                                     void *arg);
struct resolve *__wrap_resolve_start(struct event_base *base, const char *host, uint16_t port,
                                     void (*tell)(void *arg, const union resolve_address *addresses,
                                                  size_t count, const char *why),
                                     void *arg)
{
    const struct timeval now = {0};

    assert_string_equal(host, "store.test");
    assert_int_equal(port, 29400);
    lookup = (struct lookup){tell, arg};
    assert_int_equal(event_base_once(base, -1, EV_TIMEOUT, on_found, NULL, &now), 0);
    return (struct resolve *)(void *)&lookup;
}

void __wrap_resolve_cancel(struct resolve *r);
void __wrap_resolve_cancel(struct resolve *r)
{
    assert_null(r);
}

static void begin(void)
{
    listen_at(0);
    listen_at(1);
    loop_open(&loop, (const char *const[]){"--upstream=store.test:29400", NULL});
}

static void end(int fd)
{
    close(fd);
    close(listening[0]);
    close(listening[1]);
    loop_close(&loop);
}

static const struct upstream *upstream(void)
{
    return &loop.server.forwards.list[0].upstream;
}

/* The relay's connection to that address, which says HELLO. */
static bool waits; /* as the last one said */

static int take_hello(int i)
{
    uint8_t head[RELAY_MAGIC_SIZE + RELAY_HEAD_SIZE], payload[640];
    Rdzv__RelayHello *hello;
    int fd;

    LOOP_UNTIL(&loop, (fd = accept4(listening[i], NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0);
    loop_receive(&loop, fd, head, sizeof head);
    assert_memory_equal(head, RELAY_MAGIC, RELAY_MAGIC_SIZE);
    assert_int_equal(head[RELAY_MAGIC_SIZE + 4], RELAY_HELLO);
    assert_in_range(bytes_get_u32(head + RELAY_MAGIC_SIZE), 1, sizeof payload);
    loop_receive(&loop, fd, payload, bytes_get_u32(head + RELAY_MAGIC_SIZE));
    hello = rdzv__relay_hello__unpack(NULL, bytes_get_u32(head + RELAY_MAGIC_SIZE), payload);
    assert_non_null(hello);
    waits = hello->waits;
    rdzv__relay_hello__free_unpacked(hello, NULL);
    return fd;
}

static void say_with(int fd, enum relay_kind kind, uint8_t flags, uint64_t number,
                     struct slice payload)
{
    const struct relay_frame frame = {
        .kind = (uint8_t)kind, .flags = flags, .number = number, .payload = payload};
    uint8_t bytes[RELAY_HEAD_SIZE + 256];

    relay_put_head(bytes, &frame);
    memcpy(bytes + RELAY_HEAD_SIZE, payload.ptr, payload.len);
    loop_send(&loop, fd, bytes, RELAY_HEAD_SIZE + payload.len);
}

static void say(int fd, enum relay_kind kind, uint64_t number, struct slice payload)
{
    say_with(fd, kind, 0, number, payload);
}

static void welcome(int fd, uint64_t limit)
{
    Rdzv__RelayWelcome w = RDZV__RELAY_WELCOME__INIT;
    uint8_t payload[256];

    w.version = RELAY_VERSION_MAX;
    w.session_timeout_ms = w.value_max = limit;
    say(fd, RELAY_WELCOME, 0, (struct slice){payload, rdzv__relay_welcome__pack(&w, payload)});
    LOOP_UNTIL(&loop, upstream()->state == UPSTREAM_CONNECTED);
}

/* --- Tests. --- */

/* The socket to the one has the number that the socket to the other had. */
static void the_next_address_is_tried_when_one_refuses(void **state)
{
    int refused, fd;

    (void)state;
    begin();
    refused = take_hello(0);
    say(refused, RELAY_REFUSED, 0, slice_str("the store stops"));
    fd = take_hello(1);
    welcome(fd, 60000);
    assert_int_equal(upstream()->failures, 0);
    close(refused);
    end(fd);
}

/* Milliseconds until the next round of tries. */
static int64_t wait_ms(void)
{
    struct timeval now, then = {0};

    LOOP_UNTIL(&loop, upstream()->state == UPSTREAM_WAITS);
    assert_true(evtimer_pending(&upstream()->timer, &then));
    assert_int_equal(gettimeofday(&now, NULL), 0);
    return (then.tv_sec - now.tv_sec) * 1000 + (then.tv_usec - now.tv_usec) / 1000;
}

/* Who leads is known any moment; what else a store refuses for, stays. */
static void replicas_that_stand_by_are_tried_again_soon(void **state)
{
    static const uint8_t flags[] = {RELAY_STANDS_BY, 0};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        int first, second;

        begin();
        first = take_hello(0);
        say_with(first, RELAY_REFUSED, flags[i], 0, slice_str("no"));
        second = take_hello(1);
        say_with(second, RELAY_REFUSED, flags[i], 0, slice_str("no"));
        if (flags[i] == RELAY_STANDS_BY)
            assert_true(wait_ms() <= 2 * UPSTREAM_RETRY_FIRST_MS);
        else
            assert_true(wait_ms() > 4 * UPSTREAM_RETRY_FIRST_MS);
        close(first);
        end(second);
    }
}

/* No replica leads, so the relay waits at one of them. When this replica answers, the relay asks
 * all replicas again. */
static void a_relay_waits_at_one_replica_when_none_leads(void **state)
{
    static const struct {
        int at;
        bool waits;
    } tries[] = {{0, false}, {1, false}, {0, true}, {1, false}, {0, false}, {1, false}, {0, true}};
    int fd;

    (void)state;
    begin();
    for (size_t i = 0; i < sizeof tries / sizeof tries[0]; i++) {
        fd = take_hello(tries[i].at);
        assert_int_equal(waits, tries[i].waits);
        say_with(fd, RELAY_REFUSED, RELAY_STANDS_BY, 0, slice_str("this replica does not lead"));
        LOOP_UNTIL(&loop, upstream()->fd < 0 || upstream()->state != UPSTREAM_HELLO);
        close(fd);
        assert_in_range(upstream()->failures, 0, 1);
    }
    fd = take_hello(1);
    welcome(fd, 60000);
    end(fd);
}

static void expect_says(const char *wanted)
{
    char text[UPSTREAM_SAYS_MAX];

    if (strstr(upstream_says(upstream(), text), wanted) == NULL)
        fail_msg("%s: not %s", text, wanted);
}

static void refuse_next(int at, uint8_t flags, const char *why)
{
    int fd = take_hello(at);

    say_with(fd, RELAY_REFUSED, flags, 0, slice_str(why));
    LOOP_UNTIL(&loop, upstream()->fd < 0 || upstream()->state != UPSTREAM_HELLO);
    close(fd);
}

/* The relay reports the leader's reason for the refusal, and not the answers of standbys. */
static void the_refusal_of_the_one_that_leads_stays(void **state)
{
    int fd;

    (void)state;
    begin();
    refuse_next(0, 0, "none of the names");
    refuse_next(1, RELAY_STANDS_BY, "this replica stands by");
    expect_says("none of the names");
    refuse_next(0, 0, "another reason");
    refuse_next(1, RELAY_STANDS_BY, "this replica stands by");
    expect_says("another reason");
    refuse_next(0, RELAY_STANDS_BY, "this replica stands by, too");
    expect_says("stands by, too");
    fd = take_hello(1);
    welcome(fd, 60000);
    expect_says("connected to");
    end(fd);
}

/* No length that a client may have can wrap around. */
static void limits_are_such_as_a_store_can_have(void **state)
{
    const struct c10d_limits *l;
    int fd;

    (void)state;
    begin();
    l = &loop.server.forwards.list[0].relay.limits;
    fd = take_hello(0);
    welcome(fd, UINT64_MAX);
    assert_true(l->value_max <= INT64_MAX && l->request_max <= INT64_MAX);
    end(fd);
}

/* The store was heard in an iteration in which the relay was then stopped: lived time goes back to
 * the beginning of that iteration. */
static void a_pause_of_the_relay_is_no_silence_of_the_store(void **state)
{
    struct engine *e = &loop.server.engine;
    struct upstream *u;
    int fd;

    (void)state;
    begin();
    u = &loop.server.forwards.list[0].upstream;
    fd = take_hello(0);
    welcome(fd, 60000);
    e->alive_ms -= ENGINE_PAUSE_MS / 2;
    u->heard_ms = engine_lived_ms(e);
    e->alive_ms -= ENGINE_PAUSE_MS;
    engine_note_alive(e);
    assert_true(engine_lived_ms(e) < u->heard_ms);
    upstream_tick(u);
    assert_int_equal(u->state, UPSTREAM_CONNECTED);
    end(fd);
}

/* There was no memory for the timer of a try, whatever the try waits for. */
static void a_try_without_its_timer_ends_all_the_same(void **state)
{
    struct upstream *u;
    int fd;

    (void)state;
    begin();
    u = &loop.server.forwards.list[0].upstream;
    fd = take_hello(0);
    LOOP_UNTIL(&loop, u->state == UPSTREAM_HELLO);
    evtimer_del(&u->timer);
    upstream_tick(u);
    assert_true(evtimer_pending(&u->timer, NULL));
    close(fd);
    fd = take_hello(1);
    welcome(fd, 60000);
    end(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_next_address_is_tried_when_one_refuses),
        cmocka_unit_test(replicas_that_stand_by_are_tried_again_soon),
        cmocka_unit_test(a_relay_waits_at_one_replica_when_none_leads),
        cmocka_unit_test(the_refusal_of_the_one_that_leads_stays),
        cmocka_unit_test(limits_are_such_as_a_store_can_have),
        cmocka_unit_test(a_pause_of_the_relay_is_no_silence_of_the_store),
        cmocka_unit_test(a_try_without_its_timer_ends_all_the_same),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
