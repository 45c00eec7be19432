/* Messages to etcd v3 and from it. See message.h for the contract. */
#include "rdzv/etcd3/message.h"

#include <assert.h>

#include "rdzv/etcd3/grpc.h"
#include "store/memory/account.h"

/* --- What is sent. --- */

bool message_write(struct message *m, const ProtobufCMessage *from)
{
    size_t len = protobuf_c_message_get_packed_size(from), need = GRPC_FRAME + len;

    m->len = 0;
    if (need > m->cap) {
        message_fini(m);
        m->bytes = account_alloc(ACCOUNT_JOURNAL, need);
        if (m->bytes == NULL)
            return false;
        m->cap = need;
    }
    m->bytes[0] = 0; /* not compressed */
    for (int i = 0; i < 4; i++)
        m->bytes[1 + i] = (uint8_t)(len >> (24 - 8 * i));
    protobuf_c_message_pack(from, m->bytes + GRPC_FRAME);
    m->len = need;
    return true;
}

void message_fini(struct message *m)
{
    if (m->bytes != NULL)
        explicit_bzero(m->bytes, m->len);
    account_free(ACCOUNT_JOURNAL, m->bytes, m->cap);
    *m = (struct message){0};
}

static ProtobufCBinaryData pb_of(struct slice s)
{
    return (ProtobufCBinaryData){s.len, (uint8_t *)(uintptr_t)s.ptr};
}

void txn_init(struct txn *t)
{
    *t = (struct txn){.request = ETCD3__TXN_REQUEST__INIT};
    t->request.compare = t->compare_list;
    t->request.success = t->yes.list;
    t->request.failure = t->no.list;
}

static Etcd3__Compare *add_compare(struct txn *t, struct slice key)
{
    size_t at = t->request.n_compare++;

    assert(at < TXN_OPS_MAX);
    t->compare_list[at] = &t->compares[at];
    etcd3__compare__init(&t->compares[at]);
    t->compares[at].key = pb_of(key);
    return &t->compares[at];
}

void txn_if_created(struct txn *t, struct slice key, int64_t revision)
{
    Etcd3__Compare *c = add_compare(t, key);

    c->target = ETCD3__COMPARE__TARGET__CREATE;
    c->target_union_case = ETCD3__COMPARE__TARGET_UNION_CREATE_REVISION;
    c->create_revision = revision;
}

void txn_if_value(struct txn *t, struct slice key, struct slice value)
{
    Etcd3__Compare *c = add_compare(t, key);

    c->target = ETCD3__COMPARE__TARGET__VALUE;
    c->target_union_case = ETCD3__COMPARE__TARGET_UNION_VALUE;
    c->value = pb_of(value);
}

static size_t add_op(struct txn_branch *b, Etcd3__RequestOp__RequestCase kind)
{
    size_t at = b->count++;

    assert(at < TXN_OPS_MAX);
    b->list[at] = &b->ops[at];
    etcd3__request_op__init(&b->ops[at]);
    b->ops[at].request_case = kind;
    return at;
}

void txn_get(struct txn_branch *b, struct slice key, struct slice end, int64_t limit)
{
    size_t at = add_op(b, ETCD3__REQUEST_OP__REQUEST_RANGE);
    Etcd3__RangeRequest *r = &b->bodies[at].range;

    etcd3__range_request__init(r);
    r->key = pb_of(key);
    r->range_end = pb_of(end);
    r->limit = limit;
    b->ops[at].range = r;
}

void txn_delete(struct txn_branch *b, struct slice key, struct slice end)
{
    size_t at = add_op(b, ETCD3__REQUEST_OP__REQUEST_DELETE_RANGE);
    Etcd3__DeleteRangeRequest *r = &b->bodies[at].remove;

    etcd3__delete_range_request__init(r);
    r->key = pb_of(key);
    r->range_end = pb_of(end);
    b->ops[at].delete_range = r;
}

void txn_put(struct txn_branch *b, struct slice key, struct slice value, int64_t lease)
{
    size_t at = add_op(b, ETCD3__REQUEST_OP__REQUEST_PUT);
    Etcd3__PutRequest *r = &b->bodies[at].put;

    etcd3__put_request__init(r);
    r->key = pb_of(key);
    r->value = pb_of(value);
    r->lease = lease;
    b->ops[at].put = r;
}

bool txn_write(struct txn *t, struct message *m)
{
    t->request.n_success = t->yes.count;
    t->request.n_failure = t->no.count;
    return message_write(m, &t->request.base);
}

/* --- What comes. --- */

static void *message_heap_take(void *, size_t len)
{
    return account_heap_request(ACCOUNT_JOURNAL, ACCOUNT_ORDINARY, len);
}

static void message_heap_free(void *, void *p)
{
    account_heap_free(ACCOUNT_JOURNAL, p);
}

static ProtobufCAllocator memory = {message_heap_take, message_heap_free, NULL};

const struct etcd_method etcd_txn = {"/etcdserverpb.KV/Txn", &etcd3__txn_response__descriptor};
const struct etcd_method etcd_range = {"/etcdserverpb.KV/Range",
                                       &etcd3__range_response__descriptor};
const struct etcd_method etcd_grant = {"/etcdserverpb.Lease/LeaseGrant",
                                       &etcd3__lease_response__descriptor};
const struct etcd_method etcd_revoke = {"/etcdserverpb.Lease/LeaseRevoke",
                                        &etcd3__lease_response__descriptor};
const struct etcd_method etcd_beat = {"/etcdserverpb.Lease/LeaseKeepAlive",
                                      &etcd3__lease_response__descriptor};
const struct etcd_method etcd_login = {"/etcdserverpb.Auth/Authenticate",
                                       &etcd3__authenticate_response__descriptor};

void *message_read(const struct etcd_method *method, struct slice bytes)
{
    return protobuf_c_message_unpack(method->answer, &memory, bytes.len, bytes.ptr);
}

void message_free(void *decoded)
{
    if (decoded != NULL)
        protobuf_c_message_free_unpacked(decoded, &memory);
}

const Etcd3__RangeResponse *txn_range(const Etcd3__TxnResponse *t, size_t at)
{
    if (at >= t->n_responses ||
        t->responses[at]->response_case != ETCD3__RESPONSE_OP__RESPONSE_RANGE)
        return NULL;
    return t->responses[at]->range;
}

const Etcd3__KeyValue *txn_key(const Etcd3__TxnResponse *t, size_t at)
{
    const Etcd3__RangeResponse *r = txn_range(t, at);

    return r == NULL || r->n_kvs == 0 ? NULL : r->kvs[0];
}
