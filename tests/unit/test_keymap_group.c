/* Groups of keys by prefix: compares each group with a walk over all keys. */
#include <stdio.h>
#include <stdlib.h>

#include "store/keymap/keymap_entry.h"
#include "tests/unit/keymap_fixture.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* A key is in a group for each of its first slashes. */
static size_t by_slashes(struct slice key, size_t lengths[KEY_GROUPS_MAX])
{
    size_t count = 0;

    for (size_t i = 0; i < key.len && count < KEY_GROUPS_MAX; i++) {
        if (key.ptr[i] == '/')
            lengths[count++] = i;
    }
    return count;
}

static const struct key_groups groups = {.name = by_slashes};

static const char *const prefixes[] = {"", "a", "b", "a/a", "a/b", "b/a", "b/b", "a/a/a", "none"};

/* Each walk gives the keys that belong, in the order in which they came. */
static void check_groups(const struct keymap *m)
{
    for (size_t i = 0; i < COUNT(prefixes); i++) {
        size_t len = strlen(prefixes[i]);
        struct key_walk walk;
        struct entry *e;

        keymap_walk_group(m, s(prefixes[i]), &walk);
        TAILQ_FOREACH(e, &m->entries, order) {
            if (entry_key(e).len > len && slice_starts_with(entry_key(e), s(prefixes[i])) &&
                entry_key(e).ptr[len] == '/')
                assert_ptr_equal(keymap_walk_next(&walk), e);
        }
        assert_null(keymap_walk_next(&walk));
    }
}

/* One of 120 keys: 1 to 4 parts, each a, b or empty. */
static struct slice some_key(unsigned *seed, char room[16])
{
    size_t len = 0;

    for (int parts = 1 + rand_r(seed) % 4; parts > 0; parts--) {
        int part = rand_r(seed) % 3;

        if (part < 2)
            room[len++] = "ab"[part];
        if (parts > 1)
            room[len++] = '/';
    }
    return (struct slice){(uint8_t *)room, len};
}

static void wait_or_leave(struct fixture *w, struct waiter **waiter, struct slice key)
{
    uint8_t list[32];

    keymap_cancel(&w->m, *waiter);
    bytes_put_u64(list, key.len);
    memcpy(list + 8, key.ptr, key.len);
    assert_int_equal(keymap_wait(&w->m, (struct slice){list, 8 + key.len}, 1, w, waiter), STORE_OK);
}

static void every_group_is_what_a_walk_over_all_keys_finds(void **state)
{
    struct waiter *waiter = NULL;
    unsigned seed = 1;
    struct fixture w;

    (void)state;
    fixture_init(&w, 0);
    w.m.groups_of = &groups;
    for (int i = 0; i < 5000; i++) {
        char room[16];
        struct slice key = some_key(&seed, room);

        switch (rand_r(&seed) % 5) {
        case 0:
        case 1:
            assert_int_equal(keymap_set(&w.m, key, s("v")), STORE_OK);
            break;
        case 2:
            assert_int_equal(keymap_append(&w.m, key, s("v")), STORE_OK);
            break;
        case 3:
            keymap_delete(&w.m, key);
            break;
        default:
            wait_or_leave(&w, &waiter, key);
        }
        check_groups(&w.m);
    }
    keymap_cancel(&w.m, waiter);
    keymap_clear(&w.m);
    assert_int_equal(w.m.groups.count, 0);
    fixture_fini(&w);
}

/* As a run is forgotten: some of them go while they are walked. */
static void the_key_that_was_just_given_may_be_deleted(void **state)
{
    (void)state;
    for (unsigned gone = 0; gone < 32; gone++) {
        struct key_walk walk;
        struct entry *e;
        struct fixture w;
        unsigned at = 0;

        fixture_init(&w, 0);
        w.m.groups_of = &groups;
        for (unsigned i = 0; i < 5; i++) {
            char key[8];

            snprintf(key, sizeof key, "a/%u", i);
            set(&w, key, "v");
        }
        keymap_walk_group(&w.m, s("a"), &walk);
        for (; (e = keymap_walk_next(&walk)) != NULL; at++) {
            assert_int_equal(entry_key(e).ptr[2], '0' + at);
            if (gone & 1u << at)
                assert_int_equal(keymap_delete(&w.m, entry_key(e)), STORE_OK);
        }
        assert_int_equal(at, 5);
        check_groups(&w.m);
        fixture_fini(&w);
    }
}

