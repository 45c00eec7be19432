/* Base64. See base64.h. */
#include "proto/base64.h"

static const uint8_t digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* Of every character: its value with VALID set, or 0 for what is no digit. */
#define VALID 0x40
static const uint8_t values[256] = {
    ['A'] = 0x40, ['B'] = 0x41, ['C'] = 0x42, ['D'] = 0x43, ['E'] = 0x44, ['F'] = 0x45,
    ['G'] = 0x46, ['H'] = 0x47, ['I'] = 0x48, ['J'] = 0x49, ['K'] = 0x4a, ['L'] = 0x4b,
    ['M'] = 0x4c, ['N'] = 0x4d, ['O'] = 0x4e, ['P'] = 0x4f, ['Q'] = 0x50, ['R'] = 0x51,
    ['S'] = 0x52, ['T'] = 0x53, ['U'] = 0x54, ['V'] = 0x55, ['W'] = 0x56, ['X'] = 0x57,
    ['Y'] = 0x58, ['Z'] = 0x59, ['a'] = 0x5a, ['b'] = 0x5b, ['c'] = 0x5c, ['d'] = 0x5d,
    ['e'] = 0x5e, ['f'] = 0x5f, ['g'] = 0x60, ['h'] = 0x61, ['i'] = 0x62, ['j'] = 0x63,
    ['k'] = 0x64, ['l'] = 0x65, ['m'] = 0x66, ['n'] = 0x67, ['o'] = 0x68, ['p'] = 0x69,
    ['q'] = 0x6a, ['r'] = 0x6b, ['s'] = 0x6c, ['t'] = 0x6d, ['u'] = 0x6e, ['v'] = 0x6f,
    ['w'] = 0x70, ['x'] = 0x71, ['y'] = 0x72, ['z'] = 0x73, ['0'] = 0x74, ['1'] = 0x75,
    ['2'] = 0x76, ['3'] = 0x77, ['4'] = 0x78, ['5'] = 0x79, ['6'] = 0x7a, ['7'] = 0x7b,
    ['8'] = 0x7c, ['9'] = 0x7d, ['+'] = 0x7e, ['/'] = 0x7f,
};

void base64_encode(struct slice in, uint8_t *out)
{
    size_t at = 0;

    for (; in.len - at >= 3; at += 3, out += 4) {
        uint32_t bits = (uint32_t)in.ptr[at] << 16 | (uint32_t)in.ptr[at + 1] << 8 | in.ptr[at + 2];

        out[0] = digits[bits >> 18];
        out[1] = digits[bits >> 12 & 63];
        out[2] = digits[bits >> 6 & 63];
        out[3] = digits[bits & 63];
    }
    if (at < in.len) {
        bool two = in.len - at == 2;
        uint32_t bits = (uint32_t)in.ptr[at] << 16 | (two ? (uint32_t)in.ptr[at + 1] << 8 : 0);

        out[0] = digits[bits >> 18];
        out[1] = digits[bits >> 12 & 63];
        out[2] = two ? digits[bits >> 6 & 63] : '=';
        out[3] = '=';
    }
}

/* Four digits to three bytes. */
static bool decode_quad(const uint8_t *in, uint8_t *out)
{
    uint8_t a = values[in[0]], b = values[in[1]], c = values[in[2]], d = values[in[3]];

    out[0] = (uint8_t)(a << 2 | (b >> 4 & 3));
    out[1] = (uint8_t)(b << 4 | (c >> 2 & 15));
    out[2] = (uint8_t)(c << 6 | (d & 63));
    return (a & b & c & d & VALID) != 0;
}

bool base64_decode(struct slice in, bool strict, uint8_t *out, size_t *len)
{
    uint8_t last[4], bytes[3];
    size_t padding = 0, whole;

    *len = 0;
    if (in.len % 4 != 0)
        return false;
    while (padding < 2 && padding < in.len && in.ptr[in.len - 1 - padding] == '=')
        padding++;
    whole = padding == 0 ? in.len : in.len - 4;
    for (size_t at = 0; at < whole; at += 4, *len += 3) {
        if (!decode_quad(in.ptr + at, out + *len))
            return false;
    }
    if (padding == 0)
        return true;

    memcpy(last, in.ptr + whole, sizeof last);
    memset(last + sizeof last - padding, 'A', padding); /* zeros in the place of what is missing */
    if (!decode_quad(last, bytes) || (strict && bytes[3 - padding] != 0))
        return false;
    memcpy(out + *len, bytes, 3 - padding);
    *len += 3 - padding;
    return true;
}
