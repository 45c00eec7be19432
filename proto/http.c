/* HTTP/1.x as Go 1.19's net/http reads it, line by line, so that a fault is answered when its line
 * is complete. The parser reads a head twice: it checks each line as it arrives, and decodes the
 * whole head after the last line. It refuses the requests that etcd 3.4.23 refuses, with the same
 * answers: see the tables in tests/unit/test_http.c. */
#include "proto/http.h"

#include <strings.h>

#include "proto/http_line.h"
#include "proto/queue.h"

#define TEXT_400  "400 Bad Request"
#define TEXT_HOST TEXT_400 ": missing required Host header"
#define TEXT_431  "431 Request Header Fields Too Large"
#define TEXT_505  "505 HTTP Version Not Supported: unsupported protocol version"

/* Letters, digits and !#$%&'*+-.^_`|~ */
static const bool is_token_byte[256] = {
    ['!'] = true,         ['#' ... '\''] = true, ['*' ... '+'] = true,
    ['-' ... '.'] = true, ['0' ... '9'] = true,  ['A' ... 'Z'] = true,
    ['^' ... 'z'] = true, ['|'] = true,          ['~'] = true,
};

/* Letters, digits and !$%&'()*+,-.:;=[]_~: every byte that any form of a host may have. */
static const bool is_host_byte[256] = {
    ['!'] = true, ['$' ... '.'] = true, ['0' ... ';'] = true, ['='] = true, ['A' ... '['] = true,
    [']'] = true, ['_'] = true,         ['a' ... 'z'] = true, ['~'] = true,
};

static bool has_only(struct slice s, const bool allowed[256])
{
    return !ANY(for (size_t i = 0; i < s.len; i++), !allowed[s.ptr[i]]);
}

static bool is_token(struct slice s)
{
    return s.len > 0 && has_only(s, is_token_byte);
}

bool http_name_is(struct slice name, const char *lower)
{
    for (size_t i = 0; i < name.len; i++) {
        if (lower[i] == '\0' || http_lower(name.ptr[i]) != (uint8_t)lower[i])
            return false;
    }
    return lower[name.len] == '\0';
}

static struct slice trim_spaces(struct slice s)
{
    while (s.len > 0 && http_is_space(s.ptr[0]))
        s = slice_from(s, 1);
    while (s.len > 0 && http_is_space(s.ptr[s.len - 1]))
        s.len--;
    return s;
}

/* Splits s at the first `c`: false when there is none. */
static bool split_at(struct slice s, char c, struct slice *before, struct slice *after)
{
    const uint8_t *at = s.len == 0 ? NULL : memchr(s.ptr, c, s.len);

    if (at == NULL)
        return false;
    *before = (struct slice){s.ptr, (size_t)(at - s.ptr)};
    *after = slice_from(s, before->len + 1);
    return true;
}

/* Always false, as the next one. */
static bool refuse_with(struct http_refusal *why, const char *status, const char *reason)
{
    *why = (struct http_refusal){.status = status, .body = status, .reason = reason};
    return false;
}

static bool refuse_silently(struct http_refusal *why, const char *reason)
{
    *why = (struct http_refusal){.status = "", .body = "", .reason = reason, .silent = true};
    return false;
}

struct request_line {
    struct slice method;
    struct slice target;
    unsigned major;
    unsigned minor;
};

static bool parse_version(struct slice s, unsigned *major, unsigned *minor)
{
    if (s.len != strlen("HTTP/1.1") || !slice_starts_with(s, slice_str("HTTP/")))
        return false;
    if (s.ptr[5] < '0' || s.ptr[5] > '9' || s.ptr[6] != '.' || s.ptr[7] < '0' || s.ptr[7] > '9')
        return false;
    *major = s.ptr[5] - '0';
    *minor = s.ptr[7] - '0';
    return true;
}

