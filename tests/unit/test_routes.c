/* The tables of paths. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "rdzv/admin/handlers.h"
#include "rdzv/relay/forward.h"
#include "rdzv/server.h"

static const struct http_route *find(const struct http_route *table, const char *path)
{
    return http_find_route(table, slice_str(path), false);
}

/* Requests are counted by the number of their route, whichever of the two tables served them. */
static void a_standby_has_the_paths_of_a_leader_in_their_order(void **state)
{
    struct http_route standby[STATS_ROUTES];
    size_t i = 0;

    (void)state;
    routes_stand_by(standby, false);
    for (; http_routes[i].path != NULL; i++) {
        assert_string_equal(standby[i].path, http_routes[i].path);
        assert_int_equal(standby[i].kind, http_routes[i].kind);
        assert_int_equal(standby[i].flags, http_routes[i].flags & ~(unsigned)ROUTE_USES_STORE);
    }
    assert_null(standby[i].path);
}

static void a_standby_answers_probes_and_refuses_the_rest(void **state)
{
    struct http_route standby[STATS_ROUTES];

    (void)state;
    routes_stand_by(standby, false);
    assert_ptr_equal(find(standby, "/livez")->handle, find(http_routes, "/livez")->handle);
    assert_ptr_equal(find(standby, "/readyz")->handle, find(http_routes, "/readyz")->handle);
    assert_ptr_equal(find(standby, "/metrics")->handle, admin_own_metrics_handle);
    assert_ptr_equal(find(standby, "/v2/keys/a")->handle, standby_refuse_handle);
    assert_ptr_equal(find(standby, "/rdzv/v1/status")->handle, standby_refuse_handle);
}

/* A standby forwards the requests of the page, and answers the requests about its own process
 * itself. */
static void a_standby_that_passes_on_keeps_its_own(void **state)
{
    struct http_route standby[STATS_ROUTES];

    (void)state;
    routes_stand_by(standby, true);
    for (size_t i = 0; http_routes[i].path != NULL; i++) {
        assert_string_equal(standby[i].path, http_routes[i].path);
    }
    assert_ptr_equal(find(standby, "/livez")->handle, find(http_routes, "/livez")->handle);
    assert_ptr_equal(find(standby, "/metrics")->handle, admin_own_metrics_handle);
    assert_ptr_equal(find(standby, "/")->handle, admin_page_handle);
    assert_ptr_equal(find(standby, "/v2/keys/a")->handle, forwards_http_handle);
    assert_ptr_equal(find(standby, "/rdzv/v1/status")->handle, forwards_http_handle);
    assert_int_equal(find(standby, "/health")->flags & ROUTE_IS_PROBE, 0);
    assert_true(find(standby, "/livez")->flags & ROUTE_IS_PROBE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_standby_has_the_paths_of_a_leader_in_their_order),
        cmocka_unit_test(a_standby_answers_probes_and_refuses_the_rest),
        cmocka_unit_test(a_standby_that_passes_on_keeps_its_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
