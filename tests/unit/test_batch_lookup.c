/* Many keys at one moment: the request looks keys up one by one, and reads or sets the values that
 * they have at the end, whatever other clients change meanwhile. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "store/keymap/keymap_entry.h"
#include "tests/unit/keymap_fixture.h"

static struct batch_lookup *begin(struct fixture *w, const char *const *keys, bool with_values)
{
    size_t count = 0;
    struct batch_lookup *p;

    while (keys[count] != NULL)
        count++;
    p = batch_lookup_begin(&w->m, count, with_values);
    assert_non_null(p);
    for (size_t i = 0; i < count && !with_values; i++)
        assert_true(batch_lookup_add(p, s(keys[i])));
    return p;
}

static void check_lookup(const struct batch_lookup *p, size_t i, const char *value)
{
    const struct blob *b = batch_lookup_entry(p, i)->value;

    if (value == NULL)
        assert_null(b);
    else
        assert_true(b != NULL && slice_is(blob_slice(b), value));
}

static size_t no_groups(struct slice key, size_t lengths[KEY_GROUPS_MAX])
{
    (void)key;
    (void)lengths;
    return 0;
}

static void delete_key(struct fixture *w, const char *key)
{
    assert_int_equal(keymap_delete(&w->m, s(key)), STORE_OK);
}

static void values_are_those_of_the_last_moment(void **state)
{
    const char *const keys[] = {"/stays",   "/changes", "/goes", "/comes",
                                "/returns", "/comes",   NULL};
    struct fixture w;
    struct batch_lookup *p;

    (void)state;
    fixture_init(&w, 0);
    set(&w, "/stays", "1");
    set(&w, "/changes", "1");
    set(&w, "/goes", "1");
    set(&w, "/returns", "1");
    p = begin(&w, keys, false);
    set(&w, "/changes", "2");
    delete_key(&w, "/goes");
    set(&w, "/comes", "new");
    delete_key(&w, "/returns");
    set(&w, "/returns", "again");
    check_lookup(p, 0, "1");
    check_lookup(p, 1, "2");
    check_lookup(p, 2, NULL);
    check_lookup(p, 3, "new");
    check_lookup(p, 4, "again");
    check_lookup(p, 5, "new");
    keymap_clear(&w.m);
    for (size_t i = 0; i < p->count; i++)
        check_lookup(p, i, NULL);
    set(&w, "/goes", "after");
    check_lookup(p, 2, "after");
    batch_lookup_end(p);
    assert_int_equal(w.m.keys.count, 1);
    fixture_fini(&w);
}

/* Taken values stay unchanged when the keys change later, and each value counts as the kind of its
 * holder. */
static void values_that_were_taken_stay(void **state)
{
    const char *const keys[] = {"/stays", "/changes", "/goes", "/absent", "/stays", NULL};
    struct fixture w;
    struct batch_lookup *p;

    (void)state;
    fixture_init(&w, 0);
    set(&w, "/stays", "1");
    set(&w, "/changes", "2");
    set(&w, "/goes", "3");
    p = batch_lookup_begin(&w.m, 5, true);
    assert_non_null(p);
    for (size_t i = 0; keys[i] != NULL; i++)
        assert_true(batch_lookup_add(p, s(keys[i])));
    batch_lookup_take_values(p);
    set(&w, "/changes", "another");
    delete_key(&w, "/goes");
    set(&w, "/absent", "new");
    assert_true(slice_is(blob_slice(batch_lookup_taken(p, 0)), "1"));
    assert_true(slice_is(blob_slice(batch_lookup_taken(p, 1)), "2"));
    assert_true(slice_is(blob_slice(batch_lookup_taken(p, 2)), "3"));
    assert_null(batch_lookup_taken(p, 3));
    assert_ptr_equal(batch_lookup_taken(p, 4), batch_lookup_taken(p, 0));
    batch_lookup_end(p);
    assert_int_equal(keymap_get(&w.m, s("/stays"))->refs, 1);
    assert_int_equal(keymap_get(&w.m, s("/stays"))->kind, w.m.kind);
    assert_int_equal(w.m.keys.count, 3);
    keymap_clear(&w.m);
    fixture_fini(&w);
}

