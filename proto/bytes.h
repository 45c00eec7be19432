/* Bytes without owners: a slice of memory, a reader that walks one, a writer that fills one. No I/O
 * and no allocation. Integers on the wire are little-endian, as torch's clients on every supported
 * machine send them (c10d's "native order"). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Borrowed bytes. The function that makes one says how long they live. len 0: ptr may be NULL. */
struct slice {
    const uint8_t *ptr;
    size_t len;
};

/* What a parser of a byte stream says. */
enum parse_result {
    PARSE_DONE, /* a whole message of *size bytes; slices in the result point into the input */
    PARSE_MORE, /* a good start; come back when there are at least *size bytes */
    PARSE_BAD,  /* wrong whatever follows; the connection is lost */
};

/* A slice of a string literal or another terminated string, without the NUL. */
static inline struct slice slice_str(const char *text)
{
    return (struct slice){(const uint8_t *)text, strlen(text)};
}

static inline bool slice_equal(struct slice a, struct slice b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

static inline bool slice_is(struct slice a, const char *text)
{
    return slice_equal(a, slice_str(text));
}

static inline bool slice_starts_with(struct slice a, struct slice prefix)
{
    return a.len >= prefix.len && (prefix.len == 0 || memcmp(a.ptr, prefix.ptr, prefix.len) == 0);
}

static inline bool slice_ends_with(struct slice a, const char *end)
{
    size_t len = strlen(end);

    return a.len >= len && memcmp(a.ptr + a.len - len, end, len) == 0;
}

/* What is left of a slice after its first n bytes; n must not exceed its length. */
static inline struct slice slice_from(struct slice a, size_t n)
{
    return n == 0 ? a : (struct slice){a.ptr + n, a.len - n};
}

/* Copies the bytes to `to`, which may overlap them. Returns the copy. */
static inline struct slice slice_copy(void *to, struct slice from)
{
    if (from.len != 0)
        memmove(to, from.ptr, from.len);
    return (struct slice){to, from.len};
}

/* Byte order, then length: negative, 0 or positive as memcmp. */
static inline int slice_compare(struct slice a, struct slice b)
{
    size_t shorter = a.len < b.len ? a.len : b.len;
    int order = shorter == 0 ? 0 : memcmp(a.ptr, b.ptr, shorter);

    if (order != 0)
        return order;
    return (a.len > b.len) - (a.len < b.len);
}

static inline bool byte_is_digit(uint8_t c)
{
    return c >= '0' && c <= '9';
}

static inline bool byte_is_letter(uint8_t c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Reads only decimal digits (no sign, no blanks), up to `max`. False for all other texts. */
static inline bool slice_to_u64(struct slice s, uint64_t max, uint64_t *out)
{
    uint64_t v = 0;

    for (size_t i = 0; i < s.len; i++) {
        unsigned digit = (unsigned)s.ptr[i] - '0';

        if (digit > 9 || v > (max - digit) / 10)
            return false;
        v = v * 10 + digit;
    }
    if (s.len == 0)
        return false;
    *out = v;
    return true;
}

/* Walks `in` from `at`. If a read does not fit, `at` stays, and `need` is the sufficient length. */
struct reader {
    struct slice in;
    size_t at;
    size_t need;
};

static inline bool reader_take(struct reader *r, size_t n, struct slice *out)
{
    if (n > r->in.len - r->at) {
        r->need = n > SIZE_MAX - r->at ? SIZE_MAX : r->at + n;
        return false;
    }
    *out = (struct slice){r->in.ptr + r->at, n};
    r->at += n;
    return true;
}

static inline uint32_t bytes_get_u32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline uint64_t bytes_get_u64(const uint8_t *p)
{
    return (uint64_t)bytes_get_u32(p) | (uint64_t)bytes_get_u32(p + 4) << 32;
}

static inline void bytes_put_u32(uint8_t *p, uint32_t v)
{
    p[0] = (uint8_t)v;
    p[1] = (uint8_t)(v >> 8);
    p[2] = (uint8_t)(v >> 16);
    p[3] = (uint8_t)(v >> 24);
}

static inline void bytes_put_u64(uint8_t *p, uint64_t v)
{
    bytes_put_u32(p, (uint32_t)v);
    bytes_put_u32(p + 4, (uint32_t)(v >> 32));
}

static inline bool reader_u8(struct reader *r, uint8_t *out)
{
    struct slice s;

    if (!reader_take(r, 1, &s))
        return false;
    *out = s.ptr[0];
    return true;
}

static inline bool reader_u32(struct reader *r, uint32_t *out)
{
    struct slice s;

    if (!reader_take(r, 4, &s))
        return false;
    *out = bytes_get_u32(s.ptr);
    return true;
}

static inline bool reader_u64(struct reader *r, uint64_t *out)
{
    struct slice s;

    if (!reader_take(r, 8, &s))
        return false;
    *out = bytes_get_u64(s.ptr);
    return true;
}

/* Fills ptr[0..cap). Bytes beyond cap are counted in len and not written, so that a second call
 * with len bytes of room succeeds; `len > cap` means that it overflowed. */
struct writer {
    uint8_t *ptr;
    size_t cap;
    size_t len;
    /* Makes room for `len` bytes in all, if possible; NULL: cap is fixed. */
    void (*grow)(struct writer *w, size_t len);
};

/* Writes bytes that do not fit: grows the buffer, or only counts the bytes. */
__attribute__((cold)) static inline void writer_overflow(struct writer *w, const void *bytes,
                                                         size_t n)
{
    if (w->grow != NULL)
        w->grow(w, w->len + n);
    if (w->len <= w->cap && n <= w->cap - w->len)
        memcpy(w->ptr + w->len, bytes, n);
    w->len += n;
}

static inline void writer_put(struct writer *w, const void *bytes, size_t n)
{
    if (w->len > w->cap || n > w->cap - w->len) {
        writer_overflow(w, bytes, n);
        return;
    }
    if (n != 0)
        memcpy(w->ptr + w->len, bytes, n);
    w->len += n;
}

static inline void writer_slice(struct writer *w, struct slice s)
{
    writer_put(w, s.ptr, s.len);
}

static inline void writer_str(struct writer *w, const char *text)
{
    writer_put(w, text, strlen(text));
}

static inline void writer_u8(struct writer *w, uint8_t v)
{
    writer_put(w, &v, 1);
}
