/* The table of domains: --topology-file. */
#include "rdzv/config/config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void a_name_counts_before_patterns(void **state)
{
    static const struct {
        const char *name, *domain;
        uint64_t index;
    } rows[] = {
        {"gpu-1", "row1/a", 7},         {"gpu-2", "row1/b", UINT64_MAX},
        {"gpu-23", "row2", UINT64_MAX}, {"gpu", "", UINT64_MAX},
        {"10.0.0.7", "row3", 0},        {"", "", UINT64_MAX},
        {"gpu-1 ", "row2", UINT64_MAX},
    };
    char error[TOPOLOGY_ERROR_MAX];
    struct topology *t = topology_parse(slice_str("# all nodes\n"
                                                  "gpu-? row1/b\r\n"
                                                  "gpu-* row2\n"
                                                  "\tgpu-1\trow1/a   7 # the first one\n"
                                                  "\n"
                                                  "10.0.0.7 row3 0"),
                                        error);

    (void)state;
    assert_non_null(t);
    assert_int_equal(topology_lines(t), 4);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct topology_place place = topology_find(t, slice_str(rows[i].name), NULL);

        assert_true(slice_is(place.domain, rows[i].domain));
        assert_true(place.index == rows[i].index);
    }
    assert_int_equal(topology_find(NULL, slice_str("a"), NULL).domain.len, 0);
    topology_free(t);
    topology_free(NULL);
}

static void a_group_has_the_nodes_whose_domains_begin_alike(void **state)
{
    static const struct {
        const char *name, *members;
        uint64_t column;
    } rows[] = {
        {"b", "abceh", 1}, {"b", "abe", 2}, {"a", "a", 3}, {"b", "", 3}, {"c", "c", 2},
        {"d", "d", 1},     {"f", "f", 1},   {"g", "", 1},  {"?", "", 1}, {"a", "", 0},
    };
    char error[TOPOLOGY_ERROR_MAX];
    struct topology *t = topology_parse(
        slice_str("f r-1\nb r/x\na r/x/1 7\nd r0\nc r/x-1\ne r/x/2\n? r/x\nh r"), error);

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct topology_group group = topology_group(t, slice_str(rows[i].name), rows[i].column);
        char members[16] = "";

        for (char name[2] = "a"; name[0] < 'i'; name[0]++) {
            struct topology_group other = topology_group(t, slice_str(name), rows[i].column);

            if (group.count == 0 || other.count == 0 || other.first != group.first)
                continue;
            snprintf(members + strlen(members), 2, "%s", name);
            assert_in_range(other.own, group.first, group.first + group.count - 1);
        }
        assert_string_equal(members, rows[i].members);
        assert_int_equal(group.count, strlen(members));
    }
    assert_int_equal(topology_group(NULL, slice_str("a"), 1).count, 0);
    assert_true(slice_is(topology_find(t, slice_str("a"), NULL).domain, "r/x/1"));
    topology_free(t);
}

static void a_wrong_line_is_named(void **state)
{
    static const struct {
        const char *text, *error;
    } rows[] = {
        {"a", "1:2: a domain is expected behind the node, as in `node-a row1/rack2`"},
        {"a r\nb", "2:2: a domain is expected behind the node, as in `node-a row1/rack2`"},
        {"a r 1\n  b r x", "2:7: the index is not a whole number"},
        {"a r -1", "1:5: the index is not a whole number"},
        {"a r 1 x", "1:7: a line has a node, a domain and an index"},
        {"a r//b", "1:3: a name is missing beside a `/`"},
        {"a /r", "1:3: a name is missing beside a `/`"},
        {"a r/", "1:3: a name is missing beside a `/`"},
        {"a r\nb r\na s\n", "3:1: the node has a line already"},
    };
    char error[TOPOLOGY_ERROR_MAX], text[4096] = "";

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_null(topology_parse(slice_str(rows[i].text), error));
        assert_string_equal(error, rows[i].error);
    }
    for (int i = 0; i <= TOPOLOGY_PATTERNS_MAX; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "a%d* r\n", i);
    assert_null(topology_parse(slice_str(text), error));
    assert_string_equal(error, "101:1: more than 100 patterns: name the nodes");
    memset(text, 'a', 300);
    snprintf(text + 300, sizeof text - 300, " r");
    assert_null(topology_parse(slice_str(text), error));
    assert_string_equal(error, "1:1: a name has at most 255 bytes");
    assert_null(topology_read("/nowhere/at/all", error));
    assert_string_equal(error, "/nowhere/at/all: No such file or directory");
}

static void a_label_has_an_index_and_a_domain(void **state)
{
    static const struct {
        const char *text, *domain;
        uint64_t index;
        bool is_wrong;
    } rows[] = {
        {"index=0", "", 1, false},        {"domain=a/b,index=12", "a/b", 13, false},
        {"index=,domain=", "", 0, false}, {"domain=a,index=$(INDEX)", "a", 0, false},
        {"index", "", 0, true},           {"index=-1", "", 0, true},
        {"domain=/a", "", 0, true},       {"rack=1", "", 0, true},
    };
    char text[200] = "domain=";
    struct topology_label label;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        label = (struct topology_label){0};
        assert_int_equal(node_label_read(rows[i].text, &label), !rows[i].is_wrong);
        if (rows[i].is_wrong)
            continue;
        assert_string_equal(label.domain, rows[i].domain);
        assert_int_equal(label.index, rows[i].index);
    }
    memset(text + 7, 'a', TOPOLOGY_LABEL_MAX - 1);
    assert_true(node_label_read(text, &label));
    text[7 + TOPOLOGY_LABEL_MAX - 1] = 'a';
    assert_false(node_label_read(text, &label));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_counts_before_patterns),
        cmocka_unit_test(a_group_has_the_nodes_whose_domains_begin_alike),
        cmocka_unit_test(a_wrong_line_is_named),
        cmocka_unit_test(a_label_has_an_index_and_a_domain),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
