/* The small endpoints of etcd that are about no key. See handlers.h.
 *
 * Upstream: etcd 3.4.23, etcdserver/api/etcdhttp, v2http/client_auth.go and v2store/stats.go. */
#include "rdzv/etcd/handlers.h"

#include "proto/json.h"

static void reply_text(const struct http_request *r, const char *content_type, const char *body)
{
    reply_send(
        r, &(struct reply){.status = 200, .content_type = content_type, .body = slice_str(body)});
}

static bool is_method(const struct http_request *r, enum http_method method, const char *allow)
{
    if (r->head->method == method)
        return true;
    reply_not_allowed(r, allow, HTTP_ETCD_NONE);
    return false;
}

void etcd_version_handle(const struct http_request *r)
{
    if (is_method(r, HTTP_GET, "GET"))
        reply_text(r, HTTP_JSON, "{\"etcdserver\":\"3.4.23\",\"etcdcluster\":\"3.4.0\"}");
}

/* etcd raises its alarm NOSPACE for a disk that takes no changes. */
static bool is_healthy(const struct http_request *r)
{
    return engine_refuses(http_engine(r)) == NULL || http_excludes(r, "NOSPACE");
}

void etcd_health_handle(const struct http_request *r)
{
    bool is_alone = r->conn->out.bytes == 0;

    if (!is_method(r, HTTP_GET, "GET"))
        return;
    if (is_healthy(r))
        reply_text(r, HTTP_TEXT, "{\"health\":\"true\"}");
    else
        reply_send(r, &(struct reply){.status = 503,
                                      .content_type = HTTP_TEXT,
                                      .nosniff = true,
                                      .body = slice_str("{\"health\":\"false\"}\n")});
    if (is_alone) /* appears while rdzvd can commit nothing */
        conn_note_independent(r->conn);
}

/* --- /v2/stats/store: the counters of the listener's space. --- */

static void write_store_stats(struct writer *w, const struct tree *t)
{
    static const struct {
        const char *succeeded, *failed;
        enum tree_counter counter;
    } counters[] = {
        {"getsSuccess", "getsFail", TREE_GETS},
        {"setsSuccess", "setsFail", TREE_SETS},
        {"deleteSuccess", "deleteFail", TREE_DELETES},
        {"updateSuccess", "updateFail", TREE_UPDATES},
        {"createSuccess", "createFail", TREE_CREATES},
        {"compareAndSwapSuccess", "compareAndSwapFail", TREE_SWAPS},
        {"compareAndDeleteSuccess", "compareAndDeleteFail", TREE_SWAP_DELETES},
    };

    json_open(w, '{');
    for (size_t i = 0; i < sizeof counters / sizeof counters[0]; i++) {
        json_member_u64(w, counters[i].succeeded, t->succeeded[counters[i].counter]);
        json_member_u64(w, counters[i].failed, t->failed[counters[i].counter]);
    }
    json_member_u64(w, "expireCount", t->expired);
    json_member_u64(w, "watchers", t->hub.registered);
    writer_u8(w, '}');
}

void etcd_stats_handle(const struct http_request *r)
{
    struct reply_body body;

    if (!is_method(r, HTTP_GET, "GET"))
        return;
    reply_body_begin(&body);
    write_store_stats(&body.w, &r->space->store->tree);
    reply_body_send(r, &(struct reply){.status = 200, .content_type = HTTP_JSON}, &body);
}

/* --- /v2/auth: an etcd whose auth is off, and stays off. --- */

void etcd_auth_handle(const struct http_request *r)
{
    bool is_switch = slice_is(r->path, "/v2/auth/enable");
    bool is_change = r->head->method == HTTP_PUT || r->head->method == HTTP_DELETE;

    if (!is_switch && !http_is_below(r->path, "/v2/auth/users") &&
        !http_is_below(r->path, "/v2/auth/roles"))
        reply_not_found(r);
    else if (!is_switch || is_change)
        reply_message(r, 403,
                      "rdzvd has no users and no roles: control access with TLS client "
                      "certificates (--client-ca), a NetworkPolicy or --allow, and with the token "
                      "of operators (--admin-token-file)",
                      HTTP_ETCD_CLUSTER);
    else if (is_method(r, HTTP_GET, "GET,PUT,DELETE"))
        reply_send(r, &(struct reply){.status = 200,
                                      .content_type = HTTP_JSON,
                                      .etcd = HTTP_ETCD_CLUSTER,
                                      .body = slice_str("{\"enabled\":false}\n")});
}
