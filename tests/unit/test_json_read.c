/* JSON against what etcd 3.4.23, that is Go 1.19, said of the same texts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "proto/json_read.h"
#include "tests/unit/exact.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define TEXT(text)                                \
    {                                             \
        (const uint8_t *)(text), sizeof(text) - 1 \
    }

static const struct {
    struct slice text;
    const char *why;
} faults[] = {
    {TEXT(""), "unexpected end of JSON input"},
    {TEXT(" "), "unexpected end of JSON input"},
    {TEXT("{"), "unexpected end of JSON input"},
    {TEXT("{bad"), "invalid character 'b' looking for beginning of object key string"},
    {TEXT("{\"a\""), "unexpected end of JSON input"},
    {TEXT("{\"a\":"), "unexpected end of JSON input"},
    {TEXT("{\"a\" 1}"), "invalid character '1' after object key"},
    {TEXT("{\"a\":1"), "unexpected end of JSON input"},
    {TEXT("{\"a\":1 1}"), "invalid character '1' after object key:value pair"},
    {TEXT("{\"a\":1,"), "unexpected end of JSON input"},
    {TEXT("{\"a\":1,}"), "invalid character '}' looking for beginning of object key string"},
    {TEXT("["), "unexpected end of JSON input"},
    {TEXT("[1"), "unexpected end of JSON input"},
    {TEXT("[1 2]"), "invalid character '2' after array element"},
    {TEXT("[1,]"), "invalid character ']' looking for beginning of value"},
    {TEXT("\""), "unexpected end of JSON input"},
    {TEXT("\"\n\""), "invalid character '\\n' in string literal"},
    {TEXT("\"\\"), "invalid character ' ' in string escape code"},
    {TEXT("\"\\q\""), "invalid character 'q' in string escape code"},
    {TEXT("\"\\u12"), "invalid character ' ' in \\u hexadecimal character escape"},
    {TEXT("\"\\u12g4\""), "invalid character 'g' in \\u hexadecimal character escape"},
    {TEXT("tru"), "invalid character ' ' in literal true (expecting 'e')"},
    {TEXT("trux"), "invalid character 'x' in literal true (expecting 'e')"},
    {TEXT("fa"), "invalid character ' ' in literal false (expecting 'l')"},
    {TEXT("nxll"), "invalid character 'x' in literal null (expecting 'u')"},
    {TEXT("-"), "invalid character ' ' in numeric literal"},
    {TEXT("-x"), "invalid character 'x' in numeric literal"},
    {TEXT("01"), "invalid character '1' after top-level value"},
    {TEXT("1."), "invalid character ' ' after decimal point in numeric literal"},
    {TEXT("1.x"), "invalid character 'x' after decimal point in numeric literal"},
    {TEXT("1e"), "invalid character ' ' in exponent of numeric literal"},
    {TEXT("1e+x"), "invalid character 'x' in exponent of numeric literal"},
    {TEXT("{} x"), "invalid character 'x' after top-level value"},
    {TEXT("'"), "invalid character '\\'' looking for beginning of value"},
    {TEXT("\\"), "invalid character '\\\\' looking for beginning of value"},
    {TEXT("{\x00}"), "invalid character '\\x00' looking for beginning of object key string"},
    {TEXT("{\x7f}"), "invalid character '\\x7f' looking for beginning of object key string"},
    {TEXT("\xc3\xa4"), "invalid character '\xc3\x83' looking for beginning of value"},
    {TEXT("\xa0"), "invalid character '\\u00a0' looking for beginning of value"},
    {TEXT("\xad"), "invalid character '\\u00ad' looking for beginning of value"},
    {TEXT("\x85"), "invalid character '\\u0085' looking for beginning of value"},
    {TEXT("\"\x1f\""), "invalid character '\\x1f' in string literal"},
    {TEXT("{,}"), "invalid character ',' looking for beginning of object key string"},
    {TEXT("[}"), "invalid character '}' looking for beginning of value"},
    {TEXT("{]"), "invalid character ']' looking for beginning of object key string"},
    {TEXT("[1}"), "invalid character '}' after array element"},
    {TEXT("+1"), "invalid character '+' looking for beginning of value"},
    {TEXT("/**/"), "invalid character '/' looking for beginning of value"},
    {TEXT("{\"a\":1e5x}"), "invalid character 'x' after object key:value pair"},
};

