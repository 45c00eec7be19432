/* deploy/yaml/yaml_doc: where nodes stand, what is refused and where, and what scalars mean. */
#include "deploy/yaml/yaml_doc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct yaml_file file;
static struct diag diag;

static void read_len(const char *text, size_t len)
{
    if (!yaml_file_parse(&file, "t.yaml", text, len, &diag))
        fail_msg("%s: refused: %s", text, diag.entries[0].text);
}

static void read(const char *text)
{
    read_len(text, strlen(text));
}

static int end(void **state)
{
    (void)state;
    yaml_file_free(&file);
    diag_free(&diag);
    return 0;
}

static struct yaml_node *root(void)
{
    assert_true(file.count > 0);
    return file.docs[0].root;
}

static void assert_bytes(const struct yaml_node *n, const char *expected)
{
    assert_non_null(n);
    assert_int_equal(n->end.offset - n->start.offset, strlen(expected));
    assert_memory_equal(file.bytes + n->start.offset, expected, strlen(expected));
}

static void nodes_know_their_bytes(void **state)
{
    (void)state;
    read("a: 1 # one\n"
         "b:\n"
         "  - 'x y'\n"
         "  - {k: \"v\"}   # flow\n"
         "\n"
         "# of c\n"
         "c: |\n"
         "  line\n"
         "d:\n");
    assert_bytes(yaml_get(root(), "a"), "1");
    assert_bytes(yaml_path(root(), "b[0]"), "'x y'");
    assert_bytes(yaml_path(root(), "b[1]"), "{k: \"v\"}");
    assert_bytes(yaml_get(root(), "b"), "- 'x y'\n  - {k: \"v\"}");
    assert_bytes(yaml_get(root(), "c"), "|\n  line\n");
    assert_bytes(yaml_get(root(), "d"), "");
    assert_bytes(yaml_get_pair(root(), "c")->key, "c");
    assert_int_equal(yaml_path(root(), "b[1].k")->start.line, 4);
    assert_int_equal(yaml_path(root(), "b[1].k")->start.column, 9);
    assert_null(yaml_path(root(), "b[2]"));
    assert_null(yaml_path(root(), "b.k"));
    assert_null(yaml_path(root(), "a.b.c"));
}

/* libyaml counts characters; a splice needs bytes. */
static void offsets_are_bytes_behind_any_text(void **state)
{
    char text[4096] = "\xef\xbb\xbfname: \"";
    struct yaml_node *n;

    (void)state;
    for (int i = 0; i < 300; i++)
        strcat(text, i % 3 == 0 ? "\xc3\xa4" : i % 3 == 1 ? "\xe2\x82\xac" : "\xf0\x9f\x98\x80");
    strcat(text, "\"\r\nlast: here");
    read(text);
    n = yaml_get(root(), "last");
    assert_bytes(n, "here");
    assert_int_equal(n->start.line, 2);
    assert_int_equal(n->start.column, 7);
    assert_bytes(yaml_get_pair(root(), "last")->key, "last");
}

static void documents_partition_the_file(void **state)
{
    static const char text[] = "# head\n"
                               "a: 1\n"
                               "# tail of a\n"
                               "--- # second\n"
                               "b: 2\n"
                               "...\n"
                               "---\n"
                               "---\n"
                               "# only words\n";

    (void)state;
    read(text);
    assert_int_equal(file.count, 4);
    assert_int_equal(file.docs[0].start, 0);
    assert_memory_equal(text + file.docs[1].start, "--- # second\nb: 2\n...\n", 22);
    assert_int_equal(file.docs[1].end, file.docs[2].start);
    assert_memory_equal(text + file.docs[3].start, "---\n# only", 10);
    assert_int_equal(file.docs[3].end, strlen(text));
    assert_null(file.docs[2].root);
    assert_null(file.docs[3].root);
    assert_string_equal(yaml_text(yaml_get(file.docs[1].root, "b")), "2");
    for (size_t i = 1; i < file.count; i++)
        assert_int_equal(file.docs[i].start, file.docs[i - 1].end);
}

