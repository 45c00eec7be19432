/* HTTP through a relay. See http_pass.h for the contract.
 *
 *     held ---> dialing ---> sending ---> answering ---> over
 *      ^           |            |             |
 *      +-----------+------------+-------------+    the connection broke, and it may be sent again
 */
#include "rdzv/relay/http_pass.h"

#include <assert.h>
#include <stdlib.h>

#include "proto/etcd.h"
#include "rdzv/engine/log.h"
#include "rdzv/http/session.h"
#include "rdzv/relay/http_store.h"
#include "rdzv/relay/http_text.h"

#define ANSWER_HEAD_MAX (16u << 10)           /* a store's are some hundred bytes long */
#define ANSWER_ROOM     (2 * ANSWER_HEAD_MAX) /* a blank behind each colon, and what is added */

enum pass_state {
    PASS_HELD,
    PASS_DIALING,
    PASS_SENDING,
    PASS_ANSWERING,
    PASS_TOO_LATE, /* held for too long: the connection learns this at its next call */
    PASS_OVER,
};

struct http_pass {
    struct http_job job; /* these two are found by their addresses */
    struct store_user user;
    struct relay_http *relay;
    struct conn *client;
    TAILQ_ENTRY(http_pass) entry; /* in relay->held while PASS_HELD */
    uint64_t held_ms; /* when it was held first, since its last answer began; 0: never */

    uint8_t *request; /* the head and the body */
    size_t request_len, sent;

    uint8_t state;
    uint8_t body; /* enum http_body, of the answer */
    bool repeatable, is_watch, is_stream, to_head;
    bool ended;      /* the client has sent its last byte, and this is a watch */
    bool begun;      /* an answer, or its head, has gone to the client */
    bool in_body;    /* the head of the present answer has been read */
    bool tracing;    /* the answer of an accepted watch */
    bool resumed;    /* by the present connection */
    bool keep_alive; /* the store's connection is good for another request */
    bool client_keeps_alive;
    bool client_is_over_tls;
    uint8_t client_minor; /* HTTP/1.minor */
    bool chunked;         /* the client gets chunks */
    size_t searched;
    uint64_t left; /* of a body with a length */
    struct http_chunks chunks;
    uint64_t head_index; /* X-Etcd-Index of the present answer */
    struct watch_trace trace;
};

static struct http_pass *pass_of_job(struct http_job *job)
{
    return (struct http_pass *)(void *)((char *)job - offsetof(struct http_pass, job));
}

static struct http_pass *pass_of_user(struct store_user *u)
{
    return (struct http_pass *)(void *)((char *)u - offsetof(struct http_pass, user));
}

/* --- The end of a request. --- */

/* The client gives up its connection to the store, or its place among clients that wait for one. */
static void pass_leave(struct http_pass *p)
{
    if (p->state == PASS_HELD)
        TAILQ_REMOVE(&p->relay->held, p, entry);
    store_conn_drop(&p->user);
}

/* What the client has is whole; the next request is looked at. */
static void end_body(struct http_pass *p)
{
    p->state = PASS_OVER;
    if (p->body == HTTP_BODY_CHUNKED)
        reply_stream_end(p->client, p->chunked);
    http_wake_job(p->client);
}

/* The same, when the rest of what the store sends is of no use. */
static void pass_finish(struct http_pass *p)
{
    pass_leave(p);
    end_body(p);
}

/* Ends a client whose answer is missing or incomplete and cannot be completed. Always false. */
static bool pass_cut(struct http_pass *p, const char *reason)
{
    pass_leave(p);
    p->state = PASS_OVER;
    p->relay->stats.cut++;
    log_limited(LOG_WARN, "relay_http_cut", log_str("peer", CONN_PEER(p->client)),
                log_str("reason", reason));
    conn_finish(p->client);
    return false;
}

static void pass_give_up(struct http_pass *p)
{
    pass_leave(p);
    p->state = PASS_TOO_LATE;
    p->relay->stats.unavailable++;
    http_wake_job(p->client);
}

/* --- Sending. --- */

static void pass_lost(struct store_user *u, const char *why);

static void pass_hold(struct http_pass *p)
{
    if (p->held_ms == 0)
        p->held_ms = engine_lived_ms(p->relay->options.net->engine);
    p->state = PASS_HELD;
    TAILQ_INSERT_TAIL(&p->relay->held, p, entry);
    relay_http_set_timer(p->relay);
}

static void pass_send_some(struct http_pass *p)
{
    size_t n;

    if (!store_conn_send(&p->user, slice_from((struct slice){p->request, p->request_len}, p->sent),
                         &n)) {
        pass_lost(&p->user, "the store's connection does not take the request");
        return;
    }
    p->sent += n;
    if (p->sent < p->request_len)
        return;
    p->state = PASS_ANSWERING;
    if (p->ended)
        store_conn_send_end(&p->user);
}

