/* HTTP's text on its way through a relay. See http_text.h for the contract. */
#include "rdzv/relay/http_text.h"

#include <assert.h>

#include "proto/json.h"
#include "store/disk/crc32c.h"

/* --- Heads. --- */

/* A waitIndex has room for any number. */
#define WAIT_INDEX        "waitIndex="
#define WAIT_INDEX_DIGITS 20

/* What a Connection header names goes no further, either. Nobody names much: a longer list would be
 * looked through for each of some hundred thousand fields. */
#define NAMED_MAX 256u

static struct slice named_by_connection(struct slice headers)
{
    struct http_header h;

    while (http_next_header(&headers, &h)) {
        if (http_name_is(h.name, "connection") && h.value.len <= NAMED_MAX)
            return h.value;
    }
    return (struct slice){0};
}

/* A value that was folded over several lines gets onto one. */
static void write_header(struct writer *w, const struct http_header *h)
{
    writer_slice(w, h->name);
    writer_str(w, ": ");
    for (size_t i = 0; i < h->value.len; i++)
        writer_u8(w, h->value.ptr[i] == '\r' || h->value.ptr[i] == '\n' ? ' ' : h->value.ptr[i]);
    writer_str(w, "\r\n");
}

static void write_passed_headers(struct writer *w, struct slice headers, const char *but,
                                 const char *nor)
{
    const struct slice named = named_by_connection(headers);
    struct http_header h;

    while (http_next_header(&headers, &h)) {
        if (!http_is_hop_by_hop(h.name) && !http_name_is(h.name, but) &&
            !http_name_is(h.name, nor) && !http_list_names(named, h.name))
            write_header(w, &h);
    }
}

static void write_target(struct writer *w, const struct http_head *head, bool watch)
{
    struct slice target = head->target_text;
    const uint8_t *query = memchr(target.ptr, '?', target.len);
    size_t before;

    if (!watch || query == NULL) {
        writer_slice(w, target);
        return;
    }
    before = (size_t)(query - target.ptr) + 1;
    writer_slice(w, (struct slice){target.ptr, before});
    writer_str(w, WAIT_INDEX);
    for (int i = 0; i < WAIT_INDEX_DIGITS; i++)
        writer_u8(w, '0');
    writer_u8(w, '&');
    writer_slice(w, slice_from(target, before));
}

void relay_set_wait_index(uint8_t *request, size_t len, uint64_t index)
{
    uint8_t *query = memchr(request, '?', len); /* no method has one */

    assert(query != NULL);
    for (size_t i = WAIT_INDEX_DIGITS; i > 0; i--) {
        query[sizeof WAIT_INDEX - 1 + i] = (uint8_t)('0' + index % 10);
        index /= 10;
    }
}

void relay_write_request(struct writer *w, const struct http_head *head, struct slice body,
                         bool watch)
{
    struct slice host;

    writer_slice(w, head->method_text);
    writer_u8(w, ' ');
    write_target(w, head, watch);
    writer_str(w, " HTTP/1.1\r\n");
    if (!http_find_header(head, "host", &host)) /* one of HTTP/1.0 */
        writer_str(w, "Host: \r\n");
    write_passed_headers(w, head->headers, "content-length", "expect");
    if (body.len != 0) {
        writer_str(w, "Content-Length: ");
        json_u64(w, body.len);
        writer_str(w, "\r\n");
    }
    writer_str(w, "\r\n");
    writer_slice(w, body);
}

void relay_write_answer(struct writer *w, unsigned minor, bool keep_alive,
                        const struct http_answer *answer)
{
    bool chunked = answer->body == HTTP_BODY_CHUNKED;

    writer_str(w, minor == 0 ? "HTTP/1.0 " : "HTTP/1.1 ");
    json_u64(w, answer->status);
    writer_u8(w, ' ');
    writer_slice(w, answer->reason);
    writer_str(w, "\r\n");
    write_passed_headers(w, answer->headers, "content-length", "content-length");
    if (!keep_alive && minor != 0)
        writer_str(w, "Connection: close\r\n");
    else if (keep_alive && minor == 0 && !chunked)
        writer_str(w, "Connection: keep-alive\r\n");
    if (chunked && minor != 0)
        writer_str(w, "Transfer-Encoding: chunked\r\n");
    if (answer->has_length) { /* and is not chunked */
        writer_str(w, "Content-Length: ");
        json_u64(w, answer->content_length);
        writer_str(w, "\r\n");
    }
    writer_str(w, "\r\n");
}

/* --- Watches. --- */

static const char name[] = "\"modifiedIndex\":";

enum { READING_NOT, READING_NUMBER, READING_DONE };

uint64_t watch_trace_next(const struct watch_trace *t)
{
    if (t->last != 0)
        return t->last + 1;
    return t->asked != 0 ? t->asked : t->from + 1;
}

static void begin_event(struct watch_trace *t)
{
    t->current = t->partial = 0;
    t->sum = 0;
    t->matched = 0;
    t->reading = READING_NOT;
}

void watch_trace_restart(struct watch_trace *t)
{
    if (t->skip == 0 || t->partial > t->skip) {
        t->skip = t->partial;
        t->skip_sum = t->sum;
    }
    begin_event(t);
}

/* The name has one quote at its start and one near its end, so a byte that does not continue a
 * match can only start a new one. */
static void read_index(struct watch_trace *t, struct slice s)
{
    for (size_t i = 0; i < s.len && t->reading != READING_DONE; i++) {
        uint8_t c = s.ptr[i];

        if (t->reading == READING_NUMBER && byte_is_digit(c)) {
            t->current = t->current * 10 + (uint64_t)(c - '0');
        } else if (t->reading == READING_NUMBER) {
            t->reading = READING_DONE;
        } else {
            t->matched = c == (uint8_t)name[t->matched] ? t->matched + 1 : c == (uint8_t)name[0];
            if (t->matched == sizeof name - 1)
                t->reading = READING_NUMBER;
        }
    }
}

/* Adds passing bytes to the checksum. False: this event does not begin with the bytes that the
 * client already has. */
static bool watch_trace_pass(struct watch_trace *t, struct slice s, struct slice *out)
{
    uint64_t left = t->skip > t->partial ? t->skip - t->partial : 0;
    size_t known = left < s.len ? (size_t)left : s.len;

    t->sum = crc32c(t->sum, s.ptr, known);
    t->partial += known;
    if (known > 0 && t->partial == t->skip && t->sum != t->skip_sum)
        return false;
    *out = slice_from(s, known);
    t->sum = crc32c(t->sum, out->ptr, out->len);
    t->partial += out->len;
    return true;
}

bool watch_trace_take(struct watch_trace *t, struct slice *in, struct slice *out, bool *whole)
{
    const uint8_t *end = memchr(in->ptr, '\n', in->len);
    struct slice piece = {in->ptr, end == NULL ? in->len : (size_t)(end - in->ptr) + 1};

    *in = slice_from(*in, piece.len);
    *whole = end != NULL;
    read_index(t, piece);
    if (!watch_trace_pass(t, piece, out))
        return false;
    if (!*whole)
        return true;
    if (t->partial < t->skip || t->current == 0)
        return false;
    if (t->current > t->last) /* a stream on a removed node gets the removal twice */
        t->last = t->current;
    t->skip = 0;
    begin_event(t);
    return true;
}
