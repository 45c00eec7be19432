/* /v2/auth over HTTP: who may change it, the switch, and which path is whose. See auth.h.
 *
 * Upstream: etcd 3.4.23, etcdserver/api/v2http/client_auth.go and v2auth/auth.go, texts included.
 * What the store does is in store/auth.h. */
#include "rdzv/etcd/auth.h"

#include "proto/url.h"
#include "rdzv/engine/log.h"
#include "rdzv/etcd/auth_items.h"
#include "rdzv/etcd/auth_reply.h"
#include "rdzv/etcd/sender.h"
#include "rdzv/http/route.h"
#include "rdzv/net/refusal.h"

/* What a request is charged for each byte of its JSON, which is read into many small pieces. */
#define JSON_COST 16u

/* --- Who may. --- */

/* True: the endpoint goes on. False: the reply has been sent, or will be. */
static bool may_go_on(const struct http_request *r)
{
    enum etcd_access access = etcd_access_as_root(r);

    if (access == ETCD_ACCESS_REFUSED)
        reply_message(r, 401, ETCD_REFUSED_SENDER, HTTP_ETCD_NONE);
    return access == ETCD_ACCESS_GRANTED;
}

/* May the request change users, roles or the switch, as far as the daemon's own settings go? While
 * auth is enabled its users decide. False: as may_go_on(). */
static bool may_change(const struct http_request *r)
{
    bool off = !r->http->config->etcd_auth;
    enum etcd_access access = ETCD_ACCESS_REFUSED;

    if (!off)
        access =
            auth_enabled(&r->space->store->auth) ? ETCD_ACCESS_GRANTED : etcd_access_to_set_up(r);
    if (access != ETCD_ACCESS_REFUSED)
        return access == ETCD_ACCESS_GRANTED;
    refusal_note(&http_engine(r)->stats, REFUSAL_AUTH, &r->conn->peer, r->path);
    ETCD_AUTH_ERROR(r, 403,
                    slice_str(off ? "switched off with --etcd-auth=off"
                                  : "only from rdzvd's own machine, as a root user, or with the "
                                    "token of --admin-token-file"));
    return false;
}

/* --- The switch. --- */

static void handle_switch(const struct http_request *r)
{
    static const char on[] = "{\"enabled\":true}\n", off[] = "{\"enabled\":false}\n";
    struct command command = {.kind = COMMAND_AUTH_ENABLE};

    if (r->head->method == HTTP_GET) {
        etcd_auth_reply(r, 200, slice_str(auth_enabled(&r->space->store->auth) ? on : off));
        return;
    }
    if (r->head->method == HTTP_DELETE)
        command.kind = COMMAND_AUTH_DISABLE;
    switch (etcd_auth_apply(r, &command)) {
    case AUTH_OK:
        log_event(LOG_INFO, command.kind == COMMAND_AUTH_ENABLE ? "auth_enabled" : "auth_disabled",
                  log_str("space", r->space->store->name));
        etcd_auth_reply(r, 200, (struct slice){0});
        break;
    case AUTH_UNCHANGED:
        ETCD_AUTH_ERROR(r, 409,
                        slice_str(command.kind == COMMAND_AUTH_ENABLE ? "already enabled"
                                                                      : "already disabled"));
        break;
    case AUTH_NO_ROOT:
        ETCD_AUTH_ERROR(r, 409, slice_str("No root user available, please create one"));
        break;
    default:
        break;
    }
}

/* --- Routing. --- */

static bool is_item_method(enum http_method method)
{
    return method == HTTP_GET || method == HTTP_PUT || method == HTTP_DELETE;
}

static void handle_list(const struct http_request *r,
                        void (*write)(struct writer *w, const void *what))
{
    struct url_error why;

    if (r->head->method != HTTP_GET)
        reply_not_allowed(r, "GET", HTTP_ETCD_NONE);
    else if (!may_go_on(r))
        return;
    else if (!url_check_form(r->query, &why))
        etcd_auth_reply_failed(r, why.text);
    else
        etcd_auth_reply_written(r, 200, write, &r->space->store->auth);
}

static void handle_item(const struct http_request *r, struct slice name,
                        void (*handle)(const struct http_request *r, struct slice name))
{
    if (!is_item_method(r->head->method))
        reply_not_allowed(r, "GET,PUT,DELETE", HTTP_ETCD_NONE);
    else if (may_go_on(r))
        handle(r, name);
}

/* What stands behind `prefix`, if the path is that, or something below it. A slash at the end does
 * not count. */
static bool below(struct slice path, const char *prefix, struct slice *name)
{
    size_t len = strlen(prefix);

    if (!slice_starts_with(path, slice_str(prefix)))
        return false;
    *name = slice_from(path, len);
    if (name->len == 0)
        return true;
    if (name->ptr[0] != '/')
        return false;
    *name = slice_from(*name, 1);
    if (name->len != 0 && name->ptr[name->len - 1] == '/')
        name->len--;
    return true;
}

void etcd_auth_handle(const struct http_request *r)
{
    struct slice path = slice_from(r->path, strlen("/v2/auth")), name;
    bool users = below(path, "/users", &name);

    conn_charge(r->conn, JSON_COST * r->body.len);
    if (!http_is_reading(r) && !may_change(r))
        return;
    if (users || below(path, "/roles", &name)) {
        if (name.len == 0)
            handle_list(r, users ? etcd_write_users : etcd_write_roles);
        else if (memchr(name.ptr, '/', name.len) != NULL)
            reply_message(r, 400, "Invalid path", HTTP_ETCD_NONE);
        else
            handle_item(r, name, users ? etcd_user_handle : etcd_role_handle);
    } else if (!slice_is(path, "/enable")) {
        reply_not_found(r);
    } else if (!is_item_method(r->head->method)) {
        reply_not_allowed(r, "GET,PUT,DELETE", HTTP_ETCD_NONE);
    } else if (r->head->method == HTTP_GET || may_go_on(r)) {
        handle_switch(r);
    }
}
