/* HTTP/1.x on one connection: heads and bodies, keep-alive and pipelining, routes and jobs. See
 * session.h for the contract. reply.c writes a reply's head, the endpoints its body. */
#include "rdzv/http/session.h"

#include <assert.h>
#include <limits.h>
#include <string.h>

#include "proto/etcd.h"
#include "rdzv/engine/log.h"
#include "rdzv/http/access.h"
#include "rdzv/http/watch_stream.h"
#include "rdzv/net/input.h"
#include "rdzv/net/refusal.h"

#define REQUEST_COST 512u /* of a peer's budget, beside its bytes */
#define NOTIFY_COST  128u /* the same, per notified watch */

/* Requests of up to this many bytes are fast and not measured. */
#define FAST_SIZE (32u << 10)

/* A byte of the path counts as this many bytes of the body: a path of slashes names a directory for
 * each byte, which the tree must look up or make. */
#define PATH_WEIGHT 100u

#define FAST_WATCHES 64u /* in the space of a change */

#define EVENTS_AT_A_TIME 256

struct http_session {
    struct http_parser parser;
    struct http_parser before; /* the parser's state before the present head, to read that head
                                  again */
    bool in_body;              /* the head has been read, and part of its body is missing */
    bool skipping; /* the reply has been sent, the rest of the body is read and dropped */
    bool later;    /* the request is slow and waits for a slice */
    size_t head_len;
    enum http_body body;
    uint64_t length; /* of a body that is not chunked. While skipping: the bytes left to skip, or,
                        of a chunked body, the bytes skipped so far */
    struct http_chunks chunks;
    size_t body_len;      /* decoded bytes of a chunked body, right behind the head */
    size_t raw_at;        /* end of its decoded bytes */
    bool is_whole;        /* the body is complete; the request may wait for a slice */
    bool closes;          /* what follows the head is no next request, whatever the head says */
    struct http_job *job; /* of a request that replies later */
    bool job_waits;       /* until http_wake_job() */
    struct watch_stream stream;
};

static const struct http *http_of(const struct conn *c)
{
    return c->protocol->arg;
}

/* The connection keeps a pointer to the session. */
static struct http_session *http_session_of(const struct conn *c)
{
    return *(struct http_session *const *)(const void *)c->session.bytes;
}

static void http_job_free(struct engine *e, struct http_job *job)
{
    bool uses = !job->no_use;

    job->free(job);
    if (uses)
        engine_use_ended(e);
}

static void http_end(struct conn *c)
{
    struct http_session *h = http_session_of(c);

    watch_stream_close(&h->stream, c);
    if (h->job != NULL)
        http_job_free(http_of(c)->engine, h->job);
    account_free(ACCOUNT_SESSIONS, h, sizeof *h);
}

/* --- Watches. --- */

void http_start_watch(const struct http_request *r, struct watch *watch, uint64_t index)
{
    watch_stream_open(&http_session_of(r->conn)->stream, r, watch, index);
}

static void http_resume(struct conn *c, struct wake *wake)
{
    struct http_session *h = http_session_of(c);
    struct subscription *s = &h->stream.watch->subscription;

    assert(&s->wake == wake);
    watch_stream_send(&h->stream, c, EVENTS_AT_A_TIME);
    if (!conn_is_open(c))
        return;
    if (s->queued > 0) {
        wake_add(&http_of(c)->engine->store.ready, wake);
    } else if (s->ended) {
        watch_stream_end(&h->stream, c);
        input_process(c); /* what was pipelined behind it */
    }
}

/* --- Requests. --- */

static void reply_redirect(const struct http_request *r)
{
    struct reply moved = {.status = 301};
    struct reply_body location, page;

    reply_body_begin(&location);
    reply_body_begin(&page);
    url_write_location(&location.w, r->path, r->query);
    if (http_is_reading(r)) {
        moved.content_type = HTTP_HTML;
        url_write_moved_page(&page.w, r->path, r->query);
    }
    if (reply_body_is_whole(&location)) {
        moved.location = (struct slice){location.w.ptr, location.w.len};
        reply_body_send(r, &moved, &page);
    } else {
        reply_no_memory(r);
        reply_body_drop(&page);
    }
    reply_body_drop(&location);
}

