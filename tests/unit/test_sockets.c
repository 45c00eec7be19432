/* Turns of listeners: a few sockets beside thousands, sockets that go before their turn comes, and
 * a set that goes. The sockets are eventfds that stay ready, and ask to be served again. */
#include "rdzv/net/sockets.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#define MANY 600

struct owner {
    struct socket_set *set;
    int fd;
    unsigned served;
    bool once; /* it does not ask again */
};

static struct {
    struct event_base *base;
    struct sockets all;
    struct socket_set crowd, few;
    struct owner owners[MANY], one;
    unsigned served;    /* of all */
    unsigned pass;      /* an iteration has time for so many; 0: for all */
    struct owner *ends; /* the next one served takes this one out of its set */
} t;

static void watch(struct socket_set *set, struct owner *o)
{
    o->set = set;
    o->once = false;
    o->fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
    assert_true(o->fd >= 0);
    assert_true(socket_set_watch(set, o->fd, 0, EPOLLIN, o));
}

static void end(struct owner *o)
{
    assert_true(socket_set_watch(o->set, o->fd, EPOLLIN, 0, o));
    close(o->fd);
    o->fd = -1;
}

static bool serve(void *owner, unsigned events)
{
    struct owner *o = owner;

    assert_int_equal(events, EPOLLIN);
    assert_true(o->fd >= 0);
    o->served++;
    t.served++;
    assert_true(o->once || socket_set_watch(o->set, o->fd, EPOLLIN, EPOLLIN, o));
    if (t.ends != NULL && t.ends != o) {
        end(t.ends);
        t.ends = NULL;
    }
    return t.pass == 0 || t.served % t.pass != 0;
}

/* As an iteration does. */
static void pass(void)
{
    assert_int_equal(event_base_loop(t.base, EVLOOP_ONCE | EVLOOP_NONBLOCK), 0);
    sockets_go_on(&t.all);
}

static int set_up(void **state)
{
    (void)state;
    memset(&t, 0, sizeof t);
    t.base = event_base_new();
    sockets_init(&t.all, serve);
    assert_true(socket_set_open(&t.crowd, &t.all, t.base));
    assert_true(socket_set_open(&t.few, &t.all, t.base));
    for (int i = 0; i < MANY; i++)
        watch(&t.crowd, &t.owners[i]);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (int i = 0; i < MANY; i++)
        if (t.owners[i].fd >= 0)
            end(&t.owners[i]);
    socket_set_close(&t.crowd);
    socket_set_close(&t.few);
    event_base_free(t.base);
    return 0;
}

/* However much of a turn an iteration has time for. */
static void one_socket_beside_many_waits_for_one_turn(void **state)
{
    static const unsigned passes[] = {0, 1, 7, 63, 64, 65, 100, 300};

    (void)state;
    for (size_t i = 0; i < sizeof passes / sizeof passes[0]; i++) {
        unsigned before;

        t.pass = passes[i];
        pass(); /* the crowd's turn has begun */
        watch(&t.few, &t.one);
        before = t.served;
        t.one.served = 0;
        while (t.one.served == 0)
            pass();
        assert_in_range(t.served - before, 1, 2 * SOCKETS_AT_A_TIME + 1);
        end(&t.one);
    }
}

static void each_of_many_comes_in_turn(void **state)
{
    (void)state;
    t.pass = 100;
    watch(&t.few, &t.one);
    for (unsigned round = 1; round <= 3; round++) {
        while (t.served - t.one.served < round * MANY)
            pass();
        for (int i = 0; i < MANY; i++)
            assert_in_range(t.owners[i].served, round - 1, round + 1);
    }
    assert_in_range(t.one.served, 3 * MANY / SOCKETS_AT_A_TIME, 3 * MANY);
    end(&t.one);
}

static void a_socket_that_goes_is_not_served(void **state)
{
    (void)state;
    t.pass = 1;
    for (int i = 0; i < 3 * MANY; i++) {
        t.ends = t.owners[i % MANY].fd < 0 ? NULL : &t.owners[i % MANY];
        pass();
    }
    assert_in_range(t.served, 3 * MANY, 6 * MANY); /* one or two in each pass */
}

static void a_set_that_goes_has_no_turn(void **state)
{
    (void)state;
    t.pass = 1;
    watch(&t.few, &t.one);
    pass(); /* the time ends in the crowd's turn, and the other set waits */
    assert_true(t.few.waits || t.one.served > 0);
    end(&t.one);
    socket_set_close(&t.few);
    for (int i = 0; i < 2 * MANY; i++)
        pass();
    assert_true(t.owners[MANY - 1].served > 0);
    assert_true(socket_set_open(&t.few, &t.all, t.base));
}

/* The kernel reports an eventfd once for its first value, and once for each later write. */
static void an_event_comes_once(void **state)
{
    (void)state;
    watch(&t.few, &t.one);
    t.one.once = true;
    for (unsigned round = 1; round <= 3; round++) {
        for (int i = 0; i < 30; i++)
            pass();
        assert_int_equal(t.one.served, round);
        assert_int_equal(eventfd_write(t.one.fd, 1), 0);
    }
    end(&t.one);
}

/* The kernel has reported all of them, and the time ends within the turn. */
static void the_rest_of_a_turn_is_served(void **state)
{
    (void)state;
    t.pass = 1;
    for (int i = 0; i < MANY; i++)
        t.owners[i].once = true;
    for (int i = 0; i < 2 * MANY; i++)
        pass();
    assert_int_equal(t.served, MANY);
    assert_false(sockets_have_rest(&t.all));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_socket_beside_many_waits_for_one_turn, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(each_of_many_comes_in_turn, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_socket_that_goes_is_not_served, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_event_comes_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_rest_of_a_turn_is_served, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_set_that_goes_has_no_turn, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
