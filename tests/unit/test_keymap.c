/* The keys of c10d, as torch's TCPStore keeps them: values, numbers, the list of keys; and the
 * limit on bytes. Who waits for keys is in test_keymap_wait.c. */
#include "store/keymap/keymap.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "store/keymap/keymap_entry.h"
#include "tests/support/key_list.h"
#include "tests/unit/exact.h"
#include "tests/unit/keymap_fixture.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* --- Values. --- */

static void a_value_is_what_was_set_last(void **state)
{
    struct fixture w;

    (void)state;
    fixture_init(&w, 0);
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
    fixture_fini(&w);
}

/* Whoever holds a value goes on reading it, whatever happens to its key. */
static void a_value_that_is_held_does_not_change(void **state)
{
    static const char *const changes[] = {"set", "append", "add", "delete", "compare", "barrier"};
    struct fixture w;

    (void)state;
    for (size_t i = 0; i < COUNT(changes); i++) {
        struct blob *held, *current;
        int64_t sum;
        bool open;

        fixture_init(&w, 0);
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
        fixture_fini(&w);
    }
}

static void append_makes_and_extends(void **state)
{
    char expected[3000] = "";
    struct fixture w;

    (void)state;
    fixture_init(&w, 0);
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
    fixture_fini(&w);
}

static void multi_set_sets_pairs_in_their_order(void **state)
{
    uint8_t buf[256];
    uint64_t count;
    struct fixture w;

    (void)state;
    fixture_init(&w, 0);
    assert_int_equal(keymap_multi_set(&w.m, list_of("/a 1 /b 2 /a 3", &count, buf, sizeof buf)),
                     STORE_OK);
    check_value(&w, "/a", "3");
    check_value(&w, "/b", "2");
    assert_int_equal(keymap_multi_set(&w.m, (struct slice){0}), STORE_OK);
    assert_int_equal(w.m.present, 2);
    fixture_fini(&w);
}

/* --- Numbers. --- */

static void add_counts_in_decimal_text(void **state)
{
    struct fixture w;
    int64_t sum;

    (void)state;
    fixture_init(&w, 0);
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
    fixture_fini(&w);
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
    struct fixture w;
    int64_t expected, sum = 99;
    char digits[32];

    fixture_init(&w, 0);
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
    fixture_fini(&w);
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
        struct fixture w;

        print_message("  row %zu\n", i);
        fixture_init(&w, 0);
        if (rows[i].stored != NULL)
            set(&w, "/k", rows[i].stored);
        assert_int_equal(
            keymap_compare_set(&w.m, s("/k"), s(rows[i].expected), s(rows[i].desired), &current),
            rows[i].status);
        check_value(&w, "/k", rows[i].after);
        if (rows[i].status == STORE_MISMATCH)
            assert_true(slice_is(blob_slice(current), rows[i].stored));
        fixture_fini(&w);
    }
}

/* --- The limit on bytes. --- */

static void a_full_space_refuses_and_stays_as_it_was(void **state)
{
    enum { LIMIT = 4096 };
    static const char *const names[] = {"set",  "append",  "add",     "multi_set",
                                        "push", "barrier", "compare", "compare and make"};
    char big[LIMIT + 1];

    (void)state;
    memset(big, 'b', LIMIT);
    big[LIMIT] = '\0';
    for (size_t i = 0; i < COUNT(names); i++) {
        enum store_status status;
        size_t before, keys, room = LIMIT - 2 * sizeof(struct entry) - 100;
        struct blob *current;
        uint8_t buf[512];
        uint64_t count;
        int64_t sum = 99;
        struct fixture w;
        bool open = true;

        print_message("  %s\n", names[i]);
        fixture_init(&w, LIMIT);
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
        case 5:
            status = keymap_barrier(&w.m, s("/new"), 2, &open);
            break;
        case 6:
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
        set(&w, "/small", "t"); /* a value no longer than the old one still fits */
        assert_int_equal(keymap_delete(&w.m, s("/small")), STORE_OK);
        set(&w, "/again", "s");
        fixture_fini(&w);
    }
}

