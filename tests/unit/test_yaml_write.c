/* deploy/yaml/yaml_write: what needs quotes, what becomes a block, and where comments go. */
#include "deploy/yaml/yaml_doc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct arena arena;

static int end(void **state)
{
    (void)state;
    arena_free(&arena);
    return 0;
}

static struct yaml_node *string(const char *value)
{
    return yaml_new_text(&arena, value, strlen(value));
}

static void texts_get_quotes_where_a_reader_could_err(void **state)
{
    static const struct {
        const char *value, *expected;
    } cases[] = {
        {"", "\"\""},
        {"plain", "plain"},
        {"two words", "two words"},
        {"yes", "\"yes\""},
        {"Off", "\"Off\""},
        {"y", "\"y\""},
        {"yesterday", "yesterday"},
        {"null", "\"null\""},
        {"~", "\"~\""},
        {"~/home", "~/home"},
        {"12", "\"12\""},
        {"012", "\"012\""},
        {"0x1f", "\"0x1f\""},
        {"1e3", "\"1e3\""},
        {"1_000", "\"1_000\""},
        {".5", "\".5\""},
        {".inf", "\".inf\""},
        {"+.INF", "\"+.INF\""},
        {"1:30", "\"1:30\""},
        {"2:4", "\"2:4\""},
        {"2001-01-01", "\"2001-01-01\""},
        {"2001-01-01T00:00:00Z", "\"2001-01-01T00:00:00Z\""},
        {"64Gi", "64Gi"},
        {"500m", "500m"},
        {"v1", "v1"},
        {"=", "\"=\""},
        {"=mlx5_1,mlx5_2", "=mlx5_1,mlx5_2"},
        {"<<", "\"<<\""},
        {"-", "\"-\""},
        {"- a", "\"- a\""},
        {"-c", "-c"},
        {"--nnodes=2:4", "--nnodes=2:4"},
        {"---", "\"---\""},
        {"-1", "\"-1\""},
        {"...", "\"...\""},
        {"? a", "\"? a\""},
        {":a", "\":a\""},
        {"a: b", "\"a: b\""},
        {"a:", "\"a:\""},
        {"a:b", "a:b"},
        {"http://x:1/", "http://x:1/"},
        {"a #b", "\"a #b\""},
        {"a#b", "a#b"},
        {"#a", "\"#a\""},
        {"{a}", "\"{a}\""},
        {"*a", "\"*a\""},
        {"%a", "\"%a\""},
        {"@a", "\"@a\""},
        {" a", "\" a\""},
        {"a ", "\"a \""},
        {"a\tb", "\"a\\tb\""},
        {"a\rb", "\"a\\rb\""},
        {"a\"b\\c", "a\"b\\c"},
        {"\"a\\", "\"\\\"a\\\\\""},
        {"\x7f", "\"\\u007F\""},
        {"\xc2\x85", "\"\\u0085\""},
        {"\xe2\x80\xa8", "\"\\u2028\""},
        {"\xc3\xa4", "\"\xc3\xa4\""},
        {"\xef\xbf\xbe", "\"\\uFFFE\""},
        {"\xf0\x9f\x98\x80", "\"\xf0\x9f\x98\x80\""},
        {"a\xff", "\"a\\uFFFD\""},
        {"$(A).$(B)", "$(A).$(B)"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *text = yaml_write(&arena, string(cases[i].value));

        text[strcspn(text, "\n")] = '\0';
        if (strcmp(text, cases[i].expected) != 0)
            fail_msg("\"%s\" is written %s, not %s", cases[i].value, text, cases[i].expected);
    }
}

static void lines_become_a_block(void **state)
{
    static const struct {
        const char *value, *expected;
    } cases[] = {
        {"a\nb\n", "k: |\n  a\n  b\n"},
        {"a\nb", "k: |-\n  a\n  b\n"},
        {"a\n\nb\n\n", "k: |+\n  a\n\n  b\n\n"},
        {" a\nb\n", "k: |2\n   a\n  b\n"},
        {"\na\n", "k: |2\n\n  a\n"},
        {"a\n\tb\n", "k: |\n  a\n  \tb\n"},
        {"a\r\nb\n", "k: \"a\\r\\nb\\n\"\n"},
        {"\n", "k: \"\\n\"\n"},
        {" \n", "k: \" \\n\"\n"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct yaml_node *n = yaml_new(&arena, YAML_MAPPING);

        yaml_put(&arena, n, "k", string(cases[i].value));
        assert_string_equal(yaml_write(&arena, n), cases[i].expected);
    }
}

static struct yaml_node *sample(void)
{
    struct yaml_node *root = yaml_new(&arena, YAML_MAPPING);
    struct yaml_node *list = yaml_new(&arena, YAML_SEQUENCE), *item, *inner;

    yaml_put(&arena, root, "yes", yaml_new_plain(&arena, "7"));
    yaml_put(&arena, root, "list", list);
    item = yaml_new(&arena, YAML_MAPPING);
    yaml_put(&arena, item, "name", string("a"));
    inner = yaml_new(&arena, YAML_MAPPING);
    yaml_put(&arena, inner, "b", string("c"));
    yaml_get(inner, "b")->comment = "of b";
    yaml_put(&arena, item, "map", inner);
    item->comment = "of the item\nin two lines";
    yaml_append(&arena, list, item);
    inner = yaml_new(&arena, YAML_SEQUENCE);
    yaml_append(&arena, inner, yaml_new_plain(&arena, "true"));
    yaml_append(&arena, inner, yaml_new(&arena, YAML_SEQUENCE));
    yaml_append(&arena, list, inner);
    yaml_append(&arena, list, yaml_new(&arena, YAML_MAPPING));
    return root;
}

static void collections_are_blocks_with_comments_above(void **state)
{
    (void)state;
    assert_string_equal(yaml_write(&arena, sample()), "\"yes\": 7\n"
                                                      "list:\n"
                                                      "# of the item\n"
                                                      "# in two lines\n"
                                                      "- name: a\n"
                                                      "  map:\n"
                                                      "    # of b\n"
                                                      "    b: c\n"
                                                      "-\n"
                                                      "  - true\n"
                                                      "  - []\n"
                                                      "- {}\n");
}

static void long_keys_are_announced(void **state)
{
    char key[2000], expected[4200];
    struct yaml_node *root = yaml_new(&arena, YAML_MAPPING),
                     *inner = yaml_new(&arena, YAML_MAPPING);

    (void)state;
    memset(key, 'k', sizeof key - 1);
    key[sizeof key - 1] = '\0';
    yaml_put(&arena, inner, key, string("v"));
    yaml_put(&arena, root, key, inner);
    snprintf(expected, sizeof expected, "? %s\n:\n  ? %s\n  : v\n", key, key);
    assert_string_equal(yaml_write(&arena, root), expected);
}

static void json_says_the_same(void **state)
{
    struct yaml_node *root = sample();

    (void)state;
    yaml_put(&arena, root, "yes", yaml_new_plain(&arena, "9007199254740993"));
    yaml_put(&arena, root, "list", string("a\"\n\xc3\xa4"));
    assert_string_equal(yaml_write_json(&arena, root, "\t"),
                        "{\n\t\"yes\":\t9007199254740993,\n\t\"list\":\t\"a\\\"\\n\xc3\xa4\"\n}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(texts_get_quotes_where_a_reader_could_err, end),
        cmocka_unit_test_teardown(lines_become_a_block, end),
        cmocka_unit_test_teardown(collections_are_blocks_with_comments_above, end),
        cmocka_unit_test_teardown(long_keys_are_announced, end),
        cmocka_unit_test_teardown(json_says_the_same, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
