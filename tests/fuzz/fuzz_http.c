/* HTTP connections, cut in every way: what is read from a stream must not depend on how it arrives.
 * On the way, every target, query, form and media type is taken apart too. An input is a byte of
 * settings, a byte that seeds the cuts, and the stream. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "proto/etcd.h"
#include "proto/http.h"
#include "tests/fuzz/fuzz.h"

/* One stream: how it is cut, and the result of parsing it. */
struct reading {
    struct slice stream;
    size_t head_max;
    struct http_parser parser;
    uint32_t seed;    /* of the cuts; 0 gives everything at once */
    uint64_t digest;  /* of all that was read */
    size_t count;     /* of heads */
    size_t end;       /* how much of the stream was used up */
    const char *last; /* why it ended */
};

static uint32_t next_random(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 16;
}

static void add_bytes(struct reading *r, struct slice s)
{
    for (size_t i = 0; i < s.len; i++)
        r->digest = (r->digest ^ s.ptr[i]) * 1099511628211u;
}

static void add_number(struct reading *r, uint64_t n)
{
    uint8_t bytes[8];

    bytes_put_u64(bytes, n);
    add_bytes(r, (struct slice){bytes, sizeof bytes});
}

static void add_slice(struct reading *r, struct slice s, struct slice in)
{
    CHECK(s.len == 0 || (s.ptr >= in.ptr && s.ptr + s.len <= in.ptr + in.len));
    add_number(r, s.len);
    add_bytes(r, s);
}

/* Memory of the exact size, for ASan. */
static uint8_t *room(size_t len)
{
    uint8_t *bytes = malloc(len == 0 ? 1 : len);

    CHECK(bytes != NULL);
    return bytes;
}

static struct slice copy(struct slice s)
{
    uint8_t *bytes = room(s.len);

    if (s.len > 0)
        memcpy(bytes, s.ptr, s.len);
    return (struct slice){bytes, s.len};
}

/* Feeds a few more bytes; repeated calls feed the whole stream. */
static size_t more(struct reading *r, size_t have)
{
    size_t all = r->stream.len - r->end;
    size_t step = r->seed == 0 ? all : 1 + next_random(&r->seed) % 9;

    return step > all - have ? all : have + step;
}

static struct slice arrive(const struct reading *r, size_t have)
{
    return copy((struct slice){r->stream.ptr + r->end, have});
}

/* A clean path is clean, and escaping and cleaning it again changes nothing. */
static void check_path(struct slice escaped)
{
    uint8_t *out = room(escaped.len + 1), *again, *text;
    bool moved;
    struct slice clean = url_clean_path(escaped, out, &moved), twice;
    struct writer w = {0};
    struct url_target target;

    CHECK(clean.ptr == out && clean.len > 0 && clean.len <= escaped.len + 1 && out[0] == '/');
    url_write_location(&w, clean, (struct slice){0});
    CHECK(w.len <= 3 * clean.len);
    text = room(w.len);
    w = (struct writer){.ptr = text, .cap = w.len};
    url_write_location(&w, clean, (struct slice){0});
    CHECK(w.len == w.cap);
    CHECK(url_parse_target((struct slice){text, w.len}, false, &target));
    CHECK(target.query.len == 0 && target.host.len == 0 && target.path.len == w.len);

    again = room(w.len + 1);
    twice = url_clean_path(target.path, again, &moved);
    CHECK(!moved && slice_equal(twice, clean));
    w = (struct writer){0};
    url_write_moved_page(&w, clean, (struct slice){0});
    free(again);
    free(text);
    free(out);
}

/* Names and values come out in the size that was announced, in place or not. */
static void check_form(struct reading *r, struct slice form)
{
    struct url_error why;
    struct slice rest = form;
    struct url_param p;

    if (!url_check_form(form, &why)) {
        CHECK(memchr(why.text, 0, sizeof why.text) != NULL);
        add_bytes(r, slice_str(why.text));
        return;
    }
    while (url_next_param(&rest, &p)) {
        size_t len = url_value_len(p.value);
        uint8_t *out = room(len);
        struct slice value = url_unescape_value(p.value, out), in_place = copy(p.value), found;

        CHECK(p.name.len + p.value.len <= form.len && value.len == len && len <= p.value.len);
        CHECK(slice_equal(url_unescape_value(in_place, (uint8_t *)in_place.ptr), value));
        add_bytes(r, value);
        if (url_find_param(form, "value", &found))
            add_slice(r, found, form);
        free((void *)in_place.ptr);
        free(out);
    }
}

