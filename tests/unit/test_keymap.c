/* The c10d world by the rules of the spec folder's c10d-wire.md, section 4: values, numbers, waits,
 * queues, barriers, watches, and the limit on bytes. */
#include "store/keymap.h"

#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "tests/unit/exact.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* One world and its ready list. */
struct world {
    struct ready_list ready;
    struct keymap m;
};

static void world_init(struct world *w, size_t bytes_max)
{
    TAILQ_INIT(&w->ready);
    keymap_init(&w->m, &w->ready, 7, bytes_max);
}

/* Everything is gone, and nothing is counted any more. */
static void world_fini(struct world *w)
{
    assert_int_equal(w->m.waiters, 0);
    keymap_clear(&w->m);
    assert_int_equal(w->m.bytes, 0);
    assert_int_equal(w->m.present, 0);
    assert_int_equal(w->m.keys.count, 0);
    assert_int_equal(w->m.queues.count, 0);
    assert_true(TAILQ_EMPTY(&w->ready));
    keymap_fini(&w->m);
}

static struct slice s(const char *text)
{
    return slice_str(text);
}

static void set(struct world *w, const char *key, const char *value)
{
    assert_int_equal(keymap_set(&w->m, s(key), s(value)), STORE_OK);
}

static void check_value(const struct world *w, const char *key, const char *value)
{
    struct blob *b = keymap_get(&w->m, s(key));

    if (value == NULL) {
        assert_null(b);
        return;
    }
    assert_non_null(b);
    if (!slice_is(blob_slice(b), value))
        print_error("%s is %.*s, expected %s\n", key, (int)b->len, (const char *)b->bytes, value);
    assert_true(slice_is(blob_slice(b), value));
}

/* A list as it stands on the wire; names are separated by blanks. */
static struct slice list_of(const char *names, uint64_t *count, uint8_t *buf, size_t cap)
{
    struct writer w = {.ptr = buf, .cap = cap};
    const char *at = names;

    *count = 0;
    while (*at != '\0') {
        size_t len = strcspn(at, " ");
        uint8_t header[8];

        bytes_put_u64(header, len);
        writer_put(&w, header, 8);
        writer_put(&w, at, len);
        (*count)++;
        at += len + strspn(at + len, " ");
    }
    assert_true(w.len <= cap);
    return (struct slice){buf, w.len};
}

static struct waiter *wait_for(struct world *w, const char *names)
{
    uint8_t buf[1024];
    uint64_t count;
    struct slice list = list_of(names, &count, buf, sizeof buf);
    struct waiter *waiter;

    assert_int_equal(keymap_wait(&w->m, list, count, w, &waiter), STORE_OK);
    return waiter;
}

static struct wake *next_ready(struct world *w)
{
    struct wake *wake = TAILQ_FIRST(&w->ready);

    if (wake != NULL)
        wake_remove(&w->ready, wake);
    return wake;
}

/* Exactly this one is ready (NULL: nobody). It is ended. */
static void expect_woken(struct world *w, struct waiter *waiter)
{
    struct wake *wake = next_ready(w);

    if (waiter == NULL) {
        assert_null(wake);
        return;
    }
    assert_ptr_equal(wake, &waiter->wake);
    assert_int_equal(wake->kind, WAKE_WAITER);
    assert_ptr_equal(wake->owner, w);
    assert_int_equal(waiter->missing, 0);
    keymap_cancel(&w->m, waiter);
}

/* --- Values. --- */

static void a_value_is_what_was_set_last(void **state)
{
    struct world w;

    (void)state;
    world_init(&w, 0);
    check_value(&w, "/k", NULL);
    set(&w, "/k", "one");
    check_value(&w, "/k", "one");
    set(&w, "/k", "");
    check_value(&w, "/k", "");
    set(&w, "", "of the empty key");
    check_value(&w, "", "of the empty key");
    assert_int_equal(w.m.present, 2);
    assert_int_equal(keymap_delete(&w.m, s("/k")), STORE_OK);
    check_value(&w, "/k", NULL);
    assert_int_equal(keymap_delete(&w.m, s("/k")), STORE_ABSENT);
    assert_int_equal(w.m.present, 1);
    world_fini(&w);
}

/* Whoever holds a value goes on reading it, whatever happens to its key. */
static void a_value_that_is_held_does_not_change(void **state)
{
    static const char *const changes[] = {"set", "append", "add", "delete", "compare", "barrier"};
    struct world w;

    (void)state;
    for (size_t i = 0; i < COUNT(changes); i++) {
        struct blob *held, *current;
        int64_t sum;
        bool open;

        world_init(&w, 0);
        assert_int_equal(keymap_add(&w.m, s("/k"), 17, &sum), STORE_OK); /* leaves spare room */
        held = blob_ref(keymap_get(&w.m, s("/k")));
        switch (i) {
        case 0:
            set(&w, "/k", "other");
            break;
        case 1:
            assert_int_equal(keymap_append(&w.m, s("/k"), s("more")), STORE_OK);
            check_value(&w, "/k", "17more");
            break;
        case 2:
            assert_int_equal(keymap_add(&w.m, s("/k"), 1, &sum), STORE_OK);
            check_value(&w, "/k", "18");
            break;
        case 3:
            assert_int_equal(keymap_delete(&w.m, s("/k")), STORE_OK);
            break;
        case 4:
            assert_int_equal(keymap_compare_set(&w.m, s("/k"), s("17"), s("x"), &current),
                             STORE_OK);
            break;
        default:
            assert_int_equal(keymap_barrier(&w.m, s("/k"), 100, &open), STORE_OK);
        }
        assert_true(slice_is(blob_slice(held), "17"));
        blob_unref(held);
        world_fini(&w);
    }
}

