/* c10d as a client speaks it: requests are what c10d_parse() reads, byte for byte what torch sends;
 * answers are read whole, cut anywhere, and refused when they cannot be. */
#include "proto/c10d_client.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "tests/unit/exact.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define NUMBER   INT64_C(-3)
#define NONCE    0x12345678u

static const struct c10d_limits limits = {.value_max = 8u << 20, .request_max = 64u << 20};
static const struct c10d_reply_limits reply_limits = {.value_max = 100, .reply_max = 1000};

/* What a list holds: a key and a value, or two keys. */
static struct slice two_blobs(uint8_t *room, size_t size)
{
    struct writer w = {.ptr = room, .cap = size};

    c10d_write_blob(&w, slice_str("/first"));
    c10d_write_blob(&w, slice_str(""));
    assert_in_range(w.len, 1, size);
    return (struct slice){room, w.len};
}

static void what_is_written_is_what_a_server_reads(void **state)
{
    (void)state;
    for (int op = C10D_SET; op <= C10D_BARRIER; op++) {
        uint8_t items[64], bytes[256];
        struct writer w = {.ptr = bytes, .cap = sizeof bytes};
        struct c10d_progress progress = {0};
        struct c10d_refusal refusal;
        size_t size;
        struct c10d_request got, req = {.op = (enum c10d_op)op,
                                        .key = slice_str("/key"),
                                        .value = slice_str("value"),
                                        .expected = slice_str(""),
                                        .number = NUMBER,
                                        .nonce = NONCE,
                                        .items = two_blobs(items, sizeof items)};

        req.count = op == C10D_MULTI_SET ? 1 : 2;
        c10d_write_request(&w, &req);
        assert_in_range(w.len, 1, sizeof bytes);
        assert_int_equal(bytes[0], op);
        assert_int_equal(c10d_parse((struct slice){bytes, w.len}, C10D_MODERN, &limits, &progress,
                                    &got, &size, &refusal),
                         PARSE_DONE);
        assert_int_equal(size, w.len);
        assert_int_equal(got.op, op);
        if (got.key.len != 0)
            assert_true(slice_equal(got.key, req.key));
        if (got.value.len != 0)
            assert_true(slice_equal(got.value, req.value));
        if (got.number != 0)
            assert_int_equal(got.number, NUMBER);
        if (got.count != 0)
            assert_true(got.count == req.count && slice_equal(got.items, req.items));
        if (op == C10D_PING)
            assert_int_equal(got.nonce, NONCE);
    }
}

/* As recorded from a client of torch 2.13. */
static void bytes_are_those_of_torch(void **state)
{
    static const uint8_t hello[] = {0x00, 0xce, 0xf7, 0x85, 0x3c, 0x0d, 0x78, 0x56, 0x34, 0x12};
    static const uint8_t add[] = {0x04, 2, 0, 0, 0, 0, 0, 0, 0, '/', 'n', 5, 0, 0, 0, 0, 0, 0, 0};
    static const uint8_t compare_set[] = {0x02, 2, 0, 0, 0, 0, 0, 0, 0, '/', 'c', 0, 0, 0,
                                          0,    0, 0, 0, 0, 1, 0, 0, 0, 0,   0,   0, 0, 'x'};
    struct c10d_request req = {.op = C10D_ADD, .key = slice_str("/n"), .number = 5};
    uint8_t bytes[64];
    struct writer w = {.ptr = bytes, .cap = sizeof bytes};

    (void)state;
    c10d_write_hello(&w, NONCE);
    assert_int_equal(w.len, sizeof hello);
    assert_memory_equal(bytes, hello, sizeof hello);
    w.len = 0;
    c10d_write_request(&w, &req);
    assert_int_equal(w.len, sizeof add);
    assert_memory_equal(bytes, add, sizeof add);
    req = (struct c10d_request){
        .op = C10D_COMPARE_SET, .key = slice_str("/c"), .value = slice_str("x")};
    w.len = 0;
    c10d_write_request(&w, &req);
    assert_int_equal(w.len, sizeof compare_set);
    assert_memory_equal(bytes, compare_set, sizeof compare_set);
}

#define N(byte) byte, 0, 0, 0, 0, 0, 0, 0