/* Replies to a request before its body has come, and ends the connection without waiting for it.
 * `reply` NULL: there is no memory for the body. */
static void refuse_body(struct conn *c, const struct http_head *head, const struct reply *reply)
{
    struct http_head closing = *head;
    struct http_request r = {.http = http_of(c),
                             .conn = c,
                             .space = conn_space(c),
                             .head = &closing,
                             .path = head->target.path};

    closing.keep_alive = false;
    if (reply != NULL)
        reply_send(&r, reply);
    else
        reply_no_memory(&r);
    conn_finish_draining(c);
}

const struct http_route *http_find_route(const struct http_route *table, struct slice path,
                                         bool metrics)
{
    for (const struct http_route *r = table; r->path != NULL; r++) {
        bool covers = r->kind == ROUTE_ALL     ? true
                      : r->kind == ROUTE_EXACT ? slice_is(path, r->path)
                                               : http_is_below(path, r->path);

        if (covers && (!metrics || r->flags & ROUTE_ON_METRICS_LISTENERS))
            return r;
    }
    return NULL;
}

static const struct http_route *route_of(const struct http_request *r)
{
    return http_find_route(r->http->routes, r->path, r->conn->listener->spec->metrics_only);
}

/* etcd replies 421 to unlisted host names; a browser that DNS rebinding has misled gets 403. */
static void reply_unwelcome_host(const struct http_request *r)
{
    bool listed = r->http->config->host_whitelist.count != 0;

    refusal_note(&http_engine(r)->stats, REFUSAL_HOST, &r->conn->peer, r->head->host);
    if (listed)
        reply_text(r, 421,
                   "--host-whitelist lacks the name in the Host header: add it, or use a listed "
                   "name\n");
    else
        reply_text(r, 403,
                   "this listener serves only this machine, and the Host header is neither an "
                   "address nor localhost: use one of these, or add the name to "
                   "--host-whitelist\n");
}

/* A probe that comes by address is no page's: a page has a name, and its browser says it. */
static bool takes_addresses(const struct http_request *r)
{
    const struct http_route *route = route_of(r);

    return r->http->config->host_whitelist.count > 0 && route != NULL &&
           route->flags & ROUTE_TAKES_ADDRESSES;
}

/* Names are looked at as etcd does: where plain text is spoken, but not where there are metrics
 * alone. No page of another name gets past the certificate; a relay has looked at them. */
static bool is_welcome(const struct http_request *r)
{
    const struct listener *l = r->conn->listener;

    return peer_is_unix(&r->conn->peer) || r->http->behind_relay || r->conn->tls != NULL ||
           (l->spec->metrics_only && !l->loopback) ||
           http_host_is_welcome(r->head->host, &r->http->config->host_whitelist,
                                l->loopback || takes_addresses(r));
}

/* Replies that need no endpoint; false: none was sent. */
static bool reply_early(const struct http_request *r, bool moved)
{
    bool asks_options = r->head->method == HTTP_OPTIONS;

    if (r->head->target.asterisk && !asks_options)
        refuse_body(r->conn, r->head, &(struct reply){.status = 400});
    else if (!r->head->target.asterisk && !is_welcome(r))
        reply_unwelcome_host(r);
    else if (asks_options)
        reply_send(r, &(struct reply){.status = 200});
    else if (moved && r->head->method != HTTP_CONNECT)
        reply_redirect(r);
    else
        return false;
    return true;
}

/* A connection on probation gets one probe, and an error for any other request. `route` is NULL if
 * there is none. False: the error has been sent. Every answer ends the connection. */