static void pass_begin_sending(struct http_pass *p)
{
    p->state = PASS_SENDING;
    p->sent = 0;
    p->in_body = false;
    p->searched = 0;
    p->chunks = (struct http_chunks){0};
    pass_send_some(p);
}

/* Not in relay->held. */
static void pass_start(struct http_pass *p)
{
    switch (store_conn_get(p->relay, &p->user, p->client_is_over_tls)) {
    case STORE_GOT_OPEN:
        pass_begin_sending(p);
        break;
    case STORE_GOT_DIALED:
        p->state = PASS_DIALING;
        break;
    default:
        pass_hold(p);
    }
}

static void on_ready(struct store_user *u)
{
    pass_begin_sending(pass_of_user(u));
}

static void on_writable(struct store_user *u)
{
    struct http_pass *p = pass_of_user(u);

    if (p->state == PASS_SENDING)
        pass_send_some(p);
}

/* --- When a connection breaks. --- */

static void watch_resume(struct http_pass *p)
{
    watch_trace_restart(&p->trace);
    relay_set_wait_index(p->request, p->request_len, watch_trace_next(&p->trace));
    p->resumed = true;
}

static bool pass_may_repeat(const struct http_pass *p)
{
    return !p->begun && (p->repeatable || p->state != PASS_ANSWERING);
}

static bool pass_may_lose(struct store_user *u)
{
    const struct http_pass *p = pass_of_user(u);

    return p->tracing || pass_may_repeat(p);
}

static void pass_lost(struct store_user *u, const char *why)
{
    struct http_pass *p = pass_of_user(u);

    if (p->tracing && (p->ended || (!p->is_stream && p->trace.last != 0))) {
        pass_finish(p); /* only the end of the last chunk is missing */
    } else if (p->tracing) {
        p->relay->stats.watches_moved += p->state != PASS_DIALING;
        watch_resume(p);
        pass_hold(p);
    } else if (pass_may_repeat(p) && !p->ended) {
        p->relay->stats.retried += p->state != PASS_DIALING;
        pass_hold(p);
    } else {
        pass_cut(p, p->begun || p->ended ? why : "nobody knows whether the store carried it out");
    }
}

/* --- The answer. --- */

static bool pass_has_room(struct store_user *u)
{
    const struct conn *c = pass_of_user(u)->client;

    return c->out.bytes <= RELAY_HTTP_AHEAD || c->output != OUTPUT_BLOCKED;
}

/* False: the store's connection has ended, and something else goes on. */
static bool watch_put_events(struct http_pass *p, struct slice data)
{
    while (data.len > 0) {
        struct slice out;
        bool whole;

        if (!watch_trace_take(&p->trace, &data, &out, &whole))
            return pass_cut(p, "the store cannot continue the watch");
        reply_stream_put(p->client, p->chunked, NULL, out);
        /* The watch continues with the next event of the history. A stream would get one such
         * event, and then none. */
        if (whole && p->is_stream && p->resumed && p->trace.last <= p->head_index) {
            watch_resume(p);
            store_conn_drop(&p->user);
            pass_start(p);
            return false;
        }
    }
    return true;
}

static void learn_cluster(const struct http_pass *p, struct slice id)
{
    char text[17] = "";

    if (p->relay->options.cluster_id == NULL || id.len == 0 || id.len >= sizeof text)
        return;
    memcpy(text, id.ptr, id.len);
    *p->relay->options.cluster_id = strtoull(text, NULL, 16);
}

static bool pass_put_head(struct http_pass *p, const struct http_answer *a)
{
    uint8_t *room = net_scratch(p->relay->options.net, ANSWER_ROOM);
    struct writer w = {.ptr = room, .cap = ANSWER_ROOM};

    if (room == NULL)
        return pass_cut(p, "no memory for its answer, see --memory-limit");
    p->begun = true;
    p->held_ms = 0;
    p->body = (uint8_t)a->body;
    p->chunked = a->body == HTTP_BODY_CHUNKED && p->client_minor != 0;
    p->tracing = p->is_watch && a->status == 200 && a->body == HTTP_BODY_CHUNKED && a->has_index;
    p->trace.from = a->etcd_index;
    learn_cluster(p, a->cluster);
    relay_write_answer(&w, p->client_minor, p->client_keeps_alive, a);
    assert(w.len <= w.cap);
    conn_put(p->client, room, w.len);
    return true;
}

