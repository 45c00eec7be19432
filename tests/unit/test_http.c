/* The HTTP parser against tables of what etcd 3.4.23 (Go 1.19) did with the same bytes on a raw
 * socket, and against every way in which a network may cut them. */
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

static struct slice first(struct slice s, size_t len)
{
    return (struct slice){s.ptr, len};
}

/* A connection's first request is also seen by etcd's port sniffer; a later one is not. */
enum place {
    FIRST,
    LATER,
    AFTER_POST,
};

static struct http_parser parser_at(enum place place)
{
    return (struct http_parser){.later = place != FIRST, .after_post = place == AFTER_POST};
}

/* What a head says, in one line. */
static void describe(const struct http_head *h, char *out, size_t cap)
{
    static const char *const expects[] = {
        [HTTP_EXPECT_NOTHING] = "", [HTTP_EXPECT_CONTINUE] = " +100", [HTTP_EXPECT_OTHER] = " 417"};
    char body[32] = "";

    if (h->body == HTTP_BODY_LENGTH)
        snprintf(body, sizeof body, " body=%llu", (unsigned long long)h->content_length);
    else if (h->body == HTTP_BODY_CHUNKED)
        snprintf(body, sizeof body, " chunked");
    snprintf(out, cap, "%d 1.%u %s%s%s host=%.*s path=%.*s query=%.*s", (int)h->method, h->minor,
             h->keep_alive ? "keep" : "close", body, expects[h->expect], (int)h->host.len,
             (const char *)h->host.ptr, (int)h->target.path.len, (const char *)h->target.path.ptr,
             (int)h->target.query.len, (const char *)h->target.query.ptr);
}

/* One answer of the parser, so that two can be compared after the input is gone. */
struct verdict {
    enum parse_result result;
    size_t size;
    char text[512];
};

static struct verdict parse(struct http_parser *p, struct slice in)
{
    struct verdict v = {0};
    struct http_head head;
    struct http_refusal why;

    v.result = http_parse_head(p, in, HTTP_HEAD_MAX, &head, &v.size, &why);
    if (v.result == PARSE_DONE)
        describe(&head, v.text, sizeof v.text);
    else if (v.result == PARSE_BAD)
        snprintf(v.text, sizeof v.text, "%s|%s", why.silent ? "silent" : why.status,
                 why.silent ? "" : why.body);
    return v;
}

/* The same, with a new parser and on a copy. */
static struct verdict parse_copy(enum place place, struct slice in)
{
    struct http_parser p = parser_at(place);
    struct slice part = exact(in.ptr, in.len);
    struct verdict v = parse(&p, part);

    exact_free(part);
    return v;
}

static void check_verdict(const char *name, size_t cut, struct verdict got,
                          enum parse_result result, const char *text)
{
    if (got.result != result || strcmp(got.text, text) != 0)
        fail_msg("%s, cut at %zu: result %d \"%s\", not %d \"%s\"", name, cut, (int)got.result,
                 got.text, (int)result, text);
}

#define HOST "Host: x\r\n"
#define GET  "GET /v2/keys/a HTTP/1.1\r\n"
#define PUT  "PUT /v2/keys/a HTTP/1.1\r\n" HOST

