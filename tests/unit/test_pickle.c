/* Opcodes of pickles: the reader accepts numbers, strings, references and frames only in the
 * spelling of the writer, which is CPython's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "proto/torch/pickle.h"
#include "tests/unit/exact.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define BYTES(text)                               \
    {                                             \
        (const uint8_t *)(text), sizeof(text) - 1 \
    }

#define HEADER 11 /* of a pickle: its protocol, and the first frame's header */

/* A reader of an exact copy. */
static struct pickle_reader reader_of(struct slice in)
{
    struct pickle_reader r = {.in = exact(in.ptr, in.len)};
    uint8_t protocol;

    assert_true(pickle_begin(&r, &protocol));
    return r;
}

static void end_reader(struct pickle_reader *r)
{
    struct slice in = r->in;

    pickle_reader_fini(r);
    exact_free(in);
}

static void numbers_take_the_shortest_opcode(void **state)
{
    static const struct {
        int64_t v;
        const char *bytes;
        size_t len;
    } cases[] = {
        {0, "K\x00", 2},
        {255, "K\xff", 2},
        {256, "M\x00\x01", 3},
        {65535, "M\xff\xff", 3},
        {65536, "J\x00\x00\x01\x00", 5},
        {-1, "J\xff\xff\xff\xff", 5},
        {INT32_MAX, "J\xff\xff\xff\x7f", 5},
        {INT32_MIN, "J\x00\x00\x00\x80", 5},
        {INT64_C(2147483648), "\x8a\x05\x00\x00\x00\x80\x00", 7},
        {INT64_C(-2147483649), "\x8a\x05\xff\xff\xff\x7f\xff", 7},
        {INT64_C(549755813887), "\x8a\x05\xff\xff\xff\xff\x7f", 7},
        {INT64_C(549755813888), "\x8a\x06\x00\x00\x00\x00\x80\x00", 8},
        {INT64_C(-549755813888), "\x8a\x05\x00\x00\x00\x00\x80", 7},
        {INT64_C(-549755813889), "\x8a\x06\xff\xff\xff\xff\x7f\xff", 8},
        {INT64_MAX, "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f", 10},
        {INT64_MIN, "\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x80", 10},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        uint8_t bytes[64];
        struct pickle_writer w = {.out = {.ptr = bytes, .cap = sizeof bytes}};
        struct pickle_reader r;
        int64_t v;

        pickle_start(&w, 4);
        pickle_put_int(&w, cases[i].v);
        pickle_op(&w, PICKLE_MARK);
        pickle_stop(&w);
        assert_int_equal(w.out.len, HEADER + cases[i].len + 2);
        assert_memory_equal(bytes + HEADER, cases[i].bytes, cases[i].len);
        r = reader_of((struct slice){bytes, w.out.len});
        assert_true(pickle_int(&r, &v));
        assert_true(v == cases[i].v);
        assert_true(pickle_pass(&r, PICKLE_MARK) && pickle_pass(&r, PICKLE_STOP));
        assert_int_equal(pickle_peek(&r), -1);
        end_reader(&r);
    }
}

/* Around every power of two, and all 16 bits. */
static void all_numbers_come_back(void **state)
{
    (void)state;
    for (int bit = 0; bit < 64; bit++) {
        for (int64_t off = -300; off <= 300; off++) {
            int64_t v = (int64_t)((UINT64_C(1) << bit) + (uint64_t)off), back;
            uint8_t bytes[64];
            struct pickle_writer w = {.out = {.ptr = bytes, .cap = sizeof bytes}};
            struct pickle_reader r;

            pickle_start(&w, 5);
            pickle_put_int(&w, v);
            pickle_stop(&w);
            r = reader_of((struct slice){bytes, w.out.len});
            if (!pickle_int(&r, &back) || back != v)
                fail_msg("%lld is not read again", (long long)v);
            end_reader(&r);
        }
    }
}

/* Text of so many bytes, written and then referred to. */
static void strings_are_numbered_and_referred_to(void **state)
{
    static const size_t lengths[] = {0, 1, 255, 256, 1000};
    static uint8_t text[1000], bytes[400000];

    (void)state;
    memset(text, 'x', sizeof text);
    for (size_t i = 0; i < COUNT(lengths); i++) {
        struct slice s = {text, lengths[i]}, back;
        struct pickle_writer w = {.out = {.ptr = bytes, .cap = sizeof bytes}};
        struct pickle_reader r;

        pickle_start(&w, 4);
        for (uint32_t n = 0; n < 300; n++)
            assert_int_equal(pickle_put_string(&w, s), n);
        for (uint32_t n = 0; n < 300; n++)
            pickle_reference(&w, n);
        pickle_stop(&w);
        assert_in_range(w.out.len, 0, sizeof bytes);
        r = reader_of((struct slice){bytes, w.out.len});
        for (int n = 0; n < 600; n++) {
            assert_true(pickle_string(&r, &back));
            assert_true(slice_equal(back, s));
        }
        assert_true(pickle_pass(&r, PICKLE_STOP));
        end_reader(&r);
    }
}

