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

/* Of every 12 bits: their two digits, the first one in the low byte. */
static uint16_t pairs[1 << 12];

__attribute__((constructor)) static void make_pairs(void)
{
    for (size_t i = 0; i < 1 << 12; i++)
        pairs[i] = (uint16_t)(digits[i >> 6] | digits[i & 63] << 8);
}

/* 24 bits to four digits. */
static inline void encode_bits(uint32_t bits, uint8_t out[4])
{
    bytes_put_u32(out, pairs[bits >> 12] | (uint32_t)pairs[bits & 0xfff] << 16);
}

void base64_encode(struct slice in, uint8_t *out)
{
    const uint8_t *p = in.ptr;
    size_t left = in.len;

    for (; left >= 3; p += 3, left -= 3, out += 4)
        encode_bits((uint32_t)p[0] << 16 | (uint32_t)p[1] << 8 | p[2], out);
    if (left > 0) {
        encode_bits((uint32_t)p[0] << 16 | (left == 2 ? (uint32_t)p[1] << 8 : 0), out);
        memset(out + 1 + left, '=', 3 - left);
    }
}

/* Four digits to 24 bits. *valid loses its bit when one of them is none. */
static inline uint32_t decode_quad(const uint8_t *in, unsigned *valid)
{
    unsigned a = values[in[0]], b = values[in[1]], c = values[in[2]], d = values[in[3]];

    *valid &= a & b & c & d;
    return (a << 18) + (b << 12) + (c << 6) + d - VALID * ((1 << 18) + (1 << 12) + (1 << 6) + 1);
}

bool base64_decode(struct slice in, bool strict, uint8_t *out, size_t *len)
{
    size_t padding = 0, whole;
    uint8_t last[4];
    uint32_t bits;
    unsigned valid = VALID;

    *len = 0;
    if (in.len % 4 != 0)
        return false;
    while (padding < 2 && padding < in.len && in.ptr[in.len - 1 - padding] == '=')
        padding++;
    whole = padding == 0 ? in.len : in.len - 4;
    for (size_t at = 0; at < whole; at += 4, out += 3) {
        bits = decode_quad(in.ptr + at, &valid);
        out[0] = (uint8_t)(bits >> 16);
        out[1] = (uint8_t)(bits >> 8);
        out[2] = (uint8_t)bits;
    }
    if (padding > 0) {
        memcpy(last, in.ptr + whole, sizeof last);
        memset(last + sizeof last - padding, 'A', padding); /* zeros for what is missing */
        bits = decode_quad(last, &valid);
        if (strict && (bits & (padding == 1 ? 0xff : 0xffff)) != 0)
            return false;
        for (size_t i = 0; i < 3 - padding; i++)
            out[i] = (uint8_t)(bits >> (16 - 8 * i));
    }
    *len = in.len / 4 * 3 - padding;
    return valid == VALID;
}
