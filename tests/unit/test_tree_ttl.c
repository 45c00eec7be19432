/* The etcd tree by the rules of etcd 3.4.23: deadlines. */
#include "tests/unit/tree_command.h"

/* --- Deadlines. --- */

static void seconds_left_are_rounded_up(void **state)
{
    static const struct {
        int64_t later_ns;
        const char *shown;
    } rows[] = {
        {0, "\"ttl\":5,"},
        {1, "\"ttl\":5,"},
        {SECOND - 1, "\"ttl\":5,"},
        {SECOND, "\"ttl\":4,"},
        {4 * SECOND, "\"ttl\":1,"},
        {5 * SECOND - 1, "\"ttl\":1,"},
        {5 * SECOND, ""},
        {6 * SECOND - 1, ""},
        {6 * SECOND, "\"ttl\":-1,"},
        {8 * SECOND, "\"ttl\":-3,"},
    };
    struct fixture w;

    (void)state;
    fixture_init(&w, 0);
    must(&w, COMMAND_TREE_SET, "/k", "v", WITH(.expires_ns = NOW + 5 * SECOND));
    for (size_t i = 0; i < COUNT(rows); i++) {
        char json[256];

        snprintf(json, sizeof json,
                 "{\"action\":\"get\",\"node\":{\"key\":\"/k\",\"value\":\"v\","
                 "\"expiration\":\"2027-01-15T08:00:05Z\",%s\"modifiedIndex\":4,"
                 "\"createdIndex\":4}}\n",
                 rows[i].shown);
        expect_get(&w, "/k", false, false, NOW + rows[i].later_ns, json);
    }
    fixture_fini(&w);
}

/* Nodes expire in the order of their deadlines; each expiry is an event with its own index. */
static void nodes_go_in_order_of_their_deadlines(void **state)
{
    struct tree_result r;
    struct fixture w;
    int64_t at;

    (void)state;
    fixture_init(&w, 0);
    assert_false(tree_next_expiry(&w.t, &at));
    must(&w, COMMAND_TREE_SET, "/c", "3", WITH(.expires_ns = NOW + 3 * SECOND)); /* 4 */
    must(&w, COMMAND_TREE_SET, "/a", "1", WITH(.expires_ns = NOW + SECOND));
    must(&w, COMMAND_TREE_SET, "/b1", "2", WITH(.expires_ns = NOW + 2 * SECOND));
    must(&w, COMMAND_TREE_SET, "/b2", "2", WITH(.expires_ns = NOW + 2 * SECOND)); /* 7 */
    assert_true(tree_next_expiry(&w.t, &at) && at == NOW + SECOND);
    assert_int_equal(tree_expire(&w.t, NOW + SECOND - 1), 0);
    assert_int_equal(w.t.index, 7);
    assert_int_equal(tree_expire(&w.t, NOW + 2 * SECOND), 3);
    assert_int_equal(w.t.index, 10);
    assert_int_equal(w.t.expired, 3);
    r = (struct tree_result){.event = w.t.hub.history[8]};
    expect_event(&r, "{\"action\":\"expire\",\"node\":{\"key\":\"/a\",\"modifiedIndex\":8,"
                     "\"createdIndex\":5},\"prevNode\":{\"key\":\"/a\",\"value\":\"1\","
                     "\"expiration\":\"2027-01-15T08:00:01Z\",\"ttl\":-1,\"modifiedIndex\":5,"
                     "\"createdIndex\":5}}\n");
    assert_true(slice_is(w.t.hub.history[9]->node.key, "/b1"));
    assert_true(slice_is(w.t.hub.history[10]->node.key, "/b2"));
    assert_true(tree_next_expiry(&w.t, &at) && at == NOW + 3 * SECOND);
    fixture_fini(&w);
}

