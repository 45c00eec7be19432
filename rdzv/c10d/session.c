/* A c10d request becomes a store call and an answer. Torch's rules are in the comments of
 * store/keymap.h and proto/c10d.h; what is decided here is who is answered what, and when. */
#include <inttypes.h>

#include "rdzv/rendezvous/elastic.h"
#include "rdzv/rendezvous/run.h"
#include "rdzv/sessions.h"

#define REQUEST_COST 64u   /* of a peer's share of a turn, beside its bytes */
#define WATCHES_MAX  1024u /* of one connection: each change of a key walks them */

/* Classic WATCH_KEY: all the keys that one connection watches. */
struct c10d_watches {
    struct subscription subscription;
    struct key_watch **items;
    size_t count;
};

void c10d_session_begin(struct conn *c)
{
    server_c10d_came(conn_server(c), c->space);
}

/* Whose keys this connection uses. */
static struct keymap *keys_of(struct conn *c)
{
    return c->role == CONN_WORKER ? &c->as.c10d.bound.worker_store->keys : &c->space->keys;
}

static void drop_wait(struct conn *c)
{
    keymap_cancel(keys_of(c), c->as.c10d.waiter);
    c->as.c10d.waiter = NULL;
}

void c10d_session_end(struct conn *c)
{
    struct c10d_watches *w = c->as.c10d.watches;

    drop_wait(c);
    if (w != NULL) {
        for (size_t i = 0; i < w->count; i++)
            keymap_unwatch(keys_of(c), w->items[i]);
        subscription_fini(&conn_server(c)->store.ready, &w->subscription);
        free(w->items);
        free(w);
        c->as.c10d.watches = NULL;
    }
    elastic_unbind(c);
    server_c10d_left(conn_server(c), c->space);
}

/* --- Answers. --- */

static void answer_u8(struct conn *c, uint8_t v)
{
    *conn_reserve(c, 1) = v;
}

static void answer_i64(struct conn *c, int64_t v)
{
    bytes_put_u64(conn_reserve(c, 8), (uint64_t)v);
}

static void answer_bytes(struct conn *c, struct slice s)
{
    answer_i64(c, (int64_t)s.len);
    conn_put(c, s.ptr, s.len);
}

/* Small values are copied behind their length in one go; large ones are shared. */
static void answer_blob(struct conn *c, struct blob *b)
{
    size_t len = blob_slice(b).len;

    if (len <= 256) {
        uint8_t *out = conn_reserve(c, 8 + len);

        bytes_put_u64(out, len);
        if (len != 0)
            memcpy(out + 8, b->bytes, len);
        return;
    }
    answer_i64(c, (int64_t)len);
    conn_put_blob(c, b);
}

/* --- Failures: the protocol has no error answer, so each of them ends the connection. --- */

static void refuse(struct conn *c, enum store_status status, struct slice key)
{
    switch (status) {
    case STORE_NOT_A_NUMBER:
        conn_cut(c, "the value is not an integer", key);
        break;
    case STORE_FULL:
        conn_cut(c, "the space is full, see --space-limit", key);
        break;
    default:
        conn_cut(c, "out of memory", key);
        break;
    }
}

/* Carries out a command that can only fail for want of room, or of a number. */
static bool apply(struct conn *c, struct command *command, struct store_result *out)
{
    command->worker_store = c->role == CONN_WORKER ? c->as.c10d.bound.worker_store->id : 0;
    server_apply(conn_server(c), c->space, command, out);
    if (out->status == STORE_OK || out->status == STORE_ABSENT || out->status == STORE_MISMATCH)
        return true;
    refuse(c, out->status, command->key);
    return false;
}

/* --- Requests. --- */

