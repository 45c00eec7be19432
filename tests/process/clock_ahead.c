/* For replicas_etcd.py: a wall clock that is $CLOCK_AHEAD_S seconds ahead of the machine's, or
 * behind it. With LD_PRELOAD; other clocks are what they are. */
#include <stdlib.h>
#include <time.h>

#include "tests/support/preload.h"

int clock_gettime(clockid_t clock, struct timespec *out)
{
    static int (*next)(clockid_t, struct timespec *);
    const char *ahead = getenv("CLOCK_AHEAD_S");
    int result;

    preload_next(&next, "clock_gettime");
    result = next(clock, out);
    if (result == 0 && clock == CLOCK_REALTIME && ahead != NULL)
        out->tv_sec += atol(ahead);
    return result;
}
