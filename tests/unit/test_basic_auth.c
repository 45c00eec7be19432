/* Authorization headers, each of which etcd 3.4.23 was asked about. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "rdzv/etcd/basic_auth.h"
#include "tests/unit/exact.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define TEXT(text)                                \
    {                                             \
        (const uint8_t *)(text), sizeof(text) - 1 \
    }

static const struct {
    const char *header;
    struct slice user, password;
} good[] = {
    {"Basic cm9vdDpycHc=", TEXT("root"), TEXT("rpw")},
    {"basic cm9vdDpycHc=", TEXT("root"), TEXT("rpw")},
    {"BASIC cm9vdDpycHc=", TEXT("root"), TEXT("rpw")},
    {"Basic cm9vdDpycHd=", TEXT("root"), TEXT("rpw")}, /* the last bits do not matter */
    {"Basic dTE6cDp3", TEXT("u1"), TEXT("p:w")},
    {"Basic Og==", TEXT(""), TEXT("")},
    {"Basic cm9vdDo=", TEXT("root"), TEXT("")},
    {"Basic dTQ6YQBi", TEXT("u4"),
     TEXT("a\0"
          "b")},
};

static const char *const bad[] = {
    "",
    "Basic",
    "Basic ",
    "Basic  cm9vdDpycHc=",
    "Basic\tcm9vdDpycHc=",
    "Basiccm9vdDpycHc=",
    "Bearer cm9vdDpycHc=",
    "Basic cm9vdA==", /* no colon */
    "Basic cm9vdDpycHc",
    "Basic cm9vdDpycHc==",
    "Basic cm9vdDpycHc=x",
    "Basic cm9v dDpycHc=",
    "Basic cm9vdDpycA==cm9v",
    "Basic =",
    "Basic ====",
    "Basic c===",
    "Basic cm=v",
    "Basic cm9vdDpycH-=",
};

static void credentials_are_read(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(good); i++) {
        struct slice header = exact(good[i].header, strlen(good[i].header)), user, password;
        uint8_t *out = malloc(header.len);

        assert_non_null(out);
        if (!basic_auth_parse(header, out, &user, &password) || !slice_equal(user, good[i].user) ||
            !slice_equal(password, good[i].password))
            fail_msg("%s", good[i].header);
        free(out);
        exact_free(header);
    }
}

static void other_headers_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        struct slice header = exact(bad[i], strlen(bad[i])), user, password;
        uint8_t *out = malloc(header.len + 1);

        assert_non_null(out);
        if (basic_auth_parse(header, out, &user, &password))
            fail_msg("%s", bad[i]);
        free(out);
        exact_free(header);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(credentials_are_read),
        cmocka_unit_test(other_headers_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
