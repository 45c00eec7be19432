/* /rdzv/v1/spaces. See handlers.h for the contract. */
#include "proto/json.h"
#include "rdzv/admin/handlers.h"
#include "rdzv/engine/log.h"
#include "rdzv/http/access.h"
#include "rdzv/http/reply.h"

static void write_space_row(struct writer *w, const struct engine_space *entry)
{
    const struct space *space = entry->store;
    const struct space_usage use = space_usage(space);

    json_open(w, '{');
    json_member_str(w, "name", space->name);
    json_member_u64(w, "keys", use.keys);
    json_member_u64(w, "bytes", use.bytes);
    json_member_u64(w, "queues", use.queues);
    json_member_u64(w, "etcd_nodes", space->tree.count - 1);
    json_member_u64(w, "connections", entry->c10d_sessions);
    writer_u8(w, '}');
}

static void write_spaces(struct writer *w, const struct http_request *r)
{
    bool all = http_shows_all_spaces(r);
    const struct engine_space *entry;

    writer_str(w, "{\"spaces\":[");
    TAILQ_FOREACH(entry, &http_engine(r)->spaces, entry) {
        if (all || entry == r->space)
            write_space_row(w, entry);
    }
    writer_str(w, "]}\n");
}

static void list_spaces(const struct http_request *r)
{
    struct reply_body body;

    reply_body_begin(&body);
    write_spaces(&body.w, r);
    reply_body_send(r, &(struct reply){.status = 200, .content_type = HTTP_JSON}, &body);
}

static void reset_space(const struct http_request *r, struct engine_space *space)
{
    const struct command command = {.kind = COMMAND_SPACE_RESET,
                                    .now_ns = engine_wall_ns(http_engine(r))};
    const char *name = space->store->name;
    /* As GET lists them; the command counts a tree by the children of its root. */
    const struct space_usage use = space_usage(space->store);
    uint64_t removed = use.keys + use.queues + space->store->tree.count - 1;
    struct store_result result;
    char peer[CONN_PEER_MAX];
    struct reply_body body;

    engine_apply(http_engine(r), space, &command, &result);
    log_event(LOG_INFO, "space_reset", log_str("space", name), log_u64("removed", removed),
              log_str("peer", conn_peer(r->conn, peer)));
    reply_body_begin(&body);
    json_open(&body.w, '{');
    json_member_str(&body.w, "space", name);
    json_member_u64(&body.w, "removed", removed);
    writer_str(&body.w, "}\n");
    reply_body_send(r, &(struct reply){.status = 200, .content_type = HTTP_JSON}, &body);
}

static void handle_space(const struct http_request *r, struct slice name)
{
    struct engine_space *space = engine_find_space(http_engine(r), name);

    if (r->head->method != HTTP_DELETE)
        reply_not_allowed(r, "DELETE", HTTP_ETCD_NONE);
    else if (!http_may_change_daemon(r))
        return;
    else if (space == NULL)
        REPLY_MESSAGE(r, 404, HTTP_ETCD_NONE, slice_str("No such space: "), name);
    else
        reset_space(r, space);
}

/* NULL if the space does not exist or this client may not see it. */
static struct engine_space *find_space_shown(const struct http_request *r, struct slice name)
{
    struct engine_space *space = engine_find_space(http_engine(r), name);

    return space == r->space || http_shows_all_spaces(r) ? space : NULL;
}

/* "NAME", "NAME/status", or "NAME/runs/ID". A space's name holds no '/'. */
static void handle_below(const struct http_request *r, struct slice path)
{
    static const char runs[] = "/runs/";
    const uint8_t *slash = memchr(path.ptr, '/', path.len);
    struct slice name = {path.ptr, slash == NULL ? path.len : (size_t)(slash - path.ptr)};
    struct slice rest = slice_from(path, name.len);

    if (rest.len == 0)
        handle_space(r, name);
    else if (slice_is(rest, "/status"))
        admin_space_status_handle(r, find_space_shown(r, name), name);
    else if (slice_starts_with(rest, slice_str(runs)) && rest.len > strlen(runs))
        admin_run_handle(r, find_space_shown(r, name), name, slice_from(rest, strlen(runs)));
    else
        reply_not_found(r);
}

void admin_spaces_handle(const struct http_request *r)
{
    struct slice name = slice_from(r->path, strlen("/rdzv/v1/spaces"));

    if (name.len > 1)
        handle_below(r, slice_from(name, 1));
    else if (name.len == 1)
        reply_not_found(r);
    else if (http_is_reading(r))
        list_spaces(r);
    else
        reply_not_allowed(r, "GET,HEAD", HTTP_ETCD_NONE);
}