/* False: the store's connection has ended. */
static bool take_head(struct http_pass *p, const struct http_answer *a)
{
    uint64_t seen; /* by the client, which has its head from before */

    if (a->status < 200)
        return true; /* the head of the answer follows */
    p->in_body = true;
    p->keep_alive = a->keep_alive;
    p->head_index = a->etcd_index;
    p->left = a->body == HTTP_BODY_LENGTH ? a->content_length : 0;
    if (!p->begun)
        return pass_put_head(p, a);
    seen = p->trace.last > p->trace.from ? p->trace.last : p->trace.from;
    return (a->status == 200 && a->body == HTTP_BODY_CHUNKED && a->has_index &&
            a->etcd_index >= seen) ||
           pass_cut(p, "the store's history does not reach back to where the watch was");
}

/* The whole answer is here. */
static enum store_taken end_answer(struct http_pass *p)
{
    bool reusable = p->keep_alive && !p->ended && p->state == PASS_ANSWERING;

    end_body(p);
    return reusable ? STORE_TAKES_NEXT : STORE_TAKES_NONE;
}

/* The next piece of the body; *in shrinks by it. */
static enum parse_result take_body(struct http_pass *p, struct slice *in, struct slice *data)
{
    enum parse_result result = PARSE_DONE;
    const char *why;
    size_t size = 0;

    if (p->body == HTTP_BODY_CHUNKED) {
        result = http_next_chunk(&p->chunks, *in, data, &size, &why);
    } else {
        size = p->left < in->len ? (size_t)p->left : in->len;
        *data = (struct slice){in->ptr, size};
        p->left -= size;
        if (size == 0 && p->left > 0)
            result = PARSE_MORE;
    }
    if (result != PARSE_BAD)
        *in = slice_from(*in, size);
    return result;
}

static enum store_taken bad_answer(struct http_pass *p)
{
    store_conn_drop(&p->user);
    pass_lost(&p->user, "the store's answer is no HTTP");
    return STORE_IS_LEFT;
}

static enum store_taken receive_body(struct http_pass *p, struct slice *in)
{
    for (;;) {
        struct slice data = {0};

        switch (take_body(p, in, &data)) {
        case PARSE_MORE:
            return STORE_TAKES_MORE;
        case PARSE_BAD:
            return bad_answer(p);
        default:
            break;
        }
        if (data.len == 0)
            return end_answer(p);
        if (!p->tracing)
            reply_stream_put(p->client, p->chunked, NULL, data);
        else if (!watch_put_events(p, data))
            return STORE_IS_LEFT;
    }
}

static enum store_taken pass_receive(struct store_user *u, struct slice in, size_t *used)
{
    struct http_pass *p = pass_of_user(u);
    struct slice rest = in;
    struct http_answer answer;
    enum store_taken taken;
    size_t size = 0;

    while (!p->in_body) {
        enum parse_result result = PARSE_MORE;

        if (rest.len > 0)
            result =
                http_parse_answer(rest, ANSWER_HEAD_MAX, p->to_head, &p->searched, &answer, &size);
        *used = in.len - rest.len;
        if (result == PARSE_MORE)
            return STORE_TAKES_MORE;
        if (result == PARSE_BAD)
            return bad_answer(p);
        rest = slice_from(rest, size);
        if (!take_head(p, &answer))
            return STORE_IS_LEFT;
    }
    taken = receive_body(p, &rest);
    *used = in.len - rest.len;
    return taken;
}

static const struct store_user_calls calls = {.ready = on_ready,
                                              .writable = on_writable,
                                              .has_room = pass_has_room,
                                              .receive = pass_receive,
                                              .lost = pass_lost,
                                              .may_lose = pass_may_lose};

/* --- As a job of the client's connection. --- */

static enum http_job_state pass_run(struct http_job *job, const struct http_request *r)
{
    struct http_pass *p = pass_of_job(job);

    if (p->state == PASS_TOO_LATE) {
        reply_unavailable(r, "rdzvd: the store is away, and the relay has waited for it");
        return HTTP_JOB_DONE;
    }
    return p->state == PASS_OVER ? HTTP_JOB_DONE : HTTP_JOB_WAITS;
}

static void free_pass(struct http_job *job)
{
    struct http_pass *p = pass_of_job(job);

    pass_leave(p);
    account_free(ACCOUNT_INPUT, p->request, p->request_len);
    account_free(ACCOUNT_SESSIONS, p, sizeof *p);
}

/* The client of a watch has sent its last byte: passes this on to the store, which then ends the
 * watch and its reply. */
static void on_eof(struct http_job *job)
{
    struct http_pass *p = pass_of_job(job);

    if (p->ended)
        return;
    p->ended = true;
    if (p->state == PASS_ANSWERING)
        store_conn_send_end(&p->user);
    else if (p->state == PASS_HELD && p->begun)
        pass_finish(p);
    else if (p->state == PASS_HELD)
        pass_cut(p, "its client has gone");
}

