/* /v2/members and /v2/machines. See members.h.
 *
 * Upstream: etcd 3.4.23, etcdserver/api/v2http/client.go and api/membership/member.go. */
#include "rdzv/etcd/members.h"

#include <ctype.h>
#include <strings.h>

#include "proto/json.h"
#include "proto/mime.h"
#include "rdzv/config/etcd_ids.h"
#include "rdzv/config/etcd_url.h"
#include "rdzv/engine/log.h"
#include "rdzv/etcd/json_body.h"
#include "rdzv/http/body.h"
#include "rdzv/http/reply.h"

/* --- Reading. --- */

static void write_urls(struct writer *w, const char *name, const struct string_list *urls)
{
    writer_str(w, ",\"");
    writer_str(w, name);
    writer_str(w, "\":[");
    for (size_t i = 0; i < urls->count; i++) {
        if (i > 0)
            writer_u8(w, ',');
        json_string(w, slice_str(urls->items[i]));
    }
    writer_u8(w, ']');
}

/* The name under which the client reached rdzvd: its Host header, if that can stand in a list of
 * URLs. Empty when there is none. */
static struct slice find_host(const struct http_request *r)
{
    struct slice host = r->head->host;

    for (size_t i = 0; i < host.len; i++) {
        if (!isalnum(host.ptr[i]) && strchr("-._:[]", host.ptr[i]) == NULL)
            return (struct slice){0};
    }
    return host;
}

static struct slice scheme_of(const struct http_request *r)
{
    return slice_str(http_is_over_tls(r) ? "https://" : "http://");
}

/* When no setting says under which URLs clients reach rdzvd, the default is wrong for most
 * listeners. Then the URL is the name that this client used, and nothing else. */
static bool host_is_the_url(const struct http_request *r)
{
    const struct config *config = r->http->config;

    return !config->etcd_mode && config->advertise_default && find_host(r).len != 0;
}

static void write_client_urls(struct writer *w, const struct http_request *r)
{
    if (!host_is_the_url(r)) {
        write_urls(w, "clientURLs", &r->http->config->advertise_client_urls);
        return;
    }
    writer_str(w, ",\"clientURLs\":[\"");
    writer_slice(w, scheme_of(r));
    writer_slice(w, find_host(r));
    writer_str(w, "\"]");
}

static void write_member(struct writer *w, const struct http_request *r)
{
    const struct config *config = r->http->config;
    char id[17];

    etcd_format_id(r->http->member_id, id);
    writer_str(w, "{\"id\":\"");
    writer_str(w, id);
    writer_str(w, "\",\"name\":");
    json_string(w, slice_str(config->name));
    write_urls(w, "peerURLs", &config->advertise_peer_urls);
    write_client_urls(w, r);
    writer_u8(w, '}');
}

static void reply_member(const struct http_request *r, bool list)
{
    struct reply_body body;

    reply_body_begin(&body);
    if (list)
        writer_str(&body.w, "{\"members\":[");
    write_member(&body.w, r);
    writer_str(&body.w, list ? "]}\n" : "\n");
    reply_body_send(
        r, &(struct reply){.status = 200, .content_type = HTTP_JSON, .etcd = HTTP_ETCD_CLUSTER},
        &body);
}

/* --- Changes, which are checked as etcd checks them, and then refused. --- */

#define REPLY(r, status, ...) REPLY_MESSAGE((r), (status), HTTP_ETCD_CLUSTER, __VA_ARGS__)

/* The reply of an etcd that will not remove its only member. */
static void reply_refused(const struct http_request *r)
{
    log_limited(LOG_WARN, "member_change_refused", log_bytes("method", r->head->method_text),
                log_bytes("path", r->path));
    reply_message(r, 500, "Internal Server Error", HTTP_ETCD_CLUSTER);
}

static bool check_content_type(const struct http_request *r)
{
    struct slice type = r->head->content_type;
    const uint8_t *semicolon = type.len == 0 ? NULL : memchr(type.ptr, ';', type.len);

    if (semicolon != NULL)
        type.len = (size_t)(semicolon - type.ptr);
    if (mime_type_is(type, HTTP_JSON))
        return true;
    REPLY(r, 415, slice_str("Bad Content-Type "), type, slice_str(", accept application/json"));
    return false;
}

static bool is_ours(const struct http_request *r, const char *url)
{
    const struct string_list *ours = &r->http->config->advertise_peer_urls;

    for (size_t i = 0; i < ours->count; i++) {
        if (strcasecmp(url, ours->items[i]) == 0)
            return true;
    }
    return false;
}

/* What the URLs of a request are, compared with our own. */
struct url_counts {
    size_t given;
    size_t ours;
};

/* NULL when all URLs of {"peerURLs":["http://HOST:PORT"]} are good ones, else what is wrong. */
static const char *count_urls(const struct http_request *r, const cJSON *body,
                              struct url_counts *counts)
{
    const cJSON *urls = cJSON_GetObjectItem(body, "peerURLs"), *url;

