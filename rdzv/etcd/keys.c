/* /v2/keys: a request becomes a command or a read of the tree, and its result a reply. The rules
 * are in store/tree/tree.h, those of parameters in proto/etcd.h, those of JSON in
 * proto/etcd_types.h. */
#include <stdio.h>

#include "proto/etcd.h"
#include "rdzv/etcd/handlers.h"
#include "rdzv/http/session.h"
#include "store/tree/tree_reader.h"

/* What follows /v2/keys, without a trailing slash; the root is "/". */
static struct slice keys_path_of(struct slice path)
{
    struct slice key = slice_from(path, strlen("/v2/keys"));

    while (key.len > 1 && key.ptr[key.len - 1] == '/')
        key.len--;
    return key.len == 0 ? slice_str("/") : key;
}

/* --- Errors. --- */

static const char *why_not_kept(enum store_status why)
{
    switch (why) {
    case STORE_TOO_LONG:
        return "rdzvd: the path has more than 4096 bytes or 1024 names";
    case STORE_READ_ONLY:
        return "rdzvd: the data directory takes no changes, see /readyz?verbose";
    default:
        return "rdzvd: the space is full, see --space-limit";
    }
}

/* ETCD_INTERNAL, and why. */
static void reply_not_kept(const struct http_request *r, enum store_status why)
{
    if (why == STORE_NO_MEMORY)
        reply_no_memory(r);
    else
        reply_etcd_error(r, ETCD_INTERNAL, slice_str(why_not_kept(why)),
                         r->space->store->tree.index);
}

/* --- Reads. --- */

/* The directory of the agents' keys over etcd-v2. Agents of torch 2.4 list it before an agent has
 * made it, and fail if it does not exist (pytorch #132950), so rdzvd shows an empty directory. */
#define TORCH_STORE "/torch/elastic/store"

static struct reply reply_at(uint64_t index)
{
    return (struct reply){
        .status = 200, .content_type = HTTP_JSON, .etcd = HTTP_ETCD_KEYS, .index = index};
}

static void reply_torch_store(const struct http_request *r, uint64_t index)
{
    struct reply reply = reply_at(index);

    reply.body =
        slice_str("{\"action\":\"get\",\"node\":{\"key\":\"" TORCH_STORE "\",\"dir\":true}}\n");
    reply_send(r, &reply);
}

/* --- A large one, in slices: a whole reply if one slice is enough, otherwise pieces. --- */

struct get_job {
    struct http_job job;
    struct tree_reader *reader;
    uint64_t index; /* of the tree when it began */
    bool begun;     /* the head has been sent */
    bool chunked;
};

static void get_job_free(struct http_job *job)
{
    struct get_job *j = (struct get_job *)job; /* its first member */

    tree_reader_close(j->reader);
    account_free(ACCOUNT_ANSWERS, j, sizeof *j);
}

/* Part of the reply has been sent: no error can be. */
static enum http_job_state get_job_fail(const struct get_job *j, const struct http_request *r)
{
    if (j->begun)
        conn_drop(r->conn, DROP_NO_MEMORY, "no memory for its answers, see --memory-limit",
                  r->path);
    else
        reply_no_memory(r);
    return HTTP_JOB_DONE;
}

/* Sends a piece of the reply; true if the reply ends here. */
static bool get_job_send(struct get_job *j, const struct http_request *r, struct blob *piece,
                         bool last)
{
    struct reply reply = reply_at(j->index);
    bool has_body = r->head->method != HTTP_HEAD;

    if (last && !j->begun) {
        reply.shared = piece;
        reply.body = blob_slice(piece);
        reply_send(r, &reply);
        return true;
    }
    if (!j->begun)
        j->chunked = reply_begin_stream(r, &reply);
    j->begun = true;
    if (has_body)
        reply_stream_put(r->conn, j->chunked, piece, blob_slice(piece));
    if (last && has_body)
        reply_stream_end(r->conn, j->chunked);
    return last || !has_body;
}

