/* The connection to the store. See upstream.h for the contract. */
#include "rdzv/relay/upstream.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "proto/tls/tls.h"
#include "rdzv/engine/log.h"
#include "rdzv/net/tls.h"

#define IN_SIZE (256u << 10)

/* The most bytes that are queued at a time: beyond it, sessions wait with their requests. */
#define QUEUED_MAX (1u << 20)

#define HELLO_MS 10000u /* from HELLO to WELCOME */

/* A link that lived for less is a failure. */
#define LIVED_MS 1000u

/* The same failure again is logged after so long. */
#define SAID_AGAIN_MS 60000u

#define FAILURES_MOST 100u

/* Nanoseconds, see iteration.h. */
#define RECEIVE_COST 1000u
#define FRAME_COST   200u
#define SEND_COST    2500u

static void upstream_fail(struct upstream *u, const char *why);

static uint64_t lived_ms(const struct upstream *u)
{
    return engine_lived_ms(u->net->engine);
}

static uint64_t since_ms(const struct upstream *u, uint64_t then)
{
    return clock_elapsed_ms(then, lived_ms(u));
}

static struct upstream_times upstream_times(const struct upstream *u)
{
    return u->config->upstream_count > 1 || u->count > 1 ? UPSTREAM_ONE_OF : UPSTREAM_ALONE;
}

/* --- States. --- */

static void upstream_enter(struct upstream *u, enum upstream_state next)
{
    static const unsigned legal[] = {
        [UPSTREAM_WAITS] = 1u << UPSTREAM_LOOKS_UP,
        [UPSTREAM_LOOKS_UP] =
            1u << UPSTREAM_LOOKS_UP | 1u << UPSTREAM_CONNECTS | 1u << UPSTREAM_WAITS,
        [UPSTREAM_CONNECTS] = 1u << UPSTREAM_CONNECTS | 1u << UPSTREAM_SECURES |
                              1u << UPSTREAM_HELLO | 1u << UPSTREAM_LOOKS_UP | 1u << UPSTREAM_WAITS,
        [UPSTREAM_SECURES] = 1u << UPSTREAM_CONNECTS | 1u << UPSTREAM_HELLO |
                             1u << UPSTREAM_LOOKS_UP | 1u << UPSTREAM_WAITS,
        [UPSTREAM_HELLO] = 1u << UPSTREAM_CONNECTS | 1u << UPSTREAM_CONNECTED |
                           1u << UPSTREAM_LOOKS_UP | 1u << UPSTREAM_WAITS,
        [UPSTREAM_CONNECTED] = 1u << UPSTREAM_WAITS,
    };

    assert(legal[u->state] & 1u << next);
    u->state = (uint8_t)next;
    u->since_ms = lived_ms(u);
}

/* If memory is short, upstream_tick() sets the timer later. */
static void upstream_arm(struct upstream *u, uint32_t ms)
{
    net_set_timer(&u->timer, UINT64_C(1000) * ms);
}

/* What libevent watches for. False: it cannot, and the link has failed. */
static bool upstream_watch(struct upstream *u)
{
    bool secures = u->state == UPSTREAM_SECURES, writes = secures && tls_wants_write(u->tls);
    bool sends = u->state == UPSTREAM_CONNECTS || u->wants_to_send || writes;
    bool reads = u->state != UPSTREAM_CONNECTS && !writes;
    short mask = (short)((reads ? EV_READ : 0) | (sends ? EV_WRITE : 0));

    event_del(&u->event);
    event_assign(&u->event, u->net->base, u->fd, (short)(mask | EV_PERSIST),
                 event_get_callback(&u->event), u);
    if (net_add_event(&u->event, NULL))
        return true;
    upstream_fail(u, strerror(errno));
    return false;
}

static void upstream_disconnect(struct upstream *u)
{
    event_del(&u->event);
    tls_free(u->tls);
    u->tls = NULL;
    if (u->fd >= 0)
        close(u->fd);
    u->fd = -1;
    u->wants_to_send = false;
    outq_fini(&u->out, &u->net->pool);
    outq_init(&u->out);
    account_free(ACCOUNT_SESSIONS, u->in, IN_SIZE);
    u->in = NULL;
    u->in_len = 0;
}

