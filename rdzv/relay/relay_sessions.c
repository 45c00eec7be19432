/* Sessions as clients see them: requests are taken, numbered and kept. See relay.h for the
 * contract, and relay_frames.c for the link. */
#include "rdzv/relay/relay.h"

#include "proto/c10d_client.h"

/* The bytes of a long request that are copied at a time. */
#define TAKEN_AT_A_TIME (16 * RELAY_PAYLOAD_MAX)

/* A piece of so many bytes is shared with the next one, if that is equal. */
#define SHARED_PIECE 4096u

/* A shorter one is taken though the requests of all fill their room. */
#define ALWAYS_TAKEN (64u << 10)

void relay_init(struct relay *r, const struct relay_calls *calls, struct out_pool *pool,
                const struct c10d_limits *limits, uint64_t seed)
{
    *r = (struct relay){.calls = calls, .pool = pool, .limits = *limits, .seed = seed};
    TAILQ_INIT(&r->sessions);
    TAILQ_INIT(&r->sending);
    TAILQ_INIT(&r->held);
    r->due_ns = UINT64_MAX;
    table_init(&r->channels, ACCOUNT_SESSIONS, seed, NULL);
}

void relay_fini(struct relay *r)
{
    struct relay_client *s;

    while ((s = TAILQ_FIRST(&r->sessions)) != NULL)
        relay_forget(s);
    table_fini(&r->channels);
}

/* Ids are never 0, never the same twice, and nobody guesses them: a permutation of a counter that
 * begins at a random number (splitmix64). */
static uint64_t next_id(struct relay *r)
{
    uint64_t z;

    do {
        z = r->seed += UINT64_C(0x9e3779b97f4a7c15);
        z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
        z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
        z ^= z >> 31;
    } while (z == 0);
    return z;
}

struct relay_client *relay_client_new(struct relay *r, enum c10d_version version,
                                      const struct peer *peer, const struct peer *local,
                                      void *client)
{
    struct relay_client *s = account_request_zeroed(ACCOUNT_SESSIONS, ACCOUNT_SMALL, sizeof *s);

    if (s == NULL)
        return NULL;
    s->relay = r;
    s->client = client;
    s->id = next_id(r);
    s->version = (uint8_t)version;
    s->peer = *peer;
    s->local = *local;
    TAILQ_INIT(&s->requests);
    TAILQ_INIT(&s->followers);
    outq_init(&s->answer);
    TAILQ_INSERT_TAIL(&r->sessions, s, entry);
    r->session_count++;
    return s;
}

/* --- What a session has for the link. --- */

struct relay_request *relay_next_request(const struct relay_client *s)
{
    struct relay_request *q =
        s->open != NULL ? TAILQ_NEXT(s->open, entry) : TAILQ_FIRST(&s->requests);

    while (q != NULL && q->sent == q->piece_count)
        q = TAILQ_NEXT(q, entry);
    if (q == NULL || s->leader != NULL || q->filled < q->size ||
        (s->open != NULL && q->op != C10D_CANCEL_WAIT))
        return NULL;
    return q;
}

bool relay_can_send(const struct relay_client *s)
{
    if (s->state == SESSION_AWAY)
        return s->opened || relay_next_request(s) != NULL;
    if (s->state == SESSION_ASKING)
        return false;
    return relay_next_request(s) != NULL || (s->client == NULL && TAILQ_EMPTY(&s->requests));
}

void relay_queue(struct relay_client *s)
{
    const struct relay_request *q = TAILQ_FIRST(&s->requests);
    struct relay *r = s->relay;
    uint64_t due_ns = r->now_ns;

    if (s->queued || !r->link || !relay_can_send(s))
        return;
    s->queued = true;
    TAILQ_INSERT_TAIL(&r->sending, s, sends);
    if (q != NULL && q->polls && s->reads != 0)
        due_ns += RELAY_POLL_HOLD_NS;
    r->due_ns = due_ns < r->due_ns ? due_ns : r->due_ns;
}

/* --- The end of what it has. --- */

