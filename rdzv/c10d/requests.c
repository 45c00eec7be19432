/* Carries out each request and answers it. See requests.h for the contract. Torch's rules
 * are in the comments of store/keymap/keymap.h and proto/c10d.h. */
#include "rdzv/c10d/requests.h"

#include <string.h>

#include "proto/torch/torch_keys.h"

#define WATCHES_MAX 1024u /* of one connection: each change of a key walks them */

#define EVENTS_AT_A_TIME 256

/* A constant as it stands above, for a message. */
#define TEXT_OF(constant)  TEXT_OF_IT(constant)
#define TEXT_OF_IT(tokens) #tokens

/* Legacy WATCH_KEY: all the keys that one connection watches. */
struct c10d_watches {
    struct subscription subscription;
    struct key_watch **items;
    size_t count;
    size_t room; /* of `items` */
};

/* --- Answers. --- */

void c10d_reply_bytes(struct conn *c, struct slice s)
{
    c10d_reply_i64(c, (int64_t)s.len);
    conn_put(c, s.ptr, s.len);
}

/* Small values are copied behind their length in one go; others are shared. */
void c10d_reply_blob(struct conn *c, struct blob *b)
{
    size_t len = blob_slice(b).len;

    conn_charge(c, len);
    if (len <= 256) {
        uint8_t *out = conn_reserve(c, 8 + len);

        bytes_put_u64(out, len);
        if (len != 0)
            memcpy(out + 8, b->bytes, len);
        return;
    }
    conn_share_counted(c, b);
}

/* --- Failures: the protocol has no error answer, so each failure ends the connection. --- */

void c10d_reject(struct conn *c, enum store_status status, struct slice key)
{
    static const struct {
        enum drop_reason drop;
        const char *why;
    } drops[] = {
        [STORE_NOT_A_NUMBER] = {DROP_MALFORMED, "the value is not an integer"},
        [STORE_TOO_LONG] = {DROP_LIMIT, "the value would get too long, see --value-limit"},
        [STORE_TOO_MANY_RUN_KEYS] =
            {DROP_LIMIT,
             "more than " TEXT_OF(C10D_RUN_KEYS_AT_ONCE) " keys of elastic jobs in one MULTI_SET"},
        [STORE_READ_ONLY] = {DROP_READ_ONLY,
                             "the data directory takes no changes, see /readyz?verbose"},
        [STORE_FULL] = {DROP_SPACE_FULL, "the space is full, see --space-limit"},
        [STORE_NO_MEMORY] = {DROP_NO_MEMORY, "no memory for it, see --memory-limit"},
    };

    if (drops[status].why == NULL) /* such as the keys of a worker store that is gone */
        status = STORE_NO_MEMORY;
    conn_drop(c, drops[status].drop, drops[status].why, key);
}

bool c10d_apply(struct conn *c, struct command *command, struct store_result *out)
{
    command->worker_store = c10d_worker_store(c);
    engine_apply(c10d_of(c)->engine, conn_space(c), command, out);
    if (out->status == STORE_OK || out->status == STORE_ABSENT || out->status == STORE_MISMATCH)
        return true;
    c10d_reject(c, out->status, command->key);
    return false;
}

/* --- Keys. --- */

void c10d_compare_set(struct conn *c, const struct c10d_request *req, struct blob *copy)
{
    struct command command = {.kind = COMMAND_KEY_COMPARE_SET,
                              .blob = copy,
                              .key = req->key,
                              .expected = req->expected,
                              .value = req->value};
    struct store_result result;

    if (!c10d_apply(c, &command, &result))
        return;
    if (result.status == STORE_OK)
        c10d_reply_blob(c, keymap_get(c10d_keys(c), req->key));
    else if (result.status == STORE_ABSENT)
        /* Looks like success to a client that trusts the value; torch wants it so. */
        c10d_reply_bytes(c, req->expected);
    else
        c10d_reply_blob(c, result.value);
}

static void handle_compare_set(struct conn *c, const struct c10d_request *req)
{
    c10d_compare_set(c, req, NULL);
}