/* --- Finding the store. --- */

uint32_t upstream_retry_ms(uint32_t failures, uint32_t random)
{
    uint32_t delay = UPSTREAM_RETRY_MOST_MS;

    if (failures == 0)
        return 0;
    if (failures < 6 && UPSTREAM_RETRY_FIRST_MS << (failures - 1) < UPSTREAM_RETRY_MOST_MS)
        delay = UPSTREAM_RETRY_FIRST_MS << (failures - 1);
    return delay - delay / 4 + random % (delay / 2 + 1);
}

static void name_target(struct upstream *u)
{
    const struct upstream_spec *spec = &u->config->upstreams[u->target];

    snprintf(u->where, sizeof u->where, strchr(spec->host, ':') != NULL ? "[%s]:%u" : "%s:%u",
             spec->host, spec->port);
}

static void write_note(struct upstream *u, struct upstream_note *note, const char *why)
{
    snprintf(note->text, sizeof note->text, "%s", why);
    memcpy(note->of, u->where, sizeof note->of);
    note->ms = lived_ms(u);
}

/* True: the caller must log the reason, which counts as logged from now on. */
static bool is_news(struct upstream *u, const char *why)
{
    bool same = strncmp(u->said.text, why, sizeof u->said.text - 1) == 0;

    if (same && since_ms(u, u->said.ms) < SAID_AGAIN_MS)
        return false;
    write_note(u, &u->said, why);
    return true;
}

static void say_failed(struct upstream *u, enum log_level level, const char *why)
{
    if (strcmp(u->where, u->refusal.of) == 0 && strcmp(why, u->refusal.text) != 0)
        u->refusal.text[0] = '\0'; /* that one says something else now */
    if (!is_news(u, why))
        return;
    log_limited(level, "upstream_failed", log_str("address", u->where), log_str("reason", why),
                log_u64("connections", u->relay->session_count));
}

/* All have been tried: the next round begins later. */
static void wait_for_next_round(struct upstream *u)
{
    u->failures += u->failures < FAILURES_MOST;
    u->jitter = u->jitter * 1664525u + 1013904223u;
    upstream_enter(u, UPSTREAM_WAITS);
    upstream_arm(u, upstream_retry_ms(u->refused ? FAILURES_MOST : u->failures, u->jitter >> 8));
    u->tried = 0;
    u->refused = false;
    u->waits = true;
}

