/* Which endpoint handles which path. See route.h for the contract. */
#include "rdzv/http/route.h"

bool http_is_below(struct slice path, const char *root)
{
    size_t len = strlen(root);

    return slice_starts_with(path, slice_str(root)) && (path.len == len || path.ptr[len] == '/');
}

const struct http_route *http_find_route(const struct http_route *table, struct slice path,
                                         bool metrics)
{
    for (const struct http_route *r = table; r->path != NULL; r++) {
        bool covers = r->kind == ROUTE_ALL     ? true
                      : r->kind == ROUTE_EXACT ? slice_is(path, r->path)
                                               : http_is_below(path, r->path);

        if (covers && (!metrics || r->flags & ROUTE_ON_METRICS_LISTENERS))
            return r;
    }
    return NULL;
}
