/* Names are looked up beside the loop, which is told once; one that is given up is not heard. */
#include "rdzv/net/resolve.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

#include <cmocka.h>

#include "store/memory/account.h"

struct told {
    unsigned times;
    size_t count;
    union resolve_address first;
    char why[128];
};

static void tell(void *arg, const union resolve_address *addresses, size_t count, const char *why)
{
    struct told *t = arg;

    t->times++;
    t->count = count;
    if (count > 0)
        t->first = addresses[0];
    if (why != NULL)
        strncpy(t->why, why, sizeof t->why - 1);
}

static struct told look_up(const char *host, uint16_t port)
{
    struct event_base *base = event_base_new();
    struct told told = {0};

    assert_non_null(resolve_start(base, host, port, tell, &told));
    assert_int_equal(told.times, 0);
    while (told.times == 0)
        event_base_loop(base, EVLOOP_ONCE);
    event_base_loop(base, EVLOOP_NONBLOCK);
    assert_int_equal(told.times, 1);
    event_base_free(base);
    assert_int_equal(account.bytes[ACCOUNT_SESSIONS], 0);
    return told;
}

static void an_address_is_itself(void **state)
{
    struct told told = look_up("127.0.0.1", 29400);

    (void)state;
    assert_int_equal(told.count, 1);
    assert_int_equal(told.first.in4.sin_family, AF_INET);
    assert_int_equal(told.first.in4.sin_port, htons(29400));
    assert_int_equal(told.first.in4.sin_addr.s_addr, htonl(INADDR_LOOPBACK));
    told = look_up("::1", 1);
    assert_int_equal(told.count, 1);
    assert_int_equal(told.first.in6.sin6_family, AF_INET6);
    assert_int_equal(resolve_address_len(&told.first), sizeof(struct sockaddr_in6));
}

/* As a pod finds it, in /etc/hosts. */
static void localhost_has_an_address(void **state)
{
    (void)state;
    assert_true(look_up("localhost", 80).count > 0);
}

static void a_name_without_address_says_why(void **state)
{
    struct told told = look_up("no such name", 80);

    (void)state;
    assert_int_equal(told.count, 0);
    assert_true(strlen(told.why) > 0);
}

static void one_that_is_given_up_is_not_heard(void **state)
{
    struct event_base *base = event_base_new();
    struct told told = {0};

    (void)state;
    for (int i = 0; i < 20; i++)
        resolve_cancel(resolve_start(base, "localhost", 80, tell, &told));
    resolve_cancel(NULL);
    event_base_loop(base, EVLOOP_NONBLOCK);
    assert_int_equal(told.times, 0);
    assert_int_equal(account.bytes[ACCOUNT_SESSIONS], 0);
    event_base_free(base);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_address_is_itself),
        cmocka_unit_test(localhost_has_an_address),
        cmocka_unit_test(a_name_without_address_says_why),
        cmocka_unit_test(one_that_is_given_up_is_not_heard),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
