/* The etcd tree by the rules of etcd 3.4.23 (etcdserver/api/v2store): operations, indexes,
 * deadlines, listings; and our own limits. */
#include "tests/unit/tree_command.h"

/* --- Operations. --- */

static void a_fresh_tree_is_at_index_three(void **state)
{
    struct fixture w;

    (void)state;
    fixture_init(&w, 0);
    assert_int_equal(w.t.index, 3);
    expect_get(&w, "/", false, false, NOW, "{\"action\":\"get\",\"node\":{\"dir\":true}}\n");
    must(&w, COMMAND_TREE_SET, "/foo", "bar", NONE);
    assert_int_equal(w.t.index, 4);
    fixture_fini(&w);
}

static void the_examples_of_the_specification(void **state)
{
    struct tree_result r;
    struct fixture w;

    (void)state;
    fixture_init(&w, 0);
    r = change(&w, COMMAND_TREE_SET, "/foo", "bar", NONE);
    expect_event(&r, "{\"action\":\"set\",\"node\":{\"key\":\"/foo\",\"value\":\"bar\","
                     "\"modifiedIndex\":4,\"createdIndex\":4}}\n");
    r = change(&w, COMMAND_TREE_SET, "/foo", "baz", NONE);
    expect_event(&r, "{\"action\":\"set\",\"node\":{\"key\":\"/foo\",\"value\":\"baz\","
                     "\"modifiedIndex\":5,\"createdIndex\":5},\"prevNode\":{\"key\":\"/foo\","
                     "\"value\":\"bar\",\"modifiedIndex\":4,\"createdIndex\":4}}\n");
    r = change(&w, COMMAND_TREE_DELETE, "/foo", "", NONE);
    expect_event(&r, "{\"action\":\"delete\",\"node\":{\"key\":\"/foo\",\"modifiedIndex\":6,"
                     "\"createdIndex\":5},\"prevNode\":{\"key\":\"/foo\",\"value\":\"baz\","
                     "\"modifiedIndex\":5,\"createdIndex\":5}}\n");
    r = change(&w, COMMAND_TREE_CREATE_IN_ORDER, "/q", "1", NONE);
    expect_event(&r, "{\"action\":\"create\",\"node\":{\"key\":\"/q/00000000000000000007\","
                     "\"value\":\"1\",\"modifiedIndex\":7,\"createdIndex\":7}}\n");
    fixture_fini(&w);
}

static void update_and_swap_keep_the_created_index(void **state)
{
    struct tree_result r;
    struct fixture w;

    (void)state;
    fixture_init(&w, 0);
    must(&w, COMMAND_TREE_CREATE, "/k", "1", NONE);
    r = change(&w, COMMAND_TREE_UPDATE, "/k", "2", NONE);
    expect_event(&r, "{\"action\":\"update\",\"node\":{\"key\":\"/k\",\"value\":\"2\","
                     "\"modifiedIndex\":5,\"createdIndex\":4},\"prevNode\":{\"key\":\"/k\","
                     "\"value\":\"1\",\"modifiedIndex\":4,\"createdIndex\":4}}\n");
    r = change(&w, COMMAND_TREE_COMPARE_AND_SWAP, "/k", "3", WITH(.prev_index = 5));
    expect_event(&r, "{\"action\":\"compareAndSwap\",\"node\":{\"key\":\"/k\",\"value\":\"3\","
                     "\"modifiedIndex\":6,\"createdIndex\":4},\"prevNode\":{\"key\":\"/k\","
                     "\"value\":\"2\",\"modifiedIndex\":5,\"createdIndex\":4}}\n");
    must(&w, COMMAND_TREE_UPDATE, "/k", "", NONE);
    expect_get(&w, "/k", false, false, NOW,
               "{\"action\":\"get\",\"node\":{\"key\":\"/k\",\"value\":\"\",\"modifiedIndex\":7,"
               "\"createdIndex\":4}}\n");
    must(&w, COMMAND_TREE_SET, "/k", "new", NONE);
    expect_get(&w, "/k", false, false, NOW,
               "{\"action\":\"get\",\"node\":{\"key\":\"/k\",\"value\":\"new\",\"modifiedIndex\":8,"
               "\"createdIndex\":8}}\n");
    must_not(&w, COMMAND_TREE_CREATE, "/k", "", NONE, ETCD_KEY_EXISTS, "/k");
    fixture_fini(&w);
}