/* NULL, or what is wrong: three words and a version at the end, whatever the first two are. */
static const char *split_request_line(struct slice line, struct request_line *out)
{
    struct slice rest, version;

    if (!split_at(line, ' ', &out->method, &rest) || !split_at(rest, ' ', &out->target, &version))
        return "malformed request line";
    if (!parse_version(version, &out->major, &out->minor))
        return "malformed HTTP version";
    return NULL;
}

static bool parse_target(const struct request_line *r, struct url_target *out)
{
    bool authority =
        slice_is(r->method, "CONNECT") && !slice_starts_with(r->target, slice_str("/"));

    return url_parse_target(r->target, authority, out);
}

/* etcd's listener looks at the first line of a connection, and closes it when that is no HTTP/1
 * request line; what comes later goes straight to net/http, which answers. */
static bool check_request_line(const struct http_parser *p, struct slice line,
                               struct http_refusal *why)
{
    struct request_line r;
    struct url_target target;
    const char *fault = split_request_line(line, &r);

    if (!p->later && fault == NULL && r.major != 1)
        fault = "not HTTP/1";
    if (fault != NULL)
        return p->later ? refuse_with(why, TEXT_400, fault) : refuse_silently(why, fault);
    if (!is_token(r.method))
        return refuse_with(why, TEXT_400, "invalid method");
    return parse_target(&r, &target) || refuse_with(why, TEXT_400, "malformed target");
}

/* Go joins folded lines with one space each, and then drops the blanks in front. Behind, it drops
 * those of the last line only, so that a blank last line leaves a space: here, its line end. */
static struct slice header_value(struct slice s)
{
    while (s.len > 0 && (http_is_blank(s.ptr[0]) || s.ptr[0] == '\n' ||
                         (s.ptr[0] == '\r' && s.len > 1 && s.ptr[1] == '\n')))
        s = slice_from(s, 1);
    while (s.len > 0 && http_is_blank(s.ptr[s.len - 1]))
        s.len--;
    return s;
}

bool http_next_header(struct slice *rest, struct http_header *out)
{
    while (rest->len > 0) {
        size_t end = http_line_end(*rest, 0), start = 0;
        struct slice text, value;

        while (end < rest->len && http_is_blank(rest->ptr[end])) {
            start = end;
            end = http_line_end(*rest, end);
        }
        text = http_line_text(*rest, start, end);
        text = (struct slice){rest->ptr, start + text.len};
        *rest = slice_from(*rest, end);
        /* Go passes over a header without a name. */
        if (split_at(text, ':', &out->name, &value) && out->name.len > 0) {
            out->value = header_value(value);
            return true;
        }
    }
    return false;
}

bool http_find_header(const struct http_head *head, const char *lower_case, struct slice *value)
{
    struct slice rest = head->headers;
    struct http_header h;

    while (http_next_header(&rest, &h)) {
        if (http_name_is(h.name, lower_case)) {
            *value = h.value;
            return true;
        }
    }
    return false;
}

/* No control bytes but tabs, and the line ends of folds: a line feed can be nothing else here. */
static bool is_header_value(struct slice s)
{
    for (size_t i = 0; i < s.len; i++) {
        uint8_t c = s.ptr[i];

        if (c >= ' ' && c != 0x7f)
            continue;
        if (c == '\t' || c == '\n' || (c == '\r' && i + 1 < s.len && s.ptr[i + 1] == '\n'))
            continue;
        return false;
    }
    return true;
}

/* Takes the next element off a comma-separated list, without the spaces around it. */
static bool next_element(struct slice *list, struct slice *out)
{
    struct slice after;

    if (list->ptr == NULL)
        return false;
    if (!split_at(*list, ',', out, &after)) {
        *out = *list;
        after = (struct slice){0};
    }
    *out = trim_spaces(*out);
    *list = after;
    return true;
}

bool http_list_names(struct slice list, struct slice token)
{
    struct slice element;

    return ANY(while (next_element(&list, &element)),
               element.len == token.len && token.len > 0 &&
                   strncasecmp((const char *)element.ptr, (const char *)token.ptr, token.len) == 0);
}

