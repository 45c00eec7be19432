/* Addresses of stores, as users write them. */
#include "proto/lookup.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))

static void host_and_port_are_told_apart(void **state)
{
    static const struct {
        const char *text, *host, *port;
    } good[] = {
        {"localhost:29400", "localhost", "29400"},
        {"10.0.0.7:1", "10.0.0.7", "1"},
        {"[::1]:65535", "::1", "65535"},
        {"[fe80::1%eth0]:29400", "fe80::1%eth0", "29400"},
        {"a.b.svc.cluster.local:80", "a.b.svc.cluster.local", "80"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(good); i++) {
        struct address a;

        assert_true(address_parse(good[i].text, &a));
        assert_string_equal(a.host, good[i].host);
        assert_string_equal(a.port, good[i].port);
    }
}

static void others_are_refused(void **state)
{
    static const char *const bad[] = {"",        "localhost",   "localhost:", ":29400",    "a:0",
                                      "a:65536", "a:123456",    "a:1x",       "::1:80",    "[]:80",
                                      "[::1]",   "http://a:80", "a:-1",       "unix:/x:80"};
    char long_one[300];

    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        struct address a = {.host = "kept"};

        assert_false(address_parse(bad[i], &a));
        assert_string_equal(a.host, "kept");
    }
    memset(long_one, 'a', sizeof long_one);
    strcpy(long_one + 260, ":80");
    assert_false(address_parse(long_one, &(struct address){0}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(host_and_port_are_told_apart),
        cmocka_unit_test(others_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
