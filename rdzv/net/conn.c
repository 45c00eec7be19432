/* One accepted connection. See conn.h for the contract. */
#include "rdzv/net/conn.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "rdzv/net/listen.h"
#include "rdzv/sessions.h"

/* A peer that sends on while its watch is open may be this far ahead. */
#define PARKED_INPUT_MAX (1u << 20)

/* Room made at a time for the rest of a request: what is here already, but at least this much. So
 * memory follows what a peer has sent, never what it has announced. */
#define INPUT_STEP (16u * 1024)

/* A peer's share of a turn, in bytes that are looked at or rendered: about a millisecond. */
#define TURN_SHARE (1u << 20)

static void on_event(evutil_socket_t fd, short what, void *arg);

struct server *conn_server(const struct conn *c)
{
    return c->listener->server;
}

/* --- Who it is. --- */

static void keep_peer(struct conn *c, const struct sockaddr *peer)
{
    if (peer->sa_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)peer;

        memcpy(c->peer_address, &in6->sin6_addr, 16);
        c->peer_port = ntohs(in6->sin6_port);
    } else {
        const struct sockaddr_in *in4 = (const struct sockaddr_in *)(const void *)peer;

        c->peer_address[10] = c->peer_address[11] = 0xff;
        memcpy(c->peer_address + 12, &in4->sin_addr, 4);
        c->peer_port = ntohs(in4->sin_port);
    }
}

static bool is_mapped(const uint8_t address[16])
{
    static const uint8_t prefix[12] = {[10] = 0xff, [11] = 0xff};

    return memcmp(address, prefix, sizeof prefix) == 0;
}

const char *conn_peer(const struct conn *c, char text[CONN_PEER_MAX])
{
    char host[INET6_ADDRSTRLEN];

    if (is_mapped(c->peer_address)) {
        inet_ntop(AF_INET, c->peer_address + 12, host, sizeof host);
        snprintf(text, CONN_PEER_MAX, "%s:%u", host, c->peer_port);
    } else {
        inet_ntop(AF_INET6, c->peer_address, host, sizeof host);
        snprintf(text, CONN_PEER_MAX, "[%s]:%u", host, c->peer_port);
    }
    return text;
}

bool conn_peer_is_loopback(const struct conn *c)
{
    static const uint8_t loopback6[16] = {[15] = 1};

    return is_mapped(c->peer_address) ? c->peer_address[12] == 127
                                      : memcmp(c->peer_address, loopback6, 16) == 0;
}

const char *conn_version(const struct conn *c)
{
    switch ((enum conn_protocol)c->protocol) {
    case CONN_C10D:
        return c10d_version_name((enum c10d_version)c->version);
    case CONN_HTTP:
        return "http";
    case CONN_UNDECIDED:
        break;
    }
    return "none";
}

/* --- States. --- */

/* Every change of state comes through here; the table is the picture of the machine. */
static void enter(struct conn *c, enum conn_state next)
{
    static const unsigned legal[] = {
        [CONN_OPEN] = 1u << CONN_FINISHING | 1u << CONN_CLOSED,
        [CONN_FINISHING] = 1u << CONN_CLOSED,
        [CONN_CLOSED] = 0, /* the only way out is conn_free() */
    };

    assert(legal[c->state] & 1u << next);
    c->state = (uint8_t)next;
}

/* Tells libevent what the connection waits for now. */
static void arm(struct conn *c)
{
    bool reads =
        !c->saw_eof && (c->lingers || (c->state == CONN_OPEN && !c->paused && !c->yielded));
    short mask = (short)((reads ? EV_READ : 0) | (c->writing ? EV_WRITE : 0));
    evutil_socket_t fd = event_get_fd(&c->event);

    if (c->state == CONN_CLOSED || mask == c->mask)
        return;
    if (c->mask != 0)
        event_del(&c->event);
    c->mask = (uint8_t)mask;
    event_assign(&c->event, conn_server(c)->base, fd, (short)(mask | EV_PERSIST), on_event, c);
    if (mask != 0)
        event_add(&c->event, NULL);
}

