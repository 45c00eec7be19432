/* The hash table against a plain array of flags. */
#include "store/memory/table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/exact.h"

enum { ITEMS = 3000, STEPS = 60000 };

struct item {
    struct table_node node; /* first, as with all owners */
    bool in;
};

static uint64_t next_random(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return *seed >> 33;
}

static void items_make(struct item *items)
{
    for (size_t i = 0; i < ITEMS; i++) {
        char name[64];
        /* Long common prefixes, lengths around the eight bytes of a hashing step, and NULs. */
        int len =
            snprintf(name, sizeof name, "%.*s%zu", (int)(i % 23), "/default_pg/0//worker//", i);

        items[i] = (struct item){.node.key = exact(name, (size_t)len + (i % 3 == 0 ? 1 : 0))};
    }
}

static void items_free(struct item *items)
{
    for (size_t i = 0; i < ITEMS; i++)
        exact_free(items[i].node.key);
}

static void an_empty_table_finds_nothing(void **state)
{
    struct table t;

    (void)state;
    table_init(&t, ACCOUNT_KEYS, 1, NULL);
    assert_null(table_find(&t, slice_str("a")));
    assert_null(table_find(&t, (struct slice){0}));
    table_fini(&t);
}

/* A table that knows what is to come has its size at once; one that has nodes keeps its own. */
static void an_expected_number_gives_the_size_at_once(void **state)
{
    struct item *items = calloc(ITEMS, sizeof *items);
    struct table t;
    size_t buckets;

    (void)state;
    items_make(items);
    table_init(&t, ACCOUNT_KEYS, 7, NULL);
    table_expect(&t, ITEMS);
    buckets = table_bucket_count(&t);
    assert_in_range(buckets, ITEMS, 2 * ITEMS);
    for (size_t i = 0; i < ITEMS; i++) {
        table_add(&t, &items[i].node);
    }
    assert_int_equal(table_bucket_count(&t), buckets);
    table_expect(&t, 100 * ITEMS);
    assert_int_equal(table_bucket_count(&t), buckets);
    for (size_t i = 0; i < ITEMS; i++)
        assert_ptr_equal(table_find(&t, items[i].node.key), &items[i].node);
    table_fini(&t);
    items_free(items);
    free(items);
    assert_int_equal(account.bytes[ACCOUNT_KEYS], 0);
}

static void the_empty_key_is_a_key(void **state)
{
    struct table_node empty = {.key = {0}}, other = {.key = slice_str("a")};
    struct table t;

    (void)state;
    table_init(&t, ACCOUNT_KEYS, 1, NULL);
    table_add(&t, &other);
    assert_null(table_find(&t, (struct slice){0}));
    table_add(&t, &empty);
    assert_ptr_equal(table_find(&t, (struct slice){0}), &empty);
    table_remove(&t, &empty);
    assert_null(table_find(&t, (struct slice){0}));
    assert_ptr_equal(table_find(&t, slice_str("a")), &other);
    table_remove(&t, &other);
    assert_int_equal(t.count, 0);
    table_fini(&t);
}

static void it_holds_what_was_added_and_not_removed(void **state)
{
    static struct item items[ITEMS];

    (void)state;
    for (uint64_t seed = 0; seed < 3; seed++) {
        uint64_t random = seed + 1;
        size_t count = 0;
        struct table t;

        table_init(&t, ACCOUNT_KEYS, seed * 0x0123456789abcdefu, NULL);
        items_make(items);
        for (size_t step = 0; step < STEPS; step++) {
            struct item *item = &items[next_random(&random) % ITEMS];

            if (table_find(&t, item->node.key) != (item->in ? &item->node : NULL))
                fail_msg("seed %d, step %zu: found wrongly", (int)seed, step);
            /* It fills in the first half, and empties in the second. */
            if (item->in && next_random(&random) % 3 < (step < STEPS / 2 ? 1 : 2)) {
                table_remove(&t, &item->node);
                item->in = false;
                count--;
            } else if (!item->in && next_random(&random) % 3 < (step < STEPS / 2 ? 2 : 1)) {
                table_add(&t, &item->node);
                item->in = true;
                count++;
            }
            assert_int_equal(t.count, count);
        }
        for (size_t i = 0; i < ITEMS; i++) {
            assert_ptr_equal(table_find(&t, items[i].node.key),
                             items[i].in ? &items[i].node : NULL);
        }
        table_fini(&t);
        items_free(items);
    }
}