static void append_makes_and_extends(void **state)
{
    char expected[3000] = "";
    struct world w;

    (void)state;
    world_init(&w, 0);
    for (int i = 0; i < 500; i++) {
        char more[8];

        snprintf(more, sizeof more, "%d,", i);
        strcat(expected, more);
        assert_int_equal(keymap_append(&w.m, s("/k"), s(more)), STORE_OK);
        check_value(&w, "/k", expected);
        assert_int_equal(w.m.present, 1);
    }
    assert_int_equal(keymap_append(&w.m, s("/k"), s("")), STORE_OK);
    check_value(&w, "/k", expected);
    assert_int_equal(keymap_append(&w.m, s("/empty"), s("")), STORE_OK);
    check_value(&w, "/empty", "");
    world_fini(&w);
}

static void multi_set_sets_pairs_in_their_order(void **state)
{
    uint8_t buf[256];
    uint64_t count;
    struct world w;

    (void)state;
    world_init(&w, 0);
    assert_int_equal(keymap_multi_set(&w.m, list_of("/a 1 /b 2 /a 3", &count, buf, sizeof buf)),
                     STORE_OK);
    check_value(&w, "/a", "3");
    check_value(&w, "/b", "2");
    assert_int_equal(keymap_multi_set(&w.m, (struct slice){0}), STORE_OK);
    assert_int_equal(w.m.present, 2);
    world_fini(&w);
}

/* --- Numbers. --- */

static void add_counts_in_decimal_text(void **state)
{
    struct world w;
    int64_t sum;

    (void)state;
    world_init(&w, 0);
    assert_int_equal(keymap_add(&w.m, s("/n"), 0, &sum), STORE_OK);
    check_value(&w, "/n", "0");
    assert_int_equal(keymap_add(&w.m, s("/n"), -2, &sum), STORE_OK);
    assert_true(sum == -2);
    check_value(&w, "/n", "-2");
    assert_int_equal(keymap_add(&w.m, s("/n"), 12, &sum), STORE_OK);
    check_value(&w, "/n", "10");
    /* It wraps, as torch's does in practice. */
    assert_int_equal(keymap_add(&w.m, s("/n"), INT64_MAX, &sum), STORE_OK);
    assert_true(sum == INT64_MIN + 9);
    check_value(&w, "/n", "-9223372036854775799");
    assert_int_equal(keymap_add(&w.m, s("/n"), -10, &sum), STORE_OK);
    check_value(&w, "/n", "9223372036854775807");
    assert_int_equal(keymap_add(&w.m, s("/n"), 1, &sum), STORE_OK);
    check_value(&w, "/n", "-9223372036854775808");
    world_fini(&w);
}

/* What C makes of the text, which is what torch makes of it. */
static bool by_strtoll(struct slice text, int64_t *out)
{
    char *copy = calloc(text.len + 1, 1), *end;
    bool ok;

    assert_non_null(copy);
    if (text.len != 0)
        memcpy(copy, text.ptr, text.len);
    errno = 0;
    *out = strtoll(copy, &end, 10);
    ok = end != copy && errno != ERANGE;
    free(copy);
    return ok;
}

static void check_number(struct slice text)
{
    struct slice copy = exact(text.ptr, text.len);
    struct world w;
    int64_t expected, sum = 99;
    char digits[32];

    world_init(&w, 0);
    assert_int_equal(keymap_set(&w.m, s("/n"), copy), STORE_OK);
    exact_free(copy);
    if (by_strtoll(text, &expected)) {
        if (keymap_add(&w.m, s("/n"), 5, &sum) != STORE_OK)
            fail_msg("no number: \"%.*s\"", (int)text.len, (const char *)text.ptr);
        if (sum != (int64_t)((uint64_t)expected + 5))
            fail_msg("\"%.*s\" is %" PRId64, (int)text.len, (const char *)text.ptr, sum - 5);
        snprintf(digits, sizeof digits, "%" PRId64, sum);
        check_value(&w, "/n", digits);
    } else {
        if (keymap_add(&w.m, s("/n"), 5, &sum) != STORE_NOT_A_NUMBER)
            fail_msg("a number: \"%.*s\"", (int)text.len, (const char *)text.ptr);
        assert_true(sum == 99);
        assert_true(slice_equal(blob_slice(keymap_get(&w.m, s("/n"))), text));
    }
    world_fini(&w);
}

static void texts_are_numbers_as_strtoll_has_them(void **state)
{
    static const struct slice rows[] = {
#define ROW(text) {(const uint8_t *)(text), sizeof(text) - 1}
        ROW(""),
        ROW(" "),
        ROW("-"),
        ROW("+"),
        ROW("- 1"),
        ROW("abc"),
        ROW(" 12abc"),
        ROW("+7"),
        ROW("-7"),
        ROW("+-7"),
        ROW("12\0"
            "3"),
        ROW("\0"
            "12"),
        ROW("\t\n\v\f\r 9"),
        ROW("0x10"),
        ROW("1e3"),
        ROW("007"),
        ROW("9223372036854775807"),
        ROW("9223372036854775808"),
        ROW("-9223372036854775808"),
        ROW("-9223372036854775809"),
        ROW("18446744073709551616"),
        ROW("000000000000000000000000000000000000000000000000000000000000005"),
        ROW("-000000000000000000000000000000000000000000000000000000000000005"),
        ROW("+00000000000000000000000000000000000000000009223372036854775807x"),
        ROW("000000000000000000000000000000000000000000009223372036854775808"),
        ROW("00000000000000000000000000000000000000000000000000"),
        ROW("0000000000000000000000000000000000000000000000000x"),
        ROW("                                                            42"),
        ROW("                                                            "),
        ROW("99999999999999999999999999999999999999999999999999999999999"),
        ROW("-99999999999999999999999999999999999999999999999999999999999"),
        ROW("1                                                      2"),
        ROW("12345678901234567 followed by what does not matter at all"),
        ROW("+x0000000000000000000000000000000000000000"),
        ROW("\xc2\xa0"
            "5"),
#undef ROW
    };
    uint64_t random = 3;

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++)
        check_number(rows[i]);
    for (int i = 0; i < 20000; i++) {
        static const char alphabet[] = "00000000001923456789 \t+-x";
        uint8_t text[48];
        size_t len;

        random = random * 6364136223846793005u + 1442695040888963407u;
        len = (random >> 33) % sizeof text;
        for (size_t k = 0; k < len; k++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            text[k] = (uint8_t)alphabet[(random >> 33) % (sizeof alphabet - 1)];
        }
        check_number((struct slice){text, len});
    }
}

