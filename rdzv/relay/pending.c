/* Requests that are kept until they are confirmed. See pending.h for the contract. */
#include "rdzv/relay/pending.h"

#include <string.h>

#include "proto/c10d_client.h"

static size_t request_memory(uint32_t pieces)
{
    return sizeof(struct relay_request) + pieces * sizeof(struct blob *);
}

static void free_request(struct relay_request *q)
{
    for (uint32_t i = 0; i < q->piece_count; i++)
        blob_unref(q->pieces[i]);
    account_free(ACCOUNT_INPUT, q, request_memory(q->piece_count));
}

void pending_init(struct pending *p)
{
    *p = (struct pending){0};
    TAILQ_INIT(&p->list);
}

/* Whether the store answers, whether it has changed something for sure when it is done, and whether
 * it may be done twice. */
static void describe_request(struct relay_request *q, const struct c10d_request *req)
{
    bool is_empty = req->op == C10D_MULTI_GET && req->count == 0; /* its answer has no bytes */

    q->has_answer = q->wanted = c10d_is_answered(req->op) && !is_empty;
    q->changes = req->op == C10D_APPEND || req->op == C10D_QUEUE_PUSH || req->op == C10D_ADD ||
                 req->op == C10D_BARRIER;
    q->repeatable = !q->changes && req->op != C10D_QUEUE_POP && req->op != C10D_DELETE_KEY;
}

struct relay_request *pending_add(struct pending *p, const struct c10d_request *req,
                                  const uint8_t *start, size_t size, uint64_t number)
{
    uint32_t pieces = (uint32_t)((size + RELAY_PAYLOAD_MAX - 1) / RELAY_PAYLOAD_MAX);
    struct relay_request *q =
        account_request_zeroed(ACCOUNT_INPUT, account_class_of(size), request_memory(pieces));

    if (q == NULL)
        return NULL;
    q->number = number;
    q->size = size;
    q->piece_count = pieces;
    q->op = (uint8_t)req->op;
    describe_request(q, req);
    if (req->op == C10D_COMPARE_SET && req->value.len != 0)
        q->value_at = (size_t)(req->value.ptr - start);
    q->value_len = req->op == C10D_COMPARE_SET ? req->value.len : 0;
    TAILQ_INSERT_TAIL(&p->list, q, entry);
    p->count++;
    if (!pending_waits(q))
        p->bytes += size;
    if (!q->has_answer) {
        p->silent++;
        p->silent_bytes += size;
    }
    return q;
}

bool pending_fill(struct relay_request *q, const uint8_t *start, size_t max, bool *more)
{
    while (q->filled < q->size && max > 0) {
        size_t left = q->size - q->filled, at = q->filled / RELAY_PAYLOAD_MAX;
        size_t len = left < RELAY_PAYLOAD_MAX ? left : RELAY_PAYLOAD_MAX;

        q->pieces[at] = blob_new(ACCOUNT_INPUT, (struct slice){start + q->filled, len});
        if (q->pieces[at] == NULL)
            return false;
        q->filled += len;
        max -= len < max ? len : max;
    }
    *more = q->filled < q->size;
    return true;
}

void pending_remove(struct pending *p, struct relay_request *q)
{
    TAILQ_REMOVE(&p->list, q, entry);
    p->count--;
    if (!pending_waits(q))
        p->bytes -= q->size;
    if (!q->has_answer) {
        p->silent--;
        p->silent_bytes -= q->size;
    }
    free_request(q);
}

struct relay_request *pending_find(const struct pending *p, uint64_t number)
{
    struct relay_request *q;

    TAILQ_FOREACH(q, &p->list, entry) {
        if (q->number >= number)
            return q->number == number ? q : NULL;
    }
    return NULL;
}

void pending_rewind(struct pending *p)
{
    struct relay_request *q;

    TAILQ_FOREACH(q, &p->list, entry)
        q->sent = 0;
}

struct blob *pending_next_piece(struct relay_request *q, struct relay_frame *frame)
{
    struct blob *piece = q->pieces[q->sent++];

    q->was_sent = q->was_sent || q->sent == q->piece_count;
    *frame = (struct relay_frame){.kind = RELAY_REQUEST,
                                  .flags = q->sent < q->piece_count ? RELAY_MORE : 0,
                                  .number = q->number,
                                  .payload = blob_slice(piece)};
    return piece;
}
