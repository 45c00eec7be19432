/* How long a relay waits before it tries to reach its store again. Pure. */
#pragma once

#include <stdint.h>

#define RETRY_FIRST_MS 50u
#define RETRY_MOST_MS  1000u

/* `failures` in a row, since a store was there: after the first round of tries 50 ms, doubling to a
 * second; none: at once. A quarter more or less by `random`, so that a thousand relays do not all
 * come in the same millisecond. */
uint32_t retry_delay_ms(uint32_t failures, uint32_t random);