/* --- Compare and set. --- */

static void compare_set_keeps_torchs_table(void **state)
{
    static const struct {
        const char *stored, *expected, *desired;
        enum store_status status;
        const char *after;
    } rows[] = {
        {NULL, "", "new", STORE_OK, "new"},      {NULL, "", "", STORE_OK, ""},
        {NULL, "x", "new", STORE_ABSENT, NULL},  {"a", "a", "new", STORE_OK, "new"},
        {"a", "b", "new", STORE_MISMATCH, "a"},  {"a", "", "new", STORE_MISMATCH, "a"},
        {"a", "aa", "new", STORE_MISMATCH, "a"}, {"", "", "new", STORE_OK, "new"},
        {"", "x", "new", STORE_MISMATCH, ""},    {"a", "a", "", STORE_OK, ""},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct blob *current = NULL;
        struct world w;

        print_message("  row %zu\n", i);
        world_init(&w, 0);
        if (rows[i].stored != NULL)
            set(&w, "/k", rows[i].stored);
        assert_int_equal(
            keymap_compare_set(&w.m, s("/k"), s(rows[i].expected), s(rows[i].desired), &current),
            rows[i].status);
        check_value(&w, "/k", rows[i].after);
        if (rows[i].status == STORE_MISMATCH)
            assert_true(slice_is(blob_slice(current), rows[i].stored));
        world_fini(&w);
    }
}

/* --- Waiting. --- */

static void a_wait_for_what_exists_is_over_at_once(void **state)
{
    struct world w;

    (void)state;
    world_init(&w, 0);
    assert_null(wait_for(&w, ""));
    set(&w, "/a", "1");
    assert_null(wait_for(&w, "/a"));
    assert_null(wait_for(&w, "/a /a"));
    assert_int_equal(keymap_queue_push(&w.m, s("/q"), s("e")), STORE_OK);
    assert_null(wait_for(&w, "/q /a"));
    assert_int_equal(w.m.waiters, 0);
    assert_int_equal(w.m.keys.count, 1);
    world_fini(&w);
}

/* Each change that makes a key exist counts once; what only looks like one does not count. */
static void each_event_that_makes_a_key_exist_wakes(void **state)
{
    static const char *const names[] = {"set",     "add",   "append",  "multi_set",
                                        "compare", "queue", "barrier", "compare echoes",
                                        "delete"};

    (void)state;
    for (size_t i = 0; i < COUNT(names); i++) {
        struct waiter *waiter;
        struct blob *current;
        uint8_t buf[64];
        uint64_t count;
        int64_t sum;
        struct world w;
        bool open, wakes = true;

        print_message("  %s\n", names[i]);
        world_init(&w, 0);
        waiter = wait_for(&w, "/k");
        assert_non_null(waiter);
        assert_int_equal(w.m.waiters, 1);
        assert_int_equal(w.m.present, 0);
        switch (i) {
        case 0:
            set(&w, "/k", "");
            break;
        case 1:
            assert_int_equal(keymap_add(&w.m, s("/k"), 0, &sum), STORE_OK);
            break;
        case 2:
            assert_int_equal(keymap_append(&w.m, s("/k"), s("")), STORE_OK);
            break;
        case 3:
            assert_int_equal(keymap_multi_set(&w.m, list_of("/j 1 /k 2", &count, buf, sizeof buf)),
                             STORE_OK);
            break;
        case 4:
            assert_int_equal(keymap_compare_set(&w.m, s("/k"), s(""), s("v"), &current), STORE_OK);
            break;
        case 5:
            assert_int_equal(keymap_queue_push(&w.m, s("/k"), s("e")), STORE_OK);
            break;
        case 6:
            assert_int_equal(keymap_barrier(&w.m, s("/k"), 1, &open), STORE_OK);
            assert_true(open);
            break;
        case 7:
            assert_int_equal(keymap_compare_set(&w.m, s("/k"), s("x"), s("v"), &current),
                             STORE_ABSENT);
            wakes = false;
            break;
        default:
            assert_int_equal(keymap_delete(&w.m, s("/k")), STORE_ABSENT);
            wakes = false;
        }
        expect_woken(&w, wakes ? waiter : NULL);
        if (!wakes)
            keymap_cancel(&w.m, waiter);
        expect_woken(&w, NULL);
        world_fini(&w);
    }
}

