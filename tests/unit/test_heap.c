/* Pages of holes that go back to the system, and what may not be done at once for that. */
#include "rdzv/engine/heap.h"

#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/sanitized.h"

/* A sanitizer has a malloc() of its own, which gives nothing back. */
static void need_malloc_of_libc(void)
{
#ifdef SANITIZED
    skip();
#endif
}

static struct heap heap;
static uint64_t now_ns;

static int set_up(void **state)
{
    (void)state;
    mallopt(M_PERTURB, 0); /* meson asks free() to write into what it frees */
    now_ns = 1;
    heap_init(&heap);
    assert_in_range(heap_resident(&heap), 1, SIZE_MAX);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    heap_fini(&heap);
    return 0;
}

/* Every second block goes: those holes have neighbours that stay. */
static void make_holes(void **blocks, size_t count, size_t size)
{
    for (size_t i = 0; i < count; i++) {
        blocks[i] = malloc(size);
        assert_non_null(blocks[i]);
        memset(blocks[i], 1, size);
    }
    for (size_t i = 0; i < count; i += 2)
        free(blocks[i]);
}

static void end_blocks(void **blocks, size_t count)
{
    for (size_t i = 1; i < count; i += 2)
        free(blocks[i]);
}

/* Looks until malloc() was asked to give back. How many looks it took; they all came at once. */
static unsigned looks_until_given_back(void)
{
    unsigned looks = 0;

    while (heap.after_ns == 0) {
        heap_trim(&heap, now_ns, 1 << 20);
        looks++;
        assert_in_range(looks, 1, 1000);
        assert_true(heap.after_ns != 0 || heap.next_ns <= now_ns);
    }
    return looks;
}

/* A second is over, and an iteration. */
static void tick(uint64_t requests)
{
    heap_tick(&heap, requests);
    heap_check(&heap, now_ns);
}

static void large_holes_go_back(void **state)
{
    enum { COUNT = 2000, SIZE = 20000 };
    static void *blocks[COUNT];
    size_t before;

    (void)state;
    need_malloc_of_libc();
    make_holes(blocks, COUNT, SIZE);
    before = heap_resident(&heap);
    looks_until_given_back();
    assert_in_range(heap_resident(&heap), 1, before - (size_t)COUNT / 2 * SIZE / 2);
    end_blocks(blocks, COUNT);
}

/* Makes one large hole of free memory that is still resident. */
static void *make_large_hole(size_t size)
{
    enum { BLOCK = 65000 };
    size_t count = size / BLOCK;
    void **blocks = malloc(count * sizeof *blocks), *last;

    assert_non_null(blocks);
    for (size_t i = 0; i < count; i++) {
        blocks[i] = malloc(BLOCK);
        assert_non_null(blocks[i]);
        memset(blocks[i], 1, BLOCK);
    }
    last = blocks[--count]; /* a block behind the hole: without it, free() would return the hole to
                               the system */
    for (size_t i = 0; i < count; i++)
        free(blocks[i]);
    free(blocks);
    return last;
}

/* However much it is: each look takes no longer for it. */
static void a_large_hole_goes_back_bit_by_bit(void **state)
{
    const size_t size = (size_t)100 << 20, each = (size_t)5 << 20;
    size_t before, last;
    void *block;

    (void)state;
    need_malloc_of_libc();
    block = make_large_hole(size);
    before = last = heap_resident(&heap);
    for (unsigned looks = 0; looks < 60; looks++) {
        size_t now;

        heap_trim(&heap, now_ns, 1 << 20);
        now = heap_resident(&heap);
        assert_true(last < now + each);
        last = now;
    }
    assert_true(before > heap.own + 10 * each && last < heap.own + 3 * each);
    assert_int_equal(heap.hollow_count, 0);
    free(block);
}

/* malloc() looks at each of them before it gives anything back: that is done some thousands at a
 * time. */
static void small_holes_are_sorted_bit_by_bit(void **state)
{
    enum { COUNT = 400000, SIZE = 100 };
    static void *blocks[COUNT];

    (void)state;
    need_malloc_of_libc();
    make_holes(blocks, COUNT, SIZE);
    assert_in_range(looks_until_given_back(), 5, 200);
    assert_int_equal(heap.sortings, 0);
    end_blocks(blocks, COUNT);
}

/* Holes are sorted in the iteration that makes them, so that no long list remains for the time of
 * returning memory. */
