/* From a client's connection to its session, and back. See forward.h for the contract. */
#include <string.h>

#include "proto/relay.h"
#include "rdzv/net/input.h"
#include "rdzv/relay/forward.h"

/* The charge for a request in addition to its bytes, and for each copied byte of a long request. */
#define REQUEST_COST 300u
#define BYTES_A_NS   8u

/* The relay buffers this many bytes behind a held request, and then stops reading the client; until
 * then it also notices the client's end. */
#define HELD_BYTES_MAX (64u << 10)

struct client {
    struct relay_client *session; /* NULL: it has ended */
    struct c10d_progress progress;
    uint8_t version; /* enum c10d_version */
    uint8_t op;      /* of the request that was begun last */
    bool held;       /* what came last has to wait */
};

static struct client *client_of_conn(const struct conn *c)
{
    _Static_assert(sizeof(struct client) <= CONN_SESSION_SIZE, "it lies in the connection");
    return (struct client *)(void *)c->session.bytes;
}

static struct relay *relay_of_conn(const struct conn *c)
{
    struct forward *forward = c->protocol->arg;

    return &forward->relay;
}

/* --- What the session asks for. --- */

/* What the store says is committed there: a replica that has begun to lead meanwhile commits other
 * things (conn_note_independent()). */

static void client_answer(void *client, struct slice bytes)
{
    struct conn *c = client;

    if (bytes.len != 0)
        conn_put(c, bytes.ptr, bytes.len);
    conn_note_independent(c);
    if (conn_net(c)->draining)
        conn_finish(c); /* the daemon has waited for this; the iteration's end sends all of it */
}

static void client_answer_queue(void *client, struct outq *bytes)
{
    struct conn *c = client;

    outq_move(&c->out, bytes, &conn_net(c)->pool, bytes->bytes);
    conn_put(c, "", 0); /* the queue has grown */
    conn_note_independent(c);
}

static void client_resume_input(void *client)
{
    struct conn *c = client;

    client_of_conn(c)->held = false;
    input_unpark(c);
}

static void client_on_end(void *client, enum drop_reason why, const char *reason)
{
    struct conn *c = client;

    client_of_conn(c)->session = NULL;
    conn_drop(c, why, reason, (struct slice){0});
}

const struct relay_calls relay_client_calls = {.answer = client_answer,
                                               .answer_queue = client_answer_queue,
                                               .go_on = client_resume_input,
                                               .end = client_on_end};

/* --- Requests. --- */

static enum protocol_result client_refuse(struct conn *c, enum drop_reason why, const char *reason,
                                          struct slice detail)
{
    conn_drop(c, why, reason, detail);
    return PROTOCOL_ENDED;
}

static enum relay_taken take_ping(struct conn *c, const struct c10d_request *req)
{
    if (!relay_may_pong(client_of_conn(c)->session))
        return RELAY_HELD;
    bytes_put_u32(conn_reserve(c, 4), req->nonce);
    conn_note_independent(c);
    return RELAY_TAKEN;
}

/* The result for the protocol. `left`: the bytes that have come from the request's start on. */
static enum protocol_result end_take(struct conn *c, enum relay_taken taken, size_t size,
                                     size_t left, struct protocol_progress *progress)
{
    switch (taken) {
    case RELAY_TAKEN:
        progress->used += size;
        conn_net(c)->engine->stats.c10d_requests[client_of_conn(c)->op]++;
        return PROTOCOL_MORE;
    case RELAY_TAKING:
        progress->need = progress->used + size;
        return PROTOCOL_DEFERRED;
    case RELAY_HELD:
        progress->need = progress->used + size;
        client_of_conn(c)->held = true;
        return left - size > HELD_BYTES_MAX ? PROTOCOL_HELD : PROTOCOL_PARKED;
    case RELAY_NO_MEMORY:
        break;
    }
    return client_refuse(c, DROP_NO_MEMORY, "no memory for its request, see --memory-limit",
                         (struct slice){0});
}

/* The request at the start of `in`. PROTOCOL_MORE with nothing used: it is not whole. */
static enum protocol_result client_next_request(struct conn *c, struct slice in,
                                                struct protocol_progress *progress)
{
    struct client *client = client_of_conn(c);
    const struct relay *relay = relay_of_conn(c);
    struct c10d_refusal refusal;
    struct c10d_request req;
    size_t size;