static void set_numbered(struct fixture *w, unsigned i)
{
    char key[16];

    snprintf(key, sizeof key, "a/%u", i);
    set(w, key, "v");
}

static unsigned number_of(struct slice key)
{
    unsigned number = 0;

    for (size_t i = 2; i < key.len; i++)
        number = 10 * number + key.ptr[i] - '0';
    return number;
}

static void delete_numbered(struct fixture *w, unsigned i)
{
    char key[16];

    snprintf(key, sizeof key, "a/%u", i);
    keymap_delete(&w->m, s(key));
}

/* The group has all of its keys, even after other walks have turned the ring. */
static void check_walk(struct fixture *w, unsigned made, const bool *is_gone)
{
    struct key_walk walk;
    unsigned count = made;

    for (unsigned i = 0; i < 200; i++)
        count -= is_gone[i];
    keymap_walk_group(&w->m, s("a"), &walk);
    while (keymap_walk_next(&walk) != NULL)
        count--;
    assert_int_equal(count, 0);
}

/* One piece of at most `size` keys. Returns whether there are more. */
static bool walk_piece(struct fixture *w, uint32_t number, unsigned size, unsigned *seen)
{
    struct key_walk walk;
    struct entry *e;

    keymap_walk_group(&w->m, s("a"), &walk);
    for (unsigned i = 0; i < size; i++) {
        e = keymap_walk_piece(&walk, number);
        if (e == NULL)
            return false;
        seen[number_of(entry_key(e))]++;
    }
    keymap_walk_pause(&w->m, &walk);
    return walk.next != NULL;
}

/* As a large run is forgotten, while clients set and delete its keys. */
static void a_walk_in_pieces_sees_once_what_stays(void **state)
{
    enum { OLD = 200, NEW = 400 };
    unsigned seed = 7;

    (void)state;
    for (uint32_t number = 1; number <= 50; number++) {
        unsigned seen[NEW] = {0}, gone = 0, size = 1 + number % 9, made = OLD;
        bool is_gone[OLD] = {0};
        struct fixture w;

        fixture_init(&w, 0);
        w.m.groups_of = &groups;
        for (unsigned i = 0; i < OLD; i++)
            set_numbered(&w, i);
        if (number % 2 == 0)
            assert_true(walk_piece(&w, number + 100, OLD / 2, seen)); /* one that nobody ends */
        memset(seen, 0, sizeof seen);
        while (walk_piece(&w, number, size, seen)) {
            set_numbered(&w, made++);
            gone = (unsigned)rand_r(&seed) % OLD;
            is_gone[gone] = true;
            delete_numbered(&w, gone);
        }
        for (unsigned i = 0; i < OLD; i++)
            assert_in_range(seen[i], is_gone[i] ? 0 : 1, 1);
        for (unsigned i = OLD; i < made; i++)
            assert_in_range(seen[i], 0, 1);
        check_walk(&w, made, is_gone);
        fixture_fini(&w);
    }
}

/* What a key takes is counted with its links. */
static void links_count_for_the_limit(void **state)
{
    struct fixture w;

    (void)state;
    fixture_init(&w, 1000);
    w.m.groups_of = &groups;
    assert_int_equal(keymap_key_cost(&w.m, s("a/b/c")),
                     sizeof(struct entry) + 2 * sizeof(struct key_link) + 5);
    set(&w, "a/b/c", "v");
    assert_int_equal(w.m.bytes, keymap_key_cost(&w.m, s("a/b/c")) + 1);
    fixture_fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_group_is_what_a_walk_over_all_keys_finds),
        cmocka_unit_test(the_key_that_was_just_given_may_be_deleted),
        cmocka_unit_test(a_walk_in_pieces_sees_once_what_stays),
        cmocka_unit_test(links_count_for_the_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
