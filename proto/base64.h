/* Base64 of RFC 4648, padded, in one line. Pure. */
#pragma once

#include "proto/bytes.h"

/* How long the text of `len` bytes is. */
static inline size_t base64_size(size_t len)
{
    return (len + 2) / 3 * 4;
}

/* Writes base64_size(in.len) characters to `out`. */
void base64_encode(struct slice in, uint8_t *out);

/* Writes at most in.len / 4 * 3 bytes to `out`, and how many to *len. False: `in` is no base64, and
 * `out` may hold anything. With `strict`, only the text that base64_encode() would write is valid;
 * without it, the unused bits of the last digit may have any value, as in most decoders. */
bool base64_decode(struct slice in, bool strict, uint8_t *out, size_t *len);
