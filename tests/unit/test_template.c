/* deploy/template: what expressions, templates and merges result in, and the errors of templates.
 */
#include "deploy/template/template.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct arena arena;
static struct diag diag;
static struct yaml_file files[4];
static size_t file_count;

static int end(void **state)
{
    (void)state;
    while (file_count > 0)
        yaml_file_free(&files[--file_count]);
    arena_free(&arena);
    diag_free(&diag);
    return 0;
}

static struct yaml_node *read(const char *text)
{
    struct yaml_file *f = &files[file_count];

    assert_true(file_count < sizeof files / sizeof *files);
    if (!yaml_file_parse(f, "t.yaml", text, strlen(text), &diag))
        fail_msg("%s: %s", text, diag.entries[0].text);
    file_count++;
    return f->docs[0].root;
}

static const char vars[] = "four: 4\nname: a job\nempty: ''\nlist: [a, b, c]\nno: false\n"
                           "map: {x: 1, w: {z: deep}}\nnothing: null\n"
                           "named: [{name: p, v: 1}, {name: q, v: 2}, {name: p, v: 3}]\n"
                           "line: \"a 'b c' d\"\ndollar: ${four}\n";

/* The template filled in and written, or the first error. */
static char *filled(const char *template)
{
    struct template_state f = {.arena = &arena, .diag = &diag};
    struct scope s = {read(vars), NULL};
    struct yaml_node *t = read(template), *result;
    char *text = NULL;
    size_t size;
    FILE *out;

    f.parts =
        read("part: {a: '${name}', b: 1}\nself: {x: {$include: self}}\nitems: ['${name}', two]\n");
    result = template_fill(&f, t, &s);
    assert_int_equal(f.failed, diag.errors > 0);
    out = open_memstream(&text, &size);
    if (f.failed)
        fprintf(out, "%u:%u %s", diag.entries[0].mark.line, diag.entries[0].mark.column,
                diag.entries[0].text);
    else if (result == NULL)
        fputs("nothing", out);
    else
        fputs(yaml_write(&arena, result), out);
    fclose(out);
    return text;
}

