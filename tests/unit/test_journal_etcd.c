/* What goes to etcd and stands in its keys, byte for byte; and the client of gRPC against a server
 * in this process, which answers as the test says, or not at all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>
#include <event2/event_struct.h>
#include <nghttp2/nghttp2.h>

#include "rdzv/engine/clock.h"
#include "rdzv/etcd3/entry.h"
#include "rdzv/etcd3/grpc.h"
#include "rdzv/etcd3/grpc_session.h"
#include "rdzv/etcd3/message.h"
#include "store/memory/account.h"

/* --- Messages: recorded requests to real servers, and their answers. --- */

static size_t from_hex(const char *hex, uint8_t *out)
{
    size_t len = strlen(hex) / 2;

    for (size_t i = 0; i < len; i++) {
        unsigned byte;

        assert_int_equal(sscanf(hex + 2 * i, "%2x", &byte), 1);
        out[i] = (uint8_t)byte;
    }
    return len;
}

static void a_commit_is_as_recorded(void **state)
{
    const struct slice leader = slice_str("/r/leader"), head = slice_str("/r/head");
    struct message m = {0};
    uint8_t wanted[200];
    size_t len;
    struct txn t;

    (void)state;
    txn_init(&t);
    txn_if_created(&t, leader, 2);
    txn_if_value(&t, head, slice_str("1"));
    txn_put(&t.yes, slice_str("/r/log/2"), slice_str("def"), 0);
    txn_put(&t.yes, head, slice_str("2"), 0);
    assert_true(txn_write(&t, &m));
    len = from_hex("0000000055"
                   "0a0f10011a092f722f6c65616465722802"
                   "0a0e10031a072f722f686561643a0131"
                   "1211120f0a082f722f6c6f672f321203646566"
                   "120e120c0a072f722f68656164120132",
                   wanted);
    wanted[4] = (uint8_t)(len - GRPC_FRAME);
    assert_int_equal(m.len, len);
    assert_memory_equal(m.bytes, wanted, len);
    message_fini(&m);
}

#define HEADER "0a1808ceb8f0c99c86eaab6110ceb3f9efd0fb8d8f2f18022002"

static void answers_are_as_recorded(void **state)
{
    Etcd3__TxnResponse *t;
    Etcd3__LeaseResponse *l;
    uint8_t bytes[200];
    size_t len;

    (void)state;
    len = from_hex(HEADER "1a240a220a021802121a0a092f722f6c65616465721002180220012a026e31"
                          "30e78a8d092001",
                   bytes);
    t = message_read(&etcd_txn, (struct slice){bytes, len});
    assert_non_null(t);
    assert_false(t->succeeded);
    assert_int_equal(t->header->revision, 2);
    assert_int_equal(txn_key(t, 0)->create_revision, 2);
    assert_int_equal(txn_key(t, 0)->lease, 0x1234567);
    assert_true(slice_is(slice_of_pb(txn_key(t, 0)->value), "n1"));
    assert_null(txn_key(t, 1));
    message_free(t);

    len = from_hex(HEADER "10e78a8d09180a", bytes);
    l = message_read(&etcd_beat, (struct slice){bytes, len});
    assert_int_equal(l->id, 0x1234567);
    assert_int_equal(l->ttl, 10);
    message_free(l);
    len = from_hex(HEADER "10e78a8d09", bytes); /* a beat of a lease that is gone */
    l = message_read(&etcd_beat, (struct slice){bytes, len});
    assert_int_equal(l->ttl, 0);
    message_free(l);
    assert_null(message_read(&etcd_txn, (struct slice){bytes, len - 1}));
}

/* --- Entries. --- */

