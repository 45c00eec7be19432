/* Targets, paths, redirects and form data against what etcd 3.4.23, or the Go 1.19 that it is built
 * with, made of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "proto/url.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define BYTES(s)                            \
    {                                       \
        (const uint8_t *)(s), sizeof(s) - 1 \
    }

/* The code reads and writes memory of exactly the right size, so that ASan sees a byte too many. */
static uint8_t *exact(size_t len)
{
    uint8_t *bytes = malloc(len == 0 ? 1 : len);

    assert_non_null(bytes);
    return bytes;
}

static struct slice copy(struct slice s)
{
    uint8_t *bytes = exact(s.len);

    if (s.len > 0)
        memcpy(bytes, s.ptr, s.len);
    return (struct slice){bytes, s.len};
}

static void check_slice(const char *name, struct slice got, const char *want)
{
    if (!slice_is(got, want))
        fail_msg("%s: \"%.*s\", not \"%s\"", name, (int)got.len, (const char *)got.ptr, want);
}

/* path NULL: refused with a plain 400. */
static const struct target {
    const char *raw;
    const char *host, *path, *query;
} targets[] = {
    {"/", "", "/", ""},
    {"/v2/keys/a?x=1", "", "/v2/keys/a", "x=1"},
    {"/a?", "", "/a", ""},
    {"/a??b?", "", "/a", "?b?"},
    {"/a#b%2Fc", "", "/a#b%2Fc", ""},
    {"/a:b", "", "/a:b", ""},
    {"//a/b", "", "//a/b", ""},
    {"/%00%ff%C3", "", "/%00%ff%C3", ""},
    {"/\xc3\xa9\xff", "", "/\xc3\xa9\xff", ""},
    {"/a?%zz;", "", "/a", "%zz;"}, /* the query is judged later, with error 210 */
    {"*", "", "*", ""},
    {"http://h:1/a?b", "h:1", "/a", "b"},
    {"http://h", "h", "", ""},
    {"http://h?b", "h", "", "b"},
    {"http://", "", "", ""},
    {"HTTP://u:p@H/a", "H", "/a", ""},
    {"http://a@b@c/", "c", "/", ""},
    {"http:/a", "", "/a", ""},
    {"a+-.1:/b", "", "/b", ""},
    {"foo:bar/baz?q", "", "", "q"},
    {"http://[::1]:80/", "[::1]:80", "/", ""},
    {"http://[fe80::1%25en%20x%41]/", "[fe80::1%25en%20x%41]", "/", ""},
    {"http://h%C3%A9:/", "h%C3%A9:", "/", ""},
    {"http://h%25/", "h%25", "/", ""},
    {"http://!$&'()*+,;=<>\"-_.~09azAZ/", "!$&'()*+,;=<>\"-_.~09azAZ", "/", ""},
    {"http://a{b%zz:c/", "a{b%zz:c", "/", ""}, /* etcd: 400; no client sends it */
    {"", NULL, NULL, NULL},
    {"a", NULL, NULL, NULL},
    {"v2/keys", NULL, NULL, NULL},
    {":a", NULL, NULL, NULL},
    {"1a:/b", NULL, NULL, NULL},
    {"?a", NULL, NULL, NULL},
    {"*a", NULL, NULL, NULL},
    {"/%", NULL, NULL, NULL},
    {"/%4", NULL, NULL, NULL},
    {"/%4?1", NULL, NULL, NULL},
    {"/%zz", NULL, NULL, NULL},
    {"/%4g", NULL, NULL, NULL},
    {"/\x01", NULL, NULL, NULL},
    {"/a?\x7f", NULL, NULL, NULL},
    {"http://h/%zz", NULL, NULL, NULL},
};

static void targets_are_taken_apart_as_go_does(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(targets); i++) {
        const struct target *c = &targets[i];
        struct slice raw = copy(slice_str(c->raw));
        struct url_target t = {0};
        bool good = url_parse_target(raw, false, &t);

        if (good != (c->path != NULL))
            fail_msg("%s: %s", c->raw, good ? "taken" : "refused");
        if (good) {
            check_slice(c->raw, t.host, c->host);
            check_slice(c->raw, t.path, c->path);
            check_slice(c->raw, t.query, c->query);
            assert_int_equal(t.asterisk, strcmp(c->raw, "*") == 0);
        }
        free((void *)raw.ptr);
    }
}