/* As CPython does: a frame ends before the first object that finds 64 KiB in it. */
static void frames_are_of_64_kib(void **state)
{
    static uint8_t bytes[300000];
    struct pickle_writer w = {.out = {.ptr = bytes, .cap = sizeof bytes}};
    struct pickle_reader r;
    size_t frames = 0, at = 2;
    int64_t v;

    (void)state;
    pickle_start(&w, 4);
    for (int i = 0; i < 70000; i++)
        pickle_put_int(&w, 300); /* three bytes */
    pickle_stop(&w);
    while (at < w.out.len) {
        uint64_t len = bytes_get_u64(bytes + at + 1);

        assert_int_equal(bytes[at], PICKLE_FRAME);
        at += 9 + (size_t)len;
        assert_int_equal(len, at < w.out.len ? 65538 : 210001 - 3 * 65538);
        frames++;
    }
    assert_int_equal(frames, 4);
    assert_int_equal(at, w.out.len);
    r = reader_of((struct slice){bytes, w.out.len});
    for (int i = 0; i < 70000; i++)
        assert_true(pickle_int(&r, &v) && v == 300);
    assert_true(pickle_pass(&r, PICKLE_STOP));
    end_reader(&r);
}

static void what_is_short_has_no_frame(void **state)
{
    uint8_t bytes[20];
    struct pickle_writer w = {.out = {.ptr = bytes, .cap = sizeof bytes}};
    struct pickle_reader r;
    int64_t v;

    (void)state;
    pickle_start(&w, 4);
    pickle_put_int(&w, 7);
    pickle_stop(&w);
    assert_int_equal(w.out.len, 5);
    assert_memory_equal(bytes, "\x80\x04K\x07.", 5); /* pickle.dumps(7, protocol=4) */
    r = reader_of((struct slice){bytes, w.out.len});
    assert_true(pickle_int(&r, &v) && pickle_pass(&r, PICKLE_STOP));
    assert_int_equal(pickle_peek(&r), -1);
    end_reader(&r);
}

/* A reader at the last bytes of a frame, with nothing behind them. */
static struct pickle_reader reader_at(struct slice last)
{
    uint8_t bytes[64] = {0x80, 4, PICKLE_FRAME, [HEADER] = 'N', 'N', 'N', 'N'};
    struct pickle_reader r;

    bytes_put_u64(bytes + 3, 4 + last.len);
    if (last.len > 0)
        memcpy(bytes + HEADER + 4, last.ptr, last.len);
    r = reader_of((struct slice){bytes, HEADER + 4 + last.len});
    for (int i = 0; i < 4; i++)
        assert_true(pickle_pass(&r, PICKLE_NONE));
    return r;
}

static void other_spellings_of_numbers_are_refused(void **state)
{
    static const struct slice wrong[] = {
        BYTES(""),
        BYTES("N"),
        BYTES("\x88"),
        BYTES("K"),
        BYTES("M"),
        BYTES("M\x01"),
        BYTES("M\xff\x00"),
        BYTES("J\x01\x01\x01"),
        BYTES("J\xff\x00\x00\x00"),
        BYTES("J\xff\xff\x00\x00"),
        BYTES("\x8a"),
        BYTES("\x8a\x00"),
        BYTES("\x8a\x01\x05"),
        BYTES("\x8a\x04\xff\xff\xff\x7f"),
        BYTES("\x8a\x05\x00\x00\x00\x80"),
        BYTES("\x8a\x05\xff\xff\xff\x7f\x00"),
        BYTES("\x8a\x06\x00\x00\x00\x00\x01\x00"),
        BYTES("\x8a\x06\x00\x00\x00\x00\xff\xff"),
        BYTES("\x8a\x08\x00\x00\x00\x00\x00\x00\x40\x00"),
        BYTES("\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\x01"),
        BYTES("\x8a\xff\x01"),
        BYTES("I7\n"),
        BYTES("L7L\n"),
    };

    (void)state;
    for (size_t i = 0; i < COUNT(wrong); i++) {
        struct pickle_reader r = reader_at(wrong[i]);
        int64_t v;

        if (pickle_int(&r, &v))
            fail_msg("spelling %zu is read as %lld", i, (long long)v);
        end_reader(&r);
    }
}

static void other_spellings_of_strings_are_refused(void **state)
{
    static const struct slice wrong[] = {
        BYTES(""),
        BYTES("K\x01"),
        BYTES("\x8c"),
        BYTES("\x8c\x02x"),
        BYTES("\x8c\x01x"),
        BYTES("\x8c\x01xN"),
        BYTES("\x8c\x01\xff\x94"),
        BYTES("\x8c\x09"
              "abcdefgh\xc3\x94"),
        BYTES("\x8c\x08"
              "abcdefg\x80\x94"),
        BYTES("X\x01\x00\x00"),
        BYTES("X\x01\x00\x00\x00x\x94"),
        BYTES("X\x00\x01\x00\x00x\x94"),
        BYTES("X\xff\xff\xff\xffx\x94"),
        BYTES("h"),
        BYTES("h\x00"),
        BYTES("h\xff"),
        BYTES("j\x00\x00\x00"),
        BYTES("j\x00\x00\x00\x00"),
        BYTES("j\xff\xff\xff\xff"),
        BYTES("U\x01x\x94"),
        BYTES("C\x01x\x94"),
    };

    (void)state;
    for (size_t i = 0; i < COUNT(wrong); i++) {
        struct pickle_reader r = reader_at(wrong[i]);
        struct slice s;

        if (pickle_string(&r, &s))
            fail_msg("spelling %zu is read", i);
        end_reader(&r);
    }
}

