/* Sessions as the link sees them: what it sends, what comes back, and what the next link repeats.
 * See relay.h for the contract. */
#include "rdzv/relay/relay.h"

#include <stdio.h>

#include "rdzv/engine/log.h"
#include "rdzv/relay/hello.h"

/* The bytes that a session sends before the next session has its turn. */
#define TURN_BYTES (64u << 10)

#define OPEN_MAX 160u /* bytes of struct RelayOpen: two addresses as text, and numbers */

/* --- Sending. --- */

static void put_on_link(struct outq *q, const struct relay_client *s, struct relay_frame *frame)
{
    frame->channel = s->channel;
    relay_put_head(outq_reserve(q, s->relay->pool, RELAY_HEAD_SIZE), frame);
}

/* What the store has carried out is confirmed, and the rest is sent. */
static void session_begin_sending(struct relay_client *s)
{
    s->state = SESSION_OPEN;
    relay_close_gaps(s);
}

static void send_open(struct relay_client *s, struct outq *q)
{
    char peer[PEER_HOST_MAX], local[PEER_HOST_MAX];
    uint8_t bytes[OPEN_MAX];
    Rdzv__RelayOpen open = RDZV__RELAY_OPEN__INIT;
    struct relay_frame frame = {.kind = RELAY_OPEN, .payload = {.ptr = bytes}};
    struct relay *r = s->relay;

    s->channel = ++r->last_channel;
    s->node.key = (struct slice){(const uint8_t *)&s->channel, sizeof s->channel};
    table_add(&r->channels, &s->node);
    open.session = s->id;
    open.c10d_version = s->version;
    open.peer_host = hello_field(peer_host(&s->peer, peer));
    open.peer_port = s->peer.port;
    open.local_host = hello_field(peer_host(&s->local, local));
    open.local_port = s->local.port;
    open.resumes = s->opened;
    open.pings = s->pings;
    open.link = r->stats.links;
    frame.payload.len = rdzv__relay_open__pack(&open, bytes);
    put_on_link(q, s, &frame);
    outq_put(q, r->pool, bytes, frame.payload.len);
    if (s->opened)
        s->state = SESSION_ASKING;
    else
        session_begin_sending(s);
    s->opened = true;
}

static void send_piece(struct relay_client *s, struct relay_request *req, struct outq *q)
{
    struct relay *r = s->relay;
    struct blob *piece = req->pieces[req->sent++];
    bool is_last = req->sent == req->piece_count;
    struct relay_frame frame = {.kind = RELAY_REQUEST,
                                .flags = is_last ? 0 : RELAY_MORE,
                                .number = req->number,
                                .payload = blob_slice(piece)};

    s->has_sent = true;
    if (req->op == C10D_CHECK)
        s->alone_ns = r->now_ns;
    if (r->keeps && piece == r->asked && req->piece_count == 1 &&
        (req->op == C10D_WAIT || req->op == C10D_MULTI_GET)) {
        /* The clients of a node ask for the same list: its bytes travel once. */
        frame.flags |= RELAY_SAME;
        frame.payload.len = r->is_kept ? 0 : frame.payload.len;
        r->is_kept = true;
    }
    put_on_link(q, s, &frame);
    if (frame.payload.len != 0)
        outq_put_blob(q, r->pool, piece);
    if (!is_last)
        return;
    r->stats.resumed += req->was_sent;
    req->was_sent = true;
    if (req->given_up) {
        relay_drop_request(s, req);
        relay_allow_sending(s); /* a PING may wait for this */
    } else if (req->has_answer) {
        s->open = req;
    }
}

/* Equal reads that are sent at one time are one: the first session is the leader of the others,
 * which get the same answer. They have nothing else under way, so the store has carried out all
 * that they asked before. If the leader gets no answer, they ask by themselves. */