/* Values that a key had before the moment do not appear in the answer. */
static void values_change_before_they_are_taken(void **state)
{
    const char *const keys[] = {"/stays", "/changes", "/goes", "/comes", "/counts", NULL};
    const char *const values[] = {"1", "another", NULL, "new", "2"};
    struct fixture w;
    struct batch_lookup *p;

    (void)state;
    fixture_init(&w, 0);
    set(&w, "/stays", "1");
    set(&w, "/changes", "2");
    set(&w, "/goes", "3");
    set(&w, "/counts", "1");
    p = batch_lookup_begin(&w.m, 5, true);
    assert_non_null(p);
    for (size_t i = 0; keys[i] != NULL; i++)
        assert_true(batch_lookup_add(p, s(keys[i])));
    set(&w, "/changes", "another");
    delete_key(&w, "/goes");
    set(&w, "/comes", "new");
    assert_int_equal(keymap_add(&w.m, s("/counts"), 1, &(int64_t){0}), STORE_OK);
    batch_lookup_take_values(p);
    for (size_t i = 0; i < 5; i++) {
        const struct blob *b = batch_lookup_taken(p, i);

        assert_true(values[i] == NULL ? b == NULL : slice_is(blob_slice(b), values[i]));
    }
    batch_lookup_end(p);
    assert_int_equal(keymap_get(&w.m, s("/changes"))->refs, 1);
    keymap_clear(&w.m);
    fixture_fini(&w);
    assert_int_equal(account.bytes[ACCOUNT_KEYS] + account.bytes[ACCOUNT_WAITERS], 0);
}

static enum store_status set_looked_up(struct fixture *w, struct batch_lookup *p)
{
    const struct command c = {.kind = COMMAND_KEY_MULTI_SET, .lookup = p};
    struct store_result r;

    return execute(&w->m, &c, &r);
}

/* Before the moment, clients see no new value; then they see all of them. The same holds for
 * waiters and watches. */
static void many_values_are_set_at_once(void **state)
{
    const char *const keys[] = {"/old", "/new", "/twice", "/twice", NULL};
    const char *const values[] = {"o", "n", "first", "second"};
    struct subscription subscription;
    struct key_watch *watch;
    struct blob *held, *event;
    struct waiter *waiter;
    struct fixture w;
    struct batch_lookup *p;

    (void)state;
    fixture_init(&w, 0);
    set(&w, "/old", "before");
    held = blob_ref(keymap_get(&w.m, s("/old")));
    p = begin(&w, keys, true);
    for (size_t i = 0; i < 4; i++)
        assert_true(batch_lookup_add_value(p, s(keys[i]), s(values[i])));
    assert_int_equal(w.m.present, 1);
    assert_false(keymap_exists(&w.m, s("/new")));
    subscription_init(&subscription, NULL);
    assert_int_equal(keymap_watch(&w.m, s("/old"), &subscription, &watch), STORE_OK);
    assert_int_equal(keymap_wait(&w.m, (struct slice){(const uint8_t *)"\4\0\0\0\0\0\0\0/new", 12},
                                 1, &w, &waiter),
                     STORE_OK);
    set(&w, "/old", "changed meanwhile");
    blob_unref(subscription_next(&subscription));
    assert_int_equal(set_looked_up(&w, p), STORE_OK);
    batch_lookup_end(p);
    check_value(&w, "/old", "o");
    check_value(&w, "/new", "n");
    check_value(&w, "/twice", "second");
    assert_int_equal(w.m.present, 3);
    assert_true(slice_is(blob_slice(held), "before"));
    blob_unref(held);
    assert_int_equal(waiter->missing, 0);
    keymap_cancel(&w.m, waiter);
    event = subscription_next(&subscription);
    assert_non_null(event);
    assert_int_equal(event->bytes[0], 0); /* updated */
    blob_unref(event);
    keymap_unwatch(&w.m, watch);
    subscription_fini(&w.ready, &subscription);
    set(&w, "/new",
        "1234567890"); /* the blob has room for the text of a number, as all values have */
    fixture_fini(&w);
    assert_int_equal(account.bytes[ACCOUNT_KEYS] + account.bytes[ACCOUNT_WAITERS], 0);
}

