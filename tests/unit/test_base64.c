/* Base64 both ways: RFC 4648's own examples, every length, and every wrong character. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "proto/base64.h"
#include "tests/unit/exact.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* Decodes into exactly the room that the header promises is enough. */
static bool decode(const char *text, bool strict, struct slice *out)
{
    struct slice in = exact(text, strlen(text)), room = exact(text, strlen(text) / 4 * 3);
    bool done = base64_decode(in, strict, (uint8_t *)(uintptr_t)room.ptr, &out->len);

    out->ptr = room.ptr;
    exact_free(in);
    return done;
}

static void the_examples_of_the_rfc(void **state)
{
    static const struct {
        const char *bytes, *text;
    } cases[] = {
        {"", ""},
        {"f", "Zg=="},
        {"fo", "Zm8="},
        {"foo", "Zm9v"},
        {"foob", "Zm9vYg=="},
        {"fooba", "Zm9vYmE="},
        {"foobar", "Zm9vYmFy"},
        {"\xff\xfe\xfb\xef\xbe", "//77774="},
        {"\xfb\xef\xbe", "++++"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct slice bytes = slice_str(cases[i].bytes), out;
        size_t size = base64_size(bytes.len);
        struct slice text = exact("................", size);

        assert_int_equal(size, strlen(cases[i].text));
        base64_encode(bytes, (uint8_t *)(uintptr_t)text.ptr);
        assert_true(slice_is(text, cases[i].text));
        exact_free(text);
        for (int strict = 0; strict < 2; strict++) {
            assert_true(decode(cases[i].text, strict != 0, &out));
            assert_true(slice_equal(out, bytes));
            exact_free(out);
        }
    }
}

static void every_byte_in_every_place_comes_back(void **state)
{
    (void)state;
    for (size_t len = 1; len <= 9; len++) {
        for (unsigned value = 0; value < 256; value++) {
            uint8_t bytes[9], text[13] = {0};
            struct slice out;

            for (size_t i = 0; i < len; i++)
                bytes[i] = (uint8_t)(value + i * 37);
            base64_encode((struct slice){bytes, len}, text);
            assert_int_equal(strlen((char *)text), base64_size(len));
            assert_true(decode((char *)text, true, &out));
            assert_true(slice_equal(out, (struct slice){bytes, len}));
            exact_free(out);
        }
    }
}

/* Each of the 256 bytes in each place of a text: 64 are digits, `=` ends the text, and all others
 * are refused. */
static void other_characters_are_refused(void **state)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    (void)state;
    for (size_t place = 0; place < 8; place++) {
        for (int c = 1; c < 256; c++) {
            char text[] = "AAAAAAAA";
            struct slice out;
            bool good = strchr(digits, c) != NULL || (c == '=' && place == 7);

            text[place] = (char)c;
            if (decode(text, false, &out) != good)
                fail_msg("character %d at %zu", c, place);
            exact_free(out);
        }
    }
}

static void lengths_and_padding_have_to_fit(void **state)
{
    static const char *const wrong[] = {
        "A",     "AA",       "AAA",      "AAAAA",     "=",          "==",       "===",
        "====",  "A===",     "=AAA",     "A=AA",      "AA=A",       "AA==AAAA", "AAA=AAAA",
        "AAAA=", "AAAA====", "AAAAA===", "AAAA\nAAA", "AAAA\nAAAA", "AAAA ",    "A A=",
    };

    (void)state;
    for (size_t i = 0; i < COUNT(wrong); i++) {
        struct slice out;

        if (decode(wrong[i], false, &out))
            fail_msg("%s is decoded", wrong[i]);
        exact_free(out);
    }
}

/* What is left over of the last digit: strictly, 0. */
static void bits_left_over_matter_to_the_strict(void **state)
{
    static const char *const texts[] = {"Zh==", "Zm9=", "Zm9vYn==", "Zm9vYmF="};

    (void)state;
    for (size_t i = 0; i < COUNT(texts); i++) {
        struct slice out;

        assert_true(decode(texts[i], false, &out));
        assert_true(slice_starts_with(slice_str("foobar"), out));
        exact_free(out);
        assert_false(decode(texts[i], true, &out));
        exact_free(out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_examples_of_the_rfc),
        cmocka_unit_test(every_byte_in_every_place_comes_back),
        cmocka_unit_test(other_characters_are_refused),
        cmocka_unit_test(lengths_and_padding_have_to_fit),
        cmocka_unit_test(bits_left_over_matter_to_the_strict),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
