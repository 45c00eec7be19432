/* A relay's sessions with a scripted link and a scripted store in hand: what is sent, what is sent
 * again after a link was lost, and what each client is answered, and when. */
#include "rdzv/relay/relay.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "rdzv/relay/relay_internal.h"

#define SECOND UINT64_C(1000000000)

/* A client: what it has got, and what became of it. */
struct client {
    struct relay_client *session;
    uint8_t got[256u << 10];
    size_t len;
    bool goes_on, ended;
    char why[256];
};

struct scene {
    struct relay relay;
    struct outq out;
    struct out_pool pool;
    struct client a, b;
    int link[2];
    uint8_t bytes[512u << 10];
    size_t len; /* of what the link was given and is not looked at yet */
};

static void on_answer(void *client, struct slice s)
{
    struct client *c = client;

    assert_true(c->len + s.len <= sizeof c->got);
    if (s.len != 0)
        memcpy(c->got + c->len, s.ptr, s.len);
    c->len += s.len;
}

static void on_blob(void *client, struct blob *b)
{
    on_answer(client, blob_slice(b));
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
    .answer = on_answer, .answer_blob = on_blob, .go_on = on_go_on, .end = on_end};

static struct relay_client *session_new(struct scene *s, enum c10d_version version,
                                        struct client *c)
{
    const struct peer peer = {.port = 4711}, local = {.port = 29400};

    c->session = relay_client_new(&s->relay, version, &peer, &local, c);
    assert_non_null(c->session);
    return c->session;
}

static int set_up(void **state)
{
    static const struct c10d_limits limits = {
        .key_max = 8192, .value_max = 8 << 20, .keys_max = 1000, .request_max = 64 << 20};
    struct scene *s = calloc(1, sizeof *s);

    relay_init(&s->relay, &calls, &limits, 7);
    s->relay.now_ns = SECOND;
    outq_init(&s->out);
    out_pool_init(&s->pool);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, s->link), 0);
    session_new(s, C10D_MODERN, &s->a);
    session_new(s, C10D_MODERN, &s->b);
    *state = s;
    return 0;
}

