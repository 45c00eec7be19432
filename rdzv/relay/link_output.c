/* The output of sessions of relays' clients: frames, answers, and turns. See link_session.h. */
#include "rdzv/relay/link_session.h"

#include <errno.h>

/* --- Frames. --- */

static void link_put_head(struct relay_link *link, const struct relay_frame *frame)
{
    struct conn *c = link->conn;

    relay_put_head(outq_reserve(&c->out, &conn_net(c)->pool, RELAY_HEAD_SIZE), frame);
}

void relay_link_put(struct relay_link *link, const struct relay_frame *frame)
{
    link_put_head(link, frame);
    if (frame->payload.len != 0)
        outq_put(&link->conn->out, &conn_net(link->conn)->pool, frame->payload.ptr,
                 frame->payload.len);
    conn_flush_later(link->conn);
}

void relay_session_put(struct relay_session *s, enum relay_kind kind, uint8_t flags,
                       uint64_t number, struct slice payload)
{
    const struct relay_frame frame = {.kind = (uint8_t)kind,
                                      .flags = flags,
                                      .channel = s->channel,
                                      .number = number,
                                      .payload = payload};

    relay_link_put(relay_session_link(s), &frame);
}

/* Of the last frame about that request. */
static uint8_t known_of(const struct relay_session *s, uint64_t number)
{
    return (s->record != RECORD_NONE ? RELAY_KNOWN : 0) |
           (number != 0 && number == s->changed ? RELAY_CHANGED : 0);
}

/* --- Queued answers and their requests. --- */

size_t relay_session_unnoted_bytes(const struct relay_session *s)
{
    return s->conn.out.bytes - s->answers[0].bytes - s->answers[1].bytes;
}

/* A relay that keeps to the protocol leaves at most two answers of a session in the queue: those to
 * a finished WAIT and to its CANCEL_WAIT. */
void relay_session_note_answers(struct relay_session *s)
{
    size_t more = relay_session_unnoted_bytes(s);
    struct link_answer *a =
        &s->answers[s->answers[0].bytes != 0 && s->answers[0].number != s->executed];

    if (more == 0)
        return;
    a->number = s->executed;
    a->bytes += more;
}

/* The next bytes of the first answer, as the payload of a frame. */
static void session_put_bytes(struct relay_session *s, struct relay_frame frame)
{
    struct link_answer *a = &s->answers[0];
    struct conn *to = relay_session_link(s)->conn;

    frame.channel = s->channel;
    frame.payload.len = a->bytes < RELAY_PAYLOAD_MAX ? a->bytes : RELAY_PAYLOAD_MAX;
    frame.flags |= frame.payload.len < a->bytes ? RELAY_MORE : 0;
    link_put_head(relay_session_link(s), &frame);
    outq_move(&to->out, &s->conn.out, &conn_net(to)->pool, frame.payload.len);
    a->bytes -= frame.payload.len;
    if (a->bytes == 0) {
        s->answers[0] = s->answers[1];
        s->answers[1] = (struct link_answer){0};
    }
    conn_flush_later(to);
}

/* The relay learns whose keys the session reads. */
static void put_reads(struct relay_session *s)
{
    uint64_t reads = s->sent_reads || s->conn.protocol == NULL ? 0 : c10d_reads(&s->conn);

    if (reads == 0)
        return;
    s->sent_reads = true;
    relay_session_put(s, RELAY_READS, 0, reads, (struct slice){0});
}

static void put_answer(struct relay_session *s)
{
    uint64_t number = s->answers[0].number;
    bool is_last = s->answers[0].bytes <= RELAY_PAYLOAD_MAX;

    if (is_last && s->notified < number)
        s->notified = number;
    session_put_bytes(s, (struct relay_frame){.kind = RELAY_ANSWER,
                                              .flags = is_last ? known_of(s, number) : 0,
                                              .number = number});
}

