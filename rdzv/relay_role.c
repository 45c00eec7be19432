/* A relay: what it does beside what every server does. See role.h for the contract. */
#include "rdzv/relay_role.h"

#include "rdzv/routes.h"
#include "rdzv/server.h"

/* It keeps no keys, so its engine has none. */
static void set_options(const struct config *config, struct engine_options *options)
{
    (void)config;
    (void)options;
}

/* Ids of sessions, and the jitter of tries, come from a number that nobody guesses. HTTP is what the
 * relay says of itself; a protocol that passes requests on comes here, into protocols[0] and
 * http_protocols[0], and serves relay_routes itself. */
static void init(struct server *s)
{
    struct relay_parts *p = &s->relay;
    const struct config_limits *l = &s->config->limits;
    const struct c10d_limits limits = {.key_max = l->key_max,
                                       .value_max = l->value_max,
                                       .keys_max = l->keys_max,
                                       .request_max = l->request_max};
    uint64_t seed = s->engine.options.seed;

    relay_init(&p->relay, &relay_client_calls, &limits, seed);
    p->clients = (struct relay_clients){
        .config = s->config, .relay = &p->relay, .engine = &s->engine};
    upstream_init(&p->upstream, &s->net, &p->relay, s->config, (uint32_t)(seed >> 32));
    s->http.routes = relay_routes;
    s->http.upstream = &p->upstream;
    p->client_protocol = relay_client_protocol(&p->clients);
    s->protocols[1] = &p->client_protocol;
}

static int open_nothing(struct server *s)
{
    (void)s;
    return 0;
}

static int begin(struct server *s)
{
    return upstream_start(&s->relay.upstream) ? 0 : -1;
}

static void tick(struct server *s)
{
    struct relay_parts *p = &s->relay;

    p->relay.now_ns = clock_monotonic_ns(s->engine.options.clock);
    upstream_tick(&p->upstream);
    relay_tick(&p->relay);
}

static bool end_iteration(struct server *s)
{
    return upstream_flush(&s->relay.upstream);
}

/* What clients have sent before they went is confirmed, or --drain-timeout ends it. */
static bool may_stop(struct server *s)
{
    return relay_is_done(&s->relay.relay) && upstream_is_idle(&s->relay.upstream);
}

static void fini(struct server *s)
{
    upstream_fini(&s->relay.upstream);
    relay_fini(&s->relay.relay);
}

const struct role relay_role = {.options = set_options,
                                .init = init,
                                .open = open_nothing,
                                .begin = begin,
                                .tick = tick,
                                .end_iteration = end_iteration,
                                .may_stop = may_stop,
                                .fini = fini};
