/* /v2/members, /v2/machines and /v2/stats. See handlers.h.
 *
 * Upstream: etcd 3.4.23, etcdserver/api/v2http/client.go and api/membership/member.go. */
#include "rdzv/etcd/handlers.h"

#include <ctype.h>

#include "proto/json.h"
#include "rdzv/config/config.h"
#include "rdzv/engine/log.h"

/* --- Reading. --- */

static void write_urls(struct writer *w, const char *name, const struct string_list *urls)
{
    json_list(w, name);
    for (size_t i = 0; i < urls->count; i++)
        json_item(w, slice_str(urls->items[i]));
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
 * listeners. Then the URL is the name that this client used. */
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
    json_list(w, "clientURLs");
    writer_u8(w, '"');
    writer_slice(w, scheme_of(r));
    writer_slice(w, find_host(r));
    writer_str(w, "\"]");
}

static void write_member(struct writer *w, const struct http_request *r)
{
    const struct config *config = r->http->config;

    json_open(w, '{');
    json_member_str(w, "id", ETCD_ID(r->http->member_id));
    json_member_str(w, "name", config->name);
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

/* --- Changes, all of which are refused. --- */

static void members_refuse_change(const struct http_request *r, struct slice name)
{
    if (r->head->method == HTTP_POST || slice_is(name, ETCD_ID(r->http->member_id))) {
        log_limited(LOG_WARN, "member_change_refused", log_bytes("method", r->head->method_text),
                    log_bytes("path", r->path));
        reply_message(r, 409,
                      "rdzvd is a cluster of one member: none is added, removed or changed (for "
                      "replicas of the daemon, see --journal)",
                      HTTP_ETCD_CLUSTER);
    } else if (name.len == 0) {
        reply_not_allowed(r, NULL, HTTP_ETCD_CLUSTER);
    } else {
        REPLY_MESSAGE(r, 404, HTTP_ETCD_CLUSTER, slice_str("No such member: "), name);
    }
}

/* --- The endpoints. --- */

void etcd_members_handle(const struct http_request *r)
{
    struct slice name = slice_from(r->path, strlen("/v2/members"));

    if (name.len != 0)
        name = slice_from(name, 1);
    if (r->head->method != HTTP_GET)
        members_refuse_change(r, name);
    else if (name.len == 0 || slice_is(name, "leader"))
        reply_member(r, name.len == 0);
    else
        reply_message(r, 404, "Not found", HTTP_ETCD_CLUSTER);
}

/* The URL that the client used comes first: when python-etcd reconnects, it looks for this URL in
 * the list, and fails if the list lacks it. */
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
        struct slice url = slice_str(urls->items[i]);

        if ((slice_starts_with(url, scheme) && slice_equal(slice_from(url, scheme.len), host)) ||
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

    reply_body_begin(&body);
    write_machines(&body.w, r, &r->http->config->advertise_client_urls);
    reply_body_send(r, &(struct reply){.status = 200, .content_type = HTTP_TEXT}, &body);
}

/* --- /v2/stats. Upstream: etcdserver/api/v2stats and v2store/stats.go. --- */

/* Writes value / one with its fraction, without trailing zeros, and the unit. */
static void write_fraction(struct writer *w, uint64_t value, uint64_t one, const char *unit)
{
    uint64_t rest = value % one;

    json_u64(w, value / one);
    if (rest != 0)
        writer_u8(w, '.');
    while (rest != 0) {
        one /= 10;
        writer_u8(w, (uint8_t)('0' + rest / one));
        rest %= one;
    }
    writer_str(w, unit);
}

void etcd_write_duration(struct writer *w, int64_t ns)
{
    uint64_t span = ns < 0 ? 0 : (uint64_t)ns, minutes = span / 60000000000;

    if (span == 0) {
        writer_str(w, "0s");
    } else if (span < 1000) {
        write_fraction(w, span, 1, "ns");
    } else if (span < 1000000) {
        write_fraction(w, span, 1000, "µs");
    } else if (span < 1000000000) {
        write_fraction(w, span, 1000000, "ms");
    } else {
        if (minutes >= 60)
            write_fraction(w, minutes / 60, 1, "h");
        if (minutes > 0)
            write_fraction(w, minutes % 60, 1, "m");
        write_fraction(w, span % 60000000000, 1000000000, "s");
    }
}

static void write_self(struct writer *w, const struct http_request *r)
{
    int64_t started_ns = http_engine(r)->started_ns;
    const char *id = ETCD_ID(r->http->member_id);

    json_open(w, '{');
    json_member_str(w, "name", r->http->config->name);
    json_member_str(w, "id", id);
    writer_str(w, ",\"state\":\"StateLeader\",\"startTime\":");
    json_time(w, started_ns);
    writer_str(w, ",\"leaderInfo\":{");
    json_member_str(w, "leader", id);
    writer_str(w, ",\"uptime\":\"");
    etcd_write_duration(w, engine_wall_ns(http_engine(r)) - started_ns);
    writer_str(w, "\",\"startTime\":");
    json_time(w, started_ns);
    writer_str(w, "},\"recvAppendRequestCnt\":0,\"sendAppendRequestCnt\":0}");
}

static void write_store(struct writer *w, const struct tree *t)
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
    struct slice name = slice_from(r->path, strlen("/v2/stats/"));
    struct reply_body body;

    reply_body_begin(&body);
    if (slice_is(name, "self")) {
        write_self(&body.w, r);
    } else if (slice_is(name, "leader")) {
        json_open(&body.w, '{');
        json_member_str(&body.w, "leader", ETCD_ID(r->http->member_id));
        writer_str(&body.w, ",\"followers\":{}}");
    } else {
        write_store(&body.w, &r->space->store->tree);
    }
    reply_body_send(r, &(struct reply){.status = 200, .content_type = HTTP_JSON}, &body);
}
