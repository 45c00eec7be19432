/* The tables of paths. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "rdzv/routes.h"

/* Requests are counted by the number of their route, whichever of the two tables served them. */
static void a_standby_has_the_paths_of_a_leader_in_their_order(void **state)
{
    size_t i = 0;

    (void)state;
    for (; http_routes[i].path != NULL && standby_routes[i].path != NULL; i++) {
        assert_string_equal(standby_routes[i].path, http_routes[i].path);
        assert_int_equal(standby_routes[i].kind, http_routes[i].kind);
    }
    assert_null(http_routes[i].path);
    assert_null(standby_routes[i].path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_standby_has_the_paths_of_a_leader_in_their_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
