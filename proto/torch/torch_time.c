/* Datetimes as Python pickles them: year, month, day, hour, minute, second and microsecond, the
 * first byte of each first. See torch_state_internal.h.
 *
 * Upstream: CPython 3.14, Modules/_datetimemodule.c, datetime_getstate(). */
#include "proto/torch/torch_state_internal.h"

#include <time.h>

#define SECOND INT64_C(1000000)

bool torch_time_read(const uint8_t b[TORCH_TIME_SIZE], int64_t *us)
{
    int year = b[0] << 8 | b[1], month = b[2] - 1, part = b[7] << 16 | b[8] << 8 | b[9];
    struct tm tm = {.tm_year = year - 1900,
                    .tm_mon = month,
                    .tm_mday = b[3],
                    .tm_hour = b[4],
                    .tm_min = b[5],
                    .tm_sec = b[6]};
    int64_t seconds = timegm(&tm); /* a number out of its range becomes another one in `tm` */

    if (year < 1 || year > 9999 || tm.tm_mon != month || tm.tm_mday != b[3] || tm.tm_hour != b[4] ||
        tm.tm_min != b[5] || tm.tm_sec != b[6] || part >= SECOND)
        return false;
    *us = seconds * SECOND + part;
    return true;
}

void torch_time_write(int64_t us, uint8_t b[TORCH_TIME_SIZE])
{
    struct tm tm;
    time_t seconds;
    int64_t part;

    if (us < TORCH_TIME_MIN)
        us = TORCH_TIME_MIN;
    if (us > TORCH_TIME_MAX)
        us = TORCH_TIME_MAX;
    seconds = us / SECOND - (us % SECOND < 0);
    part = us - seconds * SECOND;
    gmtime_r(&seconds, &tm);
    b[0] = (uint8_t)((tm.tm_year + 1900) >> 8);
    b[1] = (uint8_t)(tm.tm_year + 1900);
    b[2] = (uint8_t)(tm.tm_mon + 1);
    b[3] = (uint8_t)tm.tm_mday;
    b[4] = (uint8_t)tm.tm_hour;
    b[5] = (uint8_t)tm.tm_min;
    b[6] = (uint8_t)tm.tm_sec;
    b[7] = (uint8_t)(part >> 16);
    b[8] = (uint8_t)(part >> 8);
    b[9] = (uint8_t)part;
}