static void an_arrival_that_completes_no_barrier_does_not_wake_a_wait(void **state)
{
    struct waiter *early, *late;
    struct world w;
    bool open;

    (void)state;
    world_init(&w, 0);
    early = wait_for(&w, "/b");
    assert_int_equal(keymap_barrier(&w.m, s("/b"), 2, &open), STORE_OK);
    assert_false(open);
    expect_woken(&w, NULL);
    late = wait_for(&w, "/b");
    assert_null(late); /* the count is there by now */
    assert_int_equal(keymap_barrier(&w.m, s("/b"), 2, &open), STORE_OK);
    assert_true(open);
    expect_woken(&w, early);
    world_fini(&w);
}

/* "Each key existed at some moment since", not "all exist now". */
static void a_key_that_came_and_went_has_counted(void **state)
{
    struct waiter *waiter;
    struct world w;

    (void)state;
    world_init(&w, 0);
    waiter = wait_for(&w, "/a /b");
    set(&w, "/a", "1");
    assert_int_equal(keymap_delete(&w.m, s("/a")), STORE_OK);
    expect_woken(&w, NULL);
    assert_int_equal(waiter->missing, 1);
    set(&w, "/b", "1");
    expect_woken(&w, waiter);
    world_fini(&w);
}

static void a_second_set_counts_nothing(void **state)
{
    struct waiter *waiter;
    struct world w;

    (void)state;
    world_init(&w, 0);
    waiter = wait_for(&w, "/a /b");
    set(&w, "/a", "1");
    set(&w, "/a", "2");
    set(&w, "/a", "3");
    expect_woken(&w, NULL);
    set(&w, "/b", "1");
    expect_woken(&w, waiter);
    world_fini(&w);
}

static void keys_that_are_listed_twice_count_twice_at_once(void **state)
{
    struct waiter *waiter;
    struct world w;

    (void)state;
    world_init(&w, 0);
    set(&w, "/c", "there already");
    waiter = wait_for(&w, "/a /b /a /c /a");
    assert_int_equal(waiter->missing, 4);
    set(&w, "/a", "1");
    assert_int_equal(waiter->missing, 1);
    set(&w, "/b", "1");
    expect_woken(&w, waiter);
    world_fini(&w);
}

static void waiters_are_woken_in_the_order_in_which_they_are_done(void **state)
{
    struct waiter *one, *two, *three, *four;
    struct world w;

    (void)state;
    world_init(&w, 0);
    one = wait_for(&w, "/a /b");
    two = wait_for(&w, "/a");
    three = wait_for(&w, "/b");
    four = wait_for(&w, "/a");
    set(&w, "/a", "1");
    set(&w, "/b", "1");
    expect_woken(&w, two);
    expect_woken(&w, four);
    expect_woken(&w, one);
    expect_woken(&w, three);
    expect_woken(&w, NULL);
    world_fini(&w);
}

static void a_cancelled_wait_leaves_nothing_behind(void **state)
{
    struct waiter *waiter;
    struct world w;

    (void)state;
    world_init(&w, 0);
    waiter = wait_for(&w, "/a /b /a");
    assert_int_equal(w.m.keys.count, 2);
    keymap_cancel(&w.m, waiter);
    assert_int_equal(w.m.keys.count, 0);
    assert_int_equal(w.m.bytes, 0);
    set(&w, "/a", "1");
    expect_woken(&w, NULL);

    waiter = wait_for(&w, "/c"); /* fulfilled, on the ready list, and then gone */
    set(&w, "/c", "1");
    keymap_cancel(&w.m, waiter);
    expect_woken(&w, NULL);

    waiter = wait_for(&w, "/d /e"); /* half of it has counted */
    set(&w, "/d", "1");
    assert_int_equal(keymap_delete(&w.m, s("/d")), STORE_OK);
    keymap_cancel(&w.m, waiter);
    set(&w, "/e", "1");
    expect_woken(&w, NULL);
    keymap_cancel(&w.m, NULL);
    world_fini(&w);
}

static void absent_keys_that_are_waited_for_are_no_keys(void **state)
{
    uint8_t buf[64];
    struct writer out = {.ptr = buf, .cap = sizeof buf};
    struct waiter *waiter;
    struct world w;

    (void)state;
    world_init(&w, 0);
    waiter = wait_for(&w, "/waited");
    set(&w, "/k", "1");
    check_value(&w, "/waited", NULL);
    assert_false(keymap_exists(&w.m, s("/waited")));
    assert_int_equal(w.m.present, 1);
    assert_int_equal(keymap_list_size(&w.m), 8 + 2);
    keymap_list(&w.m, &out);
    assert_int_equal(out.len, 8 + 2);
    assert_memory_equal(buf, "\x02\0\0\0\0\0\0\0/k", 10);
    assert_int_equal(keymap_delete(&w.m, s("/waited")), STORE_ABSENT);
    keymap_cancel(&w.m, waiter);
    world_fini(&w);
}

/* --- Queues. --- */

static struct blob *pop(struct world *w, const char *name, uint64_t len_before)
{
    struct blob *value = NULL;
    uint64_t len = 99;

    assert_int_equal(keymap_queue_pop(&w->m, s(name), &value, &len), STORE_OK);
    assert_int_equal(len, len_before);
    return value;
}

static void a_queue_gives_its_oldest_first(void **state)
{
    struct world w;

    (void)state;
    world_init(&w, 0);
    assert_int_equal(keymap_queue_len(&w.m, s("/q")), 0);
    for (int i = 0; i < 3; i++) {
        char value[8];

        snprintf(value, sizeof value, "%d", i);
        assert_int_equal(keymap_queue_push(&w.m, s("/q"), s(i == 2 ? "" : value)), STORE_OK);
        assert_int_equal(keymap_queue_len(&w.m, s("/q")), i + 1);
    }
    for (uint64_t i = 0; i < 3; i++) {
        struct blob *value = pop(&w, "/q", 3 - i);

        assert_true(slice_is(blob_slice(value), i == 0 ? "0" : i == 1 ? "1" : ""));
        blob_unref(value);
    }
    {
        struct blob *value = NULL;
        uint64_t len = 0;

        assert_int_equal(keymap_queue_pop(&w.m, s("/q"), &value, &len), STORE_ABSENT);
        assert_null(value);
    }
    assert_int_equal(keymap_queue_len(&w.m, s("/q")), 0);
    assert_int_equal(w.m.bytes, 0);
    world_fini(&w);
}

