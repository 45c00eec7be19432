/* Server-sent events. See status_feed.h for the contract. */
#include "rdzv/admin/status_feed.h"

#include "rdzv/admin/event_stream.h"
#include "rdzv/admin/json_member.h"
#include "rdzv/http/job.h"

#define STATUS_MS   500  /* between two texts */
#define SHARE       20   /* of the time that passes, rendering takes at most this part */
#define COUNTERS_MS 1000 /* between two of those */

TAILQ_HEAD(feed_client_list, feed_client);

struct status_feed {
    TAILQ_ENTRY(status_feed) entry;
    struct status_feeds *feeds;
    struct status_scope scope;
    struct feed_client_list clients;
    struct event timer;
    struct status_text text; /* while is_making */
    bool is_making;
    struct blob *newest;  /* the event as it is sent; NULL: none yet */
    size_t head_len;      /* of it: what is different each time */
    uint64_t spent_ns;    /* what the text has taken so far */
    uint64_t due_ms;      /* when the next one may begin */
    uint64_t counters_ms; /* when the next counters are due */
    bool is_at_work;      /* who leaves now does not end it */
};

/* One client: a reply that goes on. */
struct feed_client {
    struct http_job job; /* the first member */
    TAILQ_ENTRY(feed_client) entry;
    struct status_feed *feed;
    struct conn *conn;
    bool chunked;
    bool has_text;  /* it has got one */
    bool is_behind; /* it does not have the newest, since it did not read */
};

void status_feeds_init(struct status_feeds *feeds, struct net *net)
{
    feeds->net = net;
    TAILQ_INIT(&feeds->list);
}

static uint64_t now_ms(const struct status_feed *f)
{
    return engine_now_ms(f->scope.net->engine);
}

/* --- Sending. --- */

static void send_event(const struct feed_client *client, struct blob *event)
{
    event_send(client->conn, client->chunked, event);
}

/* It has not read what it was sent before. */
static bool is_blocked(const struct feed_client *client)
{
    return client->conn->output == OUTPUT_BLOCKED;
}

/* It gets the newest text, now or when it has read what comes before. */
static void send_text(struct feed_client *client)
{
    client->is_behind = is_blocked(client);
    if (client->is_behind || !conn_can_push(client->conn))
        return;
    client->has_text = true;
    send_event(client, client->feed->newest);
}

/* --- Counters. --- */

static void write_counters(struct writer *w, const struct status_scope *scope)
{
    const struct stats *stats = &scope->net->engine->stats;
    const struct engine_space *space;
    bool more = false;

    writer_str(w, "{\"now\":");
    json_time_us(w, engine_wall_ns(scope->net->engine) / 1000);
    if (scope->has_requests) {
        json_member_u64(w, "c10d_requests", stats_c10d_requests(stats));
        json_member_u64(w, "http_requests", stats->http_requests);
    }
    json_name(w, "spaces");
    writer_u8(w, '[');
    TAILQ_FOREACH(space, &scope->net->engine->spaces, entry) {
        if (scope->space != NULL && scope->space != space)
            continue;
        writer_str(w, more ? ",{\"name\":" : "{\"name\":");
        more = true;
        json_string(w, slice_str(space->store->name));
        status_write_counters(w, space);
        writer_u8(w, '}');
    }
    writer_str(w, "]}");
}

static void send_counters(struct status_feed *f)
{
    struct feed_client *client, *next;
    struct reply_body body;
    struct blob *event = NULL;

    reply_body_begin(&body);
    write_counters(&body.w, &f->scope);
    if (reply_body_is_whole(&body))
        event = event_make("counters", (struct slice){body.w.ptr, body.w.len});
    reply_body_drop(&body);
    f->counters_ms = now_ms(f) + COUNTERS_MS;
    for (client = TAILQ_FIRST(&f->clients); event != NULL && client != NULL; client = next) {
        next = TAILQ_NEXT(client, entry);
        if (!is_blocked(client) && conn_can_push(client->conn))
            send_event(client, event);
    }
    blob_unref(event);
}

/* --- Texts. --- */

/* True: it says the same as the last one, but for its head. */
static bool says_the_same(const struct status_feed *f, const struct blob *event, size_t head_len)
{
    return f->newest != NULL && slice_equal(slice_from(blob_slice(f->newest), f->head_len),
                                            slice_from(blob_slice(event), head_len));
}

/* Those who have none get it, and if it is news, all of them. */
static void send_texts(struct status_feed *f, bool news)
{
    struct feed_client *client, *next;

    for (client = TAILQ_FIRST(&f->clients); client != NULL; client = next) {
        next = TAILQ_NEXT(client, entry);
        if (news || !client->has_text)
            send_text(client);
    }
}

static void end_text(struct status_feed *f)
{
    const struct reply_body *body = &f->text.body;
    size_t head_len = event_head_len("status") + f->text.head_len;
    struct blob *event = NULL;
    bool news = false;

    if (reply_body_is_whole(body))
        event = event_make("status", (struct slice){body->w.ptr, body->w.len});
    status_text_end(&f->text);
    reply_body_drop(&f->text.body);
    f->is_making = false;
    if (event != NULL) {
        news = !says_the_same(f, event, head_len);
        blob_unref(f->newest);
        f->newest = event;
        f->head_len = head_len;
    }
    if (f->newest != NULL)
        send_texts(f, news);
}

/* --- Time. --- */

