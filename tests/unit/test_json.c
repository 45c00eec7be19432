/* JSON text against what Go's encoding/json and time print. */
#include "proto/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "tests/unit/exact.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* Writes twice, the second time with exactly the room that the first one counted. */
static void check_string(struct slice text, const char *expected, size_t len)
{
    struct slice copy = exact(text.ptr, text.len);
    struct writer count = {0}, w;

    json_string(&count, copy);
    if (count.len != len)
        print_error("input of %zu bytes, first 0x%02x: %zu bytes, expected %s\n", text.len,
                    text.len ? text.ptr[0] : 0, count.len, expected);
    assert_int_equal(count.len, len);
    w = (struct writer){.ptr = malloc(len), .cap = len};
    assert_non_null(w.ptr);
    json_string(&w, copy);
    assert_int_equal(w.len, len);
    assert_memory_equal(w.ptr, expected, len);
    free(w.ptr);
    exact_free(copy);
}

static void strings_are_escaped_as_go_does(void **state)
{
    static const struct {
        struct slice in;
        const char *out;
    } rows[] = {
#define ROW(in, out) {{(const uint8_t *)(in), sizeof(in) - 1}, out}
        ROW("", "\"\""),
        ROW("plain /key", "\"plain /key\""),
        ROW("\"\\", "\"\\\"\\\\\""),
        ROW("\n\r\t", "\"\\n\\r\\t\""),
        ROW("\b\f\v\a\0", "\"\\u0008\\u000c\\u000b\\u0007\\u0000\""),
        ROW("\x1f\x7f", "\"\\u001f\x7f\""),
        ROW("<a>&", "\"\\u003ca\\u003e\\u0026\""),
        ROW("'/", "\"'/\""),
        ROW("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\""),
        ROW("\xe2\x80\xa7\xe2\x80\xa8\xe2\x80\xa9\xe2\x80\xaa",
            "\"\xe2\x80\xa7\\u2028\\u2029\xe2\x80\xaa\""),
        ROW("a\xff\xfe\x62", "\"a\\ufffd\\ufffdb\""),
        ROW("\xe2\x82", "\"\\ufffd\\ufffd\""),
        ROW("\xed\xa0\x80", "\"\\ufffd\\ufffd\\ufffd\""),
        ROW("\xef\xbf\xbd", "\"\xef\xbf\xbd\""),
#undef ROW
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++)
        check_string(rows[i].in, rows[i].out, strlen(rows[i].out));
}

/* Many escapes in a row are written in pieces: none is lost or cut where a piece ends. */
static void many_escapes_in_a_row_are_whole(void **state)
{
    static const struct {
        const char *in, *out;
    } kinds[] = {
        {"\x01", "\\u0001"}, {"\n", "\\n"}, {"\xff", "\\ufffd"}, {"\xe2\x80\xa8", "\\u2028"}};
    enum { TIMES = 300 };
    uint8_t in[TIMES * 4], out[TIMES * 8];

    (void)state;
    for (size_t k = 0; k < COUNT(kinds) * COUNT(kinds); k++) {
        size_t one = k % COUNT(kinds), other = k / COUNT(kinds);
        struct writer text = {.ptr = in, .cap = sizeof in}, json = {.ptr = out, .cap = sizeof out};

        writer_str(&json, "\"");
        for (size_t i = 0; i < TIMES; i++) {
            size_t kind = i % 7 == 0 ? other : one;

            writer_str(&text, kinds[kind].in);
            writer_str(&json, kinds[kind].out);
            if (i % 100 == 99) {
                writer_str(&text, "p");
                writer_str(&json, "p");
            }
        }
        writer_str(&json, "\"");
        check_string((struct slice){in, text.len}, (char *)out, json.len);
    }
}

/* Text of all kinds of characters, long runs of each among them. */
static size_t mixed_text(uint8_t *out, size_t cap, unsigned *seed)
{
    static const char *const kinds[] = {"plain", "\x01", "\n",           "\"",       "<&>\\",
                                        "\xff",  "\xc3", "\xe2\x80\xa8", "\xc3\xa9", "\x7f "};
    struct writer w = {.ptr = out, .cap = cap};

    while (w.len + 40 * 6 < cap) {
        const char *kind = kinds[(unsigned)rand_r(seed) % COUNT(kinds)];
        int times = rand_r(seed) % 4 == 0 ? rand_r(seed) % 40 : 1;

        for (int i = 0; i < times; i++)
            writer_str(&w, kind);
    }
    return w.len;
}