static void a_target_of_connect_is_a_host(void **state)
{
    static const struct target cases[] = {
        {"h:1", "h:1", "", ""}, {"h/a?b", "h", "/a", "b"},   {"", "", "", ""},
        {"*", "*", "", ""},     {"h/%zz", NULL, NULL, NULL},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct url_target t = {0};

        assert_int_equal(url_parse_target(slice_str(cases[i].raw), true, &t),
                         cases[i].path != NULL);
        if (cases[i].path == NULL)
            continue;
        check_slice(cases[i].raw, t.host, cases[i].host);
        check_slice(cases[i].raw, t.path, cases[i].path);
        check_slice(cases[i].raw, t.query, cases[i].query);
        assert_int_equal(t.asterisk, strcmp(cases[i].raw, "*") == 0); /* 400, as for GET * */
    }
}

/* location NULL: the path is clean, and is not redirected. */
static const struct cleaned {
    const char *path, *query;
    const char *clean;
    const char *location;
} cleaned[] = {
    {"/", "", "/", NULL},
    {"/v2/keys/a/", "", "/v2/keys/a/", NULL},
    {"/v2/keys/a%20b", "", "/v2/keys/a b", NULL},
    {"/v2/keys/a+b", "", "/v2/keys/a+b", NULL},
    {"/v2/keys/%C3%A9%2E%2E%2E", "", "/v2/keys/\xc3\xa9...", NULL},
    {"/a%2Fb", "", "/a/b", NULL},
    {"/a%3fb", "", "/a?b", NULL},
    {"", "", "/", "/"},
    {"", "a=b", "/", "/?a=b"},
    {"//", "", "/", "/"},
    {"/.", "", "/", "/"},
    {"/..", "", "/", "/"},
    {"/../..//", "", "/", "/"},
    {"/v2/keys//a", "", "/v2/keys/a", "/v2/keys/a"},
    {"/v2/keys/./a", "x=1", "/v2/keys/a", "/v2/keys/a?x=1"},
    {"/v2/keys/a/.", "", "/v2/keys/a", "/v2/keys/a"},
    {"/v2/keys/a/..", "", "/v2/keys", "/v2/keys"},
    {"/v2/keys/a/../", "", "/v2/keys/", "/v2/keys/"},
    {"/v2/keys/a//", "", "/v2/keys/a/", "/v2/keys/a/"},
    {"/v2/keys/%2e%2e/b", "", "/v2/b", "/v2/b"},
    {"/v2/keys/%2F", "", "/v2/keys/", "/v2/keys/"},
    {"/v2/keys%2F/a", "", "/v2/keys/a", "/v2/keys/a"},
    {"/a/b/../../../c", "", "/c", "/c"},
    {"/a/.../..b/c../.d", "", "/a/.../..b/c../.d", NULL},
    {"/v2/keys//a%20b%2Fc!*'()", "", "/v2/keys/a b/c!*'()", "/v2/keys/a%20b/c%21%2A%27%28%29"},
    {"/v2/keys//a", "q=\xc3\xa9&\"<>'", "/v2/keys/a", "/v2/keys/a?q=%c3%a9&\"<>'"},
    {"/v2/keys//\xc3\xa9%ff", "", "/v2/keys/\xc3\xa9\xff", "/v2/keys/%C3%A9%FF"},
    {"/v2/keys//%3f%23;,", "x", "/v2/keys/?#;,", "/v2/keys/%3F%23;,?x"},
    {"//09azAZ@[`{", "", "/09azAZ@[`{", "/09azAZ@%5B%60%7B"},
    {"//$&+,/:;=@-_.~\"<>^`{|}\\[]", "", "/$&+,/:;=@-_.~\"<>^`{|}\\[]",
     "/$&+,/:;=@-_.~%22%3C%3E%5E%60%7B%7C%7D%5C%5B%5D"},
};

static void paths_are_cleaned_and_redirected_as_go_does(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(cleaned); i++) {
        const struct cleaned *c = &cleaned[i];
        struct slice escaped = copy(slice_str(c->path)), clean;
        uint8_t *out = exact(escaped.len + 1);
        char location[256] = "";
        struct writer w = {.ptr = (uint8_t *)location, .cap = sizeof location - 1};
        bool moved = false;

        clean = url_clean_path(escaped, out, &moved);
        check_slice(c->path, clean, c->clean);
        if (moved != (c->location != NULL))
            fail_msg("%s: %s", c->path, moved ? "moved" : "not moved");
        url_write_location(&w, clean, slice_str(c->query));
        if (moved)
            check_slice(c->path, (struct slice){(uint8_t *)location, w.len}, c->location);
        free((void *)escaped.ptr);
        free(out);
    }
}

