/* What tests of a relay's sessions share. See scene.h. */
#include "tests/unit/relay/scene.h"

#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

static void on_answer(void *client, struct slice s)
{
    struct client *c = client;

    assert_true(c->len + s.len <= sizeof c->got);
    if (s.len != 0)
        memcpy(c->got + c->len, s.ptr, s.len);
    c->len += s.len;
}

static void on_queue(void *client, struct outq *q)
{
    struct client *c = client;
    size_t len = q->bytes;
    struct slice bytes = outq_front(q, c->got + c->len, len);

    assert_true(c->len + len <= sizeof c->got);
    if (bytes.ptr != c->got + c->len)
        memcpy(c->got + c->len, bytes.ptr, len);
    c->len += len;
}

static void on_go_on(void *client)
{
    ((struct client *)client)->goes_on = true;
}

static void on_end(void *client, enum drop_reason why, const char *reason)
{
    struct client *c = client;

    (void)why;
    c->ended = true;
    c->session = NULL;
    snprintf(c->why, sizeof c->why, "%s", reason);
}

static const struct relay_calls calls = {
    .answer = on_answer, .answer_queue = on_queue, .go_on = on_go_on, .end = on_end};

struct relay_client *session_new(struct scene *s, enum c10d_version version, struct client *c)
{
    const struct peer peer = {.port = 4711}, local = {.port = 29400};

    c->session = relay_client_new(&s->relay, version, &peer, &local, c);
    assert_non_null(c->session);
    return c->session;
}

int set_up(void **state)
{
    static const struct c10d_limits limits = {.value_max = 8 << 20, .request_max = 64 << 20};
    struct scene *s = calloc(1, sizeof *s);

    relay_init(&s->relay, &calls, &s->pool, &limits, 7);
    s->relay.now_ns = SECOND;
    outq_init(&s->out);
    out_pool_init(&s->pool);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, s->link), 0);
    session_new(s, C10D_MODERN, &s->a);
    session_new(s, C10D_MODERN, &s->b);
    *state = s;
    return 0;
}

void leave(struct client *c)
{
    relay_leave(c->session);
    c->session = NULL;
}

int tear_down(void **state)
{
    struct scene *s = *state;

    if (s->a.session != NULL)
        leave(&s->a);
    if (s->b.session != NULL)
        leave(&s->b);
    relay_fini(&s->relay);
    outq_fini(&s->out, &s->pool);
    out_pool_fini(&s->pool);
    close(s->link[0]);
    close(s->link[1]);
    free(s);
    assert_int_equal(account.bytes[ACCOUNT_INPUT], 0);
    assert_int_equal(account.bytes[ACCOUNT_ANSWERS], 0);
    assert_int_equal(account.bytes[ACCOUNT_SESSIONS], 0);
    return 0;
}

/* --- Requests of clients. --- */

size_t put_text(uint8_t *at, const char *text)
{
    bytes_put_u64(at, strlen(text));
    memcpy(at + 8, text, strlen(text));
    return 8 + strlen(text);
}

/* Of the modern version; what each op is followed by. */
static size_t encode(uint8_t *out, const char *what)
{
    size_t at = 1;
    char op[16], key[LONG_KEY + 1] = "", value[32] = "", more[32] = "";

    _Static_assert(LONG_KEY == 5000, "as below");
    sscanf(what, "%15s %5000s %31s %31s", op, key, value, more);
    if (strcmp(op, "SET") == 0)
        out[0] = 1;
    else if (strcmp(op, "CAS") == 0)
        out[0] = 2;
    else if (strcmp(op, "GET") == 0)
        out[0] = 3;
    else if (strcmp(op, "ADD") == 0)
        out[0] = 4;
    else if (strcmp(op, "CHECK") == 0)
        out[0] = 5;
    else if (strcmp(op, "WAIT") == 0)
        out[0] = 6;
    else if (strcmp(op, "DELETE") == 0)
        out[0] = 8;
    else if (strcmp(op, "CANCEL") == 0)
        out[0] = 12;
    else if (strcmp(op, "BARRIER") == 0)
        out[0] = 18;
    else
        fail_msg("no such request: %s", what);
    if (out[0] == 5 || out[0] == 6) {
        bytes_put_u64(out + at, 1);
        at += 8;
    }
    if (out[0] != 12)
        at += put_text(out + at, key);
    if (out[0] == 1 || out[0] == 2)
        at += put_text(out + at, value);
    if (out[0] == 2)
        at += put_text(out + at, more);
    if (out[0] == 4 || out[0] == 18) {
        bytes_put_u64(out + at, (uint64_t)atoi(value));
        at += 8;
    }
    return at;
}

enum relay_taken take_bytes(struct scene *s, struct client *c, const uint8_t *bytes, size_t len)
{
    struct c10d_progress progress = {0};
    struct c10d_refusal refusal;
    struct c10d_request req;
    size_t size;

