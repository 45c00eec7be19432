/* Sessions of relays' clients: how a link opens and loses them, and their requests. See
 * link_session.h. */
#include "rdzv/relay/link_session.h"

#include <arpa/inet.h>
#include <assert.h>
#include <string.h>

#include "rdzv/engine/log.h"
#include "rdzv/net/input.h"
#include "store/session/session.h"

#define SESSION_SIZE (offsetof(struct relay_session, conn) + CONN_RELAYED_SIZE)

static struct relay_links *all_of(const struct relay_session *s)
{
    return relay_session_link(s)->all;
}

/* --- States. --- */

#define IN_LINK (1u << RELAYED_OPENING | 1u << RELAYED_OPEN | 1u << RELAYED_CLOSING)
#define NO_LINK (1u << RELAYED_DETACHED | 1u << RELAYED_AWAITED)
#define DROPPED (1u << RELAYED_DROPPED)
#define FREED   (1u << RELAYED_NONE)

/* 1: the move is into the set of states, -1: out of it. */
static int count_crossing(unsigned set, unsigned from, unsigned to)
{
    return ((set & 1u << to) != 0) - ((set & 1u << from) != 0);
}

static void change_lists(struct relay_session *s, unsigned from, unsigned to)
{
    struct relay_links *all = all_of(s);
    struct stats *stats = &all->engine->stats;
    int in_link = count_crossing(IN_LINK, from, to), no_link = count_crossing(NO_LINK, from, to);
    int awaited = count_crossing(1u << RELAYED_AWAITED, from, to),
        dropped = count_crossing(DROPPED, from, to);

    if (awaited < 0)
        TAILQ_REMOVE(&all->awaited, s, waiting);
    if (no_link < 0)
        TAILQ_REMOVE(&all->detached, s, entry);
    if (dropped < 0)
        TAILQ_REMOVE(&all->dropped, s, waiting);
    if (no_link > 0)
        TAILQ_INSERT_TAIL(&all->detached, s, entry);
    if (awaited > 0)
        TAILQ_INSERT_TAIL(&all->awaited, s, waiting);
    if (dropped > 0)
        TAILQ_INSERT_TAIL(&all->dropped, s, waiting);
    stats->sessions_attached += (uint64_t)in_link;
    stats->sessions_detached += (uint64_t)no_link;
    all->dropped_count += (size_t)dropped;
}

void relay_session_enter(struct relay_session *s, enum relay_session_state next)
{
    static const unsigned legal[] = {
        [RELAYED_NONE] = 1u << RELAYED_OPENING,
        [RELAYED_OPENING] =
            1u << RELAYED_OPEN | 1u << RELAYED_CLOSING | 1u << RELAYED_DETACHED | DROPPED | FREED,
        [RELAYED_OPEN] = 1u << RELAYED_CLOSING | 1u << RELAYED_DETACHED | DROPPED | FREED,
        [RELAYED_CLOSING] = FREED,
        [RELAYED_DETACHED] = 1u << RELAYED_OPENING | 1u << RELAYED_AWAITED | DROPPED | FREED,
        [RELAYED_AWAITED] = 1u << RELAYED_OPENING | 1u << RELAYED_DETACHED | DROPPED | FREED,
        [RELAYED_DROPPED] = FREED,
    };

    assert(legal[s->state] & 1u << next);
    change_lists(s, s->state, next);
    s->state = (uint8_t)next;
}

static void session_leave_channel(struct relay_session *s)
{
    struct relay_link *link = relay_session_link(s);

    TAILQ_REMOVE(&link->sessions, s, entry);
    table_remove(&link->channels, (struct table_node *)&s->by_channel);
    if (link->last == s)
        link->last = NULL;
    s->is_in_link = false;
}

/* The memory stays until neither the session nor its connection needs it. */
static void session_free_memory(struct relay_session *s)
{
    if (s->state != RELAYED_NONE || s->keeps_conn)
        return;
    relay_link_unref(relay_session_link(s));
    account_free(ACCOUNT_SESSIONS, s, SESSION_SIZE);
}

void relay_session_free(struct relay_session *s)
{
    relay_session_enter(s, RELAYED_NONE);
    if (s->is_in_link)
        session_leave_channel(s);
    table_remove(&all_of(s)->sessions, (struct table_node *)&s->by_id);
    session_free_memory(s);
}