/* Go also has this second search for a token, in which spaces separate tokens too. */
static bool words_have(struct slice s, const char *lower_case)
{
    size_t start = 0;

    if (s.len == 0)
        return false;
    for (size_t i = 0; i <= s.len; i++) {
        if (i < s.len && s.ptr[i] != ',' && !http_is_space(s.ptr[i]))
            continue;
        if (http_name_is((struct slice){s.ptr + start, i - start}, lower_case))
            return true;
        start = i + 1;
    }
    return false;
}

/* Header names that may not stand in a Trailer header. */
static bool announces_bad_trailer(struct slice list)
{
    return http_list_names(list, slice_str("transfer-encoding")) ||
           http_list_names(list, slice_str("trailer")) ||
           http_list_names(list, slice_str("content-length"));
}

/* The headers that mean something to this reader. */
enum known {
    KNOWN_HOST,
    KNOWN_CONNECTION,
    KNOWN_EXPECT,
    KNOWN_TRANSFER_ENCODING,
    KNOWN_CONTENT_LENGTH,
    KNOWN_CONTENT_TYPE,
    KNOWN_AUTHORIZATION,
    KNOWN_ORIGIN,
    KNOWN_TRAILER,
    KNOWN_HEADERS /* and none of them */
};

static enum known known_header(struct slice name)
{
    static const char *const names[KNOWN_HEADERS] = {
        [KNOWN_HOST] = "host",
        [KNOWN_CONNECTION] = "connection",
        [KNOWN_EXPECT] = "expect",
        [KNOWN_TRANSFER_ENCODING] = "transfer-encoding",
        [KNOWN_CONTENT_LENGTH] = "content-length",
        [KNOWN_CONTENT_TYPE] = "content-type",
        [KNOWN_AUTHORIZATION] = "authorization",
        [KNOWN_ORIGIN] = "origin",
        [KNOWN_TRAILER] = "trailer",
    };
    enum known k = 0;

    while (k < KNOWN_HEADERS && !http_name_is(name, names[k]))
        k++;
    return k;
}

/* The facts that the headers state, before their meaning is decided. */
struct gathered {
    struct slice first[KNOWN_HEADERS]; /* the value of the first of that name */
    size_t count[KNOWN_HEADERS];
    size_t total;
    bool close;        /* in any Connection header */
    bool lengths_vary; /* several Content-Length headers that differ */
    bool bad_trailer;
    bool bad_name;
    bool bad_value;
    bool bad_framing; /* a value of Content-Length or Trailer that would be a bad_value elsewhere */
};

static void gather_one(struct gathered *g, const struct http_header *h)
{
    enum known k = known_header(h->name);
    bool bad_value = !is_header_value(h->value);

    g->total++;
    if (k != KNOWN_HEADERS && g->count[k]++ == 0)
        g->first[k] = h->value;
    g->bad_name |= !is_token(h->name);
    /* The headers of framing are gone when Go checks the values, as far as they were used. */
    if (k == KNOWN_CONTENT_LENGTH || k == KNOWN_TRAILER)
        g->bad_framing |= bad_value;
    else if (k != KNOWN_TRANSFER_ENCODING)
        g->bad_value |= bad_value;

    if (k == KNOWN_CONNECTION)
        g->close |= http_list_names(h->value, slice_str("close"));
    else if (k == KNOWN_CONTENT_LENGTH)
        g->lengths_vary |= !slice_equal(trim_spaces(g->first[k]), trim_spaces(h->value));
    else if (k == KNOWN_TRAILER)
        g->bad_trailer |= announces_bad_trailer(h->value);
}

const char *const http_method_names[HTTP_METHODS] = {
    [HTTP_OTHER] = "other", [HTTP_GET] = "GET",         [HTTP_HEAD] = "HEAD",
    [HTTP_PUT] = "PUT",     [HTTP_POST] = "POST",       [HTTP_DELETE] = "DELETE",
    [HTTP_PATCH] = "PATCH", [HTTP_OPTIONS] = "OPTIONS", [HTTP_CONNECT] = "CONNECT",
};

