/* How a connection begins where there is a certificate. See handshake.h for the contract. */
#include "rdzv/net/handshake.h"

#include <errno.h>
#include <sys/socket.h>

#include "rdzv/net/conn.h"
#include "rdzv/net/refusal.h"
#include "rdzv/net/tls.h"

struct handshake {
    TAILQ_ENTRY(handshake) entry; /* in net->handshakes.open */
    struct conn *conn;
    uint64_t since_ms; /* engine_lived_ms() */
};

/* --- The certificate. --- */

int handshakes_start(struct net *n, const struct config_tls *config)
{
    struct handshakes *all = &n->handshakes;

    TAILQ_INIT(&all->open);
    all->config = config;
    all->certificate = certificate_of_server(config);
    return certificate_start(&all->certificate);
}

/* --- Who may not go on. --- */

static void refuse_client(struct conn *c, enum refusal_reason why, const char *detail)
{
    refusal_note(&conn_net(c)->engine->stats, why, &c->peer, slice_str(detail));
}

/* The client reads what was queued, and our end, before it sees that nobody read the rest. */
static void end_softly(struct conn *c)
{
    c->wire = WIRE_KNOWN;
    conn_finish_draining(c);
    conn_update_events(c);
}

/* As Go's servers say it. */
static const char wants_tls[] = "HTTP/1.0 400 Bad Request\r\n"
                                "Content-Type: text/plain; charset=utf-8\r\n"
                                "Connection: close\r\n"
                                "\r\n"
                                "Client sent an HTTP request to an HTTPS server.\n";

static void refuse_plain(struct conn *c, uint8_t first)
{
    refuse_client(c, REFUSAL_PLAINTEXT, "");
    if (first >= 'A' && first <= 'Z')
        conn_put(c, wants_tls, sizeof wants_tls - 1);
    end_softly(c);
}

void handshake_refuse(struct conn *c)
{
    static const uint8_t alert[] = {0x15, 3, 3, 0, 2, 2, 40}; /* fatal: handshake_failure */

    refuse_client(
        c, REFUSAL_TLS,
        "there is no certificate here: give rdzvd --cert and --key, or use http:// there");
    conn_put(c, alert, sizeof alert);
    end_softly(c);
}

static bool may_speak_plain(const struct conn *c)
{
    const struct config_plaintext *p = &conn_net(c)->handshakes.config->plaintext_for;
    enum listen_wire wire = c->listener->spec->wire;

    return peer_is_unix(&c->peer) || wire == LISTEN_PLAIN ||
           (wire == LISTEN_BY_SETTING &&
            (p->everybody || cidr_list_has(&p->networks, c->peer.address)));
}

/* --- A handshake. --- */

static void handshake_end(struct conn *c)
{
    struct handshakes *all = &conn_net(c)->handshakes;
    struct handshake *h = c->session.aligned;

    TAILQ_REMOVE(&all->open, h, entry);
    all->count--;
    account_free(ACCOUNT_TLS, h, sizeof *h);
    c->session.aligned = NULL;
}

/* The protocol of a connection during its handshake. It has no read(): transport calls
 * handshake_run() instead. */
static const struct protocol handshake_protocol = {.name = "tls", .end = handshake_end};

static void handshake_fail(struct conn *c, const char *why)
{
    conn_net(c)->handshakes.failed++;
    refuse_client(c, REFUSAL_TLS, why);
    conn_close(c, why);
}

/* If TLS has sent an alert, the client must be able to read it: see end_softly(). Always false. */
static bool fail_softly(struct conn *c, const char *why)
{
    conn_net(c)->handshakes.failed++;
    refuse_client(c, REFUSAL_TLS, why);
    handshake_end(c);
    c->protocol = NULL;
    tls_free(c->tls);
    c->tls = NULL;
    end_softly(c);
    return false;
}

/* OpenSSL reports a lack of memory by many codes. */
static int handshake_step(SSL *ssl)
{
    uint64_t refused = account.refused;
    int result = tls_handshake(ssl);

    return result == -EPROTO && account.refused != refused ? -ENOMEM : result;
}

/* TLS is done. Then the client must be one of --client-names, also by a certificate of an earlier
 * session. The first bytes of the connection choose its protocol. False: it was refused. */