static void the_page_of_a_redirect_is_gos(void **state)
{
    char out[256];
    struct writer w = {.ptr = (uint8_t *)out, .cap = sizeof out};

    (void)state;
    url_write_moved_page(&w, slice_str("/a&'\xff"), slice_str("q=\xc3\xa9&\"<>'"));
    check_slice(
        "page", (struct slice){(uint8_t *)out, w.len},
        "<a href=\"/a&amp;%27%FF?q=\xc3\xa9&amp;&#34;&lt;&gt;&#39;\">Moved Permanently</a>.\n\n");
    w.len = 0;
    url_write_moved_page(&w, slice_str("/v2/keys"), slice_str(""));
    check_slice("page", (struct slice){(uint8_t *)out, w.len},
                "<a href=\"/v2/keys\">Moved Permanently</a>.\n\n");
}

#define SEMICOLON "invalid semicolon separator in query"
#define ESCAPE(s) "invalid URL escape \"" s "\""

/* The cause of error 210, before it is escaped for JSON; NULL where there is none. */
static const struct form {
    struct slice form;
    const char *why;
} forms[] = {
    {BYTES(""), NULL},
    {BYTES("a=1&b=%20&&=x&c"), NULL},
    {BYTES("a=\xff\x00&b=+"), NULL},
    {BYTES("a=%zz"), ESCAPE("%zz")},
    {BYTES("a=%"), ESCAPE("%")},
    {BYTES("a=%4&b"), ESCAPE("%4")},
    {BYTES("%=1"), ESCAPE("%")},
    {BYTES("a=%4=1"), ESCAPE("%4=")},
    {BYTES("a=%zz&b=%yy"), ESCAPE("%zz")},
    {BYTES("%yy=%zz"), ESCAPE("%yy")},
    {BYTES("a=1;b=2"), SEMICOLON},
    {BYTES("a=%zz&b;c"), SEMICOLON},
    {BYTES("b;c&a=%zz"), SEMICOLON},
    {BYTES("a=%3B"), NULL},
    {BYTES("a=%\"q"), ESCAPE("%\\\"q")},
    {BYTES("a=%\\q"), ESCAPE("%\\\\q")},
    {BYTES("a=%\xc3\xa9"), ESCAPE("%\xc3\xa9")},
    {BYTES("a=%\x01\x02"), ESCAPE("%\\x01\\x02")},
    {BYTES("a=%\n\t"), ESCAPE("%\\n\\t")},
    {BYTES("a=%\a\b"), ESCAPE("%\\a\\b")},
    {BYTES("a=%\v\f"), ESCAPE("%\\v\\f")},
    {BYTES("a=%\r\x7f"), ESCAPE("%\\r\\x7f")},
    {BYTES("a=%\0"), ESCAPE("%\\x00")},
};

static void bad_forms_are_described_in_gos_words(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(forms); i++) {
        struct slice form = copy(forms[i].form);
        struct url_error why = {"none"};
        bool good = url_check_form(form, &why);

        if (good != (forms[i].why == NULL))
            fail_msg("form %zu: %s", i, good ? "taken" : why.text);
        assert_string_equal(why.text, good ? "none" : forms[i].why);
        free((void *)form.ptr);
    }
}

static const struct found {
    const char *form, *query;
    const char *value; /* of "value", unescaped; NULL: not there */
    bool other;        /* and there is an "other" */
} found[] = {
    {"value=f", "value=q", "f", false},
    {"", "value=q&value=r", "q", false},
    {"value=&value=r", "value=q", "", false},
    {"other=1", "%76alue=q", "q", true},
    {"value=1", "other", "1", true},
    {"", "va+lue=q&value=r", "r", false},
    {"", "value", "", false},
    {"", "&&value=a=b", "a=b", false},
    {"value=a+b%2Bc%20d%0A%C3%A9", "", "a b+c d\n\xc3\xa9", false},
    {"Value=1", "values=2&valu=3&=4&value%00=5", NULL, false},
    {"", "", NULL, false},
};