static enum http_method method_of(struct slice s)
{
    for (enum http_method m = HTTP_GET; m <= HTTP_PATCH; m++) {
        if (slice_is(s, http_method_names[m]))
            return m;
    }
    return HTTP_OTHER;
}

/* The length of the body. Of Transfer-Encoding and Content-Length, the former wins; HTTP/1.0 has
 * only the latter. */
static bool frame_request_body(const struct gathered *g, const struct request_line *r,
                               struct http_head *head, struct http_refusal *why)
{
    bool chunked =
        g->count[KNOWN_TRANSFER_ENCODING] > 0 && (r->major > 1 || r->minor > 0) && r->major > 0;
    struct slice length;

    if (chunked) {
        if (g->count[KNOWN_TRANSFER_ENCODING] > 1 ||
            !http_name_is(g->first[KNOWN_TRANSFER_ENCODING], "chunked")) {
            refuse_with(why, "501 Not Implemented", "unsupported transfer encoding");
            why->body = "Unsupported transfer encoding";
            return false;
        }
        if (g->bad_trailer)
            return refuse_with(why, TEXT_400, "bad trailer announced");
        head->body = HTTP_BODY_CHUNKED;
        return true;
    }
    length = trim_spaces(g->first[KNOWN_CONTENT_LENGTH]); /* an empty one is as none */
    if (g->lengths_vary ||
        (length.len != 0 && !slice_to_u64(length, INT64_MAX, &head->content_length)))
        return refuse_with(why, TEXT_400, "bad Content-Length");
    head->body = head->content_length > 0 ? HTTP_BODY_LENGTH : HTTP_BODY_NONE;
    return true;
}

/* Go refuses these last, in this order. PRI, which opens HTTP/2, gets through in mid-connection. */
static bool check_gathered(const struct gathered *g, const struct request_line *r, bool chunked,
                           struct http_refusal *why)
{
    bool preface =
        r->major == 2 && r->minor == 0 && slice_is(r->method, "PRI") && slice_is(r->target, "*");
    bool needs_host = !(r->major == 1 && r->minor == 0) && !slice_is(r->method, "CONNECT") &&
                      !(preface && g->total == 0);

    if (r->major != 1 && !preface)
        return refuse_with(why, TEXT_505, "unsupported HTTP version");
    if (needs_host && g->count[KNOWN_HOST] == 0)
        return refuse_with(why, TEXT_HOST, "missing Host header");
    if (!has_only(g->first[KNOWN_HOST], is_host_byte))
        return refuse_with(why, TEXT_400 ": malformed Host header", "malformed Host header");
    if (g->bad_name)
        return refuse_with(why, TEXT_400 ": invalid header name", "invalid header name");
    if (g->bad_value || (g->bad_framing && !chunked))
        return refuse_with(why, TEXT_400 ": invalid header value", "invalid header value");
    return true;
}

static enum http_expect http_expect_of(const struct gathered *g, const struct http_head *head)
{
    if (words_have(g->first[KNOWN_EXPECT], "100-continue"))
        return head->minor > 0 && head->body != HTTP_BODY_NONE ? HTTP_EXPECT_CONTINUE
                                                               : HTTP_EXPECT_NOTHING;
    return g->first[KNOWN_EXPECT].len > 0 ? HTTP_EXPECT_OTHER : HTTP_EXPECT_NOTHING;
}

static bool keeps_alive(const struct gathered *g, const struct request_line *r)
{
    if (r->major != 1)
        return false;
    if (r->minor == 0)
        return words_have(g->first[KNOWN_CONNECTION], "keep-alive");
    return !g->close && !words_have(g->first[KNOWN_CONNECTION], "close");
}

/* Decodes a complete head; its lines have been checked one by one. */
static bool decode_head(struct slice line, struct slice headers, struct http_head *out,
                        struct http_refusal *why)
{
    struct http_head head = {.headers = headers};
    struct slice rest = headers;
    struct request_line r;
    struct gathered g = {0};
    struct http_header h;