static bool admit_on_probation(const struct http_request *r, const struct http_route *route)
{
    if (r->conn->probation == PROBATION_NONE)
        return true;
    if (route != NULL && route->flags & ROUTE_IS_PROBE && http_is_reading(r)) {
        r->conn->probation = PROBATION_OVER;
        return true;
    }
    conn_fail_probation(r->conn);
    reply_text(r, 503,
               "rdzvd takes only probes, because connections or descriptors are short; the log "
               "says which\n");
    return false;
}

static uint64_t *operation_counter(const struct http_request *r, const struct http_route *route)
{
    size_t at = (size_t)(route - r->http->routes);

    assert(at < STATS_ROUTES);
    return &r->http->engine->stats.http_operations[at][r->head->method];
}

void reply_later(const struct http_request *r)
{
    struct stats *stats = &r->http->engine->stats;

    http_session_of(r->conn)->later = true;
    stats->http_requests--; /* it is counted when it is handled */
    (*operation_counter(r, route_of(r)))--;
}

/* --- Jobs. --- */

static void http_job_keep(struct conn *c, struct http_job *job, enum http_job_state state)
{
    struct http_session *h = http_session_of(c);

    h->job = job;
    h->later = true;
    h->job_waits = state == HTTP_JOB_WAITS;
    if (state == HTTP_JOB_CONTINUES)
        conn_wait_for_slice(c);
}

void http_start_job(const struct http_request *r, struct http_job *job, enum http_job_state next)
{
    assert(http_session_of(r->conn)->job == NULL && next != HTTP_JOB_DONE);
    if (!job->no_use)
        engine_use_began(r->http->engine);
    http_job_keep(r->conn, job, next);
}

void http_run_job(const struct http_request *r, struct http_job *job)
{
    if (job->run(job, r) == HTTP_JOB_CONTINUES)
        http_start_job(r, job, HTTP_JOB_CONTINUES);
    else
        job->free(job);
}

/* The job may end the connection and its session, or start another job, which takes its place. */
static void http_job_run(const struct http_request *r)
{
    struct conn *c = r->conn;
    struct http_session *h = http_session_of(c);
    struct http_job *job = h->job;
    enum http_job_state state;

    if (!h->job_waits && !conn_begin_slice(c)) {
        h->later = true;
        return;
    }
    h->job = NULL;
    state = job->run(job, r);
    if (state != HTTP_JOB_DONE && conn_is_open(c))
        http_job_keep(c, job, state);
    else
        http_job_free(r->http->engine, job);
}

void http_wake_job(struct conn *c)
{
    input_unpark(c);
}

/* --- Endpoints. --- */

/* Most requests name one key, or a page of the daemon that is quickly made; of others their routes
 * say so. False: a slow request must wait for a slice. */
static bool has_slice(const struct http_request *r, const struct http_route *route)
{
    bool is_slow = !(route->flags & ROUTE_FAST) ||
                   http_session_of(r->conn)->raw_at + PATH_WEIGHT * r->path.len > FAST_SIZE ||
                   (!http_is_reading(r) && r->space->store->tree.hub.registered > FAST_WATCHES);

    return !is_slow || conn_begin_slice(r->conn);
}

bool http_handle_again(const struct http_request *r, struct http_job *job)
{
    const struct http_route *route = route_of(r);
    struct http_request again = *r;

    if (!has_slice(r, route))
        return false;
    again.job = job;
    route->handle(&again);
    return true;
}

static void ask_endpoint(const struct http_request *r, bool moved)
{
    const struct http_route *route;

    if (reply_early(r, moved))
        return;
    route = route_of(r);
    if (!admit_on_probation(r, route))
        return;
    if (route == NULL) {
        reply_not_found(r);
        return;
    }
    (*operation_counter(r, route))++;
    if ((route->flags & ROUTE_FOR_READERS) && !http_may_read(r))
        return;
    if (!has_slice(r, route)) {
        reply_later(r);
        return;
    }
    if (r->http->request_watch->tell != NULL)
        r->http->request_watch->tell(r->http->request_watch->arg, r);
    if (route->flags & ROUTE_USES_STORE)
        engine_use_began(r->http->engine);
    else
        account_begin_watching();
    if (route->allow != NULL && !http_allows(r, route->allow))
        reply_not_allowed(r, route->allow, HTTP_ETCD_NONE);
    else
        route->handle(r);
    account_end_watching();
    if (route->flags & ROUTE_USES_STORE)
        engine_use_ended(r->http->engine);
}