/* A value that has a page to itself. */
static struct blob *paged(const char *text)
{
    const size_t size = (size_t)sysconf(_SC_PAGESIZE), room = size - sizeof(struct blob);
    struct blob *b = account_taken(ACCOUNT_KEYS, aligned_alloc(size, size), size);

    assert_non_null(b);
    blob_begin(b, ACCOUNT_KEYS, room);
    memcpy(b->bytes, text, strlen(text));
    blob_leave_spare(b, room - strlen(text));
    return b;
}

static void let_look(struct blob *b, bool may)
{
    assert_int_equal(
        mprotect(b, (size_t)sysconf(_SC_PAGESIZE), may ? PROT_READ | PROT_WRITE : PROT_NONE), 0);
}

/* No cache holds 131,072 values, so the last step must read neither old nor new values. */
static void the_moment_does_not_look_at_values(void **state)
{
    struct blob *before = paged("before"), *now = paged("now");
    struct store_result r;
    struct batch_lookup *p;
    struct fixture w;

    (void)state;
    fixture_init(&w, 0);
    assert_int_equal(execute(&w.m,
                             &(struct command){.kind = COMMAND_KEY_SET,
                                               .key = s("/a"),
                                               .value = blob_slice(before),
                                               .blob = before},
                             &r),
                     STORE_OK);
    blob_unref(before);
    p = batch_lookup_begin(&w.m, 1, true);
    assert_true(batch_lookup_add_value(p, s("/a"), blob_slice(now)));
    blob_unref(p->values[0]);
    p->values[0] = now;
    let_look(before, false);
    let_look(now, false);
    assert_int_equal(set_looked_up(&w, p), STORE_OK);
    let_look(before, true);
    let_look(now, true);
    check_value(&w, "/a", "now");
    batch_lookup_end(p);
    fixture_fini(&w);
    assert_int_equal(account.bytes[ACCOUNT_KEYS] + account.bytes[ACCOUNT_WAITERS], 0);
}

/* Waiters are woken when their key is released, or earlier when it is deleted. A waiter that
 * registers after the deletion is not woken. */
static void who_waits_is_told_bit_by_bit(void **state)
{
    static const char *const keys[] = {"/a", "/b", "/c", NULL};
    static const char list[] = "\2\0\0\0\0\0\0\0/a\2\0\0\0\0\0\0\0/b\2\0\0\0\0\0\0\0/c";
    const struct slice all = {(const uint8_t *)list, sizeof list - 1}, b = {all.ptr + 10, 10};
    struct waiter *waiter, *late;
    struct forgotten_keys forgotten;
    struct lazy_free g;
    struct fixture w;
    struct batch_lookup *p;

    (void)state;
    lazy_free_init(&g);
    fixture_init(&w, 0);
    forgotten_keys_init(&forgotten, &g);
    w.m.forgotten = &forgotten;
    assert_int_equal(keymap_wait(&w.m, all, 3, &w, &waiter), STORE_OK);
    p = begin(&w, keys, true);
    for (size_t i = 0; i < 3; i++)
        assert_true(batch_lookup_add_value(p, s(keys[i]), s("v")));
    assert_int_equal(set_looked_up(&w, p), STORE_OK);
    batch_lookup_end(p);
    check_value(&w, "/a", "v");
    assert_int_equal(waiter->missing, 3);
    delete_key(&w, "/b");
    assert_int_equal(waiter->missing, 2);
    assert_int_equal(keymap_wait(&w.m, b, 1, &w, &late), STORE_OK);
    lazy_free_run(&g, 1);
    assert_int_equal(waiter->missing, 1);
    lazy_free_run(&g, 1);
    assert_int_equal(late->missing, 1);
    assert_int_equal(waiter->missing, 1);
    lazy_free_run(&g, SIZE_MAX);
    assert_int_equal(waiter->missing, 0);
    assert_int_equal(late->missing, 1);
    keymap_cancel(&w.m, waiter);
    keymap_cancel(&w.m, late);
    lazy_free_run(&g, SIZE_MAX);
    w.m.forgotten = NULL;
    fixture_fini(&w);
}

