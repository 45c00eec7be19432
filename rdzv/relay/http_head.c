/* Heads on their way through a relay. See http_head.h for the contract. */
#include "rdzv/relay/http_head.h"

#include <assert.h>

#include "proto/json.h"

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

static void write_headers(struct writer *w, struct slice headers, const char *but, const char *nor)
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

void relay_write_request(struct writer *w, const struct http_head *head, size_t body_len,
                         bool watch)
{
    struct slice host;

    writer_slice(w, head->method_text);
    writer_u8(w, ' ');
    write_target(w, head, watch);
    writer_str(w, " HTTP/1.1\r\n");
    if (!http_find_header(head, "host", &host)) /* one of HTTP/1.0 */
        writer_str(w, "Host: \r\n");
    write_headers(w, head->headers, "content-length", "expect");
    if (body_len != 0) {
        writer_str(w, "Content-Length: ");
        json_u64(w, body_len);
        writer_str(w, "\r\n");
    }
    writer_str(w, "\r\n");
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
    write_headers(w, answer->headers, "content-length", "content-length");
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
