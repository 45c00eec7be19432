/* c10d requests become store calls and answers. See session.h for the contract. Torch's rules are
 * in the comments of store/keymap.h and proto/c10d.h; this file decides which answer a client gets,
 * and when. */
#include "rdzv/c10d/session.h"

#include <string.h>

#include "rdzv/c10d/carried.h"

/* What is charged to a peer's budget beside the bytes of request and answer: finding a key costs
 * some cache misses, whatever its length; so does telling a client of a change, and what else
 * ready_list.work counts. */
#define REQUEST_COST 64u
#define ENTRY_COST   64u
#define TOLD_COST    128u

#define WATCHES_MAX 1024u /* of one connection: each change of a key walks them */

/* A request of up to so many bytes is cheap, and a list of up to so many keys; they are not
 * measured. */
#define CHEAP_SIZE (16u << 10)
#define CHEAP_LIST 1024u

/* So many keys of a list are written in one costly turn. */
#define LISTED_AT_A_TIME 4096u

/* A request that is not cheap, with so many keys, finds so many in one costly turn, of so many
 * bytes. */
#define MANY_KEYS              256u
#define PICKED_AT_A_TIME       256u
#define PICKED_BYTES_AT_A_TIME (256u << 10)

/* So many keys of elastic jobs may be in one MULTI_SET: of each it is found, at its one moment,
 * whose it is. torch's agents set one at a time, and workers have a store of their own. */
#define RUN_KEYS_AT_ONCE 4096

/* A constant as it stands above, for a message. */
#define TEXT_OF(constant)  TEXT_OF_IT(constant)
#define TEXT_OF_IT(tokens) #tokens

/* So many values of a MULTI_GET are answered in one costly turn. */
#define ANSWERED_AT_A_TIME 4096u

/* A value of so many bytes is copied in several costly turns. */
#define LARGE_VALUE      (1u << 20)
#define COPIED_AT_A_TIME (256u << 10)

#define EVENTS_AT_A_TIME 256

/* Legacy WATCH_KEY: all the keys that one connection watches. */
struct c10d_watches {
    struct subscription subscription;
    struct key_watch **items;
    size_t count;
    size_t room; /* of `items` */
};

/* A request with many keys: all are found before it is carried out at one moment; or, of WAIT and
 * CHECK, are looked at as they are found. Or one with a large value, which is copied before. */
struct c10d_job {
    struct key_picks *picks;
    struct waiter *waiter;       /* of a WAIT, from the first key on that is not there */
    struct keymap_time began;    /* of a CHECK */
    uint64_t left;               /* keys of a WAIT */
    struct blob *copy;           /* of the value */
    struct c10d_request request; /* its slices as they were when it began */
    const uint8_t *start;        /* where it was then */
    size_t size;                 /* of the request */
    size_t done;                 /* bytes of its items, or of its value */
    size_t answered;             /* values of a MULTI_GET */
    bool refuted;                /* a CHECK of a key that is not there: the others do not matter */
};

void c10d_drop_wait(struct conn *c)
{
    struct c10d_session *s = c10d_session(c);

    keymap_cancel(c10d_keys(c), s->waiter);
    s->waiter = NULL;
}

void c10d_end_work(struct conn *c)
{
    struct c10d_session *s = c10d_session(c);

    if (s->busy == C10D_LISTS) {
        keymap_leave_list(c10d_keys(c), s->work.list_ticket);
    } else if (s->busy != C10D_IDLE) {
        keymap_pick_end(s->work.job->picks);
        keymap_cancel(c10d_keys(c), s->work.job->waiter);
        blob_unref(s->work.job->copy);
        account_free(ACCOUNT_SESSIONS, s->work.job, sizeof *s->work.job);
    }
    s->busy = C10D_IDLE;
}

static void end(struct conn *c)
{
    struct c10d_session *s = c10d_session(c);
    const struct c10d_hooks *hooks = &c10d_of(c)->hooks;
    struct c10d_watches *w = s->watches;

    c10d_drop_wait(c);
    c10d_end_work(c);
    if (w != NULL) {
        for (size_t i = 0; i < w->count; i++)
            keymap_unwatch(c10d_keys(c), w->items[i]);
        subscription_fini(&c10d_of(c)->engine->store.ready, &w->subscription);
        account_free(ACCOUNT_WATCHES, w->items, w->room * sizeof *w->items);
        account_free(ACCOUNT_WATCHES, w, sizeof *w);
        s->watches = NULL;
    }
    if (hooks->unbind != NULL && (s->role == C10D_AGENT || s->role == C10D_WORKER))
        hooks->unbind(hooks->arg, c);
    s->role = C10D_UNBOUND;
    engine_session_ended(c10d_of(c)->engine, conn_space(c));
}

