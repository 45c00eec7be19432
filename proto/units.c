/* Durations and sizes as text, both ways. What a value is good for is left to the caller. */
#include "proto/units.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "proto/bytes.h"

struct unit {
    const char *name;
    uint64_t factor;
};

/* Largest first: formatting begins with the first that fits. */
static const struct unit duration_units[] = {
    {"d", 86400000}, {"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1},
};

static const struct unit size_units[] = {
    {"TiB", UINT64_C(1) << 40},
    {"GiB", UINT64_C(1) << 30},
    {"MiB", UINT64_C(1) << 20},
    {"KiB", UINT64_C(1) << 10},
    {"Ti", UINT64_C(1) << 40},
    {"Gi", UINT64_C(1) << 30},
    {"Mi", UINT64_C(1) << 20},
    {"Ki", UINT64_C(1) << 10},
    {"TB", UINT64_C(1000000000000)},
    {"GB", 1000000000},
    {"MB", 1000000},
    {"kB", 1000},
    {"B", 1},
};

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* One number in the text: digits, and the fraction behind the point in units of `scale`. */
struct number {
    uint64_t whole;
    uint64_t part;
    uint64_t scale;
};

/* Takes it off the text. */
static enum units_result take_decimal(const char **text, struct number *out)
{
    struct number n = {.scale = 1};
    const char *c = *text;

    if (!byte_is_digit((uint8_t)*c))
        return UNITS_NOT_A_NUMBER;
    for (; byte_is_digit((uint8_t)*c); c++) {
        uint64_t digit = (uint64_t)(*c - '0');

        if (n.whole > ((uint64_t)INT64_MAX - digit) / 10)
            return UNITS_TOO_BIG;
        n.whole = n.whole * 10 + digit;
    }
    if (*c == '.') {
        c++;
        if (!byte_is_digit((uint8_t)*c))
            return UNITS_NOT_A_NUMBER;
        for (; byte_is_digit((uint8_t)*c); c++) {
            if (n.scale == 1000000) {
                if (*c != '0')
                    return UNITS_TOO_FINE;
                continue;
            }
            n.part = n.part * 10 + (uint64_t)(*c - '0');
            n.scale *= 10;
        }
    }
    *text = c;
    *out = n;
    return UNITS_OK;
}

/* Adds number x factor to *sum. The part is below 10^6 and no factor above 2^40, so it fits. */
static enum units_result add_product(struct number n, uint64_t factor, uint64_t *sum)
{
    uint64_t part = n.part * factor;

    if (part % n.scale != 0)
        return UNITS_TOO_FINE;
    part /= n.scale;
    if (n.whole > ((uint64_t)INT64_MAX - part) / factor)
        return UNITS_TOO_BIG;
    part += n.whole * factor;
    if (*sum > (uint64_t)INT64_MAX - part)
        return UNITS_TOO_BIG;
    *sum += part;
    return UNITS_OK;
}

enum units_result units_parse_duration(const char *text, uint64_t *out_ms)
{
    const char *rest = text;
    uint64_t sum = 0;

    do {
        bool is_first = rest == text;
        uint64_t factor = 0;
        struct number n;
        enum units_result result = take_decimal(&rest, &n);
        size_t len = 0;

        if (result != UNITS_OK)
            return result;
        while (byte_is_letter((uint8_t)rest[len]))
            len++;
        for (size_t i = 0; i < COUNT(duration_units); i++) {
            if (strlen(duration_units[i].name) == len &&
                memcmp(duration_units[i].name, rest, len) == 0)
                factor = duration_units[i].factor;
        }
        if (rest[0] == '\0' && is_first)
            factor = 1000; /* a number alone: seconds */
        if (factor == 0)
            return UNITS_BAD_UNIT;
        result = add_product(n, factor, &sum);
        if (result != UNITS_OK)
            return result;
        rest += len;
    } while (*rest != '\0');
    *out_ms = sum;
    return UNITS_OK;
}

enum units_result units_parse_size(const char *text, uint64_t *out_bytes)
{
    uint64_t factor = 0, sum = 0;
    const char *unit = text;
    struct number n;
    enum units_result result = take_decimal(&unit, &n);

    if (result != UNITS_OK)
        return result;
    if (*unit == '\0')
        factor = 1;
    for (size_t i = 0; i < COUNT(size_units); i++) {
        if (strcasecmp(size_units[i].name, unit) == 0)
            factor = size_units[i].factor;
    }
    if (factor == 0)
        return unit[1] == '\0' && strchr("kKmMgGtT", *unit) != NULL ? UNITS_AMBIGUOUS
                                                                    : UNITS_BAD_UNIT;
    result = add_product(n, factor, &sum);
    if (result == UNITS_OK)
        *out_bytes = sum;
    return result;
}

const char *const units_duration_hints[] = {
    [UNITS_OK] = "",
    [UNITS_NOT_A_NUMBER] = "not a duration; write a number and a unit, such as 500ms, 30s or 2m",
    [UNITS_BAD_UNIT] = "no unit of time; use ms, s, m, h or d, as in 500ms, 30s or 1h30m",
    [UNITS_TOO_FINE] = "finer than a millisecond; round it to whole milliseconds",
    [UNITS_TOO_BIG] = "longer than can be counted; give a smaller number",
};

const char *const units_size_hints[] = {
    [UNITS_OK] = "",
    [UNITS_NOT_A_NUMBER] = "not a size; write a number and a unit, such as 64KiB, 8MiB or 4GiB",
    [UNITS_BAD_UNIT] = "no unit of size; use B, KiB, MiB, GiB or TiB, as in 64KiB, 8MiB or 4GiB",
    [UNITS_AMBIGUOUS] = "could mean 1000s or 1024s; add iB (as in 8MiB) or B (as in 8MB)",
    [UNITS_TOO_FINE] = "not a whole number of bytes; round it",
    [UNITS_TOO_BIG] = "more than can be counted; give a smaller number",
};

const char *units_format_duration(uint64_t ms, char *text)
{
    size_t len = 0;

    if (ms == 0)
        return strcpy(text, "0s");
    for (size_t i = 0; i < COUNT(duration_units); i++) {
        uint64_t count = ms / duration_units[i].factor;

        ms %= duration_units[i].factor;
        if (count > 0)
            len += (size_t)snprintf(text + len, UNITS_TEXT_MAX - len, "%" PRIu64 "%s", count,
                                    duration_units[i].name);
    }
    return text;
}

/* How many of size_units formatting uses, from the first: 8MiB, and never 8389kB. */
#define POWERS_OF_1024 4

const char *units_format_size(uint64_t bytes, char *text)
{
    const struct unit *unit = &size_units[COUNT(size_units) - 1];

    for (size_t i = POWERS_OF_1024; i-- > 0;) {
        if (bytes != 0 && bytes % size_units[i].factor == 0)
            unit = &size_units[i];
    }
    snprintf(text, UNITS_TEXT_MAX, "%" PRIu64 "%s", bytes / unit->factor, unit->name);
    return text;
}