    if (client->session->filling != NULL) {
        enum relay_taken taken = relay_take_more(client->session, in.ptr, &size);

        conn_charge(c, CONN_BUDGET);
        return end_take(c, taken, size, in.len, progress);
    }
    switch (c10d_parse(in, (enum c10d_version)client->session->version, &relay->limits,
                       &client->progress, &req, &size, &refusal)) {
    case PARSE_MORE:
        progress->need = progress->used + size;
        return PROTOCOL_MORE;
    case PARSE_BAD:
        return client_refuse(c, refusal.is_limit ? DROP_LIMIT : DROP_MALFORMED, refusal.reason,
                             (struct slice){in.ptr, 1});
    case PARSE_DONE:
        break;
    }
    if (req.op == C10D_WATCH_KEY)
        return client_refuse(c, DROP_MALFORMED, "a relay does not pass on WATCH_KEY", req.key);
    conn_charge(c, REQUEST_COST + size / BYTES_A_NS);
    client->op = (uint8_t)req.op;
    return end_take(c,
                    req.op == C10D_PING ? take_ping(c, &req)
                                        : relay_take(client->session, &req, in.ptr, size),
                    size, in.len, progress);
}

static enum protocol_result client_read_requests(struct conn *c, uint8_t *in, size_t len,
                                                 struct protocol_progress *progress)
{
    relay_of_conn(c)->now_ns = clock_monotonic_ns(conn_net(c)->engine->options.clock);
    while (progress->used < len) {
        size_t before = progress->used;
        enum protocol_result result;

        if (!conn_can_reply(c))
            return PROTOCOL_PAUSED;
        if (!conn_has_budget(c))
            return PROTOCOL_DEFERRED;
        result = client_next_request(c, (struct slice){in + before, len - before}, progress);
        if (result != PROTOCOL_MORE || progress->used == before)
            return result;
    }
    return PROTOCOL_MORE;
}

/* --- Beginning and end. --- */

static enum parse_result client_begin(const struct protocol *p, struct conn *c, struct slice in,
                                      struct protocol_progress *progress, const char **why)
{
    struct forward *forward = p->arg;
    enum c10d_version version = C10D_LEGACY;
    size_t size = 0;
    enum parse_result result = c10d_detect(in, forward->upstream.config->legacy, &version, &size);
    struct relay_client *session;
    struct peer local = {0};

    if (result == PARSE_MORE)
        progress->need = size;
    else if (result == PARSE_BAD)
        *why = relay_detect(in, &size) != PARSE_BAD
                   ? "a relay has connected to a relay: its --upstream must be a store"
                   : "no protocol spoken here begins so";
    if (result != PARSE_DONE)
        return result;
    conn_local(c, &local);
    session = relay_client_new(&forward->relay, version, &c->peer, &local, c);
    if (session == NULL) {
        CONN_DROP_FOR_MEMORY(c, "one more session");
        return PARSE_BAD;
    }
    progress->used = size;
    c->protocol = p;
    memset(&c->session, 0, sizeof c->session);
    client_of_conn(c)->session = session;
    client_of_conn(c)->version = (uint8_t)version;
    engine_session_began(conn_net(c)->engine, conn_space(c));
    return PARSE_DONE;
}

/* What came before the end counts, and an answer that comes by itself goes out. */
static bool client_eof(struct conn *c)
{
    const struct client *client = client_of_conn(c);

    relay_stop_waiting(client->session);
    if (c->end == CONN_CLOSED || c->protocol == NULL)
        return true; /* memory was short, and the session has ended */
    return client->held || c->input == INPUT_DEFERRED || client->session->filling != NULL ||
           relay_is_asked(client->session);
}

static bool client_is_busy(const struct conn *c)
{
    const struct relay_client *s = client_of_conn(c)->session;

    return s != NULL && s->relay->link && relay_is_asked(s);
}

static void client_end(struct conn *c)
{
    struct relay_client *session = client_of_conn(c)->session;

    client_of_conn(c)->session = NULL;
    if (session != NULL)
        relay_leave(session);
    engine_session_ended(conn_net(c)->engine, conn_space(c));
}

static const char *client_version_name(const struct conn *c)
{
    return c10d_version_name((enum c10d_version)client_of_conn(c)->version);
}

struct protocol relay_client_protocol(struct forward *forward)
{
    return (struct protocol){.name = "c10d",
                             .runs_ahead = true,
                             .arg = forward,
                             .begin = client_begin,
                             .read = client_read_requests,
                             .eof = client_eof,
                             .is_busy = client_is_busy,
                             .end = client_end,
                             .version = client_version_name};
}
