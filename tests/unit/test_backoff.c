/* Waits between wrong tokens: how long, for whom, and in how much room. */
#include "rdzv/http/access.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static struct backoff table;

static int empty_table(void **state)
{
    (void)state;
    table = (struct backoff){0};
    return 0;
}

static struct peer peer(const char *address)
{
    struct sockaddr_in in4 = {.sin_family = AF_INET};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};

    if (inet_pton(AF_INET, address, &in4.sin_addr) == 1)
        return peer_of((const struct sockaddr *)&in4);
    assert_int_equal(inet_pton(AF_INET6, address, &in6.sin6_addr), 1);
    return peer_of((const struct sockaddr *)&in6);
}

static bool allows(const char *address, uint64_t now_ms)
{
    const struct peer p = peer(address);

    return backoff_allows(&table, &p, now_ms);
}

static void guess(const char *address, uint64_t now_ms)
{
    const struct peer p = peer(address);

    backoff_failed(&table, &p, now_ms);
}

static void some_are_free_and_then_the_wait_doubles(void **state)
{
    static const uint64_t waits[] = {1000, 2000, 4000, 8000, 16000, 16000, 16000};
    uint64_t now = 1;

    (void)state;
    for (int i = 0; i < BACKOFF_FREE; i++) {
        assert_true(allows("10.0.0.1", now));
        guess("10.0.0.1", now);
    }
    for (size_t i = 0; i < sizeof waits / sizeof waits[0]; i++) {
        assert_false(allows("10.0.0.1", now));
        assert_false(allows("10.0.0.1", now + waits[i] - 1));
        now += waits[i];
        assert_true(allows("10.0.0.1", now));
        guess("10.0.0.1", now);
    }
}

static void failures_are_forgotten_in_the_end(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++)
        guess("10.0.0.1", 1000);
    assert_true(allows("10.0.0.1", 1000 + BACKOFF_MOST_MS));
    guess("10.0.0.1", 1000 + BACKOFF_KEEP_MS);
    assert_true(allows("10.0.0.1", 1000 + BACKOFF_KEEP_MS));
}

static void others_do_not_wait(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++) {
        guess("10.0.0.1", 1000);
        guess("2001:db8:0:1::1", 1000);
    }
    assert_false(allows("10.0.0.1", 1000));
    assert_true(allows("10.0.0.2", 1000));
    /* A host of IPv6 has a network of addresses. */
    assert_false(allows("2001:db8:0:1:ffff::2", 1000));
    assert_true(allows("2001:db8:0:2::1", 1000));
}

/* A million addresses need no more room; those that failed last are known. */
static void the_table_stays_as_it_is(void **state)
{
    char text[32];

    (void)state;
    for (int i = 0; i < 100; i++)
        guess("192.0.2.1", 1);
    for (unsigned i = 0; i < 1000000; i++) {
        snprintf(text, sizeof text, "10.%u.%u.%u", i >> 16, i >> 8 & 255, i & 255);
        guess(text, 1000 + i);
    }
    for (int i = 0; i < BACKOFF_FREE; i++)
        guess("192.0.2.2", 2000000);
    assert_false(allows("192.0.2.2", 2000000));
    assert_true(allows("192.0.2.1", 2));
}

#define TEST(name) cmocka_unit_test_setup(name, empty_table)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(some_are_free_and_then_the_wait_doubles),
        TEST(failures_are_forgotten_in_the_end),
        TEST(others_do_not_wait),
        TEST(the_table_stays_as_it_is),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