static void handle_compare_set(struct conn *c, const struct c10d_request *req)
{
    struct command command = {.kind = COMMAND_KEY_COMPARE_SET,
                              .key = req->key,
                              .expected = req->expected,
                              .value = req->value};
    struct store_result result;
    struct slice instead = {0};

    if (c->role == CONN_AGENT) {
        elastic_compare_set(c, req, &result, &instead);
        if (c->state != CONN_OPEN)
            return;
        if (result.status != STORE_OK && result.status != STORE_ABSENT &&
            result.status != STORE_MISMATCH) {
            refuse(c, result.status, req->key);
            return;
        }
    } else if (!apply(c, &command, &result)) {
        return;
    }
    if (instead.ptr != NULL)
        answer_bytes(c, instead);
    else if (result.status == STORE_OK)
        answer_blob(c, keymap_get(keys_of(c), req->key));
    else if (result.status == STORE_ABSENT)
        answer_bytes(c,
                     req->expected); /* looks like success to a naive caller; torch wants it so */
    else
        answer_blob(c, result.value);
}

static bool watchers_left(struct conn *c)
{
    uint32_t max = conn_server(c)->config->limits.watchers_max;

    if (max == 0 || keys_of(c)->waiters < max)
        return true;
    conn_cut(c, "too many waiters in this space, see --watcher-limit", (struct slice){0});
    return false;
}

static void handle_wait(struct conn *c, const struct c10d_request *req)
{
    enum store_status status;

    if (c->as.c10d.waiter != NULL) {
        conn_cut(c, "a second WAIT before the first was answered", (struct slice){0});
        return;
    }
    if (!watchers_left(c))
        return;
    status = keymap_wait(keys_of(c), req->items, req->count, c, &c->as.c10d.waiter);
    if (status != STORE_OK)
        refuse(c, status, (struct slice){0});
    else if (c->as.c10d.waiter == NULL)
        answer_u8(c, C10D_STOP_WAITING);
}

static void handle_barrier(struct conn *c, const struct c10d_request *req)
{
    struct command command = {.kind = COMMAND_BARRIER, .key = req->key, .number = req->number};
    struct store_result result;
    enum store_status status;

    if (c->as.c10d.waiter != NULL) {
        conn_cut(c, "a BARRIER while a WAIT is open", req->key);
        return;
    }
    if (!watchers_left(c) || !apply(c, &command, &result))
        return;
    if (result.open) {
        answer_u8(c, C10D_STOP_WAITING);
        return;
    }
    status = keymap_barrier_wait(keys_of(c), req->key, c, &c->as.c10d.waiter);
    if (status != STORE_OK)
        refuse(c, status, req->key);
}

static void handle_check(struct conn *c, const struct c10d_request *req)
{
    struct slice rest = req->items, key;
    uint8_t answer = C10D_READY;

    while (answer == C10D_READY && c10d_next_blob(&rest, &key)) {
        if (!keymap_exists(keys_of(c), key))
            answer = C10D_NOT_READY;
    }
    answer_u8(c, answer);
}

/* An absent key is answered with an empty value, as torch's libuv server does. */
static void handle_multi_get(struct conn *c, const struct c10d_request *req)
{
    struct slice rest = req->items, key;

    while (c10d_next_blob(&rest, &key))
        answer_blob(c, keymap_get(keys_of(c), key));
}

static void handle_list(struct conn *c)
{
    const struct keymap *m = keys_of(c);
    struct blob *list = blob_alloc(keymap_list_size(m));
    struct writer w;

    if (list == NULL) {
        refuse(c, STORE_NO_MEMORY, (struct slice){0});
        return;
    }
    list->len = keymap_list_size(m);
    w = (struct writer){.ptr = list->bytes, .cap = list->len};
    keymap_list(m, &w);
    answer_i64(c, (int64_t)m->present);
    conn_spend(c, list->len);
    conn_put_blob(c, list);
    blob_unref(list);
}