/* --- Sessions that the store has dropped: it keeps their records until their relays know. --- */

/* Frees the session and ends its record, now or as soon as the journal takes that. */
static void relayed_session_end(struct relay_session *s)
{
    struct relay_links *all = all_of(s);
    struct engine_space *space = conn_space(&s->conn);
    uint64_t id = s->id;

    relay_session_free(s);
    if (!engine_session_end(all->engine, space, id))
        relay_links_restart_sweep(all);
}

/* The connection of the session has been closed. */
static void relayed_session_end_or_keep(struct relay_session *s)
{
    struct relay_links *all = all_of(s);
    bool may_be_unheard =
        s->record != RECORD_NONE && s->state != RELAYED_CLOSING && s->conn.was_dropped;

    if (!may_be_unheard) {
        relayed_session_end(s);
        return;
    }
    if (all->dropped_count == RELAY_DROPPED_MAX)
        relayed_session_end(TAILQ_FIRST(&all->dropped));
    relay_session_enter(s, RELAYED_DROPPED);
}

void relay_dropped_tick(struct relay_links *all, uint64_t now_ms)
{
    TAILQ_EACH_SAFE(struct relay_session, s, &all->dropped, waiting) {
        if (!s->is_in_link &&
            clock_elapsed_ms(s->detached_ms, now_ms) >= all->config->session_timeout_ms)
            relayed_session_end(s);
    }
}

/* --- What the engine has of it. --- */

static void set_record(struct relay_session *s, enum relay_session_record next)
{
    static const unsigned legal[] = {
        [RECORD_NONE] = ~0u,
        [RECORD_KEPT] = ~(1u << RECORD_KEPT),
        [RECORD_RESTORED] = 1u << RECORD_NONE,
        [RECORD_MISSING] = 1u << RECORD_NONE | 1u << RECORD_RESTORED,
    };

    assert(legal[s->record] & 1u << next);
    if (s->record == RECORD_MISSING)
        conn_space(&s->conn)->sessions_missing--;
    s->record = (uint8_t)next;
}

static void note_kept(struct relay_session *s)
{
    if (s->record == RECORD_NONE)
        set_record(s, RECORD_KEPT);
}

/* The session knows the outcome of that request now. */
static void stop_missing(struct relay_session *s)
{
    if (s->record == RECORD_MISSING)
        set_record(s, RECORD_RESTORED);
}

/* --- Requests. --- */

static void reply_stop(struct relay_session *s)
{
    static const uint8_t stop = C10D_STOP_WAITING;

    conn_put(&s->conn, &stop, 1);
}

static enum backend_verdict refuse_request(struct relay_session *s, const char *why)
{
    conn_drop(&s->conn, DROP_MALFORMED, why, (struct slice){0});
    return VERDICT_REFUSED;
}

/* The first request after the session was opened may be here for the second time: a WAIT or
 * BARRIER that was open when the link was lost, or that was answered and the answer lost; or a
 * BARRIER that has been counted before a start. */
static enum backend_verdict begin_again(struct relay_session *s, uint64_t number,
                                        struct slice barrier)
{
    const struct session *record = engine_session_find(conn_space(&s->conn), s->id);
    uint64_t last = record == NULL ? 0 : record->number;

    if (number >= last && s->waits == number && (s->has_stopped || c10d_waits(&s->conn))) {
        if (s->has_stopped)
            reply_stop(s);
        return VERDICT_REPEATED;
    }
    c10d_drop_wait(&s->conn);
    s->waits = 0;
    s->has_stopped = false;
    if (number > last)
        return VERDICT_PROCEED;
    if (number < last || (record->flags & RELAY_ARRIVED) == 0 || barrier.ptr == NULL)
        return refuse_request(s, "the relay has repeated a confirmed request");
    if (!session_passed(record))
        return VERDICT_WAITS_AGAIN;
    reply_stop(s);
    return VERDICT_REPEATED;
}

/* A change is recorded under a larger number than all earlier changes: so no change may follow an
 * open WAIT, which the relay may repeat. */
static enum backend_verdict session_begin_request(struct conn *c, bool changes,
                                                  struct slice barrier)
{
    struct relay_session *s = relay_session_of(c);
    enum backend_verdict verdict = VERDICT_PROCEED;
    bool is_first = c->may_repeat;
    enum store_status status;

