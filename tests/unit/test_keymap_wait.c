/* Clients that wait for keys of c10d, at queues and at barriers, and those that watch keys: they go
 * on as with torch's TCPStore. */
#include "store/keymap/keymap.h"

#include <stdio.h>

#include "proto/c10d.h"
#include "store/keymap/keymap_entry.h"
#include "tests/support/key_list.h"
#include "tests/unit/keymap_fixture.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

static struct waiter *wait_for(struct fixture *w, const char *names)
{
    uint8_t buf[1024];
    uint64_t count;
    struct slice list = list_of(names, &count, buf, sizeof buf);
    struct waiter *waiter;

    assert_int_equal(keymap_wait(&w->m, list, count, w, &waiter), STORE_OK);
    return waiter;
}

static struct wake *next_ready(struct fixture *w)
{
    struct wake *wake = TAILQ_FIRST(&w->ready);

    if (wake != NULL)
        wake_remove(&w->ready, wake);
    return wake;
}

/* Exactly this one is ready (NULL: nobody). It is ended. */
static void expect_woken(struct fixture *w, struct waiter *waiter)
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

/* --- Waiting. --- */

static void a_wait_for_what_exists_is_over_at_once(void **state)
{
    struct fixture w;

    (void)state;
    fixture_init(&w, 0);
    assert_null(wait_for(&w, ""));
    set(&w, "/a", "1");
    assert_null(wait_for(&w, "/a"));
    assert_null(wait_for(&w, "/a /a"));
    assert_int_equal(keymap_queue_push(&w.m, s("/q"), s("e")), STORE_OK);
    assert_null(wait_for(&w, "/q /a"));
    assert_int_equal(w.m.waiters, 0);
    assert_int_equal(w.m.keys.count, 1);
    fixture_fini(&w);
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
        struct fixture w;
        bool open, wakes = true;

        print_message("  %s\n", names[i]);
        fixture_init(&w, 0);
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
        fixture_fini(&w);
    }
}

static void an_arrival_that_completes_no_barrier_does_not_wake_a_wait(void **state)
{
    struct waiter *early, *late;
    struct fixture w;
    bool open;

    (void)state;
    fixture_init(&w, 0);
    early = wait_for(&w, "/b");
    assert_int_equal(keymap_barrier(&w.m, s("/b"), 2, &open), STORE_OK);
    assert_false(open);
    expect_woken(&w, NULL);
    late = wait_for(&w, "/b");
    assert_null(late); /* the count is there by now */
    assert_int_equal(keymap_barrier(&w.m, s("/b"), 2, &open), STORE_OK);
    assert_true(open);
    expect_woken(&w, early);
    fixture_fini(&w);
}

/* "Each key existed at some moment since", not "all exist now". */
static void a_key_that_came_and_went_has_counted(void **state)
{
    struct waiter *waiter;
    struct fixture w;

    (void)state;
    fixture_init(&w, 0);
    waiter = wait_for(&w, "/a /b");
    set(&w, "/a", "1");
    assert_int_equal(keymap_delete(&w.m, s("/a")), STORE_OK);
    expect_woken(&w, NULL);
    assert_int_equal(waiter->missing, 1);
    set(&w, "/b", "1");
    expect_woken(&w, waiter);
    fixture_fini(&w);
}

static void a_second_set_counts_nothing(void **state)
{
    struct waiter *waiter;
    struct fixture w;

    (void)state;
    fixture_init(&w, 0);
    waiter = wait_for(&w, "/a /b");
    set(&w, "/a", "1");
    set(&w, "/a", "2");
    set(&w, "/a", "3");
    expect_woken(&w, NULL);
    set(&w, "/b", "1");
    expect_woken(&w, waiter);
    fixture_fini(&w);
}

static void a_key_that_is_listed_twice_counts_once(void **state)
{
    struct waiter *waiter;
    struct fixture w;

    (void)state;
    fixture_init(&w, 0);
    set(&w, "/c", "there already");
    waiter = wait_for(&w, "/a /b /a /c /a");
    assert_int_equal(waiter->missing, 2);
    set(&w, "/a", "1");
    assert_int_equal(waiter->missing, 1);
    set(&w, "/b", "1");
    expect_woken(&w, waiter);
    fixture_fini(&w);
}

