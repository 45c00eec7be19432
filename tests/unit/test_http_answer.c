/* Heads of answers: what they say, what is refused since its end could be taken for two places, and
 * every way in which a network may cut them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "proto/http_answer.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define MAX      512u
#define S        "HTTP/1.1 200 OK\r\n"

static const struct good {
    const char *in;
    bool to_head;
    unsigned status, minor;
    enum http_body body;
    uint64_t length;
    bool keep_alive;
    const char *reason;
} good[] = {
    {S "Content-Length: 5\r\n\r\n", false, 200, 1, HTTP_BODY_LENGTH, 5, true, "OK"},
    {S "content-length:5\n\n", false, 200, 1, HTTP_BODY_LENGTH, 5, true, "OK"},
    {S "Content-Length: 0\r\n\r\n", false, 200, 1, HTTP_BODY_NONE, 0, true, "OK"},
    {S "Content-Length: 5\r\nContent-Length: 5\r\n\r\n", false, 200, 1, HTTP_BODY_LENGTH, 5, true,
     "OK"},
    {S "Transfer-Encoding: Chunked\r\n\r\n", false, 200, 1, HTTP_BODY_CHUNKED, 0, true, "OK"},
    {S "Connection: a, Close\r\nContent-Length: 1\r\n\r\n", false, 200, 1, HTTP_BODY_LENGTH, 1,
     false, "OK"},
    {"HTTP/1.0 404 Not Found\r\nContent-Length: 1\r\n\r\n", false, 404, 0, HTTP_BODY_LENGTH, 1,
     false, "Not Found"},
    {"HTTP/1.1 100 Continue\r\n\r\n", false, 100, 1, HTTP_BODY_NONE, 0, true, "Continue"},
    {"HTTP/1.1 204 No Content\r\n\r\n", false, 204, 1, HTTP_BODY_NONE, 0, true, "No Content"},
    {"HTTP/1.1 304 \r\n\r\n", false, 304, 1, HTTP_BODY_NONE, 0, true, ""},
    {"HTTP/1.1 503\r\nContent-Length: 0\r\n\r\n", false, 503, 1, HTTP_BODY_NONE, 0, true, ""},
    {S "Content-Length: 5\r\n\r\n", true, 200, 1, HTTP_BODY_NONE, 5, true, "OK"},
    {S "Transfer-Encoding: chunked\r\n\r\n", true, 200, 1, HTTP_BODY_NONE, 0, true, "OK"},
    {S "\r\n", true, 200, 1, HTTP_BODY_NONE, 0, true, "OK"},
};

static const struct bad {
    const char *name, *in;
} bad[] = {
    {"no answer", "GET / HTTP/1.1\r\n\r\n"},
    {"another version", "HTTP/2.0 200 OK\r\n\r\n"},
    {"two digits", "HTTP/1.1 20 OK\r\n\r\n"},
    {"four digits", "HTTP/1.1 2000 OK\r\n\r\n"},
    {"a status below 100", "HTTP/1.1 099 OK\r\nContent-Length: 0\r\n\r\n"},
    {"no status", "HTTP/1.1\r\n\r\n"},
    {"no end of the body", S "\r\n"},
    {"two lengths", S "Content-Length: 5\r\nContent-Length: 6\r\n\r\n"},
    {"a list of lengths", S "Content-Length: 5, 5\r\n\r\n"},
    {"a signed length", S "Content-Length: +5\r\n\r\n"},
    {"an empty length", S "Content-Length:\r\n\r\n"},
    {"a length beyond 63 bits", S "Content-Length: 9223372036854775808\r\n\r\n"},
    {"length and chunks", S "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"},
    {"chunks and length", S "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n"},
    {"another encoding", S "Transfer-Encoding: gzip\r\n\r\n"},
    {"two encodings", S "Transfer-Encoding: gzip, chunked\r\n\r\n"},
    {"chunked twice", S "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n"},
    {"chunks in HTTP/1.0", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"},
    {"no colon", S "Content-Length 5\r\n\r\n"},
    {"no name", S ": x\r\nContent-Length: 5\r\n\r\n"},
    {"a folded line", S "Content-Length: 5\r\n 6\r\n\r\n"},
    {"a folded first line", S " A: b\r\nContent-Length: 5\r\n\r\n"},
    {"half a line end", S "A: b\rContent-Length: 5\r\nContent-Length: 5\r\n\r\n"},
};

/* Shown byte by byte, in copies of exactly that size, from `first` bytes on. */
static enum parse_result parse(const char *text, size_t first, size_t step, bool to_head,
                               struct http_answer *out, size_t *size, uint8_t **kept)
{
    size_t len = strlen(text), searched = 0;
    enum parse_result result = PARSE_MORE;

