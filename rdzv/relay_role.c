/* A relay's own work, beside that of every server. See server.h for the contract. */
#include "rdzv/server.h"

#include <string.h>

static void relay_role_init(struct server *s)
{
    forwards_init(&s->forwards, &s->net, s->config, s->engine.options.seed, &s->http.cluster_id);
    etcd_ids(s->config, &s->http.member_id, &s->http.cluster_id); /* until the store has said */
    s->http.routes = relay_routes;
    s->http.forwards = &s->forwards;
    s->protocols[1] = &s->forwards.protocol;
}

static void relay_role_begin(struct server *s)
{
    const struct config *config = s->config;
    const char *name =
        strcmp(config->name, CONFIG_DEFAULT_NAME) == 0 ? s->forwards.host_name : config->name;

    if (config->exit_on_restart != 0) {
        s->forwards.restart = (struct restart){.name = name,
                                               .nodes = config->elastic.expected_nodes,
                                               .stage = RESTART_WAITS,
                                               .says = "waiting for the relays of the run"};
        s->forwards.list[0].upstream.restart = &s->forwards.restart;
    }
}

/* The clients' requests are confirmed before the exit, as after SIGTERM. */
static bool relay_end_iteration(struct server *s)
{
    if (s->forwards.restart.is_due && !s->net.draining) {
        s->exit_code = (int)s->config->exit_on_restart;
        server_drain(s, "none: its run starts again");
    }
    return forwards_flush(&s->forwards);
}

/* A relay keeps no keys, so its engine needs no options; it stops when all that clients have sent
 * before they went is confirmed, or the time to drain ends. */
const struct role relay_role = {
    .init = relay_role_init, .begin = relay_role_begin, .end_iteration = relay_end_iteration};