static enum http_job_state get_job_run(struct http_job *job, const struct http_request *r)
{
    struct get_job *j = (struct get_job *)job;
    int64_t work_ns = HTTP_SLICE_NS;
    bool done = false;

    while (work_ns > 0 && !done) {
        struct blob *piece;
        enum tree_read result = tree_reader_run(j->reader, &work_ns, &piece);

        if (result == TREE_READ_FAILED)
            return get_job_fail(j, r);
        if (piece != NULL)
            done = get_job_send(j, r, piece, result == TREE_READ_DONE);
        blob_unref(piece);
    }
    return done ? HTTP_JOB_DONE : HTTP_JOB_CONTINUES;
}

static void get_job_start(const struct http_request *r, const struct node *n,
                          const struct etcd_request *q)
{
    struct tree *t = &r->space->store->tree;
    struct get_job *j = account_request(ACCOUNT_ANSWERS, ACCOUNT_SMALL, sizeof *j);

    if (j == NULL) {
        reply_no_memory(r);
        return;
    }
    *j = (struct get_job){.job = {.run = get_job_run, .free = get_job_free}, .index = t->index};
    j->reader = tree_reader_open(t, n, q->recursive, q->sorted, engine_wall_ns(http_engine(r)));
    if (j->reader != NULL) {
        http_run_job(r, &j->job);
        return;
    }
    reply_no_memory(r);
    get_job_free(&j->job);
}

/* --- The whole of reads. --- */

static void reply_small_node(const struct http_request *r, const struct node *n,
                             const struct etcd_request *q)
{
    struct tree *t = &r->space->store->tree;
    const struct reply reply = reply_at(t->index);
    struct reply_body body;

    reply_body_begin(&body);
    if (tree_write_get(t, n, q->recursive, q->sorted, engine_wall_ns(http_engine(r)), &body.w)) {
        reply_body_send(r, &reply, &body);
        return;
    }
    reply_body_drop(&body);
    reply_no_memory(r);
}

/* Replies with a node or with "key not found", or starts a job that replies in slices. */
static void reply_get(const struct http_request *r, struct slice key, const struct etcd_request *q)
{
    struct tree *t = &r->space->store->tree;
    const struct node *n;
    struct slice where;
    enum etcd_code code = tree_get(t, key, &n, &where);

    if (code == ETCD_KEY_NOT_FOUND && slice_is(key, TORCH_STORE) &&
        r->http->config->elastic.fixes) {
        reply_torch_store(r, t->index);
    } else if (code != ETCD_OK) {
        reply_etcd_error(r, code, where, t->index);
    } else if (tree_is_small(t, n)) {
        reply_small_node(r, n, q);
    } else if (conn_begin_slice(r->conn)) {
        get_job_start(r, n, q);
    } else {
        tree_take_back_get(t);
        reply_later(r);
    }
}

/* --- Watches. --- */

static void start_watch(const struct http_request *r, struct slice key,
                        const struct etcd_request *q)
{
    struct tree *t = &r->space->store->tree;
    struct watch *watch;
    enum etcd_code code;

    if (!tree_path_fits(key)) {
        reply_not_kept(r, STORE_TOO_LONG);
        return;
    }
    if (!watch_has_room(&t->hub, key)) {
        reply_not_kept(r, STORE_FULL);
        return;
    }
    code = watch_open(&t->hub, key, q->recursive, q->stream, q->wait_index, r->conn, &watch);
    if (code == ETCD_OK) {
        http_start_watch(r, watch, t->index);
    } else if (code == ETCD_INTERNAL) {
        reply_no_memory(r);
    } else {
        char cause[128];

        snprintf(cause, sizeof cause, "the requested history has been cleared [%llu/%llu]",
                 (unsigned long long)t->hub.oldest, (unsigned long long)q->wait_index);
        reply_etcd_error(r, ETCD_INDEX_CLEARED, slice_str(cause), t->index);
    }
}

