/* Half a request in memory: it grows and gets smaller, between the heap and pages of its own, and
 * no byte of it is lost. */
#include "rdzv/net/conn.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define PAGE     4096u
#define MIB      (1u << 20)

static struct lazy_free lazy_free;
static size_t begun; /* bytes that were held before */

static int set_up(void **state)
{
    (void)state;
    account_set_limit(0);
    lazy_free_init(&lazy_free);
    begun = account.total;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    account_set_limit(0);
    lazy_free_run(&lazy_free, SIZE_MAX);
    assert_true(lazy_free_is_empty(&lazy_free));
    assert_int_equal(account.total, begun);
    return 0;
}

static struct input *begin(size_t cap)
{
    struct input *in = account_request(ACCOUNT_INPUT, ACCOUNT_ORDINARY, inbuf_size(cap));

    assert_non_null(in);
    *in = (struct input){.cap = cap, .need = 7};
    return in;
}

/* The byte that is at that place of the stream. */
static uint8_t byte_at(size_t i)
{
    return (uint8_t)(i * 2654435761u >> 13);
}

static void fill(struct input *in, size_t len)
{
    assert_in_range(len, in->len, in->cap);
    for (; in->len < len; in->len++)
        in->bytes[in->len] = byte_at(in->len);
}

static void check(const struct input *in, size_t len)
{
    assert_int_equal(in->start, 0);
    assert_int_equal(in->len, len);
    assert_int_equal(in->need, 7);
    for (size_t i = 0; i < len; i++) {
        if (in->bytes[i] != byte_at(i))
            fail_msg("byte %zu of %zu is another", i, len);
    }
}

static bool resize(struct input **in, size_t cap)
{
    return inbuf_resize(in, &lazy_free, ACCOUNT_ORDINARY, cap);
}

/* The buffer has the requested room and at most a page more. The account counts this room once the
 * lazy free has freed the earlier pages. */
static void check_room(const struct input *in, size_t cap)
{
    lazy_free_run(&lazy_free, SIZE_MAX);
    assert_in_range(in->cap, cap, cap + PAGE - 1);
    assert_int_equal(account.total - begun, account_cost(inbuf_size(in->cap)));
}

static void every_size_becomes_every_other(void **state)
{
    static const size_t sizes[] = {1,         2,          100,         PAGE,        16 * 1024,
                                   MIB - 100, MIB - 33,   MIB - 32,    MIB - 31,    MIB,
                                   MIB + 1,   MIB + PAGE, 3 * MIB + 5, 16 * MIB - 1};

    (void)state;
    for (size_t from = 0; from < COUNT(sizes); from++) {
        for (size_t to = 0; to < COUNT(sizes); to++) {
            size_t len = sizes[from] < sizes[to] ? sizes[from] : sizes[to];
            struct input *in = begin(1);

            assert_true(resize(&in, sizes[from]));
            check_room(in, sizes[from]);
            fill(in, len);
            assert_true(resize(&in, sizes[to]));
            check_room(in, sizes[to]);
            check(in, len);
            inbuf_free(&in, &lazy_free);
            lazy_free_run(&lazy_free, SIZE_MAX);
            assert_int_equal(account.total, begun);
        }
    }
}

/* As a request comes: some bytes at a time, cut anywhere, with room made for the next ones. */
static void a_stream_is_kept_however_it_is_cut(void **state)
{
    (void)state;
    for (unsigned seed = 0; seed < 40; seed++) {
        unsigned random = seed;
        struct input *in = begin(1);

        while (in->len < 3 * MIB) {
            size_t more = (size_t)rand_r(&random) % (seed % 4 == 0 ? 200000 : 50000) + 1;

            if (in->cap - in->len < more)
                assert_true(resize(&in, in->len + more));
            check_room(in, in->len + more < in->cap ? in->cap : in->len + more);
            fill(in, in->len + more);
        }
        check(in, in->len);
        assert_true(resize(&in, in->len));
        check(in, in->len);
        inbuf_free(&in, &lazy_free);
        lazy_free_run(&lazy_free, SIZE_MAX);
    }
}

/* Growing pages are not copied, so memory never holds a second copy of the buffer. */
static void pages_grow_without_a_second_copy(void **state)
{
    struct input *in = begin(1);

    (void)state;
    assert_true(resize(&in, 2 * MIB));
    lazy_free_run(&lazy_free, SIZE_MAX);
    account_set_limit(account.total + 20 * MIB);
    while (in->cap < 16 * MIB) {
        fill(in, in->cap);
        assert_true(resize(&in, in->cap + MIB));
        assert_true(lazy_free_is_empty(&lazy_free));
    }
    check(in, in->len);
    inbuf_free(&in, &lazy_free);
}

static void without_room_it_stays_as_it_is(void **state)
{
    static const struct {
        size_t from, to;
    } cases[] = {
        {1000, 100000},
        {1000, 2 * MIB},
        {2 * MIB, 9 * MIB},
        {MIB - 100, MIB + 100},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct input *in = begin(1), *before;
        size_t total, cap;

        assert_true(resize(&in, cases[i].from));
        fill(in, cases[i].from);
        before = in;
        cap = in->cap;
        total = account.total;
        account_set_limit(1); /* whatever is more */
        assert_false(resize(&in, cases[i].to));
        assert_ptr_equal(in, before);
        assert_int_equal(in->cap, cap);
        assert_int_equal(account.total, total);
        check(in, cases[i].from);
        account_set_limit(0);
        assert_true(resize(&in, cases[i].to));
        check(in, cases[i].from);
        inbuf_free(&in, &lazy_free);
        lazy_free_run(&lazy_free, SIZE_MAX);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_size_becomes_every_other, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_stream_is_kept_however_it_is_cut, set_up, tear_down),
        cmocka_unit_test_setup_teardown(pages_grow_without_a_second_copy, set_up, tear_down),
        cmocka_unit_test_setup_teardown(without_room_it_stays_as_it_is, set_up, tear_down),
    };

    return cmocka_run_group_tests_name("net/inbuf", tests, NULL, NULL);
}