/* The space is emptied before those who wait are told: the keys were there. */
static void who_waits_is_told_of_keys_that_were_cleared(void **state)
{
    static const char *const keys[] = {"/a", NULL};
    struct waiter *waiter;
    struct forgotten_keys forgotten;
    struct lazy_free g;
    struct fixture w;
    struct batch_lookup *p;

    (void)state;
    lazy_free_init(&g);
    fixture_init(&w, 0);
    forgotten_keys_init(&forgotten, &g);
    w.m.forgotten = &forgotten;
    assert_int_equal(keymap_wait(&w.m, (struct slice){(const uint8_t *)"\2\0\0\0\0\0\0\0/a", 10}, 1,
                                 &w, &waiter),
                     STORE_OK);
    p = begin(&w, keys, true);
    assert_true(batch_lookup_add_value(p, s(keys[0]), s("v")));
    assert_int_equal(set_looked_up(&w, p), STORE_OK);
    batch_lookup_end(p);
    keymap_clear(&w.m);
    assert_int_equal(waiter->missing, 0);
    keymap_cancel(&w.m, waiter);
    lazy_free_run(&g, SIZE_MAX);
    w.m.forgotten = NULL;
    fixture_fini(&w);
}

/* The counts are right if keys change after they were looked up, and if the request names a key
 * twice.
 */
static void what_is_set_counts_as_if_set_one_by_one(void **state)
{
    static const char *const keys[][3] = {{"/old", "/new", "/other"}, {"/old", "/new", "/old"}};
    static const char *const values[] = {"a value that is longer than a number", "", "v"};
    static const char *const changes[] = {NULL, "something else, of another length", "in its place",
                                          ""};
    struct fixture w, plain;
    struct batch_lookup *p;

    (void)state;
    for (size_t row = 0; row < 2 * sizeof changes / sizeof changes[0]; row++) {
        const char *change = changes[row / 2];
        bool twice = row % 2 == 1;

        fixture_init(&w, 0);
        fixture_init(&plain, 0);
        set(&w, "/old", "before");
        set(&plain, "/old", "before");
        p = batch_lookup_begin(&w.m, 3, true);
        for (size_t i = 0; i < 3; i++)
            assert_true(batch_lookup_add_value(p, s(keys[twice][i]), s(values[i])));
        if (change != NULL)
            set(&w, "/old", change);
        assert_int_equal(set_looked_up(&w, p), STORE_OK);
        batch_lookup_end(p);
        for (size_t i = 0; i < 3; i++)
            set(&plain, keys[twice][i], values[i]);
        assert_int_equal(w.m.bytes, plain.m.bytes);
        assert_int_equal(w.m.waiting_bytes, 0);
        check_value(&w, "/old", values[twice ? 2 : 0]);
        fixture_fini(&w);
        fixture_fini(&plain);
    }
}

/* A value that has some room behind it grows where it is. */
static void what_is_appended_to_meanwhile_counts(void **state)
{
    struct batch_lookup *p;
    struct fixture w;
    size_t before;

    (void)state;
    fixture_init(&w, 0);
    set(&w, "/k", "v");
    before = w.m.bytes;
    assert_int_equal(keymap_append(&w.m, s("/k"), s("a text that no number is as long as")),
                     STORE_OK);
    p = batch_lookup_begin(&w.m, 1, true);
    assert_true(batch_lookup_add_value(p, s("/k"), s("v")));
    assert_int_equal(keymap_append(&w.m, s("/k"), s("more")), STORE_OK);
    assert_int_equal(set_looked_up(&w, p), STORE_OK);
    batch_lookup_end(p);
    assert_int_equal(w.m.bytes, before);
    fixture_fini(&w);
}

/* The request lists its looked-up keys with groups without reading the other keys. If it names a
 * key twice, the last value counts. */
