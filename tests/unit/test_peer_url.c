/* Member URLs against what etcd 3.4.23 said of the same ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "rdzv/config/peer_url.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define TEXT(text)                                \
    {                                             \
        (const uint8_t *)(text), sizeof(text) - 1 \
    }

#define SCHEME  "URL scheme must be http, https, unix, or unixs: "
#define ADDRESS "URL address does not have the form \"host:port\": "
#define PATH    "URL must not contain a path: "
#define CONTROL "net/url: invalid control character in URL"

static const struct {
    struct slice url;
    const char *why; /* NULL: a good one */
} urls[] = {
    {TEXT("http://h:1"), NULL},
    {TEXT("HTTPS://[::1]:2380"), NULL},
    {TEXT("http://h:"), NULL},
    {TEXT("http://h:1?x"), NULL},
    {TEXT("http://h:1#%41"), NULL},
    {TEXT("http://u:p@h:1"), NULL},
    {TEXT("unixs://x:1"), NULL},
    {TEXT(""), SCHEME},
    {TEXT("x"), SCHEME "x"},
    {TEXT("http:"), ADDRESS "http:"},
    {TEXT("http://"), ADDRESS "http://"},
    {TEXT("http://h"), ADDRESS "http://h"},
    {TEXT("http://h:1/"), PATH "http://h:1/"},
    {TEXT("http://h:1/p"), PATH "http://h:1/p"},
    {TEXT("ftp://h:1"), SCHEME "ftp://h:1"},
    {TEXT("HTTP://h:x"), "parse \"HTTP://h:x\": invalid port \":x\" after host"},
    {TEXT("1http://h:1"), "parse \"1http://h:1\": first path segment in URL cannot contain colon"},
    {TEXT(":1"), "parse \":1\": missing protocol scheme"},
    {TEXT("127.0.0.1:9"), "parse \"127.0.0.1:9\": first path segment in URL cannot contain colon"},
    {TEXT("//h:1"), SCHEME "//h:1"},
    {TEXT("a/b:1"), SCHEME "a/b:1"},
    {TEXT("localhost:2380"), SCHEME "localhost:2380"},
    {TEXT("http://[::1]"), ADDRESS "http://[::1]"},
    {TEXT("http://[::1"), "parse \"http://[::1\": missing ']' in host"},
    {TEXT("http://[::1]:x"), "parse \"http://[::1]:x\": invalid port \":x\" after host"},
    {TEXT("http://[::1]x:1"), "parse \"http://[::1]x:1\": invalid port \"x:1\" after host"},
    {TEXT("http://::1:2380"), ADDRESS "http://::1:2380"},
    {TEXT("http://a b:1"), "parse \"http://a b:1\": invalid character \" \" in host name"},
    {TEXT("http://a%zz:1"), "parse \"http://a%zz:1\": invalid URL escape \"%zz\""},
    {TEXT("http://a%20b:1"), "parse \"http://a%20b:1\": invalid URL escape \"%20\""},
    {TEXT("http://u p@h:1"), "parse \"http://u p@h:1\": net/url: invalid userinfo"},
    {TEXT("http://u%2@h"), "parse \"http://u%2@h\": invalid URL escape \"%2\""},
    {TEXT("http://h:1/%zz"), "parse \"http://h:1/%zz\": invalid URL escape \"%zz\""},
    {TEXT("http://h/#%zz"), "parse \"http://h/#%zz\": invalid URL escape \"%zz\""},
    {TEXT("a\nb"), "parse \"a\\nb\": " CONTROL},
    {TEXT("http://h\x7f:1"), "parse \"http://h\\x7f:1\": " CONTROL},
    {TEXT("\x00"), "parse \"\\x00\": " CONTROL},
    {TEXT("*"), SCHEME "*"},
    {TEXT("unix:///tmp/x:1"), ADDRESS "unix:///tmp/x:1"},
    {TEXT("http://h\"x"), ADDRESS "http://h\"x"},
    {TEXT("http://a[b:1"), ADDRESS "http://a[b:1"},
    {TEXT("http://\xc3\xa4"), ADDRESS "http://\xc3\xa4"},
    {TEXT("http://a%zz\""), "parse \"http://a%zz\\\"\": invalid URL escape \"%zz\""},
};

static void urls_are_taken_and_refused_as_etcd_does(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(urls); i++) {
        uint8_t text[256];
        struct writer why = {.ptr = text, .cap = sizeof text};
        bool ok = peer_url_check(urls[i].url, &why);

        if (ok != (urls[i].why == NULL))
            fail_msg("url %zu: %.*s", i, (int)why.len, (const char *)text);
        if (!ok && !slice_is((struct slice){text, why.len}, urls[i].why))
            fail_msg("url %zu: %.*s", i, (int)why.len, (const char *)text);
    }
}

static void blanks_around_a_url_do_not_count(void **state)
{
    (void)state;
    assert_true(slice_is(peer_url_trim(slice_str(" \t\r\n\v\fa b\xc2\xa0\xc2\x85 ")), "a b"));
    assert_true(slice_is(peer_url_trim(slice_str("\u00e4")), "\u00e4"));
    assert_int_equal(peer_url_trim(slice_str("  ")).len, 0);
    assert_int_equal(peer_url_trim((struct slice){0}).len, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(urls_are_taken_and_refused_as_etcd_does),
        cmocka_unit_test(blanks_around_a_url_do_not_count),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