static void a_directory_goes_as_one_event(void **state)
{
    struct fixture w;

    (void)state;
    fixture_init(&w, 0);
    must(&w, COMMAND_TREE_SET, "/d", "", WITH(.dir = true, .expires_ns = NOW + 2 * SECOND));
    must(&w, COMMAND_TREE_SET, "/d/late", "1", WITH(.expires_ns = NOW + 9 * SECOND));
    must(&w, COMMAND_TREE_SET, "/d/early", "1", WITH(.expires_ns = NOW + SECOND));
    must(&w, COMMAND_TREE_SET, "/d/sub/k", "1", NONE);
    assert_int_equal(tree_expire(&w.t, NOW + 10 * SECOND), 2);
    assert_true(slice_is(w.t.hub.history[8]->node.key, "/d/early"));
    assert_true(slice_is(w.t.hub.history[9]->node.key, "/d"));
    assert_int_equal(w.t.index, 9);
    expect_missing(&w, "/d", ETCD_KEY_NOT_FOUND, "/d");
    fixture_fini(&w);
}

static void a_write_replaces_the_deadline(void **state)
{
    static const operation operations[] = {COMMAND_TREE_SET, COMMAND_TREE_UPDATE,
                                           COMMAND_TREE_COMPARE_AND_SWAP};

    (void)state;
    for (size_t i = 0; i < COUNT(operations); i++) {
        struct fixture w;
        int64_t at;

        fixture_init(&w, 0);
        must(&w, COMMAND_TREE_CREATE, "/k", "v", WITH(.expires_ns = NOW + SECOND));
        must(&w, operations[i], "/k", "w",
             WITH(.expires_ns = NOW + 7 * SECOND, .expected = slice_str("v")));
        assert_true(tree_next_expiry(&w.t, &at) && at == NOW + 7 * SECOND);
        must(&w, operations[i], "/k", "x", WITH(.expected = slice_str("w")));
        assert_false(tree_next_expiry(&w.t, &at));
        fixture_fini(&w);
    }
}

/* A deadline that wrapped around 64 bits: set, create and POST take one before 2000 for none,
 * update and compare-and-swap take it as it is. */
static void absurd_deadlines_are_none_or_literal(void **state)
{
    static const struct {
        operation op;
        int64_t expires_ns;
        bool kept;
    } rows[] = {
        {COMMAND_TREE_SET, INT64_MIN, false},
        {COMMAND_TREE_SET, -1, false},
        {COMMAND_TREE_SET, INT64_C(946684800) * SECOND - 1, false},
        {COMMAND_TREE_SET, INT64_C(946684800) * SECOND, true},
        {COMMAND_TREE_SET, NOW - SECOND, true},
        {COMMAND_TREE_SET, INT64_MAX, true},
        {COMMAND_TREE_CREATE, -1, false},
        {COMMAND_TREE_CREATE_IN_ORDER, -1, false},
        {COMMAND_TREE_UPDATE, -1, true},
        {COMMAND_TREE_UPDATE, INT64_MIN, true},
        {COMMAND_TREE_COMPARE_AND_SWAP, -1, true},
        {COMMAND_TREE_COMPARE_AND_SWAP, INT64_MIN, true},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct fixture w;
        int64_t at;

        print_message("  row %zu\n", i);
        fixture_init(&w, 0);
        if (rows[i].op != COMMAND_TREE_CREATE)
            must(&w, COMMAND_TREE_SET, rows[i].op == COMMAND_TREE_CREATE_IN_ORDER ? "/other" : "/k",
                 "v", NONE);
        must(&w, rows[i].op, "/k", "w", WITH(.expires_ns = rows[i].expires_ns, .prev_index = 4));
        assert_int_equal(tree_next_expiry(&w.t, &at), rows[i].kept);
        if (rows[i].kept)
            assert_true(at == rows[i].expires_ns);
        fixture_fini(&w);
    }
    {
        struct tree_result r;
        struct fixture w;

        fixture_init(&w, 0);
        must(&w, COMMAND_TREE_SET, "/k", "v", NONE);
        r = change(&w, COMMAND_TREE_UPDATE, "/k", "v",
                   WITH(.expires_ns = INT64_MIN, .now_ns = INT64_C(1700000000) * SECOND));
        expect_event(&r, "{\"action\":\"update\",\"node\":{\"key\":\"/k\",\"value\":\"v\","
                         "\"expiration\":\"1677-09-21T00:12:43.145224192Z\",\"ttl\":-9223372036,"
                         "\"modifiedIndex\":5,\"createdIndex\":4},\"prevNode\":{\"key\":\"/k\","
                         "\"value\":\"v\",\"modifiedIndex\":4,\"createdIndex\":4}}\n");
        assert_int_equal(tree_expire(&w.t, NOW), 1);
        fixture_fini(&w);
    }
}