static void handle_pop(struct conn *c, const struct c10d_request *req)
{
    struct command command = {.kind = COMMAND_QUEUE_POP, .key = req->key};
    struct store_result result;

    if (!apply(c, &command, &result))
        return;
    answer_i64(c, (int64_t)result.count); /* the length before; 0: nothing follows */
    if (result.status == STORE_OK) {
        answer_blob(c, result.value);
        blob_unref(result.value);
    }
}

static void handle_watch(struct conn *c, const struct c10d_request *req)
{
    struct c10d_watches *w = c->as.c10d.watches;
    struct key_watch **items;

    if (!watchers_left(c))
        return;
    if (w != NULL && w->count >= WATCHES_MAX) {
        conn_cut(c, "too many WATCH_KEYs on one connection", req->key);
        return;
    }
    if (w == NULL) {
        w = calloc(1, sizeof *w);
        if (w == NULL) {
            refuse(c, STORE_NO_MEMORY, req->key);
            return;
        }
        subscription_init(&w->subscription, c);
        c->as.c10d.watches = w;
    }
    items = realloc(w->items, (w->count + 1) * sizeof(struct key_watch *));
    if (items != NULL) {
        w->items = items;
        items[w->count] = keymap_watch(keys_of(c), req->key, &w->subscription);
    }
    if (items == NULL || items[w->count] == NULL) {
        refuse(c, STORE_NO_MEMORY, req->key);
        return;
    }
    w->count++;
    answer_u8(c, C10D_WATCHING);
}

/* Changes that are not answered. */
static void handle_silent(struct conn *c, enum command_kind kind, const struct c10d_request *req)
{
    struct command command = {
        .kind = kind, .key = req->key, .value = req->value, .items = req->items};
    struct store_result result;

    apply(c, &command, &result);
}

/* The first key that a request names; empty: it names none. */
static struct slice first_key(const struct c10d_request *req)
{
    struct slice rest = req->items, key = {0};

    return req->key.ptr != NULL || !c10d_next_blob(&rest, &key) ? req->key : key;
}

/* What rdzvd does for torch's agents comes before what their request says. True: it is done with.
 */
static bool handle_as_agent(struct conn *c, const struct c10d_request *req)
{
    elastic_before(c, req, first_key(req));
    return c->state != CONN_OPEN || (req->op == C10D_SET && elastic_takes_set(c, req));
}

static void handle(struct conn *c, const struct c10d_request *req)
{
    struct command command = {.key = req->key, .number = req->number};
    struct store_result result;

    if (c->role == CONN_AGENT && handle_as_agent(c, req))
        return;

    switch (req->op) {
    case C10D_ADD:
        command.kind = COMMAND_KEY_ADD;
        if (apply(c, &command, &result))
            answer_i64(c, result.number);
        break;
    case C10D_GET:
        answer_blob(c, keymap_get(keys_of(c), req->key)); /* absent: empty, as libuv's */
        break;
    case C10D_SET:
        handle_silent(c, COMMAND_KEY_SET, req);
        break;
    case C10D_APPEND:
        handle_silent(c, COMMAND_KEY_APPEND, req);
        break;
    case C10D_MULTI_SET:
        handle_silent(c, COMMAND_KEY_MULTI_SET, req);
        break;
    case C10D_QUEUE_PUSH:
        handle_silent(c, COMMAND_QUEUE_PUSH, req);
        break;
    case C10D_COMPARE_SET:
        handle_compare_set(c, req);
        break;
    case C10D_CHECK:
        handle_check(c, req);
        break;
    case C10D_WAIT:
        handle_wait(c, req);
        break;
    case C10D_CANCEL_WAIT:
        /* If the WAIT was fulfilled earlier in this very turn its 0 comes first, then our 1: the
         * one order that clients accept. */
        if (c->as.c10d.waiter != NULL && c->as.c10d.waiter->missing == 0)
            answer_u8(c, C10D_STOP_WAITING);
        drop_wait(c);
        answer_u8(c, C10D_WAIT_CANCELED);
        break;
    case C10D_GETNUMKEYS:
        answer_i64(c, (int64_t)keys_of(c)->present);
        break;
    case C10D_DELETE_KEY:
        command.kind = COMMAND_KEY_DELETE;
        if (apply(c, &command, &result))
            answer_i64(c, result.status == STORE_OK ? 1 : 0);
        break;
    case C10D_MULTI_GET:
        handle_multi_get(c, req);
        break;
    case C10D_PING:
        c->pinged = true;
        bytes_put_u32(conn_reserve(c, 4), req->nonce);
        break;
    case C10D_QUEUE_POP:
        handle_pop(c, req);
        break;
    case C10D_QUEUE_LEN:
        answer_i64(c, (int64_t)keymap_queue_len(keys_of(c), req->key));
        break;
    case C10D_LIST_KEYS:
        handle_list(c);
        break;
    case C10D_BARRIER:
        handle_barrier(c, req);
        break;
    case C10D_WATCH_KEY:
        handle_watch(c, req);
        break;
    case C10D_VALIDATE:
    case C10D_OP_COUNT:
        break; /* the parser lets neither through */
    }
}