static void an_entry_follows_on_another(void **state)
{
    struct log_entry e = {.version = ENTRY_VERSION_MAX,
                          .epoch = 7,
                          .begins = true,
                          .bytes = slice_str("abc")},
                     other, out;
    uint8_t value[ENTRY_HEADER + 3];

    (void)state;
    e.chain = entry_chain(0, &e);
    entry_encode(&e, value);
    memcpy(value + ENTRY_HEADER, "abc", 3);
    assert_int_equal(entry_decode((struct slice){value, sizeof value}, &out), LOG_IS_FINE);
    assert_int_equal(out.version, ENTRY_VERSION_MAX);
    assert_int_equal(out.epoch, 7);
    assert_true(out.begins);
    assert_int_equal(entry_chain(0, &out), out.chain);
    assert_int_not_equal(entry_chain(1, &out), out.chain); /* behind another one */
    other = out;
    other.epoch = 8;
    assert_int_not_equal(entry_chain(0, &other), out.chain);
    other = out;
    other.version = ENTRY_VERSION_MAX + 1;
    assert_int_not_equal(entry_chain(0, &other), out.chain);
    other = out;
    other.begins = false;
    assert_int_not_equal(entry_chain(0, &other), out.chain);
    other = out;
    other.bytes = slice_str("abd");
    assert_int_not_equal(entry_chain(0, &other), out.chain);
}

static void other_versions_are_refused(void **state)
{
    uint8_t value[ENTRY_HEADER] = {ENTRY_VERSION_MIN};
    const struct slice whole = {value, sizeof value};
    struct log_entry e;

    (void)state;
    assert_int_equal(entry_decode(whole, &e), LOG_IS_FINE);
    assert_int_equal(entry_decode((struct slice){value, sizeof value - 1}, &e), LOG_IS_NONE);
    value[0] = ENTRY_VERSION_MAX + 1;
    assert_int_equal(entry_decode(whole, &e), LOG_IS_NEWER);
    value[0] = ENTRY_VERSION_MIN - 1;
    assert_int_equal(entry_decode(whole, &e), LOG_IS_NONE);
    value[0] = ENTRY_VERSION_MIN;
    value[1] = 2; /* a flag that nobody knows */
    assert_int_equal(entry_decode(whole, &e), LOG_IS_NONE);
}

static void pointers_of_other_versions_are_refused(void **state)
{
    struct snapshot_pointer p = {.version = ENTRY_VERSION_MAX,
                                 .at = {7, 8},
                                 .batch = 9,
                                 .id = "0123456789abcdef01234567",
                                 .chunks = 2,
                                 .bytes = 3};
    struct snapshot_pointer out;
    char text[POINTER_TEXT];

    (void)state;
    pointer_encode(&p, text);
    assert_int_equal(pointer_decode(slice_str(text), &out), LOG_IS_FINE);
    assert_int_equal(out.version, ENTRY_VERSION_MAX);
    assert_int_equal(out.at.index, 7);
    assert_int_equal(out.chunks, 2);
    p.version = ENTRY_VERSION_MAX + 1;
    pointer_encode(&p, text);
    assert_int_equal(pointer_decode(slice_str(text), &out), LOG_IS_NEWER);
    p.version = ENTRY_VERSION_MIN - 1;
    pointer_encode(&p, text);
    assert_int_equal(pointer_decode(slice_str(text), &out), LOG_IS_NONE);
    assert_int_equal(pointer_decode(slice_str("x"), &out), LOG_IS_NONE);
}

static void heads_have_one_form(void **state)
{
    static const char *const bad[] = {"",
                                      "0000000000000001",
                                      "0000000000000001 000000000000000",
                                      "0000000000000001 00000000000000002",
                                      "0000000000000001_0000000000000002",
                                      "000000000000000A 0000000000000002",
                                      "0000000000000000 0000000000000002"};
    struct log_head h = {0x1234, 0xfeed}, out;
    char text[HEAD_TEXT];

    (void)state;
    head_encode(&h, text);
    assert_string_equal(text, "0000000000001234 000000000000feed");
    assert_true(head_decode(slice_str(text), &out));
    assert_int_equal(out.index, 0x1234);
    assert_int_equal(out.epoch, 0xfeed);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(head_decode(slice_str(bad[i]), &out));
}

/* --- gRPC. --- */

static struct event_base *base;
static struct grpc *client;
static bool is_up;

/* The server: one connection at a time, on one thread with the client. */
static struct peer_server {
    struct upstream_spec spec;
    int listener, fd;
    struct event accepts, reads;
    nghttp2_session *session;
    size_t connections, requests;
    int32_t stream;     /* of the last request */
    const char *status; /* of answers; NULL: none is sent */
    const char *message;
    struct slice body;
    size_t body_sent;
} servers[3];

