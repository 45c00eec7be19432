/* Chunked bodies against what etcd 3.4.23 (Go 1.19) made of the same bytes on a raw socket, and
 * against every way in which a network may cut them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "proto/http.h"
#include "tests/unit/exact.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define BYTES(s)                            \
    {                                       \
        (const uint8_t *)(s), sizeof(s) - 1 \
    }

#define END "0\r\n\r\n"

/* Chunked bodies, and what etcd made of them: the value that it stored or the cause of its error
 * 210. `rest` is how many bytes belong to the next request. */
static const struct chunked {
    const char *name;
    struct slice in;
    const char *body;
    const char *why;
    size_t rest;
} chunked[] = {
    {"one chunk", BYTES("7\r\nvalue=z\r\n" END), "value=z", NULL, 0},
    {"two chunks", BYTES("6\r\nvalue=\r\n1\r\nz\r\n" END), "value=z", NULL, 0},
    {"nothing", BYTES(END), "", NULL, 0},
    {"a request behind it", BYTES("1\r\na\r\n" END "GET"), "a", NULL, 3},
    {"extensions", BYTES("1;a=b;c=\"d\"\r\na\r\n0;x\r\n\r\n"), "a", NULL, 0},
    {"blanks behind the size", BYTES("1 \t\r\na\r\n" END), "a", NULL, 0},
    {"line feed behind the size", BYTES("1\na\r\n0\n\r\n"), "a", NULL, 0},
    {"upper-case size", BYTES("A\r\n0123456789\r\n" END), "0123456789", NULL, 0},
    {"digits at the ends",
     BYTES("09\r\n012345678\r\n0f\r\n012345678901234\r\n0F\r\n012345678901234"
           "\r\n" END),
     "012345678012345678901234012345678901234", NULL, 0},
    {"lower-case size", BYTES("a\r\n0123456789\r\n" END), "0123456789", NULL, 0},
    {"sixteen digits", BYTES("0000000000000001\r\na\r\n" END), "a", NULL, 0},
    {"empty size is the last chunk", BYTES("1\r\na\r\n\r\n\r\nG"), "a", NULL, 1},
    {"trailers", BYTES("1\r\na\r\n0\r\nA: b\r\nC: d\r\n e\r\n\r\nG"), "a", NULL, 1},
    {"trailers that end in line feeds", BYTES("1\r\na\r\n0\r\nA: b\n\nGET\r\n\r\n"), "a", NULL, 7},
    {"trailers of one line feed", BYTES("1\r\na\r\n0\r\n\nGET\r\n\r\n"), "a", NULL, 7},
    {"blank before an extension", BYTES("1 ;a\r\na\r\n" END), "", "invalid byte in chunk length",
     0},
    {"blank before the size", BYTES(" 1\r\na\r\n" END), "", "invalid byte in chunk length", 0},
    {"hexadecimal prefix", BYTES("0x1\r\na\r\n" END), "", "invalid byte in chunk length", 0},
    {"sign", BYTES("-1\r\na\r\n" END), "", "invalid byte in chunk length", 0},
    {"bad size behind data", BYTES("1\r\na\r\nxyz\r\n"), "a", "invalid byte in chunk length", 0},
    {"seventeen digits", BYTES("00000000000000001\r\na\r\n"), "", "http chunk length too large", 0},
    {"line feed behind the data", BYTES("1\r\na\n0\r\n"), "a", "malformed chunked encoding", 0},
    {"half a line end behind the data", BYTES("1\r\na\r0\r\n"), "a", "malformed chunked encoding",
     0},
    {"letter behind F", BYTES("g\r\n"), "", "invalid byte in chunk length", 0},
    {"more data than announced", BYTES("1\r\nazz\r\n"), "a", "malformed chunked encoding", 0},
    {"trailer without a colon", BYTES("0\r\nA b\r\n\r\n"), "", /* Go quotes the line, too */
     "malformed MIME header: missing colon", 0},
    {"blank before the first trailer", BYTES("0\r\n A: b\r\n\r\n"), "",
     "malformed MIME header initial line", 0},
};