static void missing_parents_are_made_and_stay(void **state)
{
    struct fixture w;

    (void)state;
    fixture_init(&w, 0);
    must(&w, COMMAND_TREE_SET, "/a/b/c", "1", NONE);
    must(&w, COMMAND_TREE_SET, "/a/d", "1", NONE);
    must(&w, COMMAND_TREE_DELETE, "/a/b/c", "", NONE);
    must(&w, COMMAND_TREE_DELETE, "/a/d", "", NONE);
    expect_get(&w, "/", true, true, NOW,
               "{\"action\":\"get\",\"node\":{\"dir\":true,\"nodes\":[{\"key\":\"/a\","
               "\"dir\":true,\"nodes\":[{\"key\":\"/a/b\",\"dir\":true,\"modifiedIndex\":4,"
               "\"createdIndex\":4}],\"modifiedIndex\":4,\"createdIndex\":4}]}}\n");
    fixture_fini(&w);
}

static void the_root_cannot_be_changed(void **state)
{
    struct fixture w;

    (void)state;
    fixture_init(&w, 0);
    must_not(&w, COMMAND_TREE_SET, "/", "v", NONE, ETCD_ROOT_READ_ONLY, "/");
    must_not(&w, COMMAND_TREE_SET, "/", "", WITH(.dir = true), ETCD_ROOT_READ_ONLY, "/");
    must_not(&w, COMMAND_TREE_CREATE, "/", "v", NONE, ETCD_ROOT_READ_ONLY, "/");
    must_not(&w, COMMAND_TREE_UPDATE, "/", "", NONE, ETCD_ROOT_READ_ONLY, "/");
    must_not(&w, COMMAND_TREE_COMPARE_AND_SWAP, "/", "v", WITH(.prev_index = 1),
             ETCD_ROOT_READ_ONLY, "/");
    must_not(&w, COMMAND_TREE_DELETE, "/", "", WITH(.dir = true, .recursive = true),
             ETCD_ROOT_READ_ONLY, "/");
    must_not(&w, COMMAND_TREE_COMPARE_AND_DELETE, "/", "", WITH(.prev_index = 1), ETCD_NOT_A_FILE,
             "");
    fixture_fini(&w);
}

/* The first missing component, or the key that stands where a directory is needed. */
static void a_path_that_leads_nowhere_is_blamed_where_it_ends(void **state)
{
    static const struct {
        operation op;
        bool makes; /* what is missing */
    } operations[] = {{COMMAND_TREE_SET, true},
                      {COMMAND_TREE_CREATE, true},
                      {COMMAND_TREE_CREATE_IN_ORDER, true},
                      {COMMAND_TREE_UPDATE, false},
                      {COMMAND_TREE_COMPARE_AND_SWAP, false},
                      {COMMAND_TREE_COMPARE_AND_DELETE, false},
                      {COMMAND_TREE_DELETE, false}};

    (void)state;
    for (size_t i = 0; i < COUNT(operations); i++) {
        const struct command c = {.prev_index = 4};
        struct fixture w;

        print_message("  operation %zu\n", i);
        fixture_init(&w, 0);
        must(&w, COMMAND_TREE_SET, "/dir/key", "v", NONE);
        must_not(&w, operations[i].op, "/dir/key/below", "", c, ETCD_NOT_A_DIRECTORY, "/dir/key");
        must_not(&w, operations[i].op, "/dir/key/far/below", "", c, ETCD_NOT_A_DIRECTORY,
                 "/dir/key");
        if (operations[i].op == COMMAND_TREE_CREATE_IN_ORDER)
            must_not(&w, operations[i].op, "/dir/key", "", c, ETCD_NOT_A_DIRECTORY, "/dir/key");
        if (!operations[i].makes) {
            must_not(&w, operations[i].op, "/dir/none", "", c, ETCD_KEY_NOT_FOUND, "/dir/none");
            must_not(&w, operations[i].op, "/dir/none/below", "", c, ETCD_KEY_NOT_FOUND,
                     "/dir/none");
            must_not(&w, operations[i].op, "/no/ne", "", c, ETCD_KEY_NOT_FOUND, "/no");
        }
        expect_missing(&w, "/dir/none/below", ETCD_KEY_NOT_FOUND, "/dir/none");
        expect_missing(&w, "/dir/key/below", ETCD_NOT_A_DIRECTORY, "/dir/key");
        expect_missing(&w, "/di", ETCD_KEY_NOT_FOUND, "/di");
        expect_missing(&w, "/dirx/key", ETCD_KEY_NOT_FOUND, "/dirx");
        fixture_fini(&w);
    }
}