/* Answered by etcd's handlers, all with status 200 but where a comment says so. */
static const struct accepted {
    const char *name;
    struct slice in;
    const char *head; /* method (HTTP_GET is 1) and what follows, as describe() says it */
} accepted[] = {
    {"plain", BYTES(GET HOST "\r\n"), "1 1.1 keep host=x path=/v2/keys/a query="},
    {"query", BYTES("GET /a?b=c?d HTTP/1.1\r\n" HOST "\r\n"),
     "1 1.1 keep host=x path=/a query=b=c?d"},
    {"bare line feeds", BYTES("GET /a HTTP/1.1\nHost: x\n\n"), "1 1.1 keep host=x path=/a query="},
    {"no Host in 1.0, which does not keep alive", BYTES("GET /a HTTP/1.0\r\n\r\n"),
     "1 1.0 close host= path=/a query="},
    {"1.0 keep-alive", BYTES("GET /a HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n"),
     "1 1.0 keep host= path=/a query="},
    {"1.0 keep-alive and close: keeps", /* seen: Connection: keep-alive in the answer */
     BYTES("GET /a HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n"),
     "1 1.0 keep host= path=/a query="},
    {"1.0 keep-alive in a second header: closes",
     BYTES("GET /a HTTP/1.0\r\nConnection: x\r\nConnection: keep-alive\r\n\r\n"),
     "1 1.0 close host= path=/a query="},
    {"HTTP/1.2 is taken for 1.1", BYTES("GET /a HTTP/1.2\r\n" HOST "\r\n"),
     "1 1.2 keep host=x path=/a query="},
    {"close", BYTES(GET HOST "Connection: close\r\n\r\n"),
     "1 1.1 close host=x path=/v2/keys/a query="},
    {"close in a list, any case", BYTES(GET HOST "connection: Keep-Alive, Close\r\n\r\n"),
     "1 1.1 close host=x path=/v2/keys/a query="},
    {"close after a space", BYTES(GET HOST "Connection: foo close\r\n\r\n"),
     "1 1.1 close host=x path=/v2/keys/a query="},
    {"close in a second header", BYTES(GET HOST "Connection: foo\r\nConnection: close\r\n\r\n"),
     "1 1.1 close host=x path=/v2/keys/a query="},
    {"close in a folded header", BYTES(GET HOST "Connection: foo,\r\n\tclose\r\n\r\n"),
     "1 1.1 close host=x path=/v2/keys/a query="},
    {"closed is not close", BYTES(GET HOST "Connection: closed, \"close\"\r\n\r\n"),
     "1 1.1 keep host=x path=/v2/keys/a query="},
    {"empty Host", BYTES(GET "Host:\r\n\r\n"), "1 1.1 keep host= path=/v2/keys/a query="},
    {"folded Host", BYTES(GET "Host:\r\n x\r\n\r\n"), "1 1.1 keep host=x path=/v2/keys/a query="},
    {"all kinds of bytes in Host", BYTES(GET "Host: 09azAZ!$%&'()*+,-.:;=[]_~\r\n\r\n"),
     "1 1.1 keep host=09azAZ!$%&'()*+,-.:;=[]_~ path=/v2/keys/a query="},
    {"header without a name", BYTES(GET HOST ": y\r\n\r\n"),
     "1 1.1 keep host=x path=/v2/keys/a query="},
    {"tab and high bytes in a value", BYTES(GET HOST "Foo: a\tb\xff\x80\r\n\r\n"),
     "1 1.1 keep host=x path=/v2/keys/a query="},
    {"folded header", BYTES(GET HOST "Foo: a\r\n  b\r\n\r\n"),
     "1 1.1 keep host=x path=/v2/keys/a query="},
    {"lower-case method", BYTES("get /a HTTP/1.1\r\n" HOST "\r\n"), /* 405 */
     "0 1.1 keep host=x path=/a query="},
    {"unknown method", BYTES("FOO /a HTTP/1.1\r\n" HOST "\r\n"), /* 405 */
     "0 1.1 keep host=x path=/a query="},
    {"high bytes in the target", BYTES("GET /\xc3\xa9 HTTP/1.1\r\n" HOST "\r\n"), /* 404 */
     "1 1.1 keep host=x path=/\xc3\xa9 query="},
    {"fragment is path", BYTES("GET /a#b HTTP/1.1\r\n" HOST "\r\n"), /* 404, key a#b */
     "1 1.1 keep host=x path=/a#b query="},
    {"absolute target", BYTES("GET http://u:p@h:1/a?b HTTP/1.1\r\n" HOST "\r\n"),
     "1 1.1 keep host=h:1 path=/a query=b"},
    {"absolute target without a path", BYTES("GET http://h HTTP/1.1\r\n" HOST "\r\n"), /* 301 / */
     "1 1.1 keep host=h path= query="},
    {"opaque target", BYTES("GET foo:bar HTTP/1.1\r\n" HOST "\r\n"), /* 301 / */
     "1 1.1 keep host=x path= query="},
    {"double slash is no host", BYTES("GET //a/b HTTP/1.1\r\n" HOST "\r\n"), /* 301 /a/b */
     "1 1.1 keep host=x path=//a/b query="},
    {"CONNECT needs no Host", BYTES("CONNECT h:1 HTTP/1.1\r\n\r\n"), /* 404 */
     "7 1.1 keep host=h:1 path= query="},
    {"CONNECT with a path", BYTES("CONNECT h/a HTTP/1.1\r\n\r\n"), /* 405 */
     "7 1.1 keep host=h path=/a query="},
    {"OPTIONS *", BYTES("OPTIONS * HTTP/1.1\r\n" HOST "\r\n"), "6 1.1 keep host=x path=* query="},
    {"PUT without a length", BYTES(PUT "\r\n"), "3 1.1 keep host=x path=/v2/keys/a query="},
    {"empty length", BYTES(PUT "Content-Length:\r\n\r\n"),
     "3 1.1 keep host=x path=/v2/keys/a query="},
    {"many zeros", BYTES(PUT "Content-Length: 00000000000000000000000000\r\n\r\n"),
     "3 1.1 keep host=x path=/v2/keys/a query="},
    {"largest length", BYTES(PUT "Content-Length: 9223372036854775807\r\n\r\n"),
     "3 1.1 keep body=9223372036854775807 host=x path=/v2/keys/a query="},
    {"the same length twice", BYTES(PUT "Content-Length: 1\r\nContent-Length: 1\r\n\r\n"),
     "3 1.1 keep body=1 host=x path=/v2/keys/a query="},
    {"chunked beats a length", BYTES(PUT "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"),
     "3 1.1 keep chunked host=x path=/v2/keys/a query="},
    {"chunked beats a bad length",
     BYTES(PUT "Content-Length: x\r\nTransfer-Encoding: Chunked\r\n\r\n"),
     "3 1.1 keep chunked host=x path=/v2/keys/a query="},
    {"control byte in a Trailer that is used up",
     BYTES(PUT "Transfer-Encoding: chunked\r\nTrailer: a\x01\r\n\r\n"),
     "3 1.1 keep chunked host=x path=/v2/keys/a query="},
    {"1.0 knows no Transfer-Encoding",
     BYTES("PUT /a HTTP/1.0\r\nTransfer-Encoding: gzip\r\nContent-Length: 2\r\n\r\n"),
     "3 1.0 close body=2 host= path=/a query="},
    {"bad trailer name, not chunked", BYTES(PUT "Trailer: a, content-length\r\n\r\n"),
     "3 1.1 keep host=x path=/v2/keys/a query="},
    {"100-continue", BYTES(PUT "Expect: 100-Continue\r\nContent-Length: 7\r\n\r\n"),
     "3 1.1 keep body=7 +100 host=x path=/v2/keys/a query="},
    {"100-continue for a chunked body",
     BYTES(PUT "Expect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n"),
     "3 1.1 keep chunked +100 host=x path=/v2/keys/a query="},
    {"100-continue among others", BYTES(PUT "Expect: a 100-continue\r\nContent-Length: 1\r\n\r\n"),
     "3 1.1 keep body=1 +100 host=x path=/v2/keys/a query="},
    {"100-continue without a body", BYTES(PUT "Expect: 100-continue\r\n\r\n"),
     "3 1.1 keep host=x path=/v2/keys/a query="},
    {"100-continue in 1.0",
     BYTES("PUT /a HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 7\r\n\r\n"),
     "3 1.0 close body=7 host= path=/a query="},
    {"another expectation", BYTES(PUT "Expect: foo\r\nContent-Length: 7\r\n\r\n"), /* 417 */
     "3 1.1 keep body=7 417 host=x path=/v2/keys/a query="},
    {"empty expectation", BYTES(PUT "Expect:\r\n\r\n"), "3 1.1 keep host=x path=/v2/keys/a query="},
};