static const struct answer_case {
    enum c10d_op op;
    uint8_t bytes[64];
    size_t len;
    int64_t number;
    const char *value;
    uint64_t count;
} answers[] = {
    {C10D_GET, {N(2), 'h', 'i'}, 10, 0, "hi", 0},
    {C10D_GET, {N(0)}, 8, 0, "", 0},
    {C10D_COMPARE_SET, {N(1), 'x'}, 9, 0, "x", 0},
    {C10D_ADD, {0xfd, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, 8, -3, "", 0},
    {C10D_GETNUMKEYS, {N(7)}, 8, 7, "", 0},
    {C10D_DELETE_KEY, {N(1)}, 8, 1, "", 0},
    {C10D_QUEUE_LEN, {N(4)}, 8, 4, "", 0},
    {C10D_QUEUE_POP, {N(0)}, 8, 0, "", 0},
    {C10D_QUEUE_POP, {N(2), N(1), 'q'}, 17, 2, "q", 0},
    {C10D_CHECK, {C10D_NOT_READY}, 1, C10D_NOT_READY, "", 0},
    {C10D_WAIT, {C10D_STOP_WAITING}, 1, 0, "", 0},
    {C10D_BARRIER, {C10D_STOP_WAITING}, 1, 0, "", 0},
    {C10D_CANCEL_WAIT, {C10D_WAIT_CANCELED}, 1, C10D_WAIT_CANCELED, "", 0},
    {C10D_PING, {0x78, 0x56, 0x34, 0x12}, 4, NONCE, "", 0},
    {C10D_LIST_KEYS, {N(2), N(1), 'a', N(0)}, 25, 2, "", 2},
    {C10D_LIST_KEYS, {N(0)}, 8, 0, "", 0},
    {C10D_MULTI_GET, {N(1), 'a', N(2), 'b', 'c'}, 19, 0, "", 2},
};

static void answers_are_read(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(answers); i++) {
        const struct answer_case *c = &answers[i];
        struct c10d_progress progress = {0};
        struct c10d_reply reply;
        size_t size;

        assert_int_equal(c10d_parse_reply((struct slice){c->bytes, c->len}, c->op, 2, &reply_limits,
                                          &progress, &reply, &size),
                         PARSE_DONE);
        assert_int_equal(size, c->len);
        assert_int_equal(reply.number, c->number);
        assert_true(slice_is(reply.value, c->value));
        assert_int_equal(reply.count, c->count);
    }
}

/* However the network cuts it, with the progress of the part before it and without. */
static void every_prefix_asks_for_more(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(answers); i++) {
        const struct answer_case *c = &answers[i];
        struct c10d_progress kept = {0};

        for (size_t len = 0; len < c->len; len++) {
            struct c10d_progress fresh = {0};
            struct c10d_reply reply;
            struct slice part = exact(c->bytes, len);
            size_t size = 0;

            assert_int_equal(c10d_parse_reply(part, c->op, 2, &reply_limits, &fresh, &reply, &size),
                             PARSE_MORE);
            assert_in_range(size, len + 1, c->len);
            assert_int_equal(c10d_parse_reply(part, c->op, 2, &reply_limits, &kept, &reply, &size),
                             PARSE_MORE);
            assert_in_range(size, len + 1, c->len);
            exact_free(part);
        }
    }
}

static void bytes_that_are_no_answer_are_refused(void **state)
{
    static const struct {
        enum c10d_op op;
        uint8_t bytes[24];
        size_t len;
    } bad[] = {
        {C10D_GET, {101, 0, 0, 0, 0, 0, 0, 0}, 8}, /* over value_max */
        {C10D_GET, {0, 0, 0, 0, 0, 0, 0, 0x80}, 8},
        {C10D_CHECK, {2}, 1},
        {C10D_WAIT, {1}, 1},
        {C10D_CANCEL_WAIT, {2}, 1},
        {C10D_LIST_KEYS, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, 8},
        {C10D_LIST_KEYS, {N(126)}, 8}, /* 126 lengths are more than reply_max */
        {C10D_LIST_KEYS, {N(1), N(101)}, 16},
        {C10D_WATCH_KEY, {3}, 1},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        struct c10d_progress progress = {0};
        struct c10d_reply reply;
        size_t size;

        assert_int_equal(c10d_parse_reply((struct slice){bad[i].bytes, bad[i].len}, bad[i].op, 1,
                                          &reply_limits, &progress, &reply, &size),
                         PARSE_BAD);
    }
}

static void what_no_server_answers_is_done_at_once(void **state)
{
    (void)state;
    for (int op = C10D_SET; op <= C10D_BARRIER; op++) {
        struct c10d_progress progress = {0};
        struct c10d_reply reply;
        size_t size = 1;
        bool done = c10d_parse_reply((struct slice){0}, (enum c10d_op)op, 1, &reply_limits,
                                     &progress, &reply, &size) == PARSE_DONE;

        assert_int_equal(done, !c10d_is_answered((enum c10d_op)op));
        if (done)
            assert_int_equal(size, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_what_a_server_reads),
        cmocka_unit_test(bytes_are_those_of_torch),
        cmocka_unit_test(answers_are_read),
        cmocka_unit_test(every_prefix_asks_for_more),
        cmocka_unit_test(bytes_that_are_no_answer_are_refused),
        cmocka_unit_test(what_no_server_answers_is_done_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