static void directories_are_not_keys(void **state)
{
    struct tree_result r;
    struct fixture w;

    (void)state;
    fixture_init(&w, 0);
    must(&w, COMMAND_TREE_SET, "/d", "ignored", WITH(.dir = true));
    must_not(&w, COMMAND_TREE_SET, "/d", "v", NONE, ETCD_NOT_A_FILE, "/d");
    must_not(&w, COMMAND_TREE_SET, "/d", "", WITH(.dir = true), ETCD_NOT_A_FILE, "/d");
    must_not(&w, COMMAND_TREE_CREATE, "/d", "", WITH(.dir = true), ETCD_KEY_EXISTS, "/d");
    must_not(&w, COMMAND_TREE_UPDATE, "/d", "v", NONE, ETCD_NOT_A_FILE, "/d");
    must_not(&w, COMMAND_TREE_COMPARE_AND_SWAP, "/d", "v", WITH(.prev_index = 4), ETCD_NOT_A_FILE,
             "/d");
    must_not(&w, COMMAND_TREE_COMPARE_AND_DELETE, "/d", "",
             WITH(.prev_index = 4, .recursive = true), ETCD_NOT_A_FILE, "/d");

    /* An update shows the new index in its own answer, and the store keeps the old one. */
    r = change(&w, COMMAND_TREE_UPDATE, "/d", "", NONE);
    expect_event(&r, "{\"action\":\"update\",\"node\":{\"key\":\"/d\",\"dir\":true,"
                     "\"modifiedIndex\":5,\"createdIndex\":4},\"prevNode\":{\"key\":\"/d\","
                     "\"dir\":true,\"modifiedIndex\":4,\"createdIndex\":4}}\n");
    expect_get(&w, "/d", false, false, NOW,
               "{\"action\":\"get\",\"node\":{\"key\":\"/d\",\"dir\":true,\"modifiedIndex\":4,"
               "\"createdIndex\":4}}\n");
    r = change(&w, COMMAND_TREE_SET, "/k", "v", NONE);
    r = change(&w, COMMAND_TREE_SET, "/k", "v", WITH(.dir = true)); /* a key becomes a directory */
    expect_event(&r, "{\"action\":\"set\",\"node\":{\"key\":\"/k\",\"dir\":true,"
                     "\"modifiedIndex\":7,\"createdIndex\":7},\"prevNode\":{\"key\":\"/k\","
                     "\"value\":\"v\",\"modifiedIndex\":6,\"createdIndex\":6}}\n");
    fixture_fini(&w);
}

static void directories_go_when_they_are_empty_or_with_all_below(void **state)
{
    struct tree_result r;
    struct fixture w;

    (void)state;
    fixture_init(&w, 0);
    must(&w, COMMAND_TREE_SET, "/d/_hidden", "1", NONE);
    must_not(&w, COMMAND_TREE_DELETE, "/d", "", NONE, ETCD_NOT_A_FILE, "/d");
    must_not(&w, COMMAND_TREE_DELETE, "/d", "", WITH(.dir = true), ETCD_DIRECTORY_NOT_EMPTY, "/d");
    must(&w, COMMAND_TREE_DELETE, "/d/_hidden", "", WITH(.dir = true, .recursive = true));
    r = change(&w, COMMAND_TREE_DELETE, "/d", "", WITH(.dir = true));
    expect_event(&r, "{\"action\":\"delete\",\"node\":{\"key\":\"/d\",\"dir\":true,"
                     "\"modifiedIndex\":6,\"createdIndex\":4},\"prevNode\":{\"key\":\"/d\","
                     "\"dir\":true,\"modifiedIndex\":4,\"createdIndex\":4}}\n");
    must(&w, COMMAND_TREE_SET, "/d/a/b", "1", NONE);
    must(&w, COMMAND_TREE_SET, "/d/a/c", "1", WITH(.expires_ns = NOW + SECOND));
    must(&w, COMMAND_TREE_SET, "/dd", "1", NONE);
    must(&w, COMMAND_TREE_DELETE, "/d", "", WITH(.recursive = true));
    assert_int_equal(w.t.expiry.count, 0);
    expect_get(&w, "/", true, true, NOW,
               "{\"action\":\"get\",\"node\":{\"dir\":true,\"nodes\":[{\"key\":\"/dd\","
               "\"value\":\"1\",\"modifiedIndex\":9,\"createdIndex\":9}]}}\n");
    fixture_fini(&w);
}