#define R400(text) "400 Bad Request" text "|400 Bad Request" text
#define R400_PLAIN R400("")
#define R400_HOST  R400(": missing required Host header")
#define R400_BAD   R400(": malformed Host header")
#define R400_NAME  R400(": invalid header name")
#define R400_VALUE R400(": invalid header value")
#define R501       "501 Not Implemented|Unsupported transfer encoding"
#define R505_TEXT  "505 HTTP Version Not Supported: unsupported protocol version"
#define R505       R505_TEXT "|" R505_TEXT
#define SILENT     "silent|"

/* What etcd answered before it closed the connection, without waiting for more than these bytes. */
static const struct refused {
    const char *name;
    struct slice in;
    const char *first; /* to the first request of a connection */
    const char *later; /* to a later one; NULL: the same */
} refused[] = {
    {"two words", BYTES("GET /a\r\n"), SILENT, R400_PLAIN},
    {"one word", BYTES("HELO\r\n"), SILENT, R400_PLAIN},
    {"two spaces", BYTES("GET  /a HTTP/1.1\r\n"), SILENT, R400_PLAIN},
    {"space in the target", BYTES("GET /a b HTTP/1.1\r\n"), SILENT, R400_PLAIN},
    {"tabs", BYTES("GET\t/a\tHTTP/1.1\r\n"), SILENT, R400_PLAIN},
    {"empty line first", BYTES("\r\n"), SILENT, R400_PLAIN},
    {"1.10", BYTES("GET /a HTTP/1.10\r\n"), SILENT, R400_PLAIN},
    {"lower-case version", BYTES("GET /a http/1.1\r\n"), SILENT, R400_PLAIN},
    {"no number", BYTES("GET /a HTTP/x.1\r\n"), SILENT, R400_PLAIN},
    {"space at the end", BYTES("GET /a HTTP/1.1 \r\n"), SILENT, R400_PLAIN},
    {"empty target", BYTES("GET  HTTP/1.1\r\n"), R400_PLAIN, NULL},
    {"empty method", BYTES(" /a HTTP/1.1\r\n"), R400_PLAIN, NULL},
    {"bad method", BYTES("G@T /a HTTP/1.1\r\n"), R400_PLAIN, NULL},
    {"bad escape", BYTES("GET /%zz HTTP/1.1\r\n"), R400_PLAIN, NULL},
    {"cut escape", BYTES("GET /%4 HTTP/1.1\r\n"), R400_PLAIN, NULL},
    {"control byte in the target", BYTES("GET /\x01 HTTP/1.1\r\n"), R400_PLAIN, NULL},
    {"DEL in the target", BYTES("GET /\x7f HTTP/1.1\r\n"), R400_PLAIN, NULL},
    {"relative target", BYTES("GET v2/keys HTTP/1.1\r\n"), R400_PLAIN, NULL},
    {"target begins with a colon", BYTES("GET :a HTTP/1.1\r\n"), R400_PLAIN, NULL},
    {"no colon", BYTES(GET "Foo\r\n"), R400_PLAIN, NULL},
    {"no colon in the second header", BYTES(GET HOST "Foo\r\n"), R400_PLAIN, NULL},
    {"blank before the first header", BYTES(GET " Foo: x\r\n"), R400_PLAIN, NULL},
    {"two Host headers", BYTES(GET HOST "host: y\r\n\r\n"), R400_PLAIN, NULL},
    {"no Host", BYTES(GET "\r\n"), R400_HOST, NULL},
    {"no Host in HTTP/1.9", BYTES("GET / HTTP/1.9\r\n\r\n"), R400_HOST, NULL},
    {"no Host, absolute target", BYTES("GET http://h/ HTTP/1.1\r\n\r\n"), R400_HOST, NULL},
    {"space between Host and colon", BYTES(GET "Host : x\r\n\r\n"), R400_HOST, NULL},
    {"space in Host", BYTES(GET "Host: a b\r\n\r\n"), R400_BAD, NULL},
    {"slash in Host", BYTES(GET "Host: a/b\r\n\r\n"), R400_BAD, NULL},
    {"high byte in Host", BYTES(GET "Host: \xc3\xa9\r\n\r\n"), R400_BAD, NULL},
    {"blank line folded to Host", BYTES(GET "Host: x\r\n \r\n\r\n"), R400_BAD, NULL},
    {"space before a colon", BYTES(GET HOST "Foo : y\r\n\r\n"), R400_NAME, NULL},
    {"bracket in a name", BYTES(GET HOST "Fo(o: y\r\n\r\n"), R400_NAME, NULL},
    {"high byte in a name", BYTES(GET HOST "Fo\xc3\xa9: y\r\n\r\n"), R400_NAME, NULL},
    {"control byte in a value", BYTES(GET HOST "Foo: a\x01\r\n\r\n"), R400_VALUE, NULL},
    {"DEL in a value", BYTES(GET HOST "Foo: a\x7f\r\n\r\n"), R400_VALUE, NULL},
    {"NUL in a value", BYTES(GET HOST "Foo: a\0b\r\n\r\n"), R400_VALUE, NULL},
    {"CR in a value", BYTES(GET HOST "Foo: a\rb\r\n\r\n"), R400_VALUE, NULL},
    {"CR at the end of a value", BYTES(GET HOST "Foo: a\r\r\n\r\n"), R400_VALUE, NULL},
    {"control byte in a Trailer", BYTES(PUT "Trailer: a\x01\r\n\r\n"), R400_VALUE, NULL},
    {"control byte in Connection", BYTES(PUT "Connection: \x01\r\n\r\n"), R400_VALUE, NULL},
    {"negative length", BYTES(PUT "Content-Length: -1\r\n\r\n"), R400_PLAIN, NULL},
    {"signed length", BYTES(PUT "Content-Length: +1\r\n\r\n"), R400_PLAIN, NULL},
    {"length with more behind it", BYTES(PUT "Content-Length: 1x\r\n\r\n"), R400_PLAIN, NULL},
    {"list of lengths", BYTES(PUT "Content-Length: 0, 0\r\n\r\n"), R400_PLAIN, NULL},
    {"length with an underscore", BYTES(PUT "Content-Length: 0_0\r\n\r\n"), R400_PLAIN, NULL},
    {"length of 2^63", BYTES(PUT "Content-Length: 9223372036854775808\r\n\r\n"), R400_PLAIN, NULL},
    {"lengths that differ in zeros", BYTES(PUT "Content-Length: 1\r\nContent-Length: 01\r\n\r\n"),
     R400_PLAIN, NULL},
    {"gzip", BYTES(PUT "Transfer-Encoding: gzip\r\n\r\n"), R501, NULL},
    {"gzip, chunked", BYTES(PUT "Transfer-Encoding: gzip, chunked\r\n\r\n"), R501, NULL},
    {"chunked twice", BYTES(PUT "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n"),
     R501, NULL},
    {"identity", BYTES(PUT "Transfer-Encoding: identity\r\n\r\n"), R501, NULL},
    {"empty Transfer-Encoding", BYTES(PUT "Transfer-Encoding:\r\n\r\n"), R501, NULL},
    {"blank line folded to chunked", BYTES(PUT "Transfer-Encoding: chunked\r\n \r\n\r\n"), R501,
     NULL},
    {"length announced as a trailer",
     BYTES(PUT "Transfer-Encoding: chunked\r\nTrailer: a, content-length\r\n\r\n"), R400_PLAIN,
     NULL},
};

