/* TLS of connections. See tls.h for the contract. */
#include "rdzv/net/tls.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "proto/tls/tls.h"

/* --- What is sent and received. --- */

int tls_send_queue(SSL *ssl, struct outq *q, struct out_pool *pool, size_t max)
{
    uint8_t room[TLS_RECORD_MAX];
    size_t sent = 0;

    while (q->bytes > 0 && sent < max) {
        struct slice front = outq_front(q, room, sizeof room);
        ssize_t n = tls_send(ssl, front.ptr, front.len);

        if (n < 0)
            return -errno;
        outq_sent(q, pool, (size_t)n);
        sent += (size_t)n;
    }
    return 0;
}

/* Nanoseconds, see iteration.h: for a call, and for decrypted bytes. */
#define RECORD_COST 1000u
#define BYTES_A_NS  2u

ssize_t conn_recv_tls(struct conn *c, void *bytes, size_t len)
{
    ssize_t n = tls_recv(c->tls, bytes, len);

    budget_spend(&conn_net(c)->budget, RECORD_COST + (n > 0 ? (size_t)n / BYTES_A_NS : 0));
    if (n > 0 && tls_has_pending(c->tls))
        conn_set_unread(c, true);
    return n;
}

/* --- The identity of the peer. --- */

struct search {
    const struct string_list *names;
    bool found;
};

static bool find_name(const struct tls_name *name, void *arg)
{
    struct search *s = arg;

    for (size_t i = 0; i < s->names->count && !s->found; i++) {
        const char *text = s->names->items[i];

        s->found = strlen(text) == name->len &&
                   (name->ignores_case ? strncasecmp(text, name->text, name->len)
                                       : memcmp(text, name->text, name->len)) == 0;
    }
    return !s->found;
}

bool tls_peer_is_one_of(SSL *ssl, const struct string_list *names)
{
    struct search s = {.names = names};
    X509 *certificate = SSL_get0_peer_certificate(ssl);

    if (certificate != NULL && SSL_get_verify_result(ssl) == X509_V_OK)
        tls_each_name(certificate, find_name, &s);
    return s.found;
}

bool tls_peer_is_in_time(SSL *ssl)
{
    X509 *certificate = SSL_get0_peer_certificate(ssl);

    return certificate == NULL || X509_cmp_current_time(X509_get0_notAfter(certificate)) > 0;
}