static void waiters_are_woken_in_the_order_in_which_they_are_done(void **state)
{
    struct waiter *one, *two, *three, *four;
    struct fixture w;

    (void)state;
    fixture_init(&w, 0);
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
    fixture_fini(&w);
}

static void a_cancelled_wait_leaves_nothing_behind(void **state)
{
    struct waiter *waiter;
    struct fixture w;

    (void)state;
    fixture_init(&w, 0);
    waiter = wait_for(&w, "/a /b /a");
    assert_int_equal(w.m.awaited.count, 2);
    keymap_cancel(&w.m, waiter);
    assert_int_equal(w.m.awaited.count, 0);
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
    fixture_fini(&w);
}

static void absent_keys_that_are_waited_for_are_no_keys(void **state)
{
    uint8_t buf[64];
    struct writer out = {.ptr = buf, .cap = sizeof buf};
    struct waiter *waiter;
    struct fixture w;

    (void)state;
    fixture_init(&w, 0);
    waiter = wait_for(&w, "/waited");
    set(&w, "/k", "1");
    check_value(&w, "/waited", NULL);
    assert_false(keymap_exists(&w.m, s("/waited")));
    assert_int_equal(w.m.present, 1);
    assert_int_equal(keymap_list_size(&w.m), 8 + 2);
    assert_true(key_list_now(&w.m, &out));
    assert_int_equal(out.len, 8 + 2);
    assert_memory_equal(buf, "\x02\0\0\0\0\0\0\0/k", 10);
    assert_int_equal(keymap_delete(&w.m, s("/waited")), STORE_ABSENT);
    keymap_cancel(&w.m, waiter);
    fixture_fini(&w);
}

/* --- Queues. --- */

static struct blob *pop(struct fixture *w, const char *name, uint64_t len_before)
{
    struct blob *value = NULL;
    uint64_t len = 99;

    assert_int_equal(keymap_queue_pop(&w->m, s(name), &value, &len), STORE_OK);
    assert_int_equal(len, len_before);
    return value;
}

static void a_queue_gives_its_oldest_first(void **state)
{
    struct fixture w;

    (void)state;
    fixture_init(&w, 0);
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
    fixture_fini(&w);
}

/* Names of queues live beside keys: WAIT and CHECK see both, all else keys alone. */
static void queues_are_no_keys(void **state)
{
    struct fixture w;

    (void)state;
    fixture_init(&w, 0);
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
    fixture_fini(&w);
}

static void a_push_wakes_the_oldest_waiter_alone(void **state)
{
    struct waiter *one, *two;
    struct fixture w;

    (void)state;
    fixture_init(&w, 0);
    one = wait_for(&w, "/q");
    two = wait_for(&w, "/q");
    assert_int_equal(keymap_queue_push(&w.m, s("/q"), s("e")), STORE_OK);
    expect_woken(&w, one);
    expect_woken(&w, NULL);
    assert_int_equal(keymap_queue_push(&w.m, s("/q"), s("e")), STORE_OK);
    expect_woken(&w, two);
    assert_int_equal(keymap_queue_push(&w.m, s("/q"), s("e")), STORE_OK);
    expect_woken(&w, NULL);
    fixture_fini(&w);
}

/* Those before the one that is woken lack another key; this one has counted for them. */
static void a_push_counts_for_those_that_lack_more(void **state)
{
    struct waiter *one, *two, *three;
    struct fixture w;

    (void)state;
    fixture_init(&w, 0);
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
    fixture_fini(&w);
}

/* A served waiter is out of the list: a later WAIT of the same client is not woken early. */
static void a_served_waiter_is_not_served_again(void **state)
{
    struct waiter *first, *again;
    struct fixture w;

    (void)state;
    fixture_init(&w, 0);
    first = wait_for(&w, "/q");
    assert_int_equal(keymap_queue_push(&w.m, s("/q"), s("e")), STORE_OK);
    expect_woken(&w, first);
    blob_unref(pop(&w, "/q", 1));
    again = wait_for(&w, "/other");
    assert_int_equal(keymap_queue_push(&w.m, s("/q"), s("e")), STORE_OK);
    expect_woken(&w, NULL);
    keymap_cancel(&w.m, again);
    fixture_fini(&w);
}

