/* /rdzv/v1/status, at once and as a stream. See handlers.h for the contract. */
#include "rdzv/admin/status.h"

#include "proto/json.h"
#include "rdzv/admin/handlers.h"
#include "rdzv/http/access.h"

#define ROUNDS_OF_ALL 5 /* of each run, if the answer is about all spaces, and in a stream */

/* --- The whole text, written in slices. A run is written within one slice, so its
 * numbers fit each other. --- */

struct status_scope {
    struct net *net;
    const struct engine_space *space; /* one; NULL: all */
    bool is_single;                   /* only the space, without the daemon */
    bool has_requests;                /* those of the daemon are counted, see http_shows_daemon() */
    struct status_form form;
};

/* Stays where it is. */
struct status_text {
    struct status_scope scope;
    struct run_walk walk;
    size_t nodes_left, runs_left; /* so many more are written */
    uint64_t runs_left_out;       /* of the space */
    size_t head_len;              /* what changes each time is before that */
    struct reply_body body;
};

/* Limits of runs and nodes in a stream, since its text goes to many clients again and again. */
#define STREAMED_RUNS  500
#define STREAMED_NODES 1024
#define STREAMED_ENDED 20 /* of each space */

static const struct engine *engine_of(const struct status_text *t)
{
    return t->scope.net->engine;
}

/* --- Spaces. --- */

/* ,"keys":…,"bytes":… and so on of a space: the numbers that change all the time. */
static void status_write_counters(struct writer *w, const struct engine_space *space)
{
    const struct space_usage use = space_usage(space->store);

    json_member_u64(w, "keys", use.keys);
    json_member_u64(w, "bytes", use.bytes);
    json_member_u64(w, "queues", use.queues);
    json_member_u64(w, "etcd_nodes", space->store->tree.count - 1);
    json_member_u64(w, "c10d_clients", space->c10d_sessions);
    json_member_u64(w, "waiters", use.waiters);
}

static void write_space_head(struct status_text *t)
{
    const struct engine_space *space = t->walk.space;
    struct writer *w = &t->body.w;

    if (!t->scope.is_single)
        json_open(w, '{');
    json_member_str(w, "name", space->store->name);
    if (!t->scope.form.streamed)
        status_write_counters(w, space);
    json_list(w, "runs");
    t->runs_left_out = 0;
}

static void write_space_end(struct status_text *t)
{
    struct writer *w = &t->body.w;

    writer_u8(w, ']');
    if (t->runs_left_out > 0)
        json_member_u64(w, "runs_left_out", t->runs_left_out);
    status_ended_write(w, t->walk.space, engine_wall_ns(engine_of(t)) / 1000,
                       t->scope.form.streamed ? STREAMED_ENDED : SIZE_MAX);
    operator_orders_write(w, t->walk.space);
    status_waits_write_space(w, t->walk.space, t->scope.net);
    writer_u8(w, '}');
    if (!t->scope.is_single && (t->walk.only != NULL || TAILQ_NEXT(t->walk.space, entry) == NULL))
        writer_str(w, "]}"); /* that was the last space */
}

/* --- Runs. --- */

static void write_worker_store(struct writer *w, const struct view_record *record)
{
    static const char *const stores[] = {[WORKER_STORE_UNKNOWN] = "unknown",
                                         [WORKER_STORE_WORKER0] = "worker0",
                                         [WORKER_STORE_RDZVD] = "rdzvd"};

    json_member_str(w, "worker_store", stores[record->placement]);
    if (record->placement != WORKER_STORE_RDZVD)
        return;
    json_member(w, "address", record->address);
    json_member_u64(w, "port", record->port);
}

/* False: the text has reached its limit of runs, and only counts this one. */
static bool takes_run(struct status_text *t)
{
    if (t->runs_left == 0)
        t->runs_left_out++;
    else
        t->runs_left--;
    return t->runs_left_out == 0;
}

