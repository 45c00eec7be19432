/* JSON text as Go's encoding/json writes it, since clients of etcd compare bytes. Writes into a
 * borrowed buffer; for JSON that we read, or whose layout we choose, use cJSON. */
#pragma once

#include <stdio.h>

#include "proto/bytes.h"

/* A string with its quotes: `<`, `>`, `&`, U+2028 and U+2029 and all controls escaped, each byte
 * that is not valid UTF-8 as the six characters \ufffd. */
void json_string(struct writer *w, struct slice text);

/* A part of a string: the same without quotes. */
void json_text(struct writer *w, struct slice text);

/* The same from byte `at` of the text on, up to the room of the writer, which does not grow; up to
 * seven bytes of room stay unused. Returns the offset to continue at; text.len at the end. */
size_t json_text_part(struct writer *w, struct slice text, size_t at);

void json_u64(struct writer *w, uint64_t v);
void json_i64(struct writer *w, int64_t v);

/* A time in nanoseconds since 1970, as RFC 3339 in UTC with quotes: up to nine fraction digits,
 * trailing zeros left out, no fraction when it is zero. */
void json_time(struct writer *w, int64_t ns);

/* The same in microseconds, which reach beyond the years 1677 to 2262. */
void json_time_us(struct writer *w, int64_t us);

/* --- Objects and lists, piece by piece. A comma comes before each piece that follows another, as
 * the last byte that was written tells. --- */

static inline void json_comma(struct writer *w)
{
    uint8_t last = w->len > 0 && w->len <= w->cap ? w->ptr[w->len - 1] : '{';

    if (last != '{' && last != '[' && last != ':')
        writer_u8(w, ',');
}

/* Opens an object or a list: `bracket` is '{' or '['. Its writer closes it. */
static inline void json_open(struct writer *w, char bracket)
{
    json_comma(w);
    writer_u8(w, (uint8_t)bracket);
}

static inline void json_name(struct writer *w, const char *name)
{
    json_comma(w);
    writer_u8(w, '"');
    writer_str(w, name);
    writer_str(w, "\":");
}

/* A member that is a list, which its writer closes. */
static inline void json_list(struct writer *w, const char *name)
{
    json_name(w, name);
    writer_u8(w, '[');
}

/* An item of a list. */
static inline void json_item(struct writer *w, struct slice text)
{
    json_comma(w);
    json_string(w, text);
}

static inline void json_member(struct writer *w, const char *name, struct slice text)
{
    json_name(w, name);
    json_string(w, text);
}

static inline void json_member_str(struct writer *w, const char *name, const char *text)
{
    json_member(w, name, slice_str(text));
}

static inline void json_member_u64(struct writer *w, const char *name, uint64_t value)
{
    json_name(w, name);
    json_u64(w, value);
}

static inline void json_member_i64(struct writer *w, const char *name, int64_t value)
{
    json_name(w, name);
    json_i64(w, value);
}

/* Microseconds since 1970. */
static inline void json_member_time(struct writer *w, const char *name, int64_t us)
{
    json_name(w, name);
    json_time_us(w, us);
}

/* The same, except for 0, which means "unknown". */
static inline void json_member_known(struct writer *w, const char *name, int64_t us)
{
    if (us != 0)
        json_member_time(w, name, us);
}

/* Microseconds as seconds with three digits. */
static inline void json_member_seconds(struct writer *w, const char *name, int64_t us)
{
    char text[32];

    snprintf(text, sizeof text, "%.3f", (double)us / 1e6);
    json_name(w, name);
    writer_str(w, text);
}
