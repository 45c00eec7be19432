/* /v2/auth as an etcd answers that has no users: reads say so, changes are refused. See handlers.h.
 *
 * Upstream: etcd 3.4.23, etcdserver/api/v2http/client_auth.go, texts included. */
#include "rdzv/etcd/handlers.h"

/* The one role that each etcd has. */
#define ROOT_ROLE \
    "{\"role\":\"root\",\"permissions\":{\"kv\":{\"read\":[\"/*\"],\"write\":[\"/*\"]}}}"

static void reply_json(const struct http_request *r, const char *body)
{
    reply_send(r, &(struct reply){.status = 200,
                                  .content_type = HTTP_JSON,
                                  .etcd = HTTP_ETCD_CLUSTER,
                                  .body = slice_str(body)});
}

static void auth_refuse_change(const struct http_request *r)
{
    reply_message(r, 403,
                  "rdzvd has no users and no roles: control access with TLS client certificates "
                  "(--client-ca), a NetworkPolicy or --allow, and with the token of operators "
                  "(--admin-token-file)",
                  HTTP_ETCD_CLUSTER);
}

static void handle_list(const struct http_request *r, bool users)
{
    struct url_error why;

    if (r->head->method != HTTP_GET)
        reply_not_allowed(r, "GET", HTTP_ETCD_NONE);
    else if (!url_check_form(r->query, &why))
        reply_message(r, 500, "Internal Server Error", HTTP_ETCD_CLUSTER);
    else
        reply_json(r, users ? "{\"users\":null}\n" : "{\"roles\":[" ROOT_ROLE "]}\n");
}

/* True: the method is GET. Else the reply has been sent. */
static bool is_read(const struct http_request *r)
{
    enum http_method method = r->head->method;

    if (method == HTTP_GET)
        return true;
    if (method == HTTP_PUT || method == HTTP_DELETE)
        auth_refuse_change(r);
    else
        reply_not_allowed(r, "GET,PUT,DELETE", HTTP_ETCD_NONE);
    return false;
}

static void handle_item(const struct http_request *r, struct slice name, bool users)
{
    if (memchr(name.ptr, '/', name.len) != NULL)
        reply_message(r, 400, "Invalid path", HTTP_ETCD_NONE);
    else if (!is_read(r))
        return;
    else if (!users && slice_is(name, "root"))
        reply_json(r, ROOT_ROLE "\n");
    else
        REPLY_MESSAGE(r, 404, HTTP_ETCD_CLUSTER, slice_str(users ? "auth: User " : "auth: Role "),
                      name, slice_str(" does not exist."));
}

/* True if `path` is `prefix` or lies below it; *name becomes the name below it. A slash at the end
 * of the path is ignored. */
static bool path_below(struct slice path, const char *prefix, struct slice *name)
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
    bool users = path_below(path, "/users", &name);

    if (users || path_below(path, "/roles", &name)) {
        if (name.len == 0)
            handle_list(r, users);
        else
            handle_item(r, name, users);
    } else if (!slice_is(path, "/enable")) {
        reply_not_found(r);
    } else if (is_read(r)) {
        reply_json(r, "{\"enabled\":false}\n");
    }
}
