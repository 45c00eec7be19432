/* deploy/kube/rdzv_conf: the entries of --rdzv_conf, as torch reads them. */
#include "deploy/kube/rdzv_conf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* key<value> of each entry. */
static void assert_entries(const char *conf, const char *expected)
{
    struct rdzv_conf_entry e;
    char found[256] = "";
    size_t at = 0, len = 0;

    while (rdzv_conf_next(conf, &at, &e))
        len += (size_t)snprintf(found + len, sizeof found - len, "%.*s<%.*s>",
                                (int)(e.key_end - e.start), conf + e.start,
                                (int)(e.end - e.value_start), conf + e.value_start);
    if (strcmp(found, expected) != 0)
        fail_msg("%s: %s, not %s", conf, found, expected);
}

static void entries_end_at_commas(void **state)
{
    (void)state;
    assert_entries("", "");
    assert_entries(" , ,", "");
    assert_entries("a=1", "a<1>");
    assert_entries("a=1,b=2,", "a<1>b<2>");
    assert_entries(" a = 1 , b=2 ", "a<1>b<2>");
    assert_entries("a,b=", "a<>b<>");
    assert_entries("a=b=c", "a<b=c>");
}

static void what_a_shell_replaces_is_one_value(void **state)
{
    (void)state;
    assert_entries("a=$(cut -d, -f1),b=1", "a<$(cut -d, -f1)>b<1>");
    assert_entries("a=${X:-1,2},b=1", "a<${X:-1,2}>b<1>");
    assert_entries("a=\"1,2\",b=`x,y`", "a<\"1,2\">b<`x,y`>");
    assert_entries("a=),b=1", "a<)>b<1>");
}

static void keys_are_found_whole(void **state)
{
    struct rdzv_conf_entry e;

    (void)state;
    assert_true(rdzv_conf_find("x=1, is_host = No", "is_host", &e));
    assert_true(rdzv_conf_is_false("x=1, is_host = No", &e));
    assert_true(rdzv_conf_find("is_host=1", "is_host", &e));
    assert_false(rdzv_conf_is_false("is_host=1", &e));
    assert_false(rdzv_conf_find("is_hosts=1,is_hos=1,is_host", "is_host", &e));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_end_at_commas),
        cmocka_unit_test(what_a_shell_replaces_is_one_value),
        cmocka_unit_test(keys_are_found_whole),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