static void unset_late(struct conn *c)
{
    if (c->is_late)
        TAILQ_REMOVE(&conn_server(c)->late, c, late);
    c->is_late = false;
}

static void set_late(struct conn *c)
{
    if (c->is_late)
        return;
    c->is_late = true;
    c->late_since_ms = server_now_ms();
    TAILQ_INSERT_TAIL(&conn_server(c)->late, c, late);
}

/* Somebody owes something: the peer the rest of a request, or its attention to our answers. An idle
 * peer owes nothing, for however long. `moved`: something came or went, so the time starts anew. */
static void judge(struct conn *c, bool moved)
{
    bool half = c->lingers || c->owes || (c->in != NULL && !c->parked && !c->paused && !c->yielded);

    if (moved || !(half || c->writing))
        unset_late(c);
    if (half || c->writing)
        set_late(c);
}

struct conn *conn_new(struct server *s, struct listener *listener, int fd,
                      const struct sockaddr *peer)
{
    struct conn *c = calloc(1, sizeof *c);

    if (c == NULL) {
        close(fd);
        return NULL;
    }
    c->listener = listener;
    listener->conns++;
    c->space = listener->space;
    keep_peer(c, peer);
    outq_init(&c->out);
    TAILQ_INSERT_TAIL(&s->conns, c, entry);
    s->conn_count++;
    s->stats.accepted++;
    c->mask = EV_READ;
    event_assign(&c->event, s->base, fd, EV_READ | EV_PERSIST, on_event, c);
    event_add(&c->event, NULL);
    return c;
}

static void end_session(struct conn *c)
{
    if (c->protocol == CONN_C10D)
        c10d_session_end(c);
    else if (c->protocol == CONN_HTTP)
        http_session_end(c);
    c->protocol = CONN_UNDECIDED;
}

static void shut(struct conn *c)
{
    struct server *s = conn_server(c);

    end_session(c);
    unset_late(c);
    if (c->yielded)
        TAILQ_REMOVE(&s->again, c, again);
    c->yielded = false;
    if (c->mask != 0)
        event_del(&c->event);
    c->mask = 0;
    enter(c, CONN_CLOSED);
    TAILQ_REMOVE(&s->conns, c, entry);
    TAILQ_INSERT_TAIL(&s->closed, c, entry);
    s->stats.closed++;
}

static void mark_dirty(struct conn *c);

void conn_close(struct conn *c, const char *reason)
{
    char peer[CONN_PEER_MAX];

    if (c->state == CONN_CLOSED)
        return;
    if (c->protocol != CONN_UNDECIDED || c->in != NULL)
        log_event(LOG_DEBUG, "closed", log_str("peer", conn_peer(c, peer)),
                  log_str("protocol", conn_version(c)), log_str("reason", reason));
    shut(c);
}

void conn_cut(struct conn *c, const char *reason, struct slice detail)
{
    char peer[CONN_PEER_MAX];

    if (c->state == CONN_CLOSED)
        return;
    if (detail.len != 0)
        log_limited(LOG_WARN, "dropped", log_str("peer", conn_peer(c, peer)),
                    log_str("protocol", conn_version(c)), log_str("space", c->space->name),
                    log_str("reason", reason), log_bytes("detail", detail));
    else
        log_limited(LOG_WARN, "dropped", log_str("peer", conn_peer(c, peer)),
                    log_str("protocol", conn_version(c)), log_str("space", c->space->name),
                    log_str("reason", reason));
    conn_server(c)->stats.cut++;
    if (c->state != CONN_OPEN || c->out.bytes == 0 || c->writing) {
        shut(c);
        return;
    }
    /* What came before the offence has had its effect, and its answers are sent; once. */
    end_session(c);
    unset_late(c);
    c->is_cut = true;
    conn_finish(c);
}

static void mark_dirty(struct conn *c)
{
    if (c->is_dirty)
        return;
    c->is_dirty = true;
    STAILQ_INSERT_TAIL(&conn_server(c)->dirty, c, dirty);
}

void conn_finish(struct conn *c)
{
    if (c->state != CONN_OPEN)
        return;
    enter(c, CONN_FINISHING);
    mark_dirty(c); /* the end of the turn sends the rest, or closes at once */
}