int upstream_dial(const struct upstream *u)
{
    const union resolve_address *to = &u->addresses[u->at];
    const struct {
        int level, name, value;
    } options[] = {
        {IPPROTO_TCP, TCP_NODELAY, 1},
        {SOL_SOCKET, SO_KEEPALIVE, 1},
        {IPPROTO_TCP, TCP_KEEPIDLE, 5},
        {IPPROTO_TCP, TCP_KEEPINTVL, 3},
        {IPPROTO_TCP, TCP_KEEPCNT, 3},
        {IPPROTO_TCP, TCP_USER_TIMEOUT, (int)upstream_times(u).silent},
    };
    int fd = socket(to->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -1;
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
        setsockopt(fd, options[i].level, options[i].name, &options[i].value, sizeof(int));
    if (connect(fd, &to->any, resolve_address_len(to)) == 0 || errno == EINPROGRESS)
        return fd;
    return net_fail(fd, errno);
}

/* Connects to the address at which the list stands. A failure leads to the next address, the next
 * name or a wait: the state may be another one when this returns. The buffer may use the memory
 * that is kept for those who watch the daemon, since a relay without its link is of no use. */
static void upstream_connect(struct upstream *u)
{
    const struct peer peer = peer_of(&u->addresses[u->at].any);

    upstream_enter(u, UPSTREAM_CONNECTS);
    snprintf(u->where, sizeof u->where, "%s", PEER_TEXT(&peer));
    u->sockets++;
    u->in = account_request(ACCOUNT_SESSIONS, ACCOUNT_WATCHING, IN_SIZE);
    if (u->in == NULL) {
        upstream_fail(u, "no memory for the connection, see --memory-limit");
        return;
    }
    u->fd = upstream_dial(u);
    if (u->fd < 0)
        upstream_fail(u, strerror(errno));
    else if (upstream_watch(u))
        upstream_arm(u, upstream_times(u).connect);
}

static void upstream_on_resolved(void *arg, const union resolve_address *addresses, size_t count,
                                 const char *why)
{
    struct upstream *u = arg;

    u->resolve = NULL;
    if (count == 0) {
        upstream_fail(u, why);
        return;
    }
    memcpy(u->addresses, addresses, count * sizeof *addresses);
    u->count = count;
    upstream_connect(u);
}

/* The next target of this round. */
static void upstream_look_up(struct upstream *u)
{
    const struct upstream_spec *spec = &u->config->upstreams[u->target];

    name_target(u);
    upstream_enter(u, UPSTREAM_LOOKS_UP);
    u->tried++;
    u->count = u->at = 0;
    u->resolve = resolve_start(u->net->base, spec->host, spec->port, upstream_on_resolved, u);
    if (u->resolve == NULL)
        upstream_fail(u, strerror(errno));
}

/* What was tried has failed: the next address of the name, the next name, or later. */
static void next_try(struct upstream *u)
{
    if (u->at + 1 < u->count) {
        u->at++;
        upstream_connect(u);
        return;
    }
    u->target = (u->target + 1) % u->config->upstream_count;
    if (u->tried < u->config->upstream_count)
        upstream_look_up(u);
    else
        wait_for_next_round(u);
}

/* --- The end of a link. --- */

static void upstream_lose(struct upstream *u, const char *why)
{
    bool lived = since_ms(u, u->since_ms) >= LIVED_MS;

    log_event(LOG_WARN, "upstream_lost", log_str("address", u->where), log_str("reason", why),
              log_u64("connections", u->relay->session_count),
              log_u64("unconfirmed", u->relay->pending_count));
    u->relay->now_ns = clock_monotonic_ns(u->net->engine->options.clock);
    relay_link_down(u->relay);
    u->said.text[0] = u->refusal.text[0] = '\0';
    u->tried = 0;
    u->refused = u->waits = false;
    u->target = (u->target + 1) % u->config->upstream_count; /* this one comes last */
    u->failures = lived ? 0 : u->failures + (u->failures < FAILURES_MOST);
    upstream_enter(u, UPSTREAM_WAITS);
    upstream_arm(u, upstream_retry_ms(u->failures, u->jitter >> 8));
}

/* The try, or the link, is over. */
static void upstream_fail(struct upstream *u, const char *why)
{
    bool connected = u->state == UPSTREAM_CONNECTED;

    evtimer_del(&u->timer);
    upstream_disconnect(u);
    if (connected) {
        upstream_lose(u, why);
        return;
    }
    say_failed(u, LOG_WARN, why);
    next_try(u);
}

static void upstream_on_timer(evutil_socket_t, short, void *arg)
{
    struct upstream *u = arg;

    if (u->state == UPSTREAM_WAITS)
        upstream_look_up(u);
    else if (u->state == UPSTREAM_CONNECTS)
        upstream_fail(u, "no answer from this address");
    else if (u->state == UPSTREAM_SECURES)
        upstream_fail(u, "no answer in TLS");
    else if (u->state == UPSTREAM_HELLO)
        upstream_fail(u, "no answer to HELLO: is this a store?");
}

/* --- Frames of the link itself. --- */

static void upstream_put_frame(struct upstream *u, const struct relay_frame *frame)
{
    struct out_pool *pool = &u->net->pool;

    relay_put_head(outq_reserve(&u->out, pool, RELAY_HEAD_SIZE), frame);
    outq_put(&u->out, pool, frame->payload.ptr, frame->payload.len);
}

static void say_hello(struct upstream *u)
{
    char name[256] = "";
    uint8_t bytes[HELLO_FRAME_MAX];
    Rdzv__RelayHello hello = RDZV__RELAY_HELLO__INIT;

    gethostname(name, sizeof name - 1);
    hello.waits = u->waits;
    hello.shares = true;
    hello.space = hello_field(u->space);
    hello.name = name;
    hello.domain = hello_field(u->config->node_label.domain);
    hello.index = u->config->node_label.index;
    outq_put(&u->out, &u->net->pool, bytes, hello_write(bytes, &hello));
}

static void say_restart(struct upstream *u)
{
    uint8_t room[RESTART_MESSAGE_MAX];
    const struct relay_frame frame = restart_frame(u->restart, room);

    upstream_put_frame(u, &frame);
}

static bool is_replica(const struct upstream *u)
{
    return u->config->journal.url != NULL;
}

/* A store with another journal (one replica with a wrong --journal) would know none of the
 * sessions, and relays of the others would see nothing of its clients' changes. */
static bool is_our_journal(struct upstream *u, const struct hello_journal *theirs, char *why,
                           size_t size)
{
    const struct relay *r = u->relay;

    /* The last store has ended the sessions by now, so any store is as good. */
    if (!is_replica(u) && r->welcomed && r->session_timeout_ms != 0 &&
        (r->now_ns - r->away_since_ns) / 1000000 >= r->session_timeout_ms)
        u->journal = (struct hello_journal){0};
    if (hello_is_same_journal(&u->journal, theirs))
        return true;
    snprintf(why, size,
             "its journal is %s, on the etcd cluster %" PRIx64 ", and that of %s is %s, on %" PRIx64
             ": see --journal of both",
             theirs->name, theirs->cluster, is_replica(u) ? "this replica" : "the store before",
             u->journal.name, u->journal.cluster);
    return false;
}

/* NULL: it is welcome. */
static const char *why_not_there(struct upstream *u, const Rdzv__RelayWelcome *w, char *why,
                                 size_t size)
{
    struct hello_journal theirs;

    if (w == NULL || !hello_is_spoken(w))
        return "the store speaks another version of relay frames";
    theirs = hello_journal_of(w);
    if (!is_our_journal(u, &theirs, why, size))
        return why;
    if (!is_replica(u) && theirs.name[0] != '\0')
        u->journal = theirs;
    return NULL;
}

static void on_welcome(struct upstream *u, struct slice payload)
{
    Rdzv__RelayWelcome *w = rdzv__relay_welcome__unpack(NULL, payload.len, payload.ptr);
    char text[UPSTREAM_REASON_MAX];
    const char *why = why_not_there(u, w, text, sizeof text);

    if (why != NULL) {
        rdzv__relay_welcome__free_unpacked(w, NULL);
        if (why == text)
            write_note(u, &u->refusal, why);
        upstream_fail(u, why);
        return;
    }
    evtimer_del(&u->timer);
    upstream_enter(u, UPSTREAM_CONNECTED);
    u->said.text[0] = u->refusal.text[0] = '\0';
    u->version = w->version;
    hello_release(w->release, u->release);
    u->reconnects += u->relay->welcomed;
    log_event(u->reconnects != 0 || u->failures != 0 ? LOG_WARN : LOG_INFO, "upstream_connected",
              log_str("address", u->where), log_str("store", w->store),
              log_str("release", u->release), log_u64("frames", u->version),
              log_str("space", u->space), log_u64("connections", u->relay->session_count),
              log_u64("unconfirmed", u->relay->pending_count));
    relay_link_up(u->relay, w);
    if (u->restart != NULL)
        say_restart(u);
    rdzv__relay_welcome__free_unpacked(w, NULL);
}

static void on_refused(struct upstream *u, const struct relay_frame *frame)
{
    const struct slice why = frame->payload;
    char text[UPSTREAM_REASON_MAX];

    /* For /readyz, so without what would end a line or a word. */
    snprintf(text, sizeof text, "the store refuses this relay: %.*s", (int)why.len,
             (const char *)why.ptr);
    for (char *c = text; *c != '\0'; c++)
        *c = *c >= ' ' && *c < 0x7f ? *c : '?';
    if (frame->flags & RELAY_STANDS_BY) { /* as all replicas do but one */
        say_failed(u, LOG_INFO, text);
        if (u->waits) /* another replica leads, or this one lives: all are asked once more */
            u->tried = u->failures = 0;
        u->waits = false;
        upstream_fail(u, text);
        return;
    }
    write_note(u, &u->refusal, text);
    if (is_news(u, text))
        log_limited(LOG_WARN, "upstream_refused", log_str("address", u->where),
                    log_bytes("reason", why));
    u->refused = true;
    upstream_fail(u, text);
}

static void upstream_on_frame(struct upstream *u, const struct relay_frame *frame)
{
    const char *why;

    if (u->state == UPSTREAM_HELLO && frame->kind == RELAY_WELCOME) {
        on_welcome(u, frame->payload);
    } else if (frame->kind == RELAY_REFUSED) {
        on_refused(u, frame);
    } else if (u->state == UPSTREAM_HELLO) {
        upstream_fail(u, "the answer to HELLO is not WELCOME");
    } else if (frame->kind == RELAY_RESTART) {
        if (u->restart != NULL && !u->net->draining && restart_receive(u->restart, frame))
            say_restart(u);
    } else if (frame->kind != RELAY_PONG && (why = relay_receive(u->relay, frame)) != NULL) {
        upstream_fail(u, why);
    }
}

/* --- The socket. --- */

/* Handles whole frames at the start of the received bytes. Each of them may end the link. */
static void take_frames(struct upstream *u)
{
    uint32_t sockets = u->sockets;
    size_t used = 0;

    while (u->sockets == sockets && u->in != NULL) {
        struct slice rest = {u->in + used, u->in_len - used};
        struct relay_frame frame;
        size_t size;
        enum parse_result result = relay_parse(rest, &frame, &size);

        if (result == PARSE_BAD) {
            upstream_fail(u, u->state == UPSTREAM_HELLO ? "the peer is not a store of rdzvd"
                                                        : "malformed frames");
            return;
        }
        if (result == PARSE_MORE)
            break;
        used += size;
        budget_spend(&u->net->budget, FRAME_COST);
        upstream_on_frame(u, &frame);
    }
    if (u->sockets != sockets || u->in == NULL)
        return;
    u->in_len -= used;
    if (used > 0 && u->in_len > 0)
        memmove(u->in, u->in + used, u->in_len);
}

/* Explains a failed call of tls.h: which certificate was refused, the reason, and the remedy. */
static const char *upstream_tls_fault(const struct upstream *u, char why[UPSTREAM_REASON_MAX])
{
    static const char *const settings[] = {[TLS_MATTER_NONE] = "",
                                           [TLS_MATTER_CA] = " (--upstream-ca)",
                                           [TLS_MATTER_NAME] = " (--upstream-name)",
                                           [TLS_MATTER_OURS] =
                                               " (--upstream-cert and --upstream-key)"};
    char text[TLS_WHY_MAX];
    const struct tls_hint *hint = tls_hint(tls_why(u->tls, text));

    snprintf(why, UPSTREAM_REASON_MAX, "%s%.240s%s%s%s",
             hint->matter == TLS_MATTER_OURS
                 ? "the store refuses this relay's certificate, or misses one: "
                 : "",
             text, hint->text == NULL ? "" : "; ", hint->text == NULL ? "" : hint->text,
             settings[hint->matter]);
    return why;
}

/* Why a call for the socket has failed. */
static const char *failure_text(const struct upstream *u, int error, char why[UPSTREAM_REASON_MAX])
{
    return u->tls == NULL || error != EPROTO ? strerror(error) : upstream_tls_fault(u, why);
}

/* The store has closed the connection, and said nothing. */
static const char *why_closed(const struct upstream *u)
{
    if (u->state != UPSTREAM_HELLO)
        return "the store has closed the connection";
    if (u->tls_options->context != NULL)
        return "it closes the connection: is this address a store, and not a relay?";
    return "it closes the connection: is this address a store, and not a relay? If it wants TLS, "
           "name its CA with --upstream-ca";
}

static void upstream_receive(struct upstream *u)
{
    ssize_t n = tls_or_recv(u->tls, u->fd, u->in + u->in_len, IN_SIZE - u->in_len);
    char why[UPSTREAM_REASON_MAX];

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        upstream_fail(u, n < 0 ? failure_text(u, errno, why) : why_closed(u));
        return;
    }
    u->in_len += (size_t)n;
    u->heard_ms = lived_ms(u);
    if (u->tls != NULL && tls_has_pending(u->tls))
        event_active(&u->event, EV_READ, 1); /* unless the link ends with these frames */
    take_frames(u);
}

