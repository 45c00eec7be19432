/* What a request may see of the daemon as a whole. See access.h for the contract. */
#include "rdzv/admin/access.h"

#include <string.h>

#include "rdzv/http/access.h"

bool admin_shows_all_spaces(const struct http_request *r)
{
    return r->conn->listener->spec->metrics_only || http_is_operator(r);
}

/* The first that is no Unix socket, whose peers are operators anyhow. */
static bool is_space_of_first_listener(const struct http_request *r)
{
    const struct config *config = r->http->config;
    size_t i = 0;

    while (i < config->listener_count && config->listeners[i].path != NULL)
        i++;
    return i < config->listener_count &&
           strcmp(config->listeners[i].space, r->space->store->name) == 0;
}

bool admin_shows_daemon(const struct http_request *r, bool all_spaces)
{
    const struct engine_space *first = TAILQ_FIRST(&http_engine(r)->spaces);

    return all_spaces || TAILQ_NEXT(first, entry) == NULL || is_space_of_first_listener(r);
}