static void note_head(struct reading *r, const struct http_head *h, struct slice in)
{
    const struct slice slices[] = {
        h->method_text, h->target_text,  h->target.host,   h->target.path, h->target.query,
        h->host,        h->content_type, h->authorization, h->origin,      h->headers,
    };
    struct slice rest = h->headers;
    struct http_header header;

    for (size_t i = 0; i < sizeof slices / sizeof *slices; i++)
        add_slice(r, slices[i], in);
    while (http_next_header(&rest, &header)) {
        add_slice(r, header.name, in);
        add_slice(r, header.value, in);
        CHECK(header.name.len > 0);
    }
    CHECK(rest.len == 0);
    add_number(r, (uint64_t)h->method << 32 | h->minor << 16 | (uint64_t)h->body << 8 |
                      (uint64_t)h->expect << 4 | (uint64_t)h->keep_alive << 1 |
                      (uint64_t)h->target.asterisk);
    add_number(r, h->content_length);
    CHECK((h->body == HTTP_BODY_LENGTH) == (h->content_length > 0));
    check_path(h->target.path);
    check_form(r, h->target.query);
    add_number(r, etcd_has_form(h->method, h->content_type));
    r->count++;
}

/* The next head, whose slices are gone when this returns; false at the end of what can be read. */
static bool read_head(struct reading *r, struct http_head *head)
{
    size_t all = r->stream.len - r->end, have = 0;
    struct http_refusal why;

    while (have < all) {
        struct slice in;
        size_t size = 0;
        enum parse_result result;

        have = more(r, have);
        in = arrive(r, have);
        result = http_parse_head(&r->parser, in, r->head_max, head, &size, &why);
        if (result == PARSE_DONE) {
            CHECK(size > 0 && size <= have && size <= r->head_max);
            note_head(r, head, (struct slice){in.ptr, size});
            r->end += size;
        } else if (result == PARSE_MORE) {
            CHECK(size > have && size <= r->head_max);
            http_refuse_unfinished(&r->parser, in, &why);
        }
        free((void *)in.ptr);
        if (result != PARSE_MORE) {
            r->last = result == PARSE_BAD ? why.reason : NULL;
            return result == PARSE_DONE;
        }
    }
    r->last = all == 0 ? "end of stream" : why.reason;
    return false;
}

/* A chunked body, whose form data is looked at when it is whole. */
static bool read_chunks(struct reading *r)
{
    struct http_chunks chunks = {0};
    uint8_t *body = room(r->stream.len);
    size_t body_len = 0, have = 0;
    enum parse_result result = PARSE_MORE;
    struct slice data = {0};

    do {
        size_t before = have, size = 0;
        struct slice in;
        const char *why = NULL;

        if (result == PARSE_MORE)
            have = more(r, have);
        in = arrive(r, have);
        data = (struct slice){0};
        if (result == PARSE_MORE && have == before) {
            r->last = "unfinished body";
            free((void *)in.ptr);
            break;
        }
        result = http_next_chunk(&chunks, in, &data, &size, &why);
        CHECK(size <= have);
        if (result == PARSE_DONE && data.len > 0) {
            CHECK(data.ptr >= in.ptr && data.ptr + data.len == in.ptr + size);
            memcpy(body + body_len, data.ptr, data.len);
            body_len += data.len;
        }
        free((void *)in.ptr);
        if (result == PARSE_BAD) {
            CHECK(why != NULL);
            r->last = why;
            r->end = r->stream.len; /* the connection is lost, and how much was used up with it */
            break;
        }
        r->end += size;
        have -= size;
    } while (result == PARSE_MORE || data.len > 0);

    add_bytes(r, (struct slice){body, body_len});
    if (result == PARSE_DONE)
        check_form(r, (struct slice){body, body_len});
    free(body);
    return result == PARSE_DONE;
}

static bool read_length(struct reading *r, uint64_t len)
{
    size_t all = r->stream.len - r->end;
    struct slice body = {r->stream.ptr + r->end, len < all ? (size_t)len : all};

    check_form(r, body);
    r->end += body.len;
    r->last = "unfinished body";
    return len <= all;
}

static void read_stream(struct reading *r)
{
    struct http_head head;
    bool good = true;

    while (good && read_head(r, &head)) {
        if (head.body == HTTP_BODY_CHUNKED)
            good = read_chunks(r);
        else if (head.body == HTTP_BODY_LENGTH)
            good = read_length(r, head.content_length);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const size_t head_max[] = {HTTP_HEAD_MAX, 64, 256, 24};
    struct reading whole = {0}, parts;

    if (size < 2)
        return 0;
    whole.stream = (struct slice){data + 2, size - 2};
    whole.head_max = head_max[data[0] & 3];
    whole.parser.later = (data[0] & 4) != 0;
    whole.parser.after_post = (data[0] & 8) != 0;
    parts = whole;
    parts.seed = data[1] + 1u;

    read_stream(&whole);
    read_stream(&parts);
    CHECK(whole.count == parts.count);
    CHECK(whole.end == parts.end);
    CHECK(whole.digest == parts.digest);
    CHECK(strcmp(whole.last, parts.last) == 0);
    return 0;
}