static union resolve_address addresses[3]; /* theirs */

static void flush(struct peer_server *s)
{
    const uint8_t *bytes;
    ssize_t len;

    while ((len = nghttp2_session_mem_send(s->session, &bytes)) > 0)
        assert_int_equal(send(s->fd, bytes, (size_t)len, MSG_NOSIGNAL), len);
}

static nghttp2_nv nv(const char *name, const char *value)
{
    return (nghttp2_nv){(uint8_t *)(uintptr_t)name, (uint8_t *)(uintptr_t)value, strlen(name),
                        strlen(value), NGHTTP2_NV_FLAG_NONE};
}

static ssize_t read_body(nghttp2_session *session, int32_t stream, uint8_t *to, size_t len,
                         uint32_t *flags, nghttp2_data_source *source, void *arg)
{
    struct peer_server *s = arg;
    const nghttp2_nv trailers[] = {nv("grpc-status", s->status), nv("grpc-message", s->message)};
    size_t left = s->body.len - s->body_sent;

    (void)source;
    if (len > left)
        len = left;
    memcpy(to, s->body.ptr + s->body_sent, len);
    s->body_sent += len;
    if (s->body_sent == s->body.len) {
        *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
        nghttp2_submit_trailer(session, stream, trailers, 2);
    }
    return (ssize_t)len;
}

static void answer(struct peer_server *s)
{
    const nghttp2_nv headers[] = {nv(":status", "200"), nv("content-type", "application/grpc"),
                                  nv("grpc-status", s->status), nv("grpc-message", s->message)};
    const nghttp2_data_provider body = {.read_callback = read_body};

    s->body_sent = 0;
    if (s->body.len > 0)
        nghttp2_submit_response(s->session, s->stream, headers, 2, &body);
    else
        nghttp2_submit_response(s->session, s->stream, headers, 4, NULL);
    flush(s);
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    struct peer_server *s = arg;

    (void)session;
    if (!(frame->hd.flags & NGHTTP2_FLAG_END_STREAM) || frame->hd.stream_id == 0)
        return 0;
    s->requests++;
    s->stream = frame->hd.stream_id;
    if (s->status != NULL)
        answer(s);
    return 0;
}

static void hang_up(struct peer_server *s)
{
    if (s->fd < 0)
        return;
    event_del(&s->reads);
    nghttp2_session_del(s->session);
    close(s->fd);
    s->fd = -1;
}

static void on_bytes(evutil_socket_t fd, short what, void *arg)
{
    struct peer_server *s = arg;
    uint8_t bytes[65536];
    ssize_t n = recv(fd, bytes, sizeof bytes, 0);

    (void)what;
    if (n <= 0) {
        hang_up(s);
        return;
    }
    assert_int_equal(nghttp2_session_mem_recv(s->session, bytes, (size_t)n), n);
    flush(s);
}

static void on_accept(evutil_socket_t fd, short what, void *arg)
{
    struct peer_server *s = arg;
    nghttp2_session_callbacks *callbacks;

    (void)what;
    hang_up(s);
    s->fd = accept(fd, NULL, NULL);
    s->connections++;
    nghttp2_session_callbacks_new(&callbacks);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_server_new(&s->session, callbacks, s);
    nghttp2_session_callbacks_del(callbacks);
    nghttp2_submit_settings(s->session, NGHTTP2_FLAG_NONE, NULL, 0);
    flush(s);
    event_assign(&s->reads, base, s->fd, EV_READ | EV_PERSIST, on_bytes, s);
    event_add(&s->reads, NULL);
}

static void on_link(void *arg, bool up)
{
    (void)arg;
    is_up = up;
}

/* --- Names. --- */

/* The first two servers', always in this order. */
#define TWO_SERVERS "etcd.test"

static struct lookup {
    void (*tell)(void *arg, const union resolve_address *addresses, size_t count, const char *why);
    void *arg;
} lookup;

static void on_found(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    (void)arg;
    lookup.tell(lookup.arg, addresses, 2, NULL);
}

#define RESOLVE_START(name)                                                                        \
    struct resolve *name(                                                                          \
        struct event_base *b, const char *host, uint16_t port,                                     \
        void (*tell)(void *arg, const union resolve_address *list, size_t count, const char *why), \
        void *arg)