static bool follow_leader(struct relay_client *s, struct relay_request *q)
{
    struct relay *r = s->relay;
    struct relay_client *leader = r->leader;
    bool is_due = q->op == C10D_CHECK && (r->now_ns - s->alone_ns) / 1000000000 >= RELAY_ALONE_S;

    if (s->reads == 0 || !q->reads || q->piece_count != 1 || q != TAILQ_FIRST(&s->requests))
        return false;
    if (leader == NULL || leader->reads != s->reads || leader->version != s->version ||
        !slice_equal(blob_slice(leader->open->pieces[0]), blob_slice(q->pieces[0]))) {
        r->leader = s;
        return false;
    }
    if (q->was_sent || is_due)
        return false;
    q->was_sent = true;
    s->leader = leader;
    TAILQ_INSERT_TAIL(&leader->followers, s, sends);
    return true;
}

/* False: the session has gone. */
static bool send_next(struct relay_client *s, struct outq *q)
{
    struct relay_request *req;

    if (s->state == SESSION_AWAY) {
        send_open(s, q);
        return true;
    }
    req = relay_next_request(s);
    if (req != NULL) {
        if (!follow_leader(s, req))
            send_piece(s, req, q);
        return true;
    }
    put_on_link(q, s, &(struct relay_frame){.kind = RELAY_CLOSE});
    relay_forget(s);
    return false;
}

void relay_send(struct relay *r, struct outq *q, size_t max)
{
    r->leader = NULL;
    while (relay_has_output(r) && !q->broken && q->bytes < max) {
        struct relay_client *s = TAILQ_FIRST(&r->sending);
        size_t end = q->bytes + TURN_BYTES;

        TAILQ_REMOVE(&r->sending, s, sends);
        s->queued = false;
        while (relay_can_send(s)) {
            if (q->bytes >= end || q->broken) {
                relay_queue(s);
                break;
            }
            if (!send_next(s, q))
                break;
        }
    }
    if (TAILQ_EMPTY(&r->sending))
        r->due_ns = UINT64_MAX;
}

/* --- The link comes and goes. --- */

void relay_link_up(struct relay *r, const Rdzv__RelayWelcome *w)
{
    r->stats.away_ns = relay_away_ns(r);
    r->link = r->welcomed = true;
    r->keeps = w->keeps;
    r->stats.links++;
    r->session_timeout_ms = w->session_timeout_ms;
    if (w->value_max != 0)
        r->limits = c10d_limits_of(w->value_max);
    TAILQ_EACH(struct relay_client, s, &r->sessions, entry) {
        relay_queue(s);
        relay_allow_sending(s); /* a PING may wait for this */
    }
}

/* The client has given its WAIT up, and the store has not answered that. */
static void answer_open_cancel(struct relay_client *s)
{
    struct relay_request *cancel = s->asked, *waits;

    if (cancel == NULL || cancel->op != C10D_CANCEL_WAIT)
        return;
    waits = TAILQ_PREV(cancel, relay_request_list, entry);
    relay_answer_cancel(s);
    if (waits != NULL && waits->op == C10D_BARRIER) { /* both go on, for nobody */
        cancel->wanted = waits->wanted = false;
        s->asked = NULL;
    } else {
        relay_drop_request(s, cancel);
        if (waits != NULL && waits->op == C10D_WAIT)
            relay_drop_request(s, waits);
    }
}

void relay_link_down(struct relay *r)
{
    if (!r->link)
        return;
    r->link = r->keeps = r->is_kept = false;
    r->away_since_ns = r->now_ns;
    TAILQ_EACH(struct relay_client, s, &r->sending, sends)
        s->queued = false;
    TAILQ_INIT(&r->sending);
    TAILQ_EACH_SAFE(struct relay_client, s, &r->sessions, entry) {
        if (s->state != SESSION_AWAY)
            table_remove(&r->channels, &s->node);
        s->state = SESSION_AWAY;
        s->has_sent = false;
        relay_unfollow(s);
        s->reads = 0;
        s->open = NULL;
        relay_drop_answer(s);
        TAILQ_EACH(struct relay_request, q, &s->requests, entry)
            q->sent = 0;
        relay_take_back_given_up(s);
        answer_open_cancel(s);
        relay_allow_sending(s);
    }
    r->last_channel = 0;
    r->due_ns = UINT64_MAX;
}