void relay_drop_answer(struct relay_client *s)
{
    outq_fini(&s->answer, s->relay->pool);
    outq_init(&s->answer);
    s->answer_number = 0;
}

static void set_hold(struct relay_client *s, enum relay_hold hold)
{
    if (s->held == HELD_BY_ALL)
        TAILQ_REMOVE(&s->relay->held, s, helds);
    if (hold == HELD_BY_ALL)
        TAILQ_INSERT_TAIL(&s->relay->held, s, helds);
    s->held = (uint8_t)hold;
}

void relay_forget(struct relay_client *s)
{
    struct relay *r = s->relay;

    while (TAILQ_FIRST(&s->requests) != NULL)
        relay_drop_request(s, TAILQ_FIRST(&s->requests));
    relay_drop_answer(s);
    if (s->queued)
        TAILQ_REMOVE(&r->sending, s, sends);
    set_hold(s, HELD_NOT);
    if (s->state != SESSION_AWAY)
        table_remove(&r->channels, &s->node);
    TAILQ_REMOVE(&r->sessions, s, entry);
    if (--r->session_count == 0) {
        blob_unref(r->asked);
        r->asked = NULL;
    }
    account_free(ACCOUNT_SESSIONS, s, sizeof *s);
}

void relay_abandon(struct relay_client *s, enum drop_reason why, const char *reason)
{
    void *client = s->client;
    const struct relay_calls *calls = s->relay->calls; /* `s` may be freed */

    s->client = NULL;
    set_hold(s, HELD_NOT);
    relay_drop_answer(s);
    while (TAILQ_FIRST(&s->requests) != NULL)
        relay_drop_request(s, TAILQ_FIRST(&s->requests));
    relay_finish(s);
    if (client != NULL)
        calls->end(client, why, reason);
}

/* --- Requests. --- */

static size_t request_memory(uint32_t pieces)
{
    return sizeof(struct relay_request) + pieces * sizeof(struct blob *);
}

void relay_unfollow(struct relay_client *s)
{
    struct relay_client *f;

    if (s->leader != NULL)
        TAILQ_REMOVE(&s->leader->followers, s, sends);
    s->leader = NULL;
    while ((f = TAILQ_FIRST(&s->followers)) != NULL) { /* they ask by themselves */
        TAILQ_REMOVE(&s->followers, f, sends);
        f->leader = NULL;
        relay_queue(f);
    }
}

void relay_drop_request(struct relay_client *s, struct relay_request *q)
{
    struct relay *r = s->relay;

    r->pending_count--;
    r->pending_bytes -= relay_request_waits(q) ? 0 : q->size;
    s->silent -= !q->has_answer;
    s->silent_bytes -= q->has_answer ? 0 : q->size;
    if (s->leader != NULL || s->open == q)
        relay_unfollow(s);
    if (s->filling == q)
        s->filling = NULL;
    if (s->asked == q)
        s->asked = NULL;
    if (s->open == q)
        s->open = NULL;
    TAILQ_REMOVE(&s->requests, q, entry);
    for (uint32_t i = 0; i < q->piece_count; i++)
        blob_unref(q->pieces[i]);
    account_free(ACCOUNT_INPUT, q, request_memory(q->piece_count));
}

/* Whether the store answers, whether it has changed something for sure when it is done, and whether
 * it may be done twice. */
static void describe_request(struct relay_request *q, const struct c10d_request *req)
{
    bool is_empty = req->op == C10D_MULTI_GET && req->count == 0; /* its answer has no bytes */

    q->op = (uint8_t)req->op;
    q->has_answer = q->wanted = c10d_is_answered(req->op) && !is_empty;
    q->changes = req->op == C10D_APPEND || req->op == C10D_QUEUE_PUSH || req->op == C10D_ADD ||
                 req->op == C10D_BARRIER;
    q->reads =
        req->op == C10D_GET || req->op == C10D_CHECK || (req->op == C10D_MULTI_GET && !is_empty);
    q->repeatable = !q->changes && req->op != C10D_QUEUE_POP && req->op != C10D_DELETE_KEY;
}