static void comparisons_say_what_differs(void **state)
{
    static const struct {
        const char *prev_value;
        uint64_t prev_index;
        bool value_differs, index_differs;
    } rows[] = {
        {"v", 0, false, false}, {"", 4, false, false}, {"v", 4, false, false},
        {"x", 0, true, false},  {"x", 4, true, false}, {"", 5, false, true},
        {"v", 5, false, true},  {"x", 5, true, true},  {"vv", 0, true, false},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        static const operation both[] = {COMMAND_TREE_COMPARE_AND_SWAP,
                                         COMMAND_TREE_COMPARE_AND_DELETE};

        for (size_t k = 0; k < COUNT(both); k++) {
            struct tree_result r;
            struct fixture w;

            print_message("  row %zu\n", i);
            fixture_init(&w, 0);
            must(&w, COMMAND_TREE_SET, "/k", "v", NONE);
            r = change(
                &w, both[k], "/k", "new",
                WITH(.expected = slice_str(rows[i].prev_value), .prev_index = rows[i].prev_index));
            if (rows[i].value_differs || rows[i].index_differs) {
                assert_int_equal(r.code, ETCD_COMPARE_FAILED);
                assert_int_equal(r.value_differs, rows[i].value_differs);
                assert_int_equal(r.index_differs, rows[i].index_differs);
                assert_true(slice_is(r.actual_value, "v"));
                assert_int_equal(r.actual_index, 4);
                expect_get(&w, "/k", false, false, NOW,
                           "{\"action\":\"get\",\"node\":{\"key\":\"/k\",\"value\":\"v\","
                           "\"modifiedIndex\":4,\"createdIndex\":4}}\n");
            } else {
                assert_int_equal(r.code, ETCD_OK);
            }
            fixture_fini(&w);
        }
    }
}

static void in_order_keys_are_named_by_their_index(void **state)
{
    struct tree_result r;
    struct fixture w;

    (void)state;
    fixture_init(&w, 0);
    must(&w, COMMAND_TREE_CREATE_IN_ORDER, "/q/of/jobs", "a", NONE);
    must(&w, COMMAND_TREE_SET, "/other", "x", NONE);
    r = change(&w, COMMAND_TREE_CREATE_IN_ORDER, "/q/of/jobs", "b", WITH(.dir = true));
    expect_event(&r, "{\"action\":\"create\",\"node\":{\"key\":\"/q/of/jobs/00000000000000000006\","
                     "\"dir\":true,\"modifiedIndex\":6,\"createdIndex\":6}}\n");
    r = change(&w, COMMAND_TREE_CREATE_IN_ORDER, "/", "c", NONE);
    expect_event(&r, "{\"action\":\"create\",\"node\":{\"key\":\"/00000000000000000007\","
                     "\"value\":\"c\",\"modifiedIndex\":7,\"createdIndex\":7}}\n");
    /* Somebody has taken the name that is next: it is that name which exists already. */
    must(&w, COMMAND_TREE_SET, "/q/00000000000000000009", "taken", NONE);
    must_not(&w, COMMAND_TREE_CREATE_IN_ORDER, "/q", "d", NONE, ETCD_KEY_EXISTS,
             "/q/00000000000000000009");
    must(&w, COMMAND_TREE_SET, "/00000000000000000010", "taken", NONE);
    must_not(&w, COMMAND_TREE_CREATE_IN_ORDER, "/", "d", NONE, ETCD_KEY_EXISTS,
             "/00000000000000000010");
    fixture_fini(&w);
}

/* --- Listings. --- */

static void listings_leave_hidden_nodes_out(void **state)
{
    struct fixture w;

    (void)state;
    fixture_init(&w, 0);
    must(&w, COMMAND_TREE_SET, "/_h/a/_b", "1", NONE);
    must(&w, COMMAND_TREE_SET, "/_h/a/c", "1", NONE);
    must(&w, COMMAND_TREE_SET, "/d/_x", "1", NONE);
    must(&w, COMMAND_TREE_SET, "/d/x_", "1", NONE);
    expect_get(&w, "/", true, true, NOW,
               "{\"action\":\"get\",\"node\":{\"dir\":true,\"nodes\":[{\"key\":\"/d\","
               "\"dir\":true,\"nodes\":[{\"key\":\"/d/x_\",\"value\":\"1\",\"modifiedIndex\":7,"
               "\"createdIndex\":7}],\"modifiedIndex\":6,\"createdIndex\":6}]}}\n");
    expect_get(&w, "/_h", true, true, NOW,
               "{\"action\":\"get\",\"node\":{\"key\":\"/_h\",\"dir\":true,\"nodes\":["
               "{\"key\":\"/_h/a\",\"dir\":true,\"nodes\":[{\"key\":\"/_h/a/c\",\"value\":\"1\","
               "\"modifiedIndex\":5,\"createdIndex\":5}],\"modifiedIndex\":4,\"createdIndex\":4}],"
               "\"modifiedIndex\":4,\"createdIndex\":4}}\n");
    expect_get(&w, "/_h/a/_b", false, false, NOW,
               "{\"action\":\"get\",\"node\":{\"key\":\"/_h/a/_b\",\"value\":\"1\","
               "\"modifiedIndex\":4,\"createdIndex\":4}}\n");
    must(&w, COMMAND_TREE_DELETE, "/d/x_", "", NONE);
    expect_get(&w, "/d", true, true, NOW, /* looks empty */
               "{\"action\":\"get\",\"node\":{\"key\":\"/d\",\"dir\":true,\"modifiedIndex\":6,"
               "\"createdIndex\":6}}\n");
    fixture_fini(&w);
}

