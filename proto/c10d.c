/* torch's c10d TCPStore requests, from bytes to structs. See c10d.h for the contract. */
#include "proto/c10d.h"

/* VALIDATE with its magic on the wire: no acceptable legacy request begins like this, since as a
 * legacy SET it would announce a key of over a billion bytes. */
static const uint8_t validate[5] = {0x00, 0xce, 0xf7, 0x85, 0x3c};

#define ABSENT C10D_VALIDATE /* never a request once the version is known */

static const uint8_t legacy_ops[] = {
    C10D_SET,  C10D_COMPARE_SET, C10D_GET,       C10D_ADD,        C10D_CHECK,
    C10D_WAIT, C10D_GETNUMKEYS,  C10D_WATCH_KEY, C10D_DELETE_KEY,
};

static enum c10d_op op_of_byte(uint8_t byte, enum c10d_version version)
{
    if (version == C10D_MODERN)
        return byte <= C10D_BARRIER ? (enum c10d_op)byte : ABSENT;
    return byte < sizeof legacy_ops ? (enum c10d_op)legacy_ops[byte] : ABSENT;
}

static const struct {
    const char *name;
    unsigned parts; /* enum c10d_part */
} ops[C10D_OP_COUNT] = {
    [C10D_VALIDATE] = {"VALIDATE", 0},
    [C10D_SET] = {"SET", C10D_HAS_KEY | C10D_HAS_VALUE},
    [C10D_COMPARE_SET] = {"COMPARE_SET", C10D_HAS_KEY | C10D_HAS_EXPECTED | C10D_HAS_VALUE},
    [C10D_GET] = {"GET", C10D_HAS_KEY},
    [C10D_ADD] = {"ADD", C10D_HAS_KEY | C10D_HAS_NUMBER},
    [C10D_CHECK] = {"CHECK", C10D_HAS_KEYS},
    [C10D_WAIT] = {"WAIT", C10D_HAS_KEYS},
    [C10D_GETNUMKEYS] = {"GETNUMKEYS", 0},
    [C10D_DELETE_KEY] = {"DELETE_KEY", C10D_HAS_KEY},
    [C10D_APPEND] = {"APPEND", C10D_HAS_KEY | C10D_HAS_VALUE},
    [C10D_MULTI_GET] = {"MULTI_GET", C10D_HAS_KEYS},
    [C10D_MULTI_SET] = {"MULTI_SET", C10D_HAS_PAIRS},
    [C10D_CANCEL_WAIT] = {"CANCEL_WAIT", 0},
    [C10D_PING] = {"PING", C10D_HAS_NONCE},
    [C10D_QUEUE_PUSH] = {"QUEUE_PUSH", C10D_HAS_KEY | C10D_HAS_VALUE},
    [C10D_QUEUE_POP] = {"QUEUE_POP", C10D_HAS_KEY},
    [C10D_QUEUE_LEN] = {"QUEUE_LEN", C10D_HAS_KEY},
    [C10D_LIST_KEYS] = {"LIST_KEYS", 0},
    [C10D_BARRIER] = {"BARRIER", C10D_HAS_KEY | C10D_HAS_NUMBER},
    [C10D_WATCH_KEY] = {"WATCH_KEY", C10D_HAS_KEY},
};

const char *c10d_op_name(enum c10d_op op)
{
    return (unsigned)op < C10D_OP_COUNT ? ops[op].name : "?";
}

unsigned c10d_op_parts(enum c10d_op op)
{
    return ops[op].parts;
}

const char *c10d_version_name(enum c10d_version version)
{
    return version == C10D_MODERN ? "c10d-modern" : "c10d-legacy";
}

enum parse_result c10d_detect(struct slice in, bool legacy_on, enum c10d_version *out, size_t *size)
{
    size_t same = 0;

    while (same < in.len && same < sizeof validate && in.ptr[same] == validate[same])
        same++;
    if (same == sizeof validate) {
        *out = C10D_MODERN;
        *size = sizeof validate;
        return PARSE_DONE;
    }
    if (same == in.len) {
        *size = in.len + 1;
        return PARSE_MORE;
    }
    if (!legacy_on || in.ptr[0] >= sizeof legacy_ops)
        return PARSE_BAD;
    *out = C10D_LEGACY;
    *size = 0;
    return PARSE_DONE;
}

/* One parse: its position, the limits, and the fault that it has found. */
struct parse {
    struct reader r;
    const struct c10d_limits *limits;
    struct c10d_refusal refusal;
};

#define REQUEST_MAX   (UINT64_C(64) << 20)
#define REQUEST_LIMIT "a request larger than 64 MiB and than twice --value-limit"

struct c10d_limits c10d_limits_of(uint64_t value_max)
{
    /* COMPARE_SET: an opcode, three lengths, a key and two values. */
    const uint64_t head = 1 + 3 * 8 + C10D_KEY_MAX, most = INT64_MAX;
    uint64_t two_values = value_max > (most - head) / 2 ? most : head + 2 * value_max;

    return (struct c10d_limits){.value_max = value_max < most ? value_max : most,
                                .request_max = two_values > REQUEST_MAX ? two_values : REQUEST_MAX};
}

