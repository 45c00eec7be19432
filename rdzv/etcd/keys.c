/* /v2/keys: a request becomes a command or a read of the tree, and its result a reply. The rules
 * of the tree are in store/tree/tree.h, those of parameters in proto/etcd.h, those of JSON in
 * proto/etcd_types.h. */
#include "rdzv/etcd/keys.h"

#include <stdio.h>

#include "proto/etcd.h"
#include "rdzv/etcd/form_value.h"
#include "rdzv/etcd/get.h"
#include "rdzv/etcd/put.h"
#include "rdzv/http/job.h"

/* What follows /v2/keys, without a trailing slash; the root is "/". */
static struct slice key_of(struct slice path)
{
    struct slice key = slice_from(path, strlen("/v2/keys"));

    while (key.len > 1 && key.ptr[key.len - 1] == '/')
        key.len--;
    return key.len == 0 ? slice_str("/") : key;
}

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
        etcd_reply_error(r, ETCD_INTERNAL, slice_str(why_not_kept(why)),
                         r->space->store->tree.index);
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
    code = tree_watch(t, key, q->recursive, q->stream, q->wait_index, r->conn, &watch);
    if (code == ETCD_OK) {
        http_start_watch(r, watch, t->index);
    } else if (code == ETCD_INTERNAL) {
        reply_no_memory(r);
    } else {
        char cause[128];

        snprintf(cause, sizeof cause, "the requested history has been cleared [%llu/%llu]",
                 (unsigned long long)watch_oldest(&t->hub), (unsigned long long)q->wait_index);
        etcd_reply_error(r, ETCD_INDEX_CLEARED, slice_str(cause), t->index);
    }
}

/* --- Changes. --- */

static const enum command_kind kinds[] = {
    [ETCD_OP_SET] = COMMAND_TREE_SET,
    [ETCD_OP_CREATE] = COMMAND_TREE_CREATE,
    [ETCD_OP_CREATE_IN_ORDER] = COMMAND_TREE_CREATE_IN_ORDER,
    [ETCD_OP_UPDATE] = COMMAND_TREE_UPDATE,
    [ETCD_OP_COMPARE_AND_SWAP] = COMMAND_TREE_COMPARE_AND_SWAP,
    [ETCD_OP_DELETE] = COMMAND_TREE_DELETE,
    [ETCD_OP_COMPARE_AND_DELETE] = COMMAND_TREE_COMPARE_AND_DELETE,
};

/* etcd says all of both values. Of long ones, rdzvd would escape megabytes in one piece, for a
 * message to a person. */
#define SAID_MOST ((size_t)64 << 10)

static size_t said(struct slice value)
{
    return value.len < SAID_MOST ? value.len : SAID_MOST;
}

static void say_value(struct writer *w, struct slice value)
{
    writer_slice(w, (struct slice){value.ptr, said(value)});
    if (value.len > SAID_MOST)
        writer_str(w, "...");
}

/* "[given != actual] [given != actual]": only what differs is named. */
static void reply_compare_failed(const struct http_request *r, const struct command *c,
                                 const struct tree_result *result)
{
    struct slice actual = result->actual_value;
    size_t room = said(c->expected) + said(actual) + 256;
    uint8_t *cause = account_request(ACCOUNT_ANSWERS, account_class_of(room), room);
    struct writer w = {.ptr = cause, .cap = room};

    if (cause == NULL) {
        reply_no_memory(r);
        return;
    }
    if (result->value_differs) {
        writer_u8(&w, '[');
        say_value(&w, c->expected);
        writer_str(&w, " != ");
        say_value(&w, actual);
        writer_u8(&w, ']');
    }
    if (result->index_differs) {
        char text[64];

        snprintf(text, sizeof text, "%s[%llu != %llu]", result->value_differs ? " " : "",
                 (unsigned long long)c->prev_index, (unsigned long long)result->actual_index);
        writer_str(&w, text);
    }
    etcd_reply_error(r, ETCD_COMPARE_FAILED, (struct slice){cause, w.len},
                     r->space->store->tree.index);
    account_free(ACCOUNT_ANSWERS, cause, room);
}

/* Seconds become a point in time as in etcd: all arithmetic wraps at 64 bits. */
static int64_t deadline(const struct etcd_request *q, int64_t now_ns)
{
    return q->has_ttl ? (int64_t)((uint64_t)now_ns + q->ttl_s * UINT64_C(1000000000)) : 0;
}

/* Most values are sent as they are. False: memory is short. */
static bool unescape(const struct http_request *r, struct slice value, struct slice expected,
                     struct command *command)
{
    uint8_t *bytes;

    command->value = value;
    command->expected = expected;
    if (url_is_plain_value(value) && url_is_plain_value(expected))
        return true;
    bytes = net_scratch(conn_net(r->conn), value.len + expected.len);
    if (bytes == NULL)
        return false;
    command->value = url_unescape_value(value, bytes);
    command->expected = url_unescape_value(expected, bytes + command->value.len);
    return true;
}

/* Of a read, `value` is NULL. */
static bool is_held(const struct http_request *r, const struct etcd_request *q, struct slice value)
{
    const struct key_gate *gate = r->http->key_gate;

    return gate != NULL && gate->holds(gate->arg, r, key_of(r->path), value, q->prev_index);
}