static void handle_check(struct conn *c, const struct c10d_request *req)
{
    const struct keymap *keys = c10d_keys(c);
    struct slice rest = req->items, key;
    uint8_t answer = C10D_READY;

    if (c10d_session(c)->role == C10D_WORKER && slice_is(c10d_first_key(req), TORCH_DUMP_KEY))
        c10d_session(c)->dump_s = (uint32_t)(engine_now_ms(c10d_of(c)->engine) / 1000);
    while (answer == C10D_READY && c10d_next_blob(&rest, &key)) {
        if (!keymap_exists(keys, key))
            answer = C10D_NOT_READY;
    }
    c10d_reply_u8(c, answer);
}

/* Absent keys as in GET. */
static void handle_multi_get(struct conn *c, const struct c10d_request *req)
{
    const struct keymap *keys = c10d_keys(c);
    struct slice rest = req->items, key;

    while (c10d_next_blob(&rest, &key))
        c10d_reply_blob(c, keymap_get(keys, key));
}

static void handle_add(struct conn *c, const struct c10d_request *req)
{
    struct command command = {.kind = COMMAND_KEY_ADD, .key = req->key, .number = req->number};
    struct store_result result;

    if (c10d_apply(c, &command, &result))
        c10d_reply_i64(c, result.number);
}

/* An absent key is answered with an empty value, as torch's libuv server does. */
static void handle_get(struct conn *c, const struct c10d_request *req)
{
    c10d_reply_blob(c, keymap_get(c10d_keys(c), req->key));
}

static void handle_delete(struct conn *c, const struct c10d_request *req)
{
    struct command command = {.kind = COMMAND_KEY_DELETE, .key = req->key};
    struct store_result result;

    if (c10d_apply(c, &command, &result))
        c10d_reply_i64(c, result.status == STORE_OK ? 1 : 0);
}

/* The parser limits one APPEND to --value-limit; the store applies the same limit to the sum. */
static void handle_append(struct conn *c, const struct c10d_request *req)
{
    struct command command = {.kind = COMMAND_KEY_APPEND,
                              .key = req->key,
                              .value = req->value,
                              .number = (int64_t)c10d_of(c)->limits.value_max};
    struct store_result result;

    c10d_apply(c, &command, &result);
}

/* A worker writes its own key of the group of all ranks before it waits for the keys of others.
 * Only keys of gloo and NCCL begin so: to parse every key would make each SET slower. */
static void note_rank(struct conn *c, struct slice key)
{
    struct c10d_session *s = c10d_session(c);
    struct torch_key_writer writer;

    if (s->rank != 0 || !slice_starts_with(key, slice_str("/" TORCH_DEFAULT_GROUP "/0//c")) ||
        !torch_key_writer_of_worker(key, &writer) || !slice_is(writer.group, TORCH_DEFAULT_GROUP))
        return;
    s->rank = (uint32_t)writer.rank + 1;
    if (s->role != C10D_PLAIN)
        return;
    conn_space(c)->has_ranks = true;
    conn_space(c)->ranks_here++;
    if (s->rank <= ENGINE_RANKS)
        conn_space(c)->rank_writers[writer.rank]++;
}

/* Changes that are not answered. */
static void handle_silent(struct conn *c, const struct c10d_request *req)
{
    static const enum command_kind kinds[] = {
        [C10D_SET] = COMMAND_KEY_SET,
        [C10D_MULTI_SET] = COMMAND_KEY_MULTI_SET,
        [C10D_QUEUE_PUSH] = COMMAND_QUEUE_PUSH,
    };
    struct command command = {
        .kind = kinds[req->op], .key = req->key, .value = req->value, .items = req->items};
    struct store_result result;

    if (c10d_apply(c, &command, &result) && req->op == C10D_SET)
        note_rank(c, req->key);
}

static void handle_count_keys(struct conn *c, const struct c10d_request *)
{
    c10d_reply_i64(c, (int64_t)c10d_keys(c)->present);
}

/* --- Queues. --- */

