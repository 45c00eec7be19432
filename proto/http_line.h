/* Lines of HTTP, shared by heads and trailers: the end of a line, and Go's checks of a header line.
 * For http.c and http_chunk.c only. */
#pragma once

#include "proto/bytes.h"

static inline bool http_is_blank(uint8_t c)
{
    return c == ' ' || c == '\t';
}

static inline bool http_is_space(uint8_t c)
{
    return http_is_blank(c) || c == '\r' || c == '\n';
}

/* ASCII only: HTTP treats no other letters as equal. */
static inline uint8_t http_lower(uint8_t c)
{
    return c >= 'A' && c <= 'Z' ? (uint8_t)(c + 'a' - 'A') : c;
}

/* The end of the line that goes on at `at`, behind its line feed; 0 when that is not here. */
static inline size_t http_line_end(struct slice in, size_t at)
{
    const uint8_t *lf = at == in.len ? NULL : memchr(in.ptr + at, '\n', in.len - at);

    return lf == NULL ? 0 : (size_t)(lf - in.ptr) + 1;
}

/* in[start..end), which ends in a line feed, without that and a carriage return before it. */
static inline struct slice http_line_text(struct slice in, size_t start, size_t end)
{
    size_t len = end - start - 1;

    if (len > 0 && in.ptr[start + len - 1] == '\r')
        len--;
    return (struct slice){in.ptr + start, len};
}

/* The checks that Go makes for a non-empty line before it has the whole head. A line that begins
 * with a blank continues the line before it. Returns NULL, or Go's error text. */
static inline const char *http_check_header_line(struct slice line, bool first)
{
    if (http_is_blank(line.ptr[0]))
        return first ? "malformed MIME header initial line" : NULL;
    if (memchr(line.ptr, ':', line.len) == NULL)
        return "malformed MIME header: missing colon";
    return NULL;
}