/* Names of queues live beside keys: WAIT and CHECK see both, all else keys alone. */
static void queues_are_no_keys(void **state)
{
    struct world w;

    (void)state;
    world_init(&w, 0);
    assert_int_equal(keymap_queue_push(&w.m, s("/q"), s("e")), STORE_OK);
    assert_true(keymap_exists(&w.m, s("/q")));
    check_value(&w, "/q", NULL);
    assert_int_equal(w.m.present, 0);
    assert_int_equal(keymap_list_size(&w.m), 0);
    assert_int_equal(keymap_delete(&w.m, s("/q")), STORE_ABSENT);
    assert_int_equal(keymap_queue_len(&w.m, s("/q")), 1);
    set(&w, "/q", "a key of that name");
    blob_unref(pop(&w, "/q", 1));
    check_value(&w, "/q", "a key of that name");
    world_fini(&w);
}

static void a_push_wakes_the_oldest_waiter_alone(void **state)
{
    struct waiter *one, *two;
    struct world w;

    (void)state;
    world_init(&w, 0);
    one = wait_for(&w, "/q");
    two = wait_for(&w, "/q");
    assert_int_equal(keymap_queue_push(&w.m, s("/q"), s("e")), STORE_OK);
    expect_woken(&w, one);
    expect_woken(&w, NULL);
    assert_int_equal(keymap_queue_push(&w.m, s("/q"), s("e")), STORE_OK);
    expect_woken(&w, two);
    assert_int_equal(keymap_queue_push(&w.m, s("/q"), s("e")), STORE_OK);
    expect_woken(&w, NULL);
    world_fini(&w);
}

/* Those before the one that is woken lack another key; this one has counted for them. */
static void a_push_counts_for_those_that_lack_more(void **state)
{
    struct waiter *one, *two, *three;
    struct world w;

    (void)state;
    world_init(&w, 0);
    one = wait_for(&w, "/q /k");
    two = wait_for(&w, "/q /q");
    three = wait_for(&w, "/q");
    assert_int_equal(keymap_queue_push(&w.m, s("/q"), s("e")), STORE_OK);
    assert_int_equal(one->missing, 1);
    expect_woken(&w, two);
    expect_woken(&w, NULL);
    set(&w, "/k", "1");
    expect_woken(&w, one);
    assert_int_equal(keymap_queue_push(&w.m, s("/q"), s("e")), STORE_OK);
    expect_woken(&w, three);
    world_fini(&w);
}

/* A served waiter is out of the list: a later WAIT of the same client is not woken early. */
static void a_served_waiter_is_not_served_again(void **state)
{
    struct waiter *first, *again;
    struct world w;

    (void)state;
    world_init(&w, 0);
    first = wait_for(&w, "/q");
    assert_int_equal(keymap_queue_push(&w.m, s("/q"), s("e")), STORE_OK);
    expect_woken(&w, first);
    blob_unref(pop(&w, "/q", 1));
    again = wait_for(&w, "/other");
    assert_int_equal(keymap_queue_push(&w.m, s("/q"), s("e")), STORE_OK);
    expect_woken(&w, NULL);
    keymap_cancel(&w.m, again);
    world_fini(&w);
}

static void a_key_of_the_queues_name_wakes_all(void **state)
{
    struct waiter *one, *two;
    struct world w;

    (void)state;
    world_init(&w, 0);
    one = wait_for(&w, "/q");
    two = wait_for(&w, "/q");
    set(&w, "/q", "a key");
    expect_woken(&w, one);
    expect_woken(&w, two);
    world_fini(&w);
}

/* --- Barriers. --- */

static struct waiter *arrive(struct world *w, const char *key, int64_t world_size, bool opens)
{
    struct waiter *waiter = NULL;
    bool open = !opens;

    assert_int_equal(keymap_barrier(&w->m, s(key), world_size, &open), STORE_OK);
    assert_int_equal(open, opens);
    if (!open)
        assert_int_equal(keymap_barrier_wait(&w->m, s(key), w, &waiter), STORE_OK);
    return waiter;
}

static void a_barrier_opens_with_its_last_arrival_and_stays_open(void **state)
{
    struct waiter *one, *two;
    struct world w;

    (void)state;
    world_init(&w, 0);
    assert_null(arrive(&w, "/one", 1, true));
    assert_null(arrive(&w, "/zero", 0, true));
    assert_null(arrive(&w, "/negative", -5, true));
    one = arrive(&w, "/b", 3, false);
    two = arrive(&w, "/b", 3, false);
    check_value(&w, "/b", "2");
    expect_woken(&w, NULL);
    arrive(&w, "/b", 3, true);
    expect_woken(&w, one);
    expect_woken(&w, two);
    arrive(&w, "/b", 3, true);
    check_value(&w, "/b", "4");
    assert_int_equal(w.m.present, 4);
    world_fini(&w);
}

static void a_barrier_opens_by_its_count_alone(void **state)
{
    struct waiter *one;
    struct world w;
    int64_t sum;

    (void)state;
    world_init(&w, 0);
    one = arrive(&w, "/b", 3, false);
    set(&w, "/b", "1");
    assert_int_equal(keymap_add(&w.m, s("/b"), 1, &sum), STORE_OK);
    expect_woken(&w, NULL);
    arrive(&w, "/b", 3, true); /* an ADD is an arrival to the count */
    expect_woken(&w, one);
    world_fini(&w);
}