/* Adds a request of `size` bytes from `start`, without its bytes. NULL: memory is short. */
static struct relay_request *add_request(struct relay_client *s, const struct c10d_request *req,
                                         const uint8_t *start, size_t size)
{
    uint32_t pieces = (uint32_t)((size + RELAY_PAYLOAD_MAX - 1) / RELAY_PAYLOAD_MAX);
    struct relay *r = s->relay;
    struct relay_request *q =
        account_request_zeroed(ACCOUNT_INPUT, account_class_of(size), request_memory(pieces));

    if (q == NULL)
        return NULL;
    describe_request(q, req);
    q->number = ++s->last;
    q->since_ns = r->now_ns;
    q->size = size;
    q->piece_count = pieces;
    if (req->op == C10D_CHECK) {
        q->polls = s->check_ns != 0 && r->now_ns - s->check_ns >= RELAY_POLL_NS;
        s->check_ns = r->now_ns;
    }
    if (req->op == C10D_COMPARE_SET && req->value.len != 0) {
        q->value_at = (size_t)(req->value.ptr - start);
        q->value_len = req->value.len;
    }
    TAILQ_INSERT_TAIL(&s->requests, q, entry);
    r->pending_count++;
    r->pending_bytes += relay_request_waits(q) ? 0 : size;
    s->silent += !q->has_answer;
    s->silent_bytes += q->has_answer ? 0 : size;
    return q;
}

/* Drops the last request, which never got its end. */
static void drop_last(struct relay_client *s, struct relay_request *q)
{
    relay_drop_request(s, q);
    s->last--;
}

/* A copy of the bytes; or, if they are long and the last long piece has the same ones, another
 * reference to that: torch's ranks ask for the same lists. NULL: memory is short. */
static struct blob *make_piece(struct relay *r, struct slice bytes)
{
    bool is_long = bytes.len >= SHARED_PIECE;
    struct blob *piece;

    if (is_long && r->asked != NULL && slice_equal(blob_slice(r->asked), bytes))
        return blob_ref(r->asked);
    piece = blob_new(ACCOUNT_INPUT, bytes);
    if (!is_long)
        return piece;
    blob_unref(r->asked);
    r->asked = blob_ref(piece);
    r->is_kept = false;
    return piece;
}

/* Takes over bytes of a request that was added. False: memory is short. */
static bool copy_some(struct relay *r, struct relay_request *q, const uint8_t *start)
{
    for (size_t max = TAKEN_AT_A_TIME; q->filled < q->size && max > 0; max -= RELAY_PAYLOAD_MAX) {
        size_t left = q->size - q->filled;
        size_t len = left < RELAY_PAYLOAD_MAX ? left : RELAY_PAYLOAD_MAX;
        struct blob *piece = make_piece(r, (struct slice){start + q->filled, len});

        if (piece == NULL)
            return false;
        q->pieces[q->filled / RELAY_PAYLOAD_MAX] = piece;
        q->filled += len;
    }
    return true;
}

static enum relay_taken fill_request(struct relay_client *s, struct relay_request *q,
                                     const uint8_t *start)
{
    s->filling = NULL;
    if (!copy_some(s->relay, q, start)) {
        drop_last(s, q);
        return RELAY_NO_MEMORY;
    }
    if (q->filled < q->size) {
        s->filling = q;
        return RELAY_TAKING;
    }
    if (q->wanted)
        s->asked = q;
    relay_queue(s);
    return RELAY_TAKEN;
}

enum relay_taken relay_take_more(struct relay_client *s, const uint8_t *start, size_t *size)
{
    *size = s->filling->size;
    return fill_request(s, s->filling, start);
}

