/* Durations and sizes: what people write, what it means, and where a slip is pointed out. */
#include "proto/units.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

struct reading {
    const char *text;
    enum units_result result;
    uint64_t value; /* or where the trouble is */
};

static const struct reading durations[] = {
    {"0", UNITS_OK, 0},
    {"0s", UNITS_OK, 0},
    {"500ms", UNITS_OK, 500},
    {"30s", UNITS_OK, 30000},
    {"30", UNITS_OK, 30000},
    {"0030s", UNITS_OK, 30000},
    {"2m", UNITS_OK, 120000},
    {"1h30m", UNITS_OK, 5400000},
    {"1m30s500ms", UNITS_OK, 90500},
    {"1d", UNITS_OK, 86400000},
    {"1.5s", UNITS_OK, 1500},
    {"1.5", UNITS_OK, 1500},
    {"0.25h", UNITS_OK, 900000},
    {"1.500000000s", UNITS_OK, 1500},
    {"0.001s", UNITS_OK, 1},
    {"9223372036854775807ms", UNITS_OK, INT64_MAX},
    {"", UNITS_NOT_A_NUMBER, 0},
    {"s", UNITS_NOT_A_NUMBER, 0},
    {"-1s", UNITS_NOT_A_NUMBER, 0},
    {"+1s", UNITS_NOT_A_NUMBER, 0},
    {" 1s", UNITS_NOT_A_NUMBER, 0},
    {".5s", UNITS_NOT_A_NUMBER, 0},
    {"1.s", UNITS_NOT_A_NUMBER, 0},
    {"1s.", UNITS_NOT_A_NUMBER, 0},
    {"1s ", UNITS_NOT_A_NUMBER, 0},
    {"30x", UNITS_BAD_UNIT, 0},
    {"30S", UNITS_BAD_UNIT, 0},
    {"30sec", UNITS_BAD_UNIT, 0},
    {"30 s", UNITS_BAD_UNIT, 0},
    {"1m30", UNITS_BAD_UNIT, 0},
    {"100us", UNITS_BAD_UNIT, 0},
    {"1.5ms", UNITS_TOO_FINE, 0},
    {"1s0.5ms", UNITS_TOO_FINE, 0},
    {"0.0001s", UNITS_TOO_FINE, 0},
    {"0.00000000000001d", UNITS_TOO_FINE, 0},
    {"9223372036854775808ms", UNITS_TOO_BIG, 0},
    {"9223372036854775807s", UNITS_TOO_BIG, 0},
    {"1s9223372036854775807ms", UNITS_TOO_BIG, 0},
    {"99999999999999999999999999s", UNITS_TOO_BIG, 0},
};

static const struct reading sizes[] = {
    {"0", UNITS_OK, 0},
    {"4096", UNITS_OK, 4096},
    {"1B", UNITS_OK, 1},
    {"64KiB", UNITS_OK, 65536},
    {"64kib", UNITS_OK, 65536},
    {"64Ki", UNITS_OK, 65536},
    {"8MiB", UNITS_OK, 8388608},
    {"4GiB", UNITS_OK, UINT64_C(4294967296)},
    {"1TiB", UNITS_OK, UINT64_C(1099511627776)},
    {"1kB", UNITS_OK, 1000},
    {"1KB", UNITS_OK, 1000},
    {"8MB", UNITS_OK, 8000000},
    {"2GB", UNITS_OK, 2000000000},
    {"1TB", UNITS_OK, UINT64_C(1000000000000)},
    {"1.5MiB", UNITS_OK, 1572864},
    {"0.5KiB", UNITS_OK, 512},
    {"0.000001MB", UNITS_OK, 1},
    {"9223372036854775807", UNITS_OK, INT64_MAX},
    {"", UNITS_NOT_A_NUMBER, 0},
    {"MiB", UNITS_NOT_A_NUMBER, 0},
    {"-1MiB", UNITS_NOT_A_NUMBER, 0},
    {"1.MiB", UNITS_NOT_A_NUMBER, 0},
    {"8M", UNITS_AMBIGUOUS, 0},
    {"8k", UNITS_AMBIGUOUS, 0},
    {"8G", UNITS_AMBIGUOUS, 0},
    {"8T", UNITS_AMBIGUOUS, 0},
    {"8 MiB", UNITS_BAD_UNIT, 0},
    {"8MiBs", UNITS_BAD_UNIT, 0},
    {"8PiB", UNITS_BAD_UNIT, 0},
    {"8x", UNITS_BAD_UNIT, 0},
    {"0x10", UNITS_BAD_UNIT, 0},
    {"0.5B", UNITS_TOO_FINE, 0},
    {"0.3KiB", UNITS_TOO_FINE, 0},
    {"0.0000000001TB", UNITS_TOO_FINE, 0},
    {"9223372036854775808", UNITS_TOO_BIG, 0},
    {"8388608TiB", UNITS_TOO_BIG, 0},
};