static void a_cancelled_arrival_stays_counted(void **state)
{
    struct world w;

    (void)state;
    world_init(&w, 0);
    keymap_cancel(&w.m, arrive(&w, "/b", 2, false));
    check_value(&w, "/b", "1");
    assert_null(arrive(&w, "/b", 2, true));
    expect_woken(&w, NULL);
    world_fini(&w);
}

static void a_barrier_on_no_number_is_refused(void **state)
{
    struct world w;
    bool open = true;

    (void)state;
    world_init(&w, 0);
    set(&w, "/b", "text");
    assert_int_equal(keymap_barrier(&w.m, s("/b"), 1, &open), STORE_NOT_A_NUMBER);
    check_value(&w, "/b", "text");
    set(&w, "/b", "9223372036854775807");
    assert_int_equal(keymap_barrier(&w.m, s("/b"), 1, &open), STORE_OK); /* it wraps */
    assert_false(open);
    check_value(&w, "/b", "-9223372036854775808");
    world_fini(&w);
}

/* --- Watches. --- */

static void expect_event(struct subscription *sub, uint8_t type, const char *key, const char *old,
                         const char *now)
{
    const char *const parts[] = {key, old, now};
    struct blob *b = subscription_next(sub);
    uint8_t expected[256];
    struct writer w = {.ptr = expected, .cap = sizeof expected};

    assert_non_null(b);
    writer_u8(&w, type);
    for (size_t i = 0; i < COUNT(parts); i++) {
        uint8_t len[8];

        bytes_put_u64(len, strlen(parts[i]));
        writer_put(&w, len, 8);
        writer_str(&w, parts[i]);
    }
    assert_int_equal(b->len, w.len);
    assert_memory_equal(b->bytes, expected, w.len);
    blob_unref(b);
}

static void watchers_are_told_of_each_change(void **state)
{
    struct subscription sub;
    struct key_watch *watch, *twice;
    struct blob *current;
    struct world w;
    int64_t sum;

    (void)state;
    world_init(&w, 0);
    subscription_init(&sub, &w);
    watch = keymap_watch(&w.m, s("/k"), &sub);
    set(&w, "/other", "unseen");
    assert_null(next_ready(&w));
    set(&w, "/k", "1");
    assert_ptr_equal(next_ready(&w), &sub.wake);
    expect_event(&sub, 1, "/k", "", "1");
    set(&w, "/k", "2");
    expect_event(&sub, 0, "/k", "1", "2");
    assert_int_equal(keymap_add(&w.m, s("/k"), 40, &sum), STORE_OK);
    expect_event(&sub, 0, "/k", "2", "42");
    assert_int_equal(keymap_compare_set(&w.m, s("/k"), s("no"), s("x"), &current), STORE_MISMATCH);
    assert_int_equal(keymap_compare_set(&w.m, s("/k"), s("42"), s("x"), &current), STORE_OK);
    expect_event(&sub, 0, "/k", "42", "x");
    assert_int_equal(keymap_append(&w.m, s("/k"), s("yz")), STORE_OK);
    expect_event(&sub, 4, "/k", "", "yz");
    assert_int_equal(keymap_delete(&w.m, s("/k")), STORE_OK);
    expect_event(&sub, 2, "/k", "xyz", "");
    assert_int_equal(keymap_compare_set(&w.m, s("/k"), s(""), s("new"), &current), STORE_OK);
    expect_event(&sub, 1, "/k", "", "new");
    assert_int_equal(keymap_delete(&w.m, s("/k")), STORE_OK);
    expect_event(&sub, 2, "/k", "new", "");
    assert_int_equal(keymap_add(&w.m, s("/k"), 3, &sum), STORE_OK);
    expect_event(&sub, 1, "/k", "", "3");
    assert_null(subscription_next(&sub));

    twice = keymap_watch(&w.m, s("/k"), &sub); /* duplicates are told twice */
    assert_int_equal(w.m.waiters, 2);
    keymap_clear(&w.m);
    expect_event(&sub, 2, "/k", "3", "");
    expect_event(&sub, 2, "/k", "3", "");
    keymap_unwatch(&w.m, watch);
    set(&w, "/k", "1");
    keymap_unwatch(&w.m, twice);
    set(&w, "/k", "2");
    assert_int_equal(sub.queued, 1);
    subscription_fini(&w.ready, &sub);
    world_fini(&w);
}

/* --- The limit on bytes. --- */

