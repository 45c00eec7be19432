/* JSON text as Go's encoding/json writes it, since clients of etcd compare bytes. Writes into a
 * borrowed buffer; for JSON that we read, or whose layout we choose, use cJSON. */
#pragma once

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