typedef enum units_result (*parse_fn)(const char *, uint64_t *);

static void read_all(const struct reading *readings, size_t count, parse_fn parse)
{
    for (size_t i = 0; i < count; i++) {
        const struct reading *r = &readings[i];
        uint64_t value = 4711;
        enum units_result result = parse(r->text, &value);

        if (result != r->result || value != (result == UNITS_OK ? r->value : 4711))
            fail_msg("\"%s\": result %d, value %llu", r->text, (int)result,
                     (unsigned long long)value);
    }
}

static void durations_are_read(void **state)
{
    (void)state;
    read_all(durations, sizeof durations / sizeof durations[0], units_parse_duration);
}

static void sizes_are_read(void **state)
{
    (void)state;
    read_all(sizes, sizeof sizes / sizeof sizes[0], units_parse_size);
}

static void every_failure_has_its_own_hint(void **state)
{
    (void)state;
    for (int i = UNITS_NOT_A_NUMBER; i <= UNITS_TOO_BIG; i++) {
        for (int j = UNITS_NOT_A_NUMBER; j < i; j++) {
            assert_string_not_equal(units_size_hints[(enum units_result)i],
                                    units_size_hints[(enum units_result)j]);
            if (i != UNITS_AMBIGUOUS && j != UNITS_AMBIGUOUS)
                assert_string_not_equal(units_duration_hints[(enum units_result)i],
                                        units_duration_hints[(enum units_result)j]);
        }
    }
    assert_string_equal(units_size_hints[UNITS_OK], "");
    assert_string_equal(units_duration_hints[UNITS_OK], "");
}

static void short_spellings_are_chosen(void **state)
{
    char text[UNITS_TEXT_MAX];

    (void)state;
    assert_string_equal(units_format_duration(0, text), "0s");
    assert_string_equal(units_format_duration(90000, text), "1m30s");
    assert_string_equal(units_format_duration(500, text), "500ms");
    assert_string_equal(units_format_duration(86400000, text), "1d");
    assert_string_equal(units_format_size(0, text), "0B");
    assert_string_equal(units_format_size(8388608, text), "8MiB");
    assert_string_equal(units_format_size(8388609, text), "8388609B");
    assert_string_equal(units_format_size(UINT64_C(4) << 30, text), "4GiB");
    assert_string_equal(units_format_size(1536, text), "1536B");
}

static void a_written_number_reads_back(void **state)
{
    uint64_t value = 1;

    (void)state;
    for (unsigned i = 0; i < 2000; i++) {
        uint64_t tried = i < 64 ? (UINT64_C(1) << i) - 1 : value >> (i % 60) >> 1;
        char text[UNITS_TEXT_MAX];
        uint64_t back = 0;

        value = value * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        if (units_parse_duration(units_format_duration(tried, text), &back) != UNITS_OK ||
            back != tried)
            fail_msg("duration %llu: %s", (unsigned long long)tried, text);
        if (units_parse_size(units_format_size(tried, text), &back) != UNITS_OK || back != tried)
            fail_msg("size %llu: %s", (unsigned long long)tried, text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(durations_are_read),
        cmocka_unit_test(sizes_are_read),
        cmocka_unit_test(every_failure_has_its_own_hint),
        cmocka_unit_test(short_spellings_are_chosen),
        cmocka_unit_test(a_written_number_reads_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
