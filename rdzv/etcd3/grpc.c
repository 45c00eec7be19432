/* The connection of the gRPC client, and its calls on it. See grpc.h for the contract. */
#include "rdzv/etcd3/grpc.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <unistd.h>

#include "proto/tls/tls.h"
#include "rdzv/etcd3/grpc_session.h"
#include "rdzv/net/net.h"

#define CONNECT_MS 1000u
#define RETRY_MS   200u
#define RETRY_MOST 2000u

/* What is read at a time. */
#define READ_SIZE (64u << 10)

static uint64_t grpc_now_ms(const struct grpc *g)
{
    return clock_monotonic_ms(g->options.clock);
}

/* --- The end of calls and of connections. --- */

static void drop_call(struct grpc_call *call)
{
    LIST_REMOVE(call, entry);
    stream_fini(&call->in);
    call->grpc = NULL;
}

void grpc_end_call(struct grpc_call *call)
{
    struct stream in = call->in;
    struct grpc_answer answer = {.code = call->code, .text = call->text};

    if (call->code == 0)
        grpc_message(call, &answer);
    call->in = (struct stream){0}; /* until its end is notified: it may make the call again */
    drop_call(call);
    call->tell(call->arg, &answer);
    stream_fini(&in);
}

/* Ended calls are notified when the session is done with its bytes: they may start new calls. */
static void notify_ended(struct grpc *g)
{
    struct grpc_call *call;

    while ((call = LIST_FIRST(&g->ended)) != NULL)
        grpc_end_call(call);
}

/* The first round over the endpoints is at once, then it takes longer and longer. */
static uint64_t pause_ms(const struct grpc *g)
{
    uint64_t ms = RETRY_MS << (g->failures / 4);

    return g->failures < g->options.endpoint_count ? 0 : ms < RETRY_MOST ? ms : RETRY_MOST;
}

/* Gives up the present address. */
static void grpc_close_socket(struct grpc *g)
{
    event_del(&g->event);
    if (g->fd >= 0)
        g->failed = g->addresses[g->at - 1];
    tls_free(g->ssl);
    g->ssl = NULL;
    if (g->fd >= 0)
        close(g->fd);
    g->fd = -1;
}

/* Looks the name up again, for its next address; or the next endpoint follows. */
static void choose_next(struct grpc *g, bool was_up)
{
    g->next_ms = grpc_now_ms(g);
    if (g->tried < g->address_count)
        return;
    if (!was_up && g->target < 64)
        g->unreached |= UINT64_C(1) << g->target;
    g->failures += g->failures < 20;
    g->next_ms += pause_ms(g);
    g->target = (g->target + 1) % g->options.endpoint_count;
    g->tried = 0;
}

static void grpc_disconnect(struct grpc *g, const char *why)
{
    bool was_up = g->state == GRPC_UP;
    struct grpc_call *call;

    snprintf(g->reason, sizeof g->reason, "%s %s", g->where, why);
    memcpy(g->failed_endpoint, g->where, sizeof g->failed_endpoint);
    resolve_cancel(g->resolve);
    g->resolve = NULL;
    grpc_close_socket(g);
    grpc_session_end(g);
    g->state = GRPC_DOWN;
    choose_next(g, was_up);
    notify_ended(g);
    while ((call = LIST_FIRST(&g->calls)) != NULL) {
        call->code = GRPC_UNCLEAR;
        snprintf(call->text, sizeof call->text, "%.*s", (int)sizeof call->text - 1, g->reason);
        grpc_end_call(call);
    }
    if (was_up)
        g->options.link(g->options.arg, false);
}

void grpc_leave(struct grpc *g, const char *why)
{
    if (g->state == GRPC_UP)
        g->broken = why;
}

/* --- Bytes. --- */

/* What libevent watches for. */
static bool grpc_watch(struct grpc *g, bool writes)
{
    short mask = (short)(EV_READ | (writes ? EV_WRITE : 0));

    if (event_pending(&g->event, EV_READ | EV_WRITE, NULL) == mask)
        return true;
    event_del(&g->event);
    event_assign(&g->event, g->options.base, g->fd, (short)(mask | EV_PERSIST),
                 event_get_callback(&g->event), g);
    return net_add_event(&g->event, NULL);
}

/* Of the last call of tls.h, which failed: what, and what to do. */
static const char *grpc_tls_fault(struct grpc *g)
{
    char text[TLS_WHY_MAX];
    const char *hint = tls_hint(tls_why(g->ssl, text))->text;

    snprintf(g->why, sizeof g->why, "fails the TLS handshake: %s%s%s", text,
             hint == NULL ? "" : "; ", hint == NULL ? "" : hint);
    return g->why;
}

