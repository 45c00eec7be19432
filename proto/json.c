/* JSON text as Go's encoding/json writes it. See json.h for the contract. */
#include "proto/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "proto/utf8.h"

/* What is written in the place of a character. */
struct escape {
    char text[7];
    uint8_t len; /* 0: the character stands for itself; NOT_ASCII: see below */
};

#define NOT_ASCII 0xff /* part of a longer character, or invalid */

#define LETTER(l)   .text = "\\" l, .len = 2
#define NUMBER(hex) .text = "\\u" hex, .len = 6

/* By first byte. */
static const struct escape escapes[256] = {
    [0x00] = {NUMBER("0000")}, [0x01] = {NUMBER("0001")},
    [0x02] = {NUMBER("0002")}, [0x03] = {NUMBER("0003")},
    [0x04] = {NUMBER("0004")}, [0x05] = {NUMBER("0005")},
    [0x06] = {NUMBER("0006")}, [0x07] = {NUMBER("0007")},
    [0x08] = {NUMBER("0008")}, ['\t'] = {LETTER("t")},
    ['\n'] = {LETTER("n")},    [0x0b] = {NUMBER("000b")},
    [0x0c] = {NUMBER("000c")}, ['\r'] = {LETTER("r")},
    [0x0e] = {NUMBER("000e")}, [0x0f] = {NUMBER("000f")},
    [0x10] = {NUMBER("0010")}, [0x11] = {NUMBER("0011")},
    [0x12] = {NUMBER("0012")}, [0x13] = {NUMBER("0013")},
    [0x14] = {NUMBER("0014")}, [0x15] = {NUMBER("0015")},
    [0x16] = {NUMBER("0016")}, [0x17] = {NUMBER("0017")},
    [0x18] = {NUMBER("0018")}, [0x19] = {NUMBER("0019")},
    [0x1a] = {NUMBER("001a")}, [0x1b] = {NUMBER("001b")},
    [0x1c] = {NUMBER("001c")}, [0x1d] = {NUMBER("001d")},
    [0x1e] = {NUMBER("001e")}, [0x1f] = {NUMBER("001f")},
    ['"'] = {LETTER("\"")},    ['&'] = {NUMBER("0026")},
    ['<'] = {NUMBER("003c")},  ['>'] = {NUMBER("003e")},
    ['\\'] = {LETTER("\\")},   [0x80 ... 0xff] = {.len = NOT_ASCII},
};

static const struct escape no_character = {NUMBER("fffd")}, line_separator = {NUMBER("2028")},
                           paragraph_separator = {NUMBER("2029")};

/* The replacement of a character above 0x7f; NULL: none. *len is the character's length. */
static const struct escape *find_escape(struct slice text, size_t *len)
{
    uint32_t point = 0;

    *len = utf8_decode(text, &point);
    if (*len == 0) {
        *len = 1;
        return &no_character;
    }
    return point == 0x2028 ? &line_separator : point == 0x2029 ? &paragraph_separator : NULL;
}

/* --- Eight bytes at a time. --- */

#define WORD       8
#define EACH(byte) (UINT64_C(0x0101010101010101) * (byte))
#define TOP_BITS   EACH(0x80)

/* Sets the top bit of the first byte below `limit`, which is at most 0x80. */
static inline uint64_t find_below(uint64_t word, uint8_t limit)
{
    return (word - EACH(limit)) & ~word;
}

/* True when each of the eight bytes is ASCII that JSON writes unchanged. `<` and `>` differ in one
 * bit, as `"` and `&` do, so one comparison finds both characters of a pair. */
static inline bool has_plain_bytes(uint64_t word)
{
    uint64_t found =
        word | find_below(word, 0x20) | find_below((word | EACH(0x02)) ^ EACH('>'), 1) |
        find_below((word | EACH(0x04)) ^ EACH('&'), 1) | find_below(word ^ EACH('\\'), 1);

    return (found & TOP_BITS) == 0;
}