static void a_key_of_the_queues_name_wakes_all(void **state)
{
    struct waiter *one, *two;
    struct fixture w;

    (void)state;
    fixture_init(&w, 0);
    one = wait_for(&w, "/q");
    two = wait_for(&w, "/q");
    set(&w, "/q", "a key");
    expect_woken(&w, one);
    expect_woken(&w, two);
    fixture_fini(&w);
}

/* --- Barriers. --- */

static struct waiter *arrive(struct fixture *w, const char *key, int64_t world_size, bool opens)
{
    struct waiter *waiter = NULL;
    bool open = !opens;

    assert_int_equal(keymap_barrier(&w->m, s(key), world_size, &open), STORE_OK);
    assert_int_equal(open, opens);
    if (!open)
        assert_int_equal(keymap_barrier_wait(&w->m, s(key), world_size, w, &waiter), STORE_OK);
    return waiter;
}

static void a_barrier_opens_with_its_last_arrival_and_stays_open(void **state)
{
    struct waiter *one, *two;
    struct fixture w;

    (void)state;
    fixture_init(&w, 0);
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
    fixture_fini(&w);
}

static void a_barrier_opens_by_its_count_alone(void **state)
{
    struct waiter *one;
    struct fixture w;
    int64_t sum;

    (void)state;
    fixture_init(&w, 0);
    one = arrive(&w, "/b", 3, false);
    set(&w, "/b", "1");
    assert_int_equal(keymap_add(&w.m, s("/b"), 1, &sum), STORE_OK);
    expect_woken(&w, NULL);
    arrive(&w, "/b", 3, true); /* an ADD is an arrival to the count */
    expect_woken(&w, one);
    fixture_fini(&w);
}

static void a_cancelled_arrival_stays_counted(void **state)
{
    struct fixture w;

    (void)state;
    fixture_init(&w, 0);
    keymap_cancel(&w.m, arrive(&w, "/b", 2, false));
    check_value(&w, "/b", "1");
    assert_null(arrive(&w, "/b", 2, true));
    expect_woken(&w, NULL);
    fixture_fini(&w);
}

static void a_barrier_on_no_number_is_refused(void **state)
{
    struct fixture w;
    bool open = true;

    (void)state;
    fixture_init(&w, 0);
    set(&w, "/b", "text");
    assert_int_equal(keymap_barrier(&w.m, s("/b"), 1, &open), STORE_NOT_A_NUMBER);
    check_value(&w, "/b", "text");
    set(&w, "/b", "9223372036854775807");
    assert_int_equal(keymap_barrier(&w.m, s("/b"), 1, &open), STORE_OK); /* it wraps */
    assert_false(open);
    check_value(&w, "/b", "-9223372036854775808");
    fixture_fini(&w);
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
    struct fixture w;
    int64_t sum;

    (void)state;
    fixture_init(&w, 0);
    subscription_init(&sub, &w);
    assert_int_equal(keymap_watch(&w.m, s("/k"), &sub, &watch), STORE_OK);
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

    assert_int_equal(keymap_watch(&w.m, s("/k"), &sub, &twice),
                     STORE_OK); /* duplicates are told twice */
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
    fixture_fini(&w);
}

/* --- Together. --- */

static void watches_and_arrivals_share_a_key(void **state)
{
    struct key_watch *first, *second;
    struct subscription sub;
    struct waiter *a, *b;
    struct fixture w;

    (void)state;
    fixture_init(&w, 0);
    subscription_init(&sub, &w);
    assert_int_equal(keymap_watch(&w.m, s("/bar"), &sub, &first), STORE_OK);
    a = arrive(&w, "/bar", 3, false);
    assert_int_equal(keymap_watch(&w.m, s("/bar"), &sub, &second), STORE_OK);
    b = arrive(&w, "/bar", 3, false);
    subscription_clear(&sub);
    wake_remove(&w.ready, &sub.wake);
    arrive(&w, "/bar", 3, true);
    subscription_clear(&sub);
    wake_remove(&w.ready, &sub.wake);
    expect_woken(&w, a);
    expect_woken(&w, b);
    assert_null(next_ready(&w));
    set(&w, "/bar", "5");
    assert_int_equal(sub.queued, 2);
    keymap_unwatch(&w.m, second);
    set(&w, "/bar", "6");
    assert_int_equal(sub.queued, 3);
    keymap_unwatch(&w.m, first);
    subscription_fini(&w.ready, &sub);
    fixture_fini(&w);
}