static void http_handle(struct conn *c, const struct http_head *head, struct slice body)
{
    struct http_request r = {.http = http_of(c),
                             .conn = c,
                             .space = conn_space(c),
                             .head = head,
                             .query = head->target.query,
                             .body = body};
    size_t room = head->target.path.len + 1;
    struct http_head last;
    uint8_t small[1024];
    uint8_t *path =
        room <= sizeof small ? small : account_request(ACCOUNT_INPUT, account_class_of(room), room);
    bool moved = false;

    if (c->probation != PROBATION_NONE || conn_net(c)->draining) { /* one request, and no more */
        last = *head;
        last.keep_alive = false;
        r.head = head = &last;
    }
    if (path == NULL) {
        CONN_DROP_FOR_MEMORY(c, "its request");
        return;
    }
    if (head->method == HTTP_CONNECT)
        r.path = url_unescape_path(head->target.path, path);
    else
        r.path = url_clean_path(head->target.path, path, &moved);
    conn_net(c)->served = c;
    if (http_session_of(c)->job != NULL) {
        http_job_run(&r);
    } else {
        http_of(c)->engine->stats.http_requests++;
        ask_endpoint(&r, moved);
    }
    conn_net(c)->served = NULL;
    if (path != small)
        account_free(ACCOUNT_INPUT, path, room);
    if (!conn_is_open(c) || http_session_of(c)->later || http_session_of(c)->stream.watch != NULL ||
        head->keep_alive)
        return;
    if (body.ptr == NULL && http_session_of(c)->body != HTTP_BODY_NONE)
        conn_finish_draining(c); /* its body is still to come */
    else
        conn_finish(c);
}

/* --- Reading. --- */

static void refuse_head(struct conn *c, const struct http_refusal *why)
{
    uint8_t text[512];
    struct writer w = {.ptr = text, .cap = sizeof text};

    if (why->silent) {
        conn_drop(c, DROP_MALFORMED, why->reason, (struct slice){0});
        return;
    }
    log_limited(LOG_INFO, "http_bad_request", log_str("peer", CONN_PEER(c)),
                log_str("protocol", "http"), log_str("reason", why->reason));
    http_write_refusal(&w, why);
    conn_put(c, text, w.len);
    conn_finish_draining(c);
}

static void refuse_form(struct conn *c, const struct http_head *head, const char *cause)
{
    uint8_t text[256];
    struct writer w = {.ptr = text, .cap = sizeof text};

    etcd_write_error(&w, ETCD_INVALID_FORM, slice_str(cause), 0);
    refuse_body(c, head,
                &(struct reply){.status = etcd_status(ETCD_INVALID_FORM),
                                .content_type = HTTP_JSON,
                                .etcd = HTTP_ETCD_ERROR,
                                .body = {text, w.len}});
}

/* As in Go, so that the connection stays: a body that exceeds the limit of forms by this much is
 * read anyway and refused by its endpoint, and this much of a body without a reading endpoint is
 * dropped. */
#define BODY_SLACK (256u * 1024)
#define BODY_MAX   ((size_t)HTTP_FORM_MAX + BODY_SLACK)

/* Does an endpoint read the body: a form of /v2/keys, JSON elsewhere? Go reads a body only then,
 * and otherwise neither asks for it nor finds fault with it. */
static bool wants_body(const struct http_head *head)
{
    return (head->method == HTTP_PUT || head->method == HTTP_POST) &&
           (!http_is_below(head->target.path, "/v2/keys") ||
            etcd_has_form(head->method, head->content_type));
}