void conn_finish_lingering(struct conn *c)
{
    c->lingers = c->state == CONN_OPEN && !c->saw_eof;
    conn_finish(c);
}

void conn_free(struct conn *c)
{
    struct server *s = conn_server(c);

    assert(c->state == CONN_CLOSED && !c->is_dirty);
    TAILQ_REMOVE(&s->closed, c, entry);
    s->conn_count--;
    outq_fini(&c->out, &s->pool);
    free(c->in);
    close(event_get_fd(&c->event));
    listen_conn_gone(c->listener);
    free(c);
}

void conn_cut_late(struct server *s, uint64_t deadline_ms)
{
    struct conn *c;

    while ((c = TAILQ_FIRST(&s->late)) != NULL && c->late_since_ms <= deadline_ms)
        conn_cut(c,
                 c->writing ? "does not read its answers"
                            : "half a request for too long, see --request-timeout",
                 (struct slice){0});
}

/* --- Input. --- */

/* The first byte tells HTTP from c10d, and at most four more tell c10d's version. */
static enum parse_result decide(struct conn *c, const uint8_t *in, size_t len, size_t *used)
{
    const struct config *config = conn_server(c)->config;
    enum c10d_version legacy = config->snapshot_opcodes == CONFIG_SNAPSHOT_OPCODES_X1 ? C10D_X1
                               : config->snapshot_opcodes == CONFIG_SNAPSHOT_OPCODES_X2
                                   ? C10D_X2
                                   : C10D_LEGACY;
    enum c10d_version version = C10D_LEGACY;
    enum parse_result result;

    *used = 0;
    if (in[0] >= 'A' && in[0] <= 'Z') {
        c->protocol = CONN_HTTP;
        return http_session_begin(c) ? PARSE_DONE : PARSE_BAD;
    }
    if (c->listener->spec->metrics_only) {
        conn_cut(c, "this listener answers HTTP alone", (struct slice){0});
        return PARSE_BAD;
    }
    result = c10d_detect((struct slice){in, len}, legacy, config->legacy, &version, used);
    if (result == PARSE_MORE)
        c->need = *used;
    if (result == PARSE_BAD) {
        const char *reason = in[0] == 0x16 ? "TLS, which this listener does not speak: use http://"
                             : in[0] == 0 || in[0] <= 12 ? "legacy c10d version, or a bad VALIDATE"
                                                         : "no protocol spoken here begins so";

        conn_cut(c, reason, (struct slice){in, len < 16 ? len : 16});
    }
    if (result != PARSE_DONE)
        return result;
    c->protocol = CONN_C10D;
    c->version = (uint8_t)version;
    c10d_session_begin(c);
    return PARSE_DONE;
}

/* Shows the session what is here; returns how much of it is done with. */
static size_t run(struct conn *c, uint8_t *in, size_t len)
{
    size_t used = 0, more = 0;
    enum session_result result;

    if (c->protocol == CONN_UNDECIDED && decide(c, in, len, &used) != PARSE_DONE)
        return 0;
    if (used == len) {
        c->need = 1;
        return used;
    }
    result = c->protocol == CONN_C10D ? c10d_session_read(c, in + used, len - used, &more)
                                      : http_session_read(c, in + used, len - used, &more);
    c->parked = result == SESSION_PARKED;
    c->paused = result == SESSION_PAUSED;
    if (result == SESSION_YIELDED && !c->yielded) {
        c->yielded = true;
        TAILQ_INSERT_TAIL(&conn_server(c)->again, c, again);
    }
    if (c->paused)
        mark_dirty(c); /* the end of the turn makes room and goes on, or cuts */
    return used + more;
}

/* Keeps the part of a request that is here, and nothing when there is none. */
static bool keep_rest(struct conn *c, const uint8_t *rest, size_t len)
{
    if (len == 0)
        return true;
    c->in = malloc(sizeof *c->in + len);
    if (c->in == NULL) {
        conn_cut(c, "out of memory", (struct slice){0});
        return false;
    }
    *c->in = (struct inbuf){.len = len, .cap = len};
    memcpy(c->in->bytes, rest, len);
    return true;
}