/* Other versions: the sniffer closes at the end of the line, net/http answers behind the head. */
static const struct refused other_versions[] = {
    {"HTTP/0.9", BYTES("GET /a HTTP/0.9\r\n" HOST "\r\n"), SILENT, R505},
    {"HTTP/2.0", BYTES("GET /a HTTP/2.0\r\n\r\n"), SILENT, R505},
    {"HTTP/3.7", BYTES("GET /a HTTP/3.7\r\n" HOST "\r\n"), SILENT, R505},
    {"HTTP/2.0, bad length", BYTES("GET /a HTTP/2.0\r\nContent-Length: x\r\n\r\n"), SILENT,
     R400_PLAIN},
};

static void heads_that_etcd_takes_are_read(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(accepted); i++) {
        const struct accepted *c = &accepted[i];

        for (enum place place = FIRST; place <= AFTER_POST; place++) {
            struct verdict v = parse_copy(place, c->in);

            check_verdict(c->name, c->in.len, v, PARSE_DONE, c->head);
            assert_int_equal(v.size, c->in.len);
        }
    }
}

static void heads_that_etcd_refuses_are_refused_in_its_words(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(refused); i++) {
        const struct refused *c = &refused[i];

        check_verdict(c->name, 0, parse_copy(FIRST, c->in), PARSE_BAD, c->first);
        check_verdict(c->name, 1, parse_copy(LATER, c->in), PARSE_BAD,
                      c->later == NULL ? c->first : c->later);
    }
    for (size_t i = 0; i < COUNT(other_versions); i++) {
        const struct refused *c = &other_versions[i];

        check_verdict(c->name, 0, parse_copy(FIRST, c->in), PARSE_BAD, c->first);
        check_verdict(c->name, 1, parse_copy(LATER, c->in), PARSE_BAD, c->later);
    }
}