/* Pieces of each length from the least on have the same bytes together, only whole characters, and
 * little unused room. */
static void a_text_is_written_in_pieces_of_any_length(void **state)
{
    enum { TEXT = 3000 };
    uint8_t in[TEXT], whole[TEXT * 6];
    struct writer all = {.ptr = whole, .cap = sizeof whole};
    unsigned seed = 5;
    struct slice text = {in, 0};

    (void)state;
    text.len = mixed_text(in, sizeof in, &seed);
    json_text(&all, text);
    for (size_t room = 8; room < 200; room++) {
        size_t at = 0, sum = 0;

        while (at < text.len) {
            struct writer w = {.ptr = malloc(room), .cap = room};
            size_t before = at;

            assert_non_null(w.ptr);
            at = json_text_part(&w, text, at);
            assert_true(at > before);
            assert_in_range(w.len, at == text.len ? 1 : room - 7, room);
            assert_memory_equal(w.ptr, whole + sum, w.len);
            sum += w.len;
            free(w.ptr);
        }
        assert_int_equal(sum, all.len);
    }
}

static void without_room_no_part_of_a_text_is_written(void **state)
{
    uint8_t none[1];
    struct writer over = {.ptr = none, .cap = 1, .len = 2}, empty = {0};

    (void)state;
    assert_int_equal(json_text_part(&over, slice_str("text"), 1), 1);
    assert_int_equal(json_text_part(&empty, slice_str("text"), 1), 1);
    assert_int_equal(over.len, 2);
    assert_int_equal(empty.len, 0);
}

/* The length of the sequence at p by the definition of UTF-8: decode, then look at the number. */
static size_t sequence_len(const uint8_t *p, size_t left)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t len = p[0] < 0x80       ? 1
                 : p[0] >> 5 == 6  ? 2
                 : p[0] >> 4 == 14 ? 3
                 : p[0] >> 3 == 30 ? 4
                                   : 0;
    uint32_t code;

    if (len < 2 || len > left)
        return len == 1;
    code = p[0] & (0xffu >> (len + 1));
    for (size_t i = 1; i < len; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (p[i] & 0x3f);
    }
    return code < least[len] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000) ? 0 : len;
}

/* All first and second bytes, and the border cases of those behind, with every cut. */
static void every_lead_and_second_byte_is_judged_as_utf8_is_defined(void **state)
{
    static const uint8_t behind[] = {0x00, 0x7f, 0x80, 0xa8, 0xbf, 0xc0, 0xff};

    (void)state;
    for (unsigned lead = 0x80; lead < 0x100; lead++) {
        for (unsigned second = 0; second < 0x100; second++) {
            for (size_t k = 0; k < COUNT(behind) * COUNT(behind); k++) {
                const uint8_t bytes[4] = {(uint8_t)lead, (uint8_t)second, behind[k % COUNT(behind)],
                                          behind[k / COUNT(behind)]};
                size_t len = k == 0 ? 1 + second % 4 : 4;
                char out[64];
                size_t seq = sequence_len(bytes, len);
                struct writer w = {.ptr = (uint8_t *)out, .cap = sizeof out};
                uint32_t separator = (uint32_t)bytes[0] << 16 | (uint32_t)bytes[1] << 8 | bytes[2];

                json_string(&w, (struct slice){bytes, len});
                if (seq == 0) {
                    assert_memory_equal(out, "\"\\ufffd", 7);
                } else if (seq == 3 && (separator == 0xe280a8 || separator == 0xe280a9)) {
                    assert_memory_equal(out, separator == 0xe280a8 ? "\"\\u2028" : "\"\\u2029", 7);
                } else {
                    assert_memory_equal(out + 1, bytes, seq);
                }
            }
        }
    }
}