static void listings_are_sorted_by_bytes_and_one_deep_unless_asked(void **state)
{
    struct fixture w;

    (void)state;
    fixture_init(&w, 0);
    must(&w, COMMAND_TREE_SET, "/b", "1", NONE);
    must(&w, COMMAND_TREE_SET, "/a/z", "1", NONE);
    must(&w, COMMAND_TREE_SET, "/a/y", "1", NONE);
    must(&w, COMMAND_TREE_SET, "/a-", "1",
         NONE); /* '-' comes before '/', and after the end of "/a" */
    must(&w, COMMAND_TREE_SET, "/\xff", "1", NONE);
    must(&w, COMMAND_TREE_SET, "/B", "1", NONE);
    expect_get(&w, "/", false, true, NOW,
               "{\"action\":\"get\",\"node\":{\"dir\":true,\"nodes\":["
               "{\"key\":\"/B\",\"value\":\"1\",\"modifiedIndex\":9,\"createdIndex\":9},"
               "{\"key\":\"/a\",\"dir\":true,\"modifiedIndex\":5,\"createdIndex\":5},"
               "{\"key\":\"/a-\",\"value\":\"1\",\"modifiedIndex\":7,\"createdIndex\":7},"
               "{\"key\":\"/b\",\"value\":\"1\",\"modifiedIndex\":4,\"createdIndex\":4},"
               "{\"key\":\"/\\ufffd\",\"value\":\"1\",\"modifiedIndex\":8,\"createdIndex\":8}"
               "]}}\n");
    expect_get(&w, "/a", true, true, NOW,
               "{\"action\":\"get\",\"node\":{\"key\":\"/a\",\"dir\":true,\"nodes\":["
               "{\"key\":\"/a/y\",\"value\":\"1\",\"modifiedIndex\":6,\"createdIndex\":6},"
               "{\"key\":\"/a/z\",\"value\":\"1\",\"modifiedIndex\":5,\"createdIndex\":5}],"
               "\"modifiedIndex\":5,\"createdIndex\":5}}\n");
    fixture_fini(&w);
}

/* --- Limits. --- */

/* "/d/d/d…" of `depth` components. */
static char *deep_path(size_t depth)
{
    char *path = malloc(2 * depth + 1);

    assert_non_null(path);
    for (size_t i = 0; i < depth; i++)
        memcpy(path + 2 * i, "/d", 2);
    path[2 * depth] = '\0';
    return path;
}

static void paths_are_deep_up_to_the_limit(void **state)
{
    char *deepest = deep_path(TREE_DEPTH_MAX), *deeper = deep_path(TREE_DEPTH_MAX + 1);
    struct slice where;
    const struct node *n;
    struct writer count = {0};
    struct fixture w;

    (void)state;
    fixture_init(&w, 0);
    must(&w, COMMAND_TREE_SET, deepest, "1", NONE);
    assert_int_equal(w.t.count, TREE_DEPTH_MAX + 1);
    assert_int_equal(tree_get(&w.t, slice_str("/"), &n, &where), ETCD_OK);
    assert_true(tree_write_get(&w.t, n, true, true, NOW, &count));
    assert_true(count.len > TREE_DEPTH_MAX * TREE_DEPTH_MAX);
    must(&w, COMMAND_TREE_DELETE, "/d", "", WITH(.recursive = true));
    assert_int_equal(w.t.count, 1);
    must_not(&w, COMMAND_TREE_SET, deeper, "1", NONE, ETCD_INTERNAL, deeper);
    must_not(&w, COMMAND_TREE_CREATE, deeper, "1", WITH(.dir = true), ETCD_INTERNAL, deeper);
    assert_int_equal(change(&w, COMMAND_TREE_CREATE_IN_ORDER, deepest, "1", NONE).code,
                     ETCD_INTERNAL);
    assert_int_equal(w.t.count, 1);
    fixture_fini(&w);
    free(deepest);
    free(deeper);
}

