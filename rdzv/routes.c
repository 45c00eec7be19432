/* Every HTTP path of the daemon, and the endpoint that handles it. */
#include "rdzv/server.h"

#include <assert.h>

#include "rdzv/admin/handlers.h"
#include "rdzv/etcd/handlers.h"
#include "rdzv/relay/forward.h"

/* A kubelet asks for them by the pod's address, and --check-health as localhost. */
#define OWN_PROBE (ROUTE_IS_PROBE | ROUTE_FAST | ROUTE_TAKES_ADDRESSES)

const struct http_route http_routes[] = {
    {"/v2/keys", ROUTE_BELOW, NULL, etcd_keys_handle, ROUTE_USES_STORE | ROUTE_FAST, NULL},
    {"/v2/auth", ROUTE_BELOW, NULL, etcd_auth_handle, ROUTE_USES_STORE, NULL},
    {"/v2/members", ROUTE_BELOW, "GET,POST,DELETE,PUT", etcd_members_handle, ROUTE_USES_STORE,
     NULL},
    {"/v2/machines", ROUTE_EXACT, "GET,HEAD", etcd_machines_handle, ROUTE_USES_STORE | ROUTE_FAST,
     NULL},
    {"/v2/stats/self", ROUTE_EXACT, "GET", etcd_stats_handle, ROUTE_USES_STORE, NULL},
    {"/v2/stats/leader", ROUTE_EXACT, "GET", etcd_stats_handle, ROUTE_USES_STORE, NULL},
    {"/v2/stats/store", ROUTE_EXACT, "GET", etcd_stats_handle, ROUTE_USES_STORE, NULL},
    {"/version", ROUTE_EXACT, "GET", etcd_version_handle, ROUTE_FAST, etcd_version_handle},
    {"/health", ROUTE_EXACT, "GET", etcd_health_handle,
     ROUTE_ON_METRICS_LISTENERS | ROUTE_IS_PROBE | ROUTE_FAST, NULL},
    {"/debug/vars", ROUTE_EXACT, "GET", etcd_vars_handle, 0, NULL},
    {"/config/local/log", ROUTE_EXACT, "PUT", etcd_log_level_handle, 0, NULL},
    {"/livez", ROUTE_EXACT, "GET,HEAD", admin_livez_handle, OWN_PROBE, admin_livez_handle},
    {"/readyz", ROUTE_EXACT, "GET,HEAD", admin_readyz_handle, OWN_PROBE, admin_readyz_handle},
    {"/metrics", ROUTE_EXACT, NULL, admin_metrics_handle,
     ROUTE_ON_METRICS_LISTENERS | ROUTE_IS_PROBE, admin_own_metrics_handle},
    {"/", ROUTE_EXACT, "GET,HEAD", admin_page_handle, 0, NULL},
    {"/rdzv/v1/spaces", ROUTE_BELOW, NULL, admin_spaces_handle, ROUTE_FOR_READERS, NULL},
    {"/rdzv/v1/status", ROUTE_EXACT, "GET,HEAD", admin_status_handle, ROUTE_FOR_READERS, NULL},
    {"/rdzv/v1/monitor", ROUTE_EXACT, "GET", admin_monitor_handle, 0, NULL},
    {.path = NULL},
};

void routes_stand_by(struct http_route out[STATS_ROUTES], bool passes_on)
{
    size_t i = 0;

    for (; http_routes[i].path != NULL; i++) {
        struct http_route *route = &out[i];

        *route = http_routes[i];
        if (route->standby != NULL) {
            route->handle = route->standby;
        } else if (!passes_on) {
            route->handle = standby_refuse_handle;
            route->allow = NULL;
            route->flags &= ~(unsigned)ROUTE_USES_STORE;
        } else if (route->handle != admin_page_handle) {
            route->handle = forwards_http_handle;
            route->allow = NULL;                       /* the leader sees to that, and to readers */
            route->flags &= ~(unsigned)ROUTE_IS_PROBE; /* it takes a descriptor more */
            route->flags &= ~(unsigned)ROUTE_FOR_READERS;
            route->flags |= ROUTE_FAST;
        }
    }
    assert(i < STATS_ROUTES);
    out[i] = (struct http_route){.path = NULL};
}

/* What a relay says of itself, whatever its store says; all else is the store's to answer. */
const struct http_route relay_routes[] = {
    {"/livez", ROUTE_EXACT, "GET,HEAD", admin_livez_handle, OWN_PROBE, NULL},
    {"/readyz", ROUTE_EXACT, "GET,HEAD", admin_readyz_handle, OWN_PROBE, NULL},
    {"/startz", ROUTE_EXACT, "GET,HEAD", relay_startz_handle, OWN_PROBE, NULL},
    {"/metrics", ROUTE_EXACT, NULL, admin_own_metrics_handle,
     ROUTE_ON_METRICS_LISTENERS | ROUTE_IS_PROBE, NULL},
    {"/", ROUTE_EXACT, "GET,HEAD", admin_page_handle, 0, NULL},
    {"", ROUTE_ALL, NULL, forwards_http_handle, ROUTE_USES_STORE | ROUTE_FAST, NULL},
    {.path = NULL},
};