    relay_session_note_answers(s);
    if (s->ahead == 0)
        return refuse_request(s, "two requests in one frame");
    c->may_repeat = false;
    if (is_first)
        verdict = begin_again(s, s->executed + 1, barrier);
    if (verdict != VERDICT_PROCEED || !changes)
        return verdict;
    if (c10d_waits(c))
        return refuse_request(s, "a change while its WAIT is open");
    status = engine_session_prepare(all_of(s)->engine, conn_space(c), s->id, barrier);
    if (status == STORE_OK)
        return VERDICT_PROCEED;
    c10d_reject(c, status, barrier);
    return VERDICT_REFUSED;
}

/* What the request was answered, for the next who asks. */
static void session_keep_answer(struct relay_session *s, const struct backend_result *r)
{
    size_t len = relay_session_unnoted_bytes(s);
    struct slice answer = {0};
    uint8_t flags = 0, before[8];

    if (r->took) {
        flags = RELAY_TOOK;
    } else if (r->popped != NULL) {
        flags = RELAY_ANSWERED;
        bytes_put_u64(before, r->popped_of);
        answer = (struct slice){before, sizeof before};
    } else if (r->waits) {
        flags = RELAY_ARRIVED;
        answer = r->key;
    } else if (len > 0) {
        flags = RELAY_ANSWERED;
        answer = outq_tail(&s->conn.out, len < SESSION_ANSWER_MAX ? len : SESSION_ANSWER_MAX);
    }
    engine_session_done(all_of(s)->engine, conn_space(&s->conn), s->id, s->executed, flags, answer,
                        r->popped);
    note_kept(s);
    s->changed = s->executed;
}

static void session_note_done(struct conn *c, const struct backend_result *r)
{
    struct relay_session *s = relay_session_of(c);
    bool was_answered = s->has_stopped && s->waits == s->executed + 1; /* and comes again */

    s->executed++;
    s->ahead--;
    if (r->changed)
        session_keep_answer(s, r);
    if (!was_answered && (!r->waits || s->waits == 0 || s->has_stopped)) {
        s->waits = r->waits ? s->executed : 0;
        s->has_stopped = false;
    }
    s->has_done = s->has_done || !r->waits;
    conn_note_output(c);
}

static bool session_wake(struct conn *c)
{
    struct relay_session *s = relay_session_of(c);

    s->has_stopped = true;
    if (!relay_session_has_link(s) || c->may_repeat)
        return false; /* the answer goes out when the relay repeats the request */
    s->has_done = true;
    return true;
}

static enum store_status session_set_store(struct conn *c, uint64_t worker_store)
{
    struct relay_session *s = relay_session_of(c);
    enum store_status status = engine_session_bind(all_of(s)->engine, conn_space(c), s->id,
                                                   worker_store != 0, worker_store);

    if (status == STORE_OK)
        note_kept(s);
    stop_missing(s);
    return status;
}

/* Without it, the daemon learns after a start what the client itself tells. */
static void session_keep_hint(struct conn *c, struct slice hint)
{
    struct relay_session *s = relay_session_of(c);

    engine_session_set_hint(all_of(s)->engine, conn_space(c), s->id, hint);
}

static struct slice session_hint(const struct conn *c)
{
    const struct relay_session *s = relay_session_of(c);
    const struct session *record =
        s->record >= RECORD_RESTORED ? engine_session_find(conn_space(&s->conn), s->id) : NULL;

    return record == NULL || record->hint == NULL ? (struct slice){0} : blob_slice(record->hint);
}

/* Checks the number of the request of which the frame brings a part: one above the last request.
 * The first frame after OPEN sets the count, since a relay that is back begins with its oldest
 * request without an answer. Returns NULL, or why the frame is refused. */
static const char *check_request_number(struct relay_session *s, const struct relay_frame *frame)
{
    uint64_t next = s->executed + s->ahead + 1; /* 0 if it wraps, which no frame may have */

    if (frame->number == 0 || (s->is_partial && frame->number != next))
        return "a frame of another request within a request";
    if (s->conn.may_repeat && s->ahead == 0 && !s->is_partial) {
        s->executed = frame->number - 1;
        return NULL;
    }
    if (s->ahead == UINT32_MAX)
        return "more requests than a session may have open";
    return frame->number == next ? NULL : "the number of a request is none that may come";
}

