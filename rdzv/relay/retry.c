/* The time between two tries. See retry.h for the contract. */
#include "rdzv/relay/retry.h"

uint32_t retry_delay_ms(uint32_t failures, uint32_t random)
{
    uint32_t delay = RETRY_MOST_MS;

    if (failures == 0)
        return 0;
    if (failures < 6 && RETRY_FIRST_MS << (failures - 1) < RETRY_MOST_MS)
        delay = RETRY_FIRST_MS << (failures - 1);
    return delay - delay / 4 + random % (delay / 2 + 1);
}