/* --- Changes. --- */

static const enum command_kind command_kinds[] = {
    [ETCD_OP_SET] = COMMAND_TREE_SET,
    [ETCD_OP_CREATE] = COMMAND_TREE_CREATE,
    [ETCD_OP_CREATE_IN_ORDER] = COMMAND_TREE_CREATE_IN_ORDER,
    [ETCD_OP_UPDATE] = COMMAND_TREE_UPDATE,
    [ETCD_OP_COMPARE_AND_SWAP] = COMMAND_TREE_COMPARE_AND_SWAP,
    [ETCD_OP_DELETE] = COMMAND_TREE_DELETE,
    [ETCD_OP_COMPARE_AND_DELETE] = COMMAND_TREE_COMPARE_AND_DELETE,
};

/* "[given != actual] [given != actual]": only what differs is named. */
static void reply_compare_failed(const struct http_request *r, const struct command *c,
                                 const struct tree_result *result)
{
    struct reply_body cause;

    reply_body_begin(&cause);
    if (result->value_differs) {
        writer_u8(&cause.w, '[');
        writer_slice(&cause.w, c->expected);
        writer_str(&cause.w, " != ");
        writer_slice(&cause.w, result->actual_value);
        writer_u8(&cause.w, ']');
    }
    if (result->index_differs) {
        char text[64];

        snprintf(text, sizeof text, "%s[%llu != %llu]", result->value_differs ? " " : "",
                 (unsigned long long)c->prev_index, (unsigned long long)result->actual_index);
        writer_str(&cause.w, text);
    }
    if (reply_body_is_whole(&cause))
        reply_etcd_error(r, ETCD_COMPARE_FAILED, (struct slice){cause.w.ptr, cause.w.len},
                         r->space->store->tree.index);
    else
        reply_no_memory(r);
    reply_body_drop(&cause);
}

static struct reply reply_to_change(const struct tree_event *e, uint64_t index)
{
    bool created = e->action == ETCD_CREATE || (e->action == ETCD_SET && !e->has_prev);

    return (struct reply){.status = created ? 201 : 200,
                          .content_type = HTTP_JSON,
                          .etcd = HTTP_ETCD_KEYS,
                          .index = index};
}

static bool is_brief(const struct etcd_request *q, enum etcd_action action)
{
    return q->no_value_on_success && (action == ETCD_SET || action == ETCD_CREATE ||
                                      action == ETCD_UPDATE || action == ETCD_COMPARE_AND_SWAP);
}

/* Replies with the event of the change. */
static void reply_changed(const struct http_request *r, const struct etcd_request *q,
                          struct tree_event *e)
{
    uint64_t index = r->space->store->tree.index;
    struct reply reply = reply_to_change(e, index);
    char text[64];

    if (is_brief(q, e->action)) {
        snprintf(text, sizeof text, "{\"action\":\"%s\"}\n", etcd_action_names[e->action]);
        reply.body = slice_str(text);
        reply_send(r, &reply);
        return;
    }
    reply.shared = tree_event_chunk(e);
    if (reply.shared == NULL) { /* the change is made, and no error may deny it */
        conn_drop(r->conn, DROP_NO_MEMORY, "no memory for its answers, see --memory-limit",
                  r->path);
        return;
    }
    reply.body = tree_chunk_json(reply.shared);
    reply_send(r, &reply);
}

/* Most values are sent as they are. False: memory is short. */
static bool unescape_values(const struct http_request *r, struct slice *value,
                            struct slice *expected)
{
    uint8_t *bytes;

    if (url_is_plain_value(*value) && url_is_plain_value(*expected))
        return true;
    bytes = net_scratch(conn_net(r->conn), value->len + expected->len);
    if (bytes == NULL)
        return false;
    *value = url_unescape_value(*value, bytes);
    *expected = url_unescape_value(*expected, bytes + value->len);
    return true;
}