static void a_full_space_refuses_and_stays_as_it_was(void **state)
{
    enum { LIMIT = 8192 };
    char big[LIMIT + 1];
    struct fixture w;
    int count = 0;

    (void)state;
    memset(big, 'b', LIMIT);
    big[LIMIT] = '\0';
    fixture_init(&w, LIMIT);
    must(&w, COMMAND_TREE_SET, "/small", "sma", WITH(.expires_ns = NOW + SECOND));
    for (;; count++) {
        char path[16];

        snprintf(path, sizeof path, "/%d", count);
        if (change(&w, COMMAND_TREE_SET, path, "", NONE).code != ETCD_OK)
            break;
    }
    assert_in_range(count, 10, LIMIT);
    assert_in_range(w.t.bytes, LIMIT / 2, LIMIT);
    must_not(&w, COMMAND_TREE_SET, "/small", big, NONE, ETCD_INTERNAL, "/small");
    must_not(&w, COMMAND_TREE_UPDATE, "/small", big, NONE, ETCD_INTERNAL, "/small");
    must_not(&w, COMMAND_TREE_COMPARE_AND_SWAP, "/small", big, WITH(.prev_index = 4), ETCD_INTERNAL,
             "/small");
    must_not(&w, COMMAND_TREE_CREATE, "/a/b/c", "1", NONE, ETCD_INTERNAL, "/a/b/c");
    assert_int_equal(change(&w, COMMAND_TREE_CREATE_IN_ORDER, "/q", "1", NONE).code, ETCD_INTERNAL);
    /* What takes no more room than it frees still fits, heartbeats before all. */
    must(&w, COMMAND_TREE_SET, "/small", "big", NONE);
    must(&w, COMMAND_TREE_UPDATE, "/small", "s", NONE);
    must(&w, COMMAND_TREE_COMPARE_AND_SWAP, "/small", "t", WITH(.expected = slice_str("s")));
    must(&w, COMMAND_TREE_SET, "/small", "", WITH(.refresh = true, .expires_ns = NOW + SECOND));
    must(&w, COMMAND_TREE_UPDATE, "/small", "", WITH(.refresh = true, .expires_ns = NOW + SECOND));
    assert_in_range(w.t.bytes, 0, LIMIT);
    must(&w, COMMAND_TREE_DELETE, "/small", "", NONE);
    must(&w, COMMAND_TREE_SET, "/again", "", NONE);
    fixture_fini(&w);
}

static void no_more_than_the_limit_is_ever_held(void **state)
{
    static const operation operations[] = {
        COMMAND_TREE_SET,    COMMAND_TREE_CREATE, COMMAND_TREE_CREATE_IN_ORDER,
        COMMAND_TREE_UPDATE, COMMAND_TREE_DELETE, COMMAND_TREE_COMPARE_AND_SWAP};
    enum { LIMIT = 3072 };
    uint64_t random = 5;
    size_t full = 0;
    struct fixture w;

    (void)state;
    fixture_init(&w, LIMIT);
    for (int step = 0; step < 30000; step++) {
        static const char *const paths[] = {"/a", "/a/b", "/a/b/c/d/e", "/b", "/c/d", "/c/e"};
        char value[600];
        struct command c = {.prev_index = 0, .expected = slice_str("v")};

        random = random * 6364136223846793005u + 1442695040888963407u;
        memset(value, 'v', sizeof value);
        value[(random >> 20) % sizeof value] = '\0';
        c.recursive = random >> 63;
        c.dir = (random >> 50) % 8 == 0;
        if ((random >> 30) % 400 == 0)
            tree_clear(&w.t, NOW);
        full += change(&w, operations[(random >> 56) % COUNT(operations)],
                       paths[(random >> 40) % COUNT(paths)], value, c)
                    .code == ETCD_INTERNAL;
        assert_in_range(w.t.bytes, 0, LIMIT);
    }
    assert_in_range(full, 500, 30000); /* it was at the limit indeed */
    fixture_fini(&w);
}

/* --- The whole. --- */