/* Keys of one job differ in a digit, and yet no chain gets long. */
static void chains_stay_short(void **state)
{
    static struct item items[ITEMS];
    size_t longest = 0;
    struct table t;

    (void)state;
    table_init(&t, ACCOUNT_KEYS, 42, NULL);
    for (size_t i = 0; i < ITEMS; i++) {
        char name[64];
        int len = snprintf(name, sizeof name, "/torchelastic/job/rank_%06zu", i);

        items[i] = (struct item){.node.key = exact(name, (size_t)len)};
        table_add(&t, &items[i].node);
    }
    for (size_t b = 0; b < table_bucket_count(&t); b++) {
        size_t length = 0;

        for (const struct table_node *n = table_bucket(&t, b); n != NULL; n = n->next)
            length++;
        longest = length > longest ? length : longest;
    }
    assert_true(t.mask + 1 >= ITEMS); /* it has grown along */
    assert_in_range(longest, 1, 10);
    table_fini(&t);
    items_free(items);
}

/* A large table moves to its new array with what is added; meanwhile it finds and removes all. */
static void a_large_table_grows_bit_by_bit(void **state)
{
    enum { COUNT = 6 * TABLE_SMALL };
    static struct table_node nodes[COUNT], twins[COUNT];
    static char names[COUNT][16];
    struct table t;
    size_t growing = 0;

    (void)state;
    table_init(&t, ACCOUNT_KEYS, 7, NULL);
    for (size_t i = 0; i < COUNT; i++) {
        size_t before = t.old == NULL ? 0 : t.moved, other = i * 7919 % (i + 1);

        snprintf(names[i], sizeof names[i], "%zu", i);
        nodes[i] = twins[i] = (struct table_node){.key = slice_str(names[i])};
        table_add(&t, &nodes[i]);
        assert_ptr_equal(table_find(&t, nodes[i].key), &nodes[i]);
        if (t.old == NULL)
            continue;
        growing++;
        assert_in_range(t.moved, before, before + 4);
        assert_ptr_equal(table_find(&t, nodes[other].key), &nodes[other]);
        assert_null(table_find_next(&t, &nodes[other]));
        table_remove(&t, &nodes[other]);
        assert_null(table_find(&t, nodes[other].key));
        table_add(&t, &nodes[other]);
        if (twins[other].hash != 0)
            continue;
        table_add(&t, &twins[other]); /* of the same key: it is found first */
        assert_ptr_equal(table_find(&t, nodes[other].key), &twins[other]);
        assert_ptr_equal(table_find_next(&t, &twins[other]), &nodes[other]);
        assert_null(table_find_next(&t, &nodes[other]));
        table_remove(&t, &twins[other]);
    }
    assert_in_range(growing, 1000, COUNT / 2);
    assert_int_equal(t.count, COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        assert_ptr_equal(table_find(&t, nodes[i].key), &nodes[i]);
        table_remove(&t, &nodes[i]);
    }
    assert_int_equal(t.count, 0);
    table_fini(&t);
    assert_int_equal(account.bytes[ACCOUNT_KEYS], 0);
}

/* A large table that was emptied has given its arrays back, bit by bit, and finds and removes all
 * meanwhile. It does not get smaller for a walker. */
static void an_empty_table_is_small_again(void **state)
{
    enum { COUNT = 40 * TABLE_SMALL };
    static struct table_node nodes[COUNT];
    static char names[COUNT][16];
    size_t moving = 0, buckets;
    struct table t;

    (void)state;
    table_init(&t, ACCOUNT_KEYS, 7, NULL);
    for (size_t i = 0; i < COUNT; i++) {
        snprintf(names[i], sizeof names[i], "%zu", i);
        nodes[i] = (struct table_node){.key = slice_str(names[i])};
        table_add(&t, &nodes[i]);
    }
    buckets = t.mask + 1;
    for (size_t i = 0; i < COUNT; i++) {
        size_t before = t.old == NULL ? 0 : t.moved, other = COUNT - 1 - i % (COUNT - i);

        assert_ptr_equal(table_find(&t, nodes[i].key), &nodes[i]);
        table_remove(&t, &nodes[i]);
        assert_null(table_find(&t, nodes[i].key));
        if (t.old == NULL)
            continue;
        moving++;
        assert_in_range(t.moved, before > 16 ? before : 0, before + 16);
        if (other > i)
            assert_ptr_equal(table_find(&t, nodes[other].key), &nodes[other]);
    }
    assert_in_range(moving, 1000, COUNT / 4);
    assert_int_equal(t.count, 0);
    assert_null(t.old);
    assert_in_range(t.mask + 1, 1, 2 * TABLE_SMALL);
    assert_in_range(account.bytes[ACCOUNT_KEYS], 0, 3 * TABLE_SMALL * sizeof(void *));
    for (size_t i = 0; i < COUNT; i++)
        table_add(&t, &nodes[i]);
    assert_int_equal(t.mask + 1, buckets);
    t.still = true;
    for (size_t i = 0; i < COUNT; i++)
        table_remove(&t, &nodes[i]);
    assert_int_equal(t.mask + 1, buckets);
    table_fini(&t);
    assert_int_equal(account.bytes[ACCOUNT_KEYS], 0);
}