static void expressions_have_values(void **state)
{
    static const struct {
        const char *expression, *value;
    } cases[] = {
        {"four", "4"},
        {"four - 5", "-1"},
        {"four == 4 and not no", "true"},
        {"four < 3 or four >= 4", "true"},
        {"no or nothing or empty", "false"},
        {"nothing ?? map.w.z", "deep"},
        {"nothing ?? nothing", "nothing"},
        {"nothing.a[3].b", "nothing"},
        {"nothing + 1", "nothing"},
        {"list[1]", "b"},
        {"list[9]", "nothing"},
        {"map['x']", "1"},
        {"'b' in list", "true"},
        {"'q' in map", "false"},
        {"'w' in map", "true"},
        {"name + '!'", "a job!"},
        {"str(four) + ':' + str(four)", "\"4:4\""},
        {"if(no, 1, 2)", "2"},
        {"if(no, 1)", "nothing"},
        {"len(list) + len(name) + len(nothing)", "8"},
        {"join(list, '-')", "a-b-c"},
        {"join(map.w, ',')", "z=deep"},
        {"join(concat(list, nothing, ['d']), '')", "abcd"},
        {"names(named)[1]", "q"},
        {"join(repeated(names(named)), ',')", "p"},
        {"command(line).words[1]", "b c"},
        {"command('a $b').words", "nothing"},
        {"command('a && b').break", "\"&&\""},
        {"command('a \"b').open", "\"\\\"\""},
        {"command(line).open", "nothing"},
        {"command('a;b $(c').scriptOpen", "$("},
        {"keep('$(A) $$ $x $(a b)')", "$$(A) $$$$ $x $(a b)"},
        {"match(name, '^a ') and contains(name, 'jo')", "true"},
        {"match(name, '^b')", "nothing"},
        {"match(nothing, '.')", "nothing"},
        {"match('h:1:2', '^(.*):(.*)$')[1]", "h:1"},
        {"int(match('h:1:2', '^(.*):(.*)$')[2]) + 1", "3"},
        {"hash('a', 1)", "0"},
        {"len(merge(map, {}))", NULL}, /* {} is no expression */
        {"some(pairs([]))", "nothing"},
        {"kind(list) + ' ' + kind(map) + ' ' + kind(name)", "list mapping text"},
        {"kind(nothing)", "nothing"},
        {"join(variables('$(A).$(B_1)$$(C)$D'), ',')", "A,B_1"},
        {"dollar", "${four}"}, /* a user's text is not looked into */
        {"(four)", "4"},
        {"not (four == 4)", "false"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char template[200], expected[100], *got;

        snprintf(template, sizeof template, "- ${%s}\n", cases[i].expression);
        got = filled(template);
        snprintf(expected, sizeof expected, "- %s\n", cases[i].value == NULL ? "" : cases[i].value);
        if (cases[i].value == NULL                   ? diag.errors == 0
            : strcmp(cases[i].value, "nothing") == 0 ? strcmp(got, "nothing") != 0
                                                     : strcmp(got, expected) != 0)
            fail_msg("%s: %s, expected %s", cases[i].expression, got, expected);
        free(got);
        end(NULL);
    }
}

/* The language is complete: what a template lacks, it can make of these functions. */
static void functions_are_no_more_than_before(void **state)
{
    (void)state;
    assert_int_equal(function_count, 22);
}

static void templates_are_filled_in(void **state)
{
    static const struct {
        const char *template, *expected;
    } cases[] = {
        {"a: ${four}\nb: x${four}y\nc: $${four}\nd: '${name}'\n",
         "a: 4\nb: x4y\nc: ${four}\nd: a job\n"},
        {"a: ${nothing}\nb: {c: '${nothing}'}\nd: ['${nothing}']\ne: {}\nf: []\n",
         "e: {}\nf: []\n"},
        {"a:\n  $if: no\n  b: 1\nc:\n  $if: four\n  d: 1\n", "c:\n  d: 1\n"},
        {"a: {$if: no, b: 1, $else: 2}\n", "a: 2\n"},
        {"a:\n- $for: i in list\n  m: ${i}\n- {$concat: '${list}'}\n- last\n",
         "a:\n- m: a\n- m: b\n- m: c\n- a\n- b\n- c\n- last\n"},
        {"a: {$for: p in map.w, k: '${p.key}', v: '${p.value}'}\n", "a:\n- k: z\n  v: deep\n"},
        {"a:\n- {$for: n in named, $if: n.v > 1, v: '${n.v}'}\n", "a:\n- v: 2\n- v: 3\n"},
        {"a: {$include: part}\nb: {$include: part, b: 2, c: 3}\n",
         "a:\n  a: a job\n  b: 1\nb:\n  a: a job\n  b: 2\n  c: 3\n"},
        {"a: {$include: part, $vars: {name: other}}\n", "a:\n  a: other\n  b: 1\n"},
        {"a: [{$concat: {$include: items}}]\n", "a:\n- a job\n- two\n"},
        {"a: {$merge: ['${map}', {v: 2}], x: 3}\n", "a:\n  x: 3\n  w:\n    z: deep\n  v: 2\n"},
        {"a: {$merge: [{l: [1, 2]}, {l: [3]}]}\n", "a:\n  l:\n  - 3\n"},
        {"a: {$patch: {l: [{name: p, v: 9}, {name: r}], k: 2}, k: 1, l: [{name: p, w: 1}]}\n",
         "a:\n  k: 2\n  l:\n  - name: p\n    w: 1\n    v: 9\n  - name: r\n"},
        {"${name}: {$value: 1, $comment: why}\n", "# why\na job: 1\n"},
        {"a: {$vars: {v: '${four + 1}', w: '${v + 1}'}, b: '${w}'}\n", "a:\n  b: 6\n"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *got = filled(cases[i].template);

        if (strcmp(got, cases[i].expected) != 0)
            fail_msg("%s: %s, expected %s", cases[i].template, got, cases[i].expected);
        free(got);
        end(NULL);
    }
}

static void errors_in_templates_have_a_place(void **state)
{
    static const struct {
        const char *template, *part;
    } cases[] = {
        {"a: ${b}\n", "1:4 b is not defined"},
        {"a: ${four +}\n", "ends too early"},
        {"a: ${(four}\n", "does not end in )"},
        {"a: ${'x}\n", "does not end"},
        {"a: ${four four}\n", "after the end"},
        {"a: ${f(1)}\n", "there is no function f()"},
        {"a: ${len()}\n", "takes 1 to 1 arguments"},
        {"a: ${match(name, '(')}\n", "takes a regular expression"},
        {"a: ${name < 3}\n", "only integers have an order"},
        {"a: ${name + list}\n", "cannot be added"},
        {"a: ${four + 9223372036854775807}\n", "too large"},
        {"a: x${list}\n", "a collection stands inside"},
        {"a: {$include: none}\n", "there is no part none"},
        {"a: {$include: self}\n", "circle"},
        {"a: [{$concat: '${map}'}]\n", "$concat takes a list"},
        {"a: [{$for: four, b: 1}]\n", "name in expression"},
        {"a: ${((((((((((((((((((((((((((((((((((((((((((((((((((((1"
         "))))))))))))))))))))))))))))))))))))))))))))))))))))}\n",
         "nested too deep"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *got = filled(cases[i].template);

        if (diag.errors != 1 || strstr(got, cases[i].part) == NULL)
            fail_msg("%s: %s, expected %s", cases[i].template, got, cases[i].part);
        free(got);
        end(NULL);
    }
}

static void check_merge(enum merge how, const char *base, const char *over, const char *expected)
{
    struct yaml_node *low = read(base), *high = read(over);

    assert_string_equal(yaml_write(&arena, merge_nodes(how, &arena, low, high)), expected);
    end(NULL);
}

static void trees_merge_in_four_ways(void **state)
{
    (void)state;
    check_merge(MERGE_VALUES, "{a: 1, b: {c: 1, d: 2}, e: [1]}",
                "{b: {c: null, f: 3}, e: [2], g: {h: null}}",
                "a: 1\nb:\n  d: 2\n  f: 3\ne:\n- 2\ng: {}\n");
    check_merge(MERGE_FILES, "{a: 1, b: {c: 1, d: 2}}", "{a: null, b: {c: null}, g: {h: null}}",
                "a: null\nb:\n  c: null\n  d: 2\ng:\n  h: null\n");
    check_merge(MERGE_PATCH, "{l: [{name: a, x: 1}, {name: b}], m: [1]}",
                "{l: [{name: a, z: 2}, {name: c}], m: [2]}",
                "l:\n- name: a\n  x: 1\n  z: 2\n- name: b\n- name: c\nm:\n- 1\n- 2\n");
    check_merge(MERGE_OVER_DEFAULTS, "{l: [{name: a, x: 1}, {name: b}], m: [p, q]}",
                "{l: [{name: a, z: 2}], m: [q, r]}",
                "l:\n- name: a\n  z: 2\n- name: b\nm:\n- p\n- q\n- r\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(expressions_have_values, end),
        cmocka_unit_test(functions_are_no_more_than_before),
        cmocka_unit_test_teardown(templates_are_filled_in, end),
        cmocka_unit_test_teardown(errors_in_templates_have_a_place, end),
        cmocka_unit_test_teardown(trees_merge_in_four_ways, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