/* NULL, or what is wrong. */
static const char *grpc_send_some(struct grpc *g)
{
    for (;;) {
        ssize_t n;

        if (g->out.len == 0 && !grpc_session_output(g, &g->out))
            return "speaks no HTTP/2";
        if (g->out.len == 0)
            return grpc_watch(g, false) ? NULL : "cannot be polled";
        n = tls_or_send(g->ssl, g->fd, g->out.ptr, g->out.len);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return grpc_watch(g, true) ? NULL : "cannot be polled";
        if (n < 0)
            return "closed the connection";
        g->out.ptr += n;
        g->out.len -= (size_t)n;
    }
}

static const char *grpc_receive(struct grpc *g)
{
    static uint8_t bytes[READ_SIZE]; /* one thread, and no call from within */

    do {
        ssize_t n = tls_or_recv(g->ssl, g->fd, bytes, sizeof bytes);

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return NULL;
        if (n < 0 && errno == EPROTO)
            return grpc_tls_fault(g);
        if (n <= 0)
            return "closed the connection";
        if (!grpc_session_input(g, bytes, (size_t)n))
            return "speaks no HTTP/2";
        g->failures = 0;
    } while (g->ssl != NULL && tls_has_pending(g->ssl));
    return NULL;
}

/* Sending also ends calls that need no more answer. */
static void grpc_continue(struct grpc *g, const char *why)
{
    do {
        notify_ended(g);
        if (g->state == GRPC_UP && why == NULL)
            why = grpc_send_some(g);
    } while (why == NULL && !LIST_EMPTY(&g->ended));
    if (why == NULL && g->state == GRPC_UP && LIST_EMPTY(&g->calls) && !grpc_session_takes_calls(g))
        why = "takes no more calls";
    if (why != NULL && g->state != GRPC_DOWN)
        grpc_disconnect(g, why);
}

/* --- Connecting. --- */

static void grpc_connect_next(struct grpc *g);

static void begin_session(struct grpc *g)
{
    if (!grpc_session_begin(g)) {
        grpc_disconnect(g, "cannot be spoken to: memory is short");
        return;
    }
    g->state = GRPC_UP;
    if (g->target < 64)
        g->unreached &= ~(UINT64_C(1) << g->target);
    g->reason[0] = '\0';
    g->options.link(g->options.arg, true);
    grpc_continue(g, NULL);
}

static void grpc_go_on_connecting(struct grpc *g)
{
    int error =
        certificate_connect(g->options.tls, g->fd, g->options.endpoints[g->target].host, &g->ssl);

    if (error == 0)
        begin_session(g);
    else if (error == -ENOMEM)
        grpc_disconnect(g, "cannot be spoken to: memory is short");
    else if (g->ssl == NULL)
        grpc_connect_next(g);
    else if (error != -EAGAIN)
        grpc_disconnect(g, grpc_tls_fault(g));
    else if (!grpc_watch(g, tls_wants_write(g->ssl)))
        grpc_disconnect(g, "cannot be polled");
}

static void grpc_on_event(evutil_socket_t, short what, void *arg)
{
    struct grpc *g = arg;
    const char *why = NULL;

    if (g->state == GRPC_CONNECTS) {
        grpc_go_on_connecting(g);
        return;
    }
    if (what & EV_READ)
        why = grpc_receive(g);
    grpc_continue(g, why);
}