/* Clients that only wait take no room from keys, and keys none from them. */
static void what_waits_is_counted_apart(void **state)
{
    enum { LIMIT = 4096 };
    struct waiter *waiters[LIMIT] = {NULL};
    uint8_t buf[64];
    char big[LIMIT];
    size_t count = 0, waiting;
    struct fixture w;
    uint64_t n;
    bool open = true;

    (void)state;
    memset(big, 'b', sizeof big);
    big[LIMIT - sizeof(struct entry) - 100] = '\0';
    fixture_init(&w, LIMIT);
    for (;; count++) {
        char key[32];

        snprintf(key, sizeof key, "/w%zu", count);
        if (keymap_wait(&w.m, list_of(key, &n, buf, sizeof buf), 1, NULL, &waiters[count]) !=
            STORE_OK)
            break;
    }
    assert_in_range(count, 3, LIMIT / sizeof(struct entry));
    assert_int_equal(w.m.bytes, 0);
    waiting = w.m.waiting_bytes;
    assert_in_range(waiting, LIMIT / 2, LIMIT);
    set(&w, "/key", big); /* as if there were no waiters */
    assert_int_equal(w.m.waiting_bytes, waiting);
    assert_int_equal(keymap_set(&w.m, s("/key2"), s(big)), STORE_FULL);
    set(&w, "/key", "");
    /* If a BARRIER must wait and the space has no room for its waiter, the barrier does not count
     * it. */
    while (w.m.waiting_bytes + sizeof(struct waiter) + sizeof(struct wait_link) <= LIMIT)
        assert_int_equal(keymap_barrier_wait(&w.m, s("/key"), 9, NULL, &waiters[count++]),
                         STORE_OK);
    assert_int_equal(keymap_barrier(&w.m, s("/barrier"), 2, &open), STORE_FULL);
    check_value(&w, "/barrier", NULL);
    assert_int_equal(keymap_barrier(&w.m, s("/barrier"), 1, &open), STORE_OK);
    for (size_t i = 0; i < count; i++)
        keymap_cancel(&w.m, waiters[i]);
    fixture_fini(&w);
}

/* As a million of them take it in rdzvd: --space-limit and the sizing of the documents count on it.
 */
static void a_small_key_takes_little(void **state)
{
    enum { KEYS = 4096 };
    struct fixture w;
    char key[17];

    (void)state;
    fixture_init(&w, 0);
    for (int i = 0; i < KEYS; i++) {
        snprintf(key, sizeof key, "/rank/%010d", i);
        set(&w, key, "12345678");
    }
    assert_in_range(account.bytes[ACCOUNT_KEYS], 100 * KEYS, 130 * KEYS);
    fixture_fini(&w);
    assert_int_equal(account.bytes[ACCOUNT_KEYS], 0);
}

static void no_more_than_the_limit_is_ever_held(void **state)
{
    enum { LIMIT = 8192 };
    uint64_t random = 11;
    struct fixture w;
    size_t full = 0;

    (void)state;
    fixture_init(&w, LIMIT);
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
    fixture_fini(&w);
}

static void the_list_has_each_key_once(void **state)
{
    uint8_t buf[256];
    struct writer out = {.ptr = buf, .cap = sizeof buf};
    struct fixture w;

    (void)state;
    fixture_init(&w, 0);
    set(&w, "init/", "1");
    set(&w, "/b", "1");
    set(&w, "/a", "1");
    set(&w, "/b", "2");
    keymap_delete(&w.m, s("/a"));
    set(&w, "", "1");
    assert_int_equal(w.m.present, 3);
    assert_true(key_list_now(&w.m, &out));
    assert_int_equal(out.len, keymap_list_size(&w.m));
    assert_int_equal(out.len, 3 * 8 + 5 + 2);
    assert_memory_equal(buf, "\5\0\0\0\0\0\0\0init/\2\0\0\0\0\0\0\0/b\0\0\0\0\0\0\0\0", out.len);
    fixture_fini(&w);
}

/* What the limit does not count must not be held: a number in the place of a long text. */
static void a_number_gives_back_the_room_of_a_long_text(void **state)
{
    static uint8_t text[100000] = "1";
    struct fixture w;
    struct blob *b;
    int64_t sum;

    (void)state;
    memset(text + 1, ' ', sizeof text - 1);
    fixture_init(&w, 0);
    assert_int_equal(keymap_set(&w.m, s("k"), (struct slice){text, sizeof text}), STORE_OK);
    assert_int_equal(keymap_add(&w.m, s("k"), 41, &sum), STORE_OK);
    assert_int_equal(sum, 42);
    check_value(&w, "k", "42");
    b = keymap_get(&w.m, s("k"));
    assert_in_range(b->len + b->spare, 2, 64);
    fixture_fini(&w);
}

/* A few bytes ask for it: that a large value goes, or is copied since somebody still holds it. */
static void what_becomes_of_large_values_is_work(void **state)
{
    enum { SIZE = 1 << 20 };
    static uint8_t bytes[SIZE];
    const struct slice large = {bytes, SIZE};
    struct blob *held;
    struct fixture w;
    uint64_t before;

    (void)state;
    fixture_init(&w, 0);
    assert_int_equal(keymap_set(&w.m, s("/k"), large), STORE_OK);
    assert_int_equal(w.ready.work, 0);
    set(&w, "/k", "small");
    assert_in_range(w.ready.work, SIZE / READY_FREED_BYTES, SIZE / READY_FREED_BYTES + 1);
    assert_int_equal(keymap_set(&w.m, s("/k"), large), STORE_OK);
    before = w.ready.work;
    assert_int_equal(keymap_delete(&w.m, s("/k")), STORE_OK);
    assert_in_range(w.ready.work - before, SIZE / READY_FREED_BYTES, SIZE / READY_FREED_BYTES + 1);

    assert_int_equal(keymap_set(&w.m, s("/k"), large), STORE_OK);
    held = blob_ref(keymap_get(&w.m, s("/k")));
    before = w.ready.work;
    assert_int_equal(keymap_append(&w.m, s("/k"), s("x")), STORE_OK);
    assert_int_equal(w.ready.work - before, SIZE / READY_COPIED_BYTES);
    blob_unref(held);
    assert_int_equal(keymap_append(&w.m, s("/k"), s("x")), STORE_OK);
    assert_int_equal(w.ready.work - before, SIZE / READY_COPIED_BYTES); /* there was room */
    fixture_fini(&w);
}

