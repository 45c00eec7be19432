/* c10d requests against the numbers and layouts of torch's TCPStore (torch/csrc/distributed/c10d,
 * 1.13 and 2.14), whole, cut anywhere, over the limits, and hostile. */
#include "proto/c10d.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "tests/unit/exact.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

static const struct c10d_limits torch_limits = {.value_max = 8u << 20, .request_max = 64u << 20};

/* --- Requests, written down a second time. --- */

enum { NO = -1 };

/* Layout: k key, v value, i number, n nonce, l list of keys, p list of pairs. */
static const struct shape {
    enum c10d_op op;
    int modern, legacy;
    const char *layout;
} shapes[] = {
    {C10D_SET, 1, 0, "kv"},          {C10D_COMPARE_SET, 2, 1, "kvv"},
    {C10D_GET, 3, 2, "k"},           {C10D_ADD, 4, 3, "ki"},
    {C10D_CHECK, 5, 4, "l"},         {C10D_WAIT, 6, 5, "l"},
    {C10D_GETNUMKEYS, 7, 6, ""},     {C10D_WATCH_KEY, NO, 7, "k"},
    {C10D_DELETE_KEY, 8, 8, "k"},    {C10D_APPEND, 9, NO, "kv"},
    {C10D_MULTI_GET, 10, NO, "l"},   {C10D_MULTI_SET, 11, NO, "p"},
    {C10D_CANCEL_WAIT, 12, NO, ""},  {C10D_PING, 13, NO, "n"},
    {C10D_QUEUE_PUSH, 14, NO, "kv"}, {C10D_QUEUE_POP, 15, NO, "k"},
    {C10D_QUEUE_LEN, 16, NO, "k"},   {C10D_LIST_KEYS, 17, NO, ""},
    {C10D_BARRIER, 18, NO, "ki"},
};

static const enum c10d_version all_versions[] = {C10D_LEGACY, C10D_MODERN};

static int opcode_of(const struct shape *s, enum c10d_version version)
{
    switch (version) {
    case C10D_MODERN:
        return s->modern;
    case C10D_LEGACY:
        return s->legacy;
    }
    return NO;
}

static void put_u64(struct writer *w, uint64_t v)
{
    for (int i = 0; i < 8; i++)
        writer_u8(w, (uint8_t)(v >> 8 * i));
}

static void put_blob(struct writer *w, const char *text)
{
    put_u64(w, strlen(text));
    writer_str(w, text);
}

#define NUMBER INT64_C(-2)
#define NONCE  0x12345678u

static const char *const keys[] = {"/k", "", "/key/number/three"};
static const char *const values[] = {"", "v", "a value"};

static struct slice build(const struct shape *s, int opcode, uint8_t *buf, size_t cap)
{
    struct writer w = {.ptr = buf, .cap = cap};
    int value = 2;

    writer_u8(&w, (uint8_t)opcode);
    for (const char *p = s->layout; *p != '\0'; p++) {
        switch (*p) {
        case 'k':
            put_blob(&w, keys[0]);
            break;
        case 'v':
            put_blob(&w, values[value--]);
            break;
        case 'i':
            put_u64(&w, (uint64_t)NUMBER);
            break;
        case 'n':
            for (int i = 0; i < 4; i++)
                writer_u8(&w, (uint8_t)(NONCE >> 8 * i));
            break;
        default:
            put_u64(&w, COUNT(keys));
            for (size_t i = 0; i < COUNT(keys); i++) {
                put_blob(&w, keys[i]);
                if (*p == 'p')
                    put_blob(&w, values[i]);
            }
        }
    }
    assert_true(w.len <= cap);
    return (struct slice){buf, w.len};
}