static void handle_pop(struct conn *c, const struct c10d_request *req)
{
    struct command command = {.kind = COMMAND_QUEUE_POP, .key = req->key};
    struct store_result result;

    if (!c10d_apply(c, &command, &result))
        return;
    c10d_reply_i64(c, (int64_t)result.count); /* the length before; 0: nothing follows */
    if (result.status == STORE_OK) {
        c10d_reply_blob(c, result.value);
        if (c->backend == NULL) {
            blob_unref(result.value);
        } else { /* the backend learns of the element when the request ends */
            c10d_of(c)->popped = result.value;
            c10d_of(c)->popped_of = (uint64_t)result.count;
        }
    }
}

static void handle_queue_len(struct conn *c, const struct c10d_request *req)
{
    c10d_reply_i64(c, (int64_t)keymap_queue_len(c10d_keys(c), req->key));
}

/* --- Waiting. --- */

void c10d_drop_wait(struct conn *c)
{
    struct c10d_session *s = c10d_session(c);

    keymap_cancel(c10d_keys(c), s->waiter);
    s->waiter = NULL;
}

bool c10d_may_wait(struct conn *c)
{
    if (c10d_session(c)->waiter == NULL)
        return true;
    conn_drop(c, DROP_MALFORMED, "a second WAIT before the first was answered", (struct slice){0});
    return false;
}

/* What is told of those who wait; see admin/status_waits.h. */
static void begin_wait(struct conn *c)
{
    c10d_session(c)->waiter->since_ms = engine_now_ms(c10d_of(c)->engine);
}

void c10d_reply_wait(struct conn *c, enum store_status status)
{
    if (status != STORE_OK)
        c10d_reject(c, status, (struct slice){0});
    else if (c10d_session(c)->waiter == NULL)
        c10d_reply_u8(c, C10D_STOP_WAITING);
    else
        begin_wait(c);
}

static void handle_wait(struct conn *c, const struct c10d_request *req)
{
    struct waiter **w = &c10d_session(c)->waiter;

    if (c10d_may_wait(c))
        c10d_reply_wait(c, keymap_wait(c10d_keys(c), req->items, req->count, c, w));
}

static enum store_status await_barrier(struct conn *c, const struct c10d_request *req)
{
    enum store_status status =
        keymap_barrier_wait(c10d_keys(c), req->key, req->number, c, &c10d_session(c)->waiter);

    if (status == STORE_OK)
        begin_wait(c);
    return status;
}

static void handle_barrier(struct conn *c, const struct c10d_request *req)
{
    struct command command = {.kind = COMMAND_BARRIER, .key = req->key, .number = req->number};
    struct store_result result;
    enum store_status status;

    if (c10d_session(c)->waiter != NULL) {
        conn_drop(c, DROP_MALFORMED, "a BARRIER while a WAIT is open", req->key);
        return;
    }
    if (!c10d_apply(c, &command, &result))
        return;
    if (result.open) {
        c10d_reply_u8(c, C10D_STOP_WAITING);
        return;
    }
    status = await_barrier(c, req);
    if (status == STORE_OK)
        return;
    if (c->backend != NULL) { /* it has counted, though its session cannot wait and is dropped */
        const struct backend_result counted = {.changed = true, .waits = true, .key = req->key};

        c->backend->functions->done(c, &counted);
    }
    c10d_reject(c, status, req->key);
}

void c10d_await_barrier(struct conn *c, const struct c10d_request *req)
{
    enum store_status status = await_barrier(c, req);

    if (status != STORE_OK)
        c10d_reject(c, status, req->key);
}

/* If a change fulfilled the WAIT earlier in this iteration, its 0 comes first, then the 1 of the
 * cancellation: the one order that clients accept. */
static void handle_cancel_wait(struct conn *c, const struct c10d_request *)
{
    const struct waiter *w = c10d_session(c)->waiter;

    if (w != NULL && w->missing == 0)
        c10d_reply_u8(c, C10D_STOP_WAITING);
    c10d_drop_wait(c);
    c10d_reply_u8(c, C10D_WAIT_CANCELED);
}

