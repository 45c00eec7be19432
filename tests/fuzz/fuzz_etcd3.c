/* What an etcd, or whoever stands in its place, may send to a replica: bytes on the connection, cut
 * anywhere; and what may stand in the journal's keys. The first byte says which. */
#include <string.h>

#include "rdzv/etcd3/entry.h"
#include "rdzv/etcd3/grpc_session.h"
#include "rdzv/etcd3/message.h"
#include "store/memory/account.h"
#include "tests/fuzz/fuzz.h"

#define CALLS 8

static size_t told;

/* Decodes the answer as each message that an answer may contain. */
static void on_answer(void *arg, const struct grpc_answer *a)
{
    Etcd3__TxnResponse *t;

    (void)arg;
    told++;
    CHECK(a->text != NULL && strlen(a->text) < GRPC_TEXT_MAX);
    CHECK(a->message.len <= GRPC_ANSWER_MAX);
    if (a->code != 0)
        return;
    t = message_read(&etcd_txn, a->message);
    for (size_t i = 0; t != NULL && i < 4; i++) {
        const Etcd3__KeyValue *kv = txn_key(t, i);

        CHECK(kv == NULL || txn_range(t, i) != NULL);
    }
    message_free(t);
    message_free(message_read(&etcd_range, a->message));
    message_free(message_read(&etcd_beat, a->message));
    message_free(message_read(&etcd_login, a->message));
}

static void send_all(struct grpc *g)
{
    while (grpc_session_output(g, &g->out) && g->out.len > 0)
        ;
}

/* Some calls are under way; `bytes` come in pieces of a length that the first of them says. */
static void receive(struct slice bytes)
{
    static const uint8_t request[GRPC_FRAME + 100];
    static struct grpc g;
    struct grpc_call calls[CALLS] = {0}, *call;
    size_t piece = bytes.len == 0 ? 1 : 1 + (size_t)bytes.ptr[0] * 8;

    g = (struct grpc){.fd = -1, .where = "etcd:2379"};
    LIST_INIT(&g.calls);
    LIST_INIT(&g.ended);
    CHECK(grpc_session_begin(&g));
    for (size_t i = 0; i < CALLS; i++) {
        calls[i] = (struct grpc_call){.tell = on_answer,
                                      .grpc = &g,
                                      .request = {request, sizeof request},
                                      .code = GRPC_UNCLEAR};
        CHECK(grpc_session_submit(&g, &calls[i], etcd_txn.path));
        LIST_INSERT_HEAD(&g.calls, &calls[i], entry);
    }
    send_all(&g);
    told = 0;
    bytes = slice_from(bytes, bytes.len == 0 ? 0 : 1);
    for (size_t at = 0; at < bytes.len; at += piece) {
        size_t len = bytes.len - at < piece ? bytes.len - at : piece;

        if (!grpc_session_input(&g, bytes.ptr + at, len))
            break;
        while ((call = LIST_FIRST(&g.ended)) != NULL)
            grpc_end_call(call);
        send_all(&g);
    }
    grpc_session_end(&g);
    while ((call = LIST_FIRST(&g.ended)) != NULL)
        grpc_end_call(call);
    while ((call = LIST_FIRST(&g.calls)) != NULL)
        grpc_end_call(call);
    CHECK(told == CALLS);
}

/* If a value can be decoded, encoding it again gives the same bytes. */
static void read_values(struct slice bytes)
{
    char text[POINTER_TEXT], head_text[HEAD_TEXT];
    struct snapshot_pointer pointer;
    struct log_entry entry;
    struct log_head head;
    uint8_t header[ENTRY_HEADER];

    if (entry_decode(bytes, &entry) == LOG_IS_FINE) {
        entry_encode(&entry, header);
        CHECK(memcmp(header, bytes.ptr, ENTRY_HEADER) == 0);
        CHECK(entry.bytes.len == bytes.len - ENTRY_HEADER);
    }
    if (head_decode(bytes, &head)) {
        head_encode(&head, head_text);
        CHECK(slice_is(bytes, head_text));
    }
    if (pointer_decode(bytes, &pointer) == LOG_IS_FINE) {
        pointer_encode(&pointer, text);
        CHECK(slice_is(bytes, text));
    }
}

/* The batches of a stream do not depend on how it is cut. */
static void read_stream(struct slice bytes)
{
    struct stream whole = {0}, cut = {0};
    struct slice a, b;

    CHECK(stream_put(&whole, bytes));
    for (size_t i = 0; i < bytes.len; i++) {
        CHECK(stream_put(&cut, (struct slice){bytes.ptr + i, 1}));
        while (stream_next(&cut, &b)) {
            CHECK(stream_next(&whole, &a));
            CHECK(slice_equal(a, b));
        }
    }
    CHECK(!stream_next(&whole, &a));
    CHECK(whole.len == cut.len);
    stream_fini(&whole);
    stream_fini(&cut);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice bytes = {data, size};
    size_t before = account.bytes[ACCOUNT_JOURNAL];

    if (size == 0)
        return 0;
    bytes = slice_from(bytes, 1);
    if (data[0] == 'v')
        read_values(bytes);
    else if (data[0] == 's')
        read_stream(bytes);
    else
        receive(bytes);
    CHECK(account.bytes[ACCOUNT_JOURNAL] == before);
    return 0;
}
