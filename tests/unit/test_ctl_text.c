/* The texts of rdzvctl: what others chose does nothing to a terminal, names go together, tables
 * line up, times are read. */
#include "client/ctl/print.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/ctl/commands.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

static char *printed;
static size_t printed_len;

static FILE *begin(void)
{
    return open_memstream(&printed, &printed_len);
}

static void expect(FILE *out, const char *want)
{
    fclose(out);
    assert_string_equal(printed, want);
    free(printed);
}

static void safe(const char *bytes, size_t len, size_t most, const char *want)
{
    char *copy = malloc(len + 1); /* of the exact size, for ASan */
    FILE *out = begin();

    memcpy(copy, bytes, len);
    copy = realloc(copy, len == 0 ? 1 : len);
    text_safe(out, copy, len, most);
    expect(out, want);
    free(copy);
}

static void terminals_are_not_obeyed(void **state)
{
    (void)state;
    safe("plain", 5, 100, "plain");
    safe("", 0, 100, "");
    safe("a\033[31m\n\tb\x7f", 10, 100, "a\\x1b[31m\\x0a\\x09b\\x7f");
    safe("gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80", 15, 100,
         "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80");
    safe("\xc2\x9b!", 3, 100, "\\xc2\\x9b!"); /* a control character of 8 bits */
    safe("\xc3", 1, 100, "\\xc3");            /* cut short */
    safe("\xe2\x82", 2, 100, "\\xe2\\x82");
    safe("\xc0\x8a\xe0\x80\x8a\xff", 6, 100, "\\xc0\\x8a\\xe0\\x80\\x8a\\xff"); /* too long */
    safe("abcdef", 6, 3, "abc...");
    assert_true(text_is_plain("two\nlines\t\xc3\xbc", 12));
    assert_false(text_is_plain("\033", 1));
    assert_false(text_is_plain("a\0b", 3));
}

static void names(const char *given, size_t most, const char *want)
{
    char copy[512];
    const char *list[64];
    size_t count = 0;
    FILE *out = begin();

    strcpy(copy, given);
    for (char *word = strtok(copy, " "); word != NULL; word = strtok(NULL, " "))
        list[count++] = word;
    text_names(out, list, count, most);
    expect(out, want);
}

static void names_go_together(void **state)
{
    (void)state;
    names("", 5, "");
    names("alpha", 5, "alpha");
    names("beta alpha", 5, "alpha, beta");
    names("n-2 n-1 n-3", 5, "n-[1-3]");
    names("n-01 n-03 n-02 n-07", 5, "n-[01-03,07]");
    names("w-1.svc w-0.svc", 5, "w-[0-1].svc");
    names("w-9 w-10 w-11", 5, "w-9, w-[10-11]");
    names("a-0-x a-1-y", 5, "a-0-x, a-1-y");
    names("10.0.0.1 10.0.0.2 10.0.1.1", 5, "10.0.0.[1-2], 10.0.1.1");
    names("n-1 n-1", 5, "n-1 (2)");
    names("alpha n-1 alpha beta alpha", 5, "alpha (3), beta, n-1");
    names("a b c d", 2, "a, b and 2 more");
    names("n-1 n-2 x y", 1, "n-[1-2] and 2 more");
    names("n18446744073709551615 n18446744073709551616", 5,
          "n18[446744073709551615-446744073709551616]");
}

static void columns_line_up(void **state)
{
    struct table t = {.heads = {"NAME", "N", "LAST"}};
    FILE *out = begin();

    (void)state;
    table_row(&t, STYLE_BAD);
    table_cell(&t, "z\xc3\xbcrich"); /* six characters */
    table_printf(&t, "%d", 7);
    table_cell(&t, "end");
    table_row(&t, STYLE_PLAIN);
    table_cell(&t, "\033");
    table_cell(&t, "");
    table_print(&t, out, "  ", false);
    expect(out, "  NAME    N  LAST\n"
                "  z\xc3\xbcrich  7  end\n"
                "  \\x1b    -  -\n");
    out = begin();
    table_row(&t, STYLE_BAD);
    table_cell(&t, "a");
    table_print(&t, out, "", true);
    expect(out, "\033[1mNAME  N  LAST\033[0m\n\033[1;31ma     -  -\033[0m\n");
}

static void times_are_read(void **state)
{
    static const struct {
        const char *text;
        int64_t us;
    } times[] = {
        {"1970-01-01T00:00:01Z", 1000000},
        {"1970-01-01T00:00:00.000001Z", 1},
        {"2026-11-20T20:58:18.5Z", 1795208298500000},
        {"2026-11-20T20:58:18", -1},
        {"2026-11-20T20:58:18.123x", -1},
        {"yesterday", -1},
        {"", -1},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(times); i++)
        assert_int_equal(text_time_us(times[i].text), times[i].us);
    assert_int_equal(text_time_us(NULL), -1);
}

static void ages_and_sizes_are_short(void **state)
{
    static const struct {
        int64_t s;
        const char *want;
    } ages[] = {{-5, "0s"},       {0, "0s"},       {59, "59s"},       {60, "1m00s"},
                {3599, "59m59s"}, {3600, "1h00m"}, {86399, "23h59m"}, {90000, "1d1h"}};
    static const struct {
        double bytes;
        const char *want;
    } sizes[] = {{0, "0"},
                 {1023, "1023"},
                 {1024, "1.0 KiB"},
                 {3.5 * 1048576, "3.5 MiB"},
                 {5e15, "4547.5 TiB"}};

    (void)state;
    for (size_t i = 0; i < COUNT(ages); i++)
        assert_string_equal(text_age(ages[i].s * 1000000).text, ages[i].want);
    for (size_t i = 0; i < COUNT(sizes); i++)
        assert_string_equal(text_bytes(sizes[i].bytes).text, sizes[i].want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(terminals_are_not_obeyed), cmocka_unit_test(names_go_together),
        cmocka_unit_test(columns_line_up),          cmocka_unit_test(times_are_read),
        cmocka_unit_test(ages_and_sizes_are_short),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
