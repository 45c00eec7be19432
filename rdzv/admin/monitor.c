/* Requests as they are carried out. See monitor.h for the contract. */
#include "rdzv/admin/monitor.h"

#include "proto/json.h"
#include "rdzv/admin/handlers.h"
#include "rdzv/c10d/session.h"
#include "rdzv/http/access.h"
#include "rdzv/http/reply.h"

#define EVERY_MS 100

/* A sample takes at most so many bytes: a byte of a key, six. */
#define SAMPLE_MAX (MONITOR_KEY_MAX * 6 + 1024)
#define TEXT_MAX   (128u << 10)

static struct monitor *monitor_of(struct event_stream *s)
{
    return (struct monitor *)(void *)s; /* its first member */
}

/* --- Samples. --- */

static bool takes_more(const struct monitor *m)
{
    return m->left > 0 && TEXT_MAX - m->len >= SAMPLE_MAX;
}

struct sample {
    struct conn *conn;
    const char *protocol;
    const char *operation;
    struct slice key; /* the first; of HTTP, the path */
    uint64_t keys;    /* how many it names */
    uint64_t bytes;
};

static void add_sample(struct monitor *m, const struct sample *s)
{
    struct writer w = {.ptr = m->text + m->len, .cap = TEXT_MAX - m->len};
    struct slice key = s->key;

    if (key.len > MONITOR_KEY_MAX)
        key.len = MONITOR_KEY_MAX;
    writer_str(&w, m->len == 0 ? "{\"time\":" : ",{\"time\":");
    json_time_us(&w, engine_wall_ns(m->stream.net->engine) / 1000);
    json_member_str(&w, "peer", CONN_PEER(s->conn));
    json_member_str(&w, "space", conn_space(s->conn)->store->name);
    json_member_str(&w, "protocol", s->protocol);
    json_member_str(&w, "operation", s->operation);
    json_member(&w, "key", key);
    if (s->keys > 1)
        json_member_u64(&w, "keys", s->keys);
    json_member_u64(&w, "bytes", s->bytes);
    writer_u8(&w, '}');
    m->len += w.len;
    m->left--;
    m->shown++;
}

/* --- c10d. --- */

/* Where the sample of a request ends, in the input and in the text. */
struct noted {
    size_t used, len;
};

/* Takes samples of the requests before c10d reads them, since that may end the session. c10d may
 * carry out fewer of them, so `noted` has the end of each: keep_done() takes back the rest. */
static size_t note_c10d_requests(struct monitor *m, struct conn *c, struct slice in,
                                 struct noted noted[MONITOR_AT_ONCE])
{
    size_t count = 0, at = 0, size;

    while (count < MONITOR_AT_ONCE && at < in.len && takes_more(m)) {
        struct c10d_progress progress = {0};
        struct c10d_refusal refusal;
        struct c10d_request req;

        if (c10d_parse(slice_from(in, at), (enum c10d_version)c10d_session(c)->version,
                       &c10d_of(c)->limits, &progress, &req, &size, &refusal) != PARSE_DONE)
            break;
        add_sample(m, &(struct sample){.conn = c,
                                       .protocol = "c10d",
                                       .operation = c10d_op_name(req.op),
                                       .key = c10d_first_key(&req),
                                       .keys = req.count,
                                       .bytes = size});
        at += size;
        noted[count++] = (struct noted){at, m->len};
    }
    return count;
}

/* Samples of requests that were not carried out now are taken back: they are shown again. */
static void keep_done(struct monitor *m, const struct noted *noted, size_t count, size_t used,
                      size_t len)
{
    while (count > 0 && noted[count - 1].used > used) {
        count--;
        m->left++;
        m->shown--;
    }
    m->len = count == 0 ? len : noted[count - 1].len;
}

static void monitor_attach(struct monitor *m, bool on);

static enum protocol_result read_monitored(struct conn *c, uint8_t *in, size_t len,
                                           struct protocol_progress *progress)
{
    struct monitor *m = conn_net(c)->monitor;
    struct noted noted[MONITOR_AT_ONCE];
    size_t before = m->len, count = note_c10d_requests(m, c, (struct slice){in, len}, noted);
    enum protocol_result result = m->read(c, in, len, progress);

    keep_done(m, noted, count, progress->used, before);
    if (!takes_more(m))
        monitor_attach(m, false);
    return result;
}

/* --- HTTP. --- */

static void note_http_request(void *arg, const struct http_request *r)
{
    struct monitor *m = arg;

    if (!takes_more(m))
        return;
    add_sample(m, &(struct sample){.conn = r->conn,
                                   .protocol = "http",
                                   .operation = http_method_names[r->head->method],
                                   .key = r->path,
                                   .bytes = r->body.len});
}