    assert_int_equal(c10d_parse((struct slice){bytes, len}, (enum c10d_version)c->session->version,
                                &s->relay.limits, &progress, &req, &size, &refusal),
                     PARSE_DONE);
    return relay_take(c->session, &req, bytes, size);
}

enum relay_taken take(struct scene *s, struct client *c, const char *what)
{
    uint8_t bytes[LONG_KEY + 64];

    return take_bytes(s, c, bytes, encode(bytes, what));
}

uint8_t *large_set(size_t len)
{
    uint8_t *bytes = malloc(len);

    memset(bytes, 'x', len);
    bytes[0] = 1;
    put_text(bytes + 1, "abcd");
    bytes_put_u64(bytes + 13, len - 21);
    return bytes;
}

void got(struct client *c, const void *bytes, size_t len)
{
    assert_int_equal(c->len, len);
    assert_memory_equal(c->got, bytes, len);
    c->len = 0;
}

/* --- The link. --- */

void flush(struct scene *s)
{
    ssize_t n;

    do {
        relay_send(&s->relay, &s->out, 64u << 10);
        outq_send(&s->out, &s->pool, s->link[1], SIZE_MAX);
        while ((n = read(s->link[0], s->bytes + s->len, sizeof s->bytes - s->len)) > 0)
            s->len += (size_t)n;
    } while (relay_has_output(&s->relay) || s->out.bytes > 0);
}

bool next_frame(struct scene *s, struct relay_frame *frame, uint8_t *payload)
{
    size_t size;

    flush(s);
    if (s->len == 0)
        return false;
    assert_int_equal(relay_parse((struct slice){s->bytes, s->len}, frame, &size), PARSE_DONE);
    memcpy(payload, frame->payload.ptr, frame->payload.len);
    frame->payload.ptr = payload;
    memmove(s->bytes, s->bytes + size, s->len - size);
    s->len -= size;
    return true;
}

void no_frame(struct scene *s)
{
    static uint8_t payload[RELAY_PAYLOAD_MAX];
    struct relay_frame frame;

    if (next_frame(s, &frame, payload))
        fail_msg("a frame of kind %u, number %llu", frame.kind, (unsigned long long)frame.number);
}

uint32_t opened(struct scene *s, bool resumes)
{
    uint8_t payload[RELAY_PAYLOAD_MAX];
    struct relay_frame frame;
    Rdzv__RelayOpen *open;

    assert_true(next_frame(s, &frame, payload));
    assert_int_equal(frame.kind, RELAY_OPEN);
    open = rdzv__relay_open__unpack(NULL, frame.payload.len, payload);
    assert_non_null(open);
    assert_int_equal(open->resumes, resumes);
    assert_int_not_equal(open->session, 0);
    assert_int_equal(open->peer_port, 4711);
    assert_int_equal(open->local_port, 29400);
    rdzv__relay_open__free_unpacked(open, NULL);
    return frame.channel;
}

void sent(struct scene *s, uint32_t channel, uint64_t number, const char *what)
{
    uint8_t payload[RELAY_PAYLOAD_MAX], wanted[LONG_KEY + 64];
    size_t len = encode(wanted, what);
    struct relay_frame frame;

    assert_true(next_frame(s, &frame, payload));
    assert_int_equal(frame.kind, RELAY_REQUEST);
    assert_int_equal(frame.flags, 0);
    assert_int_equal(frame.channel, channel);
    assert_int_equal(frame.number, number);
    assert_int_equal(frame.payload.len, len);
    assert_memory_equal(payload, wanted, len);
}

uint32_t begins(struct scene *s, struct client *c, const char *what)
{
    uint32_t channel;

    take(s, c, what);
    channel = opened(s, false);
    sent(s, channel, 1, what);
    return channel;
}

void closed(struct scene *s, uint32_t channel)
{
    uint8_t payload[RELAY_PAYLOAD_MAX];
    struct relay_frame frame;

    assert_true(next_frame(s, &frame, payload));
    assert_int_equal(frame.kind, RELAY_CLOSE);
    assert_int_equal(frame.channel, channel);
}

void store_says(struct scene *s, uint8_t kind, uint8_t flags, uint32_t channel, uint64_t number,
                const void *payload, size_t len)
{
    const struct relay_frame frame = {.kind = kind,
                                      .flags = flags,
                                      .channel = channel,
                                      .number = number,
                                      .payload = {payload, len}};

    assert_null(relay_receive(&s->relay, &frame));
}

void link_up(struct scene *s)
{
    Rdzv__RelayWelcome w = RDZV__RELAY_WELCOME__INIT;

    w.version = RELAY_VERSION_MAX;
    w.session_timeout_ms = 60000;
    w.keeps = !s->store_keeps_nothing;
    s->len = 0;
    relay_link_up(&s->relay, &w);
}

void link_down(struct scene *s)
{
    flush(s);
    relay_link_down(&s->relay);
    s->relay.now_ns += SECOND;
}

uint32_t link_again(struct scene *s)
{
    uint32_t channel;

    link_up(s);
    channel = opened(s, true);
    OPENED(s, 0, channel, 0, "");
    return channel;
}
