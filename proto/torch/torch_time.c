/* Datetimes as Python pickles them: year, month, day, hour, minute, second and microsecond, the
 * first byte of each first. See torch_state_internal.h.
 *
 * Upstream: CPython 3.14, Modules/_datetimemodule.c, datetime_getstate(). */
#include "proto/torch/torch_state_internal.h"

#define SECOND INT64_C(1000000)
#define DAY    (86400 * SECOND)

#define DAYS_OF_400_YEARS 146097

/* Days from 1970 to the first day of the month. Years start in March here, so that the leap day is
 * the last of one. */
static int64_t days_before(int64_t year, int64_t month)
{
    int64_t y = month > 2 ? year : year - 1, m = month > 2 ? month - 3 : month + 9;

    return 365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 - 719468;
}

bool torch_time_read(const uint8_t b[TORCH_TIME_SIZE], int64_t *us)
{
    int64_t year = b[0] << 8 | b[1], month = b[2], day = b[3];
    int64_t hour = b[4], minute = b[5], second = b[6], part = b[7] << 16 | b[8] << 8 | b[9];
    int64_t days;

    if (year < 1 || year > 9999 || month < 1 || month > 12 || day < 1 || hour > 23 || minute > 59 ||
        second > 59 || part >= SECOND)
        return false;
    days = days_before(year, month);
    if (day > 28 &&
        day > (month < 12 ? days_before(year, month + 1) : days_before(year + 1, 1)) - days)
        return false;
    *us = (days + day - 1) * DAY + ((hour * 60 + minute) * 60 + second) * SECOND + part;
    return true;
}

void torch_time_write(int64_t us, uint8_t b[TORCH_TIME_SIZE])
{
    int64_t days, part, day, year, of_400, month;

    if (us < TORCH_TIME_MIN)
        us = TORCH_TIME_MIN;
    if (us > TORCH_TIME_MAX)
        us = TORCH_TIME_MAX;
    days = us / DAY - (us % DAY < 0);
    part = us - days * DAY;

    day = days - days_before(0, 3); /* the days of 400 years, of a year, of a month */
    year = day / DAYS_OF_400_YEARS * 400;
    day %= DAYS_OF_400_YEARS;
    of_400 = (day - day / 1460 + day / 36524 - day / 146096) / 365;
    year += of_400;
    day -= 365 * of_400 + of_400 / 4 - of_400 / 100;
    month = (5 * day + 2) / 153;
    day -= (153 * month + 2) / 5;
    year += month >= 10;
    month += month < 10 ? 3 : -9;
    b[0] = (uint8_t)(year >> 8);
    b[1] = (uint8_t)year;
    b[2] = (uint8_t)month;
    b[3] = (uint8_t)(day + 1);
    b[4] = (uint8_t)(part / (3600 * SECOND));
    b[5] = (uint8_t)(part / (60 * SECOND) % 60);
    b[6] = (uint8_t)(part / SECOND % 60);
    part %= SECOND;
    b[7] = (uint8_t)(part >> 16);
    b[8] = (uint8_t)(part >> 8);
    b[9] = (uint8_t)part;
}