/* HTTP/2's opening goes to etcd's gRPC when it comes first (an HTTP/2 SETTINGS frame was seen). In
 * mid-connection etcd answers 400 with CORS headers, as to any other `*`, and closes. */
static void the_opening_of_http2_is_refused_where_it_comes_first(void **state)
{
    static const struct slice preface = BYTES("PRI * HTTP/2.0\r\n\r\n");
    struct http_parser p = parser_at(LATER);
    struct http_head head;
    struct http_refusal why;
    size_t size;

    (void)state;
    check_verdict("preface", 0, parse_copy(FIRST, preface), PARSE_BAD, SILENT);
    assert_int_equal(http_parse_head(&p, preface, HTTP_HEAD_MAX, &head, &size, &why), PARSE_DONE);
    assert_true(head.target.asterisk);
    assert_false(head.keep_alive);
}

/* However the network cuts a head, every part of it asks for more, and for no more than the rest;
 * and a fault does not wait for what follows its line. */
static void every_prefix_asks_for_more(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(accepted); i++) {
        struct slice in = accepted[i].in;

        for (size_t len = 0; len < in.len; len++) {
            struct verdict v = parse_copy(FIRST, first(in, len));

            check_verdict(accepted[i].name, len, v, PARSE_MORE, "");
            assert_in_range(v.size, len + 1, in.len);
        }
    }
    for (size_t i = 0; i < COUNT(refused); i++) {
        for (size_t len = 0; len < refused[i].in.len; len++)
            check_verdict(refused[i].name, len, parse_copy(LATER, first(refused[i].in, len)),
                          PARSE_MORE, "");
    }
}

