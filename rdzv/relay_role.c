/* A relay: what it does beside what every server does. See role.h for the contract. */
#include "rdzv/relay_role.h"

#include <string.h>
#include <unistd.h>

#include "rdzv/config/etcd_ids.h"
#include "rdzv/routes.h"
#include "rdzv/server.h"

/* It keeps no keys, so its engine has none. */
static void set_options(const struct config *config, struct engine_options *options)
{
    (void)config;
    (void)options;
}

/* --- HTTP goes where the link goes. --- */

/* The store that has welcomed the link. */
static bool store_at(void *arg, struct sockaddr_storage *at, socklen_t *len)
{
    const struct upstream *u = arg;

    if (u->state != UPSTREAM_CONNECTED)
        return false;
    *len = resolve_address_len(&u->addresses[u->at]);
    memcpy(at, &u->addresses[u->at], *len);
    return true;
}

static SSL *secure(void *arg, int fd, bool *ok)
{
    const struct upstream *u = arg;
    SSL *ssl = u->tls_options->context == NULL ? NULL : upstream_secure(u, fd);

    *ok = ssl != NULL || u->tls_options->context == NULL;
    return ssl;
}

static void follow_link(struct relay_parts *p)
{
    bool linked = p->upstream.state == UPSTREAM_CONNECTED;
    uint64_t number = linked ? p->relay.stats.links : 0;

    if (number == p->link_number)
        return;
    if (p->link_number != 0)
        relay_http_store_is_gone(&p->http);
    p->link_number = number;
    if (linked)
        relay_http_store_is_there(&p->http);
}

static void init_http(struct server *s)
{
    struct relay_parts *p = &s->relay;

    gethostname(p->host_name, sizeof p->host_name - 1);
    relay_http_init(&p->http, &(struct relay_http_options){.net = &s->net,
                                                           .space = slice_str(s->config->space),
                                                           .name = slice_str(p->host_name),
                                                           .store_at = store_at,
                                                           .secure = secure,
                                                           .arg = &p->upstream,
                                                           .cluster_id = &s->http.cluster_id});
    etcd_ids(s->config, &s->http.member_id, &s->http.cluster_id); /* until the store has said */
    s->http.routes = relay_routes;
    s->http.upstream = &p->upstream;
    s->http.relay = &p->http;
}

/* --- Beginning and end. --- */

/* Ids of sessions, and the jitter of tries, come from a number that nobody guesses. */
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
    p->clients =
        (struct relay_front){.config = s->config, .relay = &p->relay, .engine = &s->engine};
    upstream_init(&p->upstream, &s->net, &p->relay, s->config, &p->tls, (uint32_t)(seed >> 32));
    init_http(s);
    p->client_protocol = relay_client_protocol(&p->clients);
    s->protocols[1] = &p->client_protocol;
}

static int open_files(struct server *s)
{
    return client_tls_start(&s->relay.tls, &s->config->upstream_tls, NULL, "the store");
}

static int begin(struct server *s)
{
    return upstream_start(&s->relay.upstream) ? 0 : -1;
}

static void tick(struct server *s)
{
    struct relay_parts *p = &s->relay;

    p->relay.now_ns = clock_monotonic_ns(s->engine.options.clock);
    client_tls_tick(&p->tls);
    upstream_tick(&p->upstream);
    relay_tick(&p->relay);
    if (!TAILQ_EMPTY(&p->http.held)) /* the kernel may have refused the timer */
        relay_http_set_timer(&p->http);
}

static bool end_iteration(struct server *s)
{
    follow_link(&s->relay);
    return upstream_flush(&s->relay.upstream);
}

/* What clients have sent before they went is confirmed, or --drain-timeout ends it. */
static bool may_stop(struct server *s)
{
    return relay_is_done(&s->relay.relay) && upstream_is_idle(&s->relay.upstream);
}

static void stop(struct server *s)
{
    (void)s;
}

static void fini(struct server *s)
{
    relay_http_fini(&s->relay.http);
    upstream_fini(&s->relay.upstream);
    client_tls_fini(&s->relay.tls);
    relay_fini(&s->relay.relay);
}

const struct role relay_role = {.options = set_options,
                                .init = init,
                                .open = open_files,
                                .begin = begin,
                                .tick = tick,
                                .end_iteration = end_iteration,
                                .may_stop = may_stop,
                                .stop = stop,
                                .fini = fini};
