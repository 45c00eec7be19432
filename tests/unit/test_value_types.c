/* deploy/data/types.yaml: which texts fit which type. */
#include "deploy/template/files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define TEN "1234567890"

static void values_fit_or_do_not(void **state)
{
    static const struct {
        const char *type, *text;
        bool fits;
    } cases[] = {
        {"name", "my-job", true},
        {"name", "1", true},
        {"name", "", false},
        {"name", "My", false},
        {"name", "-a", false},
        {"name", "a-", false},
        {"name", "a.b", false},
        {"name", "a\xc3\xa4", false},
        {"name", TEN TEN TEN TEN TEN TEN "123", true},
        {"name", TEN TEN TEN TEN TEN TEN "1234", false},
        {"subdomain", "a.b-c.d", true},
        {"subdomain", "a..b", false},
        {"subdomain", ".a", false},
        {"subdomain", "a.", false},
        {"subdomain", "a.B", false},
        {"labelKey", "example.com/a_b.C", true},
        {"labelKey", "nvidia.com/gpu", true},
        {"labelKey", "a", true},
        {"labelKey", "/a", false},
        {"labelKey", "a/", false},
        {"labelKey", "a/b/c", false},
        {"labelKey", "A.com/b", false},
        {"labelValue", "", true},
        {"labelValue", "v1.2_x-Y", true},
        {"labelValue", "-v", false},
        {"labelValue", "a b", false},
        {"variable", "A_B.c-1", true},
        {"variable", "1A", false},
        {"variable", "A=B", false},
        {"variable", "", false},
        {"quantity", "0", true},
        {"quantity", "64Gi", true},
        {"quantity", "0.5", true},
        {"quantity", ".5", true},
        {"quantity", "5.", true},
        {"quantity", "100m", true},
        {"quantity", "1e3", true},
        {"quantity", "1E-2", true},
        {"quantity", "1E", true},
        {"quantity", "64GB", false},
        {"quantity", "64gi", false},
        {"quantity", "-1", false},
        {"quantity", "", false},
        {"quantity", ".", false},
        {"quantity", "1 Gi", false},
        {"quantity", "1e", false},
        {"quantity", "0x1", false},
        {"size", "0", false},
        {"size", "0.5Gi", true},
        {"duration", "30s", true},
        {"duration", "1h30m", true},
        {"duration", "500ms", true},
        {"duration", "30", true},
        {"duration", "1d", true},
        {"duration", "1.5s", true},
        {"duration", "1.5ms", false},
        {"duration", "s", false},
        {"duration", "30x", false},
        {"duration", "9223372036854775808ms", false},
        {"path", "/a/b", true},
        {"path", "a", false},
        {"path", "/a/../b", false},
        {"path", "/a:b", false},
        {"image", "registry.example:5000/a/b:tag@sha256:abc", true},
        {"image", "a b", false},
        {"image", "a:", false},
        {"image", "", false},
        {"endpoint", "h:29400", true},
        {"endpoint", "10.0.0.1:1", true},
        {"endpoint", "[::1]:29400", true},
        {"endpoint", "h", false},
        {"endpoint", "h:0", false},
        {"endpoint", "h:65536", false},
        {"endpoint", ":1", false},
        {"endpoint", "[::1:29400", false},
        {"endpoint", "a/b:1", false},
        {"runId", "ml.train.7", true},
        {"runId", "$(A).b", true},
        {"runId", "a b", false},
        {"capability", "SYS_ADMIN", true},
        {"capability", "CAP_SYS_ADMIN", false},
        {"capability", "sys_admin", false},
        {"filled", "x", true},
        {"filled", " \n", false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct yaml_node *type = schema_type(cases[i].type);

        assert_non_null(type);
        if (schema_fits(type, cases[i].text) != cases[i].fits)
            fail_msg("%s: \"%s\" is %sto fit", cases[i].type, cases[i].text,
                     cases[i].fits ? "" : "not ");
    }
    assert_null(schema_type("nothing"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(values_fit_or_do_not)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
