/* Networks: valid and invalid texts, and the addresses that lie in a network. */
#include "rdzv/config/config.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static void address_of(const char *text, uint8_t out[16])
{
    memset(out, 0, 16);
    if (inet_pton(AF_INET, text, out + 12) == 1)
        out[10] = out[11] = 0xff;
    else
        assert_int_equal(inet_pton(AF_INET6, text, out), 1);
}

static void an_address_lies_in_a_network_or_not(void **state)
{
    static const struct {
        const char *networks, *address;
        bool lies;
    } rows[] = {
        {"10.0.0.0/8", "10.255.255.255", true},
        {"10.0.0.0/8", "11.0.0.0", false},
        {"10.1.2.3/8", "10.9.9.9", true}, /* what is behind the bits says nothing */
        {"10.0.0.0/9", "10.127.0.1", true},
        {"10.0.0.0/9", "10.128.0.1", false},
        {"10.0.0.7", "10.0.0.7", true},
        {"10.0.0.7/32", "10.0.0.6", false},
        {"0.0.0.0/0", "255.1.1.1", true},
        {"0.0.0.0/0", "::1", false},
        {"::/0", "10.0.0.1", true}, /* as all addresses of IPv4 are, mapped */
        {"fd00::/8", "fdff::1", true},
        {"fd00::/8", "fe00::1", false},
        {"::1", "::1", true},
        {"::1", "::2", false},
        {"10.0.0.0/8, fd00::/8 ,192.0.2.1", "192.0.2.1", true},
        {"10.0.0.0/31", "10.0.0.1", true},
        {"10.0.0.0/31", "10.0.0.2", false},
        {"2001:db8::/33", "2001:db8:7fff::", true},
        {"2001:db8::/33", "2001:db8:8000::", false},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct cidr_list list = {0};
        uint8_t address[16];

        address_of(rows[i].address, address);
        assert_true(cidr_list_parse(rows[i].networks, &list));
        if (cidr_list_has(&list, address) != rows[i].lies)
            fail_msg("%s in %s", rows[i].address, rows[i].networks);
        cidr_list_free(&list);
        assert_false(cidr_list_has(&list, address));
    }
}

static void a_text_that_is_no_network_changes_nothing(void **state)
{
    static const char *const texts[] = {
        "",
        "10",
        "10.0.0.0/33",
        "10.0.0.0/",
        "10.0.0.0/-1",
        "10.0.0.0/8x",
        "10.0.0.0/8,",
        "fd00::/129",
        "localhost/8",
        "10.0.0.0//8",
        "/8",
        "*",
        "10.0.0.0/99999999999999999999",
        "1111:2222:3333:4444:5555:6666:7777:8888:9999",
        "11111111111111111111111111111111111111111111111111111111111111111111/8",
    };
    struct cidr_list list = {0};

    (void)state;
    assert_true(cidr_list_parse("10.0.0.0/8,fd00::/8", &list));
    for (size_t i = 0; i < COUNT(texts); i++) {
        if (cidr_list_parse(texts[i], &list))
            fail_msg("%s is taken", texts[i]);
        assert_int_equal(list.count, 2);
    }
    cidr_list_free(&list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_address_lies_in_a_network_or_not),
        cmocka_unit_test(a_text_that_is_no_network_changes_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