static void upstream_begin_hello(struct upstream *u)
{
    upstream_enter(u, UPSTREAM_HELLO);
    u->heard_ms = lived_ms(u);
    upstream_arm(u, HELLO_MS);
    say_hello(u);
    upstream_watch(u);
}

static void upstream_go_on_connecting(struct upstream *u)
{
    char why[UPSTREAM_REASON_MAX];
    int error = upstream_secure(u, u->fd, &u->tls);

    if (u->tls != NULL && u->state == UPSTREAM_CONNECTS) {
        upstream_enter(u, UPSTREAM_SECURES);
        upstream_arm(u, HELLO_MS);
    }
    if (error == 0)
        upstream_begin_hello(u);
    else if (error == -ENOMEM)
        upstream_fail(u, "no memory for TLS, see --memory-limit");
    else if (error != -EAGAIN)
        upstream_fail(u, failure_text(u, -error, why));
    else
        upstream_watch(u);
}

static void upstream_on_event(evutil_socket_t, short what, void *arg)
{
    struct upstream *u = arg;

    net_spend(u->net, RECEIVE_COST);
    u->relay->now_ns = clock_monotonic_ns(u->net->engine->options.clock);
    if (u->state == UPSTREAM_CONNECTS || u->state == UPSTREAM_SECURES) {
        upstream_go_on_connecting(u);
        return;
    }
    if (what & EV_WRITE) {
        u->wants_to_send = false;
        if (!upstream_watch(u))
            return;
    }
    if (what & EV_READ)
        upstream_receive(u);
}

