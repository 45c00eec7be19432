/* JSON text as Go's encoding/json writes it. See json.h for the contract. */
#include "proto/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "proto/utf8.h"

/* What an ASCII byte is written as when it does not stand for itself; NULL when it does. */
static const char *escape(uint8_t c, char buf[7])
{
    switch (c) {
    case '"':
        return "\\\"";
    case '\\':
        return "\\\\";
    case '\n':
        return "\\n";
    case '\r':
        return "\\r";
    case '\t':
        return "\\t";
    case '<':
    case '>':
    case '&':
        break;
    default:
        if (c >= 0x20)
            return NULL;
    }
    snprintf(buf, 7, "\\u%04x", c);
    return buf;
}

/* Printable ASCII that stands for itself, which is nearly all there ever is: not quotes, `&`, `<`,
 * `>` and the backslash. */
static const bool is_plain[256] = {
    [' ' ... '!'] = true, ['#' ... '%'] = true, ['\'' ... ';'] = true,
    ['='] = true,         ['?' ... '['] = true, [']' ... 0x7f] = true,
};

void json_text(struct writer *w, struct slice text)
{
    size_t plain = 0, at = 0; /* text[plain..at) stands for itself and is not written yet */

    for (;;) {
        char buf[7];
        const char *instead = NULL;
        size_t len = 1;

        while (at < text.len && is_plain[text.ptr[at]])
            at++;
        if (at == text.len)
            break;
        if (text.ptr[at] < 0x80) {
            instead = escape(text.ptr[at], buf);
        } else {
            uint32_t point = 0;

            len = utf8_decode(slice_from(text, at), &point);
            if (len == 0) {
                len = 1;
                instead = "\\ufffd";
            } else if (point == 0x2028 || point == 0x2029) {
                instead = point == 0x2028 ? "\\u2028" : "\\u2029";
            }
        }
        if (instead != NULL) {
            writer_put(w, text.ptr + plain, at - plain);
            writer_str(w, instead);
            plain = at + len;
        }
        at += len;
    }
    if (at > plain)
        writer_put(w, text.ptr + plain, at - plain);
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