static void a_full_space_refuses_and_stays_as_it_was(void **state)
{
    enum { LIMIT = 4096 };
    static const char *const names[] = {"set",  "append",  "add",     "multi_set",       "push",
                                        "wait", "barrier", "compare", "compare and make"};
    char big[LIMIT + 1];

    (void)state;
    memset(big, 'b', LIMIT);
    big[LIMIT] = '\0';
    for (size_t i = 0; i < COUNT(names); i++) {
        enum store_status status;
        size_t before, keys, room = LIMIT - 2 * sizeof(struct entry) - 100;
        struct waiter *waiter = NULL;
        struct blob *current;
        uint8_t buf[512];
        uint64_t count;
        int64_t sum = 99;
        struct world w;
        bool open = true;

        print_message("  %s\n", names[i]);
        world_init(&w, LIMIT);
        set(&w, "/small", "s");
        while (room > sizeof(struct entry)) { /* fill it up until no further key fits */
            char key[32];

            snprintf(key, sizeof key, "/%zu", room);
            if (keymap_set(&w.m, s(key), s("")) != STORE_OK)
                break;
            room -= 1;
        }
        before = w.m.bytes;
        keys = w.m.keys.count;
        assert_in_range(before, LIMIT / 2, LIMIT);
        switch (i) {
        case 0:
            status = keymap_set(&w.m, s("/small"), s(big));
            break;
        case 1:
            status = keymap_append(&w.m, s("/small"), s(big));
            break;
        case 2:
            status = keymap_add(&w.m, s("/new"), 1, &sum);
            break;
        case 3: /* the first pair alone would fit */
            status = keymap_multi_set(
                &w.m, list_of("/small t /n1 1 /n2 2 /n3 3", &count, buf, sizeof buf));
            break;
        case 4:
            status = keymap_queue_push(&w.m, s("/q"), s(big));
            break;
        case 5: {
            struct slice list = list_of("/n1 /n2 /n3 /n4", &count, buf, sizeof buf);

            status = keymap_wait(&w.m, list, count, NULL, &waiter);
            assert_null(waiter);
            break;
        }
        case 6:
            status = keymap_barrier(&w.m, s("/new"), 2, &open);
            break;
        case 7:
            status = keymap_compare_set(&w.m, s("/small"), s("s"), s(big), &current);
            break;
        default:
            status = keymap_compare_set(&w.m, s("/new"), s(""), s(big), &current);
        }
        assert_int_equal(status, STORE_FULL);
        assert_int_equal(w.m.bytes, before);
        assert_int_equal(w.m.keys.count, keys);
        assert_int_equal(w.m.waiters, 0);
        check_value(&w, "/small", "s");
        check_value(&w, "/new", NULL);
        assert_true(sum == 99);
        set(&w, "/small", "t"); /* what takes no more room than it frees still fits */
        assert_int_equal(keymap_delete(&w.m, s("/small")), STORE_OK);
        set(&w, "/again", "s");
        world_fini(&w);
    }
}

static void no_more_than_the_limit_is_ever_held(void **state)
{
    enum { LIMIT = 8192 };
    uint64_t random = 11;
    struct world w;
    size_t full = 0;

    (void)state;
    world_init(&w, LIMIT);
    for (int step = 0; step < 50000; step++) {
        char key[8], value[400];
        struct blob *element;
        uint64_t len;
        int64_t sum;
        bool open;
        enum store_status status;

        random = random * 6364136223846793005u + 1442695040888963407u;
        snprintf(key, sizeof key, "/%u", (unsigned)(random >> 40) % 12);
        memset(value, 'v', sizeof value);
        value[(random >> 20) % sizeof value] = '\0';
        switch ((random >> 56) % 7) {
        case 0:
            status = keymap_set(&w.m, s(key), s(value));
            break;
        case 1:
            status = keymap_append(&w.m, s(key), s(value));
            break;
        case 2:
            status = keymap_delete(&w.m, s(key));
            break;
        case 3:
            status = keymap_queue_push(&w.m, s(key), s(value));
            break;
        case 4:
            status = keymap_add(&w.m, s(key), 1, &sum);
            break;
        case 5:
            status = keymap_barrier(&w.m, s(key), 1, &open);
            break;
        default:
            status = keymap_queue_pop(&w.m, s(key), &element, &len);
            if (status == STORE_OK)
                blob_unref(element);
        }
        full += status == STORE_FULL;
        assert_in_range(w.m.bytes, 0, LIMIT);
    }
    assert_in_range(full, 1000, 50000); /* it was at the limit indeed */
    world_fini(&w);
}

/* --- The whole. --- */

static void clearing_forgets_keys_and_queues_and_keeps_those_who_wait(void **state)
{
    struct waiter *half, *barrier;
    struct world w;

    (void)state;
    world_init(&w, 0);
    half = wait_for(&w, "/a /b");
    barrier = arrive(&w, "/bar", 2, false);
    set(&w, "/a", "1");
    set(&w, "/k", "1");
    assert_int_equal(keymap_queue_push(&w.m, s("/q"), s("1")), STORE_OK);
    assert_int_equal(keymap_queue_push(&w.m, s("/q"), s("2")), STORE_OK);
    keymap_clear(&w.m);
    assert_int_equal(w.m.present, 0);
    assert_int_equal(w.m.queues.count, 0);
    assert_int_equal(w.m.keys.count, 2); /* "/b" and "/bar": waited for, and absent */
    expect_woken(&w, NULL);
    set(&w, "/b", "1"); /* "/a" has counted */
    expect_woken(&w, half);
    arrive(&w, "/bar", 1, true); /* the count began anew, and this one is enough */
    expect_woken(&w, barrier);
    world_fini(&w);
}

static void the_list_has_each_key_once(void **state)
{
    uint8_t buf[256];
    struct writer out = {.ptr = buf, .cap = sizeof buf};
    struct world w;

    (void)state;
    world_init(&w, 0);
    set(&w, "init/", "1");
    set(&w, "/b", "1");
    set(&w, "/a", "1");
    set(&w, "/b", "2");
    keymap_delete(&w.m, s("/a"));
    set(&w, "", "1");
    assert_int_equal(w.m.present, 3);
    keymap_list(&w.m, &out);
    assert_int_equal(out.len, keymap_list_size(&w.m));
    assert_int_equal(out.len, 3 * 8 + 5 + 2);
    assert_memory_equal(buf, "\5\0\0\0\0\0\0\0init/\2\0\0\0\0\0\0\0/b\0\0\0\0\0\0\0\0", out.len);
    world_fini(&w);
}