RESOLVE_START(__real_resolve_start);
RESOLVE_START(__wrap_resolve_start);
RESOLVE_START(__wrap_resolve_start)
{
    const struct timeval now = {0};

    if (strcmp(host, TWO_SERVERS) != 0)
        return __real_resolve_start(b, host, port, tell, arg);
    lookup = (struct lookup){tell, arg};
    assert_int_equal(event_base_once(b, -1, EV_TIMEOUT, on_found, NULL, &now), 0);
    return (struct resolve *)(void *)&lookup;
}

void __real_resolve_cancel(struct resolve *r);
void __wrap_resolve_cancel(struct resolve *r);
void __wrap_resolve_cancel(struct resolve *r)
{
    if (r != (struct resolve *)(void *)&lookup)
        __real_resolve_cancel(r);
}

/* --- The client. --- */

static char host[] = "127.0.0.1", two_servers[] = TWO_SERVERS;
static struct upstream_spec specs[2];

static void begin_servers(void)
{
    base = event_base_new();
    for (size_t i = 0; i < 3; i++) {
        struct peer_server *s = &servers[i];
        struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t len = sizeof a;

        *s = (struct peer_server){.fd = -1, .status = "0", .message = ""};
        s->listener = socket(AF_INET, SOCK_STREAM, 0);
        assert_int_equal(bind(s->listener, (struct sockaddr *)&a, sizeof a), 0);
        assert_int_equal(listen(s->listener, 8), 0);
        getsockname(s->listener, (struct sockaddr *)&a, &len);
        addresses[i].in4 = a;
        event_assign(&s->accepts, base, s->listener, EV_READ | EV_PERSIST, on_accept, s);
        event_add(&s->accepts, NULL);
    }
}

static void begin_client(void)
{
    static const struct certificate plain;
    const struct grpc_options options = {.base = base,
                                         .tls = &plain,
                                         .endpoints = specs,
                                         .endpoint_count = 2,
                                         .clock = &clock_system,
                                         .link = on_link};

    is_up = false;
    client = grpc_new(&options);
    assert_non_null(client);
}

static void use_server(size_t spec, size_t server)
{
    specs[spec] =
        (struct upstream_spec){.host = host, .port = ntohs(addresses[server].in4.sin_port)};
}

/* Two endpoints, each with an address of its own. */
static int set_up(void **state)
{
    (void)state;
    begin_servers();
    use_server(0, 0);
    use_server(1, 1);
    begin_client();
    return 0;
}

/* A name with two addresses, and behind it an endpoint with one. */
static int set_up_name(void **state)
{
    (void)state;
    begin_servers();
    specs[0] = (struct upstream_spec){.host = two_servers, .port = 2379};
    use_server(1, 2);
    begin_client();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    grpc_free(client);
    for (size_t i = 0; i < 3; i++) {
        hang_up(&servers[i]);
        event_del(&servers[i].accepts);
        close(servers[i].listener);
    }
    event_base_free(base);
    assert_int_equal(account.bytes[ACCOUNT_JOURNAL], 0);
    return 0;
}

/* What a call has come to. */
static struct outcome {
    size_t told;
    int code;
    char text[GRPC_TEXT_MAX];
    uint8_t message[100000];
    size_t len;
} outcome;

static void on_told(void *arg, const struct grpc_answer *a)
{
    (void)arg;
    outcome.told++;
    outcome.code = a->code;
    snprintf(outcome.text, sizeof outcome.text, "%s", a->text);
    outcome.len = a->message.len;
    if (a->message.len > 0)
        memcpy(outcome.message, a->message.ptr, a->message.len);
}

/* Until it is true, for some seconds. */
#define AWAIT(condition)                                            \
    do {                                                            \
        uint64_t until = clock_monotonic_ms(&clock_system) + 10000; \
        while (!(condition)) {                                      \
            const struct timeval soon = {.tv_usec = 5000};          \
            event_base_loopexit(base, &soon);                       \
            event_base_loop(base, EVLOOP_ONCE);                     \
            grpc_tick(client);                                      \
            assert_true(clock_monotonic_ms(&clock_system) < until); \
        }                                                           \
    } while (0)

