/* Requests that need more than one slice. See requests.h for the contract. */

#include <string.h>

#include "rdzv/c10d/requests.h"

/* The keys of a list that one slice writes. */
#define LISTED_AT_A_TIME 4096u

/* With more keys than this, a request looks up this many keys, or bytes, in a slice. */
#define MANY_KEYS              256u
#define LOOKUPS_AT_A_TIME      256u
#define LOOKUP_BYTES_AT_A_TIME (256u << 10)

/* The values of a MULTI_GET that one slice answers. */
#define ANSWERED_AT_A_TIME 4096u

/* A WAIT or MULTI_GET of at most so many keys, and C10D_SHARED_KEYS_MIN, with an answer of at most
 * so many bytes, is executed for all clients that send an equal one. Its keys are looked up in one
 * slice, of about 0.4 ms, so that no thousand others begin before the first has finished. */
#define SHARED_KEYS_MAX  4096u
#define SHARED_BYTES_MAX (2u << 20)

/* A value of this many bytes is copied in several slices. */
#define LARGE_VALUE      (1u << 20)
#define COPIED_AT_A_TIME (256u << 10)

/* A request with many keys or a large value. Its slices look up all keys, or copy the value; the
 * last one executes it at one moment. WAIT and CHECK read each key at its own look-up instead. */
struct c10d_job {
    struct batch_lookup *lookup;
    struct waiter *waiter;       /* of a WAIT, made at its first missing key */
    struct keymap_time began;    /* of a CHECK */
    uint64_t left;               /* keys of a WAIT */
    uint64_t wait_epoch;         /* keymap.wait_epoch when a WAIT began */
    struct blob *copy;           /* of the value; the answer to a MULTI_GET, if it is shared */
    size_t written;              /* bytes of that answer */
    struct c10d_request request; /* its slices as they were at its start */
    const uint8_t *start;        /* where it was then */
    size_t size;                 /* of the request */
    size_t done;                 /* finished bytes of its items or value */
    size_t answered;             /* values of a MULTI_GET */
    bool refuted;                /* of a CHECK: a key is missing, so skip the others */
};

void c10d_end_long(struct conn *c)
{
    struct c10d_session *s = c10d_session(c);

    if (s->busy == C10D_LISTS) {
        keymap_leave_list(c10d_keys(c), s->work.list_ticket);
    } else if (s->busy != C10D_IDLE) {
        batch_lookup_end(s->work.job->lookup);
        keymap_cancel(c10d_keys(c), s->work.job->waiter);
        blob_unref(s->work.job->copy);
        account_free(ACCOUNT_SESSIONS, s->work.job, sizeof *s->work.job);
    }
    s->busy = C10D_IDLE;
    s->work.progress = (struct c10d_progress){0};
}

/* --- Equal requests of many clients. --- */

/* Each agent is shown its own view. */
static bool is_shared(const struct conn *c, const struct c10d_request *req)
{
    uint8_t role = c10d_session(c)->role;

    return req->count >= C10D_SHARED_KEYS_MIN && req->count <= SHARED_KEYS_MAX &&
           (req->op == C10D_WAIT || req->op == C10D_MULTI_GET) &&
           (role == C10D_PLAIN || role == C10D_WORKER);
}

bool c10d_is_known(struct conn *c, const struct c10d_request *req)
{
    return is_shared(c, req) &&
           keymap_is_known(c10d_keys(c), req->items, req->op == C10D_MULTI_GET);
}

static void reply_shared(struct conn *c, struct blob *answer)
{
    conn_charge(c, answer->len);
    conn_share(c, answer);
}

void c10d_answer_known(struct conn *c, const struct c10d_request *req)
{
    if (req->op == C10D_MULTI_GET)
        reply_shared(c, keymap_known_answer(c10d_keys(c)));
    else if (c10d_may_wait(c))
        c10d_reply_wait(c, keymap_wait_join(c10d_keys(c), c, &c10d_session(c)->waiter));
}

/* --- LIST_KEYS. --- */

/* Carries LIST_KEYS out in one slice, or begins its slices. */
static void list_keys(struct conn *c)
{
    struct c10d_session *s = c10d_session(c);
    struct keymap *m = c10d_keys(c);
    const struct key_list *list;

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
    c10d_reply_i64(c, (int64_t)list->count);
    for (size_t i = 0; i < list->chunk_count; i++)
        conn_put_part(c, list->chunks[i], blob_slice(list->chunks[i]));
    conn_charge(c, list->size);
    c10d_end_long(c);
}

