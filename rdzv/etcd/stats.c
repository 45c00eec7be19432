/* /v2/stats. See handlers.h.
 *
 * Upstream: etcd 3.4.23, etcdserver/api/v2stats and v2store/stats.go. */
#include "rdzv/etcd/handlers.h"

#include "proto/json.h"
#include "rdzv/config/config.h"

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

static void write_leader(struct writer *w, const struct http_request *r)
{
    json_open(w, '{');
    json_member_str(w, "leader", ETCD_ID(r->http->member_id));
    writer_str(w, ",\"followers\":{}}");
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
    if (slice_is(name, "self"))
        write_self(&body.w, r);
    else if (slice_is(name, "leader"))
        write_leader(&body.w, r);
    else
        write_store(&body.w, &r->space->store->tree);
    reply_body_send(r, &(struct reply){.status = 200, .content_type = HTTP_JSON}, &body);
}
