/* Large values of forms: decoded in slices they are what they are when decoded at once, wherever
 * the slices end. */
#include "rdzv/etcd/form_value.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/url.h"
#include "tests/unit/exact.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define SLICE    (256u << 10) /* of which each is decoded at a time */

static struct engine engine;
static struct http http = {.engine = &engine};
static size_t begun; /* bytes that were held before */

static int set_up(void **state)
{
    (void)state;
    account_set_limit(0);
    store_init(&engine.store, &(struct store_options){.seed = 1});
    begun = account.total;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    account_set_limit(0);
    assert_int_equal(account.total, begun);
    store_fini(&engine.store);
    return 0;
}

/* The body of a request, with the value between other fields. */
static struct slice body_with(struct slice escaped, size_t before, size_t behind)
{
    uint8_t *bytes = malloc(before + escaped.len + behind + 1);

    assert_non_null(bytes);
    memset(bytes, '%', before + escaped.len + behind + 1);
    if (escaped.len != 0)
        memcpy(bytes + before, escaped.ptr, escaped.len);
    return (struct slice){bytes, before + escaped.len + behind};
}

/* Decodes it in slices, of a body that is somewhere else each time, as it is when more has come
 * behind it. Returns how many there were. */
static size_t decode(struct form_value *v, struct slice escaped, size_t before)
{
    struct http_request r = {.http = &http, .body = body_with(escaped, before, 3)};
    size_t slices = 0;

    assert_true(form_value_begin(v, &r, (struct slice){r.body.ptr + before, escaped.len}));
    while (!v->whole) {
        struct slice old = r.body;
        size_t read = v->read;
        bool whole;

        r.body = exact(old.ptr, old.len);
        exact_free(old);
        whole = form_value_go_on(v, &r);
        assert_true(whole == v->whole);
        assert_in_range(v->read - read, escaped.len == 0 ? 0 : 1, SLICE);
        assert_in_range(blob_size(v->blob), 0, sizeof(struct blob) + escaped.len);
        slices++;
    }
    exact_free(r.body);
    return slices;
}

/* What it is to be; and no byte is held beyond that. */
static void check(const struct form_value *v, struct slice escaped)
{
    uint8_t *room = malloc(escaped.len + 1);
    struct slice right;

    assert_non_null(room);
    right = url_unescape_value(escaped, room);
    assert_int_equal(v->blob->len, right.len);
    assert_true(slice_equal(blob_slice(v->blob), right));
    assert_int_equal(v->blob->spare, 0);
    assert_int_equal(account.total - begun, account_cost(sizeof(struct blob) + right.len));
    free(room);
}

static void try(struct slice escaped, size_t before, size_t slices)
{
    struct form_value v;
    size_t count = decode(&v, escaped, before);

    if (slices != 0)
        assert_int_equal(count, slices);
    check(&v, escaped);
    form_value_end(&v);
    form_value_end(&v); /* there is none any more */
    assert_int_equal(account.total, begun);
}

static void values_of_all_lengths(void **state)
{
    static const struct {
        size_t len, slices;
    } cases[] = {
        {0, 1},         {1, 1},         {SLICE - 1, 1},     {SLICE, 1},
        {SLICE + 1, 2}, {2 * SLICE, 2}, {2 * SLICE + 1, 3}, {10 * SLICE - 1, 10},
    };
    uint8_t *text = malloc(10 * SLICE);

    (void)state;
    assert_non_null(text);
    for (size_t i = 0; i < 10 * SLICE; i++)
        text[i] = (uint8_t)('a' + i * 7 % 26);
    for (size_t i = 0; i < COUNT(cases); i++) {
        try((struct slice){text, cases[i].len}, 0, cases[i].slices);
        try((struct slice){text, cases[i].len}, 77, cases[i].slices);
    }
    free(text);
}

/* Each of these stands so that a slice would end before it, behind it, and at each place within. */
static void no_escape_is_cut_in_two(void **state)
{
    static const char *const escapes[] = {"%41", "%00", "%25",    "%2541", "%25%25",
                                          "+",   "%2B", "%ff%fe", "+%41+"};
    uint8_t *text = malloc(3 * SLICE);

    (void)state;
    assert_non_null(text);
    for (size_t i = 0; i < COUNT(escapes); i++) {
        size_t len = strlen(escapes[i]);

        for (size_t back = 0; back <= len + 1; back++) {
            memset(text, 'x', 3 * SLICE);
            memcpy(text + SLICE - back, escapes[i], len);
            memcpy(text + 2 * SLICE - back, escapes[i], len);
            try((struct slice){text, 3 * SLICE}, 5, 0);
            try((struct slice){text, SLICE - back + len}, 5, 0);
        }
    }
    free(text);
}

/* The most that escapes can take: what is decoded is a third, and only that stays. */
static void nothing_but_escapes(void **state)
{
    const size_t len = 3 * (SLICE + 5);
    uint8_t *text = malloc(len);

    (void)state;
    assert_non_null(text);
    for (size_t i = 0; i < len; i += 3) {
        text[i] = '%';
        text[i + 1] = (uint8_t) "0123456789abcdef"[i / 3 % 16];
        text[i + 2] = (uint8_t) "0123456789ABCDEF"[i / 48 % 16];
    }
    try((struct slice){text, len}, 0, 0);
    free(text);
}

static void memory_is_had_before_it_is_decoded(void **state)
{
    struct slice escaped = body_with((struct slice){0}, 4 * SLICE, 0);
    struct http_request r = {.http = &http, .body = escaped};
    struct form_value v;

    (void)state;
    account_set_limit(account.total + 2 * SLICE + (2u << 20));
    assert_false(form_value_begin(&v, &r, (struct slice){escaped.ptr, 4 * SLICE * 4}));
    form_value_end(&v);
    assert_int_equal(account.total, begun);
    exact_free(escaped);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(values_of_all_lengths, set_up, tear_down),
        cmocka_unit_test_setup_teardown(no_escape_is_cut_in_two, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nothing_but_escapes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(memory_is_had_before_it_is_decoded, set_up, tear_down),
    };

    return cmocka_run_group_tests_name("etcd/form_value", tests, NULL, NULL);
}