/* --- Beginning. --- */

/* C10D_IDLE: one slice is enough. An agent's next request may depend on the result of this one. */
static enum c10d_busy slices_of(struct conn *c, const struct c10d_request *req, size_t size)
{
    if (req->op == C10D_LIST_KEYS)
        return C10D_LISTS;
    if (req->count > MANY_KEYS || is_shared(c, req) ||
        (req->op == C10D_MULTI_SET && size >= LARGE_VALUE))
        return C10D_BATCH;
    if (req->value.len >= LARGE_VALUE && c10d_session(c)->role != C10D_AGENT &&
        (req->op == C10D_SET || req->op == C10D_COMPARE_SET))
        return C10D_COPIES;
    return C10D_IDLE;
}

/* What is needed to begin a job. False: memory is short. */
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
    job->lookup = batch_lookup_begin(c10d_keys(c), (size_t)req->count,
                                     req->op == C10D_MULTI_SET || req->op == C10D_MULTI_GET);
    return job->lookup != NULL;
}

/* False: no memory; the session has ended. */
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
                                 .wait_epoch = c10d_keys(c)->wait_epoch,
                                 .began = keymap_time(c10d_keys(c))};
        s->work.job = job;
        s->busy = (uint8_t)busy;
        if (prepare_job(c, job, busy))
            return true;
    }
    c10d_reject(c, STORE_NO_MEMORY, (struct slice){0});
    return false;
}

static void move_slice(struct slice *s, const uint8_t *from, const uint8_t *to)
{
    if (s->ptr != NULL)
        s->ptr = to + (s->ptr - from);
}

struct c10d_request c10d_long_request(struct conn *c, const uint8_t *start, size_t *size)
{
    const struct c10d_session *s = c10d_session(c);
    const struct c10d_job *job = s->work.job;
    struct c10d_request req = {.op = C10D_LIST_KEYS};

    *size = 1;
    if (s->busy == C10D_LISTS)
        return req;
    *size = job->size;
    req = job->request;
    move_slice(&req.key, job->start, start);
    move_slice(&req.expected, job->start, start);
    move_slice(&req.value, job->start, start);
    move_slice(&req.items, job->start, start);
    return req;
}

/* --- Many keys. --- */

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
        taken = batch_lookup_add(job->lookup, key);
        break;
    default: /* C10D_MULTI_SET */
        taken = c10d_next_blob(rest, &value) && batch_lookup_add_value(job->lookup, key, value);
        if (job->lookup->grouped_count > C10D_RUN_KEYS_AT_ONCE)
            return STORE_TOO_MANY_RUN_KEYS;
    }
    return taken ? STORE_OK : STORE_NO_MEMORY;
}

/* Some keys more. */
static enum store_status take_keys(struct conn *c, struct c10d_job *job, struct slice items)
{
    size_t most = is_shared(c, &job->request) ? SHARED_KEYS_MAX : LOOKUPS_AT_A_TIME;
    struct slice rest = slice_from(items, job->done), key;
    const uint8_t *end = rest.ptr + LOOKUP_BYTES_AT_A_TIME;
    enum store_status status = STORE_OK;

    for (size_t i = 0; i < most && rest.ptr < end && !job->refuted; i++) {
        if (status != STORE_OK || !c10d_next_blob(&rest, &key))
            break;
        status = take_key(c, job, key, &rest);
    }
    job->done = items.len - rest.len;
    return status;
}

static void write_value(struct c10d_job *job, struct slice value)
{
    uint8_t *out = job->copy->bytes + job->written;

    bytes_put_u64(out, value.len);
    slice_copy(out + 8, value);
    job->written += 8 + value.len;
}

/* Room for an answer that is shared. NULL: it is too large, or memory is short. */
static struct blob *answer_room(const struct batch_lookup *p)
{
    size_t size = p->count * 8;

    for (size_t i = 0; i < p->count; i++)
        size += blob_slice(batch_lookup_taken(p, i)).len;
    return size > SHARED_BYTES_MAX ? NULL : blob_alloc(ACCOUNT_ANSWERS, size);
}