    /* Neither can fail: check_request_line() has checked the line. */
    split_request_line(line, &r);
    parse_target(&r, &head.target);

    while (http_next_header(&rest, &h))
        gather_one(&g, &h);
    if (g.count[KNOWN_HOST] > 1)
        return refuse_with(why, TEXT_400, "several Host headers");
    if (!frame_request_body(&g, &r, &head, why))
        return false;
    if (!check_gathered(&g, &r, head.body == HTTP_BODY_CHUNKED, why))
        return false;

    head.method = method_of(r.method);
    head.minor = r.major == 1 ? r.minor : 1;
    head.method_text = r.method;
    head.target_text = r.target;
    head.keep_alive = keeps_alive(&g, &r);
    head.expect = http_expect_of(&g, &head);
    head.host = head.target.host.len > 0 ? head.target.host : g.first[KNOWN_HOST];
    head.content_type = g.first[KNOWN_CONTENT_TYPE];
    head.authorization = g.first[KNOWN_AUTHORIZATION];
    head.origin = g.first[KNOWN_ORIGIN];
    *out = head;
    return true;
}

/* Go looks at the first four bytes after a POST, and drops those that are line ends. */
static size_t head_start(const struct http_parser *p, struct slice in)
{
    size_t start = 0;

    while (p->after_post && start < 4 && start < in.len &&
           (in.ptr[start] == '\r' || in.ptr[start] == '\n'))
        start++;
    return start;
}

static enum parse_result finish_head(struct http_parser *p, struct slice in, size_t start,
                                     size_t end, struct http_head *out, size_t *size,
                                     struct http_refusal *why)
{
    struct slice headers = {in.ptr + p->headers, p->line - p->headers};

    if (!decode_head(http_line_text(in, start, p->headers), headers, out, why))
        return PARSE_BAD;
    *size = end;
    *p = (struct http_parser){.later = true, .after_post = out->method == HTTP_POST};
    return PARSE_DONE;
}

enum parse_result http_parse_head(struct http_parser *p, struct slice in, size_t head_max,
                                  struct http_head *out, size_t *size, struct http_refusal *why)
{
    size_t start = head_start(p, in), end;
    struct slice head = {in.ptr, in.len < head_max ? in.len : head_max};

    if (p->headers == 0 && p->line < start)
        p->line = p->searched = start;
    while (p->searched < head.len && (end = http_line_end(head, p->searched)) != 0) {
        struct slice line = http_line_text(head, p->line, end);

        if (p->headers == 0) {
            if (!check_request_line(p, line, why))
                return PARSE_BAD;
            p->headers = end;
        } else if (line.len == 0) {
            return finish_head(p, in, start, end, out, size, why);
        } else {
            const char *fault = http_check_header_line(line, p->line == p->headers);

            if (fault != NULL) {
                refuse_with(why, TEXT_400, fault);
                return PARSE_BAD;
            }
        }
        p->line = p->searched = end;
    }
    if (in.len >= head_max) {
        refuse_with(why, TEXT_431, "head too long");
        return PARSE_BAD;
    }
    p->searched = head.len > p->searched ? head.len : p->searched;
    *size = in.len + 1;
    return PARSE_MORE;
}

void http_refuse_unfinished(const struct http_parser *p, struct slice in, struct http_refusal *why)
{
    struct request_line r;

    /* The sniffer takes the end of the input for the end of the line. */
    if (!p->later && p->headers == 0 && (split_request_line(in, &r) != NULL || r.major != 1))
        refuse_silently(why, "unfinished request line");
    else
        refuse_with(why, TEXT_400, "unfinished head");
}

void http_write_refusal(struct writer *w, const struct http_refusal *why)
{
    if (why->silent)
        return;
    writer_str(w, "HTTP/1.1 ");
    writer_str(w, why->status);
    writer_str(w, "\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n");
    writer_str(w, why->body);
}