static enum relay_hold hold_of(const struct relay_client *s, const struct c10d_request *req,
                               size_t size)
{
    const struct relay *r = s->relay;
    bool is_silent = !c10d_is_answered(req->op);
    /* The session may have one more open request; a silent one has a window. A large request with
     * an answer is sent alone: behind a silent request that the store cannot execute yet, the store
     * keeps so many bytes and no more. */
    bool is_open =
        s->silent == 0 || (s->silent < RELAY_WINDOW && s->silent_bytes <= RELAY_WINDOW_BYTES &&
                           size <= RELAY_WINDOW_BYTES - s->silent_bytes);
    bool all_have_room =
        size <= ALWAYS_TAKEN || r->pending_bytes == 0 ||
        (r->pending_bytes < RELAY_KEPT_MAX && size <= RELAY_KEPT_MAX - r->pending_bytes);

    if (s->asked != NULL || ((is_silent || size > RELAY_WINDOW_BYTES) && !is_open))
        return HELD_BY_ITSELF;
    return all_have_room ? HELD_NOT : HELD_BY_ALL;
}

void relay_answer_cancel(struct relay_client *s)
{
    const uint8_t canceled = C10D_WAIT_CANCELED;

    s->relay->calls->answer(s->client, (struct slice){&canceled, 1});
}

/* False: memory is short. */
static bool add_cancel(struct relay_client *s)
{
    static const uint8_t cancel = 12; /* of the one version that has BARRIERs */
    const struct c10d_request req = {.op = C10D_CANCEL_WAIT};
    struct relay_request *q = add_request(s, &req, &cancel, 1);

    if (q == NULL)
        return false;
    q->wanted = false;
    return fill_request(s, q, &cancel) == RELAY_TAKEN;
}

/* Whether those behind it may take its number. The store must not find the number of a WAIT that it
 * may have open with another request, and it could do so in the first of a link alone. */
static bool may_pass_number_on(const struct relay_client *s, const struct relay_request *waits)
{
    if (waits->sent != 0)
        return false; /* it is this link's */
    return !waits->was_sent ||
           (s->state == SESSION_OPEN && (s->has_sent || waits != TAILQ_FIRST(&s->requests)));
}

/* Withdraws an unsent WAIT: the requests of a session have numbers without gaps on a link. */
static void take_back(struct relay_client *s, struct relay_request *waits)
{
    struct relay_request *q = waits;

    if (may_pass_number_on(s, waits)) {
        while ((q = TAILQ_NEXT(q, entry)) != NULL)
            q->number--;
        s->last--;
    }
    relay_drop_request(s, waits);
}

void relay_close_gaps(struct relay_client *s)
{
    struct relay_request *q = TAILQ_FIRST(&s->requests);
    uint64_t number;

    if (q == NULL)
        return;
    number = q->number;
    while ((q = TAILQ_NEXT(q, entry)) != NULL)
        q->number = ++number;
    s->last = number;
}

/* The client has given up, and its protocol has no message for that. A request that was partly sent
 * must be sent completely first. */
static void give_up_silently(struct relay_client *s, struct relay_request *waits)
{
    if (waits->sent == 0 || waits->sent == waits->piece_count) {
        take_back(s, waits);
        return;
    }
    waits->given_up = true;
    waits->wanted = false;
    s->asked = NULL;
}

void relay_take_back_given_up(struct relay_client *s)
{
    TAILQ_EACH_SAFE(struct relay_request, q, &s->requests, entry) {
        if (q->given_up)
            take_back(s, q);
    }
}

bool relay_give_up(struct relay_client *s, struct relay_request *waits)
{
    if (waits->op == C10D_WAIT && (waits->sent == 0 || s->version != C10D_MODERN)) {
        give_up_silently(s, waits);
        return true;
    }
    if (TAILQ_NEXT(waits, entry) == NULL && !add_cancel(s))
        return false;
    waits->wanted = false;
    if (s->asked == waits)
        s->asked = NULL;
    relay_queue(s);
    return true;
}