const char *relay_session_feed(struct relay_session *s, const struct relay_frame *frame,
                               uint8_t *payload)
{
    struct conn *c = &s->conn;
    const char *wrong;

    if (relay_session_was_dropped(s) || c->end != CONN_OPEN)
        return NULL; /* the session is ending, which the relay does not know yet */
    wrong = check_request_number(s, frame);
    if (wrong != NULL) { /* the relay has lost count of this session; the others go on */
        conn_drop(c, DROP_MALFORMED, wrong, (struct slice){0});
        return NULL;
    }
    s->is_partial = (frame->flags & RELAY_MORE) != 0;
    if (!s->is_partial)
        s->ahead++;
    if (!input_feed(c, payload, frame->payload.len)) { /* a relay of the releases before */
        conn_drop(c, DROP_LIMIT, "more requests than a session may have open", (struct slice){0});
        return NULL;
    }
    if (c->end != CONN_OPEN || !relay_session_has_link(s) || s->is_partial)
        return NULL;
    if (c->in == NULL ? s->ahead != 0 : c->input == INPUT_READY)
        return "a frame that ends within a request";
    return NULL;
}

/* --- Attached, or not. --- */

static bool is_attached(const struct conn *c)
{
    return relay_session_has_link(relay_session_of(c));
}

static void session_note_closed(struct conn *c)
{
    struct relay_session *s = relay_session_of(c);
    const struct relay_link *link = relay_session_link(s);
    const struct relay_links *all = link->all;

    if (relay_session_has_link(s) && s->state != RELAYED_CLOSING && link->conn->end == CONN_OPEN)
        relay_session_put(s, RELAY_ENDED, 0, 0, slice_str(c->session.reason));
    if (s->is_in_link)
        relay_session_end_turn(s);
    stop_missing(s);
    if (all->stopping || all->net->draining)
        relay_session_free(s);
    else
        relayed_session_end_or_keep(s);
}

static void session_note_freed(struct conn *c)
{
    struct relay_session *s = relay_session_of(c);

    s->keeps_conn = false;
    session_free_memory(s);
}

static struct peer session_local(const struct conn *c)
{
    return relay_session_of(c)->local;
}

const struct backend_functions relay_session_functions = {.send = relay_session_send,
                                                          .begin = session_begin_request,
                                                          .done = session_note_done,
                                                          .woken = session_wake,
                                                          .bound = session_set_store,
                                                          .keep_hint = session_keep_hint,
                                                          .hint = session_hint,
                                                          .is_attached = is_attached,
                                                          .local = session_local,
                                                          .closed = session_note_closed,
                                                          .freed = session_note_freed};

/* It has left that link. If the relay has closed the link, the relay has perhaps ended. */
static void list_detached(struct relay_session *s)
{
    const struct relay_link *link = relay_session_link(s);
    bool is_lost = link->conn == NULL;

    s->detached_ms = is_lost ? link->since_ms : engine_lived_ms(all_of(s)->engine);
    relay_session_enter(s, RELAYED_DETACHED);
    if (c10d_set_presence(&s->conn, C10D_AWAY) && is_lost && link->peer_left)
        relay_session_enter(s, RELAYED_AWAITED);
}

void relay_session_detach(struct relay_session *s)
{
    const struct relay_links *all = all_of(s);
    struct conn *c = &s->conn;

    if (relay_session_was_dropped(s)) {
        session_leave_channel(s);
        s->detached_ms = engine_lived_ms(all->engine);
        return;
    }
    if (all->stopping || all->net->draining || c->end != CONN_OPEN) {
        conn_close(c, "its relay has gone");
        return;
    }
    relay_session_end_turn(s);
    session_leave_channel(s);
    c10d_end_long(c);
    conn_forget_bytes(c);
    relay_session_forget_answers(s);
    s->is_partial = false;
    list_detached(s);
}

void relay_session_give_up(struct relay_session *s)
{
    relay_session_enter(s, RELAYED_DETACHED);
    c10d_set_presence(&s->conn, C10D_GONE);
}

