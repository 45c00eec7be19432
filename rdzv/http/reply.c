/* HTTP replies: status lines, the headers that etcd sends, bodies. See reply.h. */
#include "rdzv/http/reply.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "proto/json.h"

static const char *const reasons[STATS_STATUSES] = {
    [200] = "OK",
    [201] = "Created",
    [204] = "No Content",
    [301] = "Moved Permanently",
    [304] = "Not Modified",
    [400] = "Bad Request",
    [401] = "Unauthorized",
    [403] = "Forbidden",
    [404] = "Not Found",
    [405] = "Method Not Allowed",
    [409] = "Conflict",
    [410] = "Gone",
    [412] = "Precondition Failed",
    [413] = "Request Entity Too Large",
    [415] = "Unsupported Media Type",
    [417] = "Expectation Failed",
    [421] = "Misdirected Request",
    [500] = "Internal Server Error",
    [503] = "Service Unavailable",
};

/* The Date header; made once a second. */
static const char *date_line(void)
{
    static char line[64];
    static time_t made_for = -1;
    time_t now = time(NULL);
    struct tm tm;

    if (now != made_for) {
        gmtime_r(&now, &tm);
        strftime(line, sizeof line, "Date: %a, %d %b %Y %H:%M:%S GMT\r\n", &tm);
        made_for = now;
    }
    return line;
}

static void header_u64(struct writer *w, const char *name, uint64_t v)
{
    writer_str(w, name);
    json_u64(w, v);
    writer_str(w, "\r\n");
}

static void header_str(struct writer *w, const char *name, const char *value)
{
    writer_str(w, name);
    writer_str(w, value);
    writer_str(w, "\r\n");
}

/* No header by default; with --cors, the request's origin if the list has it, or `*`. */
static void write_cors(struct writer *w, const struct http_request *r)
{
    const struct string_list *list = &r->http->config->cors;
    struct slice allowed = {0};

    for (size_t i = 0; i < list->count; i++) {
        if (strcmp(list->items[i], "*") == 0)
            allowed = slice_str("*");
        else if (slice_is(r->head->origin, list->items[i]))
            allowed = r->head->origin;
    }
    if (allowed.len == 0)
        return;
    writer_str(w, "Access-Control-Allow-Headers: accept, content-type, authorization\r\n"
                  "Access-Control-Allow-Methods: POST, GET, OPTIONS, PUT, DELETE\r\n"
                  "Access-Control-Allow-Origin: ");
    writer_slice(w, allowed);
    writer_str(w, "\r\n");
}

static void write_etcd_headers(struct writer *w, const struct http_request *r,
                               enum http_etcd_headers which, uint64_t index)
{
    if (which == HTTP_ETCD_NONE)
        return;
    header_str(w, "X-Etcd-Cluster-Id: ", ETCD_ID(r->http->cluster_id));
    if (which == HTTP_ETCD_CLUSTER)
        return;
    header_u64(w, "X-Etcd-Index: ", index);
    if (which == HTTP_ETCD_ERROR)
        return;
    header_u64(w, "X-Raft-Index: ", index + 1);
    writer_str(w, "X-Raft-Term: 2\r\n"); /* one leader, for ever */
}

/* The status line and all headers but Content-Length and Location. They fit into REPLY_HEAD_ROOM,
 * the request's Origin not counted. */
#define REPLY_HEAD_ROOM 1280
static void write_head(struct writer *w, const struct http_request *r, const struct reply *reply)
{
    assert(reply->status < STATS_STATUSES);
    r->http->engine->stats.http_replies[reply->status]++;
    writer_str(w, r->head->minor == 0 ? "HTTP/1.0 " : "HTTP/1.1 ");
    json_u64(w, reply->status);
    writer_u8(w, ' ');
    writer_str(w, reasons[reply->status] != NULL ? reasons[reply->status] : "Status");
    writer_str(w, "\r\n");
    /* Go replies to these two itself, before etcd's handlers see the request. */
    if (reply->status != 417 && !(r->head->target.asterisk && r->head->method == HTTP_OPTIONS))
        write_cors(w, r);
    if (reply->allow != NULL)
        header_str(w, "Allow: ", reply->allow);
    if (reply->content_type != NULL)
        header_str(w, "Content-Type: ", reply->content_type);
    if (reply->nosniff)
        writer_str(w, "X-Content-Type-Options: nosniff\r\n");
    if (reply->no_store)
        writer_str(w, "Cache-Control: no-store\r\n");
    if (reply->headers != NULL)
        writer_str(w, reply->headers);
    write_etcd_headers(w, r, reply->etcd, reply->index);
    writer_str(w, date_line());
    if (!r->head->keep_alive && r->head->minor != 0)
        writer_str(w, "Connection: close\r\n");
    else if (r->head->keep_alive && r->head->minor == 0)
        writer_str(w, "Connection: keep-alive\r\n");
}

