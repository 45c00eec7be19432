/* /livez and /readyz. See handlers.h for the contract. */
#include "rdzv/admin/handlers.h"
#include "rdzv/etcd3/journal_etcd.h"
#include "rdzv/net/listen.h"
#include "rdzv/relay/forward.h"

/* One check of a probe. */
struct health_check {
    const char *name;
    bool ok;
    const char *why; /* more about it; NULL: its name says all */
};

#define CHECKS_MAX 7

struct health_checks {
    struct health_check list[CHECKS_MAX];
    size_t count;
    char upstream[UPSTREAM_SAYS_MAX]; /* room for the text of a check */
};

static void reply_checks(const struct http_request *r, const char *name,
                         const struct health_checks *checks)
{
    uint8_t text[2048];
    struct writer w = {.ptr = text, .cap = sizeof text};
    bool ok = true, is_alone = r->conn->out.bytes == 0;
    struct slice verbose;

    for (size_t i = 0; i < checks->count; i++)
        ok = ok && (checks->list[i].ok || http_excludes(r, checks->list[i].name));
    if (ok && !url_find_param(r->query, "verbose", &verbose)) {
        writer_str(&w, "ok\n");
    } else {
        FOREACH(const struct health_check, check, checks->list, checks->count) {
            bool out = http_excludes(r, check->name);

            writer_str(&w, check->ok || out ? "[+]" : "[-]");
            writer_str(&w, check->name);
            writer_str(&w, check->ok ? " ok" : out ? " excluded" : " failed");
            if (check->why != NULL) {
                writer_str(&w, ": ");
                writer_str(&w, check->why);
            }
            writer_str(&w, "\n");
        }
        writer_str(&w, name);
        writer_str(&w, ok ? " check passed\n" : " check failed\n");
    }
    reply_send(r, &(struct reply){.status = ok ? 200 : 503,
                                  .content_type = HTTP_TEXT,
                                  .nosniff = true,
                                  .body = {w.ptr, w.len}});
    if (is_alone) /* this answer must go out even while nothing can be committed */
        conn_note_independent(r->conn);
}

/* If this code runs, the daemon is alive. */
void admin_livez_handle(const struct http_request *r)
{
    reply_checks(r, "livez", &(struct health_checks){.list = {{"loop", true, NULL}}, .count = 1});
}

/* --- Readiness. --- */

static bool has_open_listener(const struct net *n)
{
    return ANY(TAILQ_EACH(const struct listener, listener, &n->listeners, entry), listener->open);
}

static void check_store(const struct net *n, const struct forwards *forwards,
                        struct health_checks *out)
{
    const struct engine *e = n->engine;
    const char *refusal = e->refusal;
    bool stands_by = engine_stands_by(e);
    bool leads = e->journal_etcd == NULL || journal_etcd_stats(e->journal_etcd)->leads;
    /* A replica that relays its clients is ready if all its links are connected. */
    bool passes = forwards != NULL && stands_by;
    const struct health_check list[CHECKS_MAX] = {
        {"loop", true, NULL},
        {"store", !TAILQ_EMPTY(&e->spaces), NULL},
        {"listeners", n->draining || has_open_listener(n), NULL},
        {"shutdown", !n->draining, NULL},
        {"journal", refusal == NULL || stands_by, stands_by ? NULL : refusal},
        {"leader", leads || passes, leads ? NULL : refusal},
        {"upstream", !passes || forwards_are_linked(forwards),
         passes ? forwards_say(forwards, out->upstream) : NULL},
    };

    memcpy(out->list, list, sizeof list);
    out->count = e->options.journal.commit == NULL ? CHECKS_MAX - 3
                 : e->journal_etcd == NULL         ? CHECKS_MAX - 2
                 : forwards == NULL                ? CHECKS_MAX - 1
                                                   : CHECKS_MAX;
}

static void check_relay(const struct http_request *r, struct health_checks *out)
{
    const struct net *n = conn_net(r->conn);
    const struct upstream *u = &r->http->forwards->list[0].upstream; /* a relay has one */
    const struct health_check list[] = {
        {"loop", true, NULL},
        {"listeners", n->draining || has_open_listener(n), NULL},
        {"shutdown", !n->draining, NULL},
        {"upstream", u->relay->welcomed, upstream_says(u, out->upstream)},
    };

    memcpy(out->list, list, sizeof list);
    out->count = sizeof list / sizeof list[0];
}

static bool health_is_fine(const struct health_checks *checks)
{
    return !ANY(FOREACH(const struct health_check, check, checks->list, checks->count), !check->ok);
}

bool health_is_store_ready(const struct net *n, const struct forwards *forwards)
{
    struct health_checks checks;

    check_store(n, forwards, &checks);
    return health_is_fine(&checks);
}

static void check_ready(const struct http_request *r, struct health_checks *out)
{
    if (config_is_relay(r->http->config))
        check_relay(r, out);
    else
        check_store(conn_net(r->conn), r->http->forwards, out);
}

bool health_is_ready(const struct http_request *r)
{
    struct health_checks checks;

    check_ready(r, &checks);
    return health_is_fine(&checks);
}

void admin_readyz_handle(const struct http_request *r)
{
    struct health_checks checks;

    check_ready(r, &checks);
    reply_checks(r, "readyz", &checks);
}

void relay_startz_handle(const struct http_request *r)
{
    const struct restart *restart = &r->http->forwards->restart;
    struct health_checks checks;

    check_relay(r, &checks);
    if (restart->nodes != 0)
        checks.list[checks.count++] = (struct health_check){
            "nodes", restart->stage == RESTART_RUNS && !restart->is_due, restart->says};
    reply_checks(r, "startz", &checks);
}

void standby_refuse_handle(const struct http_request *r)
{
    reply_unavailable(r, "this replica does not lead; see /readyz");
}