/* Gives a body to the reader in pieces that end at `cut` and then every `step` bytes. */
static void read_chunked(const struct chunked *c, size_t cut, size_t step)
{
    struct http_chunks chunks = {0};
    size_t at = 0, have = cut;
    char body[64] = "";
    const char *why = NULL;

    for (;;) {
        struct slice part = exact(c->in.ptr + at, have - at), data;
        size_t size = 0;
        enum parse_result result = http_next_chunk(&chunks, part, &data, &size, &why);

        if (result == PARSE_DONE && data.len > 0) {
            assert_ptr_equal(data.ptr + data.len, part.ptr + size);
            strncat(body, (const char *)data.ptr, data.len);
        }
        exact_free(part);
        assert_in_range(size, 0, have - at);
        if (result == PARSE_BAD)
            break;
        at += size;
        if (result == PARSE_DONE && data.len == 0)
            break;
        if (result == PARSE_MORE) {
            if (have == c->in.len)
                fail_msg("%s, cut at %zu: asks for more", c->name, cut);
            have = have + step < c->in.len ? have + step : c->in.len;
        }
    }
    if ((why == NULL) != (c->why == NULL) || (why != NULL && strcmp(why, c->why) != 0))
        fail_msg("%s, cut at %zu: %s", c->name, cut, why == NULL ? "taken" : why);
    if (strcmp(body, c->body) != 0)
        fail_msg("%s, cut at %zu: body \"%s\"", c->name, cut, body);
    if (why == NULL && c->in.len - at != c->rest)
        fail_msg("%s, cut at %zu: ends at %zu", c->name, cut, at);
}

static void every_split_of_a_chunked_body_gives_the_same(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(chunked); i++) {
        for (size_t cut = 0; cut <= chunked[i].in.len; cut++) {
            for (size_t step = 1; step <= chunked[i].in.len; step++)
                read_chunked(&chunked[i], cut, step);
        }
    }
}

/* `before`, then x's up to `len` bytes, then `after`. */
static enum parse_result read_padded(const char *before, size_t len, const char *after,
                                     const char **why)
{
    static uint8_t bytes[8192];
    struct http_chunks whole = {0}, single = {0};
    struct writer w = {.ptr = bytes, .cap = sizeof bytes};
    struct slice data;
    size_t size = 0, at = 0;
    enum parse_result result, again = PARSE_MORE;
    const char *why_again = NULL;

    writer_str(&w, before);
    while (w.len < len)
        writer_u8(&w, 'x');
    writer_str(&w, after);
    *why = NULL;
    result = http_next_chunk(&whole, (struct slice){bytes, w.len}, &data, &size, why);
    for (size_t have = 1; have <= w.len && again == PARSE_MORE; have++) {
        again = http_next_chunk(&single, (struct slice){bytes + at, have - at}, &data, &size,
                                &why_again);
        at += again == PARSE_BAD ? 0 : size;
    }
    assert_int_equal(again, result);
    assert_ptr_equal(why_again, *why);
    return result;
}

/* Observed limits of Go: it reads a size line of 4095 bytes and trailers of 4096 bytes, and refuses
 * one byte more. */
static void lines_and_trailers_of_chunks_have_limits(void **state)
{
    const char *why;

    (void)state;
    assert_int_equal(read_padded("1;", 4093, "\r\na", &why), PARSE_DONE);
    assert_int_equal(read_padded("1;", 4094, "\r\na", &why), PARSE_BAD);
    assert_string_equal(why, "header line too long");
    assert_int_equal(read_padded("1;", 4095, "", &why), PARSE_MORE);
    assert_int_equal(read_padded("1;", 4096, "", &why), PARSE_BAD);
    assert_string_equal(why, "header line too long");
    assert_int_equal(read_padded("0\r\nA:", 3 + 4092, "\r\n\r\n", &why), PARSE_DONE);
    assert_int_equal(read_padded("0\r\nA:", 3 + 4093, "\r\n\r\n", &why), PARSE_BAD);
    assert_string_equal(why, "http: suspiciously long trailer after chunked body");
    assert_int_equal(read_padded("0\r\nA:", 3 + 4095, "", &why), PARSE_MORE);
    assert_int_equal(read_padded("0\r\nA:", 3 + 4096, "", &why), PARSE_BAD);
}

/* A chunk may announce any 64-bit size; it costs nothing until the bytes come. */
static void a_huge_chunk_is_read_as_it_comes(void **state)
{
    static const struct slice in = BYTES("FFFFFFFFFFFFFFFF\r\nabc");
    struct http_chunks c = {0};
    struct slice data;
    size_t size;
    const char *why;

    (void)state;
    assert_int_equal(http_next_chunk(&c, in, &data, &size, &why), PARSE_DONE);
    assert_true(slice_is(data, "abc"));
    assert_true(c.left == UINT64_MAX - 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_split_of_a_chunked_body_gives_the_same),
        cmocka_unit_test(lines_and_trailers_of_chunks_have_limits),
        cmocka_unit_test(a_huge_chunk_is_read_as_it_comes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