/* Handles a complete head. False: the connection ends. */
static bool begin_body(struct conn *c, struct http_head *head, size_t head_len)
{
    struct http_session *h = http_session_of(c);

    h->in_body = true;
    h->head_len = h->raw_at = head_len;
    h->body = head->body;
    h->length = head->content_length;
    h->body_len = 0;
    h->is_whole = h->body == HTTP_BODY_NONE;
    h->closes = false;
    h->chunks = (struct http_chunks){0};
    if (head->expect == HTTP_EXPECT_OTHER) {
        refuse_body(c, head, &(struct reply){.status = 417});
        return false;
    }
    if (h->body == HTTP_BODY_NONE)
        return true;
    if (!wants_body(head)) {
        /* What follows a head that waits for a 100 cannot be told from the next one. */
        h->closes = h->length > BODY_SLACK || head->expect == HTTP_EXPECT_CONTINUE;
        head->keep_alive = head->keep_alive && !h->closes;
        h->skipping = head->keep_alive;
        h->is_whole = true; /* as far as it is wanted */
        return true;
    }
    if (h->length > BODY_MAX) {
        refuse_form(c, head, "http: POST too large");
        return false;
    }
    if (!store_make_room(&http_of(c)->engine->store, account_class_of((size_t)h->length),
                         (size_t)h->length)) {
        refuse_body(c, head, NULL);
        return false;
    }
    if (head->expect == HTTP_EXPECT_CONTINUE)
        conn_put(c, "HTTP/1.1 100 Continue\r\n\r\n", 25);
    return true;
}

/* Passes over a body that nobody wants: returns how many bytes of `in` belong to it. */
static size_t skip_body(struct conn *c, const uint8_t *in, size_t len)
{
    struct http_session *h = http_session_of(c);
    size_t at = 0;

    if (h->body == HTTP_BODY_LENGTH) {
        at = h->length < len ? (size_t)h->length : len;
        h->length -= at;
        h->skipping = h->length > 0;
        return at;
    }
    while (h->skipping) {
        struct slice data = {0};
        size_t size = 0;
        const char *why;
        enum parse_result result =
            http_next_chunk(&h->chunks, (struct slice){in + at, len - at}, &data, &size, &why);

        h->length += size;
        if (result == PARSE_BAD || h->length > BODY_SLACK) {
            conn_finish_draining(c);
            return len;
        }
        at += size;
        if (result == PARSE_MORE)
            return at;
        h->skipping = data.len != 0;
    }
    return at;
}

/* Decodes what has come of a chunked body, down to right behind the head. */
static enum parse_result read_chunks(struct conn *c, uint8_t *in, size_t len, const char **why)
{
    struct http_session *h = http_session_of(c);

    for (;;) {
        struct slice data = {0};
        size_t size = 0;
        enum parse_result result = http_next_chunk(
            &h->chunks, (struct slice){in + h->raw_at, len - h->raw_at}, &data, &size, why);

        if (result == PARSE_BAD)
            return result;
        h->raw_at += size;
        /* Decoded bytes stay in the buffer until the request is whole, with their framing: a body
         * that consists mostly of chunk extensions has a limit of its own. */
        if (h->body_len + data.len > BODY_MAX || h->raw_at / 2 > BODY_MAX) {
            *why = "http: POST too large";
            return PARSE_BAD;
        }
        if (data.len == 0)
            return result; /* more bytes are needed, or it was the last chunk */
        memmove(in + h->head_len + h->body_len, data.ptr, data.len);
        h->body_len += data.len;
    }
}

/* Reads what has come of a body that an endpoint wants. PARSE_MORE: *size bytes are needed. */
static enum parse_result http_read_body(struct conn *c, uint8_t *in, size_t len, size_t *size,
                                        const char **why)
{
    struct http_session *h = http_session_of(c);

    if (h->is_whole)
        return PARSE_DONE;
    if (h->body == HTTP_BODY_LENGTH) {
        *size = h->raw_at = h->head_len + (size_t)h->length;
        h->body_len = (size_t)h->length;
        return len < h->raw_at ? PARSE_MORE : PARSE_DONE;
    }
    *size = len + 1;
    return read_chunks(c, in, len, why);
}