/* Around the size where it gets smaller, and where it grows, it does neither again and again. */
static void a_table_does_not_change_its_size_to_and_fro(void **state)
{
    enum { COUNT = 4 * TABLE_SMALL };
    static struct table_node nodes[COUNT];
    static char names[COUNT][16];
    size_t count = COUNT, changes = 0, mask;
    struct table t;

    (void)state;
    table_init(&t, ACCOUNT_KEYS, 7, NULL);
    for (size_t i = 0; i < COUNT; i++) {
        snprintf(names[i], sizeof names[i], "%zu", i);
        nodes[i] = (struct table_node){.key = slice_str(names[i])};
        table_add(&t, &nodes[i]);
    }
    mask = t.mask;
    while (t.mask == mask)
        table_remove(&t, &nodes[--count]);
    assert_in_range(count, COUNT / 8 - 1, COUNT / 8);
    for (size_t i = 0; i < 10000; i++) {
        mask = t.mask;
        if (i % 200 < 100)
            table_add(&t, &nodes[count++]);
        else
            table_remove(&t, &nodes[--count]);
        changes += t.mask != mask;
    }
    assert_int_equal(changes, 0);
    while (count > 0)
        table_remove(&t, &nodes[--count]);
    table_fini(&t);
}

static void another_seed_gives_other_chains(void **state)
{
    struct table_node a = {.key = slice_str("same key")}, b = a;
    struct table first, second;

    (void)state;
    table_init(&first, ACCOUNT_KEYS, 1, NULL);
    table_init(&second, ACCOUNT_KEYS, 2, NULL);
    table_add(&first, &a);
    table_add(&second, &b);
    assert_true(a.hash != b.hash);
    table_fini(&first);
    table_fini(&second);
}

/* A key that a lookup did not find is added without hashing it again; the first lookup finds an
 * empty table, and later ones tables that have grown since. */
static void a_key_that_was_looked_for_is_added_with_its_hash(void **state)
{
    struct item *items = calloc(ITEMS, sizeof *items);
    struct table t;

    (void)state;
    assert_non_null(items);
    items_make(items);
    table_init(&t, ACCOUNT_KEYS, 5, NULL);
    for (size_t i = 0; i < ITEMS; i++) {
        uint64_t hash, again;

        assert_null(table_find_hashed(&t, items[i].node.key, &hash));
        table_add_hashed(&t, &items[i].node, hash);
        assert_ptr_equal(table_find(&t, items[i].node.key), &items[i].node);
        assert_ptr_equal(table_find_hashed(&t, items[i].node.key, &again), &items[i].node);
        assert_true(hash == again);
    }
    assert_int_equal(t.count, ITEMS);
    table_fini(&t);
    items_free(items);
    free(items);
}

/* Long keys are hashed in several sums: the hash depends on each byte and on its position. */
static void long_keys_that_differ_in_one_byte_have_other_hashes(void **state)
{
    enum { LEN = 203 };
    static uint8_t keys[2 * LEN][LEN];
    static struct table_node nodes[2 * LEN];
    struct table t;

    (void)state;
    table_init(&t, ACCOUNT_KEYS, 1, NULL);
    for (size_t i = 0; i < 2 * LEN; i++) {
        memset(keys[i], 'k', LEN);
        keys[i][i / 2] = i % 2 == 0 ? 'l' : '\0';
        nodes[i].key = (struct slice){keys[i], LEN};
        table_add(&t, &nodes[i]);
        for (size_t j = 0; j < i; j++)
            assert_true(nodes[i].hash != nodes[j].hash);
    }
    table_fini(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_keys_that_differ_in_one_byte_have_other_hashes),
        cmocka_unit_test(an_empty_table_finds_nothing),
        cmocka_unit_test(an_expected_number_gives_the_size_at_once),
        cmocka_unit_test(the_empty_key_is_a_key),
        cmocka_unit_test(it_holds_what_was_added_and_not_removed),
        cmocka_unit_test(a_key_that_was_looked_for_is_added_with_its_hash),
        cmocka_unit_test(chains_stay_short),
        cmocka_unit_test(a_large_table_grows_bit_by_bit),
        cmocka_unit_test(an_empty_table_is_small_again),
        cmocka_unit_test(a_table_does_not_change_its_size_to_and_fro),
        cmocka_unit_test(another_seed_gives_other_chains),
    };

    return cmocka_run_group_tests_name("store/table", tests, NULL, NULL);
}
