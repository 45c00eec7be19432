/* Headers and frames: the bytes that frame.h describes, and what damage of each bit makes of them.
 */
#include "store/disk/frame.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "store/disk/crc32c.h"
#include "tests/unit/exact.h"

static const struct file_header header = {.kind = FILE_JOURNAL,
                                          .version = FILE_VERSION,
                                          .number = 0x1122334455667788,
                                          .id = 0x99aabbccddeeff00,
                                          .durable = 5};

static enum file_header_result decode_header(const uint8_t *bytes, size_t len,
                                             struct file_header *out)
{
    struct slice copy = exact(bytes, len);
    enum file_header_result result = file_header_decode(copy, out);

    exact_free(copy);
    return result;
}

/* A change of these bytes needs another version. */
static void a_header_has_the_bytes_that_are_written_down(void **state)
{
    static const uint8_t expected[44] = "rdzvjrnl\3\0\0\0\0\0\0\0\x88\x77\x66\x55\x44\x33\x22\x11"
                                        "\x00\xff\xee\xdd\xcc\xbb\xaa\x99\5\0\0\0\0\0\0\0\0\0\0";
    uint8_t bytes[FILE_HEADER_SIZE];
    struct file_header out;
    uint32_t crc;

    (void)state;
    file_header_encode(&header, bytes);
    assert_memory_equal(bytes, expected, sizeof expected);
    memcpy(&crc, bytes + 44, 4);
    assert_int_equal(crc, crc32c(0, expected, 44));
    assert_int_equal(decode_header(bytes, sizeof bytes, &out), FILE_HEADER_OK);
    assert_int_equal(out.kind, FILE_JOURNAL);
    assert_true(out.number == header.number && out.id == header.id && out.durable == 5);
}