/* --- Receiving. --- */

/* The request of that number, if the client waits for its answer; NULL: it does not. */
static const struct relay_request *wanted_request(const struct relay_client *s, uint64_t number)
{
    const struct relay_request *q = TAILQ_FIRST(&s->requests);

    while (q != NULL && q->number < number)
        q = TAILQ_NEXT(q, entry);
    return q != NULL && q->number == number && q->wanted && s->client != NULL ? q : NULL;
}

/* Adds a piece to an incomplete answer. An answer that no client wants is skipped, and an answer
 * that is too long is dropped, however many pieces follow. */
static void collect_answer(struct relay_client *s, const struct relay_frame *frame, bool wanted)
{
    struct relay *r = s->relay;

    if (s->answer_number != frame->number)
        relay_drop_answer(s);
    s->answer_number = frame->number;
    if (!wanted || s->answer.broken || frame->payload.len == 0)
        return;
    if (r->answered == NULL)
        r->answered = blob_new(ACCOUNT_ANSWERS, frame->payload);
    outq_put_blob(&s->answer, r->pool, r->answered);
    s->answer.broken = s->answer.broken || r->answered == NULL;
    if (s->answer.broken)
        outq_fini(&s->answer, r->pool);
}

/* The last piece is `frame`'s. False: memory was short for the others. */
static bool deliver_answer(struct relay_client *s, const struct relay_frame *frame)
{
    const struct relay_calls *calls = s->relay->calls;

    if (s->answer_number == frame->number && s->answer.broken)
        return false;
    if (s->answer_number == frame->number)
        calls->answer_queue(s->client, &s->answer);
    calls->answer(s->client, frame->payload);
    relay_drop_answer(s);
    return true;
}

/* The store has executed all requests up to `number`. `answered`: the client has the answer to this
 * one. False: an earlier request still lacks its answer, which cannot come any more, or no request
 * has this number. */
static bool confirm_request(struct relay_client *s, uint64_t number, bool answered)
{
    struct relay *r = s->relay;
    struct relay_request *q;
    bool lacks = false;

    while ((q = TAILQ_FIRST(&s->requests)) != NULL && q->number <= number) {
        if (!relay_request_waits(q)) {
            r->stats.confirmed++;
            r->stats.confirmed_ns += r->now_ns - q->since_ns;
        }
        s->recorded = s->recorded || q->changes;
        lacks = lacks || !q->was_sent ||
                (q->wanted && (q->number < number || !answered) && !relay_request_waits(q));
        relay_drop_request(s, q);
    }
    return !lacks;
}

/* What follows when something was confirmed, or could not be. */
static void after_confirm(struct relay_client *s, bool confirmed)
{
    if (!confirmed) {
        relay_abandon(s, DROP_UPSTREAM, "the store has left out an answer");
        return;
    }
    relay_queue(s);
    relay_allow_sending(s);
    relay_finish(s);
}

/* What the store has promised with the last frame about a request. */
static void note_confirmed(struct relay_client *s, const struct relay_frame *frame)
{
    s->recorded = s->recorded || frame->flags & RELAY_KNOWN;
    if (frame->flags & RELAY_CHANGED)
        s->changed = frame->number;
}