static void the_first_parameter_of_a_name_counts(void **state)
{
    static const char *const names[] = {"absent", "value", "other"};

    (void)state;
    for (size_t i = 0; i < COUNT(found); i++) {
        struct slice form = copy(slice_str(found[i].form));
        struct slice query = copy(slice_str(found[i].query));
        struct slice values[3], value;

        url_find_params(form, query, names, COUNT(names), values);
        value = values[1];
        assert_int_equal(value.ptr != NULL, found[i].value != NULL);
        assert_null(values[0].ptr);
        assert_int_equal(values[2].ptr != NULL, found[i].other);
        if (value.ptr != NULL) {
            size_t len = url_value_len(value);
            uint8_t *out = exact(len);

            assert_in_range(len, 0, value.len);
            check_slice(found[i].query, url_unescape_value(value, out), found[i].value);
            free(out);
            check_slice("in place", url_unescape_value(value, (uint8_t *)value.ptr),
                        found[i].value);
        }
        free((void *)form.ptr);
        free((void *)query.ptr);
    }
}

static void a_query_with_a_fault_has_no_parameter(void **state)
{
    static const char *const faulty[] = {"b=%", "b=%4", "b=%zz", "a=%zz&b=1", "%=1&b=1", "b=1;a=2"};
    struct slice value = slice_str("x");

    (void)state;
    assert_true(url_find_param(slice_str("a=1&b=%41"), "b", &value));
    assert_true(slice_is(value, "%41"));
    for (size_t i = 0; i < COUNT(faulty); i++) {
        assert_false(url_find_param(slice_str(faulty[i]), "b", &value));
        assert_int_equal(value.len, 0);
    }
}

static void every_byte_survives_its_escape(void **state)
{
    (void)state;
    for (unsigned c = 0; c < 256; c++) {
        char upper[4], lower[4];
        uint8_t out[4], want = (uint8_t)c;

        snprintf(upper, sizeof upper, "%%%02X", c);
        snprintf(lower, sizeof lower, "%%%02x", c);
        assert_true(
            slice_equal(url_unescape_value(slice_str(upper), out), (struct slice){&want, 1}));
        assert_true(
            slice_equal(url_unescape_path(slice_str(lower), out), (struct slice){&want, 1}));
    }
}

/* However the escapes lie among other bytes, the first bad one is found, and no good one is. */
static void each_bad_escape_is_found_wherever_it_is(void **state)
{
    enum { LEN = 80 };
    uint8_t form[LEN];

    (void)state;
    for (size_t step = 3; step < 40; step++) {
        for (size_t bad = 0; bad < LEN - 3; bad++) {
            struct url_error why;

            memset(form, 'x', sizeof form);
            for (size_t at = 0; at + 3 <= LEN; at += step)
                memcpy(form + at, "%4a", 3);
            assert_true(url_check_form((struct slice){form, LEN}, &why));
            memcpy(form + bad, "%g1", 3);
            if (bad % step > 0 && bad % step < 3)
                memcpy(form + bad - bad % step, "xx", bad % step);
            assert_false(url_check_form((struct slice){form, LEN}, &why));
            assert_string_equal(why.text, "invalid URL escape \"%g1\"");
        }
    }
}

/* Empty ones do not count. */
static void too_many_parameters_are_refused(void **state)
{
    static const char *const names[] = {"b"};
    size_t len = 3 * (URL_PARAMS_MAX + 1);
    uint8_t *form = malloc(len);
    struct slice value;

    (void)state;
    assert_non_null(form);
    for (size_t i = 0; i < len; i++)
        form[i] = (uint8_t) "a&&"[i % 3];
    form[len - 6] = 'b';
    assert_true(
        url_find_params((struct slice){form, len - 3}, (struct slice){0}, names, 1, &value));
    assert_ptr_equal(value.ptr, form + len - 5);
    assert_false(url_find_params((struct slice){form, len}, (struct slice){0}, names, 1, &value));
    assert_false(url_find_params((struct slice){form, len - 3}, slice_str("a"), names, 1, &value));
    free(form);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(targets_are_taken_apart_as_go_does),
        cmocka_unit_test(a_target_of_connect_is_a_host),
        cmocka_unit_test(paths_are_cleaned_and_redirected_as_go_does),
        cmocka_unit_test(the_page_of_a_redirect_is_gos),
        cmocka_unit_test(bad_forms_are_described_in_gos_words),
        cmocka_unit_test(the_first_parameter_of_a_name_counts),
        cmocka_unit_test(a_query_with_a_fault_has_no_parameter),
        cmocka_unit_test(every_byte_survives_its_escape),
        cmocka_unit_test(each_bad_escape_is_found_wherever_it_is),
        cmocka_unit_test(too_many_parameters_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