static void write_run(struct status_text *t)
{
    struct status_form form = t->scope.form;
    struct writer *w = &t->body.w;
    struct run_facts facts;

    if (!run_walk_facts(&t->walk, &facts) || !takes_run(t))
        return;
    form.has_twins = true;
    form.nodes = t->nodes_left < STATUS_NODES_LISTED ? t->nodes_left : STATUS_NODES_LISTED;
    t->nodes_left -= (size_t)status_run_write(w, &facts, &form);
    if (facts.run != NULL) {
        write_worker_store(w, &facts.view->record);
        status_waits_write_run(w, t->walk.space, facts.run);
    }
    writer_u8(w, '}');
}

/* --- The whole. --- */

static void write_place(void *arg)
{
    struct status_text *t = arg;

    if (t->walk.at == WALK_SPACE)
        write_space_head(t);
    else if (t->walk.at == WALK_RUN)
        write_run(t);
    else
        write_space_end(t);
}

/* t->walk goes on with run_walk_continue(), and t->body is complete when the walk has ended. Whole
 * or not, the caller ends the walk, and sends or drops the body. */
static void status_text_begin(struct status_text *t, const struct status_scope *scope)
{
    struct writer *w = &t->body.w;

    *t = (struct status_text){.scope = *scope};
    run_walk_begin(&t->walk, engine_of(t), scope->space, write_place, t);
    reply_body_begin(&t->body);
    json_open(w, '{');
    json_member_time(w, "now", engine_wall_ns(engine_of(t)) / 1000);
    t->head_len = w->len;
    json_member_time(w, "started", engine_of(t)->started_ns / 1000);
    t->nodes_left = scope->form.streamed ? STREAMED_NODES : SIZE_MAX;
    t->runs_left = scope->form.streamed ? STREAMED_RUNS : SIZE_MAX;
    if (scope->is_single)
        return;
    json_member_str(w, "version", RDZV_VERSION);
    json_member_str(w, "role", "store");
    writer_str(w, scope->space == NULL ? ",\"all_spaces\":true" : ",\"all_spaces\":false");
    writer_str(w, health_is_store_ready(scope->net, NULL) ? ",\"ready\":true" : ",\"ready\":false");
    json_list(w, "spaces");
}

/* --- Streams. --- */

#define STATUS_MS   500  /* between two texts */
#define SHARE       20   /* of the time that passes, rendering takes at most this part */
#define COUNTERS_MS 1000 /* between two of those */

struct status_feed {
    struct event_stream stream; /* the first member */
    TAILQ_ENTRY(status_feed) entry;
    struct status_feeds *feeds;
    struct status_scope scope;
    struct status_text text; /* while is_making */
    bool is_making;
    struct blob *newest;  /* the event as it is sent; NULL: none yet */
    size_t head_len;      /* of it: what is different each time */
    uint64_t spent_ns;    /* what the text has taken so far */
    uint64_t due_ms;      /* when the next one may begin */
    uint64_t counters_ms; /* when the next counters are due */
};

static struct status_feed *feed_of(struct event_stream *s)
{
    return (struct status_feed *)(void *)s; /* its first member */
}

/* --- Counters. --- */

static void write_counters(struct writer *w, const struct status_scope *scope)
{
    const struct stats *stats = &scope->net->engine->stats;

    json_open(w, '{');
    json_member_time(w, "now", engine_wall_ns(scope->net->engine) / 1000);
    if (scope->has_requests) {
        json_member_u64(w, "c10d_requests", stats_c10d_requests(stats));
        json_member_u64(w, "http_requests", stats->http_requests);
    }
    json_list(w, "spaces");
    TAILQ_EACH(const struct engine_space, space, &scope->net->engine->spaces, entry) {
        if (scope->space != NULL && scope->space != space)
            continue;
        json_open(w, '{');
        json_member_str(w, "name", space->store->name);
        status_write_counters(w, space);
        writer_u8(w, '}');
    }
    writer_str(w, "]}");
}

