/* Requests of the library: from a struct rdzv_op to bytes, from answers to a result. */
#include "client/request.h"

#include <stdio.h>
#include <stdlib.h>

/* The nonce of a PING that says that what was sent before it was carried out. */
#define DONE_NONCE 0x656e6f64u

enum shape { ONE_KEY, NO_KEY, KEYS, PAIRS };

static const struct kind {
    const char *name;
    enum shape shape;
    enum c10d_op parts[2];
    unsigned at_once; /* parts that are sent without waiting */
    bool holds;
} kinds[] = {
    [RDZV_SET] = {"set", ONE_KEY, {C10D_SET, C10D_PING}, 2, false},
    [RDZV_GET] = {"get", ONE_KEY, {C10D_CHECK, C10D_GET}, 1, true},
    [RDZV_ADD] = {"add", ONE_KEY, {C10D_ADD}, 1, false},
    [RDZV_COMPARE_SET] = {"compare-set", ONE_KEY, {C10D_COMPARE_SET}, 1, false},
    [RDZV_APPEND] = {"append", ONE_KEY, {C10D_APPEND, C10D_PING}, 2, false},
    [RDZV_DELETE] = {"delete", ONE_KEY, {C10D_DELETE_KEY}, 1, false},
    [RDZV_CHECK] = {"check", KEYS, {C10D_CHECK}, 1, false},
    [RDZV_WAIT] = {"wait", KEYS, {C10D_WAIT, C10D_CANCEL_WAIT}, 1, true},
    [RDZV_MULTI_GET] = {"multi-get", KEYS, {C10D_CHECK, C10D_MULTI_GET}, 1, true},
    [RDZV_MULTI_SET] = {"multi-set", PAIRS, {C10D_MULTI_SET, C10D_PING}, 2, false},
    [RDZV_QUEUE_PUSH] = {"queue-push", ONE_KEY, {C10D_QUEUE_PUSH, C10D_PING}, 2, false},
    [RDZV_QUEUE_POP] = {"queue-pop", ONE_KEY, {C10D_QUEUE_POP}, 1, false},
    [RDZV_QUEUE_LEN] = {"queue-len", ONE_KEY, {C10D_QUEUE_LEN}, 1, false},
    [RDZV_BARRIER] = {"barrier", ONE_KEY, {C10D_BARRIER, C10D_CANCEL_WAIT}, 1, true},
    [RDZV_NUM_KEYS] = {"num-keys", NO_KEY, {C10D_GETNUMKEYS}, 1, false},
    [RDZV_LIST_KEYS] = {"list-keys", NO_KEY, {C10D_LIST_KEYS}, 1, false},
    [RDZV_PING] = {"ping", NO_KEY, {C10D_PING}, 1, false},
};
#define KINDS (sizeof kinds / sizeof *kinds)

/* --- To bytes. --- */

static struct slice slice_of_bytes(struct rdzv_bytes b)
{
    return (struct slice){b.ptr, b.len};
}

static bool is_good(struct rdzv_bytes b)
{
    return b.ptr != NULL || b.len == 0;
}

static bool is_valid(const struct rdzv_op *op)
{
    enum shape shape;

    if ((unsigned)op->kind >= KINDS || kinds[op->kind].name == NULL)
        return false;
    shape = kinds[op->kind].shape;
    if (!is_good(op->key) || !is_good(op->value) || !is_good(op->expected))
        return false;
    if (shape != KEYS && shape != PAIRS)
        return true;
    if (op->count == 0 || op->keys == NULL || (shape == PAIRS && op->values == NULL))
        return false;
    return !ANY(for (size_t i = 0; i < op->count; i++),
                !is_good(op->keys[i]) || (shape == PAIRS && !is_good(op->values[i])));
}

/* The items of a list of c10d; CHECK takes one key as a list. */
static void write_items(struct writer *w, const struct rdzv_op *op, struct slice prefix)
{
    enum shape shape = kinds[op->kind].shape;
    size_t count = shape == ONE_KEY ? 1 : op->count;

    for (size_t i = 0; i < count; i++) {
        c10d_write_joined(w, prefix, slice_of_bytes(shape == ONE_KEY ? op->key : op->keys[i]));
        if (shape == PAIRS)
            c10d_write_blob(w, slice_of_bytes(op->values[i]));
    }
}