static void refresh_keeps_the_value(void **state)
{
    const struct command refresh = {.refresh = true, .expires_ns = NOW + 5 * SECOND};
    struct command swap = refresh;
    struct tree_result r;
    struct fixture w;

    (void)state;
    fixture_init(&w, 0);
    must_not(&w, COMMAND_TREE_SET, "/k", "", refresh, ETCD_KEY_NOT_FOUND, "/k");
    must_not(&w, COMMAND_TREE_UPDATE, "/k", "", refresh, ETCD_KEY_NOT_FOUND, "/k");
    must(&w, COMMAND_TREE_SET, "/k", "v", NONE);
    r = change(&w, COMMAND_TREE_UPDATE, "/k", "", refresh);
    assert_true(r.event->refresh);
    expect_event(&r, "{\"action\":\"update\",\"node\":{\"key\":\"/k\",\"value\":\"v\","
                     "\"expiration\":\"2027-01-15T08:00:05Z\",\"ttl\":5,\"modifiedIndex\":5,"
                     "\"createdIndex\":4},\"prevNode\":{\"key\":\"/k\",\"value\":\"v\","
                     "\"modifiedIndex\":4,\"createdIndex\":4}}\n");
    r = change(&w, COMMAND_TREE_SET, "/k", "", refresh);
    expect_event(&r, "{\"action\":\"set\",\"node\":{\"key\":\"/k\",\"value\":\"v\","
                     "\"expiration\":\"2027-01-15T08:00:05Z\",\"ttl\":5,\"modifiedIndex\":6,"
                     "\"createdIndex\":6},\"prevNode\":{\"key\":\"/k\",\"value\":\"v\","
                     "\"expiration\":\"2027-01-15T08:00:05Z\",\"ttl\":5,\"modifiedIndex\":5,"
                     "\"createdIndex\":4}}\n");
    swap.prev_index = 6;
    r = change(&w, COMMAND_TREE_COMPARE_AND_SWAP, "/k", "", swap);
    assert_true(slice_is(blob_slice(r.event->value), "v"));
    must(&w, COMMAND_TREE_SET, "/d", "", WITH(.dir = true));
    r = change(&w, COMMAND_TREE_UPDATE, "/d", "", refresh);
    expect_event(&r, "{\"action\":\"update\",\"node\":{\"key\":\"/d\",\"dir\":true,"
                     "\"expiration\":\"2027-01-15T08:00:05Z\",\"ttl\":5,\"modifiedIndex\":9,"
                     "\"createdIndex\":8},\"prevNode\":{\"key\":\"/d\",\"dir\":true,"
                     "\"modifiedIndex\":8,\"createdIndex\":8}}\n");
    /* Create and POST do not know it: what they make is told of. */
    r = change(&w, COMMAND_TREE_CREATE, "/new", "v", refresh);
    assert_false(r.event->refresh);
    r = change(&w, COMMAND_TREE_CREATE_IN_ORDER, "/q", "v", refresh);
    assert_false(r.event->refresh);
    fixture_fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(seconds_left_are_rounded_up),
        cmocka_unit_test(nodes_go_in_order_of_their_deadlines),
        cmocka_unit_test(a_directory_goes_as_one_event),
        cmocka_unit_test(a_write_replaces_the_deadline),
        cmocka_unit_test(absurd_deadlines_are_none_or_literal),
        cmocka_unit_test(refresh_keeps_the_value),
    };

    return cmocka_run_group_tests_name("store/tree, deadlines", tests, NULL, NULL);
}
