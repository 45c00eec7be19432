/* The ten bytes in which Python pickles a datetime, and microseconds since 1970. Pure. */
#pragma once

#include "proto/bytes.h"

#define TORCH_TIME_SIZE 10

#define TORCH_TIME_MIN (-62135596800 * 1000000)     /* the start of the year 1 */
#define TORCH_TIME_MAX (253402300800 * 1000000 - 1) /* the end of the year 9999 */

/* False: no time that there is, or one that is marked as the second of two (`fold`). */
bool torch_time_read(const uint8_t bytes[TORCH_TIME_SIZE], int64_t *us);

/* Of a time out of range it writes the nearest that is within. */
void torch_time_write(int64_t us, uint8_t bytes[TORCH_TIME_SIZE]);
