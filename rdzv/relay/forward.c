/* What passes clients on, for each space. See forward.h for the contract. */
#include "rdzv/relay/forward.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store/memory/xalloc.h"
#include "store/space.h"

/* Another replica leads within 5.5 s, and a link finds it within 2 s. */
#define LINK_MISSED_NS UINT64_C(15000000000)

/* NULL: it passes on nothing of that space. */
static struct forward *forward_of_space(const struct forwards *f, const char *space)
{
    for (size_t i = 0; i < f->count; i++) {
        if (strcmp(f->list[i].space, space) == 0)
            return &f->list[i];
    }
    return NULL;
}

static struct forward *forward_of_conn(const struct forwards *f, const struct conn *c)
{
    return forward_of_space(f, conn_space(c)->store->name);
}

/* --- c10d. --- */

/* From here on the connection has the protocol of its space. */
static enum parse_result forward_begin(const struct protocol *p, struct conn *c, struct slice in,
                                       struct protocol_progress *progress, const char **why)
{
    const struct forward *forward = forward_of_conn(p->arg, c);

    if (forward != NULL)
        return forward->client_protocol.begin(&forward->client_protocol, c, in, progress, why);
    *why = "this replica does not lead, and relays no clients of this space";
    return PARSE_BAD;
}

/* --- HTTP goes where the link goes. --- */

/* To the store that has welcomed the link. */
static int dial_store(void *arg)
{
    const struct upstream *u = arg;

    return u->state == UPSTREAM_CONNECTED ? upstream_dial(u) : -1;
}

static void follow_link(struct forward *forward)
{
    bool linked = forward->upstream.state == UPSTREAM_CONNECTED;
    uint64_t number = linked ? forward->relay.stats.links : 0;

    if (number == forward->link_number)
        return;
    if (forward->link_number != 0)
        store_conn_lose_all(&forward->http);
    forward->link_number = number;
    if (linked)
        relay_http_try_held(&forward->http);
}

void forwards_http_handle(const struct http_request *r)
{
    struct forward *forward = forward_of_conn(r->http->forwards, r->conn);

    if (forward == NULL)
        reply_unavailable(r, "this replica does not lead, and relays no requests of this space");
    else
        relay_http_pass(&forward->http, r);
}

/* --- Beginning and end. --- */

/* Ids of sessions, and the jitter of tries, come from a number that nobody guesses. */
static void init_forward(struct forward *forward, struct forwards *f, const struct config *config,
                         uint64_t seed, uint64_t *cluster_id)
{
    const struct c10d_limits limits = c10d_limits_of(config->limits.value_max);

    relay_init(&forward->relay, &relay_client_calls, &f->net->pool, &limits, seed);
    forward->client_protocol = relay_client_protocol(forward);
    upstream_init(&forward->upstream, f->net, &forward->relay, config, forward->space, &f->tls,
                  (uint32_t)(seed >> 32));
    relay_http_init(&forward->http, &(struct relay_http_options){.net = f->net,
                                                                 .space = forward->space,
                                                                 .name = f->host_name,
                                                                 .dial = dial_store,
                                                                 .secure = upstream_secure,
                                                                 .arg = &forward->upstream,
                                                                 .cluster_id = cluster_id});
}

void forwards_init(struct forwards *f, struct net *net, const struct config *config, uint64_t seed,
                   uint64_t *cluster_id)
{
    *f = (struct forwards){.net = net};
    f->protocol = (struct protocol){.name = "c10d", .arg = f, .begin = forward_begin};
    gethostname(f->host_name, sizeof f->host_name - 1);
    f->list = xcalloc(config->listener_count, sizeof *f->list);
    FOREACH(const struct listen_spec, spec, config->listeners, config->listener_count) {
        /* Who comes to a Unix socket, or for metrics alone, comes for this process: a replica
         * passes that on only if others use the same space. */
        if ((config_is_relay(config) || (spec->path == NULL && !spec->metrics_only)) &&
            forward_of_space(f, spec->space) == NULL)
            f->list[f->count++].space = spec->space;
    }
    for (size_t i = 0; i < f->count; i++)
        init_forward(&f->list[i], f, config, seed + i * UINT64_C(0xd1b54a32d192ed03), cluster_id);
}

int forwards_open(struct forwards *f, const struct config *config)
{
    f->tls = certificate_of_client(&config->upstream_tls, "the store", "--upstream-");
    return f->count == 0 ? 0 : certificate_start(&f->tls);
}

bool forwards_start(struct forwards *f)
{
    for (size_t i = 0; i < f->count; i++) {
        if (!upstream_start(&f->list[i].upstream))
            return false;
    }
    return true;
}

void forwards_fini(struct forwards *f)
{
    for (size_t i = 0; i < f->count; i++) {
        relay_http_fini(&f->list[i].http);
        upstream_fini(&f->list[i].upstream);
        relay_fini(&f->list[i].relay);
    }
    certificate_fini(&f->tls);
    free(f->list);
    f->list = NULL;
    f->count = 0;
}

/* --- While it runs. --- */

void forwards_tick(struct forwards *f)
{
    certificate_tick(&f->tls);
    FOREACH(struct forward, forward, f->list, f->count) {
        forward->relay.now_ns = clock_monotonic_ns(f->net->engine->options.clock);
        upstream_tick(&forward->upstream);
        relay_tick(&forward->relay);
        if (!TAILQ_EMPTY(&forward->http.held)) /* the kernel may have refused the timer */
            relay_http_set_timer(&forward->http);
    }
}

bool forwards_flush(struct forwards *f)
{
    bool goes_on = false;

    for (size_t i = 0; i < f->count; i++) {
        follow_link(&f->list[i]);
        goes_on = upstream_flush(&f->list[i].upstream) || goes_on;
    }
    return goes_on;
}

bool forwards_are_done(const struct forwards *f)
{
    return !ANY(FOREACH(const struct forward, forward, f->list, f->count),
                !relay_is_done(&forward->relay) || !upstream_is_idle(&forward->upstream));
}

void forwards_stop_waiting(struct forwards *f)
{
    for (size_t i = 0; i < f->count; i++) {
        if (f->list[i].relay.link)
            continue;
        /* When memory is short, a session ends with its client. */
        TAILQ_EACH_SAFE(const struct relay_client, s, &f->list[i].relay.sessions, entry) {
            if (s->client != NULL)
                conn_finish(s->client);
        }
        relay_http_give_up(&f->list[i].http);
    }
}

/* --- How it is. --- */

bool forwards_are_linked(const struct forwards *f)
{
    uint64_t now_ns = clock_monotonic_ns(f->net->engine->options.clock);

    for (size_t i = 0; i < f->count; i++) {
        const struct relay *r = &f->list[i].relay;

        if (!r->link && (!r->welcomed || now_ns - r->away_since_ns >= LINK_MISSED_NS))
            return false;
    }
    return true;
}

const char *forwards_say(const struct forwards *f, char text[UPSTREAM_SAYS_MAX])
{
    const struct forward *worst = &f->list[0];

    for (size_t i = 0; i < f->count && worst->relay.link; i++) {
        if (!f->list[i].relay.link)
            worst = &f->list[i];
    }
    return upstream_says(&worst->upstream, text);
}
