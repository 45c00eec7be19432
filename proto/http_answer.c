/* HTTP/1.x answers. See http_answer.h for the contract. */
#include "proto/http_answer.h"

#include "proto/http_line.h"
#include "proto/queue.h"

bool http_is_hop_by_hop(struct slice name)
{
    static const char *const names[] = {
        "connection", "keep-alive", "proxy-connection",  "te",
        "trailer",    "upgrade",    "transfer-encoding",
    };

    return ANY(FOREACH_POINTER(const char, known, names, sizeof names / sizeof *names),
               http_name_is(name, known));
}

/* Parses "HTTP/1.1 200 OK"; the reason at the end is optional. */
static bool parse_status(struct slice line, struct http_answer *out)
{
    if (line.len < 12 || !slice_starts_with(line, slice_str("HTTP/1.")) ||
        !byte_is_digit(line.ptr[7]) || line.ptr[8] != ' ' || line.ptr[9] == '0' ||
        !byte_is_digit(line.ptr[9]) || !byte_is_digit(line.ptr[10]) ||
        !byte_is_digit(line.ptr[11]) || (line.len > 12 && line.ptr[12] != ' '))
        return false;
    out->minor = line.ptr[7] - '0';
    out->status = (line.ptr[9] - '0') * 100u + (line.ptr[10] - '0') * 10u + (line.ptr[11] - '0');
    out->reason = line.len > 13 ? slice_from(line, 13) : (struct slice){0};
    return true;
}

/* Each line has a name right at its start and a colon behind it. */
static bool check_lines(struct slice headers)
{
    for (size_t at = 0; at < headers.len;) {
        size_t end = http_line_end(headers, at);
        struct slice line = http_line_text(headers, at, end);

        if (line.len == 0 || http_is_blank(line.ptr[0]) || line.ptr[0] == ':' ||
            http_check_header_line(line, true) != NULL ||
            memchr(line.ptr, '\0', line.len) != NULL || memchr(line.ptr, '\r', line.len) != NULL)
            return false;
        at = end;
    }
    return true;
}

static bool read_headers(struct http_answer *a)
{
    struct slice rest = a->headers;
    struct http_header h;
    uint64_t length;

    while (http_next_header(&rest, &h)) {
        if (http_name_is(h.name, "content-length")) {
            if (!slice_to_u64(h.value, INT64_MAX, &length) ||
                (a->has_length && a->content_length != length))
                return false;
            a->has_length = true;
            a->content_length = length;
        } else if (http_name_is(h.name, "transfer-encoding")) {
            if (!http_name_is(h.value, "chunked") || a->body == HTTP_BODY_CHUNKED || a->minor == 0)
                return false;
            a->body = HTTP_BODY_CHUNKED;
        } else if (http_name_is(h.name, "connection")) {
            a->keep_alive = a->keep_alive && !http_list_names(h.value, slice_str("close"));
        } else if (http_name_is(h.name, "x-etcd-index")) {
            a->has_index = slice_to_u64(h.value, UINT64_MAX, &a->etcd_index);
        } else if (http_name_is(h.name, "x-etcd-cluster-id")) {
            a->cluster = h.value;
        }
    }
    return !(a->has_length && a->body == HTTP_BODY_CHUNKED);
}

/* False: the body ends with the connection, so a broken connection would look like the end. */
static bool frame_answer_body(struct http_answer *a, bool to_head)
{
    if (to_head || a->status < 200 || a->status == 204 || a->status == 304) {
        a->body = HTTP_BODY_NONE;
        return true;
    }
    if (a->body == HTTP_BODY_CHUNKED)
        return true;
    a->body = a->content_length > 0 ? HTTP_BODY_LENGTH : HTTP_BODY_NONE;
    return a->has_length;
}

static enum parse_result decode_answer(struct slice head, size_t first, bool to_head,
                                       struct http_answer *out)
{
    struct http_answer a = {0};
    size_t last = head.len - (head.ptr[head.len - 2] == '\r' ? 2 : 1);

    if (!parse_status(http_line_text(head, 0, first), &a))
        return PARSE_BAD;
    a.headers = (struct slice){head.ptr + first, last - first};
    a.keep_alive = a.minor > 0;
    if (!check_lines(a.headers) || !read_headers(&a) || !frame_answer_body(&a, to_head))
        return PARSE_BAD;
    *out = a;
    return PARSE_DONE;
}

/* Behind the empty line, when it is here. */
static size_t head_end(struct slice in, size_t *searched)
{
    size_t at = *searched, end;

    while ((end = http_line_end(in, at)) != 0) {
        if (at > 0 && http_line_text(in, at, end).len == 0)
            return end;
        at = end;
    }
    *searched = at;
    return 0;
}

enum parse_result http_parse_answer(struct slice in, size_t head_max, bool to_head,
                                    size_t *searched, struct http_answer *out, size_t *size)
{
    static const char begins[] = "HTTP/1.";
    size_t seen = in.len < sizeof begins - 1 ? in.len : sizeof begins - 1;
    size_t end;

    if (memcmp(in.ptr, begins, seen) != 0)
        return PARSE_BAD;
    end = head_end(in, searched);
    if (end > head_max || (end == 0 && in.len >= head_max))
        return PARSE_BAD;
    if (end == 0)
        return PARSE_MORE;
    *searched = 0;
    *size = end;
    return decode_answer((struct slice){in.ptr, end}, http_line_end(in, 0), to_head, out);
}
