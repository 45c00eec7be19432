/* /livez and /readyz. See health.h for the contract. */
#include "rdzv/admin/health.h"

#include "rdzv/net/listen.h"
#include "rdzv/relay/forward.h"

static bool is_verbose(const struct http_request *r)
{
    struct url_error why;
    struct slice value;

    return url_check_form(r->query, &why) &&
           url_find_param((struct slice){0}, r->query, "verbose", &value);
}

bool health_has_listener(const struct net *n)
{
    const struct listener *listener;

    TAILQ_FOREACH(listener, &n->listeners, entry) {
        if (listener->open)
            return true;
    }
    return false;
}

static void reply_checks(const struct http_request *r, const char *name,
                         const struct health_check *checks, size_t count)
{
    uint8_t text[2048];
    struct writer w = {.ptr = text, .cap = sizeof text};
    bool ok = true, is_alone = r->conn->out.bytes == 0;

    for (size_t i = 0; i < count; i++)
        ok = ok && (checks[i].ok || http_excludes(r, checks[i].name));
    if (ok && !is_verbose(r)) {
        writer_str(&w, "ok\n");
    } else {
        for (size_t i = 0; i < count; i++) {
            bool out = http_excludes(r, checks[i].name);

            writer_str(&w, checks[i].ok || out ? "[+]" : "[-]");
            writer_str(&w, checks[i].name);
            writer_str(&w, checks[i].ok ? " ok" : out ? " excluded" : " failed");
            if (checks[i].why != NULL) {
                writer_str(&w, ": ");
                writer_str(&w, checks[i].why);
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
    if (is_alone) /* while nothing can be committed, this says so */
        conn_note_independent(r->conn);
}

void health_reply(const struct http_request *r, const char *name, const struct health_check *checks,
                  size_t count)
{
    if (!http_is_reading(r))
        reply_not_allowed(r, "GET,HEAD", HTTP_ETCD_NONE);
    else
        reply_checks(r, name, checks, count);
}

/* That this code runs is what /livez says. */
void admin_livez_handle(const struct http_request *r)
{
    health_reply(r, "livez", &(struct health_check){"loop", true, NULL}, 1);
}

#define READY_CHECKS 7

/* Room for what they say. */
struct ready_text {
    char upstream[UPSTREAM_SAYS_MAX];
};

/* Of a replica that passes its clients on while another one leads: true, and it takes clients as
 * long as its links are there. */
static bool passes_on(const struct engine *e, const struct forwards *forwards)
{
    return forwards != NULL && engine_stands_by(e);
}

/* Fills `checks`; returns how many there are. */
static size_t check_ready(const struct net *n, const struct forwards *forwards,
                          struct health_check checks[READY_CHECKS], struct ready_text *text)
{
    const char *refusal = engine_refuses(n->engine);
    bool stands_by = engine_stands_by(n->engine), passes = passes_on(n->engine, forwards);

    checks[0] = (struct health_check){"loop", true, NULL};
    checks[1] = (struct health_check){"store", !TAILQ_EMPTY(&n->engine->spaces), NULL};
    checks[2] = (struct health_check){"listeners", n->draining || health_has_listener(n), NULL};
    checks[3] = (struct health_check){"shutdown", !n->draining, NULL};
    checks[4] =
        (struct health_check){"journal", refusal == NULL || stands_by, stands_by ? NULL : refusal};
    checks[5] = (struct health_check){"leader", !stands_by || passes, stands_by ? refusal : NULL};
    checks[6] = (struct health_check){"upstream", !passes || forwards_are_linked(forwards),
                                      passes ? forwards_say(forwards, text->upstream) : NULL};
    return n->engine->options.journal.commit == NULL ? READY_CHECKS - 3
           : n->engine->journal_etcd == NULL         ? READY_CHECKS - 2
           : forwards == NULL                        ? READY_CHECKS - 1
                                                     : READY_CHECKS;
}

bool health_is_ready(const struct net *n, const struct forwards *forwards)
{
    struct health_check checks[READY_CHECKS];
    struct ready_text text;
    size_t count = check_ready(n, forwards, checks, &text);

    for (size_t i = 0; i < count; i++) {
        if (!checks[i].ok)
            return false;
    }
    return true;
}

void admin_readyz_handle(const struct http_request *r)
{
    struct health_check checks[READY_CHECKS];
    struct ready_text text;
    size_t count = check_ready(conn_net(r->conn), r->http->forwards, checks, &text);

    health_reply(r, "readyz", checks, count);
}
