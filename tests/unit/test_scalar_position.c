/* deploy/yaml/scalar_position: in every style of YAML, the byte of the file that a byte of a value
 * is.
 */
#include "deploy/yaml/yaml_doc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* The value of the key v; its byte X has to be found where the X of the file is. */
static const struct {
    const char *what, *text;
} cases[] = {
    {"plain", "v: abXc\n"},
    {"plain, folded", "v: ab\n  cd\n\n   eXf\n"},
    {"plain, many blanks", "v: a  b \t\n  cX\n"},
    {"single quotes", "v: 'a''b''''X'\n"},
    {"single quotes, folded", "v: 'a\n\n\n  bX'\n"},
    {"double quotes", "v: \"a\\tb\\\\\\\"X\"\n"},
    {"double quotes, codes", "v: \"\\x41\\u00e9\\U0001F600\\N\\LX\"\n"},
    {"double quotes, folded", "v: \"a\n  b \\\n   cX\"\n"},
    {"literal", "v: |\n  a\n\n    bX\n"},
    {"literal with an empty start", "v: |\n\n\n   a\n   X\n"},
    {"literal with an indicator", "v: |2-\n     a\n   X\n"},
    {"literal with a comment", "v: |+ # X is not here: x\n  aX\n"},
    {"literal, last line open", "v: |\n  aX"},
    {"folded", "v: >\n  a\n  b\n\n  cX\n"},
    {"folded, more deeply", "v: >-\n  a\n    b\n  cX\n"},
    {"anchor and tag", "v: &a !!str abX\n"},
    {"anchor before a block", "v: &a |\n  abX\n"},
    {"CR LF", "v: |\r\n  a\r\n  bX\r\n"},
    {"beside other characters", "v: \xc3\xa9\xe2\x82\xacX\n"},
};

static void bytes_are_found(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct diag diag = {0};
        struct yaml_file file;
        const char *text = cases[i].text, *wanted = strrchr(text, 'X');
        const struct yaml_node *v;
        struct yaml_mark mark;
        unsigned line = 1, column = 1;

        if (!yaml_file_parse(&file, "t.yaml", text, strlen(text), &diag))
            fail_msg("%s: %s", cases[i].what, diag.entries[0].text);
        for (const char *p = text; p < wanted; p++) {
            column += ((unsigned char)*p & 0xc0) != 0x80;
            if (*p == '\n') {
                line++;
                column = 1;
            }
        }
        v = yaml_get(file.docs[0].root, "v");
        mark = scalar_position(&file, v, (size_t)(strchr(v->text, 'X') - v->text));
        if (mark.offset != (size_t)(wanted - text) || mark.line != line || mark.column != column)
            fail_msg("%s: at %zu (%u:%u), not %zu (%u:%u)", cases[i].what, mark.offset, mark.line,
                     mark.column, (size_t)(wanted - text), line, column);
        yaml_file_free(&file);
        diag_free(&diag);
    }
}

static void what_has_no_bytes_stays_where_it_is(void **state)
{
    static const char text[] = "a: &x |\n  one\nb: *x\nc:\n";
    struct diag diag = {0};
    struct yaml_file file;
    struct yaml_mark mark;

    (void)state;
    assert_true(yaml_file_parse(&file, "t.yaml", text, sizeof text - 1, &diag));
    mark = scalar_position(&file, yaml_get(file.docs[0].root, "b"), 2);
    assert_int_equal(mark.line, 3);
    assert_int_equal(mark.column, 4);
    mark = scalar_position(&file, yaml_get(file.docs[0].root, "c"), 0);
    assert_int_equal(mark.line, 4);
    mark = scalar_position(&file, yaml_get(file.docs[0].root, "a"), 1000);
    assert_true(mark.offset <= sizeof text);
    mark = scalar_position(&file, yaml_new_text(&file.arena, "made", 4), 2);
    assert_int_equal(mark.line, 0);
    yaml_file_free(&file);
    diag_free(&diag);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_found),
        cmocka_unit_test(what_has_no_bytes_stays_where_it_is),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