static void check_fields(const struct shape *s, const struct c10d_request *req)
{
    struct slice items = req->items, blob;
    int value = 2;

    assert_int_equal(req->op, s->op);
    for (const char *p = s->layout; *p != '\0'; p++) {
        switch (*p) {
        case 'k':
            assert_true(slice_is(req->key, keys[0]));
            break;
        case 'v': /* the first of COMPARE_SET's two is the expected one */
            assert_true(slice_is(p[1] == 'v' ? req->expected : req->value, values[value--]));
            break;
        case 'i':
            assert_true(req->number == NUMBER);
            break;
        case 'n':
            assert_int_equal(req->nonce, NONCE);
            break;
        default:
            assert_int_equal(req->count, COUNT(keys));
            for (size_t i = 0; i < COUNT(keys); i++) {
                assert_true(c10d_next_blob(&items, &blob));
                assert_true(slice_is(blob, keys[i]));
                if (*p == 'p') {
                    assert_true(c10d_next_blob(&items, &blob));
                    assert_true(slice_is(blob, values[i]));
                }
            }
            assert_false(c10d_next_blob(&items, &blob));
            assert_int_equal(items.len, 0);
        }
    }
}

/* One call with nothing known before. */
static enum parse_result parse(struct slice in, enum c10d_version version,
                               const struct c10d_limits *limits, struct c10d_request *req,
                               size_t *size)
{
    struct c10d_progress progress = {0};
    struct c10d_refusal refusal = {0};
    struct slice copy = exact(in.ptr, in.len);
    struct c10d_request found;
    enum parse_result result = c10d_parse(copy, version, limits, &progress, &found, size, &refusal);

    if (result == PARSE_DONE && req != NULL)
        *req = found; /* its slices are about to end; those who look at them parse themselves */
    if (result == PARSE_BAD)
        assert_non_null(refusal.reason);
    exact_free(copy);
    return result;
}

static void each_request_of_each_version_is_read(void **state)
{
    (void)state;
    for (size_t d = 0; d < COUNT(all_versions); d++) {
        for (size_t i = 0; i < COUNT(shapes); i++) {
            int opcode = opcode_of(&shapes[i], all_versions[d]);
            uint8_t buf[256];
            struct c10d_progress progress = {0};
            struct c10d_request req;
            struct slice whole, copy;
            struct c10d_refusal refusal = {0};
            size_t size = 0;

            if (opcode == NO)
                continue;
            print_message("  %s %s\n", c10d_version_name(all_versions[d]),
                          c10d_op_name(shapes[i].op));
            whole = build(&shapes[i], opcode, buf, sizeof buf - 1);
            copy = exact(whole.ptr, whole.len);
            assert_int_equal(
                c10d_parse(copy, all_versions[d], &torch_limits, &progress, &req, &size, &refusal),
                PARSE_DONE);
            assert_int_equal(size, whole.len);
            assert_true(progress.at == 0 && progress.left == 0);
            check_fields(&shapes[i], &req);
            exact_free(copy);

            buf[whole.len] = 0xff; /* the next request is none of this one's business */
            copy = exact(buf, whole.len + 1);
            assert_int_equal(
                c10d_parse(copy, all_versions[d], &torch_limits, &progress, &req, &size, &refusal),
                PARSE_DONE);
            assert_int_equal(size, whole.len);
            exact_free(copy);
        }
    }
}

/* Each prefix of a request asks for more bytes, and for no more than the request still has; with
 * the progress of earlier prefixes and without it. */