/* What is left may stay for as long as a watch is open: not in the room of the large request that
 * was before it. Nothing is moved before as much has been done with as there is left to move. */
static void give_back(struct conn *c)
{
    struct inbuf *in = c->in;

    if (in->start <= in->len || in->start < INPUT_STEP)
        return;
    memmove(in->bytes, in->bytes + in->start, in->len);
    in->start = 0;
    in = realloc(in, sizeof *in + in->len);
    if (in == NULL)
        return;
    in->cap = in->len;
    c->in = in;
}

void conn_process(struct conn *c)
{
    size_t used;

    if (c->in == NULL || c->state != CONN_OPEN || c->yielded)
        return;
    used = run(c, c->in->bytes + c->in->start, c->in->len);
    if (c->state == CONN_CLOSED)
        return;
    c->in->start += used;
    c->in->len -= used;
    if (c->in->len == 0) {
        free(c->in);
        c->in = NULL;
    } else {
        give_back(c);
    }
    judge(c, used > 0);
    arm(c);
}

/* Makes room behind what is here; false when memory is short. A list and a chunked body know no
 * more than their next few bytes: there the buffer grows by half of what it holds, or a large one
 * would be copied for every few bytes of it. */
static bool make_room(struct conn *c)
{
    struct inbuf *in = c->in;
    size_t want = c->need > in->len ? c->need - in->len : 1;
    size_t step = in->len > INPUT_STEP ? in->len : INPUT_STEP;
    size_t least = in->len / 2 > 512 ? in->len / 2 : 512;

    if (in->start > 0)
        memmove(in->bytes, in->bytes + in->start, in->len);
    in->start = 0;
    if (in->cap > in->len)
        return true;
    if (want > step)
        want = step;
    if (want < least)
        want = least;
    in = realloc(in, sizeof *in + in->len + want);
    if (in == NULL)
        return false;
    in->cap = in->len + want;
    c->in = in;
    return true;
}

static void on_eof(struct conn *c)
{
    c->saw_eof = true;
    if (c->protocol == CONN_HTTP && http_session_eof(c)) {
        arm(c);
        return;
    }
    if (c->out.bytes > 0)
        conn_finish(c); /* it may have shut only its own side, and still read */
    else
        conn_close(c, "peer left");
    arm(c);
}

/* What recv() said when it gave no bytes. */
static void on_no_bytes(struct conn *c, ssize_t n, int error)
{
    if (n == 0)
        on_eof(c);
    else if (error != EAGAIN && error != EINTR)
        conn_close(c, strerror(error));
}

static void receive(struct conn *c)
{
    struct server *s = conn_server(c);
    int fd = event_get_fd(&c->event);
    ssize_t n;

    if (c->state == CONN_FINISHING) { /* lingering */
        n = recv(fd, s->recv_buf, SERVER_RECV_SIZE, 0);
        if (n == 0 && c->out.bytes > 0) { /* it may have shut only its own side, and still read */
            c->saw_eof = true;
            c->lingers = false;
            arm(c);
        } else if (n == 0) {
            conn_close(c, "done");
        } else if (n < 0) {
            on_no_bytes(c, n, errno);
        }
        return;
    }
    if (c->in == NULL) {
        size_t used;

        n = recv(fd, s->recv_buf, SERVER_RECV_SIZE, 0);
        if (n <= 0) {
            on_no_bytes(c, n, errno);
            return;
        }
        used = run(c, s->recv_buf, (size_t)n);
        if (c->state != CONN_OPEN || !keep_rest(c, s->recv_buf + used, (size_t)n - used))
            return;
        if (c->in != NULL || c->is_late || c->paused || c->owes) {
            judge(c, true);
            arm(c);
        }
        return;
    }

    if (!make_room(c)) {
        conn_cut(c, "out of memory", (struct slice){0});
        return;
    }
    n = recv(fd, c->in->bytes + c->in->len, c->in->cap - c->in->len, 0);
    if (n <= 0) {
        on_no_bytes(c, n, errno);
        return;
    }
    c->in->len += (size_t)n;
    if (!c->parked && c->in->len >= c->need)
        conn_process(c);
    else if (c->parked && c->in->len > c->need + PARKED_INPUT_MAX)
        conn_cut(c, "too much sent behind an open watch or a request that waits",
                 (struct slice){0});
}

