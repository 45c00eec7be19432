/* Which space a relay gets. See space.h for the contract. */
#include "rdzv/relay/space.h"

#include <stdio.h>
#include <string.h>

#include "rdzv/engine/log.h"
#include "rdzv/net/tls.h"
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

static struct engine_space *make(struct conn *c, const char *name)
{
    char peer[CONN_PEER_MAX];

    log_event(LOG_INFO, "space_made", log_str("space", name), log_str("peer", conn_peer(c, peer)),
              log_str("reason", "a relay's --space names it, and there was none of that name"));
    return engine_space(conn_net(c)->engine, name);
}

/* NULL: it may be made. */
static const char *why_not_made(const struct net *n)
{
    if (!has_room(n))
        return "relays have made too many spaces of this store: restart the store";
    if (!account_has_room(ACCOUNT_ORDINARY, sizeof(struct space)))
        return "the store has no memory for one more space, see its --memory-limit";
    return NULL;
}

struct engine_space *relay_space(struct conn *c, struct slice name, char why[RELAY_SPACE_WHY_MAX])
{
    const struct listen_spec *spec = c->listener->spec;
    char text[SPACE_NAME_MAX + 1] = "";
    struct engine_space *space;
    const char *not_made;

    if (name.len > 0 && name.len <= SPACE_NAME_MAX && memchr(name.ptr, 0, name.len) == NULL)
        memcpy(text, name.ptr, name.len);
    if (!config_space_name_ok(text)) {
        snprintf(why, RELAY_SPACE_WHY_MAX, "what the relay asks for is no name of a space");
        return NULL;
    }
    if (spec->space_named && strcmp(text, spec->space) != 0) {
        snprintf(
            why, RELAY_SPACE_WHY_MAX,
            "the relay has --space=%.64s, and this listener of the store takes relays of space "
            "%.64s alone: change the relay's --space, or let the store listen without a space "
            "(--listen=ADDR:PORT)",
            text, spec->space);
        return NULL;
    }
    if (!may_use(c, name)) {
        snprintf(
            why, RELAY_SPACE_WHY_MAX,
            "the relay's certificate has none of the names that --relay-names of the store has "
            "for space %.64s",
            text);
        return NULL;
    }
    space = engine_find_space(conn_net(c)->engine, name);
    if (space != NULL)
        return space;
    not_made = why_not_made(conn_net(c));
    if (not_made == NULL)
        return make(c, text);
    snprintf(why, RELAY_SPACE_WHY_MAX, "%s", not_made);
    return NULL;
}