static bool send_out(struct upstream *u)
{
    char why[UPSTREAM_REASON_MAX];
    int err;

    budget_spend(&u->net->budget, SEND_COST);
    err = u->tls == NULL ? outq_send(&u->out, &u->net->pool, u->fd, QUEUED_MAX)
                         : tls_send_queue(u->tls, &u->out, &u->net->pool, QUEUED_MAX);
    if (err < 0 && err != -EAGAIN) {
        upstream_fail(u, failure_text(u, -err, why));
        return false;
    }
    if (err == 0)
        return u->out.bytes > 0 || relay_has_output(u->relay);
    u->wants_to_send = true;
    upstream_watch(u);
    return false;
}

bool upstream_flush(struct upstream *u)
{
    struct relay *r = u->relay;

    if (u->state == UPSTREAM_CONNECTED && !u->wants_to_send && !TAILQ_EMPTY(&r->sending)) {
        r->now_ns = clock_monotonic_ns(u->net->engine->options.clock);
        relay_send(r, &u->out, QUEUED_MAX);
        if (r->due_ns > r->now_ns && r->due_ns != UINT64_MAX && !evtimer_pending(&u->timer, NULL))
            upstream_arm(u, (uint32_t)((r->due_ns - r->now_ns) / 1000000 + 1)); /* polls wait */
    }
    if (u->out.broken) {
        upstream_fail(u, "memory for output is short, see --memory-limit");
        return false;
    }
    return u->out.bytes > 0 && !u->wants_to_send && send_out(u);
}