static enum parse_result over_limit(struct parse *p, const char *reason)
{
    p->refusal = (struct c10d_refusal){.reason = reason, .is_limit = true};
    return PARSE_BAD;
}

/* A u64 length, then that many bytes. The limit is checked before the bytes arrive, so that no
 * peer can make us buffer what we are going to refuse. */
static inline enum parse_result parse_blob(struct parse *p, size_t max, const char *over,
                                           struct slice *out)
{
    uint64_t len;

    if (!reader_u64(&p->r, &len))
        return PARSE_MORE;
    if (len > max)
        return over_limit(p, over);
    return reader_take(&p->r, (size_t)len, out) ? PARSE_DONE : PARSE_MORE;
}

static enum parse_result parse_key(struct parse *p, struct slice *out)
{
    return parse_blob(p, C10D_KEY_MAX, "a key longer than 8 KiB", out);
}

static enum parse_result parse_value(struct parse *p, struct slice *out)
{
    return parse_blob(p, p->limits->value_max, "a value longer than --value-limit", out);
}

/* Checks the entries that have arrived since the last call. If an entry is incomplete, the next
 * call checks it from its start, so that each byte is read at most twice. */
static enum parse_result parse_list(struct parse *p, bool pairs, struct c10d_progress *progress,
                                    struct c10d_request *req)
{
    size_t start = p->r.at + 8;

    if (progress->at == 0) {
        if (!reader_u64(&p->r, &progress->left))
            return PARSE_MORE;
        if (progress->left > C10D_KEYS_MAX)
            return over_limit(p, "more than 131072 keys in one request");
        progress->at = start;
    }
    p->r.at = progress->at;
    for (; progress->left > 0; progress->left--) {
        struct slice key, value;
        enum parse_result result = parse_key(p, &key);

        if (result == PARSE_DONE && pairs)
            result = parse_value(p, &value);
        if (result == PARSE_DONE && p->r.at > p->limits->request_max)
            result = over_limit(p, REQUEST_LIMIT);
        if (result != PARSE_DONE)
            return result;
        progress->at = p->r.at;
    }
    req->count = bytes_get_u64(p->r.in.ptr + start - 8);
    req->items = (struct slice){p->r.in.ptr + start, p->r.at - start};
    return PARSE_DONE;
}

#define TRY(step)                              \
    do {                                       \
        enum parse_result try_result = (step); \
        if (try_result != PARSE_DONE)          \
            return try_result;                 \
    } while (0)

static enum parse_result parse_body(struct parse *p, struct c10d_progress *progress,
                                    struct c10d_request *req)
{
    unsigned parts = ops[req->op].parts;

    if (req->op == ABSENT) {
        p->refusal = (struct c10d_refusal){.reason = "unknown opcode"};
        return PARSE_BAD;
    }
    if (parts & C10D_HAS_KEY)
        TRY(parse_key(p, &req->key));
    if (parts & C10D_HAS_EXPECTED)
        TRY(parse_value(p, &req->expected));
    if (parts & C10D_HAS_VALUE)
        TRY(parse_value(p, &req->value));
    if (parts & C10D_HAS_NUMBER && !reader_u64(&p->r, (uint64_t *)&req->number))
        return PARSE_MORE;
    if (parts & (C10D_HAS_KEYS | C10D_HAS_PAIRS))
        TRY(parse_list(p, (parts & C10D_HAS_PAIRS) != 0, progress, req));
    if (parts & C10D_HAS_NONCE && !reader_u32(&p->r, &req->nonce))
        return PARSE_MORE;
    return PARSE_DONE;
}

enum parse_result c10d_parse(struct slice in, enum c10d_version version,
                             const struct c10d_limits *limits, struct c10d_progress *progress,
                             struct c10d_request *out, size_t *size, struct c10d_refusal *refusal)
{
    struct c10d_request req = {0};
    struct parse p = {.r = {.in = in}, .limits = limits};
    enum parse_result result;
    uint8_t op;

    if (!reader_u8(&p.r, &op)) {
        *size = p.r.need;
        return PARSE_MORE;
    }
    req.op = op_of_byte(op, version);
    result = parse_body(&p, progress, &req);
    if ((result == PARSE_MORE ? p.r.need : p.r.at) > limits->request_max && result != PARSE_BAD)
        result = over_limit(&p, REQUEST_LIMIT);

    switch (result) {
    case PARSE_DONE:
        *progress = (struct c10d_progress){0};
        *out = req;
        *size = p.r.at;
        break;
    case PARSE_MORE:
        *size = p.r.need;
        break;
    case PARSE_BAD:
        *refusal = p.refusal;
        break;
    }
    return result;
}

bool c10d_next_blob(struct slice *items, struct slice *out)
{
    struct reader r = {.in = *items};
    uint64_t len;

    if (!reader_u64(&r, &len) || !reader_take(&r, (size_t)len, out))
        return false;
    *items = slice_from(*items, r.at);
    return true;
}

struct slice c10d_first_key(const struct c10d_request *req)
{
    struct slice rest = req->items, key = {0};

    return req->key.ptr != NULL || !c10d_next_blob(&rest, &key) ? req->key : key;
}
