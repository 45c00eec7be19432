/* Base64. See base64.h. */
#include "proto/base64.h"

static const uint8_t digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* For each value of 12 bits: its two digits, the first in the low byte. */
static uint16_t pairs[1 << 12];

/* For each place in a quad and each character: its bits of the quad's 24, or INVALID. */
#define INVALID (UINT32_C(1) << 31)
static uint32_t values[4][256];

__attribute__((constructor)) static void fill_tables(void)
{
    for (size_t i = 0; i < 1 << 12; i++)
        pairs[i] = (uint16_t)(digits[i >> 6] | digits[i & 63] << 8);
    for (size_t place = 0; place < 4; place++) {
        for (size_t i = 0; i < 256; i++)
            values[place][i] = INVALID;
        for (uint32_t i = 0; i < 64; i++)
            values[place][digits[i]] = i << (18 - 6 * place);
    }
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

/* Decodes four digits to 24 bits, with INVALID if a character is no digit. */
static inline uint32_t decode_quad(const uint8_t *in)
{
    return values[0][in[0]] | values[1][in[1]] | values[2][in[2]] | values[3][in[3]];
}

bool base64_decode(struct slice in, bool strict, uint8_t *out, size_t *len)
{
    size_t padding = 0, whole;
    uint8_t last[4];
    uint32_t bits, all = 0;

    *len = 0;
    if (in.len % 4 != 0)
        return false;
    while (padding < 2 && padding < in.len && in.ptr[in.len - 1 - padding] == '=')
        padding++;
    whole = padding == 0 ? in.len : in.len - 4;
    for (size_t at = 0; at < whole; at += 4, out += 3) {
        bits = decode_quad(in.ptr + at);
        all |= bits;
        out[0] = (uint8_t)(bits >> 16);
        out[1] = (uint8_t)(bits >> 8);
        out[2] = (uint8_t)bits;
    }
    if (padding > 0) {
        memcpy(last, in.ptr + whole, sizeof last);
        memset(last + sizeof last - padding, 'A', padding); /* zeros for what is missing */
        bits = decode_quad(last);
        all |= bits;
        if (strict && (bits & (padding == 1 ? 0xff : 0xffff)) != 0)
            return false;
        for (size_t i = 0; i < 3 - padding; i++)
            out[i] = (uint8_t)(bits >> (16 - 8 * i));
    }
    *len = in.len / 4 * 3 - padding;
    return (all & INVALID) == 0;
}