/* --- Time. --- */

/* Bytes in the socket count before libevent reports them. */
static void look_alive(struct upstream *u)
{
    const struct upstream_times times = upstream_times(u);
    char why[64];
    uint64_t silent;

    if (since_ms(u, u->heard_ms) >= times.silent)
        upstream_receive(u);
    if (u->state != UPSTREAM_CONNECTED)
        return;
    silent = since_ms(u, u->heard_ms);
    snprintf(why, sizeof why, "nothing has come from the store for %us", times.silent / 1000);
    if (silent >= times.silent)
        upstream_fail(u, why);
    else if (silent >= times.ping)
        upstream_put_frame(u, &(struct relay_frame){.kind = RELAY_PING, .number = ++u->pings});
}

void upstream_tick(struct upstream *u)
{
    if (u->state == UPSTREAM_CONNECTED && u->restart != NULL && u->restart->stage != RESTART_RUNS)
        say_restart(u);
    if (u->state == UPSTREAM_CONNECTED)
        look_alive(u);
    else if (u->state != UPSTREAM_LOOKS_UP && !evtimer_pending(&u->timer, NULL))
        upstream_arm(u, UPSTREAM_RETRY_MOST_MS);
}

/* --- Beginning and end. --- */

void upstream_init(struct upstream *u, struct net *net, struct relay *relay,
                   const struct config *config, const char *space, const struct certificate *tls,
                   uint32_t jitter)
{
    *u = (struct upstream){.net = net,
                           .relay = relay,
                           .config = config,
                           .space = space,
                           .tls_options = tls,
                           .jitter = jitter,
                           .fd = -1};
    outq_init(&u->out);
    event_assign(&u->event, net->base, -1, 0, upstream_on_event, u);
    evtimer_assign(&u->timer, net->base, upstream_on_timer, u);
    if (is_replica(u))
        snprintf(u->journal.name, sizeof u->journal.name, "%s", config->journal.name);
}