static void a_damaged_or_short_header_is_none(void **state)
{
    uint8_t bytes[FILE_HEADER_SIZE];
    struct file_header out;

    (void)state;
    file_header_encode(&header, bytes);
    for (size_t len = 0; len < sizeof bytes; len++)
        assert_int_equal(decode_header(bytes, len, &out), FILE_HEADER_BAD);
    for (size_t bit = 0; bit < 8 * sizeof bytes; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_equal(decode_header(bytes, sizeof bytes, &out), FILE_HEADER_BAD);
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}

static void a_header_of_another_version_says_so(void **state)
{
    struct file_header newer = header, out;
    uint8_t bytes[FILE_HEADER_SIZE];

    (void)state;
    newer.version = FILE_VERSION + 1;
    newer.kind = FILE_SNAPSHOT;
    file_header_encode(&newer, bytes);
    assert_int_equal(decode_header(bytes, sizeof bytes, &out), FILE_HEADER_VERSION);
    assert_int_equal(out.version, FILE_VERSION + 1);
    assert_int_equal(out.kind, FILE_SNAPSHOT);
}

/* --- Frames. --- */

#define PAYLOAD "some bytes"
#define SIZE    (FRAME_HEADER_SIZE + sizeof PAYLOAD - 1)

static void make_frame(uint32_t key, uint8_t out[SIZE])
{
    const struct frame f = {FRAME_BATCH, 7, 3, slice_str(PAYLOAD)};

    frame_encode(key, &f, out);
    memcpy(out + FRAME_HEADER_SIZE, PAYLOAD, sizeof PAYLOAD - 1);
}

static enum frame_result decode(uint32_t key, const uint8_t *bytes, size_t len, struct frame *out,
                                size_t *size)
{
    struct slice copy = exact(bytes, len);
    enum frame_result result = frame_decode(key, copy, out, size);

    exact_free(copy);
    return result;
}

static void a_frame_has_the_bytes_that_are_written_down(void **state)
{
    static const uint8_t expected[24] = "\12\0\0\0\1\0\0\0\7\0\0\0\0\0\0\0\3\0\0\0\0\0\0";
    uint32_t key = frame_key(FILE_JOURNAL, header.number, header.id), crc;
    uint8_t bytes[SIZE], keyed[24];

    (void)state;
    make_frame(key, bytes);
    assert_memory_equal(bytes, expected, sizeof expected);
    memcpy(&crc, bytes + 24, 4);
    assert_int_equal(crc, crc32c(0, PAYLOAD, 10));
    memcpy(&crc, bytes + 28, 4);
    assert_int_equal(crc, crc32c(key, bytes, 28));
    memcpy(keyed, "rdzvjrnl\x88\x77\x66\x55\x44\x33\x22\x11\x00\xff\xee\xdd\xcc\xbb\xaa\x99", 24);
    assert_int_equal(key, crc32c(0, keyed, 24));
}

static void every_prefix_of_a_frame_asks_for_the_rest(void **state)
{
    uint8_t bytes[SIZE];
    struct frame f;
    size_t size;

    (void)state;
    make_frame(1, bytes);
    for (size_t len = 0; len < SIZE; len++) {
        assert_int_equal(decode(1, bytes, len, &f, &size), FRAME_MORE);
        assert_int_equal(size, len < FRAME_HEADER_SIZE ? FRAME_HEADER_SIZE : SIZE);
    }
    assert_int_equal(frame_decode(1, (struct slice){bytes, SIZE}, &f, &size), FRAME_WHOLE);
    assert_int_equal(size, SIZE);
    assert_true(f.kind == FRAME_BATCH && f.number == 7 && f.durable == 3);
    assert_true(slice_is(f.payload, PAYLOAD));
}

static void a_changed_bit_is_seen(void **state)
{
    uint8_t bytes[SIZE];
    struct frame f;
    size_t size;

    (void)state;
    make_frame(1, bytes);
    for (size_t bit = 0; bit < 8 * SIZE; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_equal(decode(1, bytes, SIZE, &f, &size),
                         bit / 8 < FRAME_HEADER_SIZE ? FRAME_BAD_HEADER : FRAME_BAD_PAYLOAD);
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}

/* Of another segment, of the same segment of another directory, of a snapshot: no frame of this
 * file. */
static void a_frame_is_none_in_another_file(void **state)
{
    uint32_t key = frame_key(FILE_JOURNAL, 5, 6);
    uint8_t bytes[SIZE];
    struct frame f;
    size_t size;

    (void)state;
    make_frame(key, bytes);
    assert_int_equal(decode(key, bytes, SIZE, &f, &size), FRAME_WHOLE);
    assert_int_equal(decode(frame_key(FILE_JOURNAL, 6, 6), bytes, SIZE, &f, &size),
                     FRAME_BAD_HEADER);
    assert_int_equal(decode(frame_key(FILE_JOURNAL, 5, 7), bytes, SIZE, &f, &size),
                     FRAME_BAD_HEADER);
    assert_int_equal(decode(frame_key(FILE_SNAPSHOT, 5, 6), bytes, SIZE, &f, &size),
                     FRAME_BAD_HEADER);
    memset(bytes, 0, SIZE);
    assert_int_equal(decode(key, bytes, SIZE, &f, &size), FRAME_BAD_HEADER);
}

static void a_search_finds_the_next_header_wherever_it_is(void **state)
{
    uint8_t bytes[SIZE + 40];
    struct frame f;

    (void)state;
    for (size_t before = 0; before <= 40; before++) {
        struct slice in;
        size_t at = 0;

        memset(bytes, 1, sizeof bytes);
        make_frame(9, bytes + before);
        in = exact(bytes, before + FRAME_HEADER_SIZE);
        assert_true(frame_find(9, in, &at, &f));
        assert_int_equal(at, before);
        assert_true(f.number == 7 && f.durable == 3 && f.payload.ptr == NULL);
        at++;
        assert_false(frame_find(9, in, &at, &f));
        assert_int_equal(at, before + 1);
        exact_free(in);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_header_has_the_bytes_that_are_written_down),
        cmocka_unit_test(a_damaged_or_short_header_is_none),
        cmocka_unit_test(a_header_of_another_version_says_so),
        cmocka_unit_test(a_frame_has_the_bytes_that_are_written_down),
        cmocka_unit_test(every_prefix_of_a_frame_asks_for_the_rest),
        cmocka_unit_test(a_changed_bit_is_seen),
        cmocka_unit_test(a_frame_is_none_in_another_file),
        cmocka_unit_test(a_search_finds_the_next_header_wherever_it_is),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