static void every_prefix_asks_for_more(void **state)
{
    (void)state;
    for (size_t d = 0; d < COUNT(all_versions); d++) {
        for (size_t i = 0; i < COUNT(shapes); i++) {
            int opcode = opcode_of(&shapes[i], all_versions[d]);
            struct c10d_progress kept = {0};
            uint8_t buf[256];
            struct slice whole;

            if (opcode == NO)
                continue;
            whole = build(&shapes[i], opcode, buf, sizeof buf);
            for (size_t len = 0; len < whole.len; len++) {
                struct c10d_request req, before;
                struct c10d_progress none = {0};
                struct slice part = exact(whole.ptr, len);
                struct c10d_refusal refusal = {0};
                size_t size = 0;

                memset(&req, 0x5a, sizeof req);
                memcpy(&before, &req, sizeof req);
                assert_int_equal(
                    c10d_parse(part, all_versions[d], &torch_limits, &none, &req, &size, &refusal),
                    PARSE_MORE);
                assert_in_range(size, len + 1, whole.len);
                assert_int_equal(
                    c10d_parse(part, all_versions[d], &torch_limits, &kept, &req, &size, &refusal),
                    PARSE_MORE);
                assert_in_range(size, len + 1, whole.len);
                assert_memory_equal(&req, &before, sizeof req);
                exact_free(part);
            }
        }
    }
}

static void opcodes_that_a_version_lacks_are_refused_at_once(void **state)
{
    (void)state;
    for (size_t d = 0; d < COUNT(all_versions); d++) {
        bool known[256] = {false};

        for (size_t i = 0; i < COUNT(shapes); i++) {
            int opcode = opcode_of(&shapes[i], all_versions[d]);

            if (opcode != NO)
                known[opcode] = true;
        }
        for (int opcode = 0; opcode < 256; opcode++) {
            uint8_t byte = (uint8_t)opcode;
            size_t size = 0;
            enum parse_result result =
                parse((struct slice){&byte, 1}, all_versions[d], &torch_limits, NULL, &size);

            if (known[opcode])
                assert_int_not_equal(result, PARSE_BAD);
            else
                assert_int_equal(result, PARSE_BAD);
        }
    }
}

/* --- Which version it is. --- */

static void the_first_bytes_tell_the_version(void **state)
{
    static const struct {
        const char *bytes;
        size_t len;
        bool legacy_on;
        enum parse_result result;
        enum c10d_version version;
        size_t size;
    } rows[] = {
        {"\x00\xce\xf7\x85\x3c", 5, true, PARSE_DONE, C10D_MODERN, 5},
        {"\x00\xce\xf7\x85\x3c\x0d", 6, true, PARSE_DONE, C10D_MODERN, 5},
        {"\x00\xce\xf7\x85\x3c", 5, false, PARSE_DONE, C10D_MODERN, 5},
        /* A legacy SET: the first byte of its key's length that VALIDATE would not have decides.
         */
        {"\x00\x02", 2, true, PARSE_DONE, C10D_LEGACY, 0},
        {"\x00\xce\x00", 3, true, PARSE_DONE, C10D_LEGACY, 0},
        {"\x00\xce\xf7\x00", 4, true, PARSE_DONE, C10D_LEGACY, 0},
        {"\x00\xce\xf7\x85\x00", 5, true, PARSE_DONE, C10D_LEGACY, 0},
        {"\x00\x02", 2, false, PARSE_BAD, C10D_LEGACY, 0},
        {"\x00\xce\x00", 3, false, PARSE_BAD, C10D_LEGACY, 0},
        /* A big-endian VALIDATE is a legacy SET of an absurd length: refused with its header. */
        {"\x00\x3c\x85\xf7\xce", 5, true, PARSE_DONE, C10D_LEGACY, 0},
        {"\x00\x3c\x85\xf7\xce", 5, false, PARSE_BAD, C10D_LEGACY, 0},
        {"\xce\xf7\x85\x3c", 4, true, PARSE_BAD, C10D_LEGACY, 0},
        {"\x16\x03\x01", 3, true, PARSE_BAD, C10D_LEGACY, 0},
        {"GET ", 4, true, PARSE_BAD, C10D_LEGACY, 0},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        enum c10d_version version = C10D_LEGACY;
        struct slice copy = exact(rows[i].bytes, rows[i].len);
        size_t size = 99;

        print_message("  row %zu\n", i);
        assert_int_equal(c10d_detect(copy, rows[i].legacy_on, &version, &size), rows[i].result);
        if (rows[i].result == PARSE_DONE) {
            assert_int_equal(version, rows[i].version);
            assert_int_equal(size, rows[i].size);
        }
        exact_free(copy);
    }
}

