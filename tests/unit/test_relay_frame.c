/* Frames between a relay and its store: whole frames, truncated ones and invalid ones. No other
 * protocol begins with the same bytes. */
#include "proto/relay.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "proto/c10d.h"
#include "tests/unit/exact.h"

static const struct relay_frame sample = {.kind = RELAY_ANSWER,
                                          .flags = RELAY_MORE,
                                          .channel = 0x01020304,
                                          .number = UINT64_C(0x1112131415161718),
                                          .payload = {(const uint8_t *)"abc", 3}};

static size_t encode(const struct relay_frame *frame, uint8_t *out)
{
    relay_put_head(out, frame);
    memcpy(out + RELAY_HEAD_SIZE, frame->payload.ptr, frame->payload.len);
    return RELAY_HEAD_SIZE + frame->payload.len;
}

static void layout_is_the_documented_one(void **state)
{
    static const uint8_t expected[] = "\x03\0\0\0\x07\x01\0\0\x04\x03\x02\x01"
                                      "\x18\x17\x16\x15\x14\x13\x12\x11"
                                      "abc";
    uint8_t bytes[64];

    (void)state;
    assert_int_equal(encode(&sample, bytes), sizeof expected - 1);
    assert_memory_equal(bytes, expected, sizeof expected - 1);
}

static void frame_is_read_back_when_it_is_whole(void **state)
{
    uint8_t bytes[64];
    size_t len = encode(&sample, bytes), size;
    struct relay_frame out;

    (void)state;
    for (size_t n = 0; n < len; n++) {
        assert_int_equal(relay_parse((struct slice){bytes, n}, &out, &size), PARSE_MORE);
        assert_int_equal(size, n < RELAY_HEAD_SIZE ? RELAY_HEAD_SIZE : len);
    }
    assert_int_equal(relay_parse((struct slice){bytes, len + 1}, &out, &size), PARSE_DONE);
    assert_int_equal(size, len);
    assert_int_equal(out.kind, sample.kind);
    assert_int_equal(out.flags, sample.flags);
    assert_int_equal(out.channel, sample.channel);
    assert_int_equal(out.number, sample.number);
    assert_true(slice_is(out.payload, "abc"));
}

static void refused(size_t at, uint8_t byte)
{
    uint8_t bytes[64];
    struct relay_frame out;
    size_t len = encode(&sample, bytes), size;

    bytes[at] = byte;
    assert_int_equal(relay_parse((struct slice){bytes, len}, &out, &size), PARSE_BAD);
}

static void no_frame_is_refused_by_its_head(void **state)
{
    (void)state;
    refused(2, 2);           /* a payload of 128 KiB */
    refused(4, 0);           /* no kind */
    refused(4, RELAY_KINDS); /* unknown */
    refused(6, 1);
    refused(7, 1);
}

static void magic_is_told_from_each_start(void **state)
{
    size_t size;

    (void)state;
    for (size_t n = 1; n < RELAY_MAGIC_SIZE; n++) {
        assert_int_equal(relay_detect((struct slice){(const uint8_t *)RELAY_MAGIC, n}, &size),
                         PARSE_MORE);
        assert_int_equal(size, RELAY_MAGIC_SIZE);
    }
    assert_int_equal(
        relay_detect((struct slice){(const uint8_t *)RELAY_MAGIC "x", RELAY_MAGIC_SIZE + 1}, &size),
        PARSE_DONE);
    assert_int_equal(relay_detect(slice_str("\xf5rdzV"), &size), PARSE_BAD);
    assert_int_equal(relay_detect(slice_str("GET /"), &size), PARSE_BAD);
}

/* The first byte decides: no version of c10d takes it. */
static void c10d_does_not_begin_so(void **state)
{
    enum c10d_version version;
    size_t size;

    (void)state;
    assert_int_equal(
        c10d_detect((struct slice){(const uint8_t *)RELAY_MAGIC, 1}, true, &version, &size),
        PARSE_BAD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layout_is_the_documented_one),
        cmocka_unit_test(frame_is_read_back_when_it_is_whole),
        cmocka_unit_test(no_frame_is_refused_by_its_head),
        cmocka_unit_test(magic_is_told_from_each_start),
        cmocka_unit_test(c10d_does_not_begin_so),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