static void clearing_forgets_keys_and_queues_and_keeps_those_who_wait(void **state)
{
    struct waiter *half, *barrier;
    struct fixture w;

    (void)state;
    fixture_init(&w, 0);
    half = wait_for(&w, "/a /b");
    barrier = arrive(&w, "/bar", 2, false);
    set(&w, "/a", "1");
    set(&w, "/k", "1");
    assert_int_equal(keymap_queue_push(&w.m, s("/q"), s("1")), STORE_OK);
    assert_int_equal(keymap_queue_push(&w.m, s("/q"), s("2")), STORE_OK);
    keymap_clear(&w.m);
    assert_int_equal(w.m.present, 0);
    assert_int_equal(w.m.queues.count, 0);
    assert_int_equal(w.m.keys.count, 0);
    assert_int_equal(w.m.awaited.count, 2); /* "/b" and "/bar" */
    expect_woken(&w, NULL);
    set(&w, "/b", "1"); /* "/a" has counted */
    expect_woken(&w, half);
    arrive(&w, "/bar", 1, true); /* the count began anew, and this one is enough */
    expect_woken(&w, barrier);
    fixture_fini(&w);
}

/* A replay knows nothing of those who waited, and must list the same. */
static void the_list_is_in_order_of_creation_whoever_waited(void **state)
{
    uint8_t buf[256];
    struct writer out = {.ptr = buf, .cap = sizeof buf};
    struct waiter *waiter;
    struct fixture w;

    (void)state;
    fixture_init(&w, 0);
    waiter = wait_for(&w, "/c /b");
    set(&w, "/a", "1");
    set(&w, "/b", "1");
    set(&w, "/c", "1");
    expect_woken(&w, waiter);
    assert_int_equal(keymap_delete(&w.m, s("/a")), STORE_OK);
    set(&w, "/b", "2"); /* it was there, and stays where it was */
    set(&w, "/a", "2");
    assert_true(key_list_now(&w.m, &out));
    assert_memory_equal(buf, "\2\0\0\0\0\0\0\0/b\2\0\0\0\0\0\0\0/c\2\0\0\0\0\0\0\0/a", 30);
    fixture_fini(&w);
}

/* Else a client that waits for many keys makes each LIST_KEYS slow, and each walk over all keys. */
static void absent_keys_are_not_walked(void **state)
{
    uint8_t buf[256];
    struct writer out = {.ptr = buf, .cap = sizeof buf};
    struct waiter *waiter;
    struct fixture w;

    (void)state;
    fixture_init(&w, 0);
    waiter = wait_for(&w, "/a /b");
    assert_int_equal(w.m.keys.count, 0);
    assert_true(TAILQ_EMPTY(&w.m.entries));
    set(&w, "/b", "1");
    assert_ptr_equal(TAILQ_FIRST(&w.m.entries), TAILQ_LAST(&w.m.entries, entry_list));
    assert_int_equal(keymap_list_size(&w.m), 10);
    assert_true(key_list_now(&w.m, &out));
    assert_memory_equal(buf, "\2\0\0\0\0\0\0\0/b", 10);
    assert_int_equal(keymap_delete(&w.m, s("/b")), STORE_OK);
    assert_true(TAILQ_EMPTY(&w.m.entries));
    assert_int_equal(keymap_list_size(&w.m), 0);
    keymap_cancel(&w.m, waiter);
    fixture_fini(&w);
}