static void send_counters(struct status_feed *f)
{
    struct reply_body body;
    struct blob *event;

    reply_body_begin(&body);
    write_counters(&body.w, &f->scope);
    event = event_make_of_body("counters", &body);
    f->counters_ms = engine_now_ms(f->scope.net->engine) + COUNTERS_MS;
    TAILQ_EACH_SAFE(struct event_client, client, &f->stream.clients, entry) {
        if (event != NULL && !event_client_is_blocked(client) && conn_can_push(client->conn))
            event_client_send(client, event);
    }
    blob_unref(event);
}

/* --- Texts. --- */

/* True: the event says the same as the last one, except in its head. */
static bool says_the_same(const struct status_feed *f, const struct blob *event, size_t head_len)
{
    return f->newest != NULL && slice_equal(slice_from(blob_slice(f->newest), f->head_len),
                                            slice_from(blob_slice(event), head_len));
}

/* Sends the newest text to a client, now or when it has read what comes before. */
static void send_text(struct event_client *client)
{
    client->is_behind = event_client_is_blocked(client);
    if (client->is_behind || !conn_can_push(client->conn))
        return;
    client->has_text = true;
    event_client_send(client, feed_of(client->stream)->newest);
}

static void feed_drained(struct event_client *client)
{
    if (client->is_behind)
        send_text(client);
}

static void end_text(struct status_feed *f)
{
    size_t head_len = event_head_len("status") + f->text.head_len;
    struct blob *event = event_make_of_body("status", &f->text.body);
    bool news = false;

    run_walk_end(&f->text.walk);
    f->is_making = false;
    if (event != NULL) {
        news = !says_the_same(f, event, head_len);
        blob_unref(f->newest);
        f->newest = event;
        f->head_len = head_len;
    }
    /* Sends the text to new clients, and to every client if it has changed. */
    TAILQ_EACH_SAFE(struct event_client, client, &f->stream.clients, entry) {
        if (f->newest != NULL && (news || !client->has_text))
            send_text(client);
    }
}

/* --- Time. --- */

/* A part of the text, or the first one. */
static void feed_write_text(struct status_feed *f)
{
    const struct clock *clock = f->scope.net->engine->options.clock;
    uint64_t began_ns = clock_monotonic_ns(clock), took_ns;
    bool is_whole;

    if (!f->is_making)
        status_text_begin(&f->text, &f->scope);
    f->spent_ns = f->is_making ? f->spent_ns : 0;
    f->is_making = true;
    is_whole = run_walk_continue(&f->text.walk, HTTP_SLICE_NS);
    if (is_whole)
        end_text(f);
    took_ns = clock_monotonic_ns(clock) - began_ns;
    net_spend(f->stream.net, took_ns);
    f->spent_ns += took_ns;
    if (!is_whole)
        return;
    f->due_ms =
        engine_now_ms(f->scope.net->engine) +
        (f->spent_ns * SHARE / 1000000 > STATUS_MS ? f->spent_ns * SHARE / 1000000 : STATUS_MS);
}

static uint64_t feed_wait_ms(struct event_stream *s)
{
    const struct status_feed *f = feed_of(s);
    uint64_t due = f->due_ms < f->counters_ms ? f->due_ms : f->counters_ms;

    return f->is_making ? 0 : clock_elapsed_ms(engine_now_ms(f->scope.net->engine), due);
}

static void feed_tick(struct event_stream *s)
{
    struct status_feed *f = feed_of(s);

    if (f->is_making || engine_now_ms(f->scope.net->engine) >= f->due_ms)
        feed_write_text(f);
    if (engine_now_ms(f->scope.net->engine) >= f->counters_ms)
        send_counters(f);
}

/* --- Life. --- */

static void feed_free(struct event_stream *s)
{
    struct status_feed *f = feed_of(s);

    if (f->is_making) {
        run_walk_end(&f->text.walk);
        reply_body_drop(&f->text.body);
    }
    evtimer_del(&s->timer);
    TAILQ_REMOVE(f->feeds, f, entry);
    blob_unref(f->newest);
    account_free(ACCOUNT_WATCHES, f, sizeof *f);
}

