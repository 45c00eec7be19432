/* /livez and /readyz. See health.h for the contract. */
#include "rdzv/admin/health.h"

#include "rdzv/net/listen.h"

static bool is_verbose(const struct http_request *r)
{
    struct url_error why;
    struct slice value;

    return url_check_form(r->query, &why) &&
           url_find_param((struct slice){0}, r->query, "verbose", &value);
}

struct check {
    const char *name;
    bool ok;
};

static bool has_listener(const struct net *n)
{
    const struct listener *listener;

    TAILQ_FOREACH(listener, &n->listeners, entry) {
        if (listener->open)
            return true;
    }
    return false;
}

static void reply_checks(const struct http_request *r, const char *name, const struct check *checks,
                         size_t count)
{
    uint8_t text[512];
    struct writer w = {.ptr = text, .cap = sizeof text};
    bool ok = true;

    for (size_t i = 0; i < count; i++)
        ok = ok && checks[i].ok;
    if (ok && !is_verbose(r)) {
        writer_str(&w, "ok\n");
    } else {
        for (size_t i = 0; i < count; i++) {
            writer_str(&w, checks[i].ok ? "[+]" : "[-]");
            writer_str(&w, checks[i].name);
            writer_str(&w, checks[i].ok ? " ok\n" : " failed\n");
        }
        writer_str(&w, name);
        writer_str(&w, ok ? " check passed\n" : " check failed\n");
    }
    reply_send(r, &(struct reply){.status = ok ? 200 : 503,
                                  .content_type = HTTP_TEXT,
                                  .nosniff = true,
                                  .body = {w.ptr, w.len}});
}

/* That this code runs is what /livez says. The store has no way of its own to fail. */
static void handle(const struct http_request *r, const char *name, size_t count)
{
    const struct net *n = conn_net(r->conn);
    const struct check checks[] = {
        {"loop", true},
        {"store", !TAILQ_EMPTY(&n->engine->spaces)},
        {"listeners", n->draining || has_listener(n)},
        {"shutdown", !n->draining},
    };

    if (!http_is_reading(r))
        reply_not_allowed(r, "GET,HEAD", HTTP_ETCD_NONE);
    else
        reply_checks(r, name, checks, count == 0 ? sizeof checks / sizeof checks[0] : count);
}

void admin_livez_handle(const struct http_request *r)
{
    handle(r, "livez", 1);
}

void admin_readyz_handle(const struct http_request *r)
{
    handle(r, "readyz", 0);
}