static const uint8_t request[GRPC_FRAME + 3] = {0, 0, 0, 0, 3, 1, 2, 3};

static void ask(struct grpc_call *call, uint64_t patience_ms)
{
    AWAIT(is_up);
    *call = (struct grpc_call){.tell = on_told};
    outcome.told = 0;
    assert_true(grpc_start(client, call, etcd_txn.path, (struct slice){request, sizeof request},
                           patience_ms));
}

static void an_answer_comes(void **state)
{
    static const uint8_t body[] = {0, 0, 0, 0, 2, 8, 1};
    struct grpc_call call;

    (void)state;
    servers[0].body = (struct slice){body, sizeof body};
    ask(&call, 5000);
    AWAIT(outcome.told == 1);
    assert_int_equal(outcome.code, 0);
    assert_int_equal(outcome.len, 2);
    assert_memory_equal(outcome.message, body + GRPC_FRAME, 2);
}

static void a_refusal_says_why(void **state)
{
    struct grpc_call call;

    (void)state;
    servers[0].status = "8";
    servers[0].message = "etcdserver: mvcc: database space%20exceeded";
    ask(&call, 5000);
    AWAIT(outcome.told == 1);
    assert_int_equal(outcome.code, 8);
    assert_string_equal(outcome.text, "etcdserver: mvcc: database space exceeded");
}

static void half_an_answer_is_unclear(void **state)
{
    static const uint8_t body[] = {0, 0, 0, 0, 9, 8, 1};
    struct grpc_call call;

    (void)state;
    servers[0].body = (struct slice){body, sizeof body};
    ask(&call, 5000);
    AWAIT(outcome.told == 1);
    assert_int_equal(outcome.code, GRPC_UNCLEAR);
}

static void a_reset_is_unclear(void **state)
{
    struct grpc_call call;

    (void)state;
    servers[0].status = NULL;
    ask(&call, 5000);
    AWAIT(servers[0].requests == 1);
    nghttp2_submit_rst_stream(servers[0].session, NGHTTP2_FLAG_NONE, servers[0].stream,
                              NGHTTP2_CANCEL);
    flush(&servers[0]);
    AWAIT(outcome.told == 1);
    assert_int_equal(outcome.code, GRPC_UNCLEAR);
    assert_true(is_up);
}

/* All of it comes at once: the call ends while the connection says that it wants no more of it. */
static void an_answer_without_memory_is_unclear(void **state)
{
    static const uint8_t body[50000] = {0, 0, 0, 0xc3, 0x4b};
    struct grpc_call call;

    (void)state;
    servers[0].body = (struct slice){body, sizeof body};
    servers[0].status = NULL;
    ask(&call, 60000);
    AWAIT(servers[0].requests == 1);
    account_set_limit(account.total + ACCOUNT_KEPT_MIN / 2);
    servers[0].status = "0";
    answer(&servers[0]);
    AWAIT(outcome.told == 1);
    account_set_limit(0);
    assert_int_equal(outcome.code, GRPC_UNCLEAR);
    assert_true(is_up);
}

/* A member that answers, and can do nothing for us. */
static void a_server_is_left(void **state)
{
    struct grpc_call call;

    (void)state;
    servers[0].status = "14";
    servers[1].status = "5";
    ask(&call, 5000);
    AWAIT(outcome.told == 1);
    grpc_leave(client, "cannot serve");
    assert_true(is_up);
    AWAIT(!is_up);
    assert_non_null(strstr(grpc_status(client).reason, "cannot serve"));
    AWAIT(servers[1].connections == 1);
    ask(&call, 5000);
    AWAIT(outcome.told == 1);
    assert_int_equal(outcome.code, 5);
}

/* A stream has a number of 31 bits, and none twice. */
static void a_connection_carries_so_many_calls(void **state)
{
    struct grpc_call call;

    (void)state;
    servers[0].status = servers[1].status = "5";
    AWAIT(is_up);
    assert_int_equal(nghttp2_session_set_next_stream_id(client->session, INT32_MAX), 0);
    ask(&call, 5000);
    AWAIT(outcome.told == 1);
    assert_int_equal(outcome.code, 5);
    assert_false(
        grpc_start(client, &call, etcd_txn.path, (struct slice){request, sizeof request}, 5000));
    AWAIT(!is_up);
    ask(&call, 5000);
    AWAIT(outcome.told == 1);
    assert_int_equal(outcome.code, 5);
}

