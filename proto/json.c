/* JSON text as Go's encoding/json writes it. See json.h for the contract. */
#include "proto/json.h"

#include <inttypes.h>
#include <time.h>

#include "proto/utf8.h"

/* Writes the escape of a character: \n, \u001f. Returns its length. */
static size_t write_escape(uint32_t point, uint8_t *out)
{
    static const char hex[] = "0123456789abcdef";
    char letter = point == '\n' ? 'n' : point == '\r' ? 'r' : point == '\t' ? 't' : 'u';

    out[0] = '\\';
    out[1] = point == '"' || point == '\\' ? (uint8_t)point : (uint8_t)letter;
    if (out[1] != 'u')
        return 2;
    for (unsigned i = 0; i < 4; i++)
        out[2 + i] = (uint8_t)hex[point >> (12 - 4 * i) & 0xf];
    return 6;
}

/* --- Eight bytes at a time. --- */

#define WORD 8

typedef uint8_t word_bytes __attribute__((vector_size(WORD)));
typedef int8_t word_signed __attribute__((vector_size(WORD)));

/* True when each of the eight bytes is ASCII that JSON writes unchanged; a byte of 0x80 or more is
 * below 0 if it has a sign. `<` and `>` differ in one bit, as `"` and `&` do, so one comparison
 * finds both characters of a pair. */
static inline bool has_plain_bytes(word_bytes word)
{
    word_signed found = (word_signed)((word_signed)word < 0x20) | ((word | 0x02) == '>') |
                        ((word | 0x04) == '&') | (word == '\\');

    return (uint64_t)found == 0;
}

_Static_assert(('<' | 0x02) == '>' && ('"' | 0x04) == '&', "they differ in that bit alone");

/* --- Writing. --- */

/* Room for the longest escape of a character, and for a whole word written in its place. */
#define ROOM WORD

/* The length of the character that begins here; *point is U+FFFD if the byte begins none. */
static size_t character_len(struct slice text, uint32_t *point)
{
    size_t len = utf8_decode(text, point);

    if (len == 0)
        *point = 0xfffd;
    return len > 0 ? len : 1;
}

/* One character. *at and *out move behind it. */
static inline void write_character(struct slice text, size_t *at, uint8_t **out)
{
    const uint8_t *from = text.ptr + *at;
    uint32_t point = *from;
    size_t len = point < 0x80 ? 1 : character_len(slice_from(text, *at), &point);
    bool is_plain = point >= 0x20 && point != '"' && point != '\\' && point != '&' &&
                    point != '<' && point != '>' && point != 0x2028 && point != 0x2029 &&
                    (point != 0xfffd || len > 1);

    *at += len;
    if (!is_plain)
        *out += write_escape(point, *out);
    else
        for (; len > 0; len--)
            *(*out)++ = *from++;
}

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
            word_bytes word;

            memcpy(&word, text.ptr + at, WORD);
            if (!has_plain_bytes(word))
                break;
            memcpy(out, &word, WORD);
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