static void one_byte_not_zero_is_enough_to_tell(void **state)
{
    enum { LAST = 8 }; /* the highest opcode of the legacy version */

    (void)state;
    for (int first = 1; first < 256; first++) {
        uint8_t byte = (uint8_t)first;
        enum c10d_version version = C10D_MODERN;
        size_t size = 99;
        struct slice copy = exact(&byte, 1);

        assert_int_equal(c10d_detect(copy, true, &version, &size),
                         first <= LAST ? PARSE_DONE : PARSE_BAD);
        if (first <= LAST)
            assert_true(version == C10D_LEGACY && size == 0);
        assert_int_equal(c10d_detect(copy, false, &version, &size), PARSE_BAD);
        exact_free(copy);
    }
}

static void a_part_of_validate_asks_for_one_byte_more(void **state)
{
    (void)state;
    for (size_t len = 0; len < 5; len++) {
        enum c10d_version version;
        struct slice copy = exact("\x00\xce\xf7\x85\x3c", len);
        size_t size = 99;

        assert_int_equal(c10d_detect(copy, true, &version, &size), PARSE_MORE);
        assert_int_equal(size, len + 1);
        exact_free(copy);
    }
}

/* With torch's limit on keys no legacy request waits for a byte that is not of its own header. */
static void no_legacy_set_is_held_back(void **state)
{
    (void)state;
    for (uint64_t key_len = 0; key_len <= C10D_KEY_MAX; key_len++) {
        uint8_t start[9] = {0};
        enum c10d_version version;
        size_t size;

        bytes_put_u64(start + 1, key_len);
        assert_int_equal(c10d_detect((struct slice){start, 3}, true, &version, &size), PARSE_DONE);
        assert_int_equal(version, C10D_LEGACY);
    }
}

static void a_big_endian_client_is_refused_on_its_header(void **state)
{
    /* VALIDATE and PING as such a client sends them. */
    static const uint8_t bytes[] = {0x00, 0x3c, 0x85, 0xf7, 0xce, 0x0d, 1, 2, 3, 4};
    size_t size;

    (void)state;
    assert_int_equal(parse((struct slice){bytes, 9}, C10D_LEGACY, &torch_limits, NULL, &size),
                     PARSE_BAD);
}

/* --- Limits. --- */

static const struct c10d_limits small = {.value_max = 6, .request_max = 64 << 20};

/* What a header announces: `bytes` are those before the length, `max` is its limit. */
static void check_limit(const uint8_t *before, size_t len, uint64_t max)
{
    uint8_t buf[64];
    size_t size = 0;

    memcpy(buf, before, len);
    bytes_put_u64(buf + len, max);
    assert_int_not_equal(parse((struct slice){buf, len + 8}, C10D_MODERN, &small, NULL, &size),
                         PARSE_BAD);
    bytes_put_u64(buf + len, max + 1);
    assert_int_equal(parse((struct slice){buf, len + 7}, C10D_MODERN, &small, NULL, &size),
                     PARSE_MORE);
    assert_int_equal(size, len + 8);
    assert_int_equal(parse((struct slice){buf, len + 8}, C10D_MODERN, &small, NULL, &size),
                     PARSE_BAD);
    bytes_put_u64(buf + len, UINT64_MAX);
    assert_int_equal(parse((struct slice){buf, len + 8}, C10D_MODERN, &small, NULL, &size),
                     PARSE_BAD);
    bytes_put_u64(buf + len, (uint64_t)INT64_MAX + 1);
    assert_int_equal(parse((struct slice){buf, len + 8}, C10D_MODERN, &small, NULL, &size),
                     PARSE_BAD);
}