static void take_answer(struct relay_client *s, const struct relay_frame *frame)
{
    bool wanted = wanted_request(s, frame->number) != NULL, confirmed;

    if (frame->flags & RELAY_MORE) {
        collect_answer(s, frame, wanted);
        return;
    }
    note_confirmed(s, frame);
    if (wanted && !deliver_answer(s, frame)) {
        relay_abandon(s, DROP_NO_MEMORY, "no memory for its answer, see --memory-limit");
        return;
    }
    confirmed = confirm_request(s, frame->number, true);
    if (s->state == SESSION_ASKING) /* the last answer that OPENED announced */
        session_begin_sending(s);
    after_confirm(s, confirmed);
}

/* The store has never seen the followers' requests: their next ones get the same numbers. */
static void receive_answer(struct relay_client *leader, const struct relay_frame *frame)
{
    struct relay *r = leader->relay;

    TAILQ_EACH_SAFE(struct relay_client, s, &leader->followers, sends) {
        struct relay_frame own = *frame;

        if (leader->open->number != frame->number)
            break;
        own.number = s->last;
        own.flags &= RELAY_MORE;
        if (own.flags == 0) {
            relay_unfollow(s);
            s->last--;
            r->stats.shared++;
        }
        take_answer(s, &own);
    }
    take_answer(leader, frame);
    blob_unref(r->answered);
    r->answered = NULL;
}

/* --- Resuming. --- */

/* A request was sent that must not be carried out twice. */
static bool has_sent_unrepeatable(const struct relay_client *s)
{
    return ANY(TAILQ_EACH(const struct relay_request, q, &s->requests, entry),
               q->was_sent && !q->repeatable);
}

const char *relay_loss_name(enum relay_loss loss)
{
    static const char *const names[LOSSES] = {
        [LOST_ENDED] = "ended", [LOST_UNKNOWN] = "unknown", [LOST_GONE_BACK] = "gone_back"};

    return names[loss];
}

/* The store knows the session, but not all that it had confirmed before. */
static bool has_gone_back(const struct relay_client *s, const struct relay_frame *opened)
{
    return opened->flags & RELAY_KNOWN && opened->number < s->changed;
}

/* Why a session cannot continue after the store's report; NULL: it can. Requests that the store has
 * never seen, or lost with their answers, are simply sent again. */
static const char *why_lost(const struct relay_client *s, const struct relay_frame *opened)
{
    const struct relay *r = s->relay;

    if (has_gone_back(s, opened))
        return "the store has gone back: what this client had changed is not there any more, since "
               "the store's machine lost power without --sync=always, or an older copy of its data "
               "directory was put in its place";
    if (opened->flags & RELAY_KNOWN)
        return NULL;
    if (s->recorded)
        return "the store has forgotten the session: it has lost its state (--data-dir keeps it), "
               "or the relay was away for longer than --session-timeout";
    if (has_sent_unrepeatable(s) && r->session_timeout_ms != 0 &&
        (r->now_ns - r->away_since_ns) / 1000000 >= r->session_timeout_ms)
        return "the session has timed out in the store while a request was open that must not be "
               "carried out twice";
    return NULL;
}

/* COMPARE_SET took effect: the answer is the value that it wanted, with its length. */
static void deliver_desired(struct relay_client *s, const struct relay_request *q)
{
    uint8_t len[8];
    size_t skip = q->value_at, left = q->value_len;

    bytes_put_u64(len, q->value_len);
    s->relay->calls->answer(s->client, (struct slice){len, sizeof len});
    for (uint32_t i = 0; left > 0; i++) {
        struct slice piece = blob_slice(q->pieces[i]);

        if (skip >= piece.len) {
            skip -= piece.len;
            continue;
        }
        piece = slice_from(piece, skip);
        piece.len = piece.len < left ? piece.len : left;
        skip = 0;
        left -= piece.len;
        s->relay->calls->answer(s->client, piece);
    }
}

