/* The ids that etcd derives from its settings. See etcd_ids.h for the contract.
 *
 * Upstream: etcd 3.4, etcdserver/api/membership/member.go and cluster.go. */
#include "rdzv/config/etcd_ids.h"

#include <inttypes.h>
#include <stdio.h>

#include "proto/bytes.h"
#include "store/memory/xalloc.h"

/* --- SHA-1 (FIPS 180-4): for these ids and for nothing else. --- */

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

/* The first eight bytes of the digest. */
static uint64_t sha1_u64(struct slice in)
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
    return (uint64_t)state[0] << 32 | state[1];
}

/* --- Ids. --- */

void etcd_ids(const struct config *config, uint64_t *member, uint64_t *cluster)
{
    const struct string_list *urls = &config->advertise_peer_urls;
    size_t cap = strlen(config->initial_cluster_token);
    uint8_t member_bytes[8];
    struct writer w;

    for (size_t i = 0; i < urls->count; i++)
        cap += strlen(urls->items[i]);
    w = (struct writer){.ptr = xcalloc(1, cap + 1), .cap = cap};
    for (size_t i = 0; i < urls->count; i++)
        writer_str(&w, urls->items[i]);
    writer_str(&w, config->initial_cluster_token);
    *member = sha1_u64((struct slice){w.ptr, w.len});
    for (size_t i = 0; i < 8; i++)
        member_bytes[i] = (uint8_t)(*member >> (56 - 8 * i));
    *cluster = sha1_u64((struct slice){member_bytes, sizeof member_bytes});
    free(w.ptr);
}

void etcd_format_id(uint64_t id, char text[17])
{
    snprintf(text, 17, "%" PRIx64, id);
}