/* The frame takes the first piece of the queued answer; further ANSWER frames bring the rest. */
static void put_opened(struct relay_session *s)
{
    struct relay_frame frame = {
        .kind = RELAY_OPENED, .flags = s->opened_flags, .number = s->notified};

    relay_session_enter(s, RELAYED_OPEN);
    if (frame.flags & RELAY_ANSWERED)
        session_put_bytes(s, frame);
    else
        relay_session_put(s, RELAY_OPENED, frame.flags, frame.number, (struct slice){0});
}

/* --- Turns: the sessions of a link that is full send one after the other. --- */

static bool is_full(const struct relay_link *link)
{
    return link->conn->out.bytes > RELAY_LINK_QUEUE_MAX;
}

/* A session that is blocked already keeps its place. */
static void set_blocked(struct relay_session *s, bool is_blocked)
{
    if (s->is_blocked && !is_blocked)
        TAILQ_REMOVE(&relay_session_link(s)->blocked, s, waiting);
    if (!s->is_blocked && is_blocked)
        TAILQ_INSERT_TAIL(&relay_session_link(s)->blocked, s, waiting);
    s->is_blocked = is_blocked;
}

void relay_link_continue(struct relay_link *link)
{
    struct relay_session *s = TAILQ_FIRST(&link->blocked);

    if (s == NULL || link->conn == NULL || is_full(link))
        return;
    if (s->conn.output == OUTPUT_BLOCKED)
        conn_set_output(&s->conn, OUTPUT_QUEUED);
}

void relay_session_end_turn(struct relay_session *s)
{
    set_blocked(s, false);
    relay_link_continue(relay_session_link(s)); /* it may have been the first */
}

void relay_session_forget_answers(struct relay_session *s)
{
    s->answers[0] = s->answers[1] = (struct link_answer){0};
}

/* Requests up to this number have been answered. */
static uint64_t done_of(const struct relay_session *s)
{
    if (!s->has_done)
        return s->notified;
    return s->waits != 0 && !s->has_stopped ? s->waits - 1 : s->executed;
}

static void put_done(struct relay_session *s, uint64_t number)
{
    relay_session_put(s, RELAY_DONE, known_of(s, number), number, (struct slice){0});
    s->notified = number;
}

static void put_next(struct relay_session *s)
{
    bool has_answer = s->conn.out.bytes > 0;
    uint64_t number = has_answer ? s->answers[0].number : done_of(s);

    if (s->state == RELAYED_OPENING) {
        put_opened(s);
        return;
    }
    put_reads(s);
    if (s->notified < s->changed && s->changed < number)
        put_done(s, s->changed); /* the relay must learn the number of the last change first */
    else if (has_answer)
        put_answer(s);
    else
        put_done(s, number);
}

/* Sends a limited part of the session's output, whatever `max` is, so that other sessions of the
 * link get their turn. */
int relay_session_send(struct conn *c, size_t)
{
    struct relay_session *s = relay_session_of(c);
    struct relay_link *link = relay_session_link(s);
    size_t sent = 0;

    relay_session_note_answers(s);
    if (!relay_session_has_link(s) ||
        s->state == RELAYED_CLOSING) { /* the relay asks again; it asks no more */
        relay_session_forget_answers(s);
        outq_fini(&c->out, &conn_net(c)->pool);
        return 0;
    }
    while ((s->state == RELAYED_OPENING || c->out.bytes > 0 || done_of(s) > s->notified) &&
           sent < RELAY_PAYLOAD_MAX) {
        size_t before = link->conn->out.bytes;

        if (is_full(link) || (!TAILQ_EMPTY(&link->blocked) && TAILQ_FIRST(&link->blocked) != s)) {
            set_blocked(s, true);
            relay_link_continue(link); /* those who came before go on first, if there is room */
            return -EAGAIN;
        }
        put_next(s);
        sent += link->conn->out.bytes - before;
    }
    relay_session_end_turn(s);
    return 0;
}
