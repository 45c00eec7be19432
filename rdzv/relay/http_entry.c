/* HTTP that comes through relays. See link.h for the contract. */
#include <unistd.h>

#include "proto/relay.h"
#include "rdzv/engine/log.h"
#include "rdzv/relay/link.h"

#define KIND_AT   4u /* in the head of a frame: see relay.h */
#define HELLO_MAX (RELAY_MAGIC_SIZE + RELAY_HEAD_SIZE + RELAY_MESSAGE_MAX)

#define HOST_NAME_ROOM 256u

static void put_frame(struct conn *c, enum relay_kind kind, struct slice payload)
{
    const struct relay_frame frame = {.kind = (uint8_t)kind, .payload = payload};
    uint8_t head[RELAY_HEAD_SIZE];

    relay_put_head(head, &frame);
    conn_put(c, head, sizeof head);
    conn_put(c, payload.ptr, payload.len);
}

static void put_welcome(struct conn *c, uint32_t version)
{
    char name[HOST_NAME_ROOM] = "";
    uint8_t bytes[HOST_NAME_ROOM + GREETING_RELEASE_MAX + 64];
    Rdzv__RelayWelcome welcome = RDZV__RELAY_WELCOME__INIT;

    gethostname(name, sizeof name - 1);
    greeting_welcome(&welcome, version);
    welcome.store = greeting_data(name);
    put_frame(c, RELAY_WELCOME, (struct slice){bytes, rdzv__relay_welcome__pack(&welcome, bytes)});
}

static void refuse(const struct protocol *p, struct conn *c, const char *why)
{
    char peer[CONN_PEER_MAX];

    log_limited(LOG_WARN, "relay_refused", log_str("peer", conn_peer(c, peer)),
                log_str("reason", why));
    c->protocol = p;
    put_frame(c, RELAY_REFUSED, slice_str(why));
    conn_finish_draining(c);
}

static enum parse_result welcome(const struct protocol *p, struct conn *c,
                                 const Rdzv__RelayHello *hello)
{
    struct relay_entry *e = p->arg;
    const struct protocol *http = &e->protocols[hello->http_over_tls != 0];
    const struct slice name = {hello->space.data, hello->space.len};
    const struct slice begins = slice_str("GET"); /* as all of HTTP, with a capital letter */
    struct protocol_progress progress;
    char no_version[GREETING_WHY_MAX], no_space[GREETING_SPACE_WHY_MAX];
    const char *why = no_version;
    const uint32_t version = greeting_version(hello, no_version);
    struct engine_space *space = NULL;
    enum parse_result result;

    if (version != 0 && c->listener->temporary) {
        why = "this port is for the workers of one run alone";
    } else if (version != 0) {
        space = greeting_space(c, name, no_space);
        why = no_space;
    }
    if (space == NULL) {
        refuse(p, c, why);
        return PARSE_DONE;
    }
    result = http->begin(http, c, begins, &progress, &why);
    if (result == PARSE_DONE) {
        c->space = space;
        put_welcome(c, version);
    }
    return result;
}

/* What is no HELLO, or one of a relay that does not bring HTTP, is for the next protocol. */
static enum parse_result begin(const struct protocol *p, struct conn *c, struct slice in,
                               struct protocol_progress *progress, const char **why)
{
    enum parse_result result = relay_detect(in, &progress->need);
    Rdzv__RelayHello *hello;
    struct relay_frame frame;
    size_t size = 0;

    (void)why;
    if (result == PARSE_DONE) {
        struct slice rest = slice_from(in, RELAY_MAGIC_SIZE);

        result = relay_parse(rest, &frame, &size);
        progress->need = RELAY_MAGIC_SIZE + size;
        if (rest.len > KIND_AT && rest.ptr[KIND_AT] != RELAY_HELLO)
            return PARSE_BAD;
    }
    if (progress->need > HELLO_MAX)
        return PARSE_BAD;
    if (result != PARSE_DONE)
        return result;
    hello = rdzv__relay_hello__unpack(NULL, frame.payload.len, frame.payload.ptr);
    if (hello != NULL && hello->http) {
        result = welcome(p, c, hello);
        progress->used = RELAY_MAGIC_SIZE + size;
    } else {
        result = PARSE_BAD;
    }
    rdzv__relay_hello__free_unpacked(hello, NULL);
    return result;
}

/* --- Of one that was refused. --- */

static enum protocol_result read_nothing(struct conn *c, uint8_t *in, size_t len,
                                         struct protocol_progress *progress)
{
    (void)c;
    (void)in;
    progress->used = len;
    return PROTOCOL_ENDED;
}

static bool eof(struct conn *c)
{
    (void)c;
    return false;
}

static void end(struct conn *c)
{
    (void)c;
}

static const char *version(const struct conn *c)
{
    (void)c;
    return "relay-http";
}

/* --- Beginning. --- */

void relay_entry_init(struct relay_entry *e, const struct http *http)
{
    for (int over_tls = 0; over_tls < 2; over_tls++) {
        struct http *of = &e->http[over_tls];

        *of = *http;
        of->behind_relay = true;
        of->of_tls_clients = over_tls;
        e->protocols[over_tls] = http_protocol(of);
    }
}

struct protocol relay_entry_protocol(struct relay_entry *e)
{
    return (struct protocol){.name = "relay-http",
                             .pipelines = true,
                             .arg = e,
                             .begin = begin,
                             .read = read_nothing,
                             .eof = eof,
                             .end = end,
                             .version = version};
}