/* `decoded` has the values. */
static void make_change(const struct http_request *r, const struct etcd_request *q,
                        const struct command *decoded)
{
    int64_t now_ns = engine_wall_ns(http_engine(r));
    struct command command = {
        .kind = kinds[q->op],
        .key = key_of(r->path),
        .value = decoded->value,
        .blob = decoded->blob,
        .expected = decoded->expected,
        .prev_index = q->prev_index,
        .expires_ns = deadline(q, now_ns),
        .now_ns = now_ns,
        .dir = q->dir,
        .recursive = q->recursive,
        .refresh = q->refresh,
    };
    struct store_result result;

    engine_apply(http_engine(r), r->space, &command, &result);
    if (result.tree.code == ETCD_OK)
        etcd_reply_changed(r, q, result.tree.event);
    else if (result.tree.code == ETCD_COMPARE_FAILED)
        reply_compare_failed(r, &command, &result.tree);
    else if (result.tree.code == ETCD_INTERNAL)
        reply_not_kept(r, result.status);
    else
        etcd_reply_error(r, result.tree.code, result.tree.path, r->space->store->tree.index);
}

/* --- A change with large values: they are decoded in slices. --- */

struct change_job {
    struct http_job job;
    struct etcd_request request; /* without its values */
    struct form_value value;
    struct form_value expected;
};

static void free_job(struct http_job *job)
{
    struct change_job *j = (struct change_job *)job; /* its first member */

    form_value_end(&j->value);
    form_value_end(&j->expected);
    account_free(ACCOUNT_INPUT, j, sizeof *j);
}

static enum http_job_state run_job(struct http_job *job, const struct http_request *r)
{
    struct change_job *j = (struct change_job *)job;
    struct command decoded;

    if ((!j->value.whole && !form_value_go_on(&j->value, r)) ||
        (!j->expected.whole && !form_value_go_on(&j->expected, r)))
        return HTTP_JOB_GOES_ON;
    decoded = (struct command){.value = blob_slice(j->value.blob),
                               .blob = j->value.blob,
                               .expected = blob_slice(j->expected.blob)};
    make_change(r, &j->request, &decoded);
    return HTTP_JOB_DONE;
}

static void start_change(const struct http_request *r, const struct etcd_request *q)
{
    struct change_job *j = account_request(ACCOUNT_INPUT, ACCOUNT_SMALL, sizeof *j);

    if (j == NULL) {
        reply_no_memory(r);
        return;
    }
    *j = (struct change_job){.job = {.run = run_job, .free = free_job}, .request = *q};
    j->request.value = j->request.prev_value = (struct slice){0};
    if (form_value_begin(&j->value, r, q->value) &&
        form_value_begin(&j->expected, r, q->prev_value)) {
        http_start_job(r, &j->job, HTTP_JOB_GOES_ON);
        return;
    }
    free_job(&j->job);
    reply_no_memory(r);
}

/* Those of the query are not: a head is not that long. */
static bool is_in_body(const struct http_request *r, struct slice value)
{
    return value.len == 0 || (value.ptr >= r->body.ptr && value.ptr < r->body.ptr + r->body.len);
}

static void change(const struct http_request *r, const struct etcd_request *q)
{
    struct command decoded = {0};

    if (q->value.len + q->prev_value.len >= FORM_VALUE_LARGE && is_in_body(r, q->value) &&
        is_in_body(r, q->prev_value))
        start_change(r, q);
    else if (!unescape(r, q->value, q->prev_value, &decoded))
        reply_no_memory(r);
    else if (q->op != ETCD_OP_COMPARE_AND_SWAP || !is_held(r, q, decoded.value))
        make_change(r, q, &decoded);
}

/* --- The whole. --- */

static bool is_write(enum http_method method)
{
    return method != HTTP_GET && method != HTTP_HEAD;
}

static bool select_form(const struct http_request *r, struct slice *form, struct etcd_refusal *why)
{
    if (!etcd_select_form(r->head->method, r->head->content_type, r->body, form, why))
        return false;
    if (form->len <= r->http->config->limits.http_form_max)
        return true;
    *why = (struct etcd_refusal){.code = ETCD_INVALID_FORM, .cause = "http: POST too large"};
    return false;
}

static void carry_out(const struct http_request *r, const struct etcd_request *q)
{
    struct slice key = key_of(r->path);

    if (q->recursive && is_write(r->head->method) && !conn_begin_costly(r->conn))
        reply_later(r);
    else if (q->op == ETCD_OP_GET && !is_held(r, q, (struct slice){0}))
        etcd_reply_get(r, key, q);
    else if (q->op == ETCD_OP_GET)
        return; /* its job replies */
    else if (q->op == ETCD_OP_WATCH)
        start_watch(r, key, q);
    else
        change(r, q);
}

void etcd_keys_handle(const struct http_request *r)
{
    enum http_method method = r->head->method;
    struct slice form;
    struct etcd_refusal why;
    struct etcd_request q;

    if (method != HTTP_GET && method != HTTP_HEAD && method != HTTP_PUT && method != HTTP_POST &&
        method != HTTP_DELETE) {
        reply_not_allowed(r, "HEAD,GET,PUT,POST,DELETE", HTTP_ETCD_NONE);
        return;
    }
    if (!select_form(r, &form, &why) || !etcd_parse_request(method, form, r->query, &q, &why)) {
        etcd_reply_error(r, why.code, slice_str(why.cause), 0);
        return;
    }
    carry_out(r, &q);
}