    if (body == NULL)
        return "Invalid JSON in request body.";
    cJSON_ArrayForEach(url, urls)
    {
        const char *problem = "a URL must be a string; write http://HOST:PORT";

        if (cJSON_IsString(url))
            problem = etcd_url_check(url->valuestring, NULL);
        if (problem != NULL)
            return problem;
        counts->given++;
        counts->ours += is_ours(r, url->valuestring);
    }
    return counts->given == 0 ? "no valid URLs given" : NULL;
}

/* Reads the body of a POST or a PUT. False: the reply has been sent. */
static bool read_urls(const struct http_request *r, struct url_counts *counts)
{
    const char *problem;
    cJSON *body;

    if (!check_content_type(r) || !json_body_has_room(r))
        return false;
    body = json_body_parse(r->body);
    problem = count_urls(r, body, counts);
    cJSON_Delete(body);
    if (problem != NULL)
        reply_message(r, 400, problem, HTTP_ETCD_CLUSTER);
    return problem == NULL;
}

static void add_member(const struct http_request *r)
{
    struct url_counts counts = {0};

    if (!read_urls(r, &counts))
        return;
    if (counts.ours != 0)
        reply_message(r, 409, "membership: peerURL exists", HTTP_ETCD_CLUSTER);
    else
        reply_refused(r);
}

/* As strconv.ParseUint(text, 16, 64). */
static bool parse_id(struct slice text, uint64_t *id)
{
    uint64_t value = 0;

    for (size_t i = 0; i < text.len; i++) {
        uint8_t c = text.ptr[i];
        const char *digits = "0123456789abcdef";
        const char *digit = strchr(digits, c >= 'A' && c <= 'F' ? c | 0x20 : c);

        if (c == 0 || digit == NULL || value >> 60 != 0)
            return false;
        value = value << 4 | (uint64_t)(digit - digits);
    }
    *id = value;
    return text.len != 0;
}

static void reply_no_member(const struct http_request *r, struct slice id)
{
    REPLY(r, 404, slice_str("No such member: "), id);
}

static void change_member(const struct http_request *r, struct slice name)
{
    struct url_counts counts = {0};
    char text[17];
    uint64_t id;

    if (name.len == 0) {
        reply_not_allowed(r, NULL, HTTP_ETCD_CLUSTER);
        return;
    }
    if (!parse_id(name, &id)) {
        reply_no_member(r, name);
        return;
    }
    if (r->head->method == HTTP_PUT && !read_urls(r, &counts))
        return;
    etcd_format_id(id, text);
    if (id != r->http->member_id)
        reply_no_member(r, slice_str(text));
    else if (counts.given != 0 && counts.given == counts.ours)
        reply_send(r, &(struct reply){.status = 204, .etcd = HTTP_ETCD_CLUSTER});
    else
        reply_refused(r);
}

/* --- The endpoints. --- */

void etcd_members_handle(const struct http_request *r)
{
    struct slice name = slice_from(r->path, strlen("/v2/members"));
    enum http_method method = r->head->method;

    if (name.len != 0)
        name = slice_from(name, 1);
    if (method != HTTP_GET && method != HTTP_POST && method != HTTP_DELETE && method != HTTP_PUT)
        reply_not_allowed(r, "GET,POST,DELETE,PUT", HTTP_ETCD_NONE);
    else if (method == HTTP_POST)
        add_member(r);
    else if (method != HTTP_GET)
        change_member(r, name);
    else if (name.len == 0 || slice_is(name, "leader"))
        reply_member(r, name.len == 0);
    else
        reply_message(r, 404, "Not found", HTTP_ETCD_CLUSTER);
}

static bool is_url_of(const char *url, struct slice scheme, struct slice host)
{
    struct slice text = slice_str(url);

    return slice_starts_with(text, scheme) && slice_equal(slice_from(text, scheme.len), host);
}

/* The URL that the client used comes first: python-etcd looks for it in the list when it has to
 * reconnect, and fails when it is not there. */
static void write_machines(struct writer *w, const struct http_request *r,
                           const struct string_list *urls)
{
    struct slice scheme = scheme_of(r), host = find_host(r);
    bool any = host.len != 0;

    if (any) {
        writer_slice(w, scheme);
        writer_slice(w, host);
    }
    for (size_t i = 0; i < urls->count && !host_is_the_url(r); i++) {
        if (is_url_of(urls->items[i], scheme, host) ||
            (i > 0 && strcmp(urls->items[i], urls->items[i - 1]) == 0))
            continue;
        if (any)
            writer_str(w, ", ");
        writer_str(w, urls->items[i]);
        any = true;
    }
}

void etcd_machines_handle(const struct http_request *r)
{
    struct reply_body body;

    if (r->head->method != HTTP_GET && r->head->method != HTTP_HEAD) {
        reply_not_allowed(r, "GET,HEAD", HTTP_ETCD_NONE);
        return;
    }
    reply_body_begin(&body);
    write_machines(&body.w, r, &r->http->config->advertise_client_urls);
    reply_body_send(r, &(struct reply){.status = 200, .content_type = HTTP_TEXT}, &body);
}