/* A length over its limit is refused when its eighth byte is here and the body is not. */
static void a_length_over_the_limit_is_refused_on_its_header(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(shapes); i++) {
        uint8_t buf[64];
        struct writer w = {.ptr = buf, .cap = sizeof buf};

        if (shapes[i].modern == NO)
            continue;
        writer_u8(&w, (uint8_t)shapes[i].modern);
        for (const char *p = shapes[i].layout; *p == 'k' || *p == 'v'; p++) {
            check_limit(buf, w.len, *p == 'k' ? C10D_KEY_MAX : small.value_max);
            put_blob(&w, *p == 'k' ? "keys" : "values");
        }
        if (strchr("lp", shapes[i].layout[0]) == NULL || shapes[i].layout[0] == '\0')
            continue;
        check_limit(buf, w.len, C10D_KEYS_MAX);
        put_u64(&w, 1);
        check_limit(buf, w.len, C10D_KEY_MAX);
        if (shapes[i].layout[0] == 'p') {
            put_blob(&w, "keys");
            check_limit(buf, w.len, small.value_max);
        }
    }
}

static void a_request_of_exactly_the_limits_is_read(void **state)
{
    const size_t len = 9 + C10D_KEYS_MAX * (8 + 4 + 8 + 6);
    uint8_t *buf = malloc(len);
    struct writer w = {.ptr = buf, .cap = len};
    const struct c10d_limits exact_limits = {.value_max = 6, .request_max = len};
    struct c10d_request req;
    size_t size;

    (void)state;
    assert_non_null(buf);
    writer_u8(&w, 11); /* MULTI_SET */
    put_u64(&w, C10D_KEYS_MAX);
    for (size_t i = 0; i < C10D_KEYS_MAX; i++) {
        put_blob(&w, "keys");
        put_blob(&w, "values");
    }
    assert_int_equal(w.len, len);
    assert_int_equal(parse((struct slice){buf, len}, C10D_MODERN, &exact_limits, &req, &size),
                     PARSE_DONE);
    assert_int_equal(req.count, C10D_KEYS_MAX);
    assert_int_equal(size, len);
    free(buf);
}

/* A COMPARE_SET with a key and two values of the largest size is a request. */
static void a_request_has_room_for_two_values(void **state)
{
    static const struct {
        uint64_t value_max;
        uint64_t request_max;
    } rows[] = {{1, 64 << 20},
                {8 << 20, 64 << 20},
                {64 << 20, (128 << 20) + 8192 + 25},
                {INT64_MAX, INT64_MAX},
                {UINT64_MAX, INT64_MAX}};

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        const struct c10d_limits limits = c10d_limits_of(rows[i].value_max);

        assert_true(limits.value_max <= INT64_MAX && limits.value_max <= rows[i].value_max);
        assert_int_equal(limits.request_max, rows[i].request_max);
    }
}

/* Whether a request is too long must not depend on how much of it a segment brings. */
static void a_request_over_the_limit_is_refused_however_it_arrives(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(shapes); i++) {
        struct c10d_limits limits = torch_limits;
        uint8_t buf[256];
        struct slice whole;
        struct c10d_progress kept = {0};
        enum parse_result result = PARSE_MORE;
        size_t size;

        if (shapes[i].modern == NO)
            continue;
        print_message("  %s\n", c10d_op_name(shapes[i].op));
        whole = build(&shapes[i], shapes[i].modern, buf, sizeof buf);
        limits.request_max = whole.len;
        assert_int_equal(parse(whole, C10D_MODERN, &limits, NULL, &size), PARSE_DONE);
        if (whole.len == 1)
            continue;
        limits.request_max = whole.len - 1;
        assert_int_equal(parse(whole, C10D_MODERN, &limits, NULL, &size), PARSE_BAD);
        for (size_t len = 1; len < whole.len && result == PARSE_MORE; len++) {
            struct slice part = exact(whole.ptr, len);
            struct c10d_request req;
            struct c10d_refusal refusal;

            result = c10d_parse(part, C10D_MODERN, &limits, &kept, &req, &size, &refusal);
            exact_free(part);
        }
        assert_int_equal(result, PARSE_BAD); /* before its last byte has come */
    }
}