/* Line breaks of YAML that are no newlines. */
static void documents_begin_at_any_line_break(void **state)
{
    static const char *const breaks[] = {"\n", "\r\n", "\r", "\xc2\x85", "\xe2\x80\xa8"};
    char text[32];

    (void)state;
    for (size_t i = 0; i < sizeof breaks / sizeof *breaks; i++) {
        size_t len = (size_t)snprintf(text, sizeof text, "--- a%s--- b%s", breaks[i], breaks[i]);

        read(text);
        assert_int_equal(file.count, 2);
        assert_int_equal(file.docs[0].end, 5 + strlen(breaks[i]));
        assert_int_equal(file.docs[1].start, file.docs[0].end);
        assert_int_equal(file.docs[1].end, len);
        end(NULL);
    }
    read("a: 1\n");
}

static void a_path_escapes_dots(void **state)
{
    (void)state;
    read("m: {a.b/c: {x: [1, {y: z}]}}");
    assert_string_equal(yaml_text(yaml_path(root(), "m.a\\.b/c.x[1].y")), "z");
}

static void aliases_stand_for_what_they_name(void **state)
{
    (void)state;
    read("base: &b {x: 1, y: 2}\n"
         "copy: *b\n"
         "more:\n"
         "  <<: *b\n"
         "  y: 3\n");
    assert_string_equal(yaml_text(yaml_path(root(), "copy.x")), "1");
    assert_true(yaml_get(root(), "copy")->alias);
    assert_bytes(yaml_get(root(), "copy"), "*b");
    assert_string_equal(yaml_text(yaml_path(root(), "more.x")), "1");
    assert_string_equal(yaml_text(yaml_path(root(), "more.y")), "3");
    assert_true(yaml_get_pair(yaml_get(root(), "more"), "x")->merged);
    assert_null(yaml_path(root(), "more.<<"));
}

static void scalars_mean_what_kubernetes_reads(void **state)
{
    static const struct {
        const char *text;
        enum yaml_type type;
    } cases[] = {
        {"yes", YAML_BOOL},          {"On", YAML_BOOL},        {"n", YAML_BOOL},
        {"yEs", YAML_STRING},        {"\"yes\"", YAML_STRING}, {"~", YAML_NULL},
        {"null", YAML_NULL},         {"'null'", YAML_STRING},  {"12", YAML_INT},
        {"-0x1F", YAML_INT},         {"0b101", YAML_INT},      {"012", YAML_INT},
        {"0o17", YAML_INT},          {"089", YAML_FLOAT},      {"1_000", YAML_INT},
        {"1e3", YAML_FLOAT},         {"1.", YAML_FLOAT},       {".5", YAML_FLOAT},
        {".inf", YAML_FLOAT},        {"1e", YAML_STRING},      {".", YAML_STRING},
        {"64Gi", YAML_STRING},       {"1:4", YAML_STRING},     {"0x", YAML_STRING},
        {"2001-01-01", YAML_STRING}, {"!!str 5", YAML_STRING}, {"!!int \"5\"", YAML_INT},
        {"+", YAML_STRING},          {"-", YAML_STRING},       {"_1", YAML_STRING},
        {"12e03", YAML_FLOAT},       {"0", YAML_INT},          {"-1", YAML_INT},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[64];

        snprintf(text, sizeof text, "v: %s\n", cases[i].text);
        if (strcmp(cases[i].text, "-") == 0)
            snprintf(text, sizeof text, "[x, -]");
        if (strcmp(cases[i].text, "-") == 0)
            continue; /* libyaml refuses it in a flow, and takes it for an item elsewhere */
        read(text);
        if (yaml_type(yaml_get(root(), "v")) != cases[i].type)
            fail_msg("%s: %d, expected %d", text, yaml_type(yaml_get(root(), "v")), cases[i].type);
        end(NULL);
    }
}