/* Connects to the endpoint's next address; after the last one, the next endpoint follows later. */
static void grpc_connect_next(struct grpc *g)
{
    const int yes = 1;

    grpc_close_socket(g);
    while (g->at < g->address_count) {
        const union resolve_address *a = &g->addresses[g->at++];

        g->tried++;
        g->fd = socket(a->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (g->fd < 0)
            continue;
        setsockopt(g->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
        if ((connect(g->fd, &a->any, resolve_address_len(a)) == 0 || errno == EINPROGRESS) &&
            grpc_watch(g, true)) {
            g->state = GRPC_CONNECTS;
            g->next_ms = grpc_now_ms(g) + CONNECT_MS;
            return;
        }
        grpc_close_socket(g);
    }
    grpc_disconnect(g, "cannot be reached");
}

/* Begins behind the address that failed last: the name's servers, or /etc/hosts, may always list
 * them in one order, and the first may be that of a member that accepts connections and is mute. */
static void grpc_on_resolved(void *arg, const union resolve_address *addresses, size_t count,
                             const char *why)
{
    struct grpc *g = arg;
    size_t first = 0;

    g->resolve = NULL;
    if (count == 0) {
        grpc_disconnect(g, why);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        if (memcmp(&addresses[i], &g->failed, resolve_address_len(&addresses[i])) == 0)
            first = i + 1;
    }
    for (size_t i = 0; i < count; i++)
        g->addresses[i] = addresses[(first + i) % count];
    g->address_count = count;
    g->at = 0;
    grpc_connect_next(g);
}

static void grpc_look_up(struct grpc *g)
{
    const struct upstream_spec *spec = &g->options.endpoints[g->target];

    snprintf(g->where, sizeof g->where, strchr(spec->host, ':') != NULL ? "[%s]:%u" : "%s:%u",
             spec->host, spec->port);
    g->state = GRPC_LOOKS_UP;
    g->address_count = g->at = 0;
    g->next_ms = grpc_now_ms(g) + CONNECT_MS * 5;
    g->resolve = resolve_start(g->options.base, spec->host, spec->port, grpc_on_resolved, g);
    if (g->resolve == NULL)
        grpc_disconnect(g, "cannot be looked up");
}

/* --- Calls. --- */

bool grpc_start(struct grpc *g, struct grpc_call *call, const char *path, struct slice request,
                uint64_t patience_ms)
{
    if (g->state != GRPC_UP || !grpc_session_takes_calls(g) || grpc_is_under_way(call))
        return false;
    call->request = request;
    call->code = GRPC_UNCLEAR;
    call->text[0] = '\0';
    call->until_ms = grpc_now_ms(g) + patience_ms;
    if (!grpc_session_submit(g, call, path))
        return false;
    call->grpc = g;
    LIST_INSERT_HEAD(&g->calls, call, entry);
    /* What cannot be sent now is noted by the loop: this may be within a call's tell(). */
    if (g->broken == NULL)
        g->broken = grpc_send_some(g);
    return true;
}

void grpc_cancel(struct grpc_call *call)
{
    if (call->grpc == NULL)
        return;
    grpc_session_forget(call->grpc, call);
    drop_call(call);
}

void grpc_set_token(struct grpc *g, const char *token)
{
    snprintf(g->token, sizeof g->token, "%s", token == NULL ? "" : token);
}

void grpc_tick(struct grpc *g)
{
    const struct grpc_call *call;
    uint64_t now = grpc_now_ms(g);

    if (g->state == GRPC_DOWN && now >= g->next_ms)
        grpc_look_up(g);
    else if (g->state > GRPC_DOWN && g->state < GRPC_UP) {
        if (now >= g->next_ms)
            grpc_disconnect(g, "does not answer");
    } else if (g->state == GRPC_UP) {
        LIST_FOREACH(call, &g->calls, entry) {
            if (now >= call->until_ms)
                break;
        }
        if (g->broken != NULL || call != NULL)
            grpc_disconnect(g, g->broken != NULL ? g->broken : "does not answer");
        else if (!LIST_EMPTY(&g->ended))
            grpc_continue(g, NULL); /* of another call that was being made */
    }
}

struct grpc_status grpc_status(const struct grpc *g)
{
    return (struct grpc_status){.where = g->where,
                                .reason = g->reason,
                                .failed_endpoint = g->failed_endpoint,
                                .unreached = (unsigned)__builtin_popcountll(g->unreached)};
}

struct grpc *grpc_new(const struct grpc_options *options)
{
    struct grpc *g = account_request_zeroed(ACCOUNT_JOURNAL, ACCOUNT_ORDINARY, sizeof *g);

    if (g == NULL)
        return NULL;
    g->options = *options;
    g->fd = -1;
    event_assign(&g->event, options->base, -1, 0, grpc_on_event, g);
    LIST_INIT(&g->calls);
    LIST_INIT(&g->ended);
    g->target = options->first % options->endpoint_count;
    grpc_look_up(g);
    return g;
}

void grpc_free(struct grpc *g)
{
    struct grpc_call *call;

    if (g == NULL)
        return;
    while ((call = LIST_FIRST(&g->ended)) != NULL)
        drop_call(call);
    while ((call = LIST_FIRST(&g->calls)) != NULL)
        drop_call(call);
    g->state = GRPC_LOOKS_UP; /* no caller is notified of the end */
    grpc_disconnect(g, "is let go");
    account_free(ACCOUNT_JOURNAL, g, sizeof *g);
}
