/* c10d connections, cut in every way: what is read from a stream must not depend on how it arrives.
 * An input is a byte of settings, a byte that seeds the cuts, and the stream. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "proto/c10d.h"
#include "tests/fuzz/fuzz.h"

/* Small ones, so that short inputs reach them. */
static const struct c10d_limits all_limits[] = {
    {.value_max = 64, .request_max = 96},
    {.value_max = 1 << 20, .request_max = 1 << 20},
    {.value_max = SIZE_MAX, .request_max = SIZE_MAX},
    {.value_max = 0, .request_max = 32},
};

/* One stream: how it is cut, and the result of parsing it. */
struct reading {
    struct slice stream;
    const struct c10d_limits *limits;
    bool legacy_on;
    uint32_t seed;   /* of the cuts; 0 gives everything at once */
    uint64_t digest; /* of all requests */
    size_t count;    /* of requests */
    size_t end;      /* how much of the stream the requests took */
    bool bad;
};

static uint32_t next_random(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 16;
}

static void add_bytes(uint64_t *digest, const void *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        *digest = (*digest ^ ((const uint8_t *)bytes)[i]) * 1099511628211u;
}

static void add_number(uint64_t *digest, uint64_t n)
{
    add_bytes(digest, &n, sizeof n);
}

static void check_inside(struct slice s, struct slice in, size_t size)
{
    if (s.len == 0)
        return;
    CHECK(s.ptr >= in.ptr && s.ptr + s.len <= in.ptr + size);
}

static void add_slice(uint64_t *digest, struct slice s)
{
    add_number(digest, s.len);
    add_bytes(digest, s.ptr, s.len);
}

static void note_request(struct reading *r, const struct c10d_request *req, struct slice in,
                         size_t size)
{
    const struct slice slices[] = {req->key, req->value, req->expected, req->items};
    struct slice items = req->items, blob;
    uint64_t blobs = 0;

    CHECK(size > 0 && size <= in.len && size <= r->limits->request_max);
    for (size_t i = 0; i < sizeof slices / sizeof *slices; i++) {
        check_inside(slices[i], in, size);
        add_slice(&r->digest, slices[i]);
    }
    CHECK(req->key.len <= C10D_KEY_MAX && req->value.len <= r->limits->value_max);
    CHECK(req->expected.len <= r->limits->value_max && req->count <= C10D_KEYS_MAX);
    while (c10d_next_blob(&items, &blob)) {
        check_inside(blob, in, size);
        blobs++;
    }
    CHECK(items.len == 0);
    CHECK(blobs == req->count * (req->op == C10D_MULTI_SET ? 2 : 1));

    add_number(&r->digest, (uint64_t)req->op);
    add_number(&r->digest, (uint64_t)req->number);
    add_number(&r->digest, req->nonce);
    add_number(&r->digest, req->count);
    r->count++;
    r->end += size;
}

/* How many bytes are there when the parser, which has seen `have` and asked for `need`, looks
 * again: never fewer than it asked for, but for the end of the stream. */
static size_t more(struct reading *r, size_t have, size_t need)
{
    size_t all = r->stream.len - r->end;
    size_t step = r->seed == 0 ? all : 1 + next_random(&r->seed) % 9;

    CHECK(need > have);
    have = need > all || step > all - need ? all : need - 1 + step;
    return have;
}

/* A copy of the exact size, somewhere else each time. */
static struct slice arrive(const struct reading *r, size_t have)
{
    uint8_t *bytes = malloc(have == 0 ? 1 : have);

    CHECK(bytes != NULL);
    if (have > 0)
        memcpy(bytes, r->stream.ptr + r->end, have);
    return (struct slice){bytes, have};
}

/* One request; false at the end of what can be read. */
static bool read_request(struct reading *r, enum c10d_version version)
{
    struct c10d_progress progress = {0};
    size_t all = r->stream.len - r->end, have = more(r, 0, 1), need = 1;

    for (;;) {
        struct c10d_request req;
        struct slice in = arrive(r, have);
        size_t size = 0;
        struct c10d_refusal refusal = {0};
        enum parse_result result =
            c10d_parse(in, version, r->limits, &progress, &req, &size, &refusal);

        if (result == PARSE_DONE) {
            CHECK(size >= need); /* it never asks for more than it takes */
            CHECK(progress.at == 0 && progress.left == 0);
            note_request(r, &req, in, size);
        } else if (result == PARSE_MORE) {
            CHECK(size > have && size <= r->limits->request_max);
        } else {
            CHECK(refusal.reason != NULL);
            r->bad = true;
        }
        free((void *)in.ptr);
        if (result != PARSE_MORE)
            return result == PARSE_DONE;
        if (have == all)
            return false;
        need = size;
        have = more(r, have, need);
    }
}

static void read_stream(struct reading *r)
{
    enum parse_result result = PARSE_MORE;
    enum c10d_version version = C10D_MODERN;
    size_t have = 0, size = 1;

    while (result == PARSE_MORE && have < r->stream.len) {
        struct slice in;

        have = more(r, have, size);
        in = arrive(r, have);
        result = c10d_detect(in, r->legacy_on, &version, &size);
        free((void *)in.ptr);
    }
    r->bad = result == PARSE_BAD;
    if (result != PARSE_DONE)
        return;
    CHECK(size <= have && (size == 0 || version == C10D_MODERN));
    add_number(&r->digest, (uint64_t)version);
    r->end = size;
    while (r->end < r->stream.len && read_request(r, version))
        continue;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct reading whole = {0}, parts;

    if (size < 2)
        return 0;
    whole.stream = (struct slice){data + 2, size - 2};
    whole.limits = &all_limits[data[0] & 3];
    whole.legacy_on = (data[0] & 0x10) == 0;
    parts = whole;
    parts.seed = data[1] + 1u;

    read_stream(&whole);
    read_stream(&parts);
    CHECK(whole.count == parts.count);
    CHECK(whole.end == parts.end);
    CHECK(whole.digest == parts.digest);
    CHECK(whole.bad == parts.bad);
    return 0;
}