    for (size_t n = first; result == PARSE_MORE && n <= len;
         n = n < len && n + step > len ? len : n + step) {
        free(*kept);
        *kept = malloc(n);
        assert_non_null(*kept);
        memcpy(*kept, text, n);
        result = http_parse_answer((struct slice){*kept, n}, MAX, to_head, &searched, out, size);
    }
    return result;
}

static void test_good(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(good); i++) {
        const struct good *g = &good[i];
        size_t len = strlen(g->in);

        for (size_t first = 1; first <= len; first++) {
            struct http_answer a;
            uint8_t *kept = NULL;
            size_t size = 0;

            assert_int_equal(parse(g->in, first, first % 5 + 1, g->to_head, &a, &size, &kept),
                             PARSE_DONE);
            assert_int_equal(size, len);
            assert_int_equal(a.status, g->status);
            assert_int_equal(a.minor, g->minor);
            assert_int_equal(a.body, g->body);
            assert_int_equal(a.content_length, g->length);
            assert_int_equal(a.keep_alive, g->keep_alive);
            assert_true(slice_is(a.reason, g->reason));
            free(kept);
        }
    }
}

static void test_bad(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        for (size_t first = 1; first <= strlen(bad[i].in); first++) {
            struct http_answer a = {.status = 7};
            uint8_t *kept = NULL;
            size_t size = 0;

            if (parse(bad[i].in, first, 3, false, &a, &size, &kept) != PARSE_BAD)
                fail_msg("%s: not refused, shown from %zu bytes on", bad[i].name, first);
            assert_int_equal(a.status, 7);
            free(kept);
        }
    }
}

static void test_index(void **state)
{
    struct http_answer a;
    uint8_t *kept = NULL;
    size_t size;

    (void)state;
    parse(S "Content-Length: 1\r\nX-ETCD-Index: 18446744073709551615\r\n\r\nx", 1, 1, false, &a,
          &size, &kept);
    assert_true(a.has_index && a.etcd_index == UINT64_MAX);
    parse(S "Content-Length: 1\r\nX-Etcd-Index: x\r\n\r\n", 1, 1, false, &a, &size, &kept);
    assert_false(a.has_index);
    free(kept);
}

/* A head longer than the limit is refused, complete or not. */
static void test_limit(void **state)
{
    static const char rest[] = "\r\nContent-Length: 0\r\n\r\n";
    char text[MAX + 64];
    struct http_answer a;
    size_t size, searched;

    (void)state;
    for (size_t over = 0; over < 2; over++) {
        size_t fill = MAX + over - (sizeof rest - 1) - (sizeof S - 1) - 3;

        memcpy(text, S "A: ", sizeof S - 1 + 3);
        memset(text + sizeof S - 1 + 3, 'x', fill);
        memcpy(text + sizeof S - 1 + 3 + fill, rest, sizeof rest - 1);
        searched = 0;
        assert_int_equal(http_parse_answer((struct slice){(uint8_t *)text, MAX + over}, MAX, false,
                                           &searched, &a, &size),
                         over ? PARSE_BAD : PARSE_DONE);
        searched = 0;
        assert_int_equal(http_parse_answer((struct slice){(uint8_t *)text, MAX - 1 + over}, MAX,
                                           false, &searched, &a, &size),
                         over ? PARSE_BAD : PARSE_MORE);
    }
}

static void test_names(void **state)
{
    (void)state;
    assert_true(http_is_hop_by_hop(slice_str("Keep-ALIVE")));
    assert_true(http_is_hop_by_hop(slice_str("te")));
    assert_false(http_is_hop_by_hop(slice_str("t")));
    assert_false(http_is_hop_by_hop(slice_str("tee")));
    assert_true(http_list_names(slice_str("a , B"), slice_str("b")));
    assert_false(http_list_names(slice_str("ab"), slice_str("a")));
    assert_false(http_list_names(slice_str(","), slice_str("")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),  cmocka_unit_test(test_bad),   cmocka_unit_test(test_index),
        cmocka_unit_test(test_limit), cmocka_unit_test(test_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