/* One parser, fed byte by byte from memory that moves, says in the end what it says at once. */
static void single_bytes_give_the_same_head(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(accepted) + COUNT(refused); i++) {
        bool good = i < COUNT(accepted);
        const char *name = good ? accepted[i].name : refused[i - COUNT(accepted)].name;
        struct slice in = good ? accepted[i].in : refused[i - COUNT(accepted)].in;
        struct verdict whole = parse_copy(LATER, in), v = {0};
        struct http_parser p = parser_at(LATER);

        for (size_t len = 1; len <= in.len; len++) {
            struct slice part = exact(in.ptr, len);

            v = parse(&p, part);
            exact_free(part);
            if (len < in.len)
                check_verdict(name, len, v, PARSE_MORE, "");
        }
        check_verdict(name, in.len, v, whole.result, whole.text);
        assert_int_equal(v.size, whole.size);
    }
}

/* Seen: up to four bytes of line ends after a POST are passed over, and only after a POST. */
static void line_ends_after_a_post_are_passed_over(void **state)
{
    static const struct {
        struct slice in;
        enum place place;
        enum parse_result result;
    } cases[] = {
        {BYTES("\r\nGET / HTTP/1.1\r\n" HOST "\r\n"), AFTER_POST, PARSE_DONE},
        {BYTES("\r\n\r\nGET / HTTP/1.1\r\n" HOST "\r\n"), AFTER_POST, PARSE_DONE},
        {BYTES("\n\n\n\nGET / HTTP/1.1\r\n" HOST "\r\n"), AFTER_POST, PARSE_DONE},
        {BYTES("\r\n\r\n\r\nGET / HTTP/1.1\r\n" HOST "\r\n"), AFTER_POST, PARSE_BAD},
        {BYTES("\r\nGET / HTTP/1.1\r\n" HOST "\r\n"), LATER, PARSE_BAD},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct http_parser p = parser_at(cases[i].place);
        struct verdict v = {.result = PARSE_MORE};

        assert_int_equal(parse_copy(cases[i].place, cases[i].in).result, cases[i].result);
        for (size_t len = 1; len <= cases[i].in.len && v.result == PARSE_MORE; len++) {
            struct slice part = exact(cases[i].in.ptr, len);

            v = parse(&p, part);
            exact_free(part);
        }
        assert_int_equal(v.result, cases[i].result);
        if (v.result == PARSE_DONE)
            assert_int_equal(v.size, cases[i].in.len);
    }
}