/* Handles a whole request. False: it must wait for a slice. */
static bool http_run_request(struct conn *c, const struct http_head *head, struct slice body,
                             size_t size)
{
    struct engine *e = http_of(c)->engine; /* the session may end with this request */
    uint64_t beside = e->store.ready.work;

    http_session_of(c)->in_body = false;
    http_handle(c, head, body);
    conn_end_slice(c);
    if (conn_is_open(c) && http_session_of(c)->later) {
        http_session_of(c)->in_body = true;
        http_session_of(c)->later = false;
        return false;
    }
    conn_charge(c, REQUEST_COST + size + (e->store.ready.work - beside) * NOTIFY_COST);
    return true;
}

/* What reading one request came to. */
enum request_result {
    REQUEST_DONE,  /* the reply has been sent, or a watch is open */
    REQUEST_MORE,  /* more bytes are needed */
    REQUEST_WAITS, /* the whole request is here, and waits for its slice or job */
    REQUEST_BAD,   /* the connection is finishing or closed */
};

/* Reads a head, and handles it. */
static enum request_result http_read_head(struct conn *c, struct slice in, struct http_head *head,
                                          size_t *size)
{
    struct http_session *h = http_session_of(c);
    struct http_refusal refusal;

    h->before = (struct http_parser){.later = h->parser.later, .after_post = h->parser.after_post};
    switch (http_parse_head(&h->parser, in, HTTP_HEAD_MAX, head, size, &refusal)) {
    case PARSE_MORE:
        return REQUEST_MORE;
    case PARSE_BAD:
        refuse_head(c, &refusal);
        return REQUEST_BAD;
    default:
        return begin_body(c, head, *size) ? REQUEST_DONE : REQUEST_BAD;
    }
}

/* Reads one request of *size bytes at the start of `in`; REQUEST_MORE: it needs that many bytes. */
static enum request_result http_read_request(struct conn *c, uint8_t *in, size_t len, size_t *size)
{
    struct http_session *h = http_session_of(c);
    struct slice whole = {in, len}, body = {0};
    bool fresh = !h->in_body;
    enum parse_result result;
    struct http_head head;
    const char *why = NULL;

    if (fresh) {
        enum request_result begun = http_read_head(c, whole, &head, size);

        if (begun != REQUEST_DONE)
            return begun;
    }
    result = http_read_body(c, in, len, size, &why);
    if (result == PARSE_MORE)
        return REQUEST_MORE;
    if (!fresh) { /* the buffer may have moved since, so the head is read again */
        struct http_parser again = h->before;
        struct http_refusal refusal;
        size_t head_len;

        http_parse_head(&again, whole, HTTP_HEAD_MAX, &head, &head_len, &refusal);
        head.keep_alive = head.keep_alive && !h->closes;
    }
    if (result == PARSE_BAD) {
        refuse_form(c, &head, why);
        return REQUEST_BAD;
    }
    h->is_whole = true;
    *size = h->raw_at;
    if (h->raw_at > h->head_len)
        body = (struct slice){in + h->head_len, h->body_len};
    return http_run_request(c, &head, body, *size) ? REQUEST_DONE : REQUEST_WAITS;
}