/* The answer of a CHECK over many slices was true at one moment between its start and its end. */
static void what_has_existed_since_a_time_existed_then(void **state)
{
    struct keymap_time then;
    struct blob *popped = NULL;
    struct fixture w;

    (void)state;
    fixture_init(&w, 0);
    set(&w, "/stays", "1");
    set(&w, "/returns", "1");
    set(&w, "/goes", "1");
    assert_int_equal(keymap_queue_push(&w.m, s("/queue"), s("v")), STORE_OK);
    assert_int_equal(keymap_queue_push(&w.m, s("/flaps"), s("v")), STORE_OK);
    then = keymap_time(&w.m);
    assert_true(keymap_exists_since(&w.m, s("/goes"), then));
    assert_true(keymap_exists_since(&w.m, s("/flaps"), then));
    set(&w, "/stays", "a value of another length");
    set(&w, "/comes", "1");
    assert_int_equal(keymap_delete(&w.m, s("/goes")), STORE_OK);
    assert_int_equal(keymap_delete(&w.m, s("/returns")), STORE_OK);
    set(&w, "/returns", "1");
    assert_int_equal(keymap_queue_pop(&w.m, s("/flaps"), &popped, &(uint64_t){0}), STORE_OK);
    blob_unref(popped);
    assert_int_equal(keymap_queue_push(&w.m, s("/flaps"), s("v")), STORE_OK);
    assert_int_equal(keymap_queue_push(&w.m, s("/queue"), s("v")), STORE_OK);
    assert_true(keymap_exists_since(&w.m, s("/stays"), then));
    assert_true(keymap_exists_since(&w.m, s("/queue"), then));
    assert_false(keymap_exists_since(&w.m, s("/comes"), then));
    assert_false(keymap_exists_since(&w.m, s("/goes"), then));
    assert_false(keymap_exists_since(&w.m, s("/returns"), then));
    assert_false(keymap_exists_since(&w.m, s("/flaps"), then));
    assert_false(keymap_exists_since(&w.m, s("/absent"), then));
    fixture_fini(&w);
}

static void an_append_keeps_to_its_limit(void **state)
{
    struct command c = {
        .kind = COMMAND_KEY_APPEND, .key = s("/k"), .value = s("12345"), .number = 8};
    struct store_result r;
    struct fixture w;

    (void)state;
    fixture_init(&w, 0);
    assert_int_equal(execute(&w.m, &c, &r), STORE_OK);
    assert_int_equal(execute(&w.m, &c, &r), STORE_TOO_LONG);
    c.value = s("678");
    assert_int_equal(execute(&w.m, &c, &r), STORE_OK);
    check_value(&w, "/k", "12345678");
    fixture_fini(&w);
}

/* ADD reads only the first bytes of a value that has millions of blanks or zeros. */
static void a_number_is_looked_for_in_the_first_bytes(void **state)
{
    enum { SIZE = 1 << 20 };
    static uint8_t bytes[SIZE];
    int64_t number;

    (void)state;
    memset(bytes, ' ', sizeof bytes);
    bytes[1000] = '7';
    assert_true(keymap_parse_number((struct slice){bytes, SIZE}, &number));
    assert_int_equal(number, 7);
    bytes[1000] = ' ';
    bytes[5000] = '7';
    assert_false(keymap_parse_number((struct slice){bytes, SIZE}, &number));
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
        cmocka_unit_test(a_full_space_refuses_and_stays_as_it_was),
        cmocka_unit_test(what_waits_is_counted_apart),
        cmocka_unit_test(no_more_than_the_limit_is_ever_held),
        cmocka_unit_test(a_small_key_takes_little),
        cmocka_unit_test(the_list_has_each_key_once),
        cmocka_unit_test(a_number_gives_back_the_room_of_a_long_text),
        cmocka_unit_test(what_becomes_of_large_values_is_work),
        cmocka_unit_test(what_has_existed_since_a_time_existed_then),
        cmocka_unit_test(an_append_keeps_to_its_limit),
        cmocka_unit_test(a_number_is_looked_for_in_the_first_bytes),
    };

    return cmocka_run_group_tests_name("store/keymap", tests, NULL, NULL);
}