/* With no limits of values and requests, lengths up to 2^64 - 1 must not wrap around. */
static void absurd_lengths_do_not_overflow(void **state)
{
    static const struct c10d_limits none = {.value_max = SIZE_MAX, .request_max = SIZE_MAX};
    static const uint64_t lengths[] = {UINT64_MAX,       UINT64_MAX - 1,  UINT64_MAX - 8,
                                       UINT64_MAX - 9,   UINT64_MAX - 17, (uint64_t)INT64_MAX,
                                       (uint64_t)1 << 32};

    (void)state;
    for (size_t i = 0; i < COUNT(lengths); i++) {
        for (int opcode = 1; opcode <= 18; opcode++) {
            uint8_t buf[17] = {(uint8_t)opcode};
            size_t size;
            enum parse_result result;

            bytes_put_u64(buf + 1, lengths[i]);
            bytes_put_u64(buf + 9, lengths[i]);
            result = parse((struct slice){buf, sizeof buf}, C10D_MODERN, &none, NULL, &size);
            if (result == PARSE_MORE)
                assert_true(size > sizeof buf);
            else if (result == PARSE_DONE) /* those without a length */
                assert_true(size <= sizeof buf);
        }
    }
}

/* --- Large lists. --- */

/* A list of torch's largest count in segments of 4 KiB. What the progress says is done is
 * overwritten with bytes that no length survives: whoever walked it again would fail. What is left
 * to walk again is never a whole entry. */
static void a_long_list_is_walked_once(void **state)
{
    enum { ENTRY = 8 + 10, SEGMENT = 4096 };
    const uint64_t count = C10D_KEYS_MAX;
    size_t total = 9 + count * ENTRY, size = 1, calls = 0;
    uint8_t *bytes = malloc(total);
    struct writer w = {.ptr = bytes, .cap = total};
    struct c10d_progress progress = {0};
    enum parse_result result = PARSE_MORE;
    struct c10d_request req = {0};

    (void)state;
    assert_non_null(bytes);
    writer_u8(&w, 6); /* WAIT */
    put_u64(&w, count);
    for (uint64_t i = 0; i < count; i++) {
        char key[16];

        snprintf(key, sizeof key, "/key%06llu", (unsigned long long)i);
        put_blob(&w, key);
    }
    assert_int_equal(w.len, total);

    for (size_t len = 0; result == PARSE_MORE; calls++) {
        struct c10d_refusal refusal = {0};

        len = len + SEGMENT < total ? len + SEGMENT : total;
        if (progress.at > 9)
            memset(bytes + 9, 0xff, progress.at - 9);
        result = c10d_parse((struct slice){bytes, len}, C10D_MODERN, &torch_limits, &progress, &req,
                            &size, &refusal);
        if (result != PARSE_MORE)
            break;
        assert_in_range(size, len + 1, total);
        assert_true(len - progress.at < ENTRY);
        assert_int_equal(progress.left, count - (progress.at - 9) / ENTRY);
    }
    assert_int_equal(result, PARSE_DONE);
    assert_int_equal(size, total);
    assert_int_equal(req.count, count);
    assert_int_equal(req.items.len, total - 9);
    assert_int_equal(calls + 1, (total + SEGMENT - 1) / SEGMENT);
    assert_true(progress.at == 0 && progress.left == 0);
    free(bytes);
}

static void one_more_than_the_largest_count_is_refused(void **state)
{
    static const uint8_t lists[] = {5, 6, 10, 11};

    (void)state;
    for (size_t i = 0; i < COUNT(lists); i++) {
        uint8_t buf[9] = {lists[i]};
        size_t size;

        bytes_put_u64(buf + 1, 131072);
        assert_int_equal(parse((struct slice){buf, 9}, C10D_MODERN, &torch_limits, NULL, &size),
                         PARSE_MORE);
        bytes_put_u64(buf + 1, 131073);
        assert_int_equal(parse((struct slice){buf, 9}, C10D_MODERN, &torch_limits, NULL, &size),
                         PARSE_BAD);
    }
}

