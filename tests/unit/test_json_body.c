/* Bodies of JSON: what is taken, and what is refused although cJSON would take it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "rdzv/etcd/json_body.h"
#include "tests/unit/exact.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define BYTES(s)                            \
    {                                       \
        (const uint8_t *)(s), sizeof(s) - 1 \
    }

static void the_first_value_of_a_body_is_read(void **state)
{
    static const struct {
        struct slice body;
        bool good;
    } cases[] = {
        {BYTES("{}"), true},
        {BYTES(" null "), true},
        {BYTES("{\"a\":[\"\\u00e9\",1.5e3,true]}"), true},
        {BYTES("[1] and more"), true},
        {BYTES(""), false},
        {BYTES("  "), false},
        {BYTES("{"), false},
        {BYTES("{\"1\":1"), false},
        {BYTES("{\"1\":1,"), false},
        {BYTES("{bad"), false},
        {BYTES("\"\\ud800\""), false}, /* half a surrogate pair */
        {BYTES("\"a\0b\""), false},
        {BYTES("\"a\\u0000b\""), false},
        {BYTES("{}\0"), false},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct slice body = exact(cases[i].body.ptr, cases[i].body.len);
        cJSON *tree = json_body_parse(body);

        if ((tree != NULL) != cases[i].good)
            fail_msg("case %zu", i);
        cJSON_Delete(tree);
        exact_free(body);
    }
}

static void length_and_depth_are_limited(void **state)
{
    struct slice body = {malloc(JSON_BODY_MAX + 1), JSON_BODY_MAX};
    uint8_t *text = (uint8_t *)body.ptr;
    cJSON *tree;

    (void)state;
    assert_non_null(text);
    memset(text, ' ', JSON_BODY_MAX + 1);
    text[0] = '1';
    tree = json_body_parse(body);
    assert_non_null(tree);
    cJSON_Delete(tree);
    body.len++;
    assert_null(json_body_parse(body));
    memset(text, '[', JSON_BODY_MAX);
    body.len = JSON_BODY_MAX;
    assert_null(json_body_parse(body));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_value_of_a_body_is_read),
        cmocka_unit_test(length_and_depth_are_limited),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