int upstream_secure(void *upstream, int fd, SSL **tls)
{
    const struct upstream *u = upstream;

    return certificate_connect(u->tls_options, fd, u->config->upstreams[u->target].host, tls);
}

bool upstream_start(struct upstream *u)
{
    name_target(u);
    return net_set_timer(&u->timer, 0);
}

void upstream_fini(struct upstream *u)
{
    resolve_cancel(u->resolve);
    u->resolve = NULL;
    upstream_disconnect(u);
    evtimer_del(&u->timer);
    relay_link_down(u->relay);
}

bool upstream_is_idle(const struct upstream *u)
{
    return u->state != UPSTREAM_CONNECTED || (u->out.bytes == 0 && !relay_has_output(u->relay));
}

/* If one of several replicas leads, only its refusal counts, and not that the others stand by. Each
 * round of tries asks each address, so a refusal that was not repeated for SAID_AGAIN_MS is
 * outdated: the address may no longer belong to a replica. */
const char *upstream_says(const struct upstream *u, char text[UPSTREAM_SAYS_MAX])
{
    bool refused = u->refusal.text[0] != '\0' && since_ms(u, u->refusal.ms) < SAID_AGAIN_MS;
    bool has_failed = u->said.text[0] != '\0';
    const char *where = refused ? u->refusal.of : has_failed ? u->said.of : u->where;
    const char *why = refused ? u->refusal.text : has_failed ? u->said.text : "connecting";

    if (u->state == UPSTREAM_CONNECTED)
        snprintf(text, UPSTREAM_SAYS_MAX, "connected to %s, rdzvd %s, frames %u", u->where,
                 u->release, u->version);
    else if (!u->relay->welcomed)
        snprintf(text, UPSTREAM_SAYS_MAX, "no store was reached yet, at %s: %s", where, why);
    else
        snprintf(
            text, UPSTREAM_SAYS_MAX, "the store has been away for %.0f s, at %s: %s",
            (double)(clock_monotonic_ns(u->net->engine->options.clock) - u->relay->away_since_ns) /
                1e9,
            where, why);
    return text;
}