static void clearing_is_one_delete_of_the_root(void **state)
{
    struct fixture w;

    (void)state;
    fixture_init(&w, 0);
    must(&w, COMMAND_TREE_SET, "/a/b/c", "1", NONE);
    must(&w, COMMAND_TREE_SET, "/d", "1", WITH(.expires_ns = NOW + SECOND));
    must(&w, COMMAND_TREE_SET, "/_hidden", "1", NONE);
    assert_int_equal(tree_clear(&w.t, NOW), 5);
    assert_int_equal(w.t.index, 7);
    assert_true(slice_is(w.t.hub.history[7]->node.key, "/"));
    assert_int_equal(w.t.hub.history[7]->action, ETCD_DELETE);
    assert_int_equal(w.t.count, 1);
    assert_int_equal(tree_clear(&w.t, NOW), 0);
    assert_int_equal(w.t.index, 7);
    must(&w, COMMAND_TREE_SET, "/a", "2", NONE);
    assert_int_equal(w.t.count, 2);
    fixture_fini(&w);
}

/* As when a directory is removed with its subtree: each watch below gets the same event, once. */
static void who_watches_below_is_told_of_a_clearing(void **state)
{
    static const struct {
        const char *path;
        bool recursive, told;
    } rows[] = {
        {"/", true, true},      {"/", false, true},     {"/a", false, true},
        {"/a/b/c", true, true}, {"/_h/x", false, true}, {"/absent", true, false},
    };
    struct watch *watches[COUNT(rows)], *past;
    struct fixture w;

    (void)state;
    fixture_init(&w, 0);
    must(&w, COMMAND_TREE_SET, "/a/b/c", "1", NONE);
    must(&w, COMMAND_TREE_SET, "/_h/x", "1", NONE);
    for (size_t i = 0; i < COUNT(rows); i++)
        assert_int_equal(watch_open(&w.t.hub, slice_str(rows[i].path), rows[i].recursive, true, 0,
                                    &w, &watches[i]),
                         ETCD_OK);
    assert_int_equal(tree_clear(&w.t, NOW), 5);
    for (size_t i = 0; i < COUNT(rows); i++) {
        if (watches[i]->subscription.queued != rows[i].told)
            fail_msg("%s was told %u times", rows[i].path, watches[i]->subscription.queued);
        watch_close(&w.t.hub, watches[i]);
    }
    assert_int_equal(watch_open(&w.t.hub, slice_str("/a/b/c"), false, false, w.t.index, &w, &past),
                     ETCD_OK);
    assert_int_equal(past->subscription.queued, 1); /* the history has it, too */
    watch_close(&w.t.hub, past);
    fixture_fini(&w);
}

