/* Answers of a store as a relay reads them, cut in every way: what is read does not depend on how
 * it arrives, what is written for a client is read as the same answer, and a watch that breaks
 * anywhere gives its client the same bytes. An input is a byte of settings, a byte that seeds the
 * cuts, and the stream. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "rdzv/relay/http_text.h"
#include "tests/fuzz/fuzz.h"

#define HEAD_MAX 2048u

enum { TO_HEAD = 1, OLD_CLIENT = 2, CLOSES = 4 };

static uint8_t *copy_of(struct slice s)
{
    uint8_t *bytes = malloc(s.len == 0 ? 1 : s.len);

    CHECK(bytes != NULL);
    if (s.len > 0)
        memcpy(bytes, s.ptr, s.len);
    return bytes;
}

static void check_inside(struct slice s, struct slice in)
{
    CHECK(s.len == 0 || (s.ptr >= in.ptr && s.ptr + s.len <= in.ptr + in.len));
}

/* Byte by byte, or all at once; *end is where the head ended, or the first fault was seen. */
static enum parse_result read_head(struct slice stream, bool to_head, size_t step,
                                   struct http_answer *out, size_t *end)
{
    enum parse_result result = PARSE_MORE;
    size_t searched = 0;

    for (size_t n = step; result == PARSE_MORE; n += step) {
        struct slice in = {stream.ptr, n < stream.len ? n : stream.len};
        uint8_t *bytes = copy_of(in);
        struct slice copy = {bytes, in.len};

        result = http_parse_answer(copy, HEAD_MAX, to_head, &searched, out, end);
        if (result == PARSE_DONE) {
            CHECK(*end <= in.len && *end <= HEAD_MAX);
            check_inside(out->headers, copy);
            check_inside(out->reason, copy);
            /* They are looked at below, when the copy is gone. */
            out->headers.ptr = stream.ptr + (out->headers.ptr - bytes);
            if (out->reason.len > 0)
                out->reason.ptr = stream.ptr + (out->reason.ptr - bytes);
        }
        free(bytes);
        if (in.len == stream.len)
            break;
    }
    return result;
}

/* What the client gets says the same, but for what is between the relay and each of its sides. */
static void check_written(const struct http_answer *a, unsigned settings)
{
    bool to_head = settings & TO_HEAD;
    unsigned minor = settings & OLD_CLIENT ? 0 : 1;
    bool unending = a->body == HTTP_BODY_CHUNKED && minor == 0;
    uint8_t bytes[3 * HEAD_MAX];
    struct writer w = {.ptr = bytes, .cap = sizeof bytes};
    struct http_answer again;
    size_t searched = 0, size = 0;
    enum parse_result result;

    relay_write_answer(&w, minor, !(settings & CLOSES), a);
    CHECK(w.len <= 2 * HEAD_MAX);
    result = http_parse_answer((struct slice){bytes, w.len}, sizeof bytes, to_head, &searched,
                               &again, &size);
    if (unending) { /* the end of the connection is the end of its body */
        CHECK(result == PARSE_BAD);
        return;
    }
    CHECK(result == PARSE_DONE && size == w.len);
    CHECK(again.status == a->status && again.body == a->body && again.minor == minor);
    CHECK(again.has_length == a->has_length && again.content_length == a->content_length);
    CHECK(slice_equal(again.reason, a->reason));
}

static uint32_t next_random(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 16;
}

/* The body of a watch, from its events on; a break begins the event anew that was cut. Returns what
 * the client has got, in `out`, which has room for it. */
static size_t follow(struct slice body, uint32_t seed, bool breaks, uint8_t *out, bool *good)
{
    struct watch_trace t = {.from = 1};
    size_t len = 0, at = 0, event = 0;
    int left = 8;

    *good = true;
    while (*good && at < body.len) {
        size_t n = breaks ? next_random(&seed) % 64 + 1 : body.len - at;
        struct slice in = {body.ptr + at, n < body.len - at ? n : body.len - at};

        while (*good && in.len > 0) {
            struct slice piece;
            bool whole;

            *good = watch_trace_take(&t, &in, &piece, &whole);
            if (!*good)
                break;
            if (piece.len > 0)
                memcpy(out + len, piece.ptr, piece.len);
            len += piece.len;
            if (whole)
                event = (size_t)(in.ptr - body.ptr);
        }
        at = (size_t)(in.ptr - body.ptr);
        if (*good && breaks && left > 0 && next_random(&seed) % 4 == 0) {
            watch_trace_restart(&t);
            at = event;
            left--;
        }
    }
    return len;
}

static void check_watch(struct slice body, uint32_t seed)
{
    uint8_t *whole = copy_of(body), *cut = copy_of(body);
    bool good, good_cut;
    size_t len = follow(body, seed, false, whole, &good);
    size_t len_cut = follow(body, seed, true, cut, &good_cut);

    CHECK(good == good_cut);
    if (good) {
        CHECK(len == body.len && len == len_cut);
        CHECK(len == 0 || memcmp(whole, cut, len) == 0);
        CHECK(len == 0 || memcmp(whole, body.ptr, len) == 0);
    }
    free(whole);
    free(cut);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct http_answer at_once, cut;
    struct slice stream;
    size_t end = 0, end_cut = 0;
    enum parse_result result;
    unsigned settings;

    if (size < 3)
        return 0;
    settings = data[0];
    stream = (struct slice){data + 2, size - 2};
    result = read_head(stream, settings & TO_HEAD, stream.len, &at_once, &end);
    CHECK(read_head(stream, settings & TO_HEAD, 1 + data[1] % 7, &cut, &end_cut) == result);
    if (result == PARSE_DONE) {
        CHECK(end == end_cut && at_once.status == cut.status && at_once.body == cut.body);
        CHECK(slice_equal(at_once.headers, cut.headers));
        check_written(&at_once, settings);
        stream = slice_from(stream, end);
    }
    check_watch(stream, data[1]);
    return 0;
}