/* A reference to another object is not accepted as a string, and a short reference in its long
 * spelling is refused. */
static void references_are_to_what_is_asked_for(void **state)
{
    struct pickle_reader r =
        reader_at((struct slice)BYTES("N\x94\x8c\x01x\x94h\x00h\x02j\x01\x00\x00\x00h\x01h"));
    struct slice s;
    uint32_t value;

    (void)state;
    assert_true(pickle_pass(&r, PICKLE_NONE) && pickle_memoize(&r, 7, 70));
    assert_true(pickle_string(&r, &s));
    assert_false(pickle_string(&r, &s));
    assert_false(pickle_get(&r, 6, &value));
    assert_true(pickle_get(&r, 7, &value));
    assert_int_equal(value, 70);
    assert_false(pickle_string(&r, &s)); /* the third of two */
    r.at += 2;
    assert_false(pickle_string(&r, &s)); /* the long one */
    r.at += 5;
    assert_true(pickle_string(&r, &s));
    assert_true(slice_is(s, "x"));
    assert_false(pickle_string(&r, &s));
    end_reader(&r);
}

static void other_beginnings_are_refused(void **state)
{
    static const struct slice wrong[] = {
        BYTES(""),         BYTES("\x80"),     BYTES("\x80\x00"), BYTES("\x80\x03"),
        BYTES("\x80\x06"), BYTES("\x80\xff"), BYTES("\x81\x04"), BYTES("N."),
    };

    (void)state;
    for (size_t i = 0; i < COUNT(wrong); i++) {
        struct pickle_reader r = {.in = exact(wrong[i].ptr, wrong[i].len)};
        uint8_t protocol;

        if (pickle_begin(&r, &protocol))
            fail_msg("beginning %zu is taken", i);
        end_reader(&r);
    }
}

static void other_frames_are_refused(void **state)
{
    static const struct slice wrong[] = {
        BYTES("\x80\x04"),
        BYTES("\x80\x04NNNN"),
        BYTES("\x80\x04N\x04\x00\x00\x00\x00\x00\x00\x00NNNN"),
        BYTES("\x80\x04\x95\x04\x00\x00\x00\x00\x00\x00"),
        BYTES("\x80\x04\x95\x04\x00\x00\x00\x00\x00\x00\x00"),
        BYTES("\x80\x04\x95\x00\x00\x00\x00\x00\x00\x00\x00NNNN"),
        BYTES("\x80\x04\x95\x03\x00\x00\x00\x00\x00\x00\x00NNNN"),
        BYTES("\x80\x04\x95\x05\x00\x00\x00\x00\x00\x00\x00NNNN"),
        BYTES("\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\xffNNNN"),
        BYTES("\x80\x04\x95\xf9\xff\xff\xff\xff\xff\xff\xffNNNN"),
    };

    (void)state;
    for (size_t i = 0; i < COUNT(wrong); i++) {
        struct pickle_reader r = reader_of(wrong[i]);

        if (pickle_peek(&r) != -1)
            fail_msg("frame %zu is entered", i);
        end_reader(&r);
    }
}

static void bytes_beyond_the_buffer_are_counted(void **state)
{
    uint8_t bytes[20];

    (void)state;
    for (size_t cap = 0; cap <= sizeof bytes; cap++) {
        struct slice room = exact(bytes, cap);
        struct pickle_writer w = {.out = {.ptr = (uint8_t *)(uintptr_t)room.ptr, .cap = cap}};

        pickle_start(&w, 4);
        pickle_put_string(&w, slice_str("text"));
        pickle_stop(&w);
        assert_int_equal(w.out.len, HEADER + 8);
        exact_free(room);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_take_the_shortest_opcode),
        cmocka_unit_test(all_numbers_come_back),
        cmocka_unit_test(strings_are_numbered_and_referred_to),
        cmocka_unit_test(frames_are_of_64_kib),
        cmocka_unit_test(what_is_short_has_no_frame),
        cmocka_unit_test(other_spellings_of_numbers_are_refused),
        cmocka_unit_test(other_spellings_of_strings_are_refused),
        cmocka_unit_test(references_are_to_what_is_asked_for),
        cmocka_unit_test(other_beginnings_are_refused),
        cmocka_unit_test(other_frames_are_refused),
        cmocka_unit_test(bytes_beyond_the_buffer_are_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
