/* HELLO and WELCOME, and the space of a relay. See hello.h for the contract. */
#include "rdzv/relay/hello.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "proto/relay.h"
#include "rdzv/engine/log.h"
#include "rdzv/net/tls.h"
#include "store/space.h"

size_t hello_write(uint8_t out[HELLO_FRAME_MAX], Rdzv__RelayHello *hello)
{
    const size_t head = RELAY_MAGIC_SIZE + RELAY_HEAD_SIZE;
    struct relay_frame frame = {.kind = RELAY_HELLO};
    size_t len;

    hello->version_min = RELAY_VERSION_MIN;
    hello->version_max = RELAY_VERSION_MAX;
    hello->release = hello_field(RDZV_VERSION);
    len = rdzv__relay_hello__get_packed_size(hello);
    assert(len <= HELLO_FRAME_MAX - head); /* a space, a host, a release and some numbers */
    memcpy(out, RELAY_MAGIC, RELAY_MAGIC_SIZE);
    frame.payload = (struct slice){out + head, rdzv__relay_hello__pack(hello, out + head)};
    relay_put_head(out + RELAY_MAGIC_SIZE, &frame);
    return head + len;
}

uint32_t hello_version(const Rdzv__RelayHello *hello, char why[HELLO_WHY_MAX])
{
    const uint32_t newest =
        hello->version_max < RELAY_VERSION_MAX ? hello->version_max : RELAY_VERSION_MAX;
    char release[HELLO_RELEASE_MAX];

    if (newest >= hello->version_min && newest >= RELAY_VERSION_MIN)
        return newest;
    snprintf(why, HELLO_WHY_MAX,
             "no version of the frames in common: the relay (rdzvd %s) speaks %u to %u, the store "
             "(rdzvd %s) %u to %u; upgrade the %s",
             hello_release(hello->release, release), hello->version_min, hello->version_max,
             RDZV_VERSION, RELAY_VERSION_MIN, RELAY_VERSION_MAX,
             hello->version_max < RELAY_VERSION_MIN ? "relay" : "store");
    return 0;
}

bool hello_is_spoken(const Rdzv__RelayWelcome *welcome)
{
    return welcome->version >= RELAY_VERSION_MIN && welcome->version <= RELAY_VERSION_MAX;
}

const char *hello_text(const char *text, const char *none, char *out, size_t size)
{
    snprintf(out, size, "%s", text[0] == '\0' ? none : text);
    for (char *c = out; *c != '\0'; c++)
        *c = *c > ' ' && *c < 0x7f ? *c : '_';
    return out;
}

struct hello_journal hello_journal_of(const Rdzv__RelayWelcome *welcome)
{
    struct hello_journal journal = {.cluster = welcome->journal_cluster};

    hello_text(welcome->journal, "", journal.name, sizeof journal.name);
    return journal;
}

bool hello_is_same_journal(const struct hello_journal *a, const struct hello_journal *b)
{
    if (a->name[0] == '\0' || b->name[0] == '\0')
        return true;
    return strcmp(a->name, b->name) == 0 &&
           (a->cluster == b->cluster || a->cluster == 0 || b->cluster == 0);
}

/* --- Which space a relay gets. --- */

/* Counts all spaces, because a space from the start does not show whether a listener or a relay
 * made it; each listener has made at most one space. */
static bool has_room_for_space(const struct net *n)
{
    size_t count = 0, own = 0;

    TAILQ_EACH(const struct engine_space, space, &n->engine->spaces, entry)
        count++;
    TAILQ_EACH(const struct listener, l, &n->listeners, entry)
        own++;
    return count < own + HELLO_SPACES_MAX;
}

/* False: --relay-names lists names for this space, and the relay's certificate has none of them. */
static bool may_use(const struct conn *c, const char *space)
{
    const struct string_list *list = &conn_net(c)->handshakes.config->relay_names;
    bool bound = false;

    for (size_t i = 0; i < list->count; i++) {
        char *item = list->items[i], *name = strchr(item, '=') + 1;
        const struct string_list one = {.items = &name, .count = 1};

        if (strlen(space) != (size_t)(name - item) - 1 || memcmp(space, item, strlen(space)) != 0)
            continue;
        if (c->tls != NULL && tls_peer_is_one_of(c->tls, &one))
            return true;
        bound = true;
    }
    return !bound;
}

struct engine_space *hello_space(struct conn *c, const char *name, char why[HELLO_SPACE_WHY_MAX])
{
    const struct listen_spec *spec = c->listener->spec;
    struct engine_space *space;
    const char *not_made = NULL;

    if (!config_space_name_ok(name)) {
        snprintf(why, HELLO_SPACE_WHY_MAX, "the relay's --space is no valid name");
        return NULL;
    }
    if (spec->space_named && strcmp(name, spec->space) != 0) {
        snprintf(why, HELLO_SPACE_WHY_MAX,
                 "the relay has --space=%.64s, and this listener of the store takes only relays of "
                 "space %.64s: change the relay's --space, or let the store listen without a space "
                 "(--listen=ADDR:PORT)",
                 name, spec->space);
        return NULL;
    }
    if (!may_use(c, name)) {
        snprintf(
            why, HELLO_SPACE_WHY_MAX,
            "the relay's certificate has none of the names that --relay-names of the store has "
            "for space %.64s",
            name);
        return NULL;
    }
    space = engine_find_space(conn_net(c)->engine, slice_str(name));
    if (space != NULL)
        return space;
    if (!has_room_for_space(conn_net(c)))
        not_made = "relays have made too many spaces of this store: restart the store";
    else if (!account_has_room(ACCOUNT_ORDINARY, sizeof(struct space)))
        not_made = "the store has no memory for one more space, see its --memory-limit";
    if (not_made != NULL) {
        snprintf(why, HELLO_SPACE_WHY_MAX, "%s", not_made);
        return NULL;
    }
    log_event(LOG_INFO, "space_made", log_str("space", name), log_str("peer", CONN_PEER(c)),
              log_str("reason", "a relay names this new space in its --space"));
    return engine_space(conn_net(c)->engine, slice_str(name));
}