static void an_empty_list_is_a_request(void **state)
{
    static const uint8_t lists[] = {5, 6, 10, 11};

    (void)state;
    for (size_t i = 0; i < COUNT(lists); i++) {
        uint8_t buf[9] = {lists[i]};
        struct c10d_request req = {0};
        size_t size;

        assert_int_equal(parse((struct slice){buf, 9}, C10D_MODERN, &torch_limits, &req, &size),
                         PARSE_DONE);
        assert_true(req.count == 0 && req.items.len == 0 && size == 9);
    }
}

static void a_blob_that_does_not_fit_is_not_taken(void **state)
{
    uint8_t bytes[11] = {3, 0, 0, 0, 0, 0, 0, 0, 'a', 'b', 'c'};
    struct slice copy, rest, blob = {0};

    (void)state;
    for (size_t len = 0; len < sizeof bytes; len++) {
        copy = rest = exact(bytes, len);
        assert_false(c10d_next_blob(&rest, &blob));
        assert_int_equal(rest.len, len);
        exact_free(copy);
    }
    copy = rest = exact(bytes, sizeof bytes);
    assert_true(c10d_next_blob(&rest, &blob));
    assert_true(slice_is(blob, "abc") && rest.len == 0);
    exact_free(copy);
    bytes_put_u64(bytes, UINT64_MAX - 4);
    copy = rest = exact(bytes, sizeof bytes);
    assert_false(c10d_next_blob(&rest, &blob));
    exact_free(copy);
}

static void requests_and_versions_have_names(void **state)
{
    (void)state;
    for (int op = 0; op < C10D_OP_COUNT; op++) {
        for (int other = 0; other < op; other++)
            assert_string_not_equal(c10d_op_name((enum c10d_op)op),
                                    c10d_op_name((enum c10d_op)other));
    }
    assert_string_equal(c10d_op_name(C10D_COMPARE_SET), "COMPARE_SET");
    assert_string_equal(c10d_op_name(C10D_WATCH_KEY), "WATCH_KEY");
    assert_string_equal(c10d_op_name(C10D_OP_COUNT), "?");
    assert_string_equal(c10d_version_name(C10D_LEGACY), "c10d-legacy");
    assert_string_equal(c10d_version_name(C10D_MODERN), "c10d-modern");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_request_of_each_version_is_read),
        cmocka_unit_test(every_prefix_asks_for_more),
        cmocka_unit_test(opcodes_that_a_version_lacks_are_refused_at_once),
        cmocka_unit_test(the_first_bytes_tell_the_version),
        cmocka_unit_test(one_byte_not_zero_is_enough_to_tell),
        cmocka_unit_test(a_part_of_validate_asks_for_one_byte_more),
        cmocka_unit_test(no_legacy_set_is_held_back),
        cmocka_unit_test(a_big_endian_client_is_refused_on_its_header),
        cmocka_unit_test(a_length_over_the_limit_is_refused_on_its_header),
        cmocka_unit_test(a_request_of_exactly_the_limits_is_read),
        cmocka_unit_test(a_request_has_room_for_two_values),
        cmocka_unit_test(a_request_over_the_limit_is_refused_however_it_arrives),
        cmocka_unit_test(absurd_lengths_do_not_overflow),
        cmocka_unit_test(a_long_list_is_walked_once),
        cmocka_unit_test(one_more_than_the_largest_count_is_refused),
        cmocka_unit_test(an_empty_list_is_a_request),
        cmocka_unit_test(a_blob_that_does_not_fit_is_not_taken),
        cmocka_unit_test(requests_and_versions_have_names),
    };

    return cmocka_run_group_tests_name("proto/c10d", tests, NULL, NULL);
}