static void pipelined_heads_are_read_one_by_one(void **state)
{
    static const struct slice in =
        BYTES("POST /a HTTP/1.1\r\n" HOST "\r\n\r\nGET /b HTTP/1.1\r\n" HOST "\r\nGET bad");
    struct http_parser p = {0};
    struct verdict v = parse(&p, in);

    (void)state;
    check_verdict("first", 0, v, PARSE_DONE, "4 1.1 keep host=x path=/a query=");
    assert_true(p.later && p.after_post);
    v = parse(&p, slice_from(in, v.size));
    check_verdict("second", 0, v, PARSE_DONE, "1 1.1 keep host=x path=/b query=");
    assert_true(p.later && !p.after_post);
}

static void headers_are_given_as_they_came(void **state)
{
    static const struct slice in =
        BYTES(GET "host: x\r\n: skipped\r\nFoo:  a b \t\r\nEmpty:\r\nFolded: a \r\n\t b\r\n \r\n"
                  "Content-Type: t\r\ncontent-type: u\r\nAUTHORIZATION:Basic z\r\norigin: o\r\n"
                  "\r\nrest");
    static const char *const expected[][2] = {
        {"host", "x"},
        {"Foo", "a b"},
        {"Empty", ""},
        {"Folded", "a \r\n\t b\r\n"},
        {"Content-Type", "t"},
        {"content-type", "u"},
        {"AUTHORIZATION", "Basic z"},
        {"origin", "o"},
    };
    struct http_parser p = {0};
    struct http_head head;
    struct http_refusal why;
    struct http_header h;
    struct slice rest, value;
    size_t size, count = 0;

    (void)state;
    assert_int_equal(http_parse_head(&p, in, HTTP_HEAD_MAX, &head, &size, &why), PARSE_DONE);
    assert_true(slice_is(slice_from(in, size), "rest"));
    for (rest = head.headers; http_next_header(&rest, &h); count++) {
        assert_true(count < COUNT(expected));
        assert_true(slice_is(h.name, expected[count][0]));
        assert_true(slice_is(h.value, expected[count][1]));
    }
    assert_int_equal(count, COUNT(expected));
    assert_true(slice_is(head.content_type, "t"));
    assert_true(slice_is(head.authorization, "Basic z"));
    assert_true(slice_is(head.origin, "o"));
    assert_true(http_find_header(&head, "foo", &value) && slice_is(value, "a b"));
    assert_false(http_find_header(&head, "skipped", &value));
}

/* A head of `len` bytes; free it. */
static struct slice long_head(size_t len)
{
    static const char start[] = GET HOST "Foo: ";
    char *bytes = malloc(len);

    assert_non_null(bytes);
    memset(bytes, 'a', len);
    memcpy(bytes, start, sizeof start - 1);
    memcpy(bytes + len - 4, "\r\n\r\n", 4);
    return (struct slice){(uint8_t *)bytes, len};
}