void reply_send(const struct http_request *r, const struct reply *reply)
{
    size_t room = REPLY_HEAD_ROOM + r->head->origin.len;
    uint8_t small[2048];
    uint8_t *head = room <= sizeof small
                        ? small
                        : account_request(ACCOUNT_ANSWERS, account_class_of(room), room);
    struct writer w = {.ptr = head, .cap = room};

    if (head == NULL) {
        CONN_DROP_FOR_MEMORY(r->conn, "its answers");
        return;
    }
    write_head(&w, r, reply);
    if (reply->status != 204 && reply->status != 304 &&
        !(reply->status == 301 && r->head->method == HTTP_HEAD))
        header_u64(&w, "Content-Length: ", reply->body.len);
    assert(w.len + 2 <= w.cap);
    if (reply->location.len != 0) {
        conn_put(r->conn, head, w.len);
        conn_put(r->conn, "Location: ", 10);
        conn_put(r->conn, reply->location.ptr, reply->location.len);
        w.len = 0;
        writer_str(&w, "\r\n");
    }
    writer_str(&w, "\r\n");
    conn_put(r->conn, head, w.len);
    if (r->head->method != HTTP_HEAD)
        conn_put_part(r->conn, reply->shared, reply->body);
    if (head != small)
        account_free(ACCOUNT_ANSWERS, head, room);
}

bool reply_begin_stream(const struct http_request *r, const struct reply *reply)
{
    uint8_t small[REPLY_HEAD_ROOM * 2];
    struct writer w = {.ptr = small, .cap = sizeof small};
    bool chunked = r->head->minor != 0;
    struct http_head head = *r->head;
    struct http_request request = *r;

    head.keep_alive = head.keep_alive && chunked;
    if (head.origin.len > REPLY_HEAD_ROOM / 2)
        head.origin.len = 0; /* no allowed origin is that long */
    request.head = &head;
    write_head(&w, &request, reply);
    if (chunked && r->head->method != HTTP_HEAD)
        writer_str(&w, "Transfer-Encoding: chunked\r\n");
    writer_str(&w, "\r\n");
    assert(w.len <= w.cap);
    conn_put(r->conn, small, w.len);
    return chunked;
}

void reply_stream_put(struct conn *c, bool chunked, struct blob *b, struct slice data)
{
    char size[24];

    if (data.len == 0)
        return; /* an empty chunk would end the body */
    if (chunked)
        conn_put(c, size, (size_t)snprintf(size, sizeof size, "%zx\r\n", data.len));
    conn_put_part(c, b, data);
    if (chunked)
        conn_put(c, "\r\n", 2);
}

void reply_stream_end(struct conn *c, bool chunked)
{
    if (chunked)
        conn_put(c, "0\r\n\r\n", 5);
    else
        conn_finish(c);
}

void reply_etcd_error(const struct http_request *r, enum etcd_code code, struct slice cause,
                      uint64_t index)
{
    struct reply_body body;

    reply_body_begin(&body);
    etcd_write_error(&body.w, code, cause, index);
    reply_body_send(r,
                    &(struct reply){.status = etcd_status(code),
                                    .content_type = HTTP_JSON,
                                    .etcd = HTTP_ETCD_ERROR,
                                    .index = index},
                    &body);
}

void reply_unavailable(const struct http_request *r, const char *message)
{
    if (http_is_below(r->path, "/v2/keys"))
        reply_etcd_error(r, ETCD_INTERNAL, slice_str(message), r->space->store->tree.index);
    else
        reply_message(r, 503, message, HTTP_ETCD_NONE);
}

void reply_no_memory(const struct http_request *r)
{
    reply_unavailable(r, "rdzvd: out of memory, see --memory-limit");
}

void reply_text(const struct http_request *r, unsigned status, const char *text)
{
    reply_send(r, &(struct reply){.status = status,
                                  .content_type = HTTP_TEXT,
                                  .nosniff = true,
                                  .body = slice_str(text)});
}

void reply_not_found(const struct http_request *r)
{
    reply_text(r, 404, "404 page not found\n");
}

