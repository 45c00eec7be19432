/* /v2/members and /v2/machines. See etcd_members.h.
 *
 * Upstream: etcd 3.4, etcdserver/api/v2http/client.go and api/membership/member.go; the spec
 * folder's etcd-v2.md, sections 10 and 11. */
#include "rdzv/etcd/members.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "proto/json.h"
#include "proto/json_read.h"
#include "rdzv/config/peer_url.h"
#include "rdzv/config/sha1.h"
#include "rdzv/engine/log.h"
#include "rdzv/etcd/auth.h"
#include "rdzv/http/body.h"
#include "store/xalloc.h"

/* --- Sorted URLs: etcd never shows them in the order in which they were given. --- */

static int compare_strings(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* A list whose items are those of `list`; the caller frees the array. */
static struct string_list sort_urls(const struct string_list *list)
{
    struct string_list sorted = {xcalloc(list->count + 1, sizeof *sorted.items), list->count};

    for (size_t i = 0; i < list->count; i++)
        sorted.items[i] = list->items[i];
    qsort(sorted.items, sorted.count, sizeof *sorted.items, compare_strings);
    return sorted;
}

/* --- Ids. --- */

static uint64_t id_of(struct slice bytes)
{
    uint8_t digest[SHA1_SIZE];
    uint64_t id = 0;

    sha1(bytes, digest);
    for (size_t i = 0; i < 8; i++)
        id = id << 8 | digest[i];
    return id;
}

void etcd_ids(const struct config *config, uint64_t *member, uint64_t *cluster)
{
    struct string_list urls = sort_urls(&config->advertise_peer_urls);
    size_t cap = strlen(config->initial_cluster_token);
    uint8_t member_bytes[8];
    struct writer w;

    for (size_t i = 0; i < urls.count; i++)
        cap += strlen(urls.items[i]);
    w = (struct writer){.ptr = xcalloc(1, cap + 1), .cap = cap};
    for (size_t i = 0; i < urls.count; i++)
        writer_str(&w, urls.items[i]);
    writer_str(&w, config->initial_cluster_token);
    *member = id_of((struct slice){w.ptr, w.len});
    for (size_t i = 0; i < 8; i++)
        member_bytes[i] = (uint8_t)(*member >> (56 - 8 * i));
    *cluster = id_of((struct slice){member_bytes, sizeof member_bytes});
    free(w.ptr);
    free(urls.items);
}

void etcd_format_id(uint64_t id, char text[17])
{
    snprintf(text, 17, "%" PRIx64, id);
}

/* --- Reading. --- */

static void write_urls(struct writer *w, const char *name, const struct string_list *list)
{
    struct string_list urls = sort_urls(list);

    writer_str(w, ",\"");
    writer_str(w, name);
    writer_str(w, "\":[");
    for (size_t i = 0; i < urls.count; i++) {
        if (i > 0)
            writer_u8(w, ',');
        json_string(w, slice_str(urls.items[i]));
    }
    writer_u8(w, ']');
    free(urls.items);
}

/* The name under which the client has reached us: its Host header, if that can stand in a list of
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

/* Started without etcd's flags, nobody said under which URLs clients reach us, and the default is
 * wrong for most listeners. Then it is the name that this client used, and nothing else. */
static bool host_is_the_url(const struct http_request *r)
{
    return !r->http->config->etcd_mode && find_host(r).len != 0;
}

static void write_client_urls(struct writer *w, const struct http_request *r)
{
    if (!host_is_the_url(r)) {
        write_urls(w, "clientURLs", &r->http->config->advertise_client_urls);
        return;
    }
    writer_str(w, ",\"clientURLs\":[\"http://");
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
    http_reply_body(
        r,
        &(struct http_answer){.status = 200, .content_type = HTTP_JSON, .etcd = HTTP_ETCD_CLUSTER},
        &body);
}

/* --- Changes, which are checked as etcd checks them, and then refused. --- */

#define REPLY(r, status, ...) HTTP_REPLY_MESSAGE((r), (status), HTTP_ETCD_CLUSTER, __VA_ARGS__)

/* As etcd answers when it will not remove its only member. */
static void reply_refused(const struct http_request *r)
{
    log_limited(LOG_WARN, "member_change_refused", log_bytes("method", r->head->method_text),
                log_bytes("path", r->path));
    http_reply_message(r, 500, "Internal Server Error", HTTP_ETCD_CLUSTER);
}

/* The media type, without parameters and in lower case if it has any: that is how etcd compares it.
 * `out` has room for it. */
static struct slice trim_type(struct slice type, uint8_t *out)
{
    const uint8_t *semicolon = type.len == 0 ? NULL : memchr(type.ptr, ';', type.len);

    if (semicolon == NULL)
        return type;
    type.len = (size_t)(semicolon - type.ptr);
    for (size_t i = 0; i < type.len; i++) {
        uint8_t c = type.ptr[i];

        out[i] = c >= 'A' && c <= 'Z' ? c | 0x20 : c;
    }
    return peer_url_trim((struct slice){out, type.len});
}

static bool check_content_type(const struct http_request *r)
{
    uint8_t *room = malloc(r->head->content_type.len + 1);
    struct slice type = {0};
    bool ok;

    if (room != NULL)
        type = trim_type(r->head->content_type, room);
    ok = slice_is(type, HTTP_JSON);
    if (!ok)
        REPLY(r, 415, slice_str("Bad Content-Type "), type, slice_str(", accept application/json"));
    free(room);
    return ok;
}

static const char *go_kind(struct slice value)
{
    static const char *const names[] = {
        [JSON_NULL] = "null",     [JSON_BOOL] = "bool",   [JSON_NUMBER] = "number",
        [JSON_STRING] = "string", [JSON_ARRAY] = "array", [JSON_OBJECT] = "object",
    };

    return names[json_kind(value)];
}

static bool reply_wrong_kind(const struct http_request *r, struct slice value, const char *wanted)
{
    REPLY(r, 400, slice_str("json: cannot unmarshal "), slice_str(go_kind(value)),
          slice_str(" into Go "), slice_str(wanted));
    return false;
}

/* Finds the list of URLs: the last member that is one, as in Go. *list is empty when there is
 * none. Go goes on reading behind a value of the wrong kind and reports the first such one. */
static bool find_urls(const struct http_request *r, struct slice body, struct slice *list)
{
    struct slice name, value, element, elements;

    if (json_kind(body) == JSON_NULL)
        return true;
    if (json_kind(body) != JSON_OBJECT)
        return reply_wrong_kind(
            r, body, "value of type struct { PeerURLs []string \"json:\\\"peerURLs\\\"\" }");
    while (json_next_member(&body, &name, &value)) {
        if (!json_name_is(name, "peerURLs"))
            continue;
        *list = (struct slice){0};
        if (json_kind(value) == JSON_NULL)
            continue;
        if (json_kind(value) != JSON_ARRAY)
            return reply_wrong_kind(r, value, "struct field .peerURLs of type []string");
        *list = elements = value;
        while (json_next_element(&elements, &element)) {
            if (json_kind(element) != JSON_STRING && json_kind(element) != JSON_NULL)
                return reply_wrong_kind(r, element, "struct field .peerURLs of type string");
        }
    }
    return true;
}

/* Two spellings of one URL; Go writes schemes in lower case. */
static bool is_same_url(struct slice url, const char *ours)
{
    const uint8_t *colon = memchr(url.ptr, ':', url.len);
    size_t scheme = colon == NULL ? 0 : (size_t)(colon - url.ptr);

    return url.len == strlen(ours) && strncasecmp((const char *)url.ptr, ours, scheme) == 0 &&
           memcmp(url.ptr + scheme, ours + scheme, url.len - scheme) == 0;
}

static bool is_ours(const struct http_request *r, struct slice url)
{
    const struct string_list *ours = &r->http->config->advertise_peer_urls;

    for (size_t i = 0; i < ours->count; i++) {
        if (is_same_url(url, ours->items[i]))
            return true;
    }
    return false;
}

/* What the URLs of a request are, compared with our own. */
struct url_counts {
    size_t given;
    size_t ours;
};

/* False: the answer has been sent. `bytes` and `text` have room for any URL and what is wrong with
 * it. */
static bool check_urls(const struct http_request *r, struct slice list, uint8_t *bytes,
                       struct writer *text, struct url_counts *counts)
{
    struct slice element;

    while (list.len != 0 && json_next_element(&list, &element)) {
        struct slice url = {bytes, 0};

        if (json_kind(element) == JSON_STRING)
            url.len = json_unquote(element, bytes);
        url = peer_url_trim(url);
        if (!peer_url_check(url, text)) {
            REPLY(r, 400, {text->ptr, text->len});
            return false;
        }
        counts->given++;
        counts->ours += is_ours(r, url);
    }
    if (counts->given == 0)
        http_reply_message(r, 400, "no valid URLs given", HTTP_ETCD_CLUSTER);
    return counts->given != 0;
}

/* Reads the body of a POST or a PUT. False: the answer has been sent. */
static bool read_urls(const struct http_request *r, struct url_counts *counts)
{
    size_t bytes_cap = JSON_UNQUOTED_MAX(r->body.len) + 1;
    size_t text_cap = 4 * bytes_cap + 128; /* quoting makes four characters of a control */
    struct slice body, list = {0};
    struct json_error why;
    struct writer text;
    uint8_t *bytes;
    bool ok;

    if (!check_content_type(r))
        return false;
    if (!json_take(r->body, true, &body, &why)) {
        REPLY(r, 400, slice_str(why.text));
        return false;
    }
    if (!find_urls(r, body, &list))
        return false;
    bytes = malloc(bytes_cap + text_cap);
    if (bytes == NULL) {
        reply_refused(r);
        return false;
    }
    text = (struct writer){.ptr = bytes + bytes_cap, .cap = text_cap};
    ok = check_urls(r, list, bytes, &text, counts);
    free(bytes);
    return ok;
}

static void add_member(const struct http_request *r)
{
    struct url_counts counts = {0};

    if (!read_urls(r, &counts))
        return;
    if (counts.ours != 0)
        http_reply_message(r, 409, "membership: peerURL exists", HTTP_ETCD_CLUSTER);
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
        http_reply_not_allowed(r, NULL, HTTP_ETCD_CLUSTER);
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
        http_reply(r, &(struct http_answer){.status = 204, .etcd = HTTP_ETCD_CLUSTER});
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
        http_reply_not_allowed(r, "GET,POST,DELETE,PUT", HTTP_ETCD_NONE);
    else if (method != HTTP_GET && !etcd_auth_is_root(r))
        etcd_auth_reply_refused(r);
    else if (method == HTTP_POST)
        add_member(r);
    else if (method != HTTP_GET)
        change_member(r, name);
    else if (name.len == 0 || slice_is(name, "leader"))
        reply_member(r, name.len == 0);
    else
        http_reply_message(r, 404, "Not found", HTTP_ETCD_CLUSTER);
}

static bool is_url_of(const char *url, struct slice host)
{
    struct slice text = slice_str(url), scheme = slice_str("http://");

    return slice_starts_with(text, scheme) && slice_equal(slice_from(text, scheme.len), host);
}

/* The URL that the client used comes first: python-etcd looks for it in the list when it has to
 * reconnect, and fails when it is not there. */
static void write_machines(struct writer *w, const struct http_request *r,
                           const struct string_list *urls)
{
    struct slice host = find_host(r);
    bool any = host.len != 0;

    if (any) {
        writer_str(w, "http://");
        writer_slice(w, host);
    }
    for (size_t i = 0; i < urls->count && !host_is_the_url(r); i++) {
        if (is_url_of(urls->items[i], host) ||
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
    struct string_list urls;
    struct reply_body body;

    if (r->head->method != HTTP_GET && r->head->method != HTTP_HEAD) {
        http_reply_not_allowed(r, "GET,HEAD", HTTP_ETCD_NONE);
        return;
    }
    urls = sort_urls(&r->http->config->advertise_client_urls);
    reply_body_begin(&body);
    write_machines(&body.w, r, &urls);
    http_reply_body(r, &(struct http_answer){.status = 200, .content_type = HTTP_TEXT}, &body);
    free(urls.items);
}