static bool handshake_settle(struct conn *c)
{
    struct handshakes *all = &conn_net(c)->handshakes;
    const struct string_list *names = &all->config->client_names;

    /* With --client-cert=optional a client may have none, and --client-names does not bind it. */
    if (names->count > 0 && SSL_get0_peer_certificate(c->tls) != NULL &&
        !tls_peer_is_one_of(c->tls, names))
        return fail_softly(c, "its certificate has no name of --client-names");
    if (SSL_session_reused(c->tls) == 1 && !tls_peer_is_in_time(c->tls))
        return fail_softly(c, "it resumes a session whose certificate has expired");
    handshake_end(c);
    c->protocol = NULL;
    c->wire = WIRE_KNOWN;
    all->done++;
    all->resumed += SSL_session_reused(c->tls) == 1;
    conn_update_events(c);
    return true;
}

/* The next step is that of the client, or of the socket. */
static void handshake_wait(struct conn *c)
{
    bool writes = tls_wants_write(c->tls);

    conn_set_output(c, writes ? OUTPUT_BLOCKED : OUTPUT_IDLE);
    conn_set_input(c, writes ? INPUT_HELD : INPUT_READY);
    conn_update_events(c);
}

static bool handshake_continue(struct conn *c)
{
    char why[TLS_WHY_MAX];
    int result;

    if (!conn_is_open(c)) {
        conn_close(c, "the daemon stops");
        return false;
    }
    if (!conn_begin_slice(c)) {
        conn_set_input(c, INPUT_DEFERRED);
        conn_update_events(c);
        return false;
    }
    conn_set_input(c, INPUT_READY);
    conn_set_output(c, OUTPUT_IDLE);
    result = handshake_step(c->tls);
    conn_end_slice(c);
    if (result == 0)
        return handshake_settle(c);
    if (result == -EAGAIN)
        handshake_wait(c);
    else if (result == -EPROTO)
        fail_softly(c, tls_why(c->tls, why));
    else if (result == -ENOMEM)
        CONN_DROP_FOR_MEMORY(c, "TLS");
    else
        conn_fail(c, -result);
    return false;
}

static bool handshake_begin(struct conn *c)
{
    struct net *n = conn_net(c);
    struct handshakes *all = &n->handshakes;
    struct handshake *h = account_request_zeroed(ACCOUNT_TLS, conn_class(c), sizeof *h);

    c->tls = h == NULL ? NULL : tls_server(all->certificate.context, c->fd);
    if (c->tls == NULL) {
        account_free(ACCOUNT_TLS, h, sizeof *h);
        CONN_DROP_FOR_MEMORY(c, "TLS");
        return false;
    }
    if (all->count == HANDSHAKES_MAX)
        handshake_fail(TAILQ_FIRST(&all->open)->conn,
                       "too many open handshakes, and this one was the oldest");
    h->conn = c;
    h->since_ms = engine_lived_ms(n->engine);
    TAILQ_INSERT_TAIL(&all->open, h, entry);
    all->count++;
    c->protocol = &handshake_protocol;
    c->session.aligned = h;
    c->wire = WIRE_HANDSHAKE;
    return handshake_continue(c);
}

/* Looks at the first byte and leaves it in the socket, for TLS or for the protocol. */
static bool handshake_peek(struct conn *c)
{
    uint8_t first = 0;
    ssize_t got = recv(c->fd, &first, 1, MSG_PEEK);

    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (got == 1 && first == TLS_FIRST_BYTE)
        return handshake_begin(c);
    if (got == 1 && !may_speak_plain(c)) {
        refuse_plain(c, first);
        return false;
    }
    c->wire = WIRE_KNOWN;
    return true;
}

bool handshake_run(struct conn *c)
{
    return c->wire == WIRE_UNKNOWN ? handshake_peek(c) : handshake_continue(c);
}

void handshakes_tick(struct net *n)
{
    struct handshakes *all = &n->handshakes;
    uint64_t now = engine_lived_ms(n->engine);
    struct handshake *h;

    certificate_tick(&all->certificate);
    while ((h = TAILQ_FIRST(&all->open)) != NULL &&
           clock_elapsed_ms(h->since_ms, now) >= HANDSHAKE_MS)
        handshake_fail(h->conn, "the handshake took longer than 10s");
}
