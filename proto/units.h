/* Durations and sizes as people write them, `1m30s` and `8MiB`, to milliseconds and bytes and
 * back. Pure; which values make sense for which flag is the caller's business.
 *
 * Duration: one or more numbers with a unit of ms, s, m, h or d (`30s`, `1m30s`, `1.5h`). A number
 * alone counts seconds. Finer than a millisecond is refused, not rounded.
 * Size: one number with B, KiB, MiB, GiB, TiB (or Ki, Mi, Gi, Ti; powers of 1024) or kB, MB, GB, TB
 * (powers of 1000), whatever the case. A number alone counts bytes. `8M` is refused: half of the
 * world reads it as 1000s and half as 1024s. */
#pragma once

#include <stdint.h>

enum units_result {
    UNITS_OK,
    UNITS_NOT_A_NUMBER, /* does not start with a digit, or lacks digits */
    UNITS_BAD_UNIT,     /* a number, then a word that is no unit of ours */
    UNITS_AMBIGUOUS,    /* a size in K, M, G or T: neither ...iB nor ...B */
    UNITS_TOO_FINE,     /* a fraction of a millisecond or of a byte */
    UNITS_TOO_BIG,      /* does not fit into 63 bits */
};

#define UNITS_TEXT_MAX 48 /* room for anything the two format functions write, NUL included */

/* *out is untouched unless UNITS_OK comes back. */
enum units_result units_parse_duration(const char *text, uint64_t *out_ms);
enum units_result units_parse_size(const char *text, uint64_t *out_bytes);

/* A hint for a result that is not UNITS_OK: "write 8MiB or 8MB". */
extern const char *const units_duration_hints[];
extern const char *const units_size_hints[];

/* The shortest spelling that reads back as the same value: 90000 as `1m30s`, 8388608 as `8MiB`.
 * `text` has at least UNITS_TEXT_MAX bytes; it is returned. */
const char *units_format_duration(uint64_t ms, char *text);
const char *units_format_size(uint64_t bytes, char *text);
