/* A relay's own work, beside that of every server. See server.h for the contract. */
#include "rdzv/server.h"

#include "rdzv/routes.h"

static void relay_role_init(struct server *s)
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

static int relay_role_begin(struct server *s)
{
    return forwards_start(&s->forwards) ? 0 : -1;
}

static void relay_role_tick(struct server *s)
{
    forwards_tick(&s->forwards);
}

static bool relay_end_iteration(struct server *s)
{
    return forwards_flush(&s->forwards);
}

/* What clients have sent before they went is confirmed, or --drain-timeout ends it. */
static bool relay_may_stop(struct server *s)
{
    return forwards_are_done(&s->forwards);
}

static void relay_role_fini(struct server *s)
{
    forwards_fini(&s->forwards);
}

/* A relay keeps no keys, so its engine needs no options. */
const struct role relay_role = {.init = relay_role_init,
                                .open = open_files,
                                .begin = relay_role_begin,
                                .tick = relay_role_tick,
                                .end_iteration = relay_end_iteration,
                                .may_stop = relay_may_stop,
                                .fini = relay_role_fini};