/* --- Answers. --- */

static void reply_u8(struct conn *c, uint8_t v)
{
    *conn_reserve(c, 1) = v;
}

static void reply_i64(struct conn *c, int64_t v)
{
    bytes_put_u64(conn_reserve(c, 8), (uint64_t)v);
}

void c10d_reply_bytes(struct conn *c, struct slice s)
{
    reply_i64(c, (int64_t)s.len);
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

/* --- Failures: the protocol has no error answer, so each of them ends the connection. --- */

void c10d_reject(struct conn *c, enum store_status status, struct slice key)
{
    switch (status) {
    case STORE_NOT_A_NUMBER:
        conn_drop(c, DROP_MALFORMED, "the value is not an integer", key);
        break;
    case STORE_TOO_LONG:
        conn_drop(c, DROP_LIMIT, "the value would get too long, see --value-limit", key);
        break;
    case STORE_TOO_MANY_RUNS:
        conn_drop(c, DROP_LIMIT, "the space has as many runs as it may, see --runs-per-space", key);
        break;
    case STORE_TOO_MANY_RUN_KEYS:
        conn_drop(c, DROP_LIMIT,
                  "more than " TEXT_OF(RUN_KEYS_AT_ONCE) " keys of elastic jobs in one MULTI_SET",
                  key);
        break;
    case STORE_READ_ONLY:
        conn_drop(c, DROP_READ_ONLY, "the data directory takes no changes, see /readyz?verbose",
                  key);
        break;
    case STORE_FULL:
        conn_drop(c, DROP_SPACE_FULL, "the space is full, see --space-limit", key);
        break;
    default:
        conn_drop(c, DROP_NO_MEMORY, "no memory for it, see --memory-limit", key);
        break;
    }
}

/* Carries out a command that can only fail for want of room, or of a number. */
static bool apply(struct conn *c, struct command *command, struct store_result *out)
{
    command->worker_store = c10d_worker_store(c);
    engine_apply(c10d_of(c)->engine, conn_space(c), command, out);
    if (out->status == STORE_OK || out->status == STORE_ABSENT || out->status == STORE_MISMATCH)
        return true;
    c10d_reject(c, out->status, command->key);
    return false;
}

/* --- Requests. --- */

/* `copy`: of the value; NULL: there is none. */
static void compare_set(struct conn *c, const struct c10d_request *req, struct blob *copy)
{
    struct command command = {.kind = COMMAND_KEY_COMPARE_SET,
                              .blob = copy,
                              .key = req->key,
                              .expected = req->expected,
                              .value = req->value};
    struct store_result result;

    if (!apply(c, &command, &result))
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
    compare_set(c, req, NULL);
}

static bool watchers_left(struct conn *c)
{
    uint32_t max = c10d_of(c)->config->limits.watchers_max;

    if (max == 0 || conn_space(c)->store->quota.waiters < max)
        return true;
    conn_drop(c, DROP_LIMIT, "too many waiters in this space, see --watcher-limit",
              (struct slice){0});
    return false;
}

static bool may_wait(struct conn *c)
{
    if (c10d_session(c)->waiter == NULL)
        return watchers_left(c);
    conn_drop(c, DROP_MALFORMED, "a second WAIT before the first was answered", (struct slice){0});
    return false;
}

/* What is told of those who wait; see admin/status_waits.h. */
static void begin_wait(struct conn *c, int64_t size)
{
    struct waiter *w = c10d_session(c)->waiter;

    w->since_ms = engine_now_ms(c10d_of(c)->engine);
    w->size = size;
}

static void reply_wait(struct conn *c, enum store_status status)
{
    if (status != STORE_OK)
        c10d_reject(c, status, (struct slice){0});
    else if (c10d_session(c)->waiter == NULL)
        reply_u8(c, C10D_STOP_WAITING);
    else
        begin_wait(c, 0);
}

static void handle_wait(struct conn *c, const struct c10d_request *req)
{
    struct waiter **w = &c10d_session(c)->waiter;

    if (may_wait(c))
        reply_wait(c, keymap_wait(c10d_keys(c), req->items, req->count, c, w));
}

static enum store_status await_barrier(struct conn *c, const struct c10d_request *req)
{
    enum store_status status =
        keymap_barrier_wait(c10d_keys(c), req->key, c, &c10d_session(c)->waiter);

    if (status == STORE_OK)
        begin_wait(c, req->number);
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
    if (!watchers_left(c) || !apply(c, &command, &result))
        return;
    if (result.open) {
        reply_u8(c, C10D_STOP_WAITING);
        return;
    }
    status = await_barrier(c, req);
    if (status == STORE_OK)
        return;
    if (c->carrier != NULL)
        carried_note_arrived(c, req);
    c10d_reject(c, status, req->key);
}

void c10d_await_barrier(struct conn *c, const struct c10d_request *req)
{
    enum store_status status;

    if (!watchers_left(c))
        return;
    status = await_barrier(c, req);
    if (status != STORE_OK)
        c10d_reject(c, status, req->key);
}

static void handle_check(struct conn *c, const struct c10d_request *req)
{
    struct slice rest = req->items, key;
    uint8_t answer = C10D_READY;

    while (answer == C10D_READY && c10d_next_blob(&rest, &key)) {
        if (!keymap_exists(c10d_keys(c), key))
            answer = C10D_NOT_READY;
    }
    reply_u8(c, answer);
}

/* Absent keys as in GET. */
static void handle_multi_get(struct conn *c, const struct c10d_request *req)
{
    struct slice rest = req->items, key;

    while (c10d_next_blob(&rest, &key))
        c10d_reply_blob(c, keymap_get(c10d_keys(c), key));
}

/* Many keys take several turns. */
static void handle_list(struct conn *c, const struct c10d_request *req)
{
    struct c10d_session *s = c10d_session(c);
    struct keymap *m = c10d_keys(c);
    const struct key_list *list;

    (void)req;
    if (s->busy == C10D_IDLE) {
        s->work.list_ticket = keymap_ask_list(m);
        s->busy = C10D_LISTS;
    }
    if (keymap_make_list(m, s->work.list_ticket, LISTED_AT_A_TIME, &list) != STORE_OK) {
        c10d_reject(c, STORE_NO_MEMORY, (struct slice){0});
        return;
    }
    if (list == NULL)
        return;
    reply_i64(c, (int64_t)list->count);
    for (size_t i = 0; i < list->chunk_count; i++)
        conn_put_blob(c, list->chunks[i]);
    conn_charge(c, list->size);
    c10d_end_work(c);
}

static void handle_pop(struct conn *c, const struct c10d_request *req)
{
    struct command command = {.kind = COMMAND_QUEUE_POP, .key = req->key};
    struct store_result result;

    if (!apply(c, &command, &result))
        return;
    reply_i64(c, (int64_t)result.count); /* the length before; 0: nothing follows */
    if (result.status == STORE_OK) {
        c10d_reply_blob(c, result.value);
        if (c->carrier != NULL)
            carried_note_popped(c, &result);
        else
            blob_unref(result.value);
    }
}

static void handle_watch(struct conn *c, const struct c10d_request *req)
{
    struct c10d_watches *w = c10d_session(c)->watches;
    enum store_status status = STORE_NO_MEMORY;
    struct key_watch **items;

    if (!watchers_left(c))
        return;
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
    reply_u8(c, C10D_WATCHING);
}

static void handle_add(struct conn *c, const struct c10d_request *req)
{
    struct command command = {.kind = COMMAND_KEY_ADD, .key = req->key, .number = req->number};
    struct store_result result;

    if (apply(c, &command, &result))
        reply_i64(c, result.number);
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

    if (apply(c, &command, &result))
        reply_i64(c, result.status == STORE_OK ? 1 : 0);
}

/* One APPEND is within --value-limit; what all of them make is to be, too. */
static void handle_append(struct conn *c, const struct c10d_request *req)
{
    struct command command = {.kind = COMMAND_KEY_APPEND,
                              .key = req->key,
                              .value = req->value,
                              .number = (int64_t)c10d_of(c)->limits.value_max};
    struct store_result result;

    apply(c, &command, &result);
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

    apply(c, &command, &result);
}

/* If a change fulfilled the WAIT earlier in this iteration, its 0 comes first, then the 1 of the
 * cancellation: the one order that clients accept. */
static void handle_cancel_wait(struct conn *c, const struct c10d_request *req)
{
    const struct waiter *w = c10d_session(c)->waiter;

    (void)req;
    if (w != NULL && w->missing == 0)
        reply_u8(c, C10D_STOP_WAITING);
    c10d_drop_wait(c);
    reply_u8(c, C10D_WAIT_CANCELED);
}

static void handle_count_keys(struct conn *c, const struct c10d_request *req)
{
    (void)req;
    reply_i64(c, (int64_t)c10d_keys(c)->present);
}

static void handle_queue_len(struct conn *c, const struct c10d_request *req)
{
    reply_i64(c, (int64_t)keymap_queue_len(c10d_keys(c), req->key));
}

static void handle_ping(struct conn *c, const struct c10d_request *req)
{
    c10d_session(c)->pinged = true;
    bytes_put_u32(conn_reserve(c, 4), req->nonce);
}

/* --- Requests that take more than one turn. --- */

/* What is needed to begin it. False: memory is short. */
static bool prepare_job(struct conn *c, struct c10d_job *job, enum c10d_busy busy)
{
    const struct c10d_request *req = &job->request;

    if (busy == C10D_COPIES) {
        if (store_make_room(&c10d_of(c)->engine->store, ACCOUNT_ORDINARY, req->value.len))
            job->copy = blob_alloc(ACCOUNT_INPUT, req->value.len);
        return job->copy != NULL;
    }
    if (req->op == C10D_WAIT || req->op == C10D_CHECK)
        return true;
    job->picks = keymap_pick_begin(c10d_keys(c), (size_t)req->count,
                                   req->op == C10D_MULTI_SET || req->op == C10D_MULTI_GET);
    return job->picks != NULL;
}

static bool begin_job(struct conn *c, const struct c10d_request *req, const uint8_t *start,
                      size_t size, enum c10d_busy busy)
{
    struct c10d_session *s = c10d_session(c);
    struct c10d_job *job = account_request(ACCOUNT_SESSIONS, ACCOUNT_ORDINARY, sizeof *job);

    if (job != NULL) {
        *job = (struct c10d_job){.request = *req,
                                 .start = start,
                                 .size = size,
                                 .left = req->count,
                                 .began = keymap_time(c10d_keys(c))};
        s->work.job = job;
        s->busy = (uint8_t)busy;
        if (prepare_job(c, job, busy))
            return true;
    }
    c10d_reject(c, STORE_NO_MEMORY, (struct slice){0});
    return false;
}

static void move(struct slice *s, const uint8_t *from, const uint8_t *to)
{
    if (s->ptr != NULL)
        s->ptr = to + (s->ptr - from);
}

/* The request of the job, now that its bytes begin here. */
static struct c10d_request request_of(const struct c10d_job *job, const uint8_t *start)
{
    struct c10d_request req = job->request;

    move(&req.key, job->start, start);
    move(&req.expected, job->start, start);
    move(&req.value, job->start, start);
    move(&req.items, job->start, start);
    return req;
}

/* `rest` is what follows the key. */
static enum store_status take_key(struct conn *c, struct c10d_job *job, struct slice key,
                                  struct slice *rest)
{
    struct keymap *m = c10d_keys(c);
    struct slice value;
    bool taken = true;

    switch (job->request.op) {
    case C10D_WAIT:
        return keymap_wait_add(m, &job->waiter, job->left--, c, key);
    case C10D_CHECK:
        job->refuted = !keymap_exists_since(m, key, job->began);
        break;
    case C10D_MULTI_GET:
        taken = keymap_pick(job->picks, key);
        break;
    default: /* C10D_MULTI_SET */
        taken = c10d_next_blob(rest, &value) && keymap_pick_value(job->picks, key, value);
        if (job->picks->grouped_count > RUN_KEYS_AT_ONCE)
            return STORE_TOO_MANY_RUN_KEYS;
    }
    return taken ? STORE_OK : STORE_NO_MEMORY;
}

/* Some keys more. */
static enum store_status take_keys(struct conn *c, struct c10d_job *job, struct slice items)
{
    struct slice rest = slice_from(items, job->done), key;
    const uint8_t *end = rest.ptr + PICKED_BYTES_AT_A_TIME;
    enum store_status status = STORE_OK;

    for (size_t i = 0; i < PICKED_AT_A_TIME && rest.ptr < end && !job->refuted; i++) {
        if (status != STORE_OK || !c10d_next_blob(&rest, &key))
            break;
        status = take_key(c, job, key, &rest);
    }
    job->done = items.len - rest.len;
    return status;
}

/* The values of one moment, bit by bit: true when all are answered. A carrier is told of whole
 * answers. */
static bool answer_some(struct conn *c, struct c10d_job *job)
{
    size_t most = c->carrier == NULL ? ANSWERED_AT_A_TIME : SIZE_MAX;
    struct key_picks *p = job->picks;

    if (job->answered == 0)
        key_picks_take_values(p);
    for (; most > 0 && job->answered < p->count; most--)
        c10d_reply_blob(c, key_picks_taken(p, job->answered++));
    return job->answered == p->count;
}

/* All its keys are found. False: the answer takes more turns. */
static bool finish_job(struct conn *c, const struct c10d_request *req)
{
    struct c10d_job *job = c10d_session(c)->work.job;
    struct key_picks *p = job->picks;
    struct command command = {.kind = COMMAND_KEY_MULTI_SET, .items = req->items, .picks = p};
    struct store_result result;

    switch (req->op) {
    case C10D_CHECK:
        reply_u8(c, job->refuted ? C10D_NOT_READY : C10D_READY);
        break;
    case C10D_MULTI_GET:
        return answer_some(c, job);
    case C10D_WAIT:
        c10d_session(c)->waiter = keymap_wait_end(c10d_keys(c), job->waiter);
        job->waiter = NULL;
        reply_wait(c, STORE_OK);
        break;
    default: /* C10D_MULTI_SET */
        apply(c, &command, &result);
    }
    return true;
}

static void run_picks(struct conn *c, const struct c10d_request *req)
{
    struct c10d_job *job = c10d_session(c)->work.job;
    enum store_status status = take_keys(c, job, req->items);

    if (status != STORE_OK) {
        c10d_reject(c, status, (struct slice){0});
        return;
    }
    if ((job->done < req->items.len && !job->refuted) || !finish_job(c, req))
        return;
    if (c->protocol != NULL)
        c10d_end_work(c);
}

/* What the parser lets through. */
static void (*const handlers[C10D_OP_COUNT])(struct conn *c, const struct c10d_request *req) = {
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
    [C10D_LIST_KEYS] = handle_list,
    [C10D_BARRIER] = handle_barrier,
    [C10D_WATCH_KEY] = handle_watch,
};

static void set_copy(struct conn *c, const struct c10d_request *req, struct blob *copy)
{
    struct command command = {
        .kind = COMMAND_KEY_SET, .key = req->key, .value = req->value, .blob = copy};
    struct store_result result;

    apply(c, &command, &result);
}

static void run_copy(struct conn *c, const struct c10d_request *req)
{
    struct c10d_job *job = c10d_session(c)->work.job;
    size_t left = req->value.len - job->done,
           some = left < COPIED_AT_A_TIME ? left : COPIED_AT_A_TIME;

    memcpy(job->copy->bytes + job->done, req->value.ptr + job->done, some);
    job->done += some;
    if (some < left)
        return;
    if (req->op == C10D_COMPARE_SET)
        compare_set(c, req, job->copy);
    else
        set_copy(c, req, job->copy);
    if (c->protocol != NULL)
        c10d_end_work(c);
}

static void run_job(struct conn *c, const struct c10d_request *req)
{
    if (c10d_session(c)->busy == C10D_PICKS)
        run_picks(c, req);
    else
        run_copy(c, req);
}

/* --- Reading. --- */

/* The first key that a request names; empty: it names none. */
static struct slice first_key(const struct c10d_request *req)
{
    struct slice rest = req->items, key = {0};

    return req->key.ptr != NULL || !c10d_next_blob(&rest, &key) ? req->key : key;
}

/* It is known who the client is, and the hooks do not look at its requests. */
static inline bool is_no_agent(const struct c10d_session *s)
{
    return s->role == C10D_PLAIN || s->role == C10D_WORKER;
}

/* Says who the client is, and lets the hooks see an agent's request first. */
__attribute__((noinline)) static enum c10d_verdict ask_hooks(struct conn *c,
                                                             const struct c10d_request *req)
{
    const struct c10d_hooks *hooks = &c10d_of(c)->hooks;
    struct c10d_session *s = c10d_session(c);
    struct slice key = first_key(req);

    if (s->role < C10D_PLAIN && key.ptr != NULL) {
        if (s->role == C10D_UNBOUND)
            s->role = C10D_PLAIN;
        if (hooks->bind != NULL)
            hooks->bind(hooks->arg, c, key, req->op == C10D_COMPARE_SET);
        if (conn_is_open(c) && c->carrier != NULL)
            carried_keep_binding(c, key);
        if (!conn_is_open(c))
            return C10D_ANSWERED;
    }
    return s->role != C10D_AGENT ? C10D_PROCEED : hooks->on_request(hooks->arg, c, req, key);
}

/* What follows from one turn of a request. */
static enum protocol_result end_turn(struct conn *c)
{
    if (!conn_is_open(c))
        return PROTOCOL_ENDED;
    if (!c10d_is_busy(c))
        return PROTOCOL_MORE;
    conn_wait_for_costly(c);
    return PROTOCOL_DEFERRED;
}

/* --- Turns. --- */

/* What follows a request that carried_begin() has stopped. */
static enum protocol_result end_carried(struct conn *c, enum carried carried)
{
    return carried == CARRIED_HELD ? PROTOCOL_PARKED : end_turn(c);
}

/* One more turn of the request that has begun. The daemon may have waited for its end. */
static enum protocol_result go_on(struct conn *c, const struct c10d_request *req)
{
    struct c10d *c10d = c10d_of(c); /* the session may end with this turn */
    bool is_carried = c->carrier != NULL;
    enum carried carried = CARRIED_PROCEED;
    uint64_t changes = 0;

    if (is_carried && (carried = carried_begin(c, req, &changes)) != CARRIED_PROCEED)
        return end_carried(c, carried);
    if (c10d_session(c)->busy == C10D_LISTS)
        handle_list(c, req);
    else
        run_job(c, req);
    if (is_carried)
        carried_end(c10d, c, req, changes);
    else if (conn_is_open(c) && !c10d_is_busy(c) && conn_net(c)->draining)
        conn_finish(c);
    return end_turn(c);
}

/* How a request that is not cheap begins. Of agents, the next request may depend on what becomes of
 * this one. */
__attribute__((noinline)) static enum c10d_busy
turns_of(struct conn *c, const struct c10d_request *req, size_t size)
{
    if (req->count > MANY_KEYS || (req->op == C10D_MULTI_SET && size >= LARGE_VALUE))
        return C10D_PICKS;
    if (req->value.len >= LARGE_VALUE && c10d_session(c)->role != C10D_AGENT &&
        (req->op == C10D_SET || req->op == C10D_COMPARE_SET))
        return C10D_COPIES;
    return C10D_IDLE;
}

static void handle(struct conn *c, const struct c10d_request *req, const uint8_t *start,
                   size_t size)
{
    enum c10d_busy busy = size > CHEAP_SIZE ? turns_of(c, req, size) : C10D_IDLE;

    if (busy == C10D_IDLE)
        handlers[req->op](c, req);
    else if ((req->op != C10D_WAIT || may_wait(c)) && begin_job(c, req, start, size, busy))
        run_job(c, req);
}

/* What the engine had done before a request. */
struct work {
    uint64_t done, told;
};

static void charge(struct conn *c, const struct c10d_request *req, size_t size,
                   const struct engine *engine, struct work before)
{
    conn_charge(c, REQUEST_COST + req->count * ENTRY_COST + size + (engine->work - before.done) +
                       (engine->store.ready.work - before.told) * TOLD_COST);
}

/* One whole request of `size` bytes, which begins there. One that is held pays each time that it is
 * shown: it may be done already, and only its answer be held. */
static enum protocol_result run_request(struct conn *c, const struct c10d_request *req,
                                        const uint8_t *start, size_t size)
{
    struct c10d *c10d = c10d_of(c); /* the session may end with this request */
    struct engine *engine = c10d->engine;
    const struct work before = {engine->work, engine->store.ready.work};
    uint64_t changes = 0;
    bool is_carried = c->carrier != NULL;
    enum carried carried = CARRIED_PROCEED;
    enum c10d_verdict verdict;

    if (is_carried && (carried = carried_begin(c, req, &changes)) != CARRIED_PROCEED)
        return end_carried(c, carried);
    verdict = is_no_agent(c10d_session(c)) ? C10D_PROCEED : ask_hooks(c, req);
    if (verdict == C10D_HELD) {
        charge(c, req, size, engine, before);
        return PROTOCOL_PARKED;
    }
    engine->stats.c10d_requests[req->op]++;
    if (verdict == C10D_PROCEED)
        handle(c, req, start, size);
    charge(c, req, size, engine, before);
    if (is_carried)
        carried_end(c10d, c, req, changes);
    return end_turn(c);
}

/* True for the few requests that may take long, or be answered at length. */
static bool is_large(const struct c10d_request *req, size_t size)
{
    return size > CHEAP_SIZE || req->op == C10D_LIST_KEYS;
}

/* A legacy client whose WAIT timed out says nothing and goes on with its next request; a late 0
 * would be read as the first byte of that one's answer. */
static void give_up_wait(struct conn *c)
{
    if (c10d_session(c)->waiter != NULL && c10d_session(c)->version == C10D_LEGACY)
        c10d_drop_wait(c);
}

/* The request that has begun gets one more turn; its bytes begin there. */
static enum protocol_result resume_request(struct conn *c, const uint8_t *start, size_t *size)
{
    const struct c10d_session *s = c10d_session(c);
    struct c10d_request req = {.op = C10D_LIST_KEYS};
    enum protocol_result result;

    *size = 1;
    if (s->busy != C10D_LISTS) {
        *size = s->work.job->size;
        req = request_of(s->work.job, start);
    }
    if (!conn_has_budget(c) || !conn_begin_costly(c)) {
        conn_wait_for_costly(c);
        return PROTOCOL_DEFERRED;
    }
    result = go_on(c, &req);
    conn_end_costly(c);
    return result;
}

/* Before a request that is large. PROTOCOL_MORE: there is room and time for it, until
 * conn_end_costly(). */
static enum protocol_result begin_large(struct conn *c, const struct c10d_request *req, size_t size)
{
    if (req->op == C10D_LIST_KEYS && !conn_has_room(c, keymap_list_size(c10d_keys(c))))
        return PROTOCOL_PAUSED;
    if (size <= CHEAP_SIZE && c10d_keys(c)->present <= CHEAP_LIST)
        return PROTOCOL_MORE;
    return conn_begin_costly(c) ? PROTOCOL_MORE : PROTOCOL_DEFERRED;
}

/* A whole request. It stays where it is if it is held, or takes more turns. */
static inline enum protocol_result take_request(struct conn *c, const struct c10d_request *req,
                                                const uint8_t *start, size_t size)
{
    bool large = is_large(req, size);
    enum protocol_result result = large ? begin_large(c, req, size) : PROTOCOL_MORE;

    if (result == PROTOCOL_MORE)
        result = run_request(c, req, start, size);
    if (large)
        conn_end_costly(c);
    return result;
}

/* Reads the next request and carries it out. PARSE_DONE: *result says what came of it. */
static inline enum parse_result next_request(struct conn *c, struct slice in, size_t *size,
                                             enum protocol_result *result)
{
    struct c10d_session *s = c10d_session(c);
    struct c10d_refusal refusal;
    struct c10d_request req;
    enum parse_result parsed = c10d_parse(in, (enum c10d_version)s->version, &c10d_of(c)->limits,
                                          &s->progress, &req, size, &refusal);

    if (parsed == PARSE_DONE)
        *result = take_request(c, &req, in.ptr, *size);
    else if (parsed == PARSE_BAD)
        conn_drop(c, refusal.is_limit ? DROP_LIMIT : DROP_MALFORMED, refusal.reason,
                  (struct slice){in.ptr, 1});
    return parsed;
}

static enum protocol_result read_requests(struct conn *c, uint8_t *in, size_t len,
                                          struct protocol_progress *progress)
{
    while (progress->used < len) {
        struct slice rest = {in + progress->used, len - progress->used};
        enum protocol_result result = PROTOCOL_ENDED;
        enum parse_result parsed;
        size_t size;

        if (c10d_is_busy(c)) {
            result = resume_request(c, rest.ptr, &size);
        } else {
            give_up_wait(c);
            if (!conn_can_reply(c))
                return PROTOCOL_PAUSED;
            if (!conn_has_budget(c))
                return PROTOCOL_DEFERRED;
            parsed = next_request(c, rest, &size, &result);
            if (parsed == PARSE_BAD)
                return PROTOCOL_ENDED;
            if (parsed == PARSE_MORE) {
                progress->need = progress->used + size;
                return PROTOCOL_MORE;
            }
        }
        if (result == PROTOCOL_PARKED || result == PROTOCOL_DEFERRED)
            progress->need = progress->used + size; /* and more may come behind it */
        else if (result != PROTOCOL_PAUSED)
            progress->used += size;
        if (result != PROTOCOL_MORE)
            return result;
    }
    return PROTOCOL_MORE;
}

static void resume(struct conn *c, struct wake *w)
{
    struct subscription *s;
    struct blob *event;

    if (w->kind == WAKE_WAITER) {
        c10d_drop_wait(c);
        if ((c->carrier == NULL || c->carrier->functions->woken(c)) && conn_can_push(c))
            reply_u8(c, C10D_STOP_WAITING);
        return;
    }
    for (int i = 0; i < EVENTS_AT_A_TIME; i++) {
        if (!conn_can_push(c) ||
            (event = subscription_next(&c10d_session(c)->watches->subscription)) == NULL)
            break;
        conn_share(c, event);
        blob_unref(event);
        conn_charge(c, TOLD_COST);
    }
    if (c->protocol == NULL)
        return;
    s = &c10d_session(c)->watches->subscription;
    if (s->queued > 0)
        wake_add(&c10d_of(c)->engine->store.ready, &s->wake);
    else if (s->lost)
        conn_drop(c, DROP_LIMIT, "watches keys that change too often to be told",
                  (struct slice){0});
}

/* --- The protocol. --- */

/* At most five bytes tell the version. */
static enum parse_result begin(const struct protocol *p, struct conn *c, struct slice in,
                               struct protocol_progress *progress, const char **why)
{
    struct c10d *c10d = p->arg;
    enum c10d_version version = C10D_LEGACY;
    size_t size = 0;
    enum parse_result result =
        c10d_detect(in, config_legacy_version(c10d->config), c10d->config->legacy, &version, &size);

    if (result == PARSE_MORE)
        progress->need = size;
    else if (result == PARSE_BAD)
        *why = in.ptr[0] <= 12 ? "c10d without a handshake (torch 2.0 and before), or a bad "
                                 "VALIDATE; see --c10d-legacy"
                               : "no protocol spoken here begins so";
    if (result != PARSE_DONE)
        return result;
    progress->used = size;
    c->protocol = p;
    memset(&c->session, 0, sizeof c->session);
    c10d_session(c)->version = (uint8_t)version;
    engine_session_began(c10d->engine, conn_space(c));
    return PARSE_DONE;
}

static const char *version_name(const struct conn *c)
{
    const struct c10d_session *s = (const struct c10d_session *)(const void *)c->session.bytes;

    return c10d_version_name((enum c10d_version)s->version);
}

bool c10d_is_spoken(const struct conn *c)
{
    return c->protocol != NULL && c->protocol->begin == begin;
}

void c10d_init(struct c10d *c10d, const struct config *config, struct engine *engine,
               const struct c10d_hooks *hooks)
{
    *c10d = (struct c10d){.config = config,
                          .engine = engine,
                          .limits = {.key_max = config->limits.key_max,
                                     .value_max = config->limits.value_max,
                                     .keys_max = config->limits.keys_max,
                                     .request_max = config->limits.request_max}};
    if (hooks != NULL)
        c10d->hooks = *hooks;
}

struct protocol c10d_protocol(struct c10d *c10d)
{
    return (struct protocol){.name = "c10d",
                             .arg = c10d,
                             .begin = begin,
                             .read = read_requests,
                             .is_busy = c10d_is_busy,
                             .resume = resume,
                             .end = end,
                             .version = version_name};
}