static void holes_are_sorted_as_they_come(void **state)
{
    enum { COUNT = 400000, SIZE = 100, EACH = 4000 };
    static void *blocks[COUNT];

    (void)state;
    need_malloc_of_libc();
    make_holes(blocks, COUNT, SIZE);
    looks_until_given_back();
    heap = (struct heap){.statm = heap.statm, .page = heap.page, .next_ns = UINT64_MAX};
    account.total = heap.sorted = COUNT / 2 * SIZE;
    for (size_t i = 1; i < COUNT; i += 4) { /* those between them stay */
        free(blocks[i]);
        blocks[i] = NULL;
        account.total -= SIZE;
        if (i % EACH == 1)
            heap_check(&heap, now_ns);
    }
    for (unsigned i = 0; i < 20; i++) /* what others do to the caches makes a look long */
        heap_check(&heap, now_ns);
    assert_in_range(heap.sorted - account.total, 0, HEAP_SORTED_BYTES + EACH / 4 * SIZE);
    heap.own = 0;
    assert_in_range(looks_until_given_back(), 1, 4);
    account.total = 0;
    end_blocks(blocks, COUNT);
}

/* When looking took long, holes of less than an eighth of all are not worth it. */
static void a_long_look_waits_for_more(void **state)
{
    enum { SIZE = 64 << 20, HOLES = 4 << 20 };
    void *block;

    (void)state;
    need_malloc_of_libc();
    block = malloc(SIZE);
    assert_non_null(block);
    memset(block, 1, SIZE);
    heap.own = 0;
    account.total = heap_resident(&heap) - HOLES;
    heap.check_ns = 10000000;
    heap_trim(&heap, now_ns, 1 << 20);
    assert_int_equal(heap.after_ns, 0);
    heap.check_ns = 0;
    looks_until_given_back();
    account.total = 0;
    free(block);
}

/* Clients' requests do not wait for a slow search of the heap, which runs in a quiet second. A
 * process above its limit searches at once. */
static void a_look_that_takes_too_long_waits_for_quiet(void **state)
{
    enum { SIZE = 64 << 20 };
    void *block;

    (void)state;
    need_malloc_of_libc();
    block = malloc(SIZE);
    assert_non_null(block);
    memset(block, 1, SIZE);
    heap.own = 0;
    heap.check_ns = HEAP_CHECK_MOST_NS + 1;
    tick(5);
    tick(6);
    assert_int_equal(heap.after_ns, 0);
    heap_trim(&heap, now_ns, 1 << 20);
    assert_int_equal(heap.after_ns, 0);
    account_set_limit(1 << 20);
    looks_until_given_back();
    account_set_limit(0);
    heap.check_ns = HEAP_CHECK_MOST_NS + 1;
    heap.left = heap.after_ns = 0;
    heap_trim(&heap, now_ns, 1 << 20);
    assert_int_equal(heap.after_ns, 0);
    tick(6);
    looks_until_given_back();
    free(block);
}

/* Looks of some milliseconds are a thousandth of the time; and none is made that may take longer
 * than they may. */
static void a_look_of_some_milliseconds_is_made_now_and_then(void **state)
{
    enum { SIZE = 64 << 20, HOLES = 16 << 20 };
    void *block;

    (void)state;
    need_malloc_of_libc();
    block = malloc(SIZE);
    assert_non_null(block);
    memset(block, 1, SIZE);
    heap.own = 0;
    account.total = heap_resident(&heap) - HOLES;
    heap.check_ns = HEAP_CHECK_FREE_NS + 1;
    heap.after_ns = now_ns + 1;
    heap_trim(&heap, now_ns, 1 << 20);
    assert_int_equal(heap.after_ns, now_ns + 1); /* it is not time yet */
    account.total = 0;
    heap_trim(&heap, now_ns + 1, 1 << 20);
    assert_int_equal(heap.after_ns, now_ns + 1); /* 16,000 holes of a page would take too long */
    account.total = heap_resident(&heap) - HOLES;
    now_ns++;
    heap.after_ns = 0;
    looks_until_given_back();
    account.total = 0;
    free(block);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_long_look_waits_for_more, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_look_that_takes_too_long_waits_for_quiet, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_look_of_some_milliseconds_is_made_now_and_then, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(large_holes_go_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_large_hole_goes_back_bit_by_bit, set_up, tear_down),
        cmocka_unit_test_setup_teardown(small_holes_are_sorted_bit_by_bit, set_up, tear_down),
        cmocka_unit_test_setup_teardown(holes_are_sorted_as_they_come, set_up, tear_down),
    };

    return cmocka_run_group_tests_name("engine/heap", tests, NULL, NULL);
}