/* --- Watches. --- */

static void handle_watch(struct conn *c, const struct c10d_request *req)
{
    struct c10d_watches *w = c10d_session(c)->watches;
    enum store_status status = STORE_NO_MEMORY;
    struct key_watch **items;

    if (w != NULL && w->count >= WATCHES_MAX) {
        conn_drop(c, DROP_LIMIT, "too many WATCH_KEYs on one connection", req->key);
        return;
    }
    if (w == NULL) {
        w = account_request_zeroed(ACCOUNT_WATCHES, ACCOUNT_ORDINARY, sizeof *w);
        if (w == NULL) {
            c10d_reject(c, STORE_NO_MEMORY, req->key);
            return;
        }
        subscription_init(&w->subscription, c);
        c10d_session(c)->watches = w;
    }
    items = account_resize(ACCOUNT_WATCHES, ACCOUNT_ORDINARY, w->items, w->room * sizeof *items,
                           (w->count + 1) * sizeof *items);
    if (items != NULL) {
        w->items = items;
        w->room = w->count + 1;
        status = keymap_watch(c10d_keys(c), req->key, &w->subscription, &items[w->count]);
    }
    if (status != STORE_OK) {
        c10d_reject(c, status, req->key);
        return;
    }
    w->count++;
    c10d_reply_u8(c, C10D_WATCHING);
}

void c10d_notify_watches(struct conn *c)
{
    struct subscription *s = &c10d_session(c)->watches->subscription;
    struct blob *event;

    for (int i = 0; i < EVENTS_AT_A_TIME; i++) {
        if (!conn_can_push(c) || (event = subscription_next(s)) == NULL)
            break;
        conn_share(c, event);
        blob_unref(event);
        conn_charge(c, C10D_NOTIFY_COST);
    }
    if (c->protocol == NULL)
        return;
    if (s->queued > 0)
        wake_add(&c10d_of(c)->engine->store.ready, &s->wake);
    else if (s->lost)
        conn_drop(c, DROP_LIMIT, "watches keys that change too often to be told",
                  (struct slice){0});
}

void c10d_drop_watches(struct conn *c)
{
    struct c10d_session *s = c10d_session(c);
    struct c10d_watches *w = s->watches;

    if (w == NULL)
        return;
    for (size_t i = 0; i < w->count; i++)
        keymap_unwatch(c10d_keys(c), w->items[i]);
    subscription_fini(&c10d_of(c)->engine->store.ready, &w->subscription);
    account_free(ACCOUNT_WATCHES, w->items, w->room * sizeof *w->items);
    account_free(ACCOUNT_WATCHES, w, sizeof *w);
    s->watches = NULL;
}

/* --- All of them. --- */

static void handle_ping(struct conn *c, const struct c10d_request *req)
{
    c10d_session(c)->pinged = true;
    c10d_session(c)->pid = req->nonce;
    bytes_put_u32(conn_reserve(c, 4), req->nonce);
}

void (*const c10d_handlers[C10D_OP_COUNT])(struct conn *c, const struct c10d_request *req) = {
    [C10D_SET] = handle_silent,
    [C10D_COMPARE_SET] = handle_compare_set,
    [C10D_GET] = handle_get,
    [C10D_ADD] = handle_add,
    [C10D_CHECK] = handle_check,
    [C10D_WAIT] = handle_wait,
    [C10D_GETNUMKEYS] = handle_count_keys,
    [C10D_DELETE_KEY] = handle_delete,
    [C10D_APPEND] = handle_append,
    [C10D_MULTI_GET] = handle_multi_get,
    [C10D_MULTI_SET] = handle_silent,
    [C10D_CANCEL_WAIT] = handle_cancel_wait,
    [C10D_PING] = handle_ping,
    [C10D_QUEUE_PUSH] = handle_silent,
    [C10D_QUEUE_POP] = handle_pop,
    [C10D_QUEUE_LEN] = handle_queue_len,
    [C10D_BARRIER] = handle_barrier,
    [C10D_WATCH_KEY] = handle_watch,
};
