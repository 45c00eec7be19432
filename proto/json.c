/* JSON text as Go's encoding/json writes it. See json.h for the contract. */
#include "proto/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "proto/utf8.h"

/* What is written in the place of a character. */
struct escape {
    uint8_t len; /* 0: it stands for itself */
    char text[7];
};

#define LETTER(l)   .len = 2, .text = "\\" l
#define NUMBER(hex) .len = 6, .text = "\\u" hex

static const struct escape ascii_escapes[128] = {
    [0x00] = {NUMBER("0000")}, [0x01] = {NUMBER("0001")}, [0x02] = {NUMBER("0002")},
    [0x03] = {NUMBER("0003")}, [0x04] = {NUMBER("0004")}, [0x05] = {NUMBER("0005")},
    [0x06] = {NUMBER("0006")}, [0x07] = {NUMBER("0007")}, [0x08] = {NUMBER("0008")},
    ['\t'] = {LETTER("t")},    ['\n'] = {LETTER("n")},    [0x0b] = {NUMBER("000b")},
    [0x0c] = {NUMBER("000c")}, ['\r'] = {LETTER("r")},    [0x0e] = {NUMBER("000e")},
    [0x0f] = {NUMBER("000f")}, [0x10] = {NUMBER("0010")}, [0x11] = {NUMBER("0011")},
    [0x12] = {NUMBER("0012")}, [0x13] = {NUMBER("0013")}, [0x14] = {NUMBER("0014")},
    [0x15] = {NUMBER("0015")}, [0x16] = {NUMBER("0016")}, [0x17] = {NUMBER("0017")},
    [0x18] = {NUMBER("0018")}, [0x19] = {NUMBER("0019")}, [0x1a] = {NUMBER("001a")},
    [0x1b] = {NUMBER("001b")}, [0x1c] = {NUMBER("001c")}, [0x1d] = {NUMBER("001d")},
    [0x1e] = {NUMBER("001e")}, [0x1f] = {NUMBER("001f")}, ['"'] = {LETTER("\"")},
    ['&'] = {NUMBER("0026")},  ['<'] = {NUMBER("003c")},  ['>'] = {NUMBER("003e")},
    ['\\'] = {LETTER("\\")},
};

static const struct escape no_character = {NUMBER("fffd")}, line_separator = {NUMBER("2028")},
                           paragraph_separator = {NUMBER("2029")};

/* What the character at the start of `text` becomes; NULL: it stands for itself. *len is its own
 * length. */
static const struct escape *find_escape(struct slice text, size_t *len)
{
    uint32_t point = 0;

    *len = 1;
    if (text.ptr[0] < 0x80)
        return ascii_escapes[text.ptr[0]].len == 0 ? NULL : &ascii_escapes[text.ptr[0]];
    *len = utf8_decode(text, &point);
    if (*len == 0) {
        *len = 1;
        return &no_character;
    }
    return point == 0x2028 ? &line_separator : point == 0x2029 ? &paragraph_separator : NULL;
}

/* Printable ASCII that stands for itself, which is nearly all there ever is: not quotes, `&`, `<`,
 * `>` and the backslash. */
static const bool is_plain[256] = {
    [' ' ... '!'] = true, ['#' ... '%'] = true, ['\'' ... ';'] = true,
    ['='] = true,         ['?' ... '['] = true, [']' ... 0x7f] = true,
};

/* The end of what stands for itself from `at` on. */
static size_t skip_plain(struct slice text, size_t at)
{
    size_t len;

    for (;;) {
        while (at < text.len && is_plain[text.ptr[at]])
            at++;
        if (at == text.len || find_escape(slice_from(text, at), &len) != NULL)
            return at;
        at += len;
    }
}

/* Writes the characters from `at` on that become something else, many at a time: a text may be
 * nothing but those. Returns where they end. */
static size_t write_escapes(struct writer *w, struct slice text, size_t at)
{
    char out[512];
    size_t out_len = 0, len;

    while (at < text.len && out_len <= sizeof out - sizeof ascii_escapes[0].text) {
        const struct escape *e = find_escape(slice_from(text, at), &len);

        if (e == NULL)
            break;
        memcpy(out + out_len, e->text, sizeof e->text); /* the next one overwrites the rest */
        out_len += e->len;
        at += len;
    }
    writer_put(w, out, out_len);
    return at;
}

void json_text(struct writer *w, struct slice text)
{
    size_t at = 0;

    while (at < text.len) {
        size_t plain = at;

        at = skip_plain(text, plain);
        if (at > plain)
            writer_put(w, text.ptr + plain, at - plain);
        if (at < text.len)
            at = write_escapes(w, text, at);
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

/* `fraction` is in nanoseconds, and less than a second either way. */
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
