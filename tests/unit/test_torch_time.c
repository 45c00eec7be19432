/* Datetimes as Python pickles them, against gmtime() and timegm(). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "proto/torch/torch_state_internal.h"
#include "tests/support/sanitized.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

static void write_with_libc(int64_t us, uint8_t b[TORCH_TIME_SIZE])
{
    int64_t part = us % 1000000 + (us % 1000000 < 0 ? 1000000 : 0);
    time_t seconds = (us - part) / 1000000;
    struct tm t;

    assert_non_null(gmtime_r(&seconds, &t));
    b[0] = (uint8_t)((t.tm_year + 1900) >> 8);
    b[1] = (uint8_t)(t.tm_year + 1900);
    b[2] = (uint8_t)(t.tm_mon + 1);
    b[3] = (uint8_t)t.tm_mday;
    b[4] = (uint8_t)t.tm_hour;
    b[5] = (uint8_t)t.tm_min;
    b[6] = (uint8_t)t.tm_sec;
    b[7] = (uint8_t)(part >> 16);
    b[8] = (uint8_t)(part >> 8);
    b[9] = (uint8_t)part;
}

static void check(int64_t us)
{
    uint8_t bytes[TORCH_TIME_SIZE], wanted[TORCH_TIME_SIZE];
    int64_t back = 0;

    write_with_libc(us, wanted);
    torch_time_write(us, bytes);
    if (memcmp(bytes, wanted, sizeof bytes) != 0)
        fail_msg("%lld us is written otherwise than libc has it", (long long)us);
    if (!torch_time_read(bytes, &back) || back != us)
        fail_msg("%lld us is read as %lld", (long long)us, (long long)back);
}

/* Every day from the year 1 to the year 9999, at its ends and somewhere within. */
static void every_day_is_written_and_read(void **state)
{
    const int64_t day = INT64_C(86400000000);

    (void)state;
    for (int64_t at = TORCH_TIME_MIN, i = 0; at < TORCH_TIME_MAX; at += day, i++) {
        check(at);
        check(at + i * 7919999983 % day);
        check(at + day - 1);
    }
}

static void times_beyond_become_the_nearest(void **state)
{
    static const struct {
        int64_t us, nearest;
    } cases[] = {
        {INT64_MIN, TORCH_TIME_MIN},          {TORCH_TIME_MIN - 1, TORCH_TIME_MIN},
        {TORCH_TIME_MIN, TORCH_TIME_MIN},     {TORCH_TIME_MAX, TORCH_TIME_MAX},
        {TORCH_TIME_MAX + 1, TORCH_TIME_MAX}, {INT64_MAX, TORCH_TIME_MAX},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        uint8_t bytes[TORCH_TIME_SIZE];
        int64_t back = 0;

        torch_time_write(cases[i].us, bytes);
        assert_true(torch_time_read(bytes, &back));
        assert_int_equal(back, cases[i].nearest);
    }
}

/* Every month of some years, every day from 0 to 255: what libc normalizes to another is none. */
static void days_that_are_not_are_refused(void **state)
{
    static const int years[] = {0, 1, 4, 100, 400, 1900, 1970, 2000, 2024, 2026, 2100, 9999, 10000};

    (void)state;
    for (size_t y = 0; y < COUNT(years); y++) {
        for (unsigned month = 0; month < 256; month++) {
            for (unsigned day = 0; day < 256; day++) {
                uint8_t bytes[TORCH_TIME_SIZE] = {(uint8_t)(years[y] >> 8), (uint8_t)years[y],
                                                  (uint8_t)month, (uint8_t)day};
                struct tm t = {.tm_year = years[y] - 1900, .tm_mon = (int)month - 1};
                int64_t us;
                bool good;

                t.tm_mday = (int)day;
                timegm(&t);
                good = years[y] > 0 && years[y] < 10000 && t.tm_mon == (int)month - 1 &&
                       t.tm_mday == (int)day;
                if (torch_time_read(bytes, &us) != good)
                    fail_msg("%d-%u-%u", years[y], month, day);
            }
        }
    }
}

static void parts_out_of_range_are_refused(void **state)
{
    static const unsigned limits[] = {24, 60, 60};
    int64_t us;

    (void)state;
    for (unsigned place = 0; place < 3; place++) {
        for (unsigned value = 0; value < 256; value++) {
            uint8_t bytes[TORCH_TIME_SIZE] = {7, 0xea, 11, 21};

            bytes[4 + place] = (uint8_t)value;
            assert_int_equal(torch_time_read(bytes, &us), value < limits[place]);
        }
    }
    for (uint32_t part = 0; part < 1 << 24; part += 1 + part % SANITIZED_OR(41, 7)) {
        uint8_t bytes[TORCH_TIME_SIZE] = {7, 0xea, 11, 21};

        bytes[7] = (uint8_t)(part >> 16);
        bytes[8] = (uint8_t)(part >> 8);
        bytes[9] = (uint8_t)part;
        assert_int_equal(torch_time_read(bytes, &us), part < 1000000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_day_is_written_and_read),
        cmocka_unit_test(times_beyond_become_the_nearest),
        cmocka_unit_test(days_that_are_not_are_refused),
        cmocka_unit_test(parts_out_of_range_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