static int tear_down(void **state)
{
    struct scene *s = *state;

    if (s->a.session != NULL)
        relay_leave(s->a.session);
    if (s->b.session != NULL)
        relay_leave(s->b.session);
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

static size_t put_text(uint8_t *at, const char *text)
{
    bytes_put_u64(at, strlen(text));
    memcpy(at + 8, text, strlen(text));
    return 8 + strlen(text);
}

/* Of the modern version; what each op is followed by. */
static size_t encode(uint8_t *out, const char *what)
{
    size_t at = 1;
    char op[16], key[32] = "", value[32] = "", more[32] = "";

    sscanf(what, "%15s %31s %31s %31s", op, key, value, more);
    if (strcmp(op, "SET") == 0)
        out[0] = 1;
    else if (strcmp(op, "CAS") == 0)
        out[0] = 2;
    else if (strcmp(op, "GET") == 0)
        out[0] = 3;
    else if (strcmp(op, "ADD") == 0)
        out[0] = 4;
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
    if (out[0] == 6) {
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

static enum relay_taken take_bytes(struct scene *s, struct client *c, const uint8_t *bytes,
                                   size_t len)
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

static enum relay_taken take(struct scene *s, struct client *c, const char *what)
{
    uint8_t bytes[256];

    return take_bytes(s, c, bytes, encode(bytes, what));
}

static void got(struct client *c, const void *bytes, size_t len)
{
    assert_int_equal(c->len, len);
    assert_memory_equal(c->got, bytes, len);
    c->len = 0;
}

#define GOT(c, text)   got(c, text, sizeof(text) - 1)
#define GOT_NOTHING(c) assert_int_equal((c)->len, 0)

/* --- The link. --- */

static void flush(struct scene *s)
{
    ssize_t n;

    do {
        relay_send(&s->relay, &s->out, &s->pool, 64u << 10);
        outq_send(&s->out, &s->pool, s->link[1], SIZE_MAX);
        while ((n = read(s->link[0], s->bytes + s->len, sizeof s->bytes - s->len)) > 0)
            s->len += (size_t)n;
    } while (relay_has_output(&s->relay) || s->out.bytes > 0);
}

static bool next_frame(struct scene *s, struct relay_frame *frame, uint8_t *payload)
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

static void no_frame(struct scene *s)
{
    static uint8_t payload[RELAY_PAYLOAD_MAX];
    struct relay_frame frame;

    if (next_frame(s, &frame, payload))
        fail_msg("a frame of kind %u, number %llu", frame.kind, (unsigned long long)frame.number);
}

/* The next frame is OPEN of that session; its channel. */
static uint32_t opened(struct scene *s, bool resumes)
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

/* And this request, in one frame. */
static void sent(struct scene *s, uint32_t channel, uint64_t number, const char *what)
{
    uint8_t payload[RELAY_PAYLOAD_MAX], wanted[256];
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

static void closed(struct scene *s, uint32_t channel)
{
    uint8_t payload[RELAY_PAYLOAD_MAX];
    struct relay_frame frame;

    assert_true(next_frame(s, &frame, payload));
    assert_int_equal(frame.kind, RELAY_CLOSE);
    assert_int_equal(frame.channel, channel);
}

static void store_says(struct scene *s, uint8_t kind, uint8_t flags, uint32_t channel,
                       uint64_t number, const void *payload, size_t len)
{
    const struct relay_frame frame = {.kind = kind,
                                      .flags = flags,
                                      .channel = channel,
                                      .number = number,
                                      .payload = {payload, len}};

    assert_null(relay_receive(&s->relay, &frame));
}

#define ANSWER(s, channel, number, text) \
    store_says(s, RELAY_ANSWER, 0, channel, number, text, sizeof(text) - 1)
#define DONE(s, channel, number) store_says(s, RELAY_DONE, 0, channel, number, NULL, 0)
#define OPENED(s, flags, channel, number, text) \
    store_says(s, RELAY_OPENED, flags, channel, number, text, sizeof(text) - 1)

static void link_up(struct scene *s)
{
    Rdzv__RelayWelcome w = RDZV__RELAY_WELCOME__INIT;

    w.version = RELAY_VERSION_MAX;
    w.session_timeout_ms = 60000;
    s->len = 0;
    relay_link_up(&s->relay, &w);
}

static void link_down(struct scene *s)
{
    flush(s);
    relay_link_down(&s->relay);
    s->relay.now_ns += SECOND;
}

/* --- One request after the other. --- */

static void a_request_opens_the_session_and_its_answer_comes_back(void **state)
{
    struct scene *s = *state;
    uint32_t channel;

    link_up(s);
    no_frame(s); /* a client that has asked nothing is nobody to the store */
    assert_int_equal(take(s, &s->a, "ADD n 1"), RELAY_TAKEN);
    channel = opened(s, false);
    sent(s, channel, 1, "ADD n 1");
    no_frame(s);
    OPENED(s, 0, channel, 0, "");
    ANSWER(s, channel, 1, "\1\0\0\0\0\0\0\0");
    GOT(&s->a, "\1\0\0\0\0\0\0\0");
    assert_int_equal(s->relay.pending_count, 0);
    take(s, &s->a, "GET n");
    sent(s, channel, 2, "GET n");
}

static void what_comes_before_the_first_link_waits_for_it(void **state)
{
    struct scene *s = *state;
    uint32_t channel;

    assert_false(relay_may_pong(s->b.session));
    assert_int_equal(take(s, &s->a, "SET k v"), RELAY_TAKEN);
    assert_int_equal(take(s, &s->a, "GET k"), RELAY_TAKEN);
    no_frame(s);
    link_up(s);
    assert_true(s->b.goes_on);
    assert_true(relay_may_pong(s->b.session));
    channel = opened(s, false);
    sent(s, channel, 1, "SET k v");
    sent(s, channel, 2, "GET k");
    link_down(s);
    assert_true(relay_may_pong(s->b.session));  /* from now on the relay vouches for the store */
    assert_false(relay_may_pong(s->a.session)); /* but never before what was sent before */
}

static void nothing_is_sent_behind_a_request_with_an_answer(void **state)
{
    struct scene *s = *state;
    uint32_t channel;

    link_up(s);
    take(s, &s->a, "GET k");
    channel = opened(s, false);
    sent(s, channel, 1, "GET k");
    assert_int_equal(take(s, &s->a, "SET k v"), RELAY_HELD);
    assert_int_equal(take(s, &s->b, "SET k v"), RELAY_TAKEN); /* others go on */
    assert_false(s->a.goes_on);
    ANSWER(s, channel, 1, "\0\0\0\0\0\0\0\0");
    assert_true(s->a.goes_on);
    assert_int_equal(take(s, &s->a, "SET k v"), RELAY_TAKEN);
}

static void silent_requests_have_a_window(void **state)
{
    struct scene *s = *state;
    uint32_t channel;

    link_up(s);
    for (unsigned i = 0; i < RELAY_WINDOW; i++)
        assert_int_equal(take(s, &s->a, "SET k v"), RELAY_TAKEN);
    assert_int_equal(take(s, &s->a, "SET k v"), RELAY_HELD);
    channel = opened(s, false);
    for (unsigned i = 0; i < RELAY_WINDOW; i++)
        sent(s, channel, i + 1, "SET k v");
    DONE(s, channel, 200);
    assert_true(s->a.goes_on);
    assert_int_equal(s->relay.pending_count, RELAY_WINDOW - 200);
    assert_int_equal(take(s, &s->a, "SET k v"), RELAY_TAKEN);
    sent(s, channel, RELAY_WINDOW + 1, "SET k v");
}

/* A SET of `len` bytes in all, of which the first 21 are opcode, key and the value's length. */
static uint8_t *large_set(size_t len)
{
    uint8_t *bytes = malloc(len);

    memset(bytes, 'x', len);
    bytes[0] = 1;
    put_text(bytes + 1, "abcd");
    bytes_put_u64(bytes + 13, len - 21);
    return bytes;
}

static void long_requests_come_in_pieces_between_those_of_others(void **state)
{
    struct scene *s = *state;
    size_t len = 3 * RELAY_PAYLOAD_MAX - 5, seen = 0;
    uint8_t *bytes = large_set(len), payload[RELAY_PAYLOAD_MAX];
    struct relay_frame frame;
    unsigned others = 0;

    link_up(s);
    assert_int_equal(take_bytes(s, &s->a, bytes, len), RELAY_TAKEN);
    take(s, &s->b, "GET k");
    while (next_frame(s, &frame, payload)) {
        if (frame.kind != RELAY_REQUEST)
            continue;
        if (frame.payload.len < 100) {
            assert_true(seen < len);
            others++;
            continue;
        }
        assert_memory_equal(payload, bytes + seen, frame.payload.len);
        seen += frame.payload.len;
        assert_int_equal(frame.flags, seen < len ? RELAY_MORE : 0);
    }
    assert_int_equal(seen, len);
    assert_int_equal(others, 1);
    free(bytes);
}

static void a_request_of_megabytes_is_taken_in_turns(void **state)
{
    struct scene *s = *state;
    size_t len = 5u << 20, size, turns = 1;
    uint8_t *bytes = large_set(len);
    enum relay_taken taken = take_bytes(s, &s->a, bytes, len);

    link_up(s);
    for (; taken == RELAY_TAKING; turns++) {
        no_frame(s); /* half a request is none */
        taken = relay_take_more(s->a.session, bytes, &size);
        assert_int_equal(size, len);
    }
    assert_int_equal(taken, RELAY_TAKEN);
    assert_int_equal(turns, 5);
    free(bytes);
}

static void long_answers_are_given_when_they_are_whole(void **state)
{
    struct scene *s = *state;
    uint32_t channel;

    link_up(s);
    take(s, &s->a, "GET k");
    channel = opened(s, false);
    sent(s, channel, 1, "GET k");
    store_says(s, RELAY_ANSWER, RELAY_MORE, channel, 1, "he", 2);
    store_says(s, RELAY_ANSWER, RELAY_MORE, channel, 1, "ll", 2);
    GOT_NOTHING(&s->a);
    link_down(s);
    link_up(s);
    channel = opened(s, true);
    no_frame(s); /* until the store has said where it is */
    OPENED(s, 0, channel, 0, "");
    sent(s, channel, 1, "GET k");
    store_says(s, RELAY_ANSWER, RELAY_MORE, channel, 1, "hel", 3);
    store_says(s, RELAY_ANSWER, 0, channel, 1, "lo", 2);
    GOT(&s->a, "hello");
}

/* --- Resuming. --- */

static void what_was_done_is_not_sent_again(void **state)
{
    struct scene *s = *state;
    uint32_t channel;

    link_up(s);
    take(s, &s->a, "SET k 1");
    take(s, &s->a, "SET k 2");
    take(s, &s->a, "ADD n 1");
    channel = opened(s, false);
    sent(s, channel, 1, "SET k 1");
    link_down(s);
    link_up(s);
    channel = opened(s, true);
    OPENED(s, RELAY_KNOWN, channel, 2, "");
    sent(s, channel, 3, "ADD n 1");
    no_frame(s);
    link_down(s); /* the store carries it out, and is killed before it says so */
    link_up(s);
    channel = opened(s, true);
    GOT_NOTHING(&s->a);
    OPENED(s, RELAY_KNOWN | RELAY_ANSWERED, channel, 3, "\1\0\0\0\0\0\0\0");
    GOT(&s->a, "\1\0\0\0\0\0\0\0");
    no_frame(s);
    assert_int_equal(s->relay.pending_count, 0);
    assert_int_equal(s->relay.stats.resumed, 1); /* the ADD; of the SETs the store had all */
}

static void a_compare_set_that_took_is_answered_with_its_own_value(void **state)
{
    struct scene *s = *state;
    uint32_t channel;

    link_up(s);
    take(s, &s->a, "CAS key old wanted");
    link_down(s);
    link_up(s);
    channel = opened(s, true);
    OPENED(s, RELAY_KNOWN | RELAY_TOOK, channel, 1, "");
    GOT(&s->a, "\6\0\0\0\0\0\0\0wanted");
    no_frame(s);
}

/* The desired value lies in the third piece and the fourth. */
static void a_long_one_too(void **state)
{
    struct scene *s = *state;
    size_t old = 2 * RELAY_PAYLOAD_MAX, want = RELAY_PAYLOAD_MAX, len = 1 + 9 + 8 + old + 8 + want;
    uint8_t *bytes = malloc(len);
    uint32_t channel;

    bytes[0] = 2;
    put_text(bytes + 1, "k");
    bytes_put_u64(bytes + 10, old);
    memset(bytes + 18, 'o', old);
    bytes_put_u64(bytes + 18 + old, want);
    for (size_t i = 0; i < want; i++)
        bytes[26 + old + i] = (uint8_t)(i * 7);
    link_up(s);
    assert_int_equal(take_bytes(s, &s->a, bytes, len), RELAY_TAKEN);
    link_down(s);
    link_up(s);
    channel = opened(s, true);
    OPENED(s, RELAY_KNOWN | RELAY_TOOK, channel, 1, "");
    got(&s->a, bytes + 18 + old, 8 + want);
    free(bytes);
}

static void a_barrier_that_arrived_is_sent_again_under_its_number(void **state)
{
    struct scene *s = *state;
    uint32_t channel;

    link_up(s);
    take(s, &s->a, "SET k v");
    take(s, &s->a, "BARRIER b 2");
    link_down(s);
    link_up(s);
    channel = opened(s, true);
    OPENED(s, RELAY_KNOWN | RELAY_ARRIVED, channel, 2, "");
    sent(s, channel, 2, "BARRIER b 2");
    no_frame(s);
    ANSWER(s, channel, 2, "\0");
    GOT(&s->a, "\0");
    assert_int_equal(s->relay.pending_count, 0);
}

static void waits_are_registered_again(void **state)
{
    struct scene *s = *state;
    uint32_t channel;

    link_up(s);
    take(s, &s->a, "WAIT k");
    link_down(s);
    link_up(s);
    channel = opened(s, true);
    OPENED(s, 0, channel, 0, ""); /* a session that changed nothing leaves no trace */
    sent(s, channel, 1, "WAIT k");
    ANSWER(s, channel, 1, "\0");
    GOT(&s->a, "\0");
}

static void an_idle_session_is_opened_again(void **state)
{
    struct scene *s = *state;
    uint32_t channel;

    link_up(s);
    take(s, &s->a, "SET k v");
    channel = opened(s, false);
    sent(s, channel, 1, "SET k v");
    DONE(s, channel, 1);
    link_down(s);
    link_up(s);
    opened(s, true); /* or its node would be lost after --session-timeout */
    no_frame(s);
}

static void a_session_that_the_store_should_know_is_lost(void **state)
{
    struct scene *s = *state;
    uint32_t channel, other;

    link_up(s);
    take(s, &s->a, "ADD n 1");
    channel = opened(s, false);
    sent(s, channel, 1, "ADD n 1");
    take(s, &s->b, "SET k v");
    other = opened(s, false);
    ANSWER(s, channel, 1, "\1\0\0\0\0\0\0\0");
    store_says(s, RELAY_DONE, RELAY_KNOWN, other, 1, NULL, 0);
    link_down(s);
    link_up(s);
    channel = opened(s, true);
    OPENED(s, 0, channel, 0, "");
    assert_true(s->a.ended);
    assert_non_null(strstr(s->a.why, "does not know the session"));
    OPENED(s, 0, opened(s, true), 0, "");
    assert_true(s->b.ended); /* the store had said that it keeps a record */
    assert_int_equal(s->relay.stats.lost[LOST_UNKNOWN], 2);
}

/* The store has confirmed that request 2 changed something, and the link goes while 3 is open; in
 * the next one the store says what it knows of the session. */
static uint32_t resume_behind_2(struct scene *s, uint8_t flags, uint64_t number)
{
    uint32_t channel;

    link_up(s);
    take(s, &s->a, "SET k v");
    take(s, &s->a, "SET k w");
    channel = opened(s, false);
    sent(s, channel, 1, "SET k v");
    sent(s, channel, 2, "SET k w");
    store_says(s, RELAY_DONE, RELAY_KNOWN | RELAY_CHANGED, channel, 2, NULL, 0);
    take(s, &s->a, "ADD n 1");
    link_down(s);
    link_up(s);
    channel = opened(s, true);
    store_says(s, RELAY_OPENED, flags, channel, number, "\1\0\0\0\0\0\0\0",
               flags & RELAY_ANSWERED ? 8 : 0);
    return channel;
}

static void a_session_of_which_the_store_knows_all_goes_on(void **state)
{
    struct scene *s = *state;

    sent(s, resume_behind_2(s, RELAY_KNOWN, 2), 3, "ADD n 1");
}

/* It was started from an older copy of its directory, or has lost power. */
static void a_session_of_which_the_store_knows_less_is_lost(void **state)
{
    struct scene *s = *state;
    uint32_t channel = resume_behind_2(s, RELAY_KNOWN, 1);

    assert_true(s->a.ended);
    assert_non_null(strstr(s->a.why, "the store has gone back"));
    assert_int_equal(s->relay.stats.lost[LOST_GONE_BACK], 1);
    closed(s, channel);
    no_frame(s);
}

static void also_when_its_answer_is_long(void **state)
{
    struct scene *s = *state;
    uint32_t channel = resume_behind_2(s, RELAY_KNOWN | RELAY_ANSWERED | RELAY_MORE, 1);

    assert_true(s->a.ended);
    ANSWER(s, channel, 1, "the rest");
    GOT_NOTHING(&s->a);
    closed(s, channel);
    no_frame(s);
}

static void what_may_be_in_doubt_is_lost_after_the_session_timeout(void **state)
{
    struct scene *s = *state;

    link_up(s);
    take(s, &s->a, "ADD n 1"); /* the first change of its session, whose answer never came */
    take(s, &s->b, "SET k v"); /* this may be done twice */
    link_down(s);
    s->relay.now_ns += 59 * SECOND;
    link_up(s);
    OPENED(s, 0, opened(s, true), 0, "");
    OPENED(s, 0, opened(s, true), 0, "");
    assert_true(s->a.ended);
    assert_false(s->b.ended);
}

static void and_is_sent_again_before(void **state)
{
    struct scene *s = *state;
    uint32_t channel;

    link_up(s);
    take(s, &s->a, "ADD n 1");
    link_down(s);
    s->relay.now_ns += 50 * SECOND;
    link_up(s);
    channel = opened(s, true);
    OPENED(s, 0, channel, 0, "");
    sent(s, channel, 1, "ADD n 1");
}

static void a_request_without_its_answer_ends_the_client(void **state)
{
    struct scene *s = *state;
    uint32_t channel;

    link_up(s);
    take(s, &s->a, "DELETE k");
    link_down(s);
    link_up(s);
    channel = opened(s, true);
    OPENED(s, RELAY_KNOWN, channel, 1, "");
    assert_true(s->a.ended);
    closed(s, channel); /* or the store would keep the session while the link lives */
    assert_int_equal(s->relay.session_count, 1);
}

/* A store goes on and on with one answer. */
static void an_answer_that_does_not_fit_takes_no_memory(void **state)
{
    static const uint8_t bytes[RELAY_PAYLOAD_MAX];
    struct scene *s = *state;
    uint32_t channel;
    size_t before;

    link_up(s);
    take(s, &s->a, "GET k");
    channel = opened(s, false);
    sent(s, channel, 1, "GET k");
    before = account.bytes[ACCOUNT_ANSWERS];
    for (int i = 0; i < 1000; i++)
        store_says(s, RELAY_ANSWER, RELAY_MORE, channel, 1, NULL, 0);
    assert_int_equal(account.bytes[ACCOUNT_ANSWERS], before);
    account_set_limit(4u << 20);
    for (int i = 0; i < 100; i++)
        store_says(s, RELAY_ANSWER, RELAY_MORE, channel, 1, bytes, sizeof bytes);
    assert_int_equal(account.bytes[ACCOUNT_ANSWERS], before);
    assert_false(s->a.ended);
    store_says(s, RELAY_ANSWER, 0, channel, 1, bytes, 1);
    account_set_limit(0);
    assert_true(s->a.ended);
    GOT_NOTHING(&s->a);
    closed(s, channel);
}

/* Nothing is taken for done that the store has not got. */
static void what_was_not_sent_is_not_confirmed(void **state)
{
    static const uint8_t kinds[] = {RELAY_DONE, RELAY_ANSWER, RELAY_OPENED};
    struct scene *s = *state;

    link_up(s);
    for (size_t i = 0; i < sizeof kinds; i++) {
        uint32_t channel;

        if (s->a.session == NULL) {
            s->a = (struct client){0};
            session_new(s, C10D_MODERN, &s->a);
        }
        take(s, &s->a, "SET k v");
        channel = opened(s, false);
        sent(s, channel, 1, "SET k v");
        if (kinds[i] == RELAY_OPENED) {
            link_down(s);
            link_up(s);
            channel = opened(s, true);
        }
        take(s, &s->a, "SET k w");
        store_says(s, kinds[i], RELAY_KNOWN, channel, 2, NULL, 0);
        assert_true(s->a.ended);
        flush(s);
        s->len = 0;
    }
}

static void a_barrier_that_never_was_has_not_arrived(void **state)
{
    struct scene *s = *state;
    uint32_t channel;

    link_up(s);
    take(s, &s->a, "ADD n 1");
    link_down(s);
    link_up(s);
    channel = opened(s, true);
    OPENED(s, RELAY_KNOWN | RELAY_ARRIVED, channel, 0, "");
    assert_false(s->a.ended);
    sent(s, channel, 1, "ADD n 1");
}

/* --- Cancelling. --- */

static void cancel_goes_through_the_store_while_it_is_there(void **state)
{
    struct scene *s = *state;
    uint32_t channel;

    link_up(s);
    take(s, &s->a, "WAIT k");
    channel = opened(s, false);
    sent(s, channel, 1, "WAIT k");
    assert_int_equal(take(s, &s->a, "CANCEL"), RELAY_TAKEN);
    sent(s, channel, 2, "CANCEL");
    assert_int_equal(take(s, &s->a, "GET k"), RELAY_HELD);
    ANSWER(s, channel, 1, "\0"); /* the race: the key came before the cancellation */
    ANSWER(s, channel, 2, "\1");
    GOT(&s->a, "\0\1");
    assert_int_equal(take(s, &s->a, "GET k"), RELAY_TAKEN);
    sent(s, channel, 3, "GET k");
}

static void cancel_is_answered_here_while_the_store_is_away(void **state)
{
    struct scene *s = *state;
    uint32_t channel;

    link_up(s);
    take(s, &s->a, "WAIT k");
    link_down(s);
    assert_int_equal(take(s, &s->a, "CANCEL"), RELAY_TAKEN);
    GOT(&s->a, "\1");
    assert_int_equal(take(s, &s->a, "GET k"), RELAY_TAKEN);
    link_up(s);
    channel = opened(s, true);
    OPENED(s, 0, channel, 0, "");
    sent(s, channel, 2, "GET k");
    ANSWER(s, channel, 1, "\0"); /* of the WAIT: nobody wants it */
    GOT_NOTHING(&s->a);
    ANSWER(s, channel, 2, "v");
    GOT(&s->a, "v");
}

/* A store knows of one number that is left out at a time, and a client may give up as often as it
 * likes while the store is away. */
static void a_wait_that_nobody_was_told_of_leaves_no_number_out(void **state)
{
    struct scene *s = *state;
    uint32_t channel;

    link_up(s);
    take(s, &s->a, "WAIT k");
    link_down(s);
    take(s, &s->a, "CANCEL"); /* the store may know of 1, which nobody asks for any more */
    for (int i = 0; i < 3; i++) {
        assert_int_equal(take(s, &s->a, "SET k v"), RELAY_TAKEN);
        assert_int_equal(take(s, &s->a, "WAIT k"), RELAY_TAKEN);
        assert_int_equal(take(s, &s->a, "CANCEL"), RELAY_TAKEN);
    }
    take(s, &s->a, "GET k");
    link_up(s);
    channel = opened(s, true);
    OPENED(s, 0, channel, 0, "");
    for (uint64_t number = 2; number < 5; number++)
        sent(s, channel, number, "SET k v");
    sent(s, channel, 5, "GET k");
}

static void a_cancel_that_is_open_when_the_link_goes_is_answered(void **state)
{
    struct scene *s = *state;

    link_up(s);
    take(s, &s->a, "WAIT k");
    take(s, &s->a, "CANCEL");
    flush(s);
    GOT_NOTHING(&s->a);
    link_down(s);
    GOT(&s->a, "\1");
    assert_int_equal(s->relay.pending_count, 0);
    link_up(s);
    OPENED(s, 0, opened(s, true), 0, "");
    no_frame(s);
}

static void a_barrier_counts_though_its_client_gave_up(void **state)
{
    struct scene *s = *state;
    uint32_t channel;

    take(s, &s->a, "BARRIER b 2");
    take(s, &s->a, "CANCEL");
    GOT(&s->a, "\1");
    assert_int_equal(take(s, &s->a, "GET k"), RELAY_TAKEN);
    link_up(s);
    channel = opened(s, false);
    sent(s, channel, 1, "BARRIER b 2");
    sent(s, channel, 2, "CANCEL");
    no_frame(s);
    ANSWER(s, channel, 2, "\1");
    GOT_NOTHING(&s->a);
    sent(s, channel, 3, "GET k");
}

static void a_barrier_that_cannot_be_given_up_is_still_waited_for(void **state)
{
    struct scene *s = *state;
    uint32_t channel;

    take(s, &s->a, "BARRIER b 2");
    account_set_limit(1);
    assert_int_equal(take(s, &s->a, "CANCEL"), RELAY_NO_MEMORY);
    account_set_limit(0);
    relay_leave(s->a.session);
    s->a.session = NULL;
    link_up(s);
    channel = opened(s, false);
    sent(s, channel, 1, "BARRIER b 2");
    sent(s, channel, 2, "CANCEL");
    ANSWER(s, channel, 2, "\1");
    closed(s, channel);
}

static void cancel_without_a_wait_is_answered_at_once(void **state)
{
    struct scene *s = *state;

    link_up(s);
    assert_int_equal(take(s, &s->a, "CANCEL"), RELAY_TAKEN);
    GOT(&s->a, "\1");
    no_frame(s);
}

static void the_next_request_of_a_legacy_client_ends_its_wait(void **state)
{
    struct scene *s = *state;
    struct client old = {0};
    uint8_t wait[] = {5, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 'k'};
    uint8_t get[] = {2, 1, 0, 0, 0, 0, 0, 0, 0, 'k'};
    uint32_t channel;
    uint8_t payload[RELAY_PAYLOAD_MAX];
    struct relay_frame frame;

    session_new(s, C10D_LEGACY, &old);
    link_up(s);
    assert_int_equal(take_bytes(s, &old, wait, sizeof wait), RELAY_TAKEN);
    channel = opened(s, false);
    assert_true(next_frame(s, &frame, payload));
    assert_int_equal(take_bytes(s, &old, get, sizeof get), RELAY_TAKEN);
    assert_true(next_frame(s, &frame, payload));
    assert_int_equal(frame.number, 2);
    ANSWER(s, channel, 1, "\0");
    GOT_NOTHING(&old);
    ANSWER(s, channel, 2, "v");
    GOT(&old, "v");
    relay_leave(old.session);
}

/* A WAIT for so many keys that it goes in two pieces; `code` is its opcode in the version. */
static size_t long_wait(uint8_t out[2 * RELAY_PAYLOAD_MAX], uint8_t code)
{
    const size_t keys = 10, len = 8000;
    size_t at = 9;

    out[0] = code;
    bytes_put_u64(out + 1, keys);
    for (size_t i = 0; i < keys; i++, at += 8 + len) {
        bytes_put_u64(out + at, len);
        memset(out + at + 8, 'k', len);
    }
    assert_true(at > RELAY_PAYLOAD_MAX && at < 2 * RELAY_PAYLOAD_MAX);
    return at;
}

/* A legacy client, of whose WAIT the link has half, goes on with GET. */
static void leave_half_a_wait(struct scene *s, struct client *old)
{
    uint8_t wait[2 * RELAY_PAYLOAD_MAX], get[] = {2, 1, 0, 0, 0, 0, 0, 0, 0, 'k'};
    size_t len = long_wait(wait, 5);

    session_new(s, C10D_LEGACY, old);
    link_up(s);
    assert_int_equal(take_bytes(s, old, wait, len), RELAY_TAKEN);
    relay_send(&s->relay, &s->out, &s->pool, 1); /* OPEN and a piece */
    assert_int_equal(take_bytes(s, old, get, sizeof get), RELAY_TAKEN);
}

static void expect_request(struct scene *s, uint64_t number, uint8_t flags, bool is_long)
{
    static uint8_t payload[RELAY_PAYLOAD_MAX];
    struct relay_frame frame;

    assert_true(next_frame(s, &frame, payload));
    assert_int_equal(frame.kind, RELAY_REQUEST);
    assert_int_equal(frame.number, number);
    assert_int_equal(frame.flags, flags);
    assert_int_equal(frame.payload.len > 1000, is_long);
}

/* Else the store would take the next request for the rest of it. */
static void a_wait_that_was_sent_by_half_is_sent_to_its_end(void **state)
{
    struct scene *s = *state;
    struct client old = {0};
    uint32_t channel;

    leave_half_a_wait(s, &old);
    channel = opened(s, false);
    expect_request(s, 1, RELAY_MORE, true);
    expect_request(s, 1, 0, true);
    expect_request(s, 2, 0, false);
    ANSWER(s, channel, 1, "\0");
    GOT_NOTHING(&old);
    ANSWER(s, channel, 2, "v");
    GOT(&old, "v");
    assert_int_equal(s->relay.pending_count, 0);
    relay_leave(old.session);
}

static void half_a_wait_goes_with_its_link(void **state)
{
    struct scene *s = *state;
    struct client old = {0};

    leave_half_a_wait(s, &old);
    relay_link_down(&s->relay);
    outq_fini(&s->out, &s->pool);
    outq_init(&s->out);
    assert_int_equal(s->relay.pending_count, 1);
    link_up(s);
    OPENED(s, 0, opened(s, true), 0, "");
    expect_request(s, 1, 0, false); /* no number is left out */
    relay_leave(old.session);
}

/* What a client has sent before it shut its side down counts, also behind a WAIT that nobody waits
 * for any more; a store takes no change behind a WAIT that is open. */
static void the_store_hears_that_a_wait_is_given_up(void **state)
{
    struct scene *s = *state;
    uint8_t wait[2 * RELAY_PAYLOAD_MAX];
    size_t len = long_wait(wait, 6);
    uint32_t channel;

    link_up(s);
    assert_int_equal(take_bytes(s, &s->a, wait, len), RELAY_TAKEN);
    relay_send(&s->relay, &s->out, &s->pool, 1);
    relay_stop_waiting(s->a.session);
    assert_int_equal(take(s, &s->a, "SET k v"), RELAY_TAKEN);
    channel = opened(s, false);
    expect_request(s, 1, RELAY_MORE, true);
    expect_request(s, 1, 0, true);
    sent(s, channel, 2, "CANCEL");
    no_frame(s);
    ANSWER(s, channel, 2, "\1");
    GOT_NOTHING(&s->a);
    sent(s, channel, 3, "SET k v");
}

/* --- The end of clients. --- */

static void what_a_client_sent_before_it_went_is_confirmed_before_close(void **state)
{
    struct scene *s = *state;
    uint32_t channel;

    take(s, &s->a, "SET k v");
    relay_leave(s->a.session);
    s->a.session = NULL;
    link_up(s);
    channel = opened(s, false);
    sent(s, channel, 1, "SET k v");
    no_frame(s);
    link_down(s);
    link_up(s);
    channel = opened(s, true);
    OPENED(s, 0, channel, 0, "");
    sent(s, channel, 1, "SET k v");
    DONE(s, channel, 1);
    closed(s, channel);
    assert_int_equal(s->relay.session_count, 1);
    assert_false(relay_is_done(&s->relay));
}

static void a_client_that_goes_while_the_link_is_away_is_closed_later(void **state)
{
    struct scene *s = *state;
    uint32_t channel;

    link_up(s);
    take(s, &s->a, "WAIT k");
    flush(s);
    link_down(s);
    relay_leave(s->a.session);
    s->a.session = NULL;
    assert_int_equal(s->relay.session_count, 2);
    link_up(s);
    channel = opened(s, true);
    OPENED(s, 0, channel, 0, "");
    closed(s, channel);
    assert_int_equal(s->relay.session_count, 1);
}

/* The store that was away for longer than --session-timeout awaits the session from its start on.
 * If it was only the link, the store has ended it, and there is nothing to lose. */
static void however_long_the_link_was_away(void **state)
{
    struct scene *s = *state;
    uint32_t channel;

    link_up(s);
    take(s, &s->a, "SET k v");
    channel = opened(s, false);
    OPENED(s, 0, channel, 0, "");
    sent(s, channel, 1, "SET k v");
    DONE(s, channel, 1);
    link_down(s);
    relay_leave(s->a.session);
    s->a.session = NULL;
    s->relay.now_ns += 3600 * SECOND;
    relay_tick(&s->relay);
    assert_int_equal(s->relay.session_count, 2);
    link_up(s);
    channel = opened(s, true);
    OPENED(s, 0, channel, 0, "");
    closed(s, channel);
    assert_int_equal(s->relay.session_count, 1);
    assert_int_equal(s->relay.stats.lost[LOST_UNKNOWN], 0);
}

static void a_client_that_goes_from_a_wait_is_closed_at_once(void **state)
{
    struct scene *s = *state;
    uint32_t channel;

    link_up(s);
    take(s, &s->a, "WAIT k");
    channel = opened(s, false);
    sent(s, channel, 1, "WAIT k");
    relay_leave(s->a.session);
    s->a.session = NULL;
    closed(s, channel);
    ANSWER(s, channel, 1, "\0"); /* it was on its way */
}

static void a_client_that_goes_from_a_barrier_has_arrived(void **state)
{
    struct scene *s = *state;
    uint32_t channel;

    link_up(s);
    take(s, &s->a, "BARRIER b 2");
    relay_leave(s->a.session);
    s->a.session = NULL;
    channel = opened(s, false);
    sent(s, channel, 1, "BARRIER b 2");
    sent(s, channel, 2, "CANCEL");
    no_frame(s);
    ANSWER(s, channel, 2, "\1");
    closed(s, channel);
}

static void the_store_ends_a_session(void **state)
{
    struct scene *s = *state;
    uint32_t channel;

    link_up(s);
    take(s, &s->a, "GET k");
    channel = opened(s, false);
    sent(s, channel, 1, "GET k");
    store_says(s, RELAY_ENDED, 0, channel, 0, "the run is over", 15);
    assert_true(s->a.ended);
    assert_string_equal(s->a.why, "the run is over");
    assert_int_equal(s->relay.stats.lost[LOST_ENDED], 1);
    s->a.session = NULL;
    closed(s, channel); /* the store needs not keep anything of it */
    assert_int_equal(s->relay.session_count, 1);
}

static void a_store_that_has_ended_a_session_is_told_in_the_next_link(void **state)
{
    struct scene *s = *state;
    uint32_t channel;

    link_up(s);
    take(s, &s->a, "GET k");
    channel = opened(s, false);
    sent(s, channel, 1, "GET k");
    store_says(s, RELAY_ENDED, 0, channel, 0, "out of memory", 13);
    s->a.session = NULL;
    relay_link_down(&s->relay);
    link_up(s);
    channel = opened(s, true);
    OPENED(s, RELAY_KNOWN, channel, 0, "");
    closed(s, channel);
}

/* --- Bounds. --- */

static void large_requests_of_all_have_one_bound(void **state)
{
    struct scene *s = *state;
    size_t len = 7u << 20, size;
    uint8_t *bytes = large_set(len);
    struct client many[10] = {0};
    enum relay_taken taken = RELAY_TAKEN;
    unsigned count = 0;

    for (; count < 10 && taken != RELAY_HELD; count++) {
        session_new(s, C10D_MODERN, &many[count]);
        taken = take_bytes(s, &many[count], bytes, len);
        while (taken == RELAY_TAKING)
            taken = relay_take_more(many[count].session, bytes, &size);
    }
    assert_int_equal(count, 10);
    assert_int_equal(taken, RELAY_HELD);
    assert_true(s->relay.pending_bytes <= RELAY_KEPT_MAX);
    assert_int_equal(take(s, &s->a, "SET k v"), RELAY_TAKEN); /* small ones go on */
    for (unsigned i = 0; i < 6; i++) {
        relay_forget(many[i].session);
    }
    relay_tick(&s->relay);
    assert_true(many[9].goes_on);
    for (unsigned i = 6; i < 10; i++)
        relay_forget(many[i].session);
    free(bytes);
}

static void lag_is_of_what_the_store_should_have_confirmed(void **state)
{
    struct scene *s = *state;

    link_up(s);
    take(s, &s->a, "WAIT k");
    s->relay.now_ns += SECOND;
    assert_int_equal(relay_lag_ns(&s->relay), SECOND); /* the link was not given it yet */
    sent(s, opened(s, false), 1, "WAIT k");
    assert_int_equal(relay_lag_ns(&s->relay), 0);
    take(s, &s->b, "SET k v");
    s->relay.now_ns += 3 * SECOND;
    assert_int_equal(relay_lag_ns(&s->relay), 3 * SECOND);
}

/* From when it came, or, of one that a link had, from when that was lost. */
static void a_wait_without_its_link_lags(void **state)
{
    struct scene *s = *state;
    uint32_t channel;

    link_up(s);
    take(s, &s->a, "WAIT k");
    sent(s, opened(s, false), 1, "WAIT k");
    s->relay.now_ns += 60 * SECOND;
    assert_int_equal(relay_lag_ns(&s->relay), 0);
    link_down(s);
    s->relay.now_ns += 2 * SECOND;
    assert_int_equal(relay_lag_ns(&s->relay), 3 * SECOND);
    link_up(s);
    channel = opened(s, true);
    assert_int_equal(relay_lag_ns(&s->relay), 3 * SECOND);
    OPENED(s, 0, channel, 0, "");
    sent(s, channel, 1, "WAIT k");
    assert_int_equal(relay_lag_ns(&s->relay), 0);
}

static void the_time_that_the_store_was_away_is_counted(void **state)
{
    struct scene *s = *state;

    s->relay.now_ns += 5 * SECOND;
    assert_int_equal(relay_away_ns(&s->relay), 0); /* it was never there */
    link_up(s);
    s->relay.now_ns += 7 * SECOND;
    assert_int_equal(relay_away_ns(&s->relay), 0);
    link_down(s);
    s->relay.now_ns += 2 * SECOND;
    assert_int_equal(relay_away_ns(&s->relay), 3 * SECOND);
    link_up(s);
    s->relay.now_ns += SECOND;
    link_down(s);
    s->relay.now_ns += 4 * SECOND;
    assert_int_equal(relay_away_ns(&s->relay), 8 * SECOND);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_request_opens_the_session_and_its_answer_comes_back),
        TEST(what_comes_before_the_first_link_waits_for_it),
        TEST(nothing_is_sent_behind_a_request_with_an_answer),
        TEST(silent_requests_have_a_window),
        TEST(long_requests_come_in_pieces_between_those_of_others),
        TEST(a_request_of_megabytes_is_taken_in_turns),
        TEST(long_answers_are_given_when_they_are_whole),
        TEST(what_was_done_is_not_sent_again),
        TEST(a_compare_set_that_took_is_answered_with_its_own_value),
        TEST(a_long_one_too),
        TEST(a_barrier_that_arrived_is_sent_again_under_its_number),
        TEST(waits_are_registered_again),
        TEST(an_idle_session_is_opened_again),
        TEST(a_session_that_the_store_should_know_is_lost),
        TEST(a_session_of_which_the_store_knows_all_goes_on),
        TEST(a_session_of_which_the_store_knows_less_is_lost),
        TEST(also_when_its_answer_is_long),
        TEST(what_may_be_in_doubt_is_lost_after_the_session_timeout),
        TEST(and_is_sent_again_before),
        TEST(a_request_without_its_answer_ends_the_client),
        TEST(an_answer_that_does_not_fit_takes_no_memory),
        TEST(what_was_not_sent_is_not_confirmed),
        TEST(a_barrier_that_never_was_has_not_arrived),
        TEST(cancel_goes_through_the_store_while_it_is_there),
        TEST(cancel_is_answered_here_while_the_store_is_away),
        TEST(a_wait_that_nobody_was_told_of_leaves_no_number_out),
        TEST(a_cancel_that_is_open_when_the_link_goes_is_answered),
        TEST(a_barrier_counts_though_its_client_gave_up),
        TEST(a_barrier_that_cannot_be_given_up_is_still_waited_for),
        TEST(cancel_without_a_wait_is_answered_at_once),
        TEST(the_next_request_of_a_legacy_client_ends_its_wait),
        TEST(a_wait_that_was_sent_by_half_is_sent_to_its_end),
        TEST(half_a_wait_goes_with_its_link),
        TEST(the_store_hears_that_a_wait_is_given_up),
        TEST(what_a_client_sent_before_it_went_is_confirmed_before_close),
        TEST(a_client_that_goes_while_the_link_is_away_is_closed_later),
        TEST(however_long_the_link_was_away),
        TEST(a_client_that_goes_from_a_wait_is_closed_at_once),
        TEST(a_client_that_goes_from_a_barrier_has_arrived),
        TEST(the_store_ends_a_session),
        TEST(a_store_that_has_ended_a_session_is_told_in_the_next_link),
        TEST(large_requests_of_all_have_one_bound),
        TEST(lag_is_of_what_the_store_should_have_confirmed),
        TEST(a_wait_without_its_link_lags),
        TEST(the_time_that_the_store_was_away_is_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
