/* Clients that write to an etcd v3 directly, against which a journal there is measured: HTTP/2 and
 * gRPC, as far as they are needed for transactions of one comparison and one put. See bench.h. */
#include "tests/bench/bench.h"

#include <err.h>
#include <stdio.h>
#include <string.h>

#include "proto/etcd3.pb-c.h"

#define HEAD 9u /* of an HTTP/2 frame: u24 length, u8 type, u8 flags, u32 stream */

enum { H2_DATA, H2_HEADERS, H2_RST_STREAM = 3, H2_SETTINGS, H2_GOAWAY = 7, H2_WINDOW_UPDATE };
enum { H2_ACK = 1, H2_END_STREAM = 1, H2_END_HEADERS = 4 };

static void put_frame(struct writer *out, uint8_t type, uint8_t flags, uint32_t stream,
                      const void *payload, size_t len)
{
    const uint8_t head[HEAD] = {(uint8_t)(len >> 16),
                                (uint8_t)(len >> 8),
                                (uint8_t)len,
                                type,
                                flags,
                                (uint8_t)(stream >> 24),
                                (uint8_t)(stream >> 16),
                                (uint8_t)(stream >> 8),
                                (uint8_t)stream};

    writer_put(out, head, sizeof head);
    writer_put(out, payload, len);
}

/* The window of the connection for answers is as wide as HTTP/2 allows. */
void etcd3_hello(struct wire *w)
{
    static const uint8_t wide[4] = {0x7f, 0xff, 0, 0};

    writer_str(&w->out, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    put_frame(&w->out, H2_SETTINGS, 0, 0, NULL, 0);
    put_frame(&w->out, H2_SETTINGS, H2_ACK, 0, NULL, 0); /* of those that the server will send */
    put_frame(&w->out, H2_WINDOW_UPDATE, 0, 0, wide, sizeof wide);
}

/* A literal header without an entry in the table. */
static void put_header(struct writer *w, const char *name, const char *text)
{
    writer_u8(w, 0);
    writer_u8(w, (uint8_t)strlen(name));
    writer_str(w, name);
    writer_u8(w, (uint8_t)strlen(text));
    writer_str(w, text);
}

static ProtobufCBinaryData pb_text(char *text)
{
    return (ProtobufCBinaryData){strlen(text), (uint8_t *)text};
}

/* With the head of gRPC: not compressed, and the length. */
static size_t pack_txn(const struct client *c, uint8_t out[256])
{
    Etcd3__Compare compare = ETCD3__COMPARE__INIT, *compares[] = {&compare};
    Etcd3__RequestOp op = ETCD3__REQUEST_OP__INIT, *ops[] = {&op};
    Etcd3__PutRequest put = ETCD3__PUT_REQUEST__INIT;
    Etcd3__TxnRequest txn = ETCD3__TXN_REQUEST__INIT;
    char key[40], absent[] = "/bench/absent", text[] = "12345678";
    size_t len;

    snprintf(key, sizeof key, "/bench/%u", c->index);
    compare.target = ETCD3__COMPARE__TARGET__CREATE;
    compare.key = pb_text(absent);
    compare.target_union_case = ETCD3__COMPARE__TARGET_UNION_CREATE_REVISION;
    put.key = pb_text(key);
    put.value = pb_text(text);
    op.request_case = ETCD3__REQUEST_OP__REQUEST_PUT;
    op.put = &put;
    txn.n_compare = txn.n_success = 1;
    txn.compare = compares;
    txn.success = ops;
    len = etcd3__txn_request__pack(&txn, out + 5);
    memset(out, 0, 4);
    out[4] = (uint8_t)len;
    return len + 5;
}

bool etcd3_next(struct client *c, struct slice)
{
    struct writer *out = &c->wire->out;
    uint32_t stream = 2 * c->wire->streams++ + 1;
    uint8_t head[256], body[256];
    struct writer w = {.ptr = head, .cap = sizeof head};

    put_header(&w, ":method", "POST");
    put_header(&w, ":scheme", "http");
    put_header(&w, ":path", "/etcdserverpb.KV/Txn");
    put_header(&w, ":authority", "127.0.0.1");
    put_header(&w, "content-type", "application/grpc");
    put_header(&w, "te", "trailers");
    put_frame(out, H2_HEADERS, H2_END_HEADERS, stream, head, w.len);
    put_frame(out, H2_DATA, H2_END_STREAM, stream, body, pack_txn(c, body));
    return true;
}

/* An answer ends with the trailers of its stream. An error has no message, so on a connection with
 * one the trailers get ahead of the messages. Messages of several streams may precede the trailers
 * of the first. */
size_t etcd3_answer_end(const struct client *c, const uint8_t *in, size_t len)
{
    uint32_t messages = c->wire->messages;
    size_t at = 0;

    while (len - at >= HEAD) {
        size_t size = (size_t)in[at] << 16 | (size_t)in[at + 1] << 8 | in[at + 2];
        uint8_t type = in[at + 3], flags = in[at + 4];

        if (size > len - at - HEAD)
            return 0;
        at += HEAD + size;
        messages += type == H2_DATA;
        if (type == H2_RST_STREAM || type == H2_GOAWAY)
            errx(1, "etcd has ended a stream");
        if (type != H2_HEADERS || !(flags & H2_END_STREAM))
            continue;
        if (messages == 0)
            errx(1, "etcd refuses a transaction: etcdctl names the reason");
        c->wire->messages = messages - 1;
        return at;
    }
    return 0;
}