static void faults_are_named_as_go_names_them(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(faults); i++) {
        struct slice text = exact(faults[i].text.ptr, faults[i].text.len), value;
        struct json_error why;

        if (json_take(text, true, &value, &why))
            fail_msg("text %zu is no fault", i);
        if (strcmp(why.text, faults[i].why) != 0)
            fail_msg("text %zu: %s", i, why.text);
        exact_free(text);
    }
}

static void what_follows_the_first_value_may_be_left_alone(void **state)
{
    static const struct {
        const char *text, *value;
    } cases[] = {
        {"{} x", "{}"},
        {" [1]]", "[1]"},
        {"nullx", "null"},
        {"\"a\"\"b\"", "\"a\""},
        {"12x", "12"},
        {"01", "0"},
        {"-1.5e3,", "-1.5e3"},
        {"true", "true"},
        {"{}{}", "{}"},
        {"[[],{}]\n", "[[],{}]"},
        {" {\"a\" : 1 } ", "{\"a\" : 1 }"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct slice text = exact(cases[i].text, strlen(cases[i].text)), value;
        struct json_error why;

        if (!json_take(text, false, &value, &why) || !slice_is(value, cases[i].value))
            fail_msg("%s", cases[i].text);
        exact_free(text);
    }
}

/* A text of `depth` brackets; json_take() of it. */
static bool take_nested(size_t depth, const char *open, const char *close, struct json_error *why)
{
    size_t open_len = strlen(open), len = depth * (open_len + 1) + 1;
    uint8_t *text = malloc(len);
    struct slice value;
    struct writer w = {.ptr = text, .cap = len};
    bool ok;

    assert_non_null(text);
    for (size_t i = 0; i < depth; i++)
        writer_str(&w, open);
    writer_str(&w, "0");
    for (size_t i = 0; i < depth; i++)
        writer_str(&w, close);
    ok = json_take((struct slice){text, w.len}, true, &value, why);
    assert_true(!ok || value.len == len);
    free(text);
    return ok;
}

static void the_depth_is_limited(void **state)
{
    struct json_error why;

    (void)state;
    assert_true(take_nested(JSON_DEPTH_MAX, "[", "]", &why));
    assert_true(take_nested(JSON_DEPTH_MAX, "{\"\":", "}", &why));
    assert_false(take_nested(JSON_DEPTH_MAX + 1, "[", "]", &why));
    assert_string_equal(why.text, "invalid character '[' exceeded max depth");
    assert_false(take_nested(JSON_DEPTH_MAX + 1, "{\"\":", "}", &why));
    assert_string_equal(why.text, "invalid character '{' exceeded max depth");
}

static void every_part_is_found(void **state)
{
    static const char text[] =
        " { \"a\" : [ 1 , \"x]\\\"\" , { \"}\" : [] } ,null ] , \"b\":-1.5e3 ,"
        "\"c\" : true}";
    static const char *const elements[] = {"1", "\"x]\\\"\"", "{ \"}\" : [] }", "null"};
    static const enum json_kind kinds[] = {JSON_NUMBER, JSON_STRING, JSON_OBJECT, JSON_NULL};
    struct slice whole = exact(text, sizeof text - 1), object, name, value, element;
    struct json_error why;
    size_t count = 0;

    (void)state;
    assert_true(json_take(whole, true, &object, &why));
    assert_int_equal(json_kind(object), JSON_OBJECT);
    assert_true(json_next_member(&object, &name, &value));
    assert_true(slice_is(name, "\"a\""));
    assert_int_equal(json_kind(value), JSON_ARRAY);
    for (; json_next_element(&value, &element); count++) {
        assert_true(count < COUNT(elements));
        assert_true(slice_is(element, elements[count]));
        assert_int_equal(json_kind(element), kinds[count]);
    }
    assert_int_equal(count, COUNT(elements));
    assert_true(json_next_member(&object, &name, &value));
    assert_true(slice_is(name, "\"b\"") && slice_is(value, "-1.5e3"));
    assert_true(json_next_member(&object, &name, &value));
    assert_true(slice_is(name, "\"c\"") && slice_is(value, "true"));
    assert_int_equal(json_kind(value), JSON_BOOL);
    assert_false(json_next_member(&object, &name, &value));
    assert_false(json_next_member(&object, &name, &value));
    exact_free(whole);
}

static void empty_ones_have_no_parts(void **state)
{
    struct slice object = slice_str("{ }"), array = slice_str("[\n]"), name, value;

    (void)state;
    assert_false(json_next_member(&object, &name, &value));
    assert_false(json_next_element(&array, &value));
}

static void strings_are_unquoted_as_in_go(void **state)
{
    static const struct {
        struct slice string, bytes;
    } cases[] = {
        {TEXT("\"\""), TEXT("")},
        {TEXT("\"a\\\"\\\\\\/\\b\\f\\n\\r\\t\""), TEXT("a\"\\/\b\f\n\r\t")},
        {TEXT("\"\\u0000\\u0041\\u00e4\\u20ac\""), TEXT("\0A\xc3\xa4\xe2\x82\xac")},
        {TEXT("\"\\ud83d\\ude00\""), TEXT("\xf0\x9f\x98\x80")},
        {TEXT("\"\\ud83dx\""), TEXT("\xef\xbf\xbdx")},
        {TEXT("\"\\ude00\""), TEXT("\xef\xbf\xbd")},
        {TEXT("\"\\ud83d\\u0041\""), TEXT("\xef\xbf\xbd"
                                          "A")},
        {TEXT("\"\\ud83d\\ud83d\\ude00\""), TEXT("\xef\xbf\xbd\xf0\x9f\x98\x80")},
        {TEXT("\"\xff\xc3\""), TEXT("\xef\xbf\xbd\xef\xbf\xbd")},
        {TEXT("\"\xed\xa0\x80\""), TEXT("\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd")},
        {TEXT("\"\xc3\xa4\xf4\x90\x80\x80\""),
         TEXT("\xc3\xa4\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd")},
        {TEXT("\"\xc0\x80\""), TEXT("\xef\xbf\xbd\xef\xbf\xbd")},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct slice string = exact(cases[i].string.ptr, cases[i].string.len);
        uint8_t *out = malloc(JSON_UNQUOTED_MAX(string.len));
        size_t len;

        assert_non_null(out);
        len = json_unquote(string, out);
        if (!slice_equal((struct slice){out, len}, cases[i].bytes))
            fail_msg("string %zu", i);
        free(out);
        exact_free(string);
    }
}

static void names_are_found_in_any_case(void **state)
{
    static const char *const same[] = {"\"revoke\"", "\"REVOKE\"", "\"Revo\\u004be\"",
                                       "\"revo\u212ae\"", "\"\\u0072evoke\""};
    static const char *const other[] = {"\"\"", "\"revok\"", "\"revokes\"", "\"revo\u0138e\"",
                                        "\"revoke\\u0000\""};

    (void)state;
    for (size_t i = 0; i < COUNT(same); i++) {
        if (!json_name_is(slice_str(same[i]), "revoke"))
            fail_msg("%s is another name", same[i]);
    }
    for (size_t i = 0; i < COUNT(other); i++) {
        if (json_name_is(slice_str(other[i]), "revoke"))
            fail_msg("%s is the same name", other[i]);
    }
    assert_true(json_name_is(slice_str("\"role\u017f\""), "roles"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(faults_are_named_as_go_names_them),
        cmocka_unit_test(what_follows_the_first_value_may_be_left_alone),
        cmocka_unit_test(the_depth_is_limited),
        cmocka_unit_test(every_part_is_found),
        cmocka_unit_test(empty_ones_have_no_parts),
        cmocka_unit_test(strings_are_unquoted_as_in_go),
        cmocka_unit_test(names_are_found_in_any_case),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