static void pass_on_drained(struct http_job *job)
{
    store_conn_unpause(&pass_of_job(job)->user);
}

/* --- Beginning. --- */

static void pass_read_request(struct http_pass *p, const struct http_request *r)
{
    bool has_form = etcd_has_form(r->head->method, r->head->content_type);
    struct slice form = has_form ? r->body : (struct slice){0};
    struct etcd_request asked;
    struct etcd_refusal why;
    bool known = http_is_below(r->path, "/v2/keys") &&
                 etcd_parse_request(r->head->method, form, r->head->target.query, &asked, &why);

    p->to_head = r->head->method == HTTP_HEAD;
    p->repeatable = http_is_reading(r);
    p->client_minor = (uint8_t)r->head->minor;
    p->client_keeps_alive = r->head->keep_alive;
    p->client_is_over_tls = http_is_over_tls(r);
    if (!known)
        return;
    if (asked.op != ETCD_OP_CREATE && r->head->method == HTTP_PUT && asked.refresh &&
        asked.prev_index == 0)
        p->repeatable = true;
    if (asked.op == ETCD_OP_WATCH) {
        p->is_watch = true;
        p->is_stream = asked.stream;
        p->trace.asked = asked.wait_index;
        p->job.endless = true;
        p->job.eof = on_eof;
    }
}

/* False: there is no memory. */
static bool keep_request(struct http_pass *p, const struct http_request *r)
{
    struct writer w = {0};

    relay_write_request(&w, r->head, r->body, p->is_watch);
    p->request_len = w.len;
    p->request = account_request(ACCOUNT_INPUT, account_class_of(w.len), w.len);
    if (p->request == NULL)
        return false;
    w = (struct writer){.ptr = p->request, .cap = p->request_len};
    relay_write_request(&w, r->head, r->body, p->is_watch);
    if (p->is_watch)
        relay_set_wait_index(p->request, p->request_len, p->trace.asked);
    return true;
}

void relay_http_pass(struct relay_http *h, const struct http_request *r)
{
    struct http_pass *p = account_request_zeroed(ACCOUNT_SESSIONS, ACCOUNT_SMALL, sizeof *p);

    if (p == NULL) {
        reply_no_memory(r);
        return;
    }
    p->job = (struct http_job){.run = pass_run, .free = free_pass, .drained = pass_on_drained};
    p->user.calls = &calls;
    p->relay = h;
    p->client = r->conn;
    p->state = PASS_DIALING; /* it is in no list */
    pass_read_request(p, r);
    if (!keep_request(p, r)) {
        free_pass(&p->job);
        reply_no_memory(r);
        return;
    }
    p->relay->stats.requests++;
    http_start_job(r, &p->job, HTTP_JOB_WAITS);
    pass_start(p);
}

/* --- All of them. --- */

/* Each request once: one that finds no connection is held again, behind `last`. */
void relay_http_try_held(struct relay_http *h)
{
    uint64_t now = engine_lived_ms(h->options.net->engine), wait = h->options.wait_ms;
    struct http_pass *last = TAILQ_LAST(&h->held, http_pass_list), *p;

    do {
        p = TAILQ_FIRST(&h->held);
        if (p == NULL)
            return;
        if (!p->begun && clock_elapsed_ms(p->held_ms, now) >= wait) {
            pass_give_up(p);
        } else {
            pass_leave(p);
            pass_start(p);
        }
    } while (p != last);
}

static void relay_http_on_timer(evutil_socket_t, short, void *arg)
{
    struct relay_http *h = arg;
    bool dials;

    net_spend(h->options.net, 0);
    dials = store_conn_tick(h);
    relay_http_try_held(h);
    if (dials || !TAILQ_EMPTY(&h->held))
        relay_http_set_timer(h);
}

void relay_http_init(struct relay_http *h, const struct relay_http_options *options)
{
    *h = (struct relay_http){.options = *options};
    if (h->options.wait_ms == 0)
        h->options.wait_ms = RELAY_HTTP_WAIT_MS;
    TAILQ_INIT(&h->idle);
    TAILQ_INIT(&h->busy);
    TAILQ_INIT(&h->held);
    evtimer_assign(&h->timer, options->net->base, relay_http_on_timer, h);
}

void relay_http_fini(struct relay_http *h)
{
    assert(TAILQ_EMPTY(&h->held) && TAILQ_EMPTY(&h->busy));
    store_conn_lose_all(h);
    evtimer_del(&h->timer);
}

void relay_http_give_up(struct relay_http *h)
{
    struct http_pass *p;

    while ((p = TAILQ_FIRST(&h->held)) != NULL) {
        if (p->begun)
            pass_cut(p, "the daemon stops");
        else
            pass_give_up(p);
    }
}
