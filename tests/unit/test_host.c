/* Which Host headers are welcome where. */
#include "rdzv/http/access.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "rdzv/config/config.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static char one[] = "one.example", two[] = "two", any[] = "*";
static char *names[] = {one, two}, *anything[] = {one, any};
static const struct string_list none = {0}, list = {names, COUNT(names)},
                                star = {anything, COUNT(anything)};

static void names_of_others_are_unwelcome_on_loopback(void **state)
{
    static const struct {
        const char *host;
        const struct string_list *allowed;
        bool on_loopback, elsewhere;
    } rows[] = {
        {"", &none, true, true},
        {"127.0.0.1", &none, true, true},
        {"127.0.0.1:2379", &none, true, true},
        {"192.0.2.1", &none, true, true},
        {"[::1]", &none, true, true},
        {"[::1]:2379", &none, true, true},
        {"localhost", &none, true, true},
        {"LOCALHOST:1", &none, true, true},
        {"localhost.evil.example", &none, false, true},
        {"evil-localhost", &none, false, true},
        {"127.0.0.1.evil.example", &none, false, true},
        {"127.0.0.1x", &none, false, true},
        {"[::1].evil.example", &none, false, true},
        {"[evil]", &none, false, true},
        {"[127.0.0.1]", &none, false, true},
        {"x", &none, false, true},
        /* With a list: its names, as with etcd; and on loopback still those that harm nobody. */
        {"one.example", &list, true, true},
        {"one.example:80", &list, true, true},
        {"two", &list, true, true},
        {"localhost", &list, true, false},
        {"10.0.0.1", &list, true, false},
        {"", &list, true, false},
        {"three", &list, false, false},
        {"three", &star, true, true},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        const struct slice host = slice_str(rows[i].host);

        print_message("  %s\n", rows[i].host);
        assert_int_equal(http_host_is_welcome(host, rows[i].allowed, true), rows[i].on_loopback);
        assert_int_equal(http_host_is_welcome(host, rows[i].allowed, false), rows[i].elsewhere);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_others_are_unwelcome_on_loopback),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
