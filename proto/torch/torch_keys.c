/* The keys of torch's agents. See torch_keys.h for the contract. */
#include "proto/torch/torch_keys.h"

#include <inttypes.h>
#include <stdio.h>

/* Reads the ".<digits>" before the '/' at `slash`; *dot is where it begins. */
static bool read_round(struct slice key, size_t slash, size_t *dot, int64_t *round)
{
    size_t at = slash;
    uint64_t number;

    while (at > 0 && key.ptr[at - 1] >= '0' && key.ptr[at - 1] <= '9')
        at--;
    if (at == 0 || key.ptr[at - 1] != '.' ||
        !slice_to_u64((struct slice){key.ptr + at, slash - at}, INT64_MAX, &number))
        return false;
    *dot = at - 1;
    *round = (int64_t)number;
    return true;
}

size_t torch_key_fronts(struct slice key, size_t *lengths, size_t most)
{
    const size_t prefix = sizeof TORCH_RUN_PREFIX - 1;
    size_t slash = key.len, count = 0, dot;
    int64_t round;

    if (!torch_key_is_agents(key))
        return 0;
    while (slash-- > prefix && count < most) {
        if (key.ptr[slash] == '/' && read_round(key, slash, &dot, &round) && dot >= prefix)
            lengths[count++] = dot;
    }
    return count;
}

void torch_key_split(struct slice key, size_t front, int64_t *round, struct slice *name)
{
    const uint8_t *slash = memchr(key.ptr + front, '/', key.len - front);
    size_t dot;

    read_round(key, (size_t)(slash - key.ptr), &dot, round);
    *name = slice_from(key, (size_t)(slash - key.ptr) + 1);
}

size_t torch_key_write(struct slice run_key, int64_t round, const char *name, uint8_t *out)
{
    memcpy(out, run_key.ptr, run_key.len);
    return run_key.len + (size_t)snprintf((char *)out + run_key.len, TORCH_KEY_ROOM,
                                          ".%" PRId64 "/%s", round, name);
}
