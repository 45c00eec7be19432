/* A relay: what it does beside what every server does. See role.h for the contract. */
#include "rdzv/config/config.h"
#include "rdzv/role.h"
#include "rdzv/routes.h"
#include "rdzv/server.h"

/* It keeps no keys, so its engine has none. */
static void set_options(const struct config *config, struct engine_options *options)
{
    (void)config;
    (void)options;
}

static void init(struct server *s)
{
    forwards_init(&s->forwards, &s->net, s->config, s->engine.options.seed, &s->http.cluster_id);
    etcd_ids(s->config, &s->http.member_id, &s->http.cluster_id); /* until the store has said */
    s->http.routes = relay_routes;
    s->http.forwards = &s->forwards;
    s->protocols[1] = &s->forwards.protocol;
}

static int open_files(struct server *s)
{
    return forwards_open(&s->forwards, s->config);
}

static int begin(struct server *s)
{
    return forwards_start(&s->forwards) ? 0 : -1;
}

static void tick(struct server *s)
{
    forwards_tick(&s->forwards);
}

static bool end_iteration(struct server *s)
{
    return forwards_flush(&s->forwards);
}

/* What clients have sent before they went is confirmed, or --drain-timeout ends it. */
static bool may_stop(struct server *s)
{
    return forwards_are_done(&s->forwards);
}

static void stop(struct server *s)
{
    (void)s;
}

static uint64_t end_ms(const struct server *s)
{
    (void)s;
    return 0;
}

static void fini(struct server *s)
{
    forwards_fini(&s->forwards);
}

const struct role relay_role = {.options = set_options,
                                .init = init,
                                .open = open_files,
                                .begin = begin,
                                .tick = tick,
                                .end_iteration = end_iteration,
                                .may_stop = may_stop,
                                .stop = stop,
                                .end_ms = end_ms,
                                .fini = fini};