/* The store has carried out the requests up to that one. False: the client cannot be told. */
static bool resume_from(struct relay_client *s, const struct relay_frame *frame, uint8_t flags)
{
    const struct relay_request *q = wanted_request(s, frame->number);

    if (flags & RELAY_ARRIVED && frame->number != 0) /* it is sent again, and counts once */
        return confirm_request(s, frame->number - 1, false);
    if (q != NULL && flags & RELAY_TOOK && q->op == C10D_COMPARE_SET)
        deliver_desired(s, q);
    else if (q != NULL && flags & RELAY_ANSWERED && !deliver_answer(s, frame))
        return false;
    return confirm_request(s, frame->number, (flags & (RELAY_ANSWERED | RELAY_TOOK)) != 0);
}

/* The store has lost changes that were answered to the client, so the client must fail. */
static void lose_session(struct relay_client *s, enum relay_loss loss, const char *why)
{
    uint64_t unconfirmed = 0;

    TAILQ_EACH(const struct relay_request, q, &s->requests, entry)
        unconfirmed++;
    s->relay->stats.lost[loss]++;
    log_limited(LOG_WARN, "session_lost", log_str("peer", PEER_TEXT(&s->peer)),
                log_str("protocol", c10d_version_name((enum c10d_version)s->version)),
                log_u64("unconfirmed", unconfirmed), log_str("reason", why));
    relay_abandon(s, DROP_UPSTREAM, why);
}

static void receive_opened(struct relay_client *s, const struct relay_frame *frame)
{
    uint8_t flags = frame->flags;
    const char *why;
    bool knows;

    if (s->state != SESSION_ASKING)
        return; /* of a session that was new to the store */
    /* A client that has gone and has no unconfirmed requests loses nothing. */
    why = s->client == NULL && TAILQ_EMPTY(&s->requests) ? NULL : why_lost(s, frame);
    if (why != NULL) {
        s->state = SESSION_OPEN;
        lose_session(s, has_gone_back(s, frame) ? LOST_GONE_BACK : LOST_UNKNOWN, why);
        return;
    }
    if (flags & RELAY_MORE) { /* a long answer: the rest follows in ANSWER frames */
        s->recorded = true;
        collect_answer(s, frame, wanted_request(s, frame->number) != NULL);
        return;
    }
    if (flags & RELAY_KNOWN && frame->number != 0) {
        s->recorded = true;
        s->changed = frame->number;
    }
    knows = (flags & RELAY_KNOWN) == 0 || resume_from(s, frame, flags);
    session_begin_sending(s);
    if (!knows) {
        lose_session(s, LOST_UNKNOWN, "the store has forgotten its answer");
        return;
    }
    relay_drop_answer(s);
    after_confirm(s, true);
}

static void receive_ended(struct relay_client *s, const struct relay_frame *frame)
{
    char text[256];

    snprintf(text, sizeof text, "%.*s", (int)frame->payload.len, (const char *)frame->payload.ptr);
    s->state = SESSION_OPEN; /* if it could not be opened, it never will */
    s->relay->stats.lost[LOST_ENDED] += s->client != NULL;
    relay_abandon(s, DROP_UPSTREAM, text);
}

const char *relay_receive(struct relay *r, const struct relay_frame *frame)
{
    struct table_node *node =
        table_find(&r->channels, (struct slice){(const uint8_t *)&frame->channel, 4});
    struct relay_client *s;

    if (node == NULL) /* the session was closed while the frame was on its way */
        return NULL;
    s = (struct relay_client *)(void *)((char *)node - offsetof(struct relay_client, node));
    switch (frame->kind) {
    case RELAY_OPENED:
        receive_opened(s, frame);
        return NULL;
    case RELAY_ANSWER:
        receive_answer(s, frame);
        return NULL;
    case RELAY_DONE:
        note_confirmed(s, frame);
        after_confirm(s, confirm_request(s, frame->number, false));
        return NULL;
    case RELAY_READS:
        s->reads = frame->number;
        return NULL;
    case RELAY_ENDED:
        receive_ended(s, frame);
        return NULL;
    default:
        return "a frame that no store sends";
    }
}
