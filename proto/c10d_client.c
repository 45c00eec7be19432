/* Requests of c10d's modern version to bytes, and their answers to structs; see c10d_client.h. */
#include "proto/c10d_client.h"

#define VALIDATE_MAGIC 0x3c85f7ceu

/* The `size` low bytes of v. */
static inline void write_number(struct writer *w, uint64_t v, size_t size)
{
    uint8_t bytes[8];

    bytes_put_u64(bytes, v);
    writer_put(w, bytes, size);
}

void c10d_write_joined(struct writer *w, struct slice head, struct slice tail)
{
    write_number(w, head.len + tail.len, 8);
    writer_slice(w, head);
    writer_slice(w, tail);
}

void c10d_write_blob(struct writer *w, struct slice blob)
{
    c10d_write_joined(w, blob, (struct slice){0});
}

void c10d_write_hello(struct writer *w, uint32_t nonce)
{
    const struct c10d_request ping = {.op = C10D_PING, .nonce = nonce};

    writer_u8(w, C10D_VALIDATE);
    write_number(w, VALIDATE_MAGIC, 4);
    c10d_write_request(w, &ping);
}

void c10d_write_request(struct writer *w, const struct c10d_request *req)
{
    unsigned parts = c10d_op_parts(req->op);

    writer_u8(w, (uint8_t)req->op);
    if (parts & C10D_HAS_KEY)
        c10d_write_blob(w, req->key);
    if (parts & C10D_HAS_EXPECTED)
        c10d_write_blob(w, req->expected);
    if (parts & C10D_HAS_VALUE)
        c10d_write_blob(w, req->value);
    if (parts & C10D_HAS_NUMBER)
        write_number(w, (uint64_t)req->number, 8);
    if (parts & (C10D_HAS_KEYS | C10D_HAS_PAIRS)) {
        write_number(w, req->count, 8);
        writer_slice(w, req->items);
    }
    if (parts & C10D_HAS_NONCE)
        write_number(w, req->nonce, 4);
}

bool c10d_is_answered(enum c10d_op op)
{
    return op != C10D_SET && op != C10D_APPEND && op != C10D_MULTI_SET && op != C10D_QUEUE_PUSH;
}

struct answer {
    struct reader r;
    const struct c10d_reply_limits *limits;
    struct c10d_progress *progress;
};

static enum parse_result read_answer_blob(struct answer *a, struct slice *out)
{
    uint64_t len;

    if (!reader_u64(&a->r, &len))
        return PARSE_MORE;
    if (len > a->limits->value_max)
        return PARSE_BAD;
    return reader_take(&a->r, (size_t)len, out) ? PARSE_DONE : PARSE_MORE;
}

/* A number of `size` bytes, which is at most `max`. */
static enum parse_result parse_number(struct answer *a, size_t size, uint64_t max,
                                      struct c10d_reply *reply)
{
    struct slice bytes;
    uint64_t v = 0;

    if (!reader_take(&a->r, size, &bytes))
        return PARSE_MORE;
    for (size_t i = size; i-- > 0;)
        v = v << 8 | bytes.ptr[i];
    reply->number = (int64_t)v;
    return v <= max ? PARSE_DONE : PARSE_BAD;
}

/* Checks `count` entries from `start` on. It checks bytes that have arrived since the last call,
 * and an incomplete entry from its start. */
static enum parse_result parse_items(struct answer *a, uint64_t count, size_t start,
                                     struct c10d_reply *reply)
{
    struct c10d_progress *p = a->progress;

    if (count > a->limits->reply_max / 8)
        return PARSE_BAD;
    if (p->at == 0)
        *p = (struct c10d_progress){.at = start, .left = count};
    a->r.at = p->at;
    for (; p->left > 0; p->left--) {
        struct slice blob;
        enum parse_result result = read_answer_blob(a, &blob);

        if (result != PARSE_DONE)
            return result;
        if (a->r.at > a->limits->reply_max)
            return PARSE_BAD;
        p->at = a->r.at;
    }
    reply->count = count;
    reply->items = (struct slice){a->r.in.ptr + start, a->r.at - start};
    return PARSE_DONE;
}

static enum parse_result parse_answer(struct answer *a, enum c10d_op op, uint64_t asked,
                                      struct c10d_reply *reply)
{
    enum parse_result result;

    switch (op) {
    case C10D_GET:
    case C10D_COMPARE_SET:
        return read_answer_blob(a, &reply->value);
    case C10D_ADD:
    case C10D_GETNUMKEYS:
    case C10D_DELETE_KEY:
    case C10D_QUEUE_LEN:
        return parse_number(a, 8, UINT64_MAX, reply);
    case C10D_CHECK:
        return parse_number(a, 1, C10D_NOT_READY, reply);
    case C10D_WAIT:
    case C10D_BARRIER:
        return parse_number(a, 1, C10D_STOP_WAITING, reply);
    case C10D_CANCEL_WAIT:
        return parse_number(a, 1, C10D_WAIT_CANCELED, reply);
    case C10D_MULTI_GET:
        return parse_items(a, asked, 0, reply);
    case C10D_LIST_KEYS:
        result = parse_number(a, 8, INT64_MAX, reply);
        return result == PARSE_DONE ? parse_items(a, (uint64_t)reply->number, 8, reply) : result;
    case C10D_QUEUE_POP:
        result = parse_number(a, 8, UINT64_MAX, reply);
        return result == PARSE_DONE && reply->number > 0 ? read_answer_blob(a, &reply->value)
                                                         : result;
    case C10D_PING:
        return parse_number(a, 4, UINT32_MAX, reply);
    case C10D_VALIDATE:
    case C10D_SET:
    case C10D_APPEND:
    case C10D_MULTI_SET:
    case C10D_QUEUE_PUSH:
        return PARSE_DONE;
    case C10D_WATCH_KEY:
    case C10D_OP_COUNT:
        break;
    }
    return PARSE_BAD;
}

enum parse_result c10d_parse_reply(struct slice in, enum c10d_op op, uint64_t asked,
                                   const struct c10d_reply_limits *limits,
                                   struct c10d_progress *progress, struct c10d_reply *out,
                                   size_t *size)
{
    struct answer a = {.r = {.in = in}, .limits = limits, .progress = progress};
    struct c10d_reply reply = {0};
    enum parse_result result = parse_answer(&a, op, asked, &reply);

    if (result == PARSE_DONE) {
        *progress = (struct c10d_progress){0};
        *out = reply;
        *size = a.r.at;
    } else if (result == PARSE_MORE) {
        *size = a.r.need;
    }
    return result;
}