/* The connection is given up with it, and the next endpoint is asked. */
static void silence_is_unclear(void **state)
{
    struct grpc_call call;

    (void)state;
    servers[0].status = NULL;
    servers[1].status = "5";
    ask(&call, 200);
    AWAIT(outcome.told == 1);
    assert_int_equal(outcome.code, GRPC_UNCLEAR);
    assert_non_null(strstr(outcome.text, "does not answer"));
    ask(&call, 5000);
    AWAIT(outcome.told == 1);
    assert_int_equal(outcome.code, 5);
    assert_int_equal(servers[1].requests, 1);
    assert_int_equal(servers[1].connections, 1);
}

static void a_lost_connection_is_unclear(void **state)
{
    struct grpc_call call;

    (void)state;
    servers[0].status = NULL;
    ask(&call, 5000);
    AWAIT(servers[0].requests == 1);
    hang_up(&servers[0]);
    AWAIT(outcome.told == 1);
    assert_int_equal(outcome.code, GRPC_UNCLEAR);
    AWAIT(servers[1].connections == 1);
}

/* Who goes away takes no more calls; what it has taken is answered. */
static void a_goaway_is_heeded(void **state)
{
    struct grpc_call call, other = {.tell = on_told};

    (void)state;
    servers[0].status = NULL;
    ask(&call, 5000);
    AWAIT(servers[0].requests == 1);
    nghttp2_submit_goaway(servers[0].session, NGHTTP2_FLAG_NONE, servers[0].stream,
                          NGHTTP2_NO_ERROR, NULL, 0);
    flush(&servers[0]);
    AWAIT(
        !grpc_start(client, &other, etcd_txn.path, (struct slice){request, sizeof request}, 5000) ||
        (grpc_cancel(&other), false));
    assert_int_equal(outcome.told, 0);
    servers[0].status = "5";
    answer(&servers[0]);
    AWAIT(outcome.told == 1);
    assert_int_equal(outcome.code, 5);
    AWAIT(servers[1].connections == 1);
}

static void ask_in_vain(void)
{
    struct grpc_call call;

    ask(&call, 200);
    AWAIT(outcome.told == 1);
    assert_int_equal(outcome.code, GRPC_UNCLEAR);
}

/* A member that takes connections and says nothing does not come first again, whatever order the
 * name's servers tell; and each address is tried before the next endpoint. */
static void the_address_that_failed_last_comes_last(void **state)
{
    struct grpc_call call;

    (void)state;
    for (size_t i = 0; i < 3; i++)
        servers[i].status = NULL;
    for (size_t round = 1; round <= 3; round++) {
        for (size_t i = 0; i < 3; i++) {
            ask_in_vain();
            assert_int_equal(servers[i].requests, round);
        }
    }
    servers[1].status = "5";
    ask_in_vain();
    ask(&call, 5000);
    AWAIT(outcome.told == 1);
    assert_int_equal(outcome.code, 5);
    hang_up(&servers[1]);
    AWAIT(!is_up);
    servers[2].status = "5";
    ask(&call, 5000);
    AWAIT(outcome.told == 1);
    assert_int_equal(outcome.code, 5);
    assert_int_equal(servers[2].requests, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_commit_is_as_recorded),
        cmocka_unit_test(answers_are_as_recorded),
        cmocka_unit_test(an_entry_follows_on_another),
        cmocka_unit_test(other_versions_are_refused),
        cmocka_unit_test(pointers_of_other_versions_are_refused),
        cmocka_unit_test(heads_have_one_form),
        cmocka_unit_test_setup_teardown(an_answer_comes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_refusal_says_why, set_up, tear_down),
        cmocka_unit_test_setup_teardown(half_an_answer_is_unclear, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_reset_is_unclear, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_answer_without_memory_is_unclear, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_server_is_left, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_connection_carries_so_many_calls, set_up, tear_down),
        cmocka_unit_test_setup_teardown(silence_is_unclear, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_lost_connection_is_unclear, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_goaway_is_heeded, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_address_that_failed_last_comes_last, set_up_name,
                                        tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