static struct status_feed *feed_find_or_add(struct status_feeds *feeds,
                                            const struct status_scope *scope)
{
    static const struct event_stream_calls calls = {
        .tick = feed_tick, .wait_ms = feed_wait_ms, .idle = feed_free, .drained = feed_drained};
    struct status_feed *f;

    TAILQ_FOREACH(f, feeds, entry) {
        if (f->scope.space == scope->space && f->scope.is_single == scope->is_single)
            return f;
    }
    f = account_request_zeroed(ACCOUNT_WATCHES, ACCOUNT_SMALL, sizeof *f);
    if (f == NULL)
        return NULL;
    f->feeds = feeds;
    f->scope = *scope;
    f->counters_ms = engine_now_ms(f->scope.net->engine) + COUNTERS_MS;
    event_stream_init(&f->stream, scope->net, &calls);
    TAILQ_INSERT_TAIL(feeds, f, entry);
    return f;
}

/* The client gets the next text that begins after this call, or the newest one, if the other
 * clients get no newer one. */
static void feed_serve(struct status_feed *f, struct event_client *client)
{
    if (f->newest != NULL)
        send_text(client);
    else if (!f->is_making && !event_stream_arm(&f->stream))
        event_stream_end_replies(&f->stream); /* the feed stays for clients that ask again */
}

/* The reply ends when its client leaves. Clients of one space, with or without the daemon, share a
 * feed, so the rest of their scopes must be the same. */
static void status_feed_join(const struct http_request *r, const struct status_scope *scope)
{
    struct event_client *client = event_client_new();
    struct status_feed *f = client == NULL ? NULL : feed_find_or_add(r->http->status_feeds, scope);

    if (f == NULL) {
        event_client_free(client);
        reply_no_memory(r);
        return;
    }
    event_stream_join(&f->stream, client, r);
    feed_serve(f, client);
}

/* --- At once. --- */

struct status_job {
    struct http_job job;
    struct status_text text;
};

static void status_job_free(struct http_job *job)
{
    struct status_job *j = (struct status_job *)job; /* its first member */

    run_walk_end(&j->text.walk);
    reply_body_drop(&j->text.body);
    account_free(ACCOUNT_ANSWERS, j, sizeof *j);
}

static enum http_job_state status_job_run(struct http_job *job, const struct http_request *r)
{
    struct status_job *j = (struct status_job *)job;

    if (!run_walk_continue(&j->text.walk, HTTP_SLICE_NS))
        return HTTP_JOB_CONTINUES;
    writer_u8(&j->text.body.w, '\n');
    reply_body_send(r, &(struct reply){.status = 200, .content_type = HTTP_JSON, .no_store = true},
                    &j->text.body);
    return HTTP_JOB_DONE;
}

static void start_status_job(const struct http_request *r, const struct status_scope *scope)
{
    struct status_job *j = account_request(ACCOUNT_ANSWERS, ACCOUNT_SMALL, sizeof *j);

    if (j == NULL) {
        reply_no_memory(r);
        return;
    }
    j->job = (struct http_job){.run = status_job_run, .free = status_job_free, .no_use = true};
    status_text_begin(&j->text, scope);
    http_run_job(r, &j->job);
}

static bool wants_stream(const struct http_request *r)
{
    struct slice value;

    return r->head->method == HTTP_GET && url_find_param(r->query, "watch", &value) &&
           slice_is(value, "true");
}

void admin_status_reply(const struct http_request *r, const struct engine_space *space, bool single)
{
    bool streamed = wants_stream(r);
    const struct status_scope scope = {
        .net = conn_net(r->conn),
        .space = space,
        .is_single = single,
        .has_requests = !single && http_shows_daemon(r, space == NULL),
        .form = {.streamed = streamed,
                 .rounds = single && !streamed ? HISTORY_ROUNDS : ROUNDS_OF_ALL},
    };

    if (streamed)
        status_feed_join(r, &scope);
    else
        start_status_job(r, &scope);
}

void admin_status_handle(const struct http_request *r)
{
    admin_status_reply(r, http_shows_all_spaces(r) ? NULL : r->space, false);
}
