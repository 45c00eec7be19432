/* Random keys, values, numbers and paths of sim_store. */
#include "tests/sim/store_sim.h"

uint64_t next_random(struct sim *sim)
{
    uint64_t z = sim->random += 0x9e3779b97f4a7c15u; /* splitmix64 */

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

uint64_t below(struct sim *sim, uint64_t n)
{
    return next_random(sim) % n;
}

bool one_in(struct sim *sim, uint64_t n)
{
    return below(sim, n) == 0;
}

struct slice any_key(struct sim *sim)
{
    static const struct slice keys[] = {
        BYTES("init/"),
        BYTES("/a"),
        BYTES("/b"),
        BYTES("/c"),
        BYTES("/default_pg/0//cuda//0"),
        BYTES(""),
        BYTES("/"),
        BYTES("/q"),
        BYTES("/nul\0nul"),
        BYTES("/\xff\xfe"),
        BYTES("/d"),
        BYTES("/e"),
        BYTES("/f"),
        BYTES("/g"),
        BYTES("/h"),
        BYTES("/i"),
        BYTES("/j"),
    };
    return keys[below(sim, COUNT(keys))];
}

/* Two of them are valid at a time. */
struct slice any_value(struct sim *sim)
{
    static const struct slice values[] = {
        BYTES(""),
        BYTES("1"),
        BYTES("-5"),
        BYTES(" 12abc"),
        BYTES("12\0"
              "3"),
        BYTES("text"),
        BYTES("9223372036854775807"),
        BYTES("99999999999999999999"),
        BYTES("+"),
        BYTES("00000000000000000000000000000000000000007"),
    };
    static uint8_t bytes[2][700];
    static int turn;
    size_t len;

    if (!one_in(sim, 4))
        return values[below(sim, COUNT(values))];
    turn ^= 1;
    len = below(sim, sizeof bytes[0]);
    if (one_in(sim, 2)) {
        memset(bytes[turn], (int)below(sim, 256), len);
    } else { /* like others of its kind, but for a few bytes */
        for (size_t i = 0; i < len; i++)
            bytes[turn][i] = (uint8_t)(i * 7);
        for (size_t i = below(sim, len + 1), end = i + below(sim, 20); i < end && i < len; i++)
            bytes[turn][i] = (uint8_t)below(sim, 256);
    }
    return (struct slice){bytes[turn], len};
}

bool is_large(const struct bytes *value)
{
    return value != NULL && value->len >= 256 && value->len <= 1000;
}

/* Mostly what is there already, but for a few bytes. */
struct slice next_value(struct sim *sim, const struct bytes *now)
{
    static uint8_t bytes[1024];
    size_t len, start;

    if (!is_large(now) || one_in(sim, 4))
        return any_value(sim);
    start = below(sim, now->len);
    len = start + below(sim, 24);
    memcpy(bytes, now->ptr, start);
    for (size_t i = start; i < len; i++)
        bytes[i] = (uint8_t)below(sim, 256);
    start += one_in(sim, 2) ? below(sim, now->len - start + 1) : 0;
    memcpy(bytes + len, now->ptr + start, now->len - start);
    return (struct slice){bytes, len + now->len - start};
}

int64_t any_number(struct sim *sim)
{
    static const int64_t numbers[] = {0, 1, -1, 2, 5, 1000, INT64_MAX, INT64_MIN};

    return numbers[below(sim, COUNT(numbers))];
}

const char *any_path(struct sim *sim, char *buf, size_t cap)
{
    static const char *const names[] = {"a", "b", "ab", "_h", "c"};
    size_t depth = below(sim, 5), len = 0;

    buf[0] = '\0';
    for (size_t i = 0; i < depth; i++)
        len += (size_t)snprintf(buf + len, cap - len, "/%s", names[below(sim, COUNT(names))]);
    /* Now and then the name that an in-order key is going to have. */
    if (one_in(sim, 40))
        snprintf(buf + len, cap - len, "/%020" PRIu64,
                 sim->spaces[0]->tree.index + 1 + below(sim, 3));
    return buf[0] == '\0' ? "/" : buf;
}
