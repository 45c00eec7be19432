/* deploy/template/cel_write: objects, maps and texts as literals of CEL. */
#include "deploy/template/template.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct arena arena;

static int free_arena(void **state)
{
    (void)state;
    arena_free(&arena);
    return 0;
}

/* The first document of the YAML, as CEL. */
static const char *cel_of(const char *type, const char *yaml)
{
    struct buf out = {.arena = &arena};
    struct diag d = {0};
    struct yaml_file file;

    assert_true(yaml_file_parse(&file, "test.yaml", yaml, strlen(yaml), &d));
    cel_write(&out, type, file.docs[0].root);
    yaml_file_free(&file);
    return out.text;
}

static void a_mapping_is_an_object_of_the_type_of_its_field(void **state)
{
    (void)state;
    assert_string_equal(cel_of("Object.spec", "a: {b: x}\nc: [{d: v}, {d: z}]\n"),
                        "Object.spec{\n"
                        "  a: Object.spec.a{\n"
                        "    b: \"x\"\n"
                        "  },\n"
                        "  c: [Object.spec.c{\n"
                        "    d: \"v\"\n"
                        "  }, Object.spec.c{\n"
                        "    d: \"z\"\n"
                        "  }]\n"
                        "}");
}

/* Literals are indented as their line is. */
static void texts_and_literals_make_an_expression(void **state)
{
    (void)state;
    assert_string_equal(
        cel_of(
            "T",
            "{cel: [\"f(\\n  x ?\", {type: A, value: {b: 1}}, [\":\", {type: A, value: c}], )]}"),
        "f(\n  x ? A{\n    b: 1\n  } : \"c\" )");
    assert_string_equal(cel_of("T", "a: {cel: [b.c]}\nd: 1\n"), "T{\n  a: b.c,\n  d: 1\n}");
}

static void numbers_and_booleans_are_no_texts_unless_they_are_quoted(void **state)
{
    (void)state;
    assert_string_equal(cel_of("T", "[1, true, off, \"1\", 'no', x, \"\", -3, 010]"),
                        "[1, true, false, \"1\", \"no\", \"x\", \"\", -3, 8]");
}

/* The keys are names of resources, and a map has values of one type. */
static void requests_and_limits_are_maps_of_texts(void **state)
{
    (void)state;
    assert_string_equal(cel_of("R", "limits: {cpu: 1, nvidia.com/gpu: '8'}\n"),
                        "R{\n"
                        "  limits: {\n"
                        "    \"cpu\": \"1\",\n"
                        "    \"nvidia.com/gpu\": \"8\"\n"
                        "  }\n"
                        "}");
}

static void a_text_is_escaped(void **state)
{
    (void)state;
    assert_string_equal(cel_of("T", "\"a\\\"b\\\\c\\nd\\te\""), "\"a\\\"b\\\\c\\nd\\te\"");
    assert_string_equal(cel_of("T", "\"$(A) \\u00e4\""), "\"$(A) \xc3\xa4\"");
}

static void an_expression_stands_for_its_value(void **state)
{
    (void)state;
    assert_string_equal(cel_of("T", "\"\\x01a.b\\x02\""), "a.b");
    assert_string_equal(cel_of("T", "\"x\\x01a\\x02\""), "\"x\" + a");
    assert_string_equal(cel_of("T", "\"\\x01a\\x02-y\""), "a + \"-y\"");
    assert_string_equal(cel_of("T", "\"x\\x01a\\x02.\\x01b\\x02:1\""),
                        "\"x\" + a + \".\" + b + \":1\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_mapping_is_an_object_of_the_type_of_its_field, free_arena),
        cmocka_unit_test_teardown(texts_and_literals_make_an_expression, free_arena),
        cmocka_unit_test_teardown(numbers_and_booleans_are_no_texts_unless_they_are_quoted,
                                  free_arena),
        cmocka_unit_test_teardown(requests_and_limits_are_maps_of_texts, free_arena),
        cmocka_unit_test_teardown(a_text_is_escaped, free_arena),
        cmocka_unit_test_teardown(an_expression_stands_for_its_value, free_arena),
    };

    return cmocka_run_group_tests_name("cel_write", tests, NULL, NULL);
}