void reply_not_allowed(const struct http_request *r, const char *allow, enum http_etcd_headers etcd)
{
    reply_send(r, &(struct reply){.status = 405,
                                  .content_type = HTTP_TEXT,
                                  .etcd = etcd,
                                  .allow = allow,
                                  .nosniff = true,
                                  .body = slice_str("Method Not Allowed\n")});
}

bool http_excludes(const struct http_request *r, const char *name)
{
    struct slice rest = r->query;
    struct url_param param;
    struct url_error why;

    if (!url_check_form(r->query, &why))
        return false;
    while (url_next_param(&rest, &param)) {
        if (slice_is(param.name, "exclude") && slice_is(param.value, name))
            return true;
    }
    return false;
}

bool http_is_below(struct slice path, const char *root)
{
    size_t len = strlen(root);

    return slice_starts_with(path, slice_str(root)) && (path.len == len || path.ptr[len] == '/');
}

/* --- Bodies that grow. --- */

static struct blob *reply_body_resize(struct blob *b, size_t cap)
{
    size_t old = b == NULL ? 0 : blob_size(b);

    b = account_resize(ACCOUNT_ANSWERS, account_class_of(cap), b, old, sizeof *b + cap);
    return b == NULL ? NULL : blob_begin(b, ACCOUNT_ANSWERS, cap);
}

/* If the body cannot double, it grows by a part of its size, and never by a few bytes: each step
 * may copy the whole body, and a body of 10 MB would be copied for every word. */
#define REPLY_BODY_GROW_PART 16

/* Grows the body to at least `len` bytes, and to twice its size if memory allows. */
static void reply_body_grow(struct writer *w, size_t len)
{
    struct reply_body *b = (struct reply_body *)w; /* its first member */
    size_t cap = 2 * w->cap > len ? 2 * w->cap : len;
    struct blob *wider = reply_body_resize(b->blob, cap);

    if (wider == NULL)
        wider = reply_body_resize(b->blob, cap = len + w->cap / REPLY_BODY_GROW_PART);
    if (wider == NULL) {
        w->grow = NULL;
        return;
    }
    if (b->blob == NULL)
        memcpy(wider->bytes, b->small, w->len);
    b->blob = wider;
    w->ptr = wider->bytes;
    w->cap = cap;
}

void reply_body_begin(struct reply_body *b)
{
    b->w = (struct writer){.ptr = b->small, .cap = sizeof b->small, .grow = reply_body_grow};
    b->blob = NULL;
}

/* Shrinks the body to its written length, because it may be queued for a long time. A body with
 * little spare room stays as it is. False if memory is short. */
static bool reply_body_shrink(struct reply_body *b)
{
    size_t spare = b->blob->len - b->w.len;
    struct blob *less;

    if (spare > b->w.len / 8 || spare > BLOB_SPARE_MAX) {
        less =
            account_realloc(ACCOUNT_ANSWERS, b->blob, blob_size(b->blob), sizeof *less + b->w.len);
        if (less == NULL)
            return false;
        b->blob = blob_begin(less, ACCOUNT_ANSWERS, b->w.len);
        spare = 0;
    }
    blob_leave_spare(b->blob, spare);
    return true;
}

void reply_body_send(const struct http_request *r, const struct reply *reply, struct reply_body *b)
{
    struct reply whole = *reply;

    conn_charge(r->conn, b->w.len);
    if (!reply_body_is_whole(b) || (b->blob != NULL && !reply_body_shrink(b))) {
        reply_no_memory(r);
    } else {
        whole.shared = b->blob;
        whole.body = b->blob != NULL ? blob_slice(b->blob) : (struct slice){b->small, b->w.len};
        reply_send(r, &whole);
    }
    reply_body_drop(b);
}

void reply_body_drop(struct reply_body *b)
{
    blob_unref(b->blob);
    b->blob = NULL;
}

/* --- {"message":"…"}. --- */

void reply_message_parts(const struct http_request *r, unsigned status, enum http_etcd_headers etcd,
                         const struct slice *parts, size_t count)
{
    struct reply_body body;

    reply_body_begin(&body);
    writer_str(&body.w, "{\"message\":\"");
    for (size_t i = 0; i < count; i++)
        json_text(&body.w, parts[i]);
    writer_str(&body.w, "\"}");
    reply_body_send(r, &(struct reply){.status = status, .content_type = HTTP_JSON, .etcd = etcd},
                    &body);
}

void reply_message(const struct http_request *r, unsigned status, const char *message,
                   enum http_etcd_headers etcd)
{
    REPLY_MESSAGE(r, status, etcd, slice_str(message));
}
