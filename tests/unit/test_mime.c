/* Content-Type against what etcd 3.4.23, or the Go 1.19 that it is built with, said of the same
 * values: the cause of error 210. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "proto/mime.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

#define BAD_PARAMETER "mime: invalid media parameter"
#define DUPLICATE     "mime: duplicate parameter name"
#define NO_TYPE       "mime: no media type"
#define NO_SLASH      "mime: expected slash after first token"
#define NO_SUBTYPE    "mime: expected token after slash"
#define MORE          "mime: unexpected content after media subtype"

static const struct media_type {
    const char *value;
    const char *type; /* NULL: refused */
    const char *why;  /* NULL: taken */
} types[] = {
    {"application/x-www-form-urlencoded", "application/x-www-form-urlencoded", NULL},
    {"Application/X-WWW-Form ; charset=utf-8", "Application/X-WWW-Form", NULL},
    {"a", "a", NULL},
    {" a/b\t", "a/b", NULL},
    {"a/b;", "a/b", NULL},
    {"a/b; ", "a/b", NULL},
    {"a/b;c=d;", "a/b", NULL},
    {"a/b;c=d; ", "a/b", NULL},
    {"a/b;c=d;e=f", "a/b", NULL},
    {"a/b;c=\"\"", "a/b", NULL},
    {"a/b;c=\"d;\\\"e\"; f=g", "a/b", NULL},
    {"a/b;c=\"\\a\"", "a/b", NULL},
    {"a/b;c =d", "a/b", NULL},
    {"a/b;c= d", "a/b", NULL},
    {"a/b ;\r\n c=\"d\r\n e\"", "a/b", NULL}, /* folded lines */
    {"a/b;c*=d;c*0=e", "a/b", NULL},
    {"a/b;;", NULL, BAD_PARAMETER},
    {"a/b; ;", NULL, BAD_PARAMETER},
    {"a/b;c", NULL, BAD_PARAMETER},
    {"a/b;c=", NULL, BAD_PARAMETER},
    {"a/b;=d", NULL, BAD_PARAMETER},
    {"a/b;c=d e=f", NULL, BAD_PARAMETER},
    {"a/b;c=d,", NULL, BAD_PARAMETER},
    {"a/b;c=\"d", NULL, BAD_PARAMETER},
    {"a/b;c=\"d\\\"", NULL, BAD_PARAMETER},
    {"a/b;c=\"d\\", NULL, BAD_PARAMETER},
    {"a/b;c=\"d\"e", NULL, BAD_PARAMETER},
    {"a/b;c=\xc3\xa9", NULL, BAD_PARAMETER},
    {";", NULL, NO_TYPE},
    {"/b", NULL, NO_TYPE},
    {"\xc3\xa9/b", NULL, NO_TYPE},
    {"a b", NULL, NO_SLASH},
    {"a@b/c", NULL, NO_SLASH},
    {"a/", NULL, NO_SUBTYPE},
    {"a/;b=c", NULL, NO_SUBTYPE},
    {"a/b c", NULL, MORE},
    {"a/b/c", NULL, MORE},
    {"text/plain, a/b", NULL, MORE},
    {"a/b;c=d;c=e", NULL, DUPLICATE},
    {"a/b;c=d;e=f;C=g", NULL, DUPLICATE},
    {"a/b;c=d;e=f;E=g", NULL, DUPLICATE},
    {"a/b;c*0=d;c*0=e", NULL, DUPLICATE},
};

static void types_are_read_and_refused_as_go_does(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(types); i++) {
        const struct media_type *c = &types[i];
        size_t len = strlen(c->value);
        uint8_t *value = malloc(len); /* of the exact size, for ASan */
        struct slice type = {0};
        const char *why = NULL;
        bool ok;

        assert_non_null(value);
        memcpy(value, c->value, len);
        ok = mime_parse_type((struct slice){value, len}, &type, &why);
        if (ok != (c->type != NULL) || (why == NULL) != (c->why == NULL))
            fail_msg("%s: %d, %s", c->value, ok, why == NULL ? "no fault" : why);
        if (why != NULL)
            assert_string_equal(why, c->why);
        if (ok && !slice_is(type, c->type))
            fail_msg("%s: %.*s", c->value, (int)type.len, (const char *)type.ptr);
        free(value);
    }
}

static void types_are_compared_without_case(void **state)
{
    (void)state;
    assert_true(mime_type_is(slice_str("Text/PLAIN"), "text/plain"));
    assert_true(mime_type_is(slice_str("A/Z"), "a/z"));
    assert_false(mime_type_is(slice_str("[/@"), "{/`"));
    assert_false(mime_type_is(slice_str("text/plain2"), "text/plain"));
    assert_false(mime_type_is(slice_str("text/plai\xee"), "text/plain"));
}

/* Go has no limit here, and needs a hash table for it. */
static void the_number_of_parameters_is_limited(void **state)
{
    char value[16 * (MIME_PARAMETERS_MAX + 1) + 8] = "a/b";
    struct slice type;
    const char *why;

    (void)state;
    for (int i = 0; i < MIME_PARAMETERS_MAX; i++)
        snprintf(value + strlen(value), 16, ";p%d=1", i);
    assert_true(mime_parse_type(slice_str(value), &type, &why));
    strcat(value, ";q=1");
    assert_false(mime_parse_type(slice_str(value), &type, &why));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(types_are_read_and_refused_as_go_does),
        cmocka_unit_test(types_are_compared_without_case),
        cmocka_unit_test(the_number_of_parameters_is_limited),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