/* A list is its items, one behind the other: the bytes of a single key are the end of its item. */
static void request_write_part(struct writer *w, enum c10d_op part, const struct rdzv_op *op,
                               struct slice items)
{
    struct c10d_request req = {.op = part,
                               .value = slice_of_bytes(op->value),
                               .expected = slice_of_bytes(op->expected),
                               .number = op->number,
                               .nonce = DONE_NONCE,
                               .count = 1,
                               .items = items};

    if (kinds[op->kind].shape == ONE_KEY)
        req.key = slice_from(items, 8);
    else
        req.count = op->count;
    c10d_write_request(w, &req);
}

static void request_write_parts(struct writer *w, struct rdzv_request *r, const struct rdzv_op *op,
                                struct slice items)
{
    const struct kind *kind = &kinds[op->kind];

    for (unsigned i = 0; i < 2; i++) {
        r->parts[i].op = kind->parts[i];
        if (kind->parts[i] != C10D_VALIDATE) /* 0: there is no such part */
            request_write_part(w, kind->parts[i], op, items);
        r->parts[i].end = w->len;
    }
    r->send_to = r->parts[kind->at_once - 1].end;
}

static bool request_encode(struct rdzv_request *r, const struct rdzv_op *op)
{
    bool has_keys = kinds[op->kind].shape != NO_KEY;
    struct writer items = {0}, w = {0};
    struct slice written = {0};

    if (has_keys) {
        write_items(&items, op, r->prefix);
        items = (struct writer){.ptr = malloc(items.len), .cap = items.len};
        if (items.ptr == NULL)
            return false;
        write_items(&items, op, r->prefix);
        written = (struct slice){items.ptr, items.len};
    }
    request_write_parts(&w, r, op, written);
    r->out = malloc(w.len);
    if (r->out != NULL) {
        w = (struct writer){.ptr = r->out, .cap = w.len};
        request_write_parts(&w, r, op, written);
    }
    free(items.ptr);
    return r->out != NULL;
}

enum rdzv_status request_new(const struct rdzv_op *op, const char *prefix, const char *where,
                             struct rdzv_request **out)
{
    struct rdzv_request *r;

    if (!is_valid(op))
        return RDZV_INVALID;
    r = calloc(1, sizeof *r);
    if (r == NULL)
        return RDZV_NO_MEMORY;
    r->kind = op->kind;
    r->done = op->done;
    r->arg = op->arg;
    r->count = kinds[op->kind].shape == ONE_KEY ? 1 : op->count;
    r->prefix = slice_str(prefix);
    r->where = where;
    if (!request_encode(r, op)) {
        request_delete(r);
        return RDZV_NO_MEMORY;
    }
    *out = r;
    return RDZV_OK;
}

void request_delete(struct rdzv_request *r)
{
    free(r->out);
    free(r->message);
    free(r->data);
    free(r->values);
    free(r);
}

bool request_holds_others(const struct rdzv_request *r)
{
    return kinds[r->kind].holds;
}

/* --- From answers. --- */

/* The first key as the caller has given it, taken from the request's bytes. */
static struct slice request_first_key(const struct rdzv_request *r)
{
    bool is_list = r->parts[0].op == C10D_CHECK || r->parts[0].op == C10D_WAIT ||
                   r->parts[0].op == C10D_MULTI_SET;
    size_t at = is_list ? 9 : 1;
    struct slice rest = {r->out + at, r->parts[0].end - at}, key = {0};

    if (kinds[r->kind].shape == NO_KEY || !c10d_next_blob(&rest, &key))
        return (struct slice){0};
    return slice_from(key, r->prefix.len);
}

/* The key for a message: bytes other than ASCII become dots, and a long key is cut. */
static void show_key(struct slice key, char *text, size_t size)
{
    size_t len = key.len < size - 4 ? key.len : size - 4;

    for (size_t i = 0; i < len; i++)
        text[i] = (char)(key.ptr[i] > ' ' && key.ptr[i] < 0x7f ? key.ptr[i] : '.');
    strcpy(text + len, len < key.len ? "..." : "");
}

void request_end(struct rdzv_request *r, enum rdzv_status status, const char *why)
{
    char key[128];
    int n;

    r->has_ended = true;
    r->result.status = status;
    r->result.message = "";
    if (status == RDZV_OK)
        return;
    show_key(request_first_key(r), key, sizeof key);
    if (kinds[r->kind].shape == NO_KEY)
        n = asprintf(&r->message, "%s at %s: %s", kinds[r->kind].name, r->where, why);
    else if (r->count > 1)
        n = asprintf(&r->message, "%s of \"%s\" and %llu more at %s: %s", kinds[r->kind].name, key,
                     (unsigned long long)r->count - 1, r->where, why);
    else
        n = asprintf(&r->message, "%s of \"%s\" at %s: %s", kinds[r->kind].name, key, r->where,
                     why);
    if (n < 0)
        r->message = NULL;
    r->result.message = n < 0 ? "it failed, and there is no memory to say why" : r->message;
}