_Static_assert(('<' | 0x02) == '>' && ('"' | 0x04) == '&', "they differ in that bit alone");

/* --- Writing. --- */

/* Room for the longest escape of a character, and for a whole word written in its place. */
#define ROOM WORD

/* One character. *at and *out move behind it. */
static inline void write_character(struct slice text, size_t *at, uint8_t **out)
{
    const struct escape *e = &escapes[text.ptr[*at]];
    size_t len = 1;

    if (e->len == 0) {
        *(*out)++ = text.ptr[(*at)++];
        return;
    }
    if (e->len == NOT_ASCII)
        e = find_escape((struct slice){text.ptr + *at, text.len - *at}, &len);
    if (e == NULL) {
        for (size_t i = 0; i < len; i++)
            (*out)[i] = text.ptr[*at + i];
        *out += len;
    } else {
        memcpy(*out, e, ROOM); /* the next write covers the excess bytes */
        *out += e->len;
    }
    *at += len;
}

_Static_assert(sizeof(struct escape) == ROOM, "an escape is copied whole");

size_t json_text_part(struct writer *w, struct slice text, size_t at)
{
    uint8_t *out, *end;

    if (w->len > w->cap || w->cap == 0)
        return at;
    out = w->ptr + w->len;
    end = w->ptr + w->cap;
    while (at < text.len && end - out >= ROOM) {
        size_t left = text.len - at, behind;

        for (; left >= WORD && end - out >= WORD; left -= WORD, at += WORD, out += WORD) {
            uint64_t word = bytes_get_u64(text.ptr + at);

            if (!has_plain_bytes(word))
                break;
            bytes_put_u64(out, word);
        }
        behind = left < WORD ? text.len : at + WORD;
        while (at < behind && end - out >= ROOM)
            write_character(text, &at, &out);
    }
    w->len = (size_t)(out - w->ptr);
    return at;
}

void json_text(struct writer *w, struct slice text)
{
    size_t at = json_text_part(w, text, 0);

    while (at < text.len) { /* there is no room left: it is made, or the rest is only counted */
        uint8_t bytes[512];
        struct writer part = {.ptr = bytes, .cap = sizeof bytes};

        at = json_text_part(&part, text, at);
        writer_put(w, bytes, part.len);
        at = json_text_part(w, text, at);
    }
}

void json_string(struct writer *w, struct slice text)
{
    writer_u8(w, '"');
    json_text(w, text);
    writer_u8(w, '"');
}

void json_u64(struct writer *w, uint64_t v)
{
    char digits[20];
    size_t at = sizeof digits;

    do {
        digits[--at] = (char)('0' + v % 10);
        v /= 10;
    } while (v != 0);
    writer_put(w, digits + at, sizeof digits - at);
}

void json_i64(struct writer *w, int64_t v)
{
    if (v < 0)
        writer_u8(w, '-');
    json_u64(w, v < 0 ? 0 - (uint64_t)v : (uint64_t)v);
}

/* `fraction` is in nanoseconds, between -1 s and 1 s. */
static void write_time(struct writer *w, int64_t seconds, int64_t fraction)
{
    char text[64];
    struct tm tm;
    time_t t;
    int len;

    if (fraction < 0) {
        fraction += 1000000000;
        seconds--;
    }
    t = (time_t)seconds;
    gmtime_r(&t, &tm);
    len = snprintf(text, sizeof text, "\"%04d-%02d-%02dT%02d:%02d:%02d", tm.tm_year + 1900,
                   tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec);
    if (fraction != 0) {
        len += snprintf(text + len, sizeof text - (size_t)len, ".%09" PRId64, fraction);
        while (text[len - 1] == '0')
            len--;
    }
    writer_put(w, text, (size_t)len);
    writer_str(w, "Z\"");
}

void json_time(struct writer *w, int64_t ns)
{
    write_time(w, ns / 1000000000, ns % 1000000000);
}

void json_time_us(struct writer *w, int64_t us)
{
    write_time(w, us / 1000000, us % 1000000 * 1000);
}