static void on_event(evutil_socket_t fd, short what, void *arg)
{
    struct conn *c = arg;

    (void)fd;
    if (what & EV_WRITE)
        mark_dirty(c);
    if (what & EV_READ)
        receive(c);
}

/* --- Output. --- */

void conn_put(struct conn *c, const void *bytes, size_t len)
{
    mark_dirty(c);
    outq_put(&c->out, &conn_server(c)->pool, bytes, len);
}

uint8_t *conn_reserve(struct conn *c, size_t len)
{
    mark_dirty(c);
    return outq_reserve(&c->out, &conn_server(c)->pool, len);
}

void conn_put_blob(struct conn *c, struct blob *b)
{
    mark_dirty(c);
    outq_put_blob(&c->out, &conn_server(c)->pool, b);
}

bool conn_may_answer(struct conn *c)
{
    return c->out.bytes <= conn_server(c)->config->limits.output_max;
}

bool conn_has_turn(struct conn *c)
{
    uint64_t turn = conn_server(c)->stats.turns;

    if (c->spent_in != turn)
        c->spent = 0;
    c->spent_in = turn;
    return c->spent < TURN_SHARE;
}

void conn_spend(struct conn *c, size_t cost)
{
    c->spent = cost < TURN_SHARE - c->spent ? c->spent + (uint32_t)cost : TURN_SHARE;
}

void conn_continue(struct conn *c)
{
    TAILQ_REMOVE(&conn_server(c)->again, c, again);
    c->yielded = false;
    conn_process(c);
    arm(c);
    if (c->saw_eof && c->state == CONN_OPEN)
        mark_dirty(c); /* the flush sees to its end */
}

void conn_unpark(struct conn *c)
{
    if (!c->parked || c->yielded || c->state != CONN_OPEN)
        return;
    c->parked = false;
    c->yielded = true;
    TAILQ_INSERT_TAIL(&conn_server(c)->again, c, again);
}

bool conn_may_push(struct conn *c)
{
    if (conn_may_answer(c))
        return true;
    conn_cut(c, "does not read its answers, the output limit is reached", (struct slice){0});
    return false;
}

/* After a flush: a paused peer goes on when there is room again. In c10d nobody has a second
 * request under way while an answer is due, so a peer that has filled its queue does not read. HTTP
 * clients may pipeline: they wait, as long as they read at all (see judge()). */
static void unpause(struct conn *c)
{
    if (!conn_may_answer(c)) {
        if (c->protocol == CONN_C10D)
            conn_may_push(c);
        return;
    }
    c->paused = false;
    conn_process(c);
}

void conn_flush(struct conn *c)
{
    struct server *s = conn_server(c);
    size_t before = c->out.bytes;
    int err;

    c->is_dirty = false;
    if (c->state == CONN_CLOSED)
        return;
    err = outq_send(&c->out, &s->pool, event_get_fd(&c->event));
    if ((err < 0 && err != -EAGAIN) || (err == -EAGAIN && c->is_cut)) {
        conn_close(c, strerror(-err));
        return;
    }
    if (err == 0 && c->state == CONN_FINISHING && !c->lingers) {
        conn_close(c, "done");
        return;
    }
    if (err == 0 && c->state == CONN_FINISHING)
        shutdown(event_get_fd(&c->event), SHUT_WR);
    if (err == 0 && !c->writing && !c->paused && !c->lingers && !c->saw_eof)
        return; /* what nearly always happens */
    c->writing = err == -EAGAIN;
    judge(c, c->out.bytes != before);
    if (c->paused)
        unpause(c);
    if (c->saw_eof && c->state == CONN_OPEN && !c->paused && !c->yielded)
        on_eof(c); /* it came behind requests that had to wait, and now have been seen to */
    arm(c);
}