enum relay_taken relay_take(struct relay_client *s, const struct c10d_request *req,
                            const uint8_t *start, size_t size)
{
    bool waits = s->asked != NULL && relay_request_waits(s->asked);
    bool is_away = waits && !s->relay->link;
    struct relay_request *q;

    /* A client that gives its WAIT up must get an answer, also while the store is away. */
    if (req->op == C10D_CANCEL_WAIT && is_away && !relay_give_up(s, s->asked))
        return RELAY_NO_MEMORY;
    if (req->op == C10D_CANCEL_WAIT && (is_away || TAILQ_EMPTY(&s->requests))) {
        relay_answer_cancel(s);
        return RELAY_TAKEN;
    }
    if (waits && s->version == C10D_LEGACY) /* its late answer has no receiver */
        give_up_silently(s, s->asked);
    set_hold(s, req->op == C10D_CANCEL_WAIT && waits ? HELD_NOT : hold_of(s, req, size));
    if (s->held != HELD_NOT)
        return RELAY_HELD;
    q = add_request(s, req, start, size);
    return q == NULL ? RELAY_NO_MEMORY : fill_request(s, q, start);
}

bool relay_may_pong(struct relay_client *s)
{
    s->pings = true;
    if (s->relay->welcomed && TAILQ_EMPTY(&s->requests))
        return true;
    set_hold(s, HELD_BY_ITSELF);
    return false;
}

static void resume_client(struct relay_client *s)
{
    set_hold(s, HELD_NOT);
    if (s->client != NULL)
        s->relay->calls->go_on(s->client);
}

void relay_tick(struct relay *r)
{
    struct relay_client *s;

    while (r->pending_bytes < RELAY_KEPT_MAX / 2 && (s = TAILQ_FIRST(&r->held)) != NULL)
        resume_client(s);
}

void relay_allow_sending(struct relay_client *s)
{
    if (s->held == HELD_BY_ITSELF)
        resume_client(s);
    relay_tick(s->relay);
}

/* --- The end. --- */

void relay_stop_waiting(struct relay_client *s)
{
    if (s->asked == NULL || !relay_request_waits(s->asked))
        return;
    if (relay_give_up(s, s->asked))
        relay_allow_sending(s);
    else
        relay_abandon(s, DROP_NO_MEMORY, "no memory to end its wait, see --memory-limit");
}

void relay_finish(struct relay_client *s)
{
    if (s->client != NULL || !TAILQ_EMPTY(&s->requests))
        return;
    if (!s->opened)
        relay_forget(s);
    else
        relay_queue(s);
}

void relay_leave(struct relay_client *s)
{
    struct relay_request *q;

    s->client = NULL;
    set_hold(s, HELD_NOT);
    relay_drop_answer(s);
    if (s->filling != NULL)
        drop_last(s, s->filling);
    q = s->asked;
    if (q != NULL && (q->op == C10D_WAIT || (q->op == C10D_BARRIER && !relay_give_up(s, q))))
        relay_drop_request(s, q); /* CLOSE ends it, also where a part of it was sent */
    TAILQ_FOREACH(q, &s->requests, entry)
        q->wanted = false;
    s->asked = NULL;
    relay_finish(s);
}

bool relay_is_done(const struct relay *r)
{
    return r->session_count == 0 || (!r->link && r->pending_count == 0);
}

/* Since when the store should have confirmed it; UINT64_MAX: it need not. */
static uint64_t owed_since_ns(const struct relay *r, const struct relay_request *q)
{
    if (!relay_request_waits(q))
        return q->since_ns;
    if (q->sent == q->piece_count)
        return UINT64_MAX;
    return q->was_sent && r->away_since_ns > q->since_ns ? r->away_since_ns : q->since_ns;
}

uint64_t relay_lag_ns(const struct relay *r)
{
    uint64_t oldest = r->now_ns;

    TAILQ_EACH(const struct relay_client, s, &r->sessions, entry) {
        TAILQ_EACH(const struct relay_request, q, &s->requests, entry) {
            uint64_t since = owed_since_ns(r, q);

            oldest = since < oldest ? since : oldest;
            if (!relay_request_waits(q))
                break; /* those behind it came later */
        }
    }
    return r->now_ns - oldest;
}

uint64_t relay_away_ns(const struct relay *r)
{
    bool is_away = r->welcomed && !r->link;

    return r->stats.away_ns + (is_away ? r->now_ns - r->away_since_ns : 0);
}