static void integers_have_values(void **state)
{
    static const struct {
        const char *text;
        int64_t value;
        bool ok;
    } cases[] = {
        {"v: 12", 12, true},
        {"v: -0x1F", -31, true},
        {"v: 010", 8, true},
        {"v: 0b101", 5, true},
        {"v: 1_000", 1000, true},
        {"v: 9223372036854775807", INT64_MAX, true},
        {"v: 9223372036854775808", 0, false},
        {"v: 99999999999999999999999999999999999999999999999999", 0, false},
        {"v: '12'", 0, false},
        {"v: 1.5", 0, false},
        {"v: [1]", 0, false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t value = -77;

        read(cases[i].text);
        if (yaml_to_int(yaml_get(root(), "v"), &value) != cases[i].ok ||
            value != (cases[i].ok ? cases[i].value : -77))
            fail_msg("%s: %lld", cases[i].text, (long long)value);
        end(NULL);
    }
}

static char *nested(const char *open, size_t times)
{
    char *text = calloc(times + 1, strlen(open));

    for (size_t i = 0; i < times; i++)
        strcat(text + i * strlen(open), open);
    return text;
}

static void refused(const char *text, size_t len, unsigned line, unsigned column, const char *part)
{
    if (yaml_file_parse(&file, "t.yaml", text, len, &diag))
        fail_msg("taken: %s", text);
    assert_int_equal(diag.errors, 1);
    if (diag.entries[0].mark.line != line || diag.entries[0].mark.column != column ||
        strstr(diag.entries[0].text, part) == NULL || strstr(diag.entries[0].text, ": ") == NULL)
        fail_msg("%.60s: %u:%u: %s (expected %u:%u: %s)", text, diag.entries[0].mark.line,
                 diag.entries[0].mark.column, diag.entries[0].text, line, column, part);
    diag_free(&diag);
}

static void an_error_names_its_place(void **state)
{
    static const struct {
        const char *text, *part;
        unsigned line, column;
    } cases[] = {
        {"a:\n\tb: 1\n", "indent with spaces", 2, 1},
        {"a: b: c\n", "mapping values", 1, 5},
        {"a: \"x\n", "end the quotes", 2, 1},
        {"a: [1\n", "did not find expected", 2, 1},
        {"a: 1\n\xff: 2\n", "UTF-8", 2, 1},
        {"a: \xc3\n", "UTF-8", 1, 5},
        {"a: \x01\n", "control characters are not allowed", 1, 4},
        {"a: \"x\\0y\"\n", "NUL", 1, 4},
        {"a: *b\n", "no &b stands before *b", 1, 4},
        {"a: &a [*a]\n", "part of the node that it refers to", 1, 8},
        {"? [x]\n: 1\n", "a collection is no key", 1, 3},
        {"a: &x 1\n---\nb: *x\n", "no &x stands before *x", 3, 4},
        {"a: {<<: 1}\n", "<<", 1, 9},
    };
    static const char nul[] = "a: 1\nb: \0\n";
    char *deep;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        refused(cases[i].text, strlen(cases[i].text), cases[i].line, cases[i].column,
                cases[i].part);
    refused(nul, sizeof nul - 1, 2, 4, "control characters");
    deep = nested("[", 10000);
    refused(deep, strlen(deep), 1, YAML_DEPTH_MAX + 2, "levels of nesting");
    free(deep);
    deep = nested("- ", 10000);
    refused(deep, strlen(deep), 1, 2 * (YAML_DEPTH_MAX + 1) + 1, "levels of nesting");
    free(deep);
}

static void a_bomb_of_anchors_is_refused(void **state)
{
    char text[4096] = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
    char line[256];

    (void)state;
    for (int i = 1; i < 12; i++) {
        int n = snprintf(line, sizeof line, "a%d: &a%d [", i, i);

        for (int j = 0; j < 9; j++)
            n += snprintf(line + n, sizeof line - (size_t)n, "*a%d, ", i - 1);
        snprintf(line + n, sizeof line - (size_t)n, "*a%d]\n", i - 1);
        strcat(text, line);
    }
    assert_false(yaml_file_parse(&file, "t.yaml", text, strlen(text), &diag));
    assert_non_null(strstr(diag.entries[0].text, "stand for more than"));
    diag_free(&diag);

    /* The same by merging: the limit counts the nodes that remain in the tree. */
    strcpy(text, "a0: &a0 {k: [1, 2, 3, 4, 5]}\n");
    for (int i = 1; i < 40; i++) {
        snprintf(line, sizeof line, "a%d: &a%d {<<: *a%d, x%d: *a%d}\n", i, i, i - 1, i, i - 1);
        strcat(text, line);
    }
    assert_false(yaml_file_parse(&file, "t.yaml", text, strlen(text), &diag));
    assert_non_null(strstr(diag.entries[0].text, "stand for more than"));
}

static void a_large_mapping_finds_its_double(void **state)
{
    char *text = malloc(40 * 20000), *at = text;

    (void)state;
    for (int i = 0; i < 20000; i++)
        at += sprintf(at, "key%d: %d\n", i, i);
    read(text);
    assert_int_equal(root()->count, 20000);
    end(NULL);
    sprintf(at, "key7: again\n");
    read(text);
    assert_int_equal(root()->count, 20000);
    assert_int_equal(file.twice_count, 1);
    assert_string_equal(yaml_get(root(), "key7")->text, "again");
    assert_true(yaml_refuse_twice(&file, 0, file.len, &diag));
    assert_non_null(strstr(diag.entries[0].text, "key7 occurs twice, first in line 8"));
    assert_int_equal(diag.entries[0].mark.line, 20001);
    free(text);
}

static void of_two_equal_keys_the_last_one_counts(void **state)
{
    (void)state;
    read("a: {x: 1, y: 2, x: 3, x: &x [4]}\nb: *x\na2: 5\n");
    assert_int_equal(file.twice_count, 2);
    assert_string_equal(yaml_path(root(), "a.x[0]")->text, "4");
    assert_string_equal(yaml_path(root(), "b[0]")->text, "4");
    assert_int_equal(yaml_get(root(), "a")->count, 2);
    assert_false(yaml_refuse_twice(&file, file.len - 4, file.len, &diag));
    assert_int_equal(diag.errors, 0);
}

static void trees_can_be_made(void **state)
{
    struct arena a = {0};
    struct yaml_node *m = yaml_new(&a, YAML_MAPPING), *s = yaml_new(&a, YAML_SEQUENCE);

    (void)state;
    for (int i = 0; i < 100; i++) {
        char key[16];

        snprintf(key, sizeof key, "k%d", i);
        yaml_put(&a, m, key, yaml_new_text(&a, key, strlen(key)));
        yaml_append(&a, s, yaml_new_plain(&a, "1"));
    }
    yaml_put(&a, m, "k5", s);
    assert_int_equal(m->count, 100);
    assert_int_equal(yaml_get(m, "k5")->count, 100);
    assert_true(yaml_remove(m, "k99"));
    assert_false(yaml_remove(m, "k99"));
    assert_string_equal(yaml_text(yaml_get(m, "k98")), "k98");
    arena_free(&a);
}

static void messages_cannot_write_to_a_terminal(void **state)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    (void)state;
    diag_note(&diag, "f", (struct yaml_mark){0, 1, 2}, "a note");
    diag_error(&diag, "f\n", (struct yaml_mark){0, 3, 4}, "esc \033[31m: remove it");
    diag_error(&diag, "f\n", (struct yaml_mark){0, 3, 4}, "esc \033[31m: remove it");
    diag_print(&diag, out);
    fclose(out);
    assert_string_equal(text, "f\\x0a:3:4: esc \\x1b[31m: remove it\n");
    assert_true(diag.errors > 0);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(nodes_know_their_bytes, end),
        cmocka_unit_test_teardown(offsets_are_bytes_behind_any_text, end),
        cmocka_unit_test_teardown(documents_partition_the_file, end),
        cmocka_unit_test_teardown(documents_begin_at_any_line_break, end),
        cmocka_unit_test_teardown(a_path_escapes_dots, end),
        cmocka_unit_test_teardown(aliases_stand_for_what_they_name, end),
        cmocka_unit_test_teardown(scalars_mean_what_kubernetes_reads, end),
        cmocka_unit_test_teardown(integers_have_values, end),
        cmocka_unit_test_teardown(an_error_names_its_place, end),
        cmocka_unit_test_teardown(a_bomb_of_anchors_is_refused, end),
        cmocka_unit_test_teardown(a_large_mapping_finds_its_double, end),
        cmocka_unit_test_teardown(of_two_equal_keys_the_last_one_counts, end),
        cmocka_unit_test_teardown(trees_can_be_made, end),
        cmocka_unit_test_teardown(messages_cannot_write_to_a_terminal, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