static bool is_too_long(struct slice escaped)
{
    return escaped.len > ETCD_VALUE_MAX && /* 3 bytes for each, as %41, at most */
           (escaped.len / 3 > ETCD_VALUE_MAX || url_value_len(escaped) > ETCD_VALUE_MAX);
}

/* Of a read, the pointer of *value is NULL. Else it may become another value. */
static bool is_held(const struct http_request *r, const struct etcd_request *q, struct slice *value)
{
    const struct key_gate *gate = r->http->key_gate;

    return gate != NULL && gate->holds(gate->arg, r, keys_path_of(r->path), value, q->prev_index);
}

static void make_change(const struct http_request *r, const struct etcd_request *q,
                        struct slice value, struct slice expected)
{
    int64_t now_ns = engine_wall_ns(http_engine(r));
    struct command command = {
        .kind = command_kinds[q->op],
        .key = keys_path_of(r->path),
        .value = value,
        .expected = expected,
        .prev_index = q->prev_index,
        /* as in etcd, all arithmetic wraps at 64 bits */
        .expires_ns =
            q->has_ttl ? (int64_t)((uint64_t)now_ns + q->ttl_s * UINT64_C(1000000000)) : 0,
        .now_ns = now_ns,
        .dir = q->dir,
        .recursive = q->recursive,
        .refresh = q->refresh,
    };
    struct store_result result;

    engine_apply(http_engine(r), r->space, &command, &result);
    if (result.tree.code == ETCD_OK)
        reply_changed(r, q, result.tree.event);
    else if (result.tree.code == ETCD_COMPARE_FAILED)
        reply_compare_failed(r, &command, &result.tree);
    else if (result.tree.code == ETCD_INTERNAL)
        reply_not_kept(r, result.status);
    else
        reply_etcd_error(r, result.tree.code, result.tree.path, r->space->store->tree.index);
}

static void reply_change(const struct http_request *r, const struct etcd_request *q)
{
    struct slice value = q->value, expected = q->prev_value;

    if (is_too_long(value) || is_too_long(expected))
        reply_etcd_error(r, ETCD_INVALID_FORM, slice_str("rdzvd: a value has at most 1 MiB"), 0);
    else if (!unescape_values(r, &value, &expected))
        reply_no_memory(r);
    else if (q->op != ETCD_OP_COMPARE_AND_SWAP || !is_held(r, q, &value))
        make_change(r, q, value, expected);
}

/* --- The whole. --- */

static bool is_write(enum http_method method)
{
    return method != HTTP_GET && method != HTTP_HEAD;
}

static void keys_carry_out(const struct http_request *r, const struct etcd_request *q)
{
    struct slice key = keys_path_of(r->path);

    if (q->recursive && is_write(r->head->method) && !conn_begin_slice(r->conn))
        reply_later(r);
    else if (q->op == ETCD_OP_GET && !is_held(r, q, &(struct slice){0}))
        reply_get(r, key, q);
    else if (q->op == ETCD_OP_GET)
        return; /* its job replies */
    else if (q->op == ETCD_OP_WATCH)
        start_watch(r, key, q);
    else
        reply_change(r, q);
}

void etcd_keys_handle(const struct http_request *r)
{
    enum http_method method = r->head->method;
    struct slice form = {0};
    struct etcd_refusal why;
    struct etcd_request q;

    if (is_write(method) && method != HTTP_PUT && method != HTTP_POST && method != HTTP_DELETE) {
        reply_not_allowed(r, "HEAD,GET,PUT,POST,DELETE", HTTP_ETCD_NONE);
        return;
    }
    if (etcd_has_form(method, r->head->content_type))
        form = r->body;
    if (form.len > HTTP_FORM_MAX)
        reply_etcd_error(r, ETCD_INVALID_FORM, slice_str("http: POST too large"), 0);
    else if (!etcd_parse_request(method, form, r->query, &q, &why))
        reply_etcd_error(r, why.code, slice_str(why.cause), 0);
    else
        keys_carry_out(r, &q);
}