/* One connection may watch a key often, and be told of each change each time: up to a limit. */
static void who_is_told_too_often_loses_the_subscription(void **state)
{
    struct subscription subscription;
    struct key_watch *watches[64];
    struct blob *event;
    size_t told = 0;
    struct fixture w;

    (void)state;
    fixture_init(&w, 0);
    subscription_init(&subscription, &w);
    for (size_t i = 0; i < COUNT(watches); i++) {
        assert_int_equal(keymap_watch(&w.m, s("k"), &subscription, &watches[i]), STORE_OK);
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
    set(&w, "k", "there is room again, but an event is missing before this one");
    assert_int_equal(subscription.queued, 0);
    for (size_t i = 0; i < COUNT(watches); i++)
        keymap_unwatch(&w.m, watches[i]);
    subscription_fini(&w.ready, &subscription);
    fixture_fini(&w);
}

/* A client that waits for many keys and goes does not hold up others: its waiter is freed bit by
 * bit, and counts no more. */
static void a_large_waiter_is_freed_bit_by_bit(void **state)
{
    enum { KEYS = 1000 };
    static uint8_t list[KEYS * 16 + 1]; /* and the NUL of the last one */
    struct waiter *first, *second;
    struct forgotten_keys forgotten;
    struct lazy_free g;
    struct fixture w;

    (void)state;
    for (int i = 0; i < KEYS; i++) {
        bytes_put_u64(list + (size_t)i * 16, 8);
        snprintf((char *)list + (size_t)i * 16 + 8, 9, "/key%04d", i);
    }
    for (int round = 0; round < 3; round++) {
        lazy_free_init(&g);
        fixture_init(&w, 0);
        forgotten_keys_init(&forgotten, &g);
        w.m.forgotten = &forgotten;
        assert_int_equal(keymap_wait(&w.m, (struct slice){list, KEYS * 16}, KEYS, &w, &first),
                         STORE_OK);
        assert_int_equal(keymap_wait(&w.m, (struct slice){list, 16}, 1, &w, &second), STORE_OK);
        keymap_cancel(&w.m, first);
        assert_int_equal(w.m.waiters, 1);
        assert_int_equal(w.m.awaited.count, KEYS);
        lazy_free_run(&g, KEYS / 2);
        assert_int_equal(w.m.awaited.count, KEYS / 2);
        assert_int_equal(keymap_queue_push(&w.m, s("/key0000"), s("v")), STORE_OK);
        expect_woken(&w, second); /* not the one before it, which has gone */
        if (round == 1)
            keymap_clear(&w.m);
        if (round == 2)
            lazy_free_run(&g, SIZE_MAX);
        keymap_end_waiters(&w.m);
        assert_true(TAILQ_EMPTY(&w.m.open_waiters));
        lazy_free_run(&g, SIZE_MAX);
        assert_true(lazy_free_is_empty(&g));
        w.m.forgotten = NULL;
        keymap_clear(&w.m);
        fixture_fini(&w);
    }
}

/* --- Over many turns. --- */

/* The keys of a WAIT for `room` of them that are found in its first turns. */
static struct waiter *begin_wait(struct fixture *w, uint64_t room, const char *names)
{
    struct waiter *waiter = NULL;
    uint8_t buf[1024];
    uint64_t listed;
    struct slice list = list_of(names, &listed, buf, sizeof buf), key;

    while (c10d_next_blob(&list, &key))
        assert_int_equal(keymap_wait_add(&w->m, &waiter, room--, w, key), STORE_OK);
    return waiter;
}

/* Each key counts once, at its registration or later. The waiter is not woken before all keys are
 * registered. */
static void a_wait_of_many_turns_counts_each_key_once(void **state)
{
    struct waiter *waiter;
    struct fixture w;

    (void)state;
    fixture_init(&w, 0);
    set(&w, "/there", "1");
    assert_int_equal(keymap_queue_push(&w.m, s("/queue"), s("v")), STORE_OK);
    assert_null(begin_wait(&w, 2, "/there /queue"));
    waiter = begin_wait(&w, 6, "/there /queue /comes /absent /absent");
    assert_int_equal(keymap_delete(&w.m, s("/there")), STORE_OK);
    set(&w, "/comes", "1");
    assert_int_equal(keymap_delete(&w.m, s("/comes")), STORE_OK);
    set(&w, "/absent", "1");
    expect_woken(&w, NULL); /* there may be more */
    assert_int_equal(keymap_wait_add(&w.m, &waiter, 1, &w, s("/last")), STORE_OK);
    waiter = keymap_wait_end(&w.m, waiter);
    assert_int_equal(waiter->missing, 1);
    assert_int_equal(w.m.waiters, 1);
    set(&w, "/last", "1");
    expect_woken(&w, waiter);

    waiter = begin_wait(&w, 2, "/last /comes");
    set(&w, "/comes", "1");
    assert_null(keymap_wait_end(&w.m, waiter));
    assert_null(keymap_wait_end(&w.m, NULL));
    expect_woken(&w, NULL);
    keymap_cancel(&w.m, begin_wait(&w, 3, "/last /absent /other"));
    fixture_fini(&w);
    assert_int_equal(account.bytes[ACCOUNT_WAITERS], 0);
}

/* If most keys of the request exist, a smaller waiter replaces the first. Keys that have counted in
 * the first are not counted again. */
static void a_wait_gives_back_the_room_that_it_does_not_need(void **state)
{
    struct waiter *waiter, *before, *behind;
    struct fixture w;

    (void)state;
    fixture_init(&w, 0);
    before = wait_for(&w, "/a");
    waiter = begin_wait(&w, 100000, "/a /b /c");
    behind = wait_for(&w, "/b");
    set(&w, "/c", "1");
    assert_in_range(account.bytes[ACCOUNT_WAITERS], 100000 * sizeof(struct wait_link), SIZE_MAX);
    waiter = keymap_wait_end(&w.m, waiter);
    assert_in_range(account.bytes[ACCOUNT_WAITERS], 1, 2000);
    assert_ptr_equal(waiter->wake.owner, &w);
    assert_int_equal(waiter->missing, 2);
    assert_int_equal(w.m.waiters, 3);
    set(&w, "/a", "1");
    expect_woken(&w, before);
    set(&w, "/b", "1");
    expect_woken(&w, behind);
    expect_woken(&w, waiter);
    fixture_fini(&w);
}

static void a_wait_of_many_turns_keeps_to_the_limits(void **state)
{
    struct waiter *waiter, *other = NULL;
    struct fixture w;

    (void)state;
    fixture_init(&w, sizeof(struct waiter) + sizeof(struct entry) + sizeof(struct wait_link) + 10);
    set(&w, "/t", "");
    waiter = begin_wait(&w, 100000, "/absent"); /* counts for what it waits for */
    assert_int_equal(keymap_wait_add(&w.m, &waiter, 9, &w, s("/other")), STORE_FULL);
    assert_int_equal(keymap_wait_add(&w.m, &waiter, 8, &w, s("/t")), STORE_OK);
    assert_int_equal(keymap_wait_add(&w.m, &other, 8, &w, s("/absent")), STORE_FULL);
    assert_null(other);
    keymap_cancel(&w.m, waiter);
    fixture_fini(&w);

    fixture_init(&w, 0);
    waiter = begin_wait(&w, 2, "/absent");
    account_set_limit(1);
    assert_int_equal(keymap_wait_add(&w.m, &other, 1, &w, s("/absent")), STORE_NO_MEMORY);
    assert_null(other);
    assert_int_equal(keymap_wait_add(&w.m, &waiter, 1, &w, s("/other")), STORE_NO_MEMORY);
    account_set_limit(0);
    keymap_cancel(&w.m, waiter);
    fixture_fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wait_for_what_exists_is_over_at_once),
        cmocka_unit_test(each_event_that_makes_a_key_exist_wakes),
        cmocka_unit_test(an_arrival_that_completes_no_barrier_does_not_wake_a_wait),
        cmocka_unit_test(a_key_that_came_and_went_has_counted),
        cmocka_unit_test(a_second_set_counts_nothing),
        cmocka_unit_test(a_key_that_is_listed_twice_counts_once),
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
        cmocka_unit_test(watches_and_arrivals_share_a_key),
        cmocka_unit_test(clearing_forgets_keys_and_queues_and_keeps_those_who_wait),
        cmocka_unit_test(the_list_is_in_order_of_creation_whoever_waited),
        cmocka_unit_test(absent_keys_are_not_walked),
        cmocka_unit_test(who_is_told_too_often_loses_the_subscription),
        cmocka_unit_test(a_large_waiter_is_freed_bit_by_bit),
        cmocka_unit_test(a_wait_of_many_turns_counts_each_key_once),
        cmocka_unit_test(a_wait_gives_back_the_room_that_it_does_not_need),
        cmocka_unit_test(a_wait_of_many_turns_keeps_to_the_limits),
    };

    return cmocka_run_group_tests_name("store/keymap_wait", tests, NULL, NULL);
}
