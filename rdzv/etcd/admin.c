/* The small endpoints of etcd that are about no key, and /v2/auth. See handlers.h.
 *
 * Upstream: etcd 3.4.23, etcdserver/api/etcdhttp. */
#include "rdzv/etcd/handlers.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <stdio.h>
#include <strings.h>

#include "rdzv/engine/log.h"
#include "rdzv/http/access.h"

static void reply_ok(const struct http_request *r, const char *content_type, const char *body)
{
    reply_send(
        r, &(struct reply){.status = 200, .content_type = content_type, .body = slice_str(body)});
}

void etcd_version_handle(const struct http_request *r)
{
    reply_ok(r, HTTP_JSON, "{\"etcdserver\":\"3.4.23\",\"etcdcluster\":\"3.4.0\"}");
}

void etcd_health_handle(const struct http_request *r)
{
    bool is_alone = r->conn->out.bytes == 0;

    /* etcd raises its alarm NOSPACE for a disk that takes no changes. */
    if (http_engine(r)->refusal == NULL || http_excludes(r, "NOSPACE"))
        reply_ok(r, HTTP_TEXT, "{\"health\":\"true\"}");
    else
        reply_text(r, 503, "{\"health\":\"false\"}\n");
    if (is_alone) /* appears while rdzvd can commit nothing */
        conn_note_independent(r->conn);
}

/* Go's variables tell about its own runtime, but for this one. */
void etcd_vars_handle(const struct http_request *r)
{
    char text[128];

    snprintf(text, sizeof text, "{\n\"file_descriptor_limit\": %" PRIu64 "\n}\n",
             conn_net(r->conn)->descriptors_max);
    reply_ok(r, "application/json; charset=utf-8", text);
}

/* --- The log's level. --- */

#define LEVEL_BODY_MAX 1024

/* The names of etcd's logger, and what they come to here. */
static bool parse_level(struct slice name, enum log_level *level)
{
    static const struct {
        const char *names[3];
        enum log_level level;
    } levels[] = {
        {{"CRITICAL", "C"}, LOG_ERROR},    {{"ERROR", "E", "0"}, LOG_ERROR},
        {{"WARNING", "W", "1"}, LOG_WARN}, {{"NOTICE", "N", "2"}, LOG_INFO},
        {{"INFO", "I", "3"}, LOG_INFO},    {{"DEBUG", "D", "4"}, LOG_DEBUG},
        {{"TRACE", "T", "5"}, LOG_DEBUG},
    };

    for (size_t i = 0; i < sizeof levels / sizeof levels[0]; i++) {
        for (size_t k = 0; k < 3 && levels[i].names[k] != NULL; k++) {
            const char *known = levels[i].names[k];

            if (name.len == strlen(known) &&
                strncasecmp((const char *)name.ptr, known, name.len) == 0) {
                *level = levels[i].level;
                return true;
            }
        }
    }
    return false;
}

static void set_level(const struct http_request *r, struct slice name)
{
    struct log_options options = {.format = r->http->config->log_format, .fd = 2};

    if (!parse_level(name, &options.level)) {
        REPLY_MESSAGE(r, 400, HTTP_ETCD_NONE, slice_str("Invalid log level "), name);
        return;
    }
    log_event(LOG_INFO, "log_level", log_bytes("level", name));
    log_init(&options);
    reply_send(r, &(struct reply){.status = 204});
}

/* {"Level":"INFO"}. Other than in etcd, only for operators: it could silence the log of all. */
void etcd_log_level_handle(const struct http_request *r)
{
    const cJSON *level;
    cJSON *body;

    if (!http_may_change_daemon(r))
        return;
    body = cJSON_ParseWithLength((const char *)r->body.ptr,
                                 r->body.len <= LEVEL_BODY_MAX ? r->body.len : 0);
    level = cJSON_GetObjectItem(body, "Level");
    if (cJSON_IsString(level))
        set_level(r, slice_str(level->valuestring));
    else
        reply_message(r, 400, "Invalid json body", HTTP_ETCD_NONE);
    cJSON_Delete(body);
}

/* --- /v2/auth as an etcd answers that has no users: reads say so, changes are refused. Upstream:
 * etcdserver/api/v2http/client_auth.go, texts included. --- */

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

void etcd_auth_handle(const struct http_request *r)
{
    struct slice path = slice_from(r->path, strlen("/v2/auth")), name;
    bool users = http_is_below(path, "/users");

    if (users || http_is_below(path, "/roles")) {
        name = slice_from(path, strlen("/users")); /* and "/roles" */
        if (name.len > 1 && name.ptr[name.len - 1] == '/')
            name.len--;
        if (name.len <= 1)
            handle_list(r, users);
        else
            handle_item(r, slice_from(name, 1), users);
    } else if (!slice_is(path, "/enable")) {
        reply_not_found(r);
    } else if (is_read(r)) {
        reply_json(r, "{\"enabled\":false}\n");
    }
}
