/* Opcodes of pickles: numbers, strings, references and frames are read as they are written, in the
 * one spelling that CPython has for each. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "proto/pickle_read.h"
#include "proto/pickle_write.h"
#include "tests/unit/exact.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define HEADER   11 /* of a pickle: its protocol, and the first frame's header */

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
        struct pickle_writer w = {.out = {bytes, sizeof bytes, 0}};
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
            struct pickle_writer w = {.out = {bytes, sizeof bytes, 0}};
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
        struct pickle_writer w = {.out = {bytes, sizeof bytes, 0}};
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
    struct pickle_writer w = {.out = {bytes, sizeof bytes, 0}};
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
    struct pickle_writer w = {.out = {bytes, sizeof bytes, 0}};
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

static void what_does_not_fit_is_counted(void **state)
{
    uint8_t bytes[20];

    (void)state;
    for (size_t cap = 0; cap <= sizeof bytes; cap++) {
        struct slice room = exact(bytes, cap);
        struct pickle_writer w = {.out = {(uint8_t *)(uintptr_t)room.ptr, cap, 0}};

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
        cmocka_unit_test(what_does_not_fit_is_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