/* What the relay has to know before it sends the rest again. */
static void prepare_opened(struct relay_session *s)
{
    const struct session *record = engine_session_find(conn_space(&s->conn), s->id);

    if (record != NULL)
        note_kept(s);
    else
        set_record(s, RECORD_NONE);
    s->opened_flags = record == NULL ? 0 : record->flags | RELAY_KNOWN;
    s->notified = record == NULL ? 0 : record->number;
    s->executed = s->changed = s->notified;
    s->ahead = 0;
    s->has_done = false;
    conn_note_output(&s->conn);
    if (s->opened_flags & RELAY_ANSWERED) {
        conn_put(&s->conn, record->answer, record->answer_len);
        if (record->popped != NULL)
            conn_share_counted(&s->conn, record->popped);
        relay_session_note_answers(s);
    }
}

static void session_attach(struct relay_session *s, struct relay_link *link, uint32_t channel)
{
    relay_session_enter(s, RELAYED_OPENING);
    link->refs++;
    relay_link_unref(relay_session_link(s));
    s->conn.backend = &link->clients;
    s->is_in_link = true;
    s->channel = channel;
    s->by_channel.near = TABLE_NEAR(sizeof s->by_channel, sizeof s->channel);
    table_add(&link->channels, (struct table_node *)&s->by_channel);
    TAILQ_INSERT_TAIL(&link->sessions, s, entry);
    s->conn.may_repeat = true;
    s->sent_reads = !link->shares;
    prepare_opened(s);
}

/* --- Beginning and end. --- */

struct relay_session *relay_session_of_id(const struct relay_links *all,
                                          const struct engine_space *space, uint64_t id)
{
    const struct table_node *node =
        table_find(&all->sessions, (struct slice){(const uint8_t *)&id, sizeof id});

    for (; node != NULL; node = table_find_next(&all->sessions, node)) {
        struct relay_session *s = (void *)((uintptr_t)node - offsetof(struct relay_session, by_id));

        if (conn_space(&s->conn) == space)
            return s;
    }
    return NULL;
}

/* From a text; zero, as for a Unix socket, if the text is no address. */
static struct peer peer_from(const char *host, uint32_t port)
{
    struct peer p = {.address = {[10] = 0xff, [11] = 0xff},
                     .port = port <= UINT16_MAX ? (uint16_t)port : 0};

    if (inet_pton(AF_INET, host, p.address + 12) != 1 && inet_pton(AF_INET6, host, p.address) != 1)
        memset(p.address, 0, sizeof p.address);
    return p;
}

/* A client that is on the relay's own machine is where the relay is. */
static struct peer seen_from_here(const struct relay_link *link, const Rdzv__RelayOpen *open)
{
    const struct peer there = peer_from(open->peer_host, open->peer_port);
    struct peer peer = link->conn->peer;

    if (!peer_is_loopback(&there) && !peer_is_unix(&there))
        return there;
    peer.port = there.port;
    return peer;
}

static struct relay_session *session_make(struct relay_link *link, const Rdzv__RelayOpen *open)
{
    struct relay_links *all = link->all;
    struct relay_session *s = account_request_zeroed(ACCOUNT_SESSIONS, ACCOUNT_SMALL, SESSION_SIZE);
    const struct peer peer = seen_from_here(link, open);

    if (s == NULL)
        return NULL;
    conn_init_relayed(&s->conn, link->conn->listener, link->space, &peer, &link->clients);
    link->refs++;
    s->keeps_conn = true;
    s->id = open->session;
    s->local = peer_from(open->local_host, open->local_port);
    s->by_id.near = TABLE_NEAR(sizeof s->by_id, sizeof s->id);
    table_add(&all->sessions, (struct table_node *)&s->by_id);
    c10d_begin(all->c10d, &s->conn, (enum c10d_version)open->c10d_version, open->pings);
    return s;
}

/* The engine may have a record from before the restart, or from before the session was dropped. The
 * record does not name the agent yet. */
static bool session_restore(struct relay_session *s, bool was_dropped)
{
    const struct session *record = engine_session_find(conn_space(&s->conn), s->id);

    if (record == NULL)
        return true;
    if (!was_dropped)
        set_record(s,
                   conn_space(&s->conn)->sessions_missing > 0 ? RECORD_MISSING : RECORD_RESTORED);
    if (record->is_worker)
        stop_missing(s);
    return c10d_restore(&s->conn, record->is_worker ? record->worker_store : 0);
}

