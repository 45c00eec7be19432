/* Messages to etcd v3 and from it (proto/etcd3.proto): a transaction put together bit by bit, a
 * message as gRPC sends it, and the answers. Pure but for memory. */
#pragma once

#include "proto/bytes.h"
#include "proto/etcd3.pb-c.h"

/* --- What is sent. --- */

/* A message with its gRPC frame; its memory is kept for the next message. All zeros: empty. */
struct message {
    uint8_t *bytes;
    size_t len, cap;
};

/* Writes a message of protobuf-c's. False: memory is short, and *m has none. */
bool message_write(struct message *m, const ProtobufCMessage *from);
void message_fini(struct message *m); /* and wipes what was written: it may be a password */

static inline struct slice message_bytes(const struct message *m)
{
    return (struct slice){m->bytes, m->len};
}

/* etcd may take no more than this in each part of a transaction (--max-txn-ops, 128 by default). */
#define TXN_OPS_MAX 4

/* A transaction that is being put together; it borrows what it is given. Not to be moved. */
struct txn {
    Etcd3__TxnRequest request;
    struct txn_branch {
        Etcd3__RequestOp ops[TXN_OPS_MAX], *list[TXN_OPS_MAX];
        union {
            Etcd3__RangeRequest range;
            Etcd3__PutRequest put;
            Etcd3__DeleteRangeRequest remove;
        } bodies[TXN_OPS_MAX];
        size_t count;
    } yes, no; /* when all comparisons hold; else */
    Etcd3__Compare compares[TXN_OPS_MAX], *compare_list[TXN_OPS_MAX];
};

void txn_init(struct txn *t);

/* The key was created at that revision; 0: there is none. */
void txn_if_created(struct txn *t, struct slice key, int64_t revision);
void txn_if_value(struct txn *t, struct slice key, struct slice value);

/* Reads from `key` up to `end`, excluding `end`; if `end` is empty, only `key`. */
void txn_get(struct txn_branch *b, struct slice key, struct slice end, int64_t limit);
void txn_delete(struct txn_branch *b, struct slice key, struct slice end);
void txn_put(struct txn_branch *b, struct slice key, struct slice value, int64_t lease);

/* As message_write(). */
bool txn_write(struct txn *t, struct message *m);

/* --- What comes. --- */

struct etcd_method {
    const char *path;
    const ProtobufCMessageDescriptor *answer;
};

extern const struct etcd_method etcd_txn;   /* Etcd3__TxnResponse */
extern const struct etcd_method etcd_range; /* Etcd3__RangeResponse */
extern const struct etcd_method etcd_grant; /* Etcd3__LeaseResponse, as of the next two */
extern const struct etcd_method etcd_revoke;
extern const struct etcd_method etcd_beat;
extern const struct etcd_method etcd_login; /* Etcd3__AuthenticateResponse */

/* The decoded message; NULL: invalid bytes, or no memory. Freed with message_free(). */
void *message_read(const struct etcd_method *method, struct slice bytes);
void message_free(void *decoded); /* takes NULL */

/* The answer to the get at that place of the branch that was taken; NULL: there is none. */
const Etcd3__RangeResponse *txn_range(const Etcd3__TxnResponse *t, size_t at);
/* Of a get of one key: NULL when there is none. */
const Etcd3__KeyValue *txn_key(const Etcd3__TxnResponse *t, size_t at);

static inline struct slice slice_of_pb(ProtobufCBinaryData data)
{
    return (struct slice){data.data, data.len};
}
