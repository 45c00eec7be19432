/* Chunked bodies as Go 1.19's net/http reads them: lenient in the line of the size, strict behind
 * the data. Knows nothing of heads; tests/unit/test_http_chunk.c says what etcd 3.4.23
 * did. */
#include "proto/http.h"

#include "proto/http_line.h"

enum {
    CHUNK_SIZE,
    CHUNK_DATA,
    CHUNK_END,
    CHUNK_TRAILER,
};

/* Reads the number before the extensions, which it skips. An empty line is a 0, as in Go. */
static const char *parse_chunk_size(struct slice line, uint64_t *out)
{
    uint64_t n = 0;
    size_t digits = 0;

    while (line.len > 0 && http_is_space(line.ptr[line.len - 1]))
        line.len--;
    for (; digits < line.len && line.ptr[digits] != ';'; digits++) {
        uint8_t c = http_lower(line.ptr[digits]);

        if (!(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'f'))
            return "invalid byte in chunk length";
        if (digits == 16)
            return "http chunk length too large";
        n = n << 4 | (unsigned)(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    *out = n;
    return NULL;
}

/* One step of the chunk machine: NULL and the *size of the used bytes, or 0 if more must arrive; or
 * the fault. */
static const char *step_size(struct http_chunks *c, struct slice in, size_t *size)
{
    size_t end = http_line_end(in, c->searched);
    const char *fault;

    *size = 0;
    if (end > HTTP_CHUNK_LINE_MAX || (end == 0 && in.len > HTTP_CHUNK_LINE_MAX))
        return "header line too long";
    c->searched = end == 0 ? in.len : 0;
    if (end == 0)
        return NULL;
    fault = parse_chunk_size((struct slice){in.ptr, end}, &c->left);
    if (fault == NULL) {
        *size = end;
        c->state = c->left > 0 ? CHUNK_DATA : CHUNK_TRAILER;
    }
    return fault;
}

static const char *step_end(struct http_chunks *c, struct slice in, size_t *size)
{
    *size = 0;
    if (in.len < 2)
        return NULL;
    if (in.ptr[0] != '\r' || in.ptr[1] != '\n')
        return "malformed chunked encoding";
    *size = 2;
    c->state = CHUNK_SIZE;
    return NULL;
}

/* Behind the last chunk: an empty line, or trailers up to one. Go wants to see CRLF CRLF before it
 * reads them, even if they end in a shorter way. */
static const char *step_trailer(struct http_chunks *c, struct slice in, size_t *size)
{
    size_t at, end;
    bool seen = false;
    const char *fault;

    *size = 0;
    if (in.len < 2)
        return NULL;
    if (in.ptr[0] == '\r' && in.ptr[1] == '\n') {
        *size = 2;
        return NULL;
    }
    for (at = c->searched; at + 4 <= in.len && at + 4 <= HTTP_TRAILER_MAX && !seen; at++)
        seen = memcmp(in.ptr + at, "\r\n\r\n", 4) == 0;
    c->searched = at;
    if (!seen)
        return in.len < HTTP_TRAILER_MAX ? NULL
                                         : "http: suspiciously long trailer after chunked body";

    for (at = 0; (end = http_line_end(in, at)) != 0; at = end) {
        struct slice line = http_line_text(in, at, end);

        if (line.len == 0)
            break;
        fault = http_check_header_line(line, at == 0);
        if (fault != NULL)
            return fault;
    }
    *size = end;
    return NULL;
}

enum parse_result http_next_chunk(struct http_chunks *c, struct slice in, struct slice *data,
                                  size_t *size, const char **why)
{
    size_t at = 0;

    for (;;) {
        struct slice rest = slice_from(in, at);
        const char *fault;
        size_t used;

        switch (c->state) {
        case CHUNK_DATA:
            *size = at;
            if (rest.len == 0)
                return PARSE_MORE;
            if (rest.len > c->left)
                rest.len = (size_t)c->left;
            c->left -= rest.len;
            if (c->left == 0)
                c->state = CHUNK_END;
            *data = rest;
            *size += rest.len;
            return PARSE_DONE;
        case CHUNK_SIZE:
            fault = step_size(c, rest, &used);
            break;
        case CHUNK_END:
            fault = step_end(c, rest, &used);
            break;
        default:
            fault = step_trailer(c, rest, &used);
            if (fault == NULL && used > 0) {
                *data = (struct slice){0};
                *size = at + used;
                return PARSE_DONE;
            }
        }
        if (fault != NULL) {
            *why = fault;
            return PARSE_BAD;
        }
        if (used == 0) {
            *size = at;
            return PARSE_MORE;
        }
        at += used;
    }
}