/* --- Being there. --- */

static void monitor_attach(struct monitor *m, bool on)
{
    m->c10d->read = on ? read_monitored : m->read;
    m->http->tell = on ? note_http_request : NULL;
    m->http->arg = m;
}

static void begin_sample(struct monitor *m)
{
    const struct stats *stats = &m->stream.net->engine->stats;

    m->len = 0;
    m->left = MONITOR_SAMPLES;
    m->shown = 0;
    m->c10d_requests = stats_c10d_requests(stats);
    m->http_requests = stats->http_requests;
    monitor_attach(m, true);
}

static bool monitor_start(struct monitor *m)
{
    if (m->text != NULL)
        return true;
    m->text = account_request(ACCOUNT_WATCHES, ACCOUNT_ORDINARY, TEXT_MAX);
    if (m->text == NULL)
        return false;
    if (!event_stream_arm(&m->stream)) {
        account_free(ACCOUNT_WATCHES, m->text, TEXT_MAX);
        m->text = NULL;
        return false;
    }
    begin_sample(m);
    return true;
}

static void monitor_stop(struct event_stream *s)
{
    struct monitor *m = monitor_of(s);

    monitor_attach(m, false);
    evtimer_del(&s->timer);
    account_free(ACCOUNT_WATCHES, m->text, TEXT_MAX);
    m->text = NULL;
}

/* --- Events. --- */

/* Counts include requests that are not shown. */
static struct blob *make_event(const struct monitor *m)
{
    const struct stats *stats = &m->stream.net->engine->stats;
    struct reply_body body;

    reply_body_begin(&body);
    json_open(&body.w, '{');
    json_member_time(&body.w, "now", engine_wall_ns(m->stream.net->engine) / 1000);
    json_member_u64(&body.w, "c10d_requests", stats_c10d_requests(stats) - m->c10d_requests);
    json_member_u64(&body.w, "http_requests", stats->http_requests - m->http_requests);
    json_member_u64(&body.w, "shown", m->shown);
    json_list(&body.w, "requests");
    writer_slice(&body.w, (struct slice){m->text, m->len});
    writer_str(&body.w, "]}");
    return event_make_of_body("requests", &body);
}

static void send_missed(struct event_client *client)
{
    char data[64];
    struct blob *event;

    snprintf(data, sizeof data, "{\"requests\":%llu}", (unsigned long long)client->missed);
    event = event_make("missed", slice_str(data));
    if (event == NULL)
        return;
    client->missed = 0;
    event_client_send(client, event);
    blob_unref(event);
}

static void send_requests(struct event_client *client, struct blob *event)
{
    if (event == NULL || event_client_is_blocked(client)) {
        client->missed += monitor_of(client->stream)->shown;
        return;
    }
    if (!conn_can_push(client->conn))
        return; /* it has left */
    if (client->missed > 0)
        send_missed(client);
    event_client_send(client, event);
}

static void monitor_tick(struct event_stream *s)
{
    struct monitor *m = monitor_of(s);
    struct blob *event = make_event(m);

    net_spend(s->net, 0);
    TAILQ_EACH_SAFE(struct event_client, client, &s->clients, entry)
        send_requests(client, event);
    blob_unref(event);
    begin_sample(m);
}

static uint64_t monitor_wait_ms(struct event_stream *)
{
    return EVERY_MS;
}

/* --- Clients. --- */

void monitor_init(struct monitor *m, struct net *net, struct protocol *c10d,
                  struct request_watch *http)
{
    static const struct event_stream_calls calls = {
        .tick = monitor_tick, .wait_ms = monitor_wait_ms, .idle = monitor_stop};

    *m = (struct monitor){.c10d = c10d, .http = http, .read = c10d->read};
    net->monitor = m;
    event_stream_init(&m->stream, net, &calls);
}

static void monitor_join(const struct http_request *r, struct monitor *m)
{
    struct event_client *client = event_client_new();

    if (client == NULL || !monitor_start(m)) {
        event_client_free(client);
        reply_no_memory(r);
        return;
    }
    event_stream_join(&m->stream, client, r);
}

void admin_monitor_handle(const struct http_request *r)
{
    struct monitor *m = r->http->monitor;

    if (!http_may_change_daemon(r))
        return; /* it has replied */
    else if (m->stream.client_count >= MONITOR_CLIENTS)
        reply_unavailable(r, "Too many monitors are open");
    else
        monitor_join(r, m);
}