static bool http_eof(struct conn *c)
{
    struct http_session *h = http_session_of(c);
    struct http_refusal refusal;
    struct http_head head;
    size_t head_len;

    /* A half-closed peer may still read: as etcd does, end the reply properly and go on with the
     * requests that the peer sent behind the watch. */
    while (conn_is_open(c) && h->stream.watch != NULL) {
        watch_stream_send(&h->stream, c, INT_MAX);
        if (conn_is_open(c))
            watch_stream_end(&h->stream, c);
        input_process(c);
    }
    if (!conn_is_open(c) || c->input == INPUT_PAUSED || c->input == INPUT_DEFERRED)
        return true;
    if (h->job != NULL) { /* the reply is still to come */
        if (h->job->eof != NULL)
            h->job->eof(h->job);
        return true;
    }
    if (c->in == NULL || h->skipping)
        return false;
    if (!h->in_body) {
        http_refuse_unfinished(&h->parser, input_bytes(c), &refusal);
        refuse_head(c, &refusal);
        return true;
    }
    if (http_parse_head(&h->before, input_bytes(c), HTTP_HEAD_MAX, &head, &head_len, &refusal) !=
        PARSE_DONE)
        return false;
    refuse_form(c, &head, "unexpected EOF");
    return true;
}

static enum protocol_result http_read_requests(struct conn *c, uint8_t *in, size_t len,
                                               struct protocol_progress *progress)
{
    struct http_session *h = http_session_of(c);

    if (h->stream.watch != NULL)
        return PROTOCOL_PARKED; /* what comes behind an open watch waits for its end */
    while (progress->used < len) {
        uint8_t *at = in + progress->used;
        size_t left = len - progress->used, size = 0;
        enum request_result result;

        if (h->skipping && !h->in_body) {
            progress->used += skip_body(c, at, left);
            if (!conn_is_open(c))
                return PROTOCOL_ENDED;
            if (h->skipping)
                return PROTOCOL_SKIPPING;
            continue;
        }
        if (!conn_can_reply(c))
            return PROTOCOL_PAUSED;
        if (!conn_has_budget(c))
            return PROTOCOL_DEFERRED;
        result = http_read_request(c, at, left, &size);
        if (!conn_is_open(c) || result == REQUEST_BAD)
            return PROTOCOL_ENDED;
        if (result != REQUEST_DONE) {
            progress->need = progress->used + size;
            return result == REQUEST_MORE           ? PROTOCOL_MORE
                   : h->job != NULL && h->job_waits ? PROTOCOL_PARKED
                                                    : PROTOCOL_DEFERRED;
        }
        progress->used += size;
        if (h->stream.watch != NULL)
            return PROTOCOL_PARKED;
    }
    return h->skipping ? PROTOCOL_SKIPPING : PROTOCOL_MORE;
}

/* --- The protocol. --- */

/* No other protocol that is spoken here begins with a capital letter. */
static enum parse_result http_begin(const struct protocol *p, struct conn *c, struct slice in,
                                    struct protocol_progress *progress, const char **)
{
    enum parse_result http2 = http2_begin(c, in, progress);
    struct http_session *h;

    if (http2 != PARSE_BAD || in.ptr[0] < 'A' || in.ptr[0] > 'Z')
        return http2;
    *progress = (struct protocol_progress){0};
    h = account_request_zeroed(ACCOUNT_SESSIONS, conn_class(c), sizeof *h);
    if (h == NULL) {
        CONN_DROP_FOR_MEMORY(c, "a session");
        return PARSE_BAD;
    }
    memcpy(c->session.bytes, &h, sizeof h);
    c->protocol = p;
    return PARSE_DONE;
}

static bool http_is_busy(const struct conn *c)
{
    const struct http_job *job = http_session_of(c)->job;

    return job != NULL && !job->endless;
}

static void http_drained(struct conn *c)
{
    struct http_job *job = http_session_of(c)->job;

    if (job != NULL && job->drained != NULL)
        job->drained(job);
}

static void http_stop(struct conn *c)
{
    struct http_job *job = http_session_of(c)->job;

    if (job != NULL && job->stop != NULL)
        job->stop(job);
}

struct protocol http_protocol(struct http *http)
{
    return (struct protocol){.name = "http",
                             .pipelines = true,
                             .arg = http,
                             .begin = http_begin,
                             .read = http_read_requests,
                             .eof = http_eof,
                             .is_busy = http_is_busy,
                             .stop = http_stop,
                             .resume = http_resume,
                             .drained = http_drained,
                             .end = http_end};
}