static bool keep_value(struct rdzv_request *r, struct slice value)
{
    r->data = malloc(value.len + 1);
    if (r->data == NULL)
        return false;
    slice_copy(r->data, value);
    r->data[value.len] = '\0';
    r->result.value = (struct rdzv_bytes){r->data, value.len};
    return true;
}

/* Leaves out keys without the prefix: they are not of the caller's world. A NUL behind each value
 * goes where the length of the next one was, once all have been found. */
static bool keep_values(struct rdzv_request *r, const struct c10d_reply *reply)
{
    struct slice prefix = r->kind == RDZV_LIST_KEYS ? r->prefix : (struct slice){0}, rest, item;
    size_t count = 0;

    if (!keep_value(r, reply->items))
        return false;
    r->result.value = (struct rdzv_bytes){0};
    r->values = calloc(reply->count + 1, sizeof *r->values);
    if (r->values == NULL)
        return false;
    rest = (struct slice){r->data, reply->items.len};
    while (c10d_next_blob(&rest, &item)) {
        if (slice_starts_with(item, prefix))
            r->values[count++] = (struct rdzv_bytes){item.ptr + prefix.len, item.len - prefix.len};
    }
    for (size_t i = 0; i < count; i++)
        r->data[(size_t)((const uint8_t *)r->values[i].ptr - r->data) + r->values[i].len] = '\0';
    r->result.values = r->values;
    r->result.count = count;
    return true;
}

/* `reply` is the last one that is awaited: of the last part, or of a CHECK that found no key, so
 * that no GET follows. */
static void request_finish(struct rdzv_request *r, enum c10d_op op, const struct c10d_reply *reply)
{
    bool kept = true;

    if (r->has_ended)
        return;
    r->result.number = reply->number;
    if ((op == C10D_CHECK && reply->number != C10D_READY) ||
        (op == C10D_DELETE_KEY && reply->number == 0) ||
        (op == C10D_QUEUE_POP && reply->number <= 0)) {
        request_end(r, RDZV_ABSENT,
                    op == C10D_QUEUE_POP ? "the queue is empty"
                    : r->count > 1       ? "not all of them are there"
                                         : "there is no such key");
        return;
    }
    if (op == C10D_MULTI_GET || op == C10D_LIST_KEYS)
        kept = keep_values(r, reply);
    else if (op == C10D_GET || op == C10D_COMPARE_SET || op == C10D_QUEUE_POP)
        kept = keep_value(r, reply->value);
    if (kept)
        request_end(r, RDZV_OK, "");
    else
        request_end(r, RDZV_NO_MEMORY, "there is no memory for the answer");
}

/* One part has its answer; false: that was the last one. */
static bool next_part(struct rdzv_request *r, enum c10d_op op, const struct c10d_reply *reply)
{
    if (op == C10D_CANCEL_WAIT) /* the end of the wait may have overtaken it */
        return reply->number != C10D_WAIT_CANCELED;
    if (op == C10D_WAIT || op == C10D_BARRIER || r->part == 1)
        return false;
    if (op == C10D_CHECK && (r->has_ended || reply->number != C10D_READY))
        return false;
    if (r->parts[1].op == C10D_VALIDATE)
        return false;
    r->part = 1;
    r->send_to = r->parts[1].end;
    return true;
}

enum request_answer request_take(struct rdzv_request *r, struct slice in,
                                 const struct c10d_reply_limits *limits, size_t *used, size_t *size)
{
    bool cancels = r->parts[1].op == C10D_CANCEL_WAIT && r->send_to == r->parts[1].end;
    enum c10d_op op = r->parts[cancels ? 1 : r->part].op;
    struct c10d_reply reply;

    switch (c10d_parse_reply(in, op, r->count, limits, &r->progress, &reply, used)) {
    case PARSE_MORE:
        *size = *used;
        return REQUEST_MORE;
    case PARSE_BAD:
        return REQUEST_WRONG;
    case PARSE_DONE:
        break;
    }
    if (op == C10D_PING && reply.number != DONE_NONCE)
        return REQUEST_WRONG;
    if (next_part(r, op, &reply))
        return REQUEST_GOES_ON;
    request_finish(r, op, &reply);
    return REQUEST_ANSWERED;
}