static void each_single_byte_is_a_string(void **state)
{
    (void)state;
    for (unsigned c = 0; c < 256; c++) {
        const uint8_t byte = (uint8_t)c;
        char out[16];
        int len;

        if (c == '"' || c == '\\')
            len = snprintf(out, sizeof out, "\"\\%c\"", (int)c);
        else if (c == '\n' || c == '\r' || c == '\t')
            len = snprintf(out, sizeof out, "\"\\%c\"", c == '\n' ? 'n' : c == '\r' ? 'r' : 't');
        else if (c < 0x20 || c == '<' || c == '>' || c == '&')
            len = snprintf(out, sizeof out, "\"\\u%04x\"", c);
        else if (c >= 0x80)
            len = snprintf(out, sizeof out, "\"\\ufffd\"");
        else
            len = snprintf(out, sizeof out, "\"%c\"", (int)c);
        check_string((struct slice){&byte, 1}, out, (size_t)len);
    }
}

static void check_written(const struct writer *w, const char *expected)
{
    size_t len = strlen(expected);

    if (w->len != len || memcmp(w->ptr, expected, len) != 0)
        print_error("%.*s, expected %.*s\n", (int)w->len, (const char *)w->ptr, (int)len, expected);
    assert_int_equal(w->len, len);
    assert_memory_equal(w->ptr, expected, len);
}

static void numbers_are_plain_decimals(void **state)
{
    static const uint64_t unsigned_rows[] = {
        0, 9, 10, 99, 100, 12345678901234567890u, UINT64_MAX, 1000, 18446744073709551609u};
    static const int64_t signed_rows[] = {0, -1, 1, -10, INT64_MIN, INT64_MAX, -9223372036};

    (void)state;
    for (size_t i = 0; i < COUNT(unsigned_rows); i++) {
        uint8_t out[32];
        char expected[32];
        struct writer w = {.ptr = out, .cap = sizeof out};

        snprintf(expected, sizeof expected, "%llu", (unsigned long long)unsigned_rows[i]);
        json_u64(&w, unsigned_rows[i]);
        check_written(&w, expected);
    }
    for (size_t i = 0; i < COUNT(signed_rows); i++) {
        uint8_t out[32];
        char expected[32];
        struct writer w = {.ptr = out, .cap = sizeof out};

        snprintf(expected, sizeof expected, "%lld", (long long)signed_rows[i]);
        json_i64(&w, signed_rows[i]);
        check_written(&w, expected);
    }
}

static void times_are_rfc3339_with_no_zeros_to_spare(void **state)
{
    static const struct {
        int64_t ns;
        const char *out;
    } rows[] = {
        {0, "\"1970-01-01T00:00:00Z\""},
        {1, "\"1970-01-01T00:00:00.000000001Z\""},
        {-1, "\"1969-12-31T23:59:59.999999999Z\""},
        {100000000, "\"1970-01-01T00:00:00.1Z\""},
        {120000000, "\"1970-01-01T00:00:00.12Z\""},
        {999999990, "\"1970-01-01T00:00:00.99999999Z\""},
        {-1000000000, "\"1969-12-31T23:59:59Z\""},
        {INT64_C(946684800000000000), "\"2000-01-01T00:00:00Z\""},
        {INT64_C(951782399000000000), "\"2000-02-28T23:59:59Z\""},
        {INT64_C(951782400000000000), "\"2000-02-29T00:00:00Z\""},
        {INT64_C(1795198305875585631), "\"2026-11-20T18:11:45.875585631Z\""},
        {INT64_C(8795198305000000000), "\"2248-09-16T06:38:25Z\""},
        {INT64_MAX, "\"2262-04-11T23:47:16.854775807Z\""},
        {INT64_MIN, "\"1677-09-21T00:12:43.145224192Z\""},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        uint8_t out[64];
        struct writer w = {.ptr = out, .cap = sizeof out};

        json_time(&w, rows[i].ns);
        check_written(&w, rows[i].out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strings_are_escaped_as_go_does),
        cmocka_unit_test(many_escapes_in_a_row_are_whole),
        cmocka_unit_test(a_text_is_written_in_pieces_of_any_length),
        cmocka_unit_test(without_room_no_part_of_a_text_is_written),
        cmocka_unit_test(every_lead_and_second_byte_is_judged_as_utf8_is_defined),
        cmocka_unit_test(each_single_byte_is_a_string),
        cmocka_unit_test(numbers_are_plain_decimals),
        cmocka_unit_test(times_are_rfc3339_with_no_zeros_to_spare),
    };

    return cmocka_run_group_tests_name("proto/json", tests, NULL, NULL);
}
