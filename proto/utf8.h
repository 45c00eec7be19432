/* One character of UTF-8. */
#pragma once

#include "proto/bytes.h"

/* The length and the code point of the character at the start of `in`, which must not be empty. 0
 * if the bytes are no character: cut short, overlong, a surrogate, or above U+10FFFF. */
static inline size_t utf8_decode(struct slice in, uint32_t *point)
{
    static const uint32_t lowest[] = {0, 0, 0x80, 0x800, 0x10000};
    uint8_t first = in.ptr[0];
    size_t len = first < 0x80 ? 1 : first < 0xc0 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    uint32_t value = len == 1 ? first : first & (0xffu >> (len + 1));

    if (len == 0 || first >= 0xf8 || in.len < len)
        return 0;
    for (size_t i = 1; i < len; i++) {
        if ((in.ptr[i] & 0xc0) != 0x80)
            return 0;
        value = value << 6 | (in.ptr[i] & 0x3fu);
    }
    if (value < lowest[len] || value > 0x10ffff || (value >= 0xd800 && value < 0xe000))
        return 0;
    *point = value;
    return len;
}

static inline bool utf8_is_text(struct slice s)
{
    uint32_t point;

    for (size_t len; s.len > 0; s = slice_from(s, len)) {
        if (s.len >= 8 && (bytes_get_u64(s.ptr) & UINT64_C(0x8080808080808080)) == 0)
            len = 8; /* nearly all texts are of ASCII */
        else
            len = utf8_decode(s, &point);
        if (len == 0)
            return false;
    }
    return true;
}
