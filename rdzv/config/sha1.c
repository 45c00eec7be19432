/* SHA-1 (FIPS 180-4). See sha1.h. */
#include "rdzv/config/sha1.h"

#define BLOCK 64

static uint32_t rotate(uint32_t v, unsigned n)
{
    return v << n | v >> (32 - n);
}

static uint32_t get_big_endian(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void add_block(uint32_t state[5], const uint8_t *block)
{
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3], e = state[4], w[80];

    for (size_t i = 0; i < 16; i++)
        w[i] = get_big_endian(block + 4 * i);
    for (size_t i = 16; i < 80; i++)
        w[i] = rotate(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    for (size_t i = 0; i < 80; i++) {
        uint32_t f, k, sum;

        if (i < 20)
            f = (b & c) | (~b & d), k = 0x5a827999;
        else if (i < 40)
            f = b ^ c ^ d, k = 0x6ed9eba1;
        else if (i < 60)
            f = (b & c) | (b & d) | (c & d), k = 0x8f1bbcdc;
        else
            f = b ^ c ^ d, k = 0xca62c1d6;
        sum = rotate(a, 5) + f + e + k + w[i];
        e = d;
        d = c;
        c = rotate(b, 30);
        b = a;
        a = sum;
    }
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
    state[4] += e;
}

void sha1(struct slice in, uint8_t out[SHA1_SIZE])
{
    uint32_t state[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
    size_t tail = in.len % BLOCK, tail_blocks = tail < BLOCK - 8 ? 1 : 2;
    uint8_t last[2 * BLOCK] = {0};

    for (size_t at = 0; at + BLOCK <= in.len; at += BLOCK)
        add_block(state, in.ptr + at);
    if (tail != 0)
        memcpy(last, in.ptr + in.len - tail, tail);
    last[tail] = 0x80;
    for (size_t i = 0; i < 8; i++)
        last[tail_blocks * BLOCK - 1 - i] = (uint8_t)((uint64_t)in.len * 8 >> 8 * i);
    for (size_t i = 0; i < tail_blocks; i++)
        add_block(state, last + i * BLOCK);
    for (size_t i = 0; i < SHA1_SIZE; i++)
        out[i] = (uint8_t)(state[i / 4] >> (24 - i % 4 * 8));
}
