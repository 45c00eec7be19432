/* The daemon's own HTTP endpoints. See rdzv_api.h.
 *
 *     GET /livez            the loop turns
 *     GET /readyz           and the daemon takes clients: 503 once it is shutting down
 *     GET /readyz?verbose   which checks there are and what they say
 *     GET /rdzv/v1/spaces   {"spaces":[{"name":…,"keys":…,"bytes":…,"queues":…,"etcd_nodes":…,
 *                           "connections":…},…]}; the connections are those that speak c10d
 *     DELETE /rdzv/v1/spaces/NAME   empties a space: {"space":NAME,"removed":N},
 *                           N being its keys, queues and etcd nodes
 *     …/NAME/runs           see runs_api.c
 *
 * The checks are written as Kubernetes writes its own. */
#include "rdzv/admin/spaces.h"

#include <stdlib.h>

#include "proto/json.h"
#include "rdzv/admin/runs.h"
#include "rdzv/engine/log.h"
#include "rdzv/http/reply.h"
#include "rdzv/net/conn.h"
#include "rdzv/rendezvous/elastic.h"
#include "rdzv/server.h"

#define SPACES "/rdzv/v1/spaces"

static bool is_reading(const struct http_request *r)
{
    return r->head->method == HTTP_GET || r->head->method == HTTP_HEAD;
}

/* --- Health. --- */

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

static bool has_listener(const struct server *s)
{
    const struct listener *listener;

    TAILQ_FOREACH(listener, &s->listeners, entry) {
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
    http_reply(r, &(struct http_answer){.status = ok ? 200 : 503,
                                        .content_type = HTTP_TEXT,
                                        .nosniff = true,
                                        .body = {w.ptr, w.len}});
}

/* That this code runs is what /livez says. The store has no way of its own to fail. */
static void handle_health(const struct http_request *r, bool ready)
{
    const struct server *s = r->server;
    const struct check checks[] = {
        {"loop", true},
        {"store", !TAILQ_EMPTY(&s->store.spaces)},
        {"listeners", s->draining || has_listener(s)},
        {"shutdown", !s->draining},
    };

    if (!is_reading(r))
        http_reply_not_allowed(r, "GET,HEAD", HTTP_ETCD_NONE);
    else
        reply_checks(r, ready ? "readyz" : "livez", checks,
                     ready ? sizeof checks / sizeof checks[0] : 1);
}

/* --- Spaces. --- */

static void write_space(struct writer *w, const struct server_space *entry)
{
    const struct space *space = entry->space;
    const struct space_usage use = store_usage(space);

    writer_str(w, "{\"name\":");
    json_string(w, slice_str(space->name));
    writer_str(w, ",\"keys\":");
    json_u64(w, use.keys);
    writer_str(w, ",\"bytes\":");
    json_u64(w, use.bytes);
    writer_str(w, ",\"queues\":");
    json_u64(w, use.queues);
    writer_str(w, ",\"etcd_nodes\":");
    json_u64(w, space->tree.nodes.count - 1);
    writer_str(w, ",\"connections\":");
    json_u64(w, entry->c10d_conns);
    writer_u8(w, '}');
}

static void write_spaces(struct writer *w, const struct server *s)
{
    const struct server_space *entry;

    writer_str(w, "{\"spaces\":[");
    TAILQ_FOREACH(entry, &s->spaces, entry) {
        if (entry != TAILQ_FIRST(&s->spaces))
            writer_u8(w, ',');
        write_space(w, entry);
    }
    writer_str(w, "]}\n");
}

static void list_spaces(const struct http_request *r)
{
    struct writer w = {0};

    write_spaces(&w, r->server);
    w = (struct writer){.ptr = malloc(w.len), .cap = w.len};
    if (w.ptr != NULL)
        write_spaces(&w, r->server);
    http_reply(r, &(struct http_answer){.status = w.ptr == NULL ? 500 : 200,
                                        .content_type = HTTP_JSON,
                                        .body = {w.ptr, w.ptr == NULL ? 0 : w.len}});
    free(w.ptr);
}

static void reset_space(const struct http_request *r, struct space *space)
{
    const struct command command = {.kind = COMMAND_SPACE_RESET, .now_ns = server_now_ns()};
    /* As GET lists them; the command counts a tree by the children of its root. */
    const struct space_usage use = store_usage(space);
    uint64_t removed = use.keys + use.queues + space->tree.nodes.count - 1;
    struct store_result result;
    char peer[CONN_PEER_MAX];
    uint8_t text[512];
    struct writer w = {.ptr = text, .cap = sizeof text};

    server_apply(r->server, space, &command, &result);
    elastic_space_reset(r->server, space);
    log_event(LOG_INFO, "space_reset", log_str("space", space->name), log_u64("removed", removed),
              log_str("peer", conn_peer(r->conn, peer)));
    writer_str(&w, "{\"space\":");
    json_string(&w, slice_str(space->name));
    writer_str(&w, ",\"removed\":");
    json_u64(&w, removed);
    writer_str(&w, "}\n");
    http_reply(
        r, &(struct http_answer){.status = 200, .content_type = HTTP_JSON, .body = {w.ptr, w.len}});
}

static void handle_space(const struct http_request *r, struct slice name)
{
    struct space *space = store_find_space(&r->server->store, name);

    if (r->head->method != HTTP_DELETE)
        http_reply_not_allowed(r, "DELETE", HTTP_ETCD_NONE);
    else if (!runs_api_may_change(r))
        return;
    else if (space == NULL)
        HTTP_REPLY_MESSAGE(r, 404, HTTP_ETCD_NONE, slice_str("No such space: "), name);
    else
        reset_space(r, space);
}

/* "NAME", or "NAME/runs…". A space's name holds no '/'. */
static void handle_below(const struct http_request *r, struct slice path)
{
    static const char runs[] = "/runs";
    const uint8_t *slash = memchr(path.ptr, '/', path.len);
    struct slice name = {path.ptr, slash == NULL ? path.len : (size_t)(slash - path.ptr)};
    struct slice rest = slice_from(path, name.len);

    if (rest.len == 0) {
        handle_space(r, name);
        return;
    }
    if (slice_starts_with(rest, slice_str(runs))) {
        rest = slice_from(rest, strlen(runs));
        if (rest.len == 0 || (rest.len > 1 && rest.ptr[0] == '/')) {
            runs_api_handle(r, store_find_space(&r->server->store, name), name, rest);
            return;
        }
    }
    http_reply_not_found(r);
}

bool rdzv_api_handle(const struct http_request *r)
{
    struct slice name;

    if (slice_is(r->path, "/livez") || slice_is(r->path, "/readyz")) {
        handle_health(r, slice_is(r->path, "/readyz"));
        return true;
    }
    if (!slice_starts_with(r->path, slice_str(SPACES)))
        return false;
    name = slice_from(r->path, strlen(SPACES));
    if (name.len == 0) {
        if (is_reading(r))
            list_spaces(r);
        else
            http_reply_not_allowed(r, "GET,HEAD", HTTP_ETCD_NONE);
        return true;
    }
    if (name.ptr[0] != '/' || name.len == 1)
        return false;
    handle_below(r, slice_from(name, 1));
    return true;
}