/* A part of the text, or the first one. */
static void go_on(struct status_feed *f)
{
    const struct clock *clock = f->scope.net->engine->options.clock;
    uint64_t began_ns = clock_monotonic_ns(clock), took_ns;
    bool is_whole;

    if (!f->is_making)
        status_text_begin(&f->text, &f->scope);
    f->spent_ns = f->is_making ? f->spent_ns : 0;
    f->is_making = true;
    is_whole = status_text_go_on(&f->text, HTTP_SLICE_NS);
    if (is_whole)
        end_text(f);
    took_ns = clock_monotonic_ns(clock) - began_ns;
    net_spend(f->feeds->net, took_ns);
    f->spent_ns += took_ns;
    if (!is_whole)
        return;
    f->due_ms =
        now_ms(f) +
        (f->spent_ns * SHARE / 1000000 > STATUS_MS ? f->spent_ns * SHARE / 1000000 : STATUS_MS);
}

static void free_feed(struct status_feed *f)
{
    if (f->is_making) {
        status_text_end(&f->text);
        reply_body_drop(&f->text.body);
    }
    evtimer_del(&f->timer);
    TAILQ_REMOVE(&f->feeds->list, f, entry);
    blob_unref(f->newest);
    account_free(ACCOUNT_WATCHES, f, sizeof *f);
}

/* Without a timer nothing more would come: the replies end, and pages ask again. The feed stays for
 * those who do. */
static void end_replies(struct status_feed *f)
{
    struct feed_client *client, *next;
    bool was_at_work = f->is_at_work;

    f->is_at_work = true;
    for (client = TAILQ_FIRST(&f->clients); client != NULL; client = next) {
        next = TAILQ_NEXT(client, entry);
        event_end(client->conn, client->chunked);
    }
    f->is_at_work = was_at_work;
}

static void arm(struct status_feed *f)
{
    uint64_t due = f->due_ms < f->counters_ms ? f->due_ms : f->counters_ms;
    uint64_t wait = f->is_making ? 0 : clock_elapsed_ms(now_ms(f), due);
    const struct timeval later = {.tv_sec = (time_t)(wait / 1000),
                                  .tv_usec = (suseconds_t)(wait % 1000 * 1000)};

    if (!net_add_event(&f->timer, &later))
        end_replies(f);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
    struct status_feed *f = arg;

    (void)fd;
    (void)what;
    f->is_at_work = true;
    if (f->is_making || now_ms(f) >= f->due_ms)
        go_on(f);
    if (now_ms(f) >= f->counters_ms)
        send_counters(f);
    f->is_at_work = false;
    if (TAILQ_EMPTY(&f->clients))
        free_feed(f);
    else
        arm(f);
}

/* --- Clients. --- */

static struct feed_client *client_of(struct http_job *job)
{
    return (struct feed_client *)(void *)job; /* its first member */
}

static void leave(struct http_job *job)
{
    struct feed_client *client = client_of(job);
    struct status_feed *f = client->feed;

    TAILQ_REMOVE(&f->clients, client, entry);
    account_free(ACCOUNT_WATCHES, client, sizeof *client);
    if (TAILQ_EMPTY(&f->clients) && !f->is_at_work)
        free_feed(f);
}

/* Its client sends no more, or the daemon stops. */
static void end_stream(struct http_job *job)
{
    event_end(client_of(job)->conn, client_of(job)->chunked);
}

static void on_drained(struct http_job *job)
{
    if (client_of(job)->is_behind)
        send_text(client_of(job));
}

/* It is never woken: all that it gets comes from the feed. */
static enum http_job_state wait_on(struct http_job *job, const struct http_request *r)
{
    (void)job;
    (void)r;
    return HTTP_JOB_WAITS;
}

static bool is_of(const struct status_feed *f, const struct status_scope *scope)
{
    return f->scope.space == scope->space && f->scope.is_single == scope->is_single;
}

static struct status_feed *get_feed(struct status_feeds *feeds, const struct status_scope *scope)
{
    struct status_feed *f;

    TAILQ_FOREACH(f, &feeds->list, entry) {
        if (is_of(f, scope))
            return f;
    }
    f = account_request_zeroed(ACCOUNT_WATCHES, ACCOUNT_SMALL, sizeof *f);
    if (f == NULL)
        return NULL;
    f->feeds = feeds;
    f->scope = *scope;
    TAILQ_INIT(&f->clients);
    f->counters_ms = now_ms(f) + COUNTERS_MS;
    evtimer_assign(&f->timer, feeds->net->base, on_timer, f);
    TAILQ_INSERT_TAIL(&feeds->list, f, entry);
    return f;
}

/* The first text it gets is one that is begun from now on; or the newest, if that is no older than
 * the others get it. */
static void add_client(struct status_feed *f, struct feed_client *client)
{
    TAILQ_INSERT_TAIL(&f->clients, client, entry);
    if (f->newest != NULL)
        send_text(client);
    else if (!f->is_making)
        arm(f);
}

void status_feed_join(const struct http_request *r, const struct status_scope *scope)
{
    struct feed_client *client =
        account_request_zeroed(ACCOUNT_WATCHES, ACCOUNT_SMALL, sizeof *client);
    struct status_feed *f = client == NULL ? NULL : get_feed(r->http->status_feeds, scope);

    if (f == NULL) {
        account_free(ACCOUNT_WATCHES, client, sizeof *client);
        reply_no_memory(r);
        return;
    }
    client->job = (struct http_job){.run = wait_on,
                                    .free = leave,
                                    .eof = end_stream,
                                    .stop = end_stream,
                                    .drained = on_drained,
                                    .endless = true,
                                    .no_use = true};
    client->feed = f;
    client->conn = r->conn;
    client->chunked = reply_begin_stream(
        r, &(struct reply){.status = 200, .content_type = "text/event-stream", .no_store = true});
    http_start_job(r, &client->job, HTTP_JOB_WAITS);
    add_client(f, client);
}
