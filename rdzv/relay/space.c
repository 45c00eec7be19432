/* Which space a relay gets. See space.h for the contract. */
#include "rdzv/relay/space.h"

#include "rdzv/net/tls_identity.h"
#include "store/space.h"

/* Those that are there from the start are not told apart: a listener has made at most one of them.
 */
static bool has_room(const struct net *n)
{
    const struct engine_space *space;
    const struct listener *l;
    size_t count = 0, own = 0;

    TAILQ_FOREACH(space, &n->engine->spaces, entry)
        count++;
    TAILQ_FOREACH(l, &n->listeners, entry)
        own++;
    return count < own + RELAY_SPACES_MAX;
}

/* False: relays of this space have names, and this one has none of them. */
static bool may_use(const struct conn *c, struct slice space)
{
    const struct string_list *list = &conn_net(c)->handshakes.config->relay_names;
    bool bound = false;

    for (size_t i = 0; i < list->count; i++) {
        char *item = list->items[i], *name = strchr(item, '=') + 1;
        const struct string_list one = {.items = &name, .count = 1};

        if (space.len != (size_t)(name - item) - 1 || memcmp(space.ptr, item, space.len) != 0)
            continue;
        if (c->tls != NULL && tls_peer_is_one_of(c->tls, &one))
            return true;
        bound = true;
    }
    return !bound;
}

struct engine_space *relay_space(struct conn *c, struct slice name, const char **why)
{
    const struct listen_spec *spec = c->listener->spec;
    struct engine_space *space = engine_find_space(conn_net(c)->engine, name);
    char text[SPACE_NAME_MAX + 1] = "";

    if (spec->space_named && !slice_is(name, spec->space)) {
        *why = "this listener has another space: use one without a space (--listen=ADDR:PORT), or "
               "that of the relay's --space";
        return NULL;
    }
    if (!may_use(c, name)) {
        *why = "its certificate has none of the names that --relay-names of the store has for this "
               "space";
        return NULL;
    }
    if (space != NULL)
        return space;
    if (name.len > 0 && name.len <= SPACE_NAME_MAX && memchr(name.ptr, 0, name.len) == NULL)
        memcpy(text, name.ptr, name.len);
    if (!config_space_name_ok(text))
        *why = "that is no name of a space";
    else if (!has_room(conn_net(c)))
        *why = "relays have made too many spaces of this store: restart it";
    else if (!account_has_room(ACCOUNT_ORDINARY, sizeof(struct space)))
        *why = "no memory for one more space, see --memory-limit";
    else
        return engine_space(conn_net(c)->engine, text);
    return NULL;
}