/* A replay knows nothing of those who waited, and must list the same. */
static void the_list_is_in_order_of_creation_whoever_waited(void **state)
{
    uint8_t buf[256];
    struct writer out = {.ptr = buf, .cap = sizeof buf};
    struct waiter *waiter;
    struct world w;

    (void)state;
    world_init(&w, 0);
    waiter = wait_for(&w, "/c /b");
    set(&w, "/a", "1");
    set(&w, "/b", "1");
    set(&w, "/c", "1");
    expect_woken(&w, waiter);
    assert_int_equal(keymap_delete(&w.m, s("/a")), STORE_OK);
    set(&w, "/b", "2"); /* it was there, and stays where it was */
    set(&w, "/a", "2");
    keymap_list(&w.m, &out);
    assert_memory_equal(buf, "\2\0\0\0\0\0\0\0/b\2\0\0\0\0\0\0\0/c\2\0\0\0\0\0\0\0/a", 30);
    world_fini(&w);
}

/* What the limit does not count must not be held: a number in the place of a long text. */
static void a_number_gives_back_the_room_of_a_long_text(void **state)
{
    static uint8_t text[100000] = "1";
    struct world w;
    struct blob *b;
    int64_t sum;

    (void)state;
    memset(text + 1, ' ', sizeof text - 1);
    world_init(&w, 0);
    assert_int_equal(keymap_set(&w.m, s("k"), (struct slice){text, sizeof text}), STORE_OK);
    assert_int_equal(keymap_add(&w.m, s("k"), 41, &sum), STORE_OK);
    assert_int_equal(sum, 42);
    check_value(&w, "k", "42");
    b = keymap_get(&w.m, s("k"));
    assert_in_range(b->len + b->spare, 2, 64);
    world_fini(&w);
}

/* One connection may watch a key often, and be told of each change each time: up to a limit. */
static void who_is_told_too_often_loses_the_subscription(void **state)
{
    struct subscription subscription;
    struct key_watch *watches[64];
    struct blob *event;
    size_t told = 0;
    struct world w;

    (void)state;
    world_init(&w, 0);
    subscription_init(&subscription, &w);
    for (size_t i = 0; i < COUNT(watches); i++) {
        watches[i] = keymap_watch(&w.m, s("k"), &subscription);
        assert_non_null(watches[i]);
    }
    for (size_t i = 0; i < SUBSCRIPTION_MAX / COUNT(watches); i++)
        set(&w, "k", "v");
    assert_int_equal(subscription.queued, SUBSCRIPTION_MAX);
    assert_false(subscription.lost);
    set(&w, "k", "v");
    assert_int_equal(subscription.queued, SUBSCRIPTION_MAX);
    assert_true(subscription.lost && subscription.ended && subscription.wake.ready);
    while ((event = subscription_next(&subscription)) != NULL) {
        blob_unref(event);
        told++;
    }
    assert_int_equal(told, SUBSCRIPTION_MAX);
    for (size_t i = 0; i < COUNT(watches); i++)
        keymap_unwatch(&w.m, watches[i]);
    subscription_fini(&w.ready, &subscription);
    world_fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_value_is_what_was_set_last),
        cmocka_unit_test(a_value_that_is_held_does_not_change),
        cmocka_unit_test(append_makes_and_extends),
        cmocka_unit_test(multi_set_sets_pairs_in_their_order),
        cmocka_unit_test(add_counts_in_decimal_text),
        cmocka_unit_test(texts_are_numbers_as_strtoll_has_them),
        cmocka_unit_test(compare_set_keeps_torchs_table),
        cmocka_unit_test(a_wait_for_what_exists_is_over_at_once),
        cmocka_unit_test(each_event_that_makes_a_key_exist_wakes),
        cmocka_unit_test(an_arrival_that_completes_no_barrier_does_not_wake_a_wait),
        cmocka_unit_test(a_key_that_came_and_went_has_counted),
        cmocka_unit_test(a_second_set_counts_nothing),
        cmocka_unit_test(keys_that_are_listed_twice_count_twice_at_once),
        cmocka_unit_test(waiters_are_woken_in_the_order_in_which_they_are_done),
        cmocka_unit_test(a_cancelled_wait_leaves_nothing_behind),
        cmocka_unit_test(absent_keys_that_are_waited_for_are_no_keys),
        cmocka_unit_test(a_queue_gives_its_oldest_first),
        cmocka_unit_test(queues_are_no_keys),
        cmocka_unit_test(a_push_wakes_the_oldest_waiter_alone),
        cmocka_unit_test(a_push_counts_for_those_that_lack_more),
        cmocka_unit_test(a_served_waiter_is_not_served_again),
        cmocka_unit_test(a_key_of_the_queues_name_wakes_all),
        cmocka_unit_test(a_barrier_opens_with_its_last_arrival_and_stays_open),
        cmocka_unit_test(a_barrier_opens_by_its_count_alone),
        cmocka_unit_test(a_cancelled_arrival_stays_counted),
        cmocka_unit_test(a_barrier_on_no_number_is_refused),
        cmocka_unit_test(watchers_are_told_of_each_change),
        cmocka_unit_test(a_full_space_refuses_and_stays_as_it_was),
        cmocka_unit_test(no_more_than_the_limit_is_ever_held),
        cmocka_unit_test(clearing_forgets_keys_and_queues_and_keeps_those_who_wait),
        cmocka_unit_test(the_list_has_each_key_once),
        cmocka_unit_test(the_list_is_in_order_of_creation_whoever_waited),
        cmocka_unit_test(a_number_gives_back_the_room_of_a_long_text),
        cmocka_unit_test(who_is_told_too_often_loses_the_subscription),
    };

    return cmocka_run_group_tests_name("store/keymap", tests, NULL, NULL);
}