/* A head of 1 MiB is answered, and one byte more is not. Etcd's limit is 4 KiB higher. */
static void a_head_has_a_limit(void **state)
{
    struct slice just = long_head(HTTP_HEAD_MAX), over = long_head(HTTP_HEAD_MAX + 1);
    static const char answer[] =
        "431 Request Header Fields Too Large|431 Request Header Fields Too Large";

    (void)state;
    assert_int_equal(parse_copy(FIRST, just).result, PARSE_DONE);
    check_verdict("over", over.len, parse_copy(FIRST, over), PARSE_BAD, answer);
    check_verdict("full", HTTP_HEAD_MAX, parse_copy(FIRST, first(over, HTTP_HEAD_MAX)), PARSE_BAD,
                  answer);
    assert_int_equal(parse_copy(FIRST, first(over, HTTP_HEAD_MAX - 1)).result, PARSE_MORE);
    free((void *)just.ptr);
    free((void *)over.ptr);
}

/* A million calls that each looked at all that has come would not end within the test's time. */
static void single_bytes_take_linear_time(void **state)
{
    struct slice in = long_head(HTTP_HEAD_MAX);
    struct http_parser p = {0};
    struct verdict v = {0};

    (void)state;
    for (size_t len = 1; len <= in.len; len++)
        v = parse(&p, first(in, len));
    assert_int_equal(v.result, PARSE_DONE);
    free((void *)in.ptr);
}

/* Seen: a peer that closes its half within a head gets a plain 400, within a first request line
 * nothing. */
static void an_end_of_input_within_a_head_is_answered(void **state)
{
    static const struct {
        enum place place;
        struct slice in;
        bool silent;
    } cases[] = {
        {FIRST, BYTES("GET /v2/keys/a HT"), true},  {FIRST, BYTES("GET / HTTP/2.0"), true},
        {FIRST, BYTES("GET / HTTP/1.1"), false},    {FIRST, BYTES(GET HOST), false},
        {LATER, BYTES("GET /v2/keys/a HT"), false}, {LATER, BYTES(GET HOST), false},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct http_parser p = parser_at(cases[i].place);
        struct http_refusal why;

        assert_int_equal(parse(&p, cases[i].in).result, PARSE_MORE);
        http_refuse_unfinished(&p, cases[i].in, &why);
        assert_int_equal(why.silent, cases[i].silent);
        if (!why.silent)
            assert_string_equal(why.status, "400 Bad Request");
    }
}

static void a_refusal_is_written_as_go_writes_it(void **state)
{
    char out[256] = "";
    struct writer w = {.ptr = (uint8_t *)out, .cap = sizeof out};
    struct http_parser p = {0};
    struct http_head head;
    struct http_refusal why;
    size_t size;
    struct slice in = BYTES(PUT "Transfer-Encoding: gzip\r\n\r\n");

    (void)state;
    assert_int_equal(http_parse_head(&p, in, HTTP_HEAD_MAX, &head, &size, &why), PARSE_BAD);
    http_write_refusal(&w, &why);
    assert_string_equal(out, "HTTP/1.1 501 Not Implemented\r\n"
                             "Content-Type: text/plain; charset=utf-8\r\n"
                             "Connection: close\r\n\r\n"
                             "Unsupported transfer encoding");

    why.silent = true;
    w.len = 0;
    http_write_refusal(&w, &why);
    assert_int_equal(w.len, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heads_that_etcd_takes_are_read),
        cmocka_unit_test(heads_that_etcd_refuses_are_refused_in_its_words),
        cmocka_unit_test(the_opening_of_http2_is_refused_where_it_comes_first),
        cmocka_unit_test(every_prefix_asks_for_more),
        cmocka_unit_test(single_bytes_give_the_same_head),
        cmocka_unit_test(line_ends_after_a_post_are_passed_over),
        cmocka_unit_test(pipelined_heads_are_read_one_by_one),
        cmocka_unit_test(headers_are_given_as_they_came),
        cmocka_unit_test(a_head_has_a_limit),
        cmocka_unit_test(single_bytes_take_linear_time),
        cmocka_unit_test(an_end_of_input_within_a_head_is_answered),
        cmocka_unit_test(a_refusal_is_written_as_go_writes_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