enum session_result c10d_session_read(struct conn *c, uint8_t *in, size_t len, size_t *used)
{
    struct server *s = conn_server(c);
    const struct config_limits *config = &s->config->limits;
    const struct c10d_limits limits = {.key_max = config->key_max,
                                       .value_max = config->value_max,
                                       .keys_max = config->keys_max,
                                       .request_max = config->request_max};
    size_t at = 0;

    /* A classic client whose WAIT timed out says nothing and goes on with its next request; a late
     * 0 would be read as the first byte of that one's answer. */
    if (len > 0 && c->as.c10d.waiter != NULL && c->dialect == C10D_CLASSIC)
        drop_wait(c);
    while (at < len) {
        struct slice rest = {in + at, len - at};
        struct c10d_request req;
        const char *why;
        size_t size;

        if (!conn_may_answer(c)) {
            *used = at;
            return SESSION_PAUSED;
        }
        if (!conn_has_turn(c)) {
            *used = at;
            return SESSION_YIELDED;
        }
        switch (c10d_parse(rest, (enum c10d_dialect)c->dialect, &limits, &c->as.c10d.progress, &req,
                           &size, &why)) {
        case PARSE_DONE:
            if (c->role == CONN_UNBOUND && first_key(&req).ptr != NULL)
                elastic_bind(c, first_key(&req), req.op == C10D_COMPARE_SET);
            if (c->role == CONN_AGENT && elastic_holds(c, &req)) {
                *used = at;
                c->need = size; /* it stays here, and more may come behind it */
                return SESSION_PARKED;
            }
            s->stats.c10d_requests++;
            handle(c, &req);
            conn_spend(c, REQUEST_COST + size);
            at += size;
            *used = at;
            if (c->state != CONN_OPEN)
                return SESSION_ENDED;
            if (c->as.c10d.waiter != NULL && c->dialect == C10D_CLASSIC && at < len)
                drop_wait(c);
            break;
        case PARSE_MORE:
            c->need = size;
            return SESSION_MORE;
        case PARSE_BAD:
            conn_cut(c, why, (struct slice){rest.ptr, 1});
            return SESSION_ENDED;
        }
    }
    c->need = 1;
    return SESSION_MORE;
}

void c10d_session_resume(struct conn *c, struct wake *w)
{
    struct blob *event;

    if (w->kind == WAKE_WAITER) {
        drop_wait(c);
        if (conn_may_push(c))
            answer_u8(c, C10D_STOP_WAITING);
        return;
    }
    while (conn_may_push(c) &&
           (event = subscription_next(&c->as.c10d.watches->subscription)) != NULL) {
        conn_put_blob(c, event);
        blob_unref(event);
    }
    if (c->protocol == CONN_C10D && c->as.c10d.watches->subscription.lost)
        conn_cut(c, "watches keys that change too often to be told", (struct slice){0});
}