static void operations_are_counted_as_they_end(void **state)
{
    static const struct {
        operation op;
        enum tree_counter counter;
        const char *good, *bad;
    } rows[] = {
        {COMMAND_TREE_SET, TREE_SETS, "/new", "/k/below"},
        {COMMAND_TREE_CREATE, TREE_CREATES, "/new", "/k"},
        {COMMAND_TREE_CREATE_IN_ORDER, TREE_CREATES, "/new", "/k"},
        {COMMAND_TREE_UPDATE, TREE_UPDATES, "/k", "/none"},
        {COMMAND_TREE_COMPARE_AND_SWAP, TREE_SWAPS, "/k", "/none"},
        {COMMAND_TREE_DELETE, TREE_DELETES, "/k", "/none"},
        {COMMAND_TREE_COMPARE_AND_DELETE, TREE_SWAP_DELETES, "/k", "/none"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct fixture w;

        fixture_init(&w, 0);
        must(&w, COMMAND_TREE_SET, "/k", "v", NONE);
        memset(w.t.succeeded, 0, sizeof w.t.succeeded);
        assert_int_not_equal(change(&w, rows[i].op, rows[i].bad, "v", NONE).code, ETCD_OK);
        must(&w, rows[i].op, rows[i].good, "v", NONE);
        for (size_t k = 0; k < TREE_COUNTERS; k++) {
            assert_int_equal(w.t.failed[k], k == rows[i].counter);
            assert_int_equal(w.t.succeeded[k], k == rows[i].counter);
        }
        expect_missing(&w, "/none", ETCD_KEY_NOT_FOUND, "/none");
        assert_int_equal(w.t.failed[TREE_GETS], 1);
        fixture_fini(&w);
    }
}

/* A large directory is gone with its removal: from reads, counts and deadlines; who watched in it
 * has been told. Its nodes are freed bit by bit, beside new ones of the same names. */
static void a_large_directory_goes_at_once_and_is_freed_in_slices(void **state)
{
    enum { COUNT = 1000 };
    struct lazy_free lazy_free;
    struct watch *inside, *missing;
    const struct node *found;
    struct slice where;
    struct fixture w;
    char path[32];
    int64_t at;

    (void)state;
    fixture_init(&w, 0);
    lazy_free_init(&lazy_free);
    w.t.lazy_free = &lazy_free;
    for (int i = 0; i < COUNT; i++) {
        snprintf(path, sizeof path, "/d/%d/k", i);
        must(&w, COMMAND_TREE_SET, path, "v", WITH(.expires_ns = NOW + SECOND));
    }
    must(&w, COMMAND_TREE_SET, "/e", "v", WITH(.expires_ns = NOW + 2 * SECOND));
    assert_int_equal(w.t.count, 3 + 2 * COUNT);
    assert_int_equal(w.t.root->below, 2 + 2 * COUNT);
    assert_int_equal(w.t.root->below_bytes, w.t.bytes - w.bytes);
    assert_int_equal(watch_open(&w.t.hub, slice_str("/d/7/k"), false, false, 0, &w, &inside),
                     ETCD_OK);
    assert_int_equal(watch_open(&w.t.hub, slice_str("/d/7/q"), false, false, 0, &w, &missing),
                     ETCD_OK);
    must(&w, COMMAND_TREE_DELETE, "/d", "", WITH(.recursive = true));
    assert_int_equal(w.t.count, 2);
    assert_int_equal(w.t.root->below_bytes, w.t.bytes - w.bytes);
    assert_int_equal(inside->subscription.queued, 1);
    assert_int_equal(missing->subscription.queued, 0);
    expect_missing(&w, "/d/7/k", ETCD_KEY_NOT_FOUND, "/d");
    must(&w, COMMAND_TREE_CREATE, "/d/7/k", "new", NONE);
    for (int i = 0; !lazy_free_is_empty(&lazy_free); i++) {
        size_t before = lazy_free.bytes;

        lazy_free_run(&lazy_free, 10);
        assert_in_range(before - lazy_free.bytes, 1, 10 * (sizeof(struct node) + 16));
        assert_int_equal(w.t.count, 4 + 1);
        assert_int_equal(tree_get(&w.t, slice_str("/d/7/k"), &found, &where), ETCD_OK);
        assert_true(slice_is(blob_slice(found->value), "new"));
        while (tree_next_expiry(&w.t, &at) && at < NOW + 2 * SECOND)
            ; /* skips the deadlines of removed nodes */
    }
    assert_int_equal(lazy_free.bytes, 0);
    assert_true(tree_next_expiry(&w.t, &at) && at == NOW + 2 * SECOND);
    watch_close(&w.t.hub, inside);
    watch_close(&w.t.hub, missing);
    for (int i = 0; i < COUNT; i++) {
        snprintf(path, sizeof path, "/d/%d", i);
        must(&w, COMMAND_TREE_SET, path, "v", NONE);
        if (i == 6)
            must(&w, COMMAND_TREE_DELETE, "/d/7", "", WITH(.recursive = true));
    }
    must(&w, COMMAND_TREE_DELETE, "/d", "", WITH(.recursive = true));
    assert_false(lazy_free_is_empty(&lazy_free));
    fixture_fini(&w); /* frees the rest */
    assert_true(lazy_free_is_empty(&lazy_free));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fresh_tree_is_at_index_three),
        cmocka_unit_test(a_large_directory_goes_at_once_and_is_freed_in_slices),
        cmocka_unit_test(the_examples_of_the_specification),
        cmocka_unit_test(update_and_swap_keep_the_created_index),
        cmocka_unit_test(missing_parents_are_made_and_stay),
        cmocka_unit_test(the_root_cannot_be_changed),
        cmocka_unit_test(a_path_that_leads_nowhere_is_blamed_where_it_ends),
        cmocka_unit_test(directories_are_not_keys),
        cmocka_unit_test(directories_go_when_they_are_empty_or_with_all_below),
        cmocka_unit_test(comparisons_say_what_differs),
        cmocka_unit_test(in_order_keys_are_named_by_their_index),
        cmocka_unit_test(listings_leave_hidden_nodes_out),
        cmocka_unit_test(listings_are_sorted_by_bytes_and_one_deep_unless_asked),
        cmocka_unit_test(paths_are_deep_up_to_the_limit),
        cmocka_unit_test(a_full_space_refuses_and_stays_as_it_was),
        cmocka_unit_test(no_more_than_the_limit_is_ever_held),
        cmocka_unit_test(clearing_is_one_delete_of_the_root),
        cmocka_unit_test(who_watches_below_is_told_of_a_clearing),
        cmocka_unit_test(operations_are_counted_as_they_end),
    };

    return cmocka_run_group_tests_name("store/tree", tests, NULL, NULL);
}