/* NULL: there is room for one more session. */
static const char *why_no_room(const struct relay_link *link)
{
    const struct relay_links *all = link->all;
    uint32_t max = all->config->limits.connections_max;

    if (max != 0 && all->net->conn_count - all->net->probation_count >= max)
        return "the store has as many connections as it may, see --connection-limit";
    if (link->channels.count >= all->clients_max)
        return "its relay has reached the limit of clients";
    return NULL;
}

/* `dropped`: the session before, whose record the new one takes over; NULL: there is none. Without
 * memory for the new session, the sweep ends the record. While the dropped session is there, the
 * sweep leaves its record alone: if the record ended, a client whose answer was lost would have its
 * change carried out twice. */
static struct relay_session *open_new(struct relay_link *link, const Rdzv__RelayOpen *open,
                                      struct relay_session *dropped)
{
    struct relay_session *s;

    if (dropped != NULL)
        relay_session_free(dropped);
    s = session_make(link, open);
    if (s == NULL && dropped != NULL)
        relay_links_restart_sweep(link->all);
    return s;
}

void relay_session_open(struct relay_link *link, uint32_t channel, const Rdzv__RelayOpen *open)
{
    struct relay_links *all = link->all;
    struct relay_session *s = relay_session_of_id(all, link->space, open->session);
    struct relay_frame refusal = {.kind = RELAY_ENDED, .channel = channel};
    const char *why = NULL;
    bool is_new, was_dropped;

    /* The OPEN comes late, on a link that the relay has already replaced. That link will end by
     * itself; until then, its further frames name an unknown channel. */
    if (s != NULL && open->link != 0 && open->link < relay_session_link(s)->number)
        return;
    if (s != NULL && s->is_in_link && !relay_session_was_dropped(s)) {
        if (relay_session_has_link(s)) /* the relay has noticed the loss before this store */
            relay_session_put(s, RELAY_ENDED, 0, 0,
                              slice_str("another link has opened the session"));
        relay_session_detach(s);
    }
    s = relay_session_of_id(all, link->space, open->session); /* what was about to end has ended */
    was_dropped = s != NULL && relay_session_was_dropped(s);
    is_new = s == NULL || was_dropped;
    if (is_new) {
        why = why_no_room(link);
        s = why == NULL ? open_new(link, open, s) : NULL; /* refused: the dropped session stays */
    } else {
        s->conn.peer = seen_from_here(link, open);
        s->local = peer_from(open->local_host, open->local_port);
    }
    if (s == NULL) {
        refusal.payload =
            slice_str(why != NULL ? why : "the store has no memory for it, see --memory-limit");
        relay_link_put(link, &refusal);
        return;
    }
    link->number = open->link;
    session_attach(s, link, channel);
    if (is_new && !session_restore(s, was_dropped)) {
        conn_drop(&s->conn, DROP_NO_MEMORY, "its worker store could not be read at the start",
                  (struct slice){0});
        return;
    }
    all->engine->stats.sessions_resumed += open->resumes && s->record != RECORD_NONE;
    c10d_set_presence(&s->conn, C10D_HERE);
}

void relay_session_close(struct relay_session *s)
{
    struct conn *c = &s->conn;

    if (relay_session_was_dropped(s)) {
        relayed_session_end(s);
        return;
    }
    if (s->state != RELAYED_CLOSING)
        relay_session_enter(s, RELAYED_CLOSING);
    if (c->end == CONN_OPEN && (c->input == INPUT_DEFERRED || c->input == INPUT_PAUSED))
        conn_set_end(c, CONN_PEER_ENDED); /* it ends when all is carried out */
    else if (c->end != CONN_PEER_ENDED)
        conn_close(c, "its client has left");
}

void relay_session_time_out(struct relay_session *s)
{
    all_of(s)->engine->stats.sessions_timed_out++;
    log_limited(LOG_WARN, "session_timeout", log_str("peer", CONN_PEER(&s->conn)),
                log_str("space", conn_space(&s->conn)->store->name),
                log_str("reason", "its relay has not come back for --session-timeout"));
    conn_close(&s->conn, "its relay has not come back for --session-timeout");
}