/* Answers the values of one moment in slices; true at the end. A backend gets whole answers. */
static bool answer_some(struct conn *c, struct c10d_job *job)
{
    size_t most = c->backend == NULL ? ANSWERED_AT_A_TIME : SIZE_MAX;
    struct batch_lookup *p = job->lookup;

    if (job->answered == 0) {
        batch_lookup_take_values(p);
        job->copy = is_shared(c, &job->request) ? answer_room(p) : NULL;
    }
    for (; most > 0 && job->answered < p->count; most--) {
        struct blob *value = batch_lookup_taken(p, job->answered++);

        if (job->copy == NULL)
            c10d_reply_blob(c, value);
        else
            write_value(job, blob_slice(value));
    }
    return job->answered == p->count;
}

/* True if all its keys are found; false: it needs more slices. */
static bool finish_job(struct conn *c, const struct c10d_request *req)
{
    struct c10d_job *job = c10d_session(c)->work.job;
    struct batch_lookup *p = job->lookup;
    struct keymap *keys = c10d_keys(c);
    struct command command = {.kind = COMMAND_KEY_MULTI_SET, .items = req->items, .lookup = p};
    struct store_result result;

    switch (req->op) {
    case C10D_CHECK:
        c10d_reply_u8(c, job->refuted ? C10D_NOT_READY : C10D_READY);
        break;
    case C10D_MULTI_GET:
        if (!answer_some(c, job))
            return false;
        if (job->copy == NULL)
            break;
        reply_shared(c, job->copy);
        keymap_share_answer(keys, req->items, p, job->copy);
        job->lookup = NULL;
        break;
    case C10D_WAIT:
        job->waiter = keymap_wait_end(keys, job->waiter);
        if (is_shared(c, req))
            job->waiter = keymap_wait_share(keys, req->items, job->wait_epoch, job->waiter);
        c10d_session(c)->waiter = job->waiter;
        job->waiter = NULL;
        c10d_reply_wait(c, STORE_OK);
        break;
    default: /* C10D_MULTI_SET */
        if (!batch_lookup_is_copied(p))
            return false;
        c10d_apply(c, &command, &result);
    }
    return true;
}

static void run_batch(struct conn *c, const struct c10d_request *req)
{
    struct c10d_job *job = c10d_session(c)->work.job;
    enum store_status status = take_keys(c, job, req->items);

    if (job->waiter != NULL && job->waiter->since_ms == 0)
        job->waiter->since_ms = engine_now_ms(c10d_of(c)->engine);
    if (status != STORE_OK) {
        c10d_reject(c, status, (struct slice){0});
        return;
    }
    if ((job->done < req->items.len && !job->refuted) || !finish_job(c, req))
        return;
    if (c->protocol != NULL)
        c10d_end_long(c);
}

/* --- A large value. --- */

static void run_copy(struct conn *c, const struct c10d_request *req)
{
    struct c10d_job *job = c10d_session(c)->work.job;
    size_t left = req->value.len - job->done,
           some = left < COPIED_AT_A_TIME ? left : COPIED_AT_A_TIME;
    struct command set = {
        .kind = COMMAND_KEY_SET, .key = req->key, .value = req->value, .blob = job->copy};
    struct store_result result;

    memcpy(job->copy->bytes + job->done, req->value.ptr + job->done, some);
    job->done += some;
    if (some < left)
        return;
    if (req->op == C10D_COMPARE_SET)
        c10d_compare_set(c, req, job->copy);
    else
        c10d_apply(c, &set, &result);
    if (c->protocol != NULL)
        c10d_end_long(c);
}

void c10d_run_long(struct conn *c, const struct c10d_request *req)
{
    if (c10d_session(c)->busy == C10D_LISTS)
        list_keys(c);
    else if (c10d_session(c)->busy == C10D_BATCH)
        run_batch(c, req);
    else
        run_copy(c, req);
}

bool c10d_begin_long(struct conn *c, const struct c10d_request *req, const uint8_t *start,
                     size_t size)
{
    enum c10d_busy busy = slices_of(c, req, size);

    if (busy == C10D_LISTS)
        list_keys(c);
    else if (busy != C10D_IDLE && (req->op != C10D_WAIT || c10d_may_wait(c)) &&
             begin_job(c, req, start, size, busy))
        c10d_run_long(c, req);
    return busy != C10D_IDLE;
}