static void keys_in_groups_are_known(void **state)
{
    enum { KEYS = 100, GROUPED = 40 };
    static const struct key_groups groups_of = {.prefix = {(const uint8_t *)"/g/", 3},
                                                .name = no_groups};
    size_t before = account.total;
    struct fixture w;
    struct batch_lookup *p;
    char key[32];

    (void)state;
    fixture_init(&w, 0);
    w.m.groups_of = &groups_of;
    p = batch_lookup_begin(&w.m, KEYS + 1, true);
    for (int i = 0; i < KEYS; i++) {
        snprintf(key, sizeof key, i % 5 < 2 ? "/g/%d" : "/other/%d", i);
        assert_true(batch_lookup_add_value(p, s(key), s("v")));
    }
    assert_true(batch_lookup_add_value(p, s("/g/0"), s("last")));
    assert_int_equal(set_looked_up(&w, p), STORE_OK);
    assert_int_equal(p->grouped_count, GROUPED + 1);
    for (size_t i = 0; i < p->grouped_count; i++) {
        const struct batch_item *item = &p->grouped[i];

        assert_true(slice_starts_with(entry_key(item->entry), groups_of.prefix));
        assert_int_equal(item->entry->value == item->value, i != 0);
    }
    batch_lookup_end(p);
    check_value(&w, "/g/0", "last");
    fixture_fini(&w);
    assert_int_equal(account.total, before);
}

static void what_does_not_fit_is_not_set(void **state)
{
    const char *const keys[] = {"/a", "/b", NULL};
    struct fixture w;
    struct batch_lookup *p;

    (void)state;
    fixture_init(&w, 2 * (sizeof(struct entry) + 2) + 1); /* and "v" */
    for (int more = 0; more <= 1; more++) {
        p = begin(&w, keys, true);
        assert_true(batch_lookup_add_value(p, s("/a"), s("v")));
        assert_true(batch_lookup_add_value(p, s("/b"), s(more ? "" : "v")));
        assert_int_equal(set_looked_up(&w, p), more ? STORE_OK : STORE_FULL);
        assert_int_equal(w.m.present, more ? 2 : 0);
        batch_lookup_end(p);
    }
    fixture_fini(&w);
}

static void without_memory_no_key_is_added(void **state)
{
    const char *const keys[] = {"/a", "/b", NULL};
    struct fixture w;
    struct batch_lookup *p;

    (void)state;
    fixture_init(&w, 0);
    set(&w, "/a", "1");
    p = begin(&w, keys, true);
    account_set_limit(1);
    assert_null(batch_lookup_begin(&w.m, 1, false));
    assert_false(batch_lookup_add_value(p, s("/a"), s("2")));
    assert_false(batch_lookup_add(p, s("/b")));
    account_set_limit(0);
    batch_lookup_end(p);
    check_value(&w, "/a", "1");
    fixture_fini(&w);
}

/* A keymap that ends lets go of what its requests held, though that is listed to be freed. */
static void batches_end_with_their_keymap(void **state)
{
    const char *const keys[] = {"/a", "/b", "/c", NULL};
    struct forgotten_keys forgotten;
    struct lazy_free g;
    struct fixture w;

    (void)state;
    for (size_t freed = 0; freed <= 4; freed++) {
        lazy_free_init(&g);
        fixture_init(&w, 0);
        forgotten_keys_init(&forgotten, &g);
        w.m.forgotten = &forgotten;
        set(&w, "/a", "1");
        batch_lookup_end(begin(&w, keys, false));
        assert_false(lazy_free_is_empty(&g));
        lazy_free_run(&g, freed);
        assert_true(lazy_free_is_empty(&g) == (freed == 4));
        keymap_end_lookups(&w.m);
        assert_true(lazy_free_is_empty(&g));
        assert_int_equal(w.m.keys.count, 1);
        w.m.forgotten = NULL;
        fixture_fini(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_those_of_the_last_moment),
        cmocka_unit_test(values_that_were_taken_stay),
        cmocka_unit_test(values_change_before_they_are_taken),
        cmocka_unit_test(many_values_are_set_at_once),
        cmocka_unit_test(who_waits_is_told_bit_by_bit),
        cmocka_unit_test(who_waits_is_told_of_keys_that_were_cleared),
        cmocka_unit_test(the_moment_does_not_look_at_values),
        cmocka_unit_test(what_is_set_counts_as_if_set_one_by_one),
        cmocka_unit_test(what_is_appended_to_meanwhile_counts),
        cmocka_unit_test(keys_in_groups_are_known),
        cmocka_unit_test(what_does_not_fit_is_not_set),
        cmocka_unit_test(without_memory_no_key_is_added),
        cmocka_unit_test(batches_end_with_their_keymap),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
